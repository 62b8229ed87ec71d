//! Weights laid out in strips, once, when a model is loaded.
//!
//! Invariant: every byte of a strip is written, also of outputs that only fill up the last one, which are zero.

use std::io;

use candle_core::quantized::GgmlDType;
use memmap2::MmapMut;

use super::super::threads::share;
use super::super::{Level, Matrix, Shared};
use super::formats::{Format, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::{LINE, QUAD, QUADS, RUN, RUNS, STRIP, Strip, of_format};

/// A matrix of quantised weights in strips of outputs.
pub struct Tiles {
    dtype: GgmlDType,
    outputs: usize,
    runs: usize,
    /// Of each strip the integers of all runs.
    quants: MmapMut,
    /// Of each strip the floats of all runs, or of all large blocks.
    factors: MmapMut,
}

impl std::fmt::Debug for Tiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} × {} {:?} in strips", self.outputs, self.runs * RUN, self.dtype)
    }
}

impl Tiles {
    /// Lays out a matrix of blocks.
    pub fn new(level: Level, matrix: &Matrix) -> io::Result<Self> {
        of_format!(matrix.dtype(), packed(level, matrix))
    }

    pub(super) fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// Outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.runs * RUN
    }

    /// How many strips there are.
    pub fn strips(&self) -> usize {
        self.outputs.div_ceil(STRIP)
    }

    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    pub(super) fn strip(&self, index: usize) -> Strip<'_> {
        let part = |all: &'_ MmapMut| all.len() / self.strips() * index..all.len() / self.strips() * (index + 1);
        Strip { quants: &self.quants[part(&self.quants)], factors: &self.factors[part(&self.factors)] }
    }
}

fn packed<F: Format>(level: Level, matrix: &Matrix) -> io::Result<Tiles> {
    let (outputs, runs) = (matrix.rows(), matrix.columns() / RUN);
    let strips = outputs.div_ceil(STRIP);
    let units = if F::LARGE { runs / RUNS } else { runs };
    // Whole lines of the cache, so that no vector lies across two of them.
    let (quant_bytes, factor_bytes) = (runs * F::QUANT_BYTES, (units * F::FACTOR_BYTES).next_multiple_of(LINE));
    let (mut quants, mut factors) = (room(strips * quant_bytes)?, room(strips * factor_bytes)?);
    let (all_quants, all_factors) = (Shared(quants.as_mut_ptr()), Shared(factors.as_mut_ptr()));
    share(strips, STRIP * runs * RUN * 4, |range| {
        for index in range {
            // SAFETY: each strip has bytes of its own in both, which have room for all of them.
            let (quants, factors) = unsafe {
                let quants = all_quants.slice(index * quant_bytes, quant_bytes);
                (quants, all_factors.slice(index * factor_bytes, factor_bytes))
            };
            let from = matrix.bytes_of(index * STRIP..outputs.min((index + 1) * STRIP));
            match level {
                Level::Portable => pack::<F>(from, runs, quants, factors),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { super::avx2::pack::<F>(from, runs, quants, factors) },
            }
        }
    });
    Ok(Tiles { dtype: matrix.dtype(), outputs, runs, quants, factors })
}

/// Memory of its own pages, all zero, which are first touched by the threads that fill them.
fn room(bytes: usize) -> io::Result<MmapMut> {
    MmapMut::map_anon(bytes.max(1))
}

/// Lays out the rows of a strip, whose bytes lie one row behind the other, into zeros that nobody has touched.
#[inline(always)]
pub(super) fn pack<F: Format>(from: &[u8], runs: usize, quants: &mut [u8], factors: &mut [u8]) {
    let units = if F::LARGE { runs / RUNS } else { runs };
    let row_bytes = units * F::BYTES;
    if row_bytes == 0 {
        return;
    }
    let per_unit = if F::LARGE { RUNS } else { 1 };
    let each = quants.chunks_exact_mut(F::QUANT_BYTES * per_unit).zip(factors.chunks_exact_mut(F::FACTOR_BYTES));
    for (unit, (quants, factors)) in each.enumerate().take(units) {
        for (output, row) in from.chunks_exact(row_bytes).enumerate() {
            pack_factors::<F>(&row[unit * F::BYTES..(unit + 1) * F::BYTES], output, factors);
        }
        let mut runs = quants.chunks_exact_mut(F::QUANT_BYTES);
        // A run's number is known when this is compiled, which is what makes it fast.
        macro_rules! run {
            ($($index:literal)*) => {$(
                if let Some(quants) = runs.next() {
                    let mut quads = [[0u32; STRIP]; QUADS];
                    for (output, row) in from.chunks_exact(row_bytes).enumerate().take(STRIP) {
                        let integers = F::quants::<$index>(&row[unit * F::BYTES..(unit + 1) * F::BYTES]);
                        for (quads, four) in quads.iter_mut().zip(integers.as_chunks::<QUAD>().0) {
                            quads[output] = u32::from_ne_bytes(*four);
                        }
                    }
                    join::<F>(&quads, quants);
                }
            )*};
        }
        run!(0);
        if F::LARGE {
            run!(1 2 3 4 5 6 7);
        }
    }
}

/// Lays out the floats of a block of one output.
#[inline(always)]
fn pack_factors<F: Format>(block: &[u8], output: usize, factors: &mut [u8]) {
    factors[2 * output..][..2].copy_from_slice(&block[F::SCALE..][..2]);
    if let Some(at) = F::MIN {
        factors[2 * STRIP + 2 * output..][..2].copy_from_slice(&block[at..][..2]);
    }
    if !F::LARGE {
        return;
    }
    let whole = F::whole(block);
    let first = 2 * STRIP * F::KINDS;
    for (kind, words) in [whole.scales, whole.mins].into_iter().enumerate().take(F::KINDS) {
        let numbers = words.into_iter().flat_map(u64::to_le_bytes).take(RUNS * F::WHOLE_BYTES / STRIP);
        for (index, number) in numbers.enumerate() {
            let (run, half) = if F::HALVES { (index / 2, index % 2) } else { (index, 0) };
            factors[first + (run * F::KINDS + kind) * F::WHOLE_BYTES + half * STRIP + output] = number;
        }
    }
}

/// Joins the bits of a run's integers.
#[inline(always)]
fn join<F: Format>(quads: &[[u32; STRIP]; QUADS], quants: &mut [u8]) {
    let bytes: [[u8; LINE]; QUADS] = quads.map(|quad| {
        let mut line = [0; LINE];
        line.as_chunks_mut::<QUAD>().0.iter_mut().zip(quad).for_each(|(four, quad)| *four = quad.to_ne_bytes());
        line
    });
    let (lines, _) = quants.as_chunks_mut::<LINE>();
    if F::BITS == 8 {
        lines.copy_from_slice(&bytes);
        return;
    }
    for j in 0..QUADS / 2 {
        for i in 0..LINE {
            lines[j][i] = bytes[j][i] & 15 | bytes[j + QUADS / 2][i] << 4;
        }
    }
    // Put together aside and written once: fresh memory that is read before it is written costs two faults a page.
    let mut high = [[0; LINE]; 2];
    for (quad, bytes) in bytes.iter().enumerate() {
        for i in 0..LINE {
            match F::BITS {
                5 => high[0][i] |= (bytes[i] >> 4 & 1) << quad,
                6 => high[quad / 4][i] |= (bytes[i] >> 4 & 3) << (quad % 4 * 2),
                _ => {}
            }
        }
    }
    let behind = &mut lines[QUADS / 2..];
    let count = behind.len();
    behind.copy_from_slice(&high[..count]);
}
