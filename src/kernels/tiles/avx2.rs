//! Products with quantised weights for AVX2 with FMA and F16C: `maddubs` multiplies 32 bytes of weights with repeated
//! fours of activations and adds up by twos, in 16 bits.
//!
//! Invariant: no sum of 16 bits overflows. A product of two is at most `2 · (2^bits - 1) · 64`, so eight of them fit for
//! weights of up to 5 bits, four for 6 bits, and one for 8 bits. With coarse activations it is at most `2 · (2^bits - 1) ·
//! 127`: eight fit for 4 bits, four for 5, two for 6.

use std::arch::x86_64::*;

use super::activations::{self, About, Planes, Precision, Row};
use super::formats::Format;
use super::{LINE, QUADS, RUNS, STRIP, Strip};

/// How many rows are taken at a time.
pub const ROWS: [usize; 3] = [4, 2, 1];

/// Outputs of a vector: a strip is done in two halves.
const LANES: usize = 8;

/// The products of a strip with as many rows as one of [`ROWS`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn products<F: Format, const FINE: bool>(
    strip: Strip<'_>,
    rows: &[Row<'_>],
    out: &mut [[f32; STRIP]; super::ROWS],
) {
    for side in 0..STRIP / LANES {
        match rows.len() {
            4 => some::<F, FINE, 4>(strip, side, rows, out),
            2 => some::<F, FINE, 2>(strip, side, rows, out),
            _ => some::<F, FINE, 1>(strip, side, rows, out),
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn some<F: Format, const FINE: bool, const R: usize>(
    strip: Strip<'_>,
    side: usize,
    rows: &[Row<'_>],
    out: &mut [[f32; STRIP]; super::ROWS],
) {
    let runs = rows[0].planes.len();
    assert!(rows.len() == R && rows.iter().all(|row| row.planes.len() == runs && row.about.len() == runs));
    let per_unit = if F::LARGE { RUNS } else { 1 };
    let units = runs / per_unit;
    assert!(runs.is_multiple_of(per_unit) && strip.quants.len() >= runs * F::QUANT_BYTES);
    assert!(strip.factors.len() >= units * F::FACTOR_BYTES && side < STRIP / LANES);
    let planes: [*const Planes; R] = std::array::from_fn(|r| rows[r].planes.as_ptr());
    let about: [*const About; R] = std::array::from_fn(|r| rows[r].about.as_ptr());
    let mut sums = [_mm256_setzero_ps(); R];
    // SAFETY of all reads: runs and units are below what the slices were checked to hold, and a side is inside a strip.
    for unit in 0..units {
        let factors = unsafe { strip.factors.as_ptr().add(unit * F::FACTOR_BYTES) };
        let mine = unsafe { factors.add(side * LANES * 2) };
        let scales = unsafe { halves(mine) };
        let mins = if F::MIN.is_some() { unsafe { halves(mine.add(2 * STRIP)) } } else { scales };
        for index in 0..per_unit {
            let run = unit * per_unit + index;
            let quants = unsafe { strip.quants.as_ptr().add(run * F::QUANT_BYTES + side * LINE / 2) };
            if side == 0 {
                ahead::<F>(quants);
            }
            let weights = unsafe { unpack::<F>(quants) };
            let mut by = [scales; 2];
            let mut less = [mins; 2];
            if F::LARGE {
                let whole = 2 * STRIP * F::KINDS + index * F::KINDS * F::WHOLE_BYTES + side * LANES;
                let whole = unsafe { factors.add(whole) };
                for half in 0..if F::HALVES { 2 } else { 1 } {
                    by[half] = _mm256_mul_ps(scales, unsafe { bytes(whole.add(half * STRIP)) });
                    if F::MIN.is_some() {
                        let whole = unsafe { bytes(whole.add(F::WHOLE_BYTES + half * STRIP)) };
                        less[half] = _mm256_mul_ps(_mm256_sub_ps(_mm256_setzero_ps(), mins), whole);
                    }
                }
            }
            for r in 0..R {
                let (planes, about) = unsafe { (planes[r].add(run).cast::<i32>(), &*about[r].add(run)) };
                let scale = _mm256_set1_ps(about.scale);
                let parts = if F::HALVES { 2 } else { 1 };
                for part in 0..parts {
                    let (sum, total) = match F::HALVES {
                        true => (about.halves[part], about.totals[part]),
                        false => (about.sum, about.total),
                    };
                    let quads = part * QUADS / parts..(part + 1) * QUADS / parts;
                    let found = match FINE {
                        true => unsafe { dot::<F>(&weights, planes, quads) },
                        false => unsafe { coarse_dot::<F>(&weights, planes, quads) },
                    };
                    let found = _mm256_mul_ps(shifted::<F>(found, sum), scale);
                    sums[r] = _mm256_fmadd_ps(found, by[part], sums[r]);
                    if F::MIN.is_some() {
                        sums[r] = _mm256_fmadd_ps(_mm256_set1_ps(total), less[part], sums[r]);
                    }
                }
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        // SAFETY: eight floats are written, which is what a side of the array has.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(side * LANES), sums) };
    }
}

/// How far ahead weights are asked for. One stream of reads, as a strip is, gets only half of what memory can give if
/// nobody asks ahead.
const AHEAD: usize = 2048;

/// Asks for the integers that come so far behind those of a run.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub fn ahead<F: Format>(quants: *const u8) {
    for line in 0..F::BITS {
        // Behind the last strip this asks for what is not there, which is allowed and does nothing.
        _mm_prefetch::<_MM_HINT_T0>(quants.wrapping_add(AHEAD + line * LINE).cast());
    }
}

/// The sums of some quads of a run, both planes together.
///
/// # Safety
/// The pointer is good for the 64 bytes of a run's planes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dot<F: Format>(weights: &[__m256i; QUADS], planes: *const i32, quads: std::ops::Range<usize>) -> __m256i {
    let ones = _mm256_set1_epi16(1);
    let mut planes_found = [_mm256_setzero_si256(); 2];
    for (plane, found) in planes_found.iter_mut().enumerate() {
        let mut narrow = _mm256_setzero_si256();
        for quad in quads.clone() {
            // SAFETY: both planes have eight quads.
            let x = _mm256_set1_epi32(unsafe { *planes.add(plane * QUADS + quad) });
            let products = _mm256_maddubs_epi16(weights[quad], x);
            if F::BITS == 8 {
                *found = _mm256_add_epi32(*found, _mm256_madd_epi16(products, ones));
            } else {
                narrow = _mm256_add_epi16(narrow, products);
            }
        }
        if F::BITS < 8 {
            *found = _mm256_madd_epi16(narrow, ones);
        }
    }
    let [high, low] = planes_found;
    _mm256_add_epi32(_mm256_slli_epi32::<7>(high), low)
}

/// The sums of some quads of a run of coarse activations. Products of two are twice as large as with a plane of fine ones,
/// so fewer of them fit into 16 bits; weights of 8 bits go in two halves.
///
/// # Safety
/// As for [`dot`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn coarse_dot<F: Format>(
    weights: &[__m256i; QUADS],
    planes: *const i32,
    quads: std::ops::Range<usize>,
) -> __m256i {
    let (ones, nibble) = (_mm256_set1_epi16(1), _mm256_set1_epi8(15));
    let mut sums = [_mm256_setzero_si256(); 2];
    let mut narrow = [_mm256_setzero_si256(); 2];
    let together = if F::BITS == 5 {
        4
    } else if F::BITS == 6 {
        2
    } else {
        8
    };
    let end = quads.end;
    for quad in quads {
        // SAFETY: a plane has eight quads.
        let x = _mm256_set1_epi32(unsafe { *planes.add(quad) });
        if F::BITS == 8 {
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(weights[quad]), nibble);
            let low = _mm256_and_si256(weights[quad], nibble);
            narrow[1] = _mm256_add_epi16(narrow[1], _mm256_maddubs_epi16(high, x));
            narrow[0] = _mm256_add_epi16(narrow[0], _mm256_maddubs_epi16(low, x));
        } else {
            narrow[0] = _mm256_add_epi16(narrow[0], _mm256_maddubs_epi16(weights[quad], x));
        }
        if (quad + 1).is_multiple_of(together) || quad + 1 == end {
            for (sum, narrow) in sums.iter_mut().zip(&mut narrow) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(*narrow, ones));
                *narrow = _mm256_setzero_si256();
            }
        }
    }
    if F::BITS == 8 { _mm256_add_epi32(sums[0], _mm256_slli_epi32::<4>(sums[1])) } else { sums[0] }
}

