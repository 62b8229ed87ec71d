//! Products with quantised weights, in whole numbers.
//!
//! Activations become 15-bit integers with a scale; weights are integers already. The sum of a run or of a group is then
//! exact, whatever adds it up, and only a few floats meet after that, in one fixed order:
//!
//! ```text
//! large blocks (256, a scale for each group of activations; runs' whole scales are in the integers of the weights):
//!     out = Σ group: x-scale · (scale · Σ integer · x  +  Σ run: min · Σ x)
//! small blocks (32, a scale for each run of activations):
//!     out = Σ group: (Σ run: scale · x-scale · Σ integer · x  +  Σ run: min · x-scale · Σ x)
//! ```
//!
//! Every sum is kept in eight lanes until the end. Invariant: lane `l` of a sum has the numbers `4l..4l + 4` of each
//! run, and lane `l` of the minima has run `l`; for one row as for many, and in every level of kernels.

mod activations;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod formats;
mod portable;

pub use activations::{Activations, Scaling};

use candle_core::quantized::GgmlDType;

use super::Level;
use formats::{Format, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// Numbers that are summed before they meet an activation's scale, at most.
const GROUP: usize = 256;
/// Numbers that share a weight scale, at most.
const RUN: usize = 32;
/// Runs of a group.
const RUNS: usize = GROUP / RUN;

/// Rows and columns of a tile of dot products.
const TILE_ROWS: usize = 4;
/// See above.
pub const TILE_COLUMNS: usize = 2;

/// The integers of a run: those at even places, then those at odd places, which is how bytes are widened fastest.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Run([i16; RUN]);

/// The floats of a group of weights.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Factors {
    /// Of each run; of a large block all are the same.
    scales: [f32; RUNS],
    /// Multiplied with the sums of runs. Never rounded: a half float times a whole number.
    mins: [f32; RUNS],
    /// Multiplied with the sums of second half runs: by how much their minimum is more than that of the first half.
    more: [f32; RUNS],
}

/// No floats yet.
const NOTHING: Factors = Factors { scales: [0.0; RUNS], mins: [0.0; RUNS], more: [0.0; RUNS] };

/// Which minima a format has.
#[derive(Clone, Copy, PartialEq)]
enum Mins {
    None,
    Runs,
    HalfRuns,
}

/// Those of a format.
const fn mins<F: Format>() -> Mins {
    match (F::MIN, F::HALVES) {
        (None, _) => Mins::None,
        (Some(_), false) => Mins::Runs,
        (Some(_), true) => Mins::HalfRuns,
    }
}

/// How activations for weights of this type are scaled; `None` if such weights are not multiplied here.
pub fn scaling(dtype: GgmlDType) -> Option<Scaling> {
    use GgmlDType::*;
    match dtype {
        Q2K | Q3K | Q4K | Q5K | Q6K => Some(Scaling::Groups),
        Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 => Some(Scaling::Runs),
        F32 | F16 | BF16 | Q8_1 | Q8K => None,
    }
}

/// Weight rows as integers, ready to meet many rows of activations.
#[derive(Default)]
pub struct Panel {
    runs: Vec<Run>,
    factors: Vec<Factors>,
}

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

/// Multiplies rows of activations with weight rows, whose `bytes` lie one behind the other; `put` takes row, weight row
/// and product.
pub fn multiply(
    level: Level,
    dtype: GgmlDType,
    bytes: &[u8],
    x: &Activations,
    panel: &mut Panel,
    put: impl Fn(usize, usize, f32),
) {
    of_format!(dtype, multiply_format(level, bytes, x, panel, put));
}

/// A format for which every level has kernels.
#[cfg(target_arch = "x86_64")]
trait Everywhere: avx2::Format {}
#[cfg(target_arch = "x86_64")]
impl<F: avx2::Format> Everywhere for F {}
#[cfg(not(target_arch = "x86_64"))]
trait Everywhere: Format {}
#[cfg(not(target_arch = "x86_64"))]
impl<F: Format> Everywhere for F {}

fn multiply_format<F: Everywhere>(
    level: Level,
    bytes: &[u8],
    x: &Activations,
    panel: &mut Panel,
    put: impl Fn(usize, usize, f32),
) {
    let row_bytes = if F::LARGE { x.groups() } else { x.runs() } * F::BYTES;
    assert!(!F::LARGE || x.runs().is_multiple_of(RUNS), "large blocks fill whole groups");
    let columns = bytes.len() / row_bytes;
    // The integers of a panel are made once for many rows. For one row that would only be a detour.
    if x.rows() == 1 {
        for (column, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
            put(0, column, dot::<F>(level, bytes, x));
        }
        return;
    }
    panel.runs.resize(columns * x.runs(), Run([0; RUN]));
    panel.factors.resize(columns * x.groups(), NOTHING);
    let each = panel.runs.chunks_exact_mut(x.runs()).zip(panel.factors.chunks_exact_mut(x.groups()));
    for (bytes, (runs, factors)) in bytes.chunks_exact(row_bytes).zip(each) {
        match level {
            Level::Portable => portable::unpack::<F>(bytes, runs, factors),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that the machine has AVX2.
            Level::Avx2 => unsafe { avx2::unpack::<F>(bytes, runs, factors) },
        }
    }
    let column = |c: usize| (&panel.runs[c * x.runs()..][..x.runs()], &panel.factors[c * x.groups()..][..x.groups()]);
    for first_row in (0..x.rows()).step_by(TILE_ROWS) {
        let rows = TILE_ROWS.min(x.rows() - first_row);
        for first in (0..columns).step_by(TILE_COLUMNS) {
            let count = TILE_COLUMNS.min(columns - first);
            // What a tile has too much is computed twice: dot products do not know of each other.
            let x = std::array::from_fn(|r| x.row(first_row + r.min(rows - 1)));
            let columns = std::array::from_fn(|c| column(first + c.min(count - 1)));
            let sums = match level {
                Level::Portable => portable::tile::<F>(&x, rows, &columns, count),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 => unsafe { avx2::tile::<F>(&x, &columns) },
            };
            for (r, sums) in sums.iter().enumerate().take(rows) {
                for (c, sum) in sums.iter().enumerate().take(count) {
                    put(first_row + r, first + c, *sum);
                }
            }
        }
    }
}

/// The product of the only row of activations with a weight row.
fn dot<F: Everywhere>(level: Level, bytes: &[u8], x: &Activations) -> f32 {
    match level {
        Level::Portable => portable::dot::<F>(bytes, x.row(0)),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level says that the machine has AVX2.
        Level::Avx2 => unsafe { avx2::dot::<F>(bytes, x.row(0)) },
    }
}
