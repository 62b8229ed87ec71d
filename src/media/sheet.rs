//! A contact sheet: the frames that a judge saw, for people to look at.
//!
//! Invariant: the sheet is bounded whatever the frames are, and the same frames give the same bytes.

use image::imageops::{self, FilterType};
use image::{ImageBuffer, Rgb, RgbImage};

use super::{Frame, FrameIndex};

/// The widest a picture is on the sheet, and the tallest.
const WIDEST: u32 = 320;
const TALLEST: u32 = 320;
/// The space around and between pictures.
const MARGIN: u32 = 12;
/// The space between a picture and its caption.
const GAP: u32 = 6;
/// The border around a picture that may not be right.
const BORDER: u32 = 4;
/// The most frames on a sheet, so that it stays a picture that can be opened.
const MOST: usize = 400;

const BACKGROUND: Rgb<u8> = Rgb([40, 42, 46]);
const TEXT: Rgb<u8> = Rgb([222, 224, 228]);
const DAMAGED: Rgb<u8> = Rgb([230, 40, 40]);

/// Draws frames in a grid of rows, each with its number and its time below it. Frames whose number is among `damaged`
/// have a red border. Pictures are made smaller where they have to be, never larger. After 400 frames, the rest is left
/// out and a last line says how many.
pub fn sheet(frames: &[Frame], damaged: &[FrameIndex]) -> RgbImage {
    let shown = frames.get(..MOST).unwrap_or(frames);
    let left_out = frames.len() - shown.len();
    let captions: Vec<String> = shown.iter().map(caption).collect();
    let widest_text = captions.iter().map(|text| font::width(text)).max().unwrap_or(0);
    let sizes: Vec<(u32, u32)> = shown.iter().map(|frame| fitted(frame.width, frame.height)).collect();
    let cell_width = sizes.iter().map(|size| size.0).max().unwrap_or(0).max(widest_text).min(2 * WIDEST);
    let picture_height = sizes.iter().map(|size| size.1).max().unwrap_or(0);
    let cell_height = picture_height + GAP + font::HEIGHT;

    let columns = columns(shown.len(), cell_width + MARGIN, cell_height + MARGIN);
    let rows = (shown.len() as u32).div_ceil(columns);
    let note = (left_out > 0).then(|| format!("+{left_out} more"));
    let note_height = if note.is_some() { font::HEIGHT + MARGIN } else { 0 };
    let width = MARGIN + columns * (cell_width + MARGIN);
    let height = MARGIN + rows * (cell_height + MARGIN) + note_height;
    let mut sheet = RgbImage::from_pixel(width, height, BACKGROUND);

    for (place, ((frame, size), text)) in (0u32..).zip(shown.iter().zip(&sizes).zip(&captions)) {
        let left = MARGIN + place % columns * (cell_width + MARGIN);
        let top = MARGIN + place / columns * (cell_height + MARGIN);
        // Pictures stand on a line, in the middle of their cells.
        let x = left + (cell_width - size.0) / 2;
        let y = top + (picture_height - size.1);
        if damaged.contains(&frame.index) {
            fill(&mut sheet, x - BORDER, y - BORDER, size.0 + 2 * BORDER, size.1 + 2 * BORDER, DAMAGED);
        }
        if let Some(picture) = thumbnail(frame, *size) {
            imageops::replace(&mut sheet, &picture, i64::from(x), i64::from(y));
        }
        let middle = left + cell_width.saturating_sub(font::width(text)) / 2;
        font::draw(&mut sheet, middle, top + picture_height + GAP, text, TEXT);
    }
    if let Some(note) = note {
        font::draw(&mut sheet, MARGIN, height - MARGIN - font::HEIGHT, &note, TEXT);
    }
    sheet
}

fn caption(frame: &Frame) -> String {
    // A time that makes no sense could be hundreds of digits long.
    let time = if frame.time.abs() < 1e9 { format!("{:.3} s", frame.time) } else { "- s".to_owned() };
    format!("#{} {time}", frame.index.0)
}

/// The size of a picture on the sheet: its shape is kept, except that no side vanishes.
fn fitted(width: u32, height: u32) -> (u32, u32) {
    let (w, h) = (f64::from(width.max(1)), f64::from(height.max(1)));
    let scale = (f64::from(WIDEST) / w).min(f64::from(TALLEST) / h).min(1.0);
    (((w * scale).round() as u32).clamp(1, WIDEST), ((h * scale).round() as u32).clamp(1, TALLEST))
}

