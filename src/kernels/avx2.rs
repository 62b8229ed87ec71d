//! The kernels for AVX2 with FMA and F16C.
//!
//! Invariant: each dot product has its own running sums, the same in every tile shape, so a tile gives the same bits
//! as its dot products one at a time.

use std::arch::x86_64::*;

use candle_core::quantized::GgmlDType;

use super::gate::{self, Gate};
use super::portable::LANES;
use super::{blocks, exp};

/// The numbers of a row, as [`blocks::dequantise`] gives them.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn dequantise(dtype: GgmlDType, bytes: &[u8], out: &mut [f32]) {
    if dtype != GgmlDType::F16 {
        return blocks::dequantise(dtype, bytes, out);
    }
    let (sixteens, bytes_left) = bytes.as_chunks::<{ 2 * LANES }>();
    let (eights, out_left) = out.as_chunks_mut::<LANES>();
    for (bytes, out) in sixteens.iter().zip(eights) {
        // SAFETY: 16 bytes are read and 8 floats written, which is what the two arrays hold.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(bytes.as_ptr().cast()))) };
    }
    blocks::dequantise(dtype, bytes_left, out_left);
}

/// As [`exp::exp_and_sum`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn exp_and_sum(xs: &mut [f32]) -> f32 {
    exp::exp_and_sum(xs)
}

/// As [`gate::apply`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn gate(gate: Gate, left: &[f32], right: &[f32], out: &mut [f32]) {
    gate::apply(gate, left, right, out);
}

/// As [`gate::activate`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn activate(gate: Gate, xs: &mut [f32]) {
    gate::activate(gate, xs);
}

/// The sum of eight running sums, in the order of [`super::portable::add_up`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn add_up(sums: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps::<1>(sums));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

/// The dot products of R rows with C columns.
///
/// # Safety
/// Every pointer is good for `length` floats.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn dots<const R: usize, const C: usize>(
    rows: [*const f32; R],
    columns: [*const f32; C],
    length: usize,
) -> [[f32; C]; R] {
    let mut sums = [[_mm256_setzero_ps(); C]; R];
    let whole = length - length % LANES;
    let mut at = 0;
    while at < whole {
        // SAFETY: `at + LANES` is at most `length`, for which the caller vouches.
        unsafe {
            let column: [__m256; C] = std::array::from_fn(|c| _mm256_loadu_ps(columns[c].add(at)));
            for r in 0..R {
                let row = _mm256_loadu_ps(rows[r].add(at));
                for c in 0..C {
                    sums[r][c] = _mm256_fmadd_ps(row, column[c], sums[r][c]);
                }
            }
        }
        at += LANES;
    }
    let mut out = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            out[r][c] = add_up(sums[r][c]);
            for at in whole..length {
                // SAFETY: `at` is below `length`.
                out[r][c] += unsafe { *rows[r].add(at) * *columns[c].add(at) };
            }
        }
    }
    out
}

/// Adds `weights[r][j] · values[j]` to each `sums[r]`, in the order of j, for `count` values of `length` floats each.
///
/// # Safety
/// `weights[r]` is good for `count` floats, `values` for `count · length`, and `sums[r]` for `length`, which no other
/// pointer here reaches.
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn add_weighted<const R: usize>(
    weights: [*const f32; R],
    count: usize,
    values: *const f32,
    length: usize,
    sums: [*mut f32; R],
) {
    const WIDE: usize = 2;
    let mut at = 0;
    // SAFETY of all accesses: `at` plus what is read is at most `length`, j is below `count`.
    while at + WIDE * LANES <= length {
        unsafe {
            let mut acc: [[__m256; WIDE]; R] =
                std::array::from_fn(|r| std::array::from_fn(|w| _mm256_loadu_ps(sums[r].add(at + w * LANES))));
            for j in 0..count {
                let value: [__m256; WIDE] =
                    std::array::from_fn(|w| _mm256_loadu_ps(values.add(j * length + at + w * LANES)));
                for r in 0..R {
                    let weight = _mm256_set1_ps(*weights[r].add(j));
                    for w in 0..WIDE {
                        acc[r][w] = _mm256_fmadd_ps(weight, value[w], acc[r][w]);
                    }
                }
            }
            for (sums, acc) in sums.iter().zip(acc) {
                for (w, acc) in acc.into_iter().enumerate() {
                    _mm256_storeu_ps(sums.add(at + w * LANES), acc);
                }
            }
        }
        at += WIDE * LANES;
    }
    while at < length {
        for r in 0..R {
            unsafe {
                let mut sum = *sums[r].add(at);
                for j in 0..count {
                    sum = (*weights[r].add(j)).mul_add(*values.add(j * length + at), sum);
                }
                *sums[r].add(at) = sum;
            }
        }
        at += 1;
    }
}