/// A sum as floats, less what the offset of the weights adds to it.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn shifted<F: Format>(found: __m256i, sum: f32) -> __m256 {
    let found = _mm256_cvtepi32_ps(found);
    if F::OFFSET == 0 {
        return found;
    }
    _mm256_fmadd_ps(_mm256_set1_ps(-f32::from(F::OFFSET)), _mm256_set1_ps(sum), found)
}

/// Eight half floats.
///
/// # Safety
/// The pointer is good for 16 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn halves(at: *const u8) -> __m256 {
    // SAFETY: as the caller says.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(at.cast()) })
}

/// Eight signed bytes as floats.
///
/// # Safety
/// The pointer is good for 8 bytes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes(at: *const u8) -> __m256 {
    // SAFETY: as the caller says.
    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(unsafe { _mm_loadl_epi64(at.cast()) }))
}

/// One side of the integers of a run as bytes, a vector for each quad.
///
/// # Safety
/// The pointer is good for one side of the integers of a run, line after line.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpack<F: Format>(at: *const u8) -> [__m256i; QUADS] {
    // SAFETY: as the caller says.
    let line = |index: usize| unsafe { _mm256_loadu_si256(at.add(index * LINE).cast()) };
    if F::BITS == 8 {
        return std::array::from_fn(line);
    }
    let low = _mm256_set1_epi8(15);
    let nibbles: [__m256i; QUADS] = std::array::from_fn(|quad| {
        let both = line(quad % (QUADS / 2));
        _mm256_and_si256(if quad < QUADS / 2 { both } else { _mm256_srli_epi16::<4>(both) }, low)
    });
    match F::BITS {
        5 => {
            let (bits, mask) = (line(4), _mm256_set1_epi8(16));
            std::array::from_fn(|quad| {
                let moved = match quad {
                    0..4 => _mm256_sll_epi16(bits, _mm_cvtsi32_si128(4 - quad as i32)),
                    _ => _mm256_srl_epi16(bits, _mm_cvtsi32_si128(quad as i32 - 4)),
                };
                _mm256_or_si256(_mm256_and_si256(moved, mask), nibbles[quad])
            })
        }
        6 => {
            let (bits, mask) = ([line(4), line(5)], _mm256_set1_epi8(48));
            std::array::from_fn(|quad| {
                let bits = bits[quad / 4];
                let moved = match quad % 4 {
                    0 => _mm256_slli_epi16::<4>(bits),
                    1 => _mm256_slli_epi16::<2>(bits),
                    2 => bits,
                    _ => _mm256_srli_epi16::<2>(bits),
                };
                _mm256_or_si256(_mm256_and_si256(moved, mask), nibbles[quad])
            })
        }
        _ => nibbles,
    }
}

/// As [`activations::quantise`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quantise(precision: Precision, x: &[f32], planes: &mut [Planes], about: &mut [About]) {
    activations::quantise(precision, x, planes, about);
}

/// As [`super::pack::pack`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn pack<F: Format>(from: &[u8], runs: usize, quants: &mut [u8], factors: &mut [u8]) {
    super::pack::pack::<F>(from, runs, quants, factors);
}
