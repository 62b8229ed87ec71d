//! The two passes in plain Rust.

use std::ops::Range;

use super::{CHANNELS, ROWS, Taps};

/// The new `columns` of four rows, one row every `stride` bytes of `out`.
pub fn across(taps: &Taps, columns: Range<usize>, rows: [&[u8]; ROWS], out: &mut [u8], stride: usize) {
    for (row, out) in rows.into_iter().zip(out.chunks_exact_mut(stride)) {
        let (pixels, _) = row.as_chunks::<CHANNELS>();
        let (news, _) = out.as_chunks_mut::<CHANNELS>();
        for (column, new) in columns.clone().zip(news) {
            let (window, weights) = taps.window(column);
            let mut sums = [1 << (taps.precision - 1); CHANNELS];
            for (pixel, weight) in pixels[window].iter().zip(weights) {
                for (sum, level) in sums.iter_mut().zip(pixel) {
                    *sum = i32::wrapping_add(*sum, i32::from(*level) * i32::from(*weight));
                }
            }
            *new = sums.map(|sum| level(sum, taps.precision));
        }
    }
}

/// Numbers that the second pass sums up at a time.
const COLUMNS: usize = 64;

/// One new row, from old ones that begin every `stride` bytes of `source`, one for each weight.
pub fn down(source: &[u8], stride: usize, weights: &[i16], precision: u32, out: &mut [u8]) {
    for (start, out) in (0..).step_by(COLUMNS).zip(out.chunks_mut(COLUMNS)) {
        let mut sums = [1 << (precision - 1); COLUMNS];
        for (row, weight) in (0..).map(|row| row * stride + start).zip(weights) {
            for (sum, level) in sums.iter_mut().zip(&source[row..row + out.len()]) {
                *sum = i32::wrapping_add(*sum, i32::from(*level) * i32::from(*weight));
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = level(sum, precision);
        }
    }
}

fn level(sum: i32, precision: u32) -> u8 {
    (sum >> precision).clamp(0, 255) as u8
}
