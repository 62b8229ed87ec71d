//! Products with quantised weights for AVX-512 with VNNI: `dpbusd` multiplies 64 bytes of weights with four bytes of
//! activations, which it repeats straight from memory, and adds up by fours.

use std::arch::x86_64::*;

use super::activations::{About, Planes, Row};
use super::formats::Format;
use super::{LINE, QUADS, RUNS, STRIP, Strip};

/// How many rows are taken at a time.
pub const ROWS: [usize; 6] = [8, 6, 4, 3, 2, 1];

/// The products of a strip with as many rows as one of [`ROWS`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
pub fn products<F: Format, const FINE: bool>(
    strip: Strip<'_>,
    rows: &[Row<'_>],
    out: &mut [[f32; STRIP]; super::ROWS],
) {
    match rows.len() {
        8 => some::<F, FINE, 8>(strip, rows, out),
        6 => some::<F, FINE, 6>(strip, rows, out),
        4 => some::<F, FINE, 4>(strip, rows, out),
        3 => some::<F, FINE, 3>(strip, rows, out),
        2 => some::<F, FINE, 2>(strip, rows, out),
        _ => some::<F, FINE, 1>(strip, rows, out),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
fn some<F: Format, const FINE: bool, const R: usize>(
    strip: Strip<'_>,
    rows: &[Row<'_>],
    out: &mut [[f32; STRIP]; super::ROWS],
) {
    let runs = rows[0].planes.len();
    assert!(rows.len() == R && rows.iter().all(|row| row.planes.len() == runs && row.about.len() == runs));
    let per_unit = if F::LARGE { RUNS } else { 1 };
    let units = runs / per_unit;
    assert!(runs.is_multiple_of(per_unit) && strip.quants.len() >= runs * F::QUANT_BYTES);
    assert!(strip.factors.len() >= units * F::FACTOR_BYTES);
    let planes: [*const Planes; R] = std::array::from_fn(|r| rows[r].planes.as_ptr());
    let about: [*const About; R] = std::array::from_fn(|r| rows[r].about.as_ptr());
    let mut sums = [_mm512_setzero_ps(); R];
    // SAFETY of all reads: runs and units are below what the slices were checked to hold.
    for unit in 0..units {
        let factors = unsafe { strip.factors.as_ptr().add(unit * F::FACTOR_BYTES) };
        let scales = unsafe { halves(factors) };
        let mins = if F::MIN.is_some() { unsafe { halves(factors.add(2 * STRIP)) } } else { scales };
        for index in 0..per_unit {
            let run = unit * per_unit + index;
            let quants = unsafe { strip.quants.as_ptr().add(run * F::QUANT_BYTES) };
            super::avx2::ahead::<F>(quants);
            let weights = unsafe { unpack::<F>(quants) };
            let mut by = [scales; 2];
            let mut less = [mins; 2];
            if F::LARGE {
                let whole = unsafe { factors.add(2 * STRIP * F::KINDS + index * F::KINDS * F::WHOLE_BYTES) };
                for half in 0..if F::HALVES { 2 } else { 1 } {
                    by[half] = _mm512_mul_ps(scales, unsafe { bytes(whole.add(half * STRIP)) });
                    if F::MIN.is_some() {
                        let whole = unsafe { bytes(whole.add(F::WHOLE_BYTES + half * STRIP)) };
                        less[half] = _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), mins), whole);
                    }
                }
            }
            for r in 0..R {
                let (planes, about) = unsafe { (planes[r].add(run).cast::<i32>(), &*about[r].add(run)) };
                let scale = _mm512_set1_ps(about.scale);
                if F::HALVES {
                    for half in 0..2 {
                        let quads = half * QUADS / 2..(half + 1) * QUADS / 2;
                        let found = unsafe { dot::<FINE>(&weights, planes, quads) };
                        let found = _mm512_mul_ps(shifted::<F>(found, about.halves[half]), scale);
                        sums[r] = _mm512_fmadd_ps(found, by[half], sums[r]);
                        if F::MIN.is_some() {
                            sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(about.totals[half]), less[half], sums[r]);
                        }
                    }
                } else {
                    let found = unsafe { dot::<FINE>(&weights, planes, 0..QUADS) };
                    let found = _mm512_mul_ps(shifted::<F>(found, about.sum), scale);
                    sums[r] = _mm512_fmadd_ps(found, by[0], sums[r]);
                    if F::MIN.is_some() {
                        sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(about.total), less[0], sums[r]);
                    }
                }
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        // SAFETY: sixteen floats are written, which is what the array has.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sums) };
    }
}

/// The sums of some quads of a run; of fine ones both planes together.
///
/// # Safety
/// The pointer is good for the 64 bytes of a run's planes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn dot<const FINE: bool>(
    weights: &[__m512i; QUADS],
    planes: *const i32,
    quads: std::ops::Range<usize>,
) -> __m512i {
    let (mut high, mut low) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for quad in quads {
        // SAFETY: both planes have eight quads.
        let (x_high, x_low) = unsafe { (*planes.add(quad), *planes.add(QUADS + quad)) };
        high = _mm512_dpbusd_epi32(high, weights[quad], _mm512_set1_epi32(x_high));
        if FINE {
            low = _mm512_dpbusd_epi32(low, weights[quad], _mm512_set1_epi32(x_low));
        }
    }
    if FINE { _mm512_add_epi32(_mm512_slli_epi32::<7>(high), low) } else { high }
}

