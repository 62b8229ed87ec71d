//! The one way from a decoder's planes to upright RGB.
//!
//! Invariant: the same picture gives the same bytes on every machine and from every decoder. All arithmetic is on
//! integers, and each value is the exact formula's, rounded, to within one. Each chroma sample serves its whole block
//! of pixels, as in the plain conversion of libswscale, through which the training data of most models went.

use super::MediaError;
use super::container::Turn;
use super::picture::{Colour, Layout, Matrix, Picture, Planes};

/// Fraction bits of the coefficients. The largest sum, a bright blue in BT.2020, stays below 2^30.
const FRACTION: u32 = 20;

/// A picture as upright RGB: width, height, and three bytes a pixel, row by row. The picture is first mirrored left to
/// right if it has to be, then turned clockwise.
pub fn to_rgb(picture: &Picture, turn: Turn) -> Result<(u32, u32, Vec<u8>), MediaError> {
    let size = Size::of(picture)?;
    let rgb = match &picture.planes {
        Planes::U8(planes) if picture.depth == 8 => convert(picture, &size, planes)?,
        Planes::U16(planes) if (8..=16).contains(&picture.depth) => convert(picture, &size, planes)?,
        Planes::U8(_) | Planes::U16(_) => {
            return Err(MediaError::Unsupported(format!("samples of {} bits are not supported", picture.depth)));
        }
    };
    Ok(turned(picture.width, picture.height, rgb, turn))
}

/// A sample of a plane.
trait Sample: Copy {
    /// The sample as a number of at most `depth` bits: bits above that are a decoder's mistake, and must not overflow.
    fn number(self, largest: i32) -> i32;
}

impl Sample for u8 {
    fn number(self, _: i32) -> i32 {
        i32::from(self)
    }
}

impl Sample for u16 {
    fn number(self, largest: i32) -> i32 {
        i32::from(self).min(largest)
    }
}

/// Sizes of the planes, checked not to overflow.
struct Size {
    width: usize,
    height: usize,
    chroma_width: usize,
    chroma_height: usize,
    bytes: usize,
}

impl Size {
    fn of(picture: &Picture) -> Result<Self, MediaError> {
        let too_large = || MediaError::Damaged(format!("no picture is {} × {}", picture.width, picture.height));
        let whole = |number: u32| usize::try_from(number).map_err(|_| too_large());
        let (width, height) = (whole(picture.width)?, whole(picture.height)?);
        let (chroma_width, chroma_height) = picture.layout.chroma(picture.width, picture.height);
        let bytes = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(3)).ok_or_else(too_large)?;
        if bytes == 0 {
            return Err(too_large());
        }
        Ok(Self { width, height, chroma_width: whole(chroma_width)?, chroma_height: whole(chroma_height)?, bytes })
    }
}

/// Converts the planes, row by row.
fn convert<S: Sample>(picture: &Picture, size: &Size, planes: &[Vec<S>; 3]) -> Result<Vec<u8>, MediaError> {
    let [luma, cb, cr] = planes;
    let fits = luma.len() == size.width * size.height
        && [cb, cr].iter().all(|plane| plane.len() == size.chroma_width * size.chroma_height);
    if !fits {
        return Err(MediaError::Damaged(format!(
            "planes of {}, {} and {} samples are no picture of {} × {}",
            luma.len(),
            cb.len(),
            cr.len(),
            size.width,
            size.height
        )));
    }
    let mut rgb = vec![0; size.bytes];
    let pixels = rgb.chunks_exact_mut(size.width * 3);
    let lumas = luma.chunks_exact(size.width);
    let scale = Scale::new(picture.colour, picture.depth);
    let mut row = Row::new(size.width);
    match (picture.layout, picture.colour.matrix) {
        (Layout::Gray, _) => {
            for (out, luma) in pixels.zip(lumas) {
                scale.copy(luma, &mut row.green);
                interleave(&row.green, &row.green, &row.green, out);
            }
        }
        (Layout::Yuv444, Matrix::Identity) => {
            let others = cb.chunks_exact(size.width).zip(cr.chunks_exact(size.width));
            for ((out, green), (blue, red)) in pixels.zip(lumas).zip(others) {
                scale.copy(green, &mut row.green);
                scale.copy(blue, &mut row.blue);
                scale.copy(red, &mut row.red);
                interleave(&row.red, &row.green, &row.blue, out);
            }
        }
        (layout, _) => {
            let wide = matches!(layout, Layout::Yuv420 | Layout::Yuv422);
            let rows = if matches!(layout, Layout::Yuv420 | Layout::Yuv440) { 2 } else { 1 };
            let mut lines = pixels.zip(lumas);
            for (cb, cr) in cb.chunks_exact(size.chroma_width).zip(cr.chunks_exact(size.chroma_width)) {
                scale.chroma(cb, cr, wide, &mut row);
                for (out, luma) in lines.by_ref().take(rows) {
                    scale.luma(luma, &mut row);
                    interleave(&row.red, &row.green, &row.blue, out);
                }
            }
        }
    }
    Ok(rgb)
}

