//! Powers of e, the same bits one at a time or many at a time.

/// The highest of some numbers.
#[inline(always)]
pub fn highest(xs: &[f32]) -> f32 {
    let above = |a: f32, b: f32| if a > b { a } else { b };
    let (eights, rest) = xs.as_chunks::<8>();
    let mut best = [f32::NEG_INFINITY; 8];
    for eight in eights {
        for lane in 0..8 {
            best[lane] = above(eight[lane], best[lane]);
        }
    }
    best.iter().chain(rest).fold(f32::NEG_INFINITY, |best, x| above(*x, best))
}

/// Replaces each `x` by `e^(x - highest)`, with the highest of them, and gives their sum.
#[inline(always)]
pub fn exp_and_sum(xs: &mut [f32]) -> f32 {
    let highest = highest(xs);
    let (eights, rest) = xs.as_chunks_mut::<8>();
    let mut sums = [0.0; 8];
    for eight in eights {
        for lane in 0..8 {
            eight[lane] = exp(eight[lane] - highest);
            sums[lane] += eight[lane];
        }
    }
    let mut sum = super::portable::add_up(sums);
    for x in rest {
        *x = exp(*x - highest);
        sum += *x;
    }
    sum
}

/// e^x for x up to 0, within two units in the last place; 0 where that is below the normal numbers.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = x.max(-87.0);
    // e^x = 2^n · e^r with a whole n and |r| up to ln 2 / 2, in which a polynomial of degree 6 is exact enough. Adding
    // and taking away 1.5 · 2^23 rounds to a whole number, which between the two stands in the last bits.
    let shifted = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    // ln 2 in two parts, of which the first has few digits, so that the product with n is exact.
    let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    let two_to_n = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x <= -87.0 { 0.0 } else { p * two_to_n }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_right_and_do_not_depend_on_their_place() {
        for start in 0..8 {
            let mut xs: Vec<f32> = (start..40_000).map(|i| (i - start) as f32 * -0.0022).collect();
            let expected: Vec<f64> = xs.iter().map(|x| f64::from(*x).exp()).collect();
            let sum = exp_and_sum(&mut xs);
            for (got, expected) in xs.iter().zip(&expected) {
                let close = (f64::from(*got) - expected).abs() <= expected * 3e-7 || *expected < 2e-38;
                assert!(close, "{got} is not {expected}");
            }
            let expected: f64 = expected.iter().sum();
            assert!((f64::from(sum) - expected).abs() < expected * 1e-5, "{sum} is not {expected}");
        }
        let mut together = [-3.7; 19];
        together[11] = 0.0;
        exp_and_sum(&mut together);
        let equal = |x: &f32| x.to_bits() == exp(-3.7).to_bits();
        assert!(together.iter().enumerate().all(|(i, x)| if i == 11 { *x == 1.0 } else { equal(x) }));
    }
}
