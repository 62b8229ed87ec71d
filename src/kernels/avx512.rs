//! The kernels of attention for AVX-512.
//!
//! Invariant: a dot product has its own sixteen running sums, added up in one order, whatever stands beside it in a tile;
//! a weighted sum goes through its values in their order.

use std::arch::x86_64::*;

use super::TILE_ROWS;

/// Numbers that are summed side by side.
const LANES: usize = 16;
/// Keys that are scored at a time.
const KEYS: usize = 4;

/// The places of the numbers from `at` on of a list of `length`, as far as a vector reaches.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn mask(at: usize, length: usize) -> __mmask16 {
    let left = length - at;
    if left >= LANES { u16::MAX } else { (1 << left) - 1 }
}

/// `a` and `b` added up to half as many sums, those of `a` in the lower half.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn folded(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b), _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b))
}

/// Scores keys for four queries: `out[r][j] = scale · queries[r] · keys[j]`.
///
/// # Safety
/// Queries are good for `length` floats, `keys` for `count · length`, and each output for `count`, which no other pointer
/// here reaches.
#[target_feature(enable = "avx512f,avx512vl")]
pub unsafe fn scores(
    queries: [*const f32; TILE_ROWS],
    keys: *const f32,
    count: usize,
    length: usize,
    scale: f32,
    out: [*mut f32; TILE_ROWS],
) {
    for first in (0..count).step_by(KEYS) {
        let some = KEYS.min(count - first);
        // What a tile has too much is computed twice.
        let key: [*const f32; KEYS] = std::array::from_fn(|k| keys.wrapping_add((first + k.min(some - 1)) * length));
        let mut sums = [[_mm512_setzero_ps(); TILE_ROWS]; KEYS];
        let mut at = 0;
        while at < length {
            let mask = mask(at, length);
            // SAFETY: only numbers below `length` are read.
            let (queries, key) = unsafe {
                let query: [__m512; TILE_ROWS] =
                    std::array::from_fn(|r| _mm512_maskz_loadu_ps(mask, queries[r].add(at)));
                let key: [__m512; KEYS] = std::array::from_fn(|k| _mm512_maskz_loadu_ps(mask, key[k].add(at)));
                (query, key)
            };
            for k in 0..KEYS {
                for r in 0..TILE_ROWS {
                    sums[k][r] = _mm512_fmadd_ps(queries[r], key[k], sums[k][r]);
                }
            }
            at += LANES;
        }
        // A quarter for each query, then a place in it for each key.
        let [a, b, c, d] = sums.map(|[a, b, c, d]| folded2(folded(a, b), folded(c, d)));
        let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
        let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
        let high = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
        let all = _mm512_mul_ps(_mm512_add_ps(low, high), _mm512_set1_ps(scale));
        let quarters = [
            _mm512_castps512_ps128(all),
            _mm512_extractf32x4_ps::<1>(all),
            _mm512_extractf32x4_ps::<2>(all),
            _mm512_extractf32x4_ps::<3>(all),
        ];
        for (out, quarter) in out.iter().zip(quarters) {
            // SAFETY: as many are written as there are keys left.
            unsafe {
                match some {
                    KEYS => _mm_storeu_ps(out.add(first), quarter),
                    _ => _mm_mask_storeu_ps(out.add(first), (1 << some) - 1, quarter),
                }
            }
        }
    }
}

/// As [`folded`], from halves to quarters: those of `a` in the lower half.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn folded2(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b), _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
}

/// Adds `weights[r][j] · values[j]` to each `sums[r]`, in the order of j, for `count` values of `length` floats each.
///
/// # Safety
/// `weights[r]` is good for `count` floats, `values` for `count · length`, and `sums[r]` for `length`, which no other
/// pointer here reaches.
#[target_feature(enable = "avx512f,avx512vl")]
pub unsafe fn add_weighted<const R: usize>(
    weights: [*const f32; R],
    count: usize,
    values: *const f32,
    length: usize,
    sums: [*mut f32; R],
) {
    const WIDE: usize = 4;
    let mut at = 0;
    while at < length {
        let masks: [__mmask16; WIDE] = std::array::from_fn(|w| match at + w * LANES {
            place if place < length => mask(place, length),
            _ => 0,
        });
        // SAFETY: only numbers below `length` are touched, and j is below `count`. Addresses behind the end are made
        // without a claim that anything is there, and nothing is read from them.
        unsafe {
            let mut acc: [[__m512; WIDE]; R] = std::array::from_fn(|r| {
                std::array::from_fn(|w| _mm512_maskz_loadu_ps(masks[w], sums[r].wrapping_add(at + w * LANES)))
            });
            for j in 0..count {
                let value: [__m512; WIDE] = std::array::from_fn(|w| {
                    _mm512_maskz_loadu_ps(masks[w], values.wrapping_add(j * length + at + w * LANES))
                });
                for r in 0..R {
                    let weight = _mm512_set1_ps(*weights[r].add(j));
                    for w in 0..WIDE {
                        acc[r][w] = _mm512_fmadd_ps(weight, value[w], acc[r][w]);
                    }
                }
            }
            for (sums, acc) in sums.iter().zip(acc) {
                for (w, acc) in acc.into_iter().enumerate() {
                    _mm512_mask_storeu_ps(sums.wrapping_add(at + w * LANES), masks[w], acc);
                }
            }
        }
        at += WIDE * LANES;
    }
}