/// As many columns as make the sheet about twice as wide as it is high; one more or fewer where that fills the last
/// row.
fn columns(count: usize, cell_width: u32, cell_height: u32) -> u32 {
    let count = count.clamp(1, MOST) as u32;
    let best = (f64::from(count) * 2.0 * f64::from(cell_height) / f64::from(cell_width)).sqrt().round();
    let best = (best as u32).clamp(1, count);
    let full = |columns: &u32| (1..=count).contains(columns) && count.is_multiple_of(*columns);
    [best, best + 1, best - 1].into_iter().find(full).unwrap_or(best)
}

/// A frame in its size on the sheet; `None` if its pixels are not all there.
fn thumbnail(frame: &Frame, (width, height): (u32, u32)) -> Option<RgbImage> {
    if (frame.width, frame.height) == (width, height) {
        return RgbImage::from_raw(width, height, frame.rgb.clone());
    }
    let picture = ImageBuffer::<Rgb<u8>, &[u8]>::from_raw(frame.width, frame.height, &frame.rgb)?;
    Some(imageops::resize(&picture, width, height, FilterType::CatmullRom))
}

fn fill(sheet: &mut RgbImage, x: u32, y: u32, width: u32, height: u32, colour: Rgb<u8>) {
    for (x, y) in (y..y + height).flat_map(|y| (x..x + width).map(move |x| (x, y))) {
        if let Some(pixel) = sheet.get_pixel_mut_checked(x, y) {
            *pixel = colour;
        }
    }
}

/// The letters that captions need, five dots wide and seven high, drawn twice as large.
mod font {
    use image::{Rgb, RgbImage};

    const SCALE: u32 = 2;
    const COLUMNS: u32 = 5;
    const ROWS: usize = 7;
    /// From one letter to the next.
    const STEP: u32 = (COLUMNS + 1) * SCALE;
    /// The height of a line.
    pub(super) const HEIGHT: u32 = ROWS as u32 * SCALE;

    /// How wide a text is.
    pub(super) fn width(text: &str) -> u32 {
        (text.chars().count() as u32 * STEP).saturating_sub(SCALE)
    }

    /// Draws a text with its upper left corner at a place. What falls outside of the picture is left out.
    pub(super) fn draw(sheet: &mut RgbImage, x: u32, y: u32, text: &str, colour: Rgb<u8>) {
        for (place, letter) in (0u32..).zip(text.chars()) {
            for (row, dots) in (0u32..).zip(glyph(letter)) {
                for column in (0..COLUMNS).filter(|column| dots >> (COLUMNS - 1 - column) & 1 == 1) {
                    let (left, top) = (x + place * STEP + column * SCALE, y + row * SCALE);
                    super::fill(sheet, left, top, SCALE, SCALE, colour);
                }
            }
        }
    }

    /// The rows of a letter from the top, the leftmost dot in the highest of five bits.
    fn glyph(letter: char) -> [u8; ROWS] {
        match letter {
            '0' => [0b01110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110],
            '1' => [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
            '2' => [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111],
            '3' => [0b11110, 0b00001, 0b00001, 0b01110, 0b00001, 0b00001, 0b11110],
            '4' => [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
            '5' => [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
            '6' => [0b01110, 0b10000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
            '7' => [0b11111, 0b00001, 0b00010, 0b00010, 0b00100, 0b00100, 0b00100],
            '8' => [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
            '9' => [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00001, 0b01110],
            '#' => [0b01010, 0b01010, 0b11111, 0b01010, 0b11111, 0b01010, 0b01010],
            '.' => [0, 0, 0, 0, 0, 0b01100, 0b01100],
            '-' => [0, 0, 0, 0b11111, 0, 0, 0],
            '+' => [0, 0b00100, 0b00100, 0b11111, 0b00100, 0b00100, 0],
            's' => [0, 0, 0b01111, 0b10000, 0b01110, 0b00001, 0b11110],
            'm' => [0, 0, 0b11010, 0b10101, 0b10101, 0b10101, 0b10101],
            'o' => [0, 0, 0b01110, 0b10001, 0b10001, 0b10001, 0b01110],
            'r' => [0, 0, 0b10110, 0b11001, 0b10000, 0b10000, 0b10000],
            'e' => [0, 0, 0b01110, 0b10001, 0b11111, 0b10000, 0b01110],
            _ => [0; ROWS],
        }
    }
}