/// One row on its way: what chroma adds to each colour, for each pixel and one more where the width is odd; and the
/// colours.
struct Row {
    add_red: Vec<i32>,
    add_green: Vec<i32>,
    add_blue: Vec<i32>,
    red: Vec<u8>,
    green: Vec<u8>,
    blue: Vec<u8>,
}

impl Row {
    fn new(width: usize) -> Self {
        let (add, colour) = (vec![0; width + width % 2], vec![0; width]);
        Self {
            add_red: add.clone(),
            add_green: add.clone(),
            add_blue: add,
            red: colour.clone(),
            green: colour.clone(),
            blue: colour,
        }
    }
}

/// The formula for a colour and a depth, in integers with [`FRACTION`] bits after the point.
struct Scale {
    largest: i32,
    black: i32,
    luma: i32,
    middle: i32,
    red_cr: i32,
    green_cb: i32,
    green_cr: i32,
    blue_cb: i32,
}

impl Scale {
    fn new(colour: Colour, depth: u8) -> Self {
        let shift = u32::from(depth.clamp(8, 16)) - 8;
        let largest = (256_i64 << shift) - 1;
        let (black, luma, chroma) = match colour.full_range {
            true => (0, largest, largest),
            false => (16 << shift, 219 << shift, 224 << shift),
        };
        // The weights of red and blue in luma, times 10,000. Planes that are not of one size are not green, blue and
        // red, whatever the file says; their matrix is as good as not signalled, as PyAV takes it too.
        let (kr, kb) = match colour.matrix {
            Matrix::Bt601 | Matrix::Identity => (2990, 1140),
            Matrix::Bt709 => (2126, 722),
            Matrix::Bt2020 => (2627, 593),
            Matrix::Smpte240m => (2120, 870),
            Matrix::Fcc => (3000, 1100),
        };
        let kg = 10_000 - kr - kb;
        // All are below 2^22, so they fit.
        let ratio = |above: i64, below: i64| ((((above * 255) << (FRACTION + 1)) + below) / (2 * below)) as i32;
        Self {
            largest: largest as i32,
            black,
            luma: ratio(1, luma),
            middle: 128 << shift,
            red_cr: ratio(2 * (10_000 - kr), 10_000 * chroma),
            green_cb: -ratio(2 * (10_000 - kb) * kb, 10_000 * kg * chroma),
            green_cr: -ratio(2 * (10_000 - kr) * kr, 10_000 * kg * chroma),
            blue_cb: ratio(2 * (10_000 - kb), 10_000 * chroma),
        }
    }