/// A sum as floats, less what the offset of the weights adds to it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
fn shifted<F: Format>(found: __m512i, sum: f32) -> __m512 {
    let found = _mm512_cvtepi32_ps(found);
    if F::OFFSET == 0 {
        return found;
    }
    _mm512_fmadd_ps(_mm512_set1_ps(-f32::from(F::OFFSET)), _mm512_set1_ps(sum), found)
}

/// Sixteen half floats.
///
/// # Safety
/// The pointer is good for 32 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn halves(at: *const u8) -> __m512 {
    // SAFETY: as the caller says.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(at.cast()) })
}

/// Sixteen signed bytes as floats.
///
/// # Safety
/// The pointer is good for 16 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn bytes(at: *const u8) -> __m512 {
    // SAFETY: as the caller says.
    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(unsafe { _mm_loadu_si128(at.cast()) }))
}

/// The integers of a run as bytes, a vector for each quad.
///
/// # Safety
/// The pointer is good for the integers of a run.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx2,fma,f16c")]
unsafe fn unpack<F: Format>(at: *const u8) -> [__m512i; QUADS] {
    // SAFETY: as the caller says.
    let line = |index: usize| unsafe { _mm512_loadu_si512(at.add(index * LINE).cast()) };
    if F::BITS == 8 {
        return std::array::from_fn(line);
    }
    let low = _mm512_set1_epi8(15);
    let nibbles: [__m512i; QUADS] = std::array::from_fn(|quad| {
        let both = line(quad % (QUADS / 2));
        _mm512_and_si512(if quad < QUADS / 2 { both } else { _mm512_srli_epi16::<4>(both) }, low)
    });
    /// `a & b | c`.
    const JOIN: i32 = 0xea;
    match F::BITS {
        5 => {
            let (bits, mask) = (line(4), _mm512_set1_epi8(16));
            std::array::from_fn(|quad| {
                let moved = match quad {
                    0..4 => _mm512_sll_epi16(bits, _mm_cvtsi32_si128(4 - quad as i32)),
                    _ => _mm512_srl_epi16(bits, _mm_cvtsi32_si128(quad as i32 - 4)),
                };
                _mm512_ternarylogic_epi32::<JOIN>(moved, mask, nibbles[quad])
            })
        }
        6 => {
            let (bits, mask) = ([line(4), line(5)], _mm512_set1_epi8(48));
            std::array::from_fn(|quad| {
                let bits = bits[quad / 4];
                let moved = match quad % 4 {
                    0 => _mm512_slli_epi16::<4>(bits),
                    1 => _mm512_slli_epi16::<2>(bits),
                    2 => bits,
                    _ => _mm512_srli_epi16::<2>(bits),
                };
                _mm512_ternarylogic_epi32::<JOIN>(moved, mask, nibbles[quad])
            })
        }
        _ => nibbles,
    }
}
