//! The contact sheet: where things are on it, and that nothing makes it grow or fail.

use capjudge::media::sheet::sheet;
use capjudge::media::{Frame, FrameIndex};

const BACKGROUND: [u8; 3] = [40, 42, 46];
const TEXT: [u8; 3] = [222, 224, 228];
const RED: [u8; 3] = [230, 40, 40];

fn frame(index: u64, width: u32, height: u32, colour: [u8; 3]) -> Frame {
    let rgb = colour.repeat((width * height) as usize);
    Frame { index: FrameIndex(index), time: index as f64 / 30.0, width, height, rgb }
}

fn count(sheet: &image::RgbImage, colour: [u8; 3], x: std::ops::Range<u32>, y: std::ops::Range<u32>) -> usize {
    y.flat_map(|y| x.clone().map(move |x| (x, y))).filter(|(x, y)| sheet.get_pixel(*x, *y).0 == colour).count()
}

#[test]
fn a_sheet_has_a_grid_of_pictures_with_their_numbers_and_times() {
    let frames: Vec<Frame> =
        (0..6).map(|i| frame(i * 40, 320 + 16 * (i as u32 % 2), 180 + 9 * (i as u32 % 2), [10, 200, 30])).collect();
    let drawn = sheet(&frames, &[FrameIndex(80)]);
    // Three in a row and two rows of pictures of 320 × 180, with 6 + 14 pixels for the caption and 12 between all.
    assert_eq!(drawn.dimensions(), (12 + 3 * 332, 12 + 2 * (180 + 20 + 12)));
    for column in 0..3 {
        for row in 0..2 {
            let (x, y) = (12 + column * 332, 12 + row * 212);
            assert_eq!(count(&drawn, [10, 200, 30], x..x + 320, y..y + 180), 320 * 180, "{column} {row}");
            let letters = count(&drawn, TEXT, x..x + 320, y + 186..y + 200);
            assert!(letters > 300, "{column} {row}: {letters}");
            assert_eq!(count(&drawn, TEXT, x..x + 320, y + 180..y + 186), 0);
        }
    }
    // The border of the third picture, four wide, and nowhere else.
    let border = (328 * 188 - 320 * 180) as usize;
    assert_eq!(count(&drawn, RED, 0..drawn.width(), 0..drawn.height()), border);
    assert_eq!(count(&drawn, RED, 12 + 664 - 4..12 + 664 + 324, 8..12 + 184), border);
    assert_eq!(drawn.get_pixel(0, 0).0, BACKGROUND);
}

#[test]
fn a_caption_is_drawn_dot_by_dot() {
    let drawn = sheet(&[frame(7, 100, 20, [0, 0, 0])], &[]);
    // "#7 0.233 s" is ten letters of 12 pixels without the last gap, wider than the picture.
    assert_eq!(drawn.dimensions(), (24 + 118, 12 + 20 + 6 + 14 + 12));
    let row = |y: u32| -> String {
        (0..12).map(|dot| if drawn.get_pixel(12 + dot * 2, 38 + y * 2).0 == TEXT { '#' } else { '.' }).collect()
    };
    let rows: Vec<String> = (0..7).map(row).collect();
    let expected = [
        ".#.#..#####.", ".#.#......#.", "#####....#..", ".#.#.....#..", "#####...#...", ".#.#....#...", ".#.#....#...",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn the_same_frames_give_the_same_bytes() {
    let noisy: Vec<Frame> = (0..2u64)
        .map(|i| {
            let rgb = (0..330 * 60 * 3u64).map(|at| (at.wrapping_mul(2654435761 + i) >> 7) as u8).collect();
            Frame { index: FrameIndex(i), time: i as f64, width: 330, height: 60, rgb }
        })
        .collect();
    assert_eq!(sheet(&noisy, &[]).into_raw(), sheet(&noisy, &[]).into_raw());
}

#[test]
fn a_sheet_is_bounded_and_odd_frames_do_no_harm() {
    assert_eq!(sheet(&[], &[]).width(), 24);
    let many: Vec<Frame> = (0..1000).map(|i| frame(i, 2, 2, [9, 9, 9])).collect();
    let drawn = sheet(&many, &[]);
    assert!(drawn.width() < 4000 && drawn.height() < 4000, "{:?}", drawn.dimensions());
    // The note on those that are left out stands below the last row.
    let (width, height) = drawn.dimensions();
    assert!(count(&drawn, TEXT, 0..width, height - 26..height - 12) > 50);
    let mut odd = frame(u64::MAX, 900, 1, [1, 2, 3]);
    odd.time = f64::MAX;
    let mut short = frame(1, 50, 50, [1, 2, 3]);
    short.rgb.truncate(7);
    short.time = f64::NAN;
    let empty = Frame { index: FrameIndex(0), time: -1.0, width: 0, height: 0, rgb: Vec::new() };
    let drawn = sheet(&[odd, short, empty, frame(3, 1, 900, [1, 2, 3])], &[FrameIndex(u64::MAX), FrameIndex(3)]);
    assert!(drawn.width() < 2000 && drawn.height() < 2000);
}