    /// A row whose samples are one colour each already.
    fn copy<S: Sample>(&self, from: &[S], to: &mut [u8]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = rounded((from.number(self.largest) - self.black) * self.luma + HALF);
        }
    }

    /// What a row of chroma adds; `wide` if each sample serves two pixels.
    fn chroma<S: Sample>(&self, cb: &[S], cr: &[S], wide: bool, row: &mut Row) {
        let each = cb.iter().zip(cr).map(|(cb, cr)| {
            let (cb, cr) = (cb.number(self.largest) - self.middle, cr.number(self.largest) - self.middle);
            (cr * self.red_cr, cb * self.green_cb + cr * self.green_cr, cb * self.blue_cb)
        });
        let Row { add_red, add_green, add_blue, .. } = row;
        if wide {
            let pairs =
                add_red.chunks_exact_mut(2).zip(add_green.chunks_exact_mut(2)).zip(add_blue.chunks_exact_mut(2));
            for (((red, green), blue), add) in pairs.zip(each) {
                red.fill(add.0);
                green.fill(add.1);
                blue.fill(add.2);
            }
        } else {
            let single = add_red.iter_mut().zip(add_green.iter_mut()).zip(add_blue.iter_mut());
            for (((red, green), blue), add) in single.zip(each) {
                (*red, *green, *blue) = add;
            }
        }
    }

    /// The colours of a row, from its luma and what chroma adds.
    fn luma<S: Sample>(&self, luma: &[S], row: &mut Row) {
        let adds = row.add_red.iter().zip(&row.add_green).zip(&row.add_blue);
        let colours = row.red.iter_mut().zip(row.green.iter_mut()).zip(row.blue.iter_mut());
        for ((luma, ((add_red, add_green), add_blue)), ((red, green), blue)) in luma.iter().zip(adds).zip(colours) {
            let luma = (luma.number(self.largest) - self.black) * self.luma + HALF;
            *red = rounded(luma + add_red);
            *green = rounded(luma + add_green);
            *blue = rounded(luma + add_blue);
        }
    }
}

/// A half, to round by.
const HALF: i32 = 1 << (FRACTION - 1);

/// The byte nearest to a value that has its half added already.
fn rounded(value: i32) -> u8 {
    (value >> FRACTION).clamp(0, 255) as u8
}

/// Three rows of one colour each as one row of pixels.
fn interleave(red: &[u8], green: &[u8], blue: &[u8], out: &mut [u8]) {
    for (((out, red), green), blue) in out.chunks_exact_mut(3).zip(red).zip(green).zip(blue) {
        out.copy_from_slice(&[*red, *green, *blue]);
    }
}

/// The edge of the squares in which a picture is turned, so that both its rows and its columns stay in the cache.
const SQUARE: usize = 32;

/// Pixels mirrored and turned.
fn turned(width: u32, height: u32, rgb: Vec<u8>, turn: Turn) -> (u32, u32, Vec<u8>) {
    let quarters = turn.quarters % 4;
    if quarters == 0 && !turn.mirrored {
        return (width, height, rgb);
    }
    let (new_width, new_height) = if quarters % 2 == 1 { (height, width) } else { (width, height) };
    let (columns, rows) = (new_width as usize, new_height as usize);
    let (right, bottom) = (width as usize - 1, height as usize - 1);
    // Where a pixel of the new picture comes from.
    let source = |x: usize, y: usize| {
        let (column, row) = match quarters {
            0 => (x, y),
            1 => (y, bottom - x),
            2 => (right - x, bottom - y),
            _ => (right - y, x),
        };
        let column = if turn.mirrored { right - column } else { column };
        (row * (right + 1) + column) * 3
    };
    // A step to the right in the new picture is the same step everywhere in the old one; back, if it wraps.
    let step = if columns > 1 { source(1, 0).wrapping_sub(source(0, 0)) } else { 0 };
    let mut new = vec![0; rgb.len()];
    for top in (0..rows).step_by(SQUARE) {
        for left in (0..columns).step_by(SQUARE) {
            let across = left..columns.min(left + SQUARE);
            for y in top..rows.min(top + SQUARE) {
                let mut from = source(left, y);
                let line = &mut new[(y * columns + across.start) * 3..(y * columns + across.end) * 3];
                for pixel in line.chunks_exact_mut(3) {
                    pixel.copy_from_slice(&rgb[from..from + 3]);
                    from = from.wrapping_add(step);
                }
            }
        }
    }
    (new_width, new_height, new)
}
