//! Products with quantised weights in plain Rust: what every machine can do, and what the other levels are tested
//! against.

use super::activations::Row;
use super::formats::{Format, half};
use super::{LINE, QUAD, QUADS, ROWS, RUN, RUNS, STRIP, Strip};

/// The products of a strip with some rows.
pub fn products<F: Format, const FINE: bool>(strip: Strip<'_>, rows: &[Row<'_>], out: &mut [[f32; STRIP]; ROWS]) {
    for (row, out) in rows.iter().zip(out) {
        *out = [0.0; STRIP];
        for (run, (planes, about)) in row.planes.iter().zip(row.about).enumerate() {
            let quants = &strip.quants[run * F::QUANT_BYTES..][..F::QUANT_BYTES];
            let factors = factors::<F>(strip.factors, run);
            let x: [i32; RUN] = std::array::from_fn(|i| match FINE {
                true => 128 * i32::from(planes.high[i]) + i32::from(planes.low[i]),
                false => i32::from(planes.high[i]),
            });
            // The parts that have scales of their own: the run, or its halves.
            let parts: &[(std::ops::Range<usize>, f32, f32)] = if F::HALVES {
                &[(0..RUN / 2, about.halves[0], about.totals[0]), (RUN / 2..RUN, about.halves[1], about.totals[1])]
            } else {
                &[(0..RUN, about.sum, about.total)]
            };
            for ((places, sum, total), (scales, mins)) in parts.iter().zip(&factors) {
                for output in 0..STRIP {
                    let products = places.clone().map(|i| x[i] * i32::from(quant::<F>(quants, i, output)));
                    let mut found = products.sum::<i32>() as f32;
                    if F::OFFSET != 0 {
                        found = (-f32::from(F::OFFSET)).mul_add(*sum, found);
                    }
                    out[output] = (found * about.scale).mul_add(scales[output], out[output]);
                    if F::MIN.is_some() {
                        out[output] = total.mul_add(mins[output], out[output]);
                    }
                }
            }
        }
    }
}

/// Integer `i` of a run's output.
fn quant<F: Format>(quants: &[u8], i: usize, output: usize) -> u8 {
    let (quad, at) = (i / QUAD, output * QUAD + i % QUAD);
    if F::BITS == 8 {
        return quants[quad * LINE + at];
    }
    let nibble = quants[quad % (QUADS / 2) * LINE + at] >> (quad / (QUADS / 2) * 4) & 15;
    match F::BITS {
        5 => nibble | (quants[4 * LINE + at] >> quad & 1) << 4,
        6 => nibble | (quants[(4 + quad / 4) * LINE + at] >> (quad % 4 * 2) & 3) << 4,
        _ => nibble,
    }
}

/// What the sums of a run, or of its halves, are multiplied with: scales and minima of all outputs.
fn factors<F: Format>(all: &[u8], run: usize) -> [([f32; STRIP], [f32; STRIP]); 2] {
    let unit = &all[if F::LARGE { run / RUNS } else { run } * F::FACTOR_BYTES..][..F::FACTOR_BYTES];
    let floats = |kind: usize| std::array::from_fn(|output| half(unit, (kind * STRIP + output) * 2));
    let scales: [f32; STRIP] = floats(0);
    let mins: [f32; STRIP] = if F::MIN.is_some() { floats(1) } else { [0.0; STRIP] };
    if !F::LARGE {
        return [(scales, mins); 2];
    }
    let whole = |kind: usize, half: usize, output: usize| {
        unit[2 * STRIP * F::KINDS + (run % RUNS * F::KINDS + kind) * F::WHOLE_BYTES + half * STRIP + output]
    };
    [0, usize::from(F::HALVES)].map(|half| {
        let scales = std::array::from_fn(|output| scales[output] * f32::from(whole(0, half, output) as i8));
        let min = |output: usize| -mins[output] * f32::from(whole(1, half, output) as i8);
        let mins = std::array::from_fn(|output| if F::MIN.is_some() { min(output) } else { 0.0 });
        (scales, mins)
    })
}
