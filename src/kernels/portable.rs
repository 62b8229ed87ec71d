//! Dot products and weighted sums in plain Rust: what every machine can do, and what the other levels are tested
//! against.
//!
//! Invariant: eight running sums, one for each place in a group of eight, added up in the order of [`add_up`].

use super::{TILE_COLUMNS, TILE_ROWS};

/// Numbers that are summed side by side.
pub const LANES: usize = 8;

/// The sum of eight running sums: halves, then quarters, then the last two.
#[inline(always)]
pub fn add_up(sums: [f32; LANES]) -> f32 {
    let four = [sums[0] + sums[4], sums[1] + sums[5], sums[2] + sums[6], sums[3] + sums[7]];
    (four[0] + four[2]) + (four[1] + four[3])
}

/// The dot products of each of `rows` with each of `columns`, all of the same length.
pub fn dots(rows: &[&[f32]], columns: &[&[f32]]) -> [[f32; TILE_COLUMNS]; TILE_ROWS] {
    let mut out = [[0.0; TILE_COLUMNS]; TILE_ROWS];
    for (row, out) in rows.iter().zip(&mut out) {
        for (column, out) in columns.iter().zip(out) {
            *out = dot(row, column);
        }
    }
    out
}

/// The dot product of two lists of the same length.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a8, a_rest) = a.as_chunks::<LANES>();
    let (b8, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a8.iter().zip(b8) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    a_rest.iter().zip(b_rest).fold(add_up(sums), |sum, (a, b)| sum + a * b)
}

/// Adds `weights[j] · values[j]` to `sums`, in the order of j; `values` are rows of `sums.len()` numbers.
pub fn add_weighted(weights: &[f32], values: &[f32], sums: &mut [f32]) {
    for (weight, value) in weights.iter().zip(values.chunks_exact(sums.len())) {
        for (sum, value) in sums.iter_mut().zip(value) {
            *sum += weight * value;
        }
    }
}
