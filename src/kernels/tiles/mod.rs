//! Products with quantised weights, in whole numbers.
//!
//! Weights are laid out anew when a model is loaded: 16 outputs side by side (a *strip*), so that a vector holds four
//! inputs of each of them, and a product of whole numbers needs no sum across a vector.
//!
//! ```text
//!  strip = 16 outputs:   run 0 (32 inputs)   run 1   …
//!      a run = 8 quads of 64 bytes: the same 4 inputs of output 0, of output 1, … of output 15
//!      4 bits: the quads 0 to 3 in low nibbles, 4 to 7 in high ones; fifth and sixth bits stand behind them
//! ```
//!
//! Activations become whole numbers of 14 bits with a scale for each run, in two planes of signed bytes (`128 · high +
//! low`): bytes are what the fastest instructions of every machine multiply. Coarse ones have 8 bits and one plane. The sums of a run are exact, whatever adds
//! them up; then a few floats meet in one fixed order:
//!
//! ```text
//!     out = Σ run: scale · (x-scale · Σ integer · x)  +  min · (x-scale · Σ x)
//! ```
//!
//! Invariant: what comes out for a row and an output depends on their own numbers alone, and is the same to the bit for
//! one row and for many, and in every level of kernels.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod formats;
mod pack;
mod portable;

pub use activations::{Activations, Precision};
pub use pack::Tiles;

use std::ops::Range;

use candle_core::quantized::GgmlDType;

use super::Level;
use activations::Row;
use formats::{Format, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// Inputs that share a scale, at most.
const RUN: usize = 32;
/// Runs of a large block.
const RUNS: usize = 8;
/// Inputs that stand together.
const QUAD: usize = 4;
/// Quads of a run.
const QUADS: usize = RUN / QUAD;
/// Outputs of a strip.
pub const STRIP: usize = 16;
/// Bytes of a quad of all outputs of a strip.
const LINE: usize = STRIP * QUAD;

/// Calls a function for the format of a type.
macro_rules! of_format {
    ($dtype:expr, $call:ident ( $($arg:expr),* )) => {
        match $dtype {
            GgmlDType::Q4_0 => $call::<Q4_0>($($arg),*),
            GgmlDType::Q4_1 => $call::<Q4_1>($($arg),*),
            GgmlDType::Q5_0 => $call::<Q5_0>($($arg),*),
            GgmlDType::Q5_1 => $call::<Q5_1>($($arg),*),
            GgmlDType::Q8_0 => $call::<Q8_0>($($arg),*),
            GgmlDType::Q2K => $call::<Q2K>($($arg),*),
            GgmlDType::Q3K => $call::<Q3K>($($arg),*),
            GgmlDType::Q4K => $call::<Q4K>($($arg),*),
            GgmlDType::Q5K => $call::<Q5K>($($arg),*),
            GgmlDType::Q6K => $call::<Q6K>($($arg),*),
            other => unreachable!("{other:?} is no block format of weights"),
        }
    };
}
use of_format;

/// Whether weights of this type are multiplied here.
pub fn knows(dtype: GgmlDType) -> bool {
    use GgmlDType::*;
    match dtype {
        Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2K | Q3K | Q4K | Q5K | Q6K => true,
        F32 | F16 | BF16 | Q8_1 | Q8K => false,
    }
}

/// A strip as kernels get it.
#[derive(Clone, Copy)]
struct Strip<'a> {
    /// The integers of its runs.
    quants: &'a [u8],
    /// Their floats: of each run, or of each large block.
    factors: &'a [u8],
}

/// Multiplies rows of activations with strips; `put` takes row, output and the products of the outputs from there on.
pub fn multiply(
    level: Level,
    tiles: &Tiles,
    strips: Range<usize>,
    x: &Activations,
    put: impl Fn(usize, usize, &[f32]),
) {
    of_format!(tiles.dtype(), multiply_format(level, tiles, strips, x, put));
}

/// Rows that meet a strip at a time, at most.
const ROWS: usize = 8;

fn multiply_format<F: Format>(
    level: Level,
    tiles: &Tiles,
    strips: Range<usize>,
    x: &Activations,
    put: impl Fn(usize, usize, &[f32]),
) {
    assert_eq!(x.runs(), tiles.runs(), "activations of another width");
    // A few rows stay in the first cache while the strips pass by.
    let products = match x.precision() {
        Precision::Fine => products::<F, true>,
        Precision::Coarse => products::<F, false>,
    };
    let mut first = 0;
    while first < x.rows() {
        let left = x.rows() - first;
        let count = level.rows_at_once(left);
        let rows: [Row<'_>; ROWS] = std::array::from_fn(|row| x.row(first + row.min(count - 1)));
        let mut sums = [[0.0; STRIP]; ROWS];
        for index in strips.clone() {
            products(level, tiles.strip(index), &rows[..count], &mut sums);
            let outputs = STRIP.min(tiles.outputs() - index * STRIP);
            for (row, sums) in sums[..count].iter().enumerate() {
                put(first + row, index * STRIP, &sums[..outputs]);
            }
        }
        first += count;
    }
}

impl Level {
    /// How many of so many rows the kernels of this level take at a time.
    fn rows_at_once(self, left: usize) -> usize {
        let sizes: &[usize] = match self {
            Level::Portable => &[1],
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &avx2::ROWS,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => &avx512::ROWS,
        };
        sizes.iter().copied().find(|size| *size <= left).unwrap_or(1)
    }
}

/// The products of a strip with some rows.
fn products<F: Format, const FINE: bool>(
    level: Level,
    strip: Strip<'_>,
    rows: &[Row<'_>],
    out: &mut [[f32; STRIP]; ROWS],
) {
    match level {
        Level::Portable => portable::products::<F, FINE>(strip, rows, out),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the machine has the instructions.
        Level::Avx2 => unsafe { avx2::products::<F, FINE>(strip, rows, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512 => unsafe { avx512::products::<F, FINE>(strip, rows, out) },
    }
}
