//! Products with quantised weights in plain Rust: what every machine can do, and what the other levels are tested
//! against.

use super::super::portable::{LANES, add_up};
use super::activations::Row;
use super::formats::{Format, half};
use super::{Factors, Mins, NOTHING, RUN, RUNS, Run, TILE_COLUMNS, TILE_ROWS, mins};

/// The integers and the floats of a weight row.
pub fn unpack<F: Format>(bytes: &[u8], runs: &mut [Run], factors: &mut [Factors]) {
    let group_bytes = if F::LARGE { F::BYTES } else { F::BYTES * RUNS };
    for ((bytes, runs), factors) in bytes.chunks(group_bytes).zip(runs.chunks_mut(RUNS)).zip(factors) {
        *factors = floats::<F>(bytes);
        let whole = each(F::whole(bytes).scales);
        for (index, run) in runs.iter_mut().enumerate() {
            let quants = F::quants(bytes, index);
            for (i, quant) in quants.into_iter().enumerate() {
                let scale = match (F::LARGE, F::HALVES) {
                    (false, _) => 1,
                    (true, false) => whole[index],
                    (true, true) => whole[2 * index + i / (RUN / 2)],
                };
                run.0[i / 2 + i % 2 * (RUN / 2)] = i16::from(quant) * i16::from(scale);
            }
        }
    }
}

/// The whole numbers of two words.
fn each(words: [u64; 2]) -> [i8; 2 * RUNS] {
    std::array::from_fn(|i| words[i / 8].to_le_bytes()[i % 8] as i8)
}

/// The floats of a group.
fn floats<F: Format>(bytes: &[u8]) -> Factors {
    let mut factors = NOTHING;
    if !F::LARGE {
        for (run, bytes) in bytes.chunks_exact(F::BYTES).enumerate() {
            factors.scales[run] = half(bytes, F::SCALE);
            factors.mins[run] = F::MIN.map_or(0.0, |at| half(bytes, at));
        }
        return factors;
    }
    factors.scales = [half(bytes, F::SCALE); RUNS];
    let Some(at) = F::MIN else { return factors };
    let (factor, whole) = (-half(bytes, at), each(F::whole(bytes).mins));
    for run in 0..RUNS {
        if F::HALVES {
            factors.mins[run] = factor * f32::from(whole[2 * run]);
            factors.more[run] = factor * f32::from(whole[2 * run + 1] - whole[2 * run]);
        } else {
            factors.mins[run] = factor * f32::from(whole[run]);
        }
    }
    factors
}

/// The dot products of the first `rows` rows with the first `count` columns.
pub fn tile<F: Format>(
    x: &[Row<'_>; TILE_ROWS],
    rows: usize,
    columns: &[(&[Run], &[Factors]); TILE_COLUMNS],
    count: usize,
) -> [[f32; TILE_COLUMNS]; TILE_ROWS] {
    let mut out = [[0.0; TILE_COLUMNS]; TILE_ROWS];
    for (x, out) in x.iter().zip(&mut out).take(rows) {
        for ((runs, factors), out) in columns.iter().zip(out).take(count) {
            *out = product::<F>(*x, runs, factors);
        }
    }
    out
}

/// The dot product of a row with a weight row as it lies.
pub fn dot<F: Format>(bytes: &[u8], x: Row<'_>) -> f32 {
    let mut runs = vec![Run([0; RUN]); x.integers.len()];
    let mut factors = vec![NOTHING; x.sums.len()];
    unpack::<F>(bytes, &mut runs, &mut factors);
    product::<F>(x, &runs, &factors)
}

fn product<F: Format>(x: Row<'_>, runs: &[Run], factors: &[Factors]) -> f32 {
    let mut total = [0.0; LANES];
    let groups = x.integers.chunks(RUNS).zip(runs.chunks(RUNS)).zip(x.sums.iter().zip(factors));
    for ((x, weights), (sums, factors)) in groups {
        let mut group = [0.0; LANES];
        let mut whole = [0; LANES];
        for (index, (x, weights)) in x.iter().zip(weights).enumerate() {
            let sum: [i32; LANES] = std::array::from_fn(|lane| {
                let at = |i: usize| i32::from(x.0[i]) * i32::from(weights.0[i]);
                at(2 * lane) + at(2 * lane + 1) + at(2 * lane + 16) + at(2 * lane + 17)
            });
            for lane in 0..LANES {
                whole[lane] += sum[lane];
                if !F::LARGE {
                    group[lane] += sum[lane] as f32 * sums.scales[index] * factors.scales[index];
                }
            }
        }
        for lane in 0..LANES {
            if F::LARGE {
                group[lane] = whole[lane] as f32 * factors.scales[0];
            }
            if mins::<F>() != Mins::None {
                group[lane] += sums.runs[lane] * factors.mins[lane];
            }
            if mins::<F>() == Mins::HalfRuns {
                group[lane] += sums.halves[lane] * factors.more[lane];
            }
            total[lane] += if F::LARGE { group[lane] * sums.scales[0] } else { group[lane] };
        }
    }
    add_up(total)
}
