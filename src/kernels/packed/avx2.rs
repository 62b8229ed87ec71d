//! Products with quantised weights for AVX2 with FMA and F16C.
//!
//! Invariant: as that of the module; a dot product straight from a block has the same integer sums as one from a panel,
//! because whole scales can be multiplied before or after summing.

use std::arch::x86_64::*;

use super::activations::{self, Row, Scaling, Sums};
use super::formats::{self, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::{Factors, Mins, RUN, RUNS, Run, TILE_COLUMNS, TILE_ROWS, mins};

/// What this level adds to a format. The method is meant for functions with these instructions, into which it is
/// always inlined.
pub trait Format: formats::Format {
    /// Whether integers are below zero.
    const SIGNED: bool;

    /// As [`formats::Format::quants`].
    ///
    /// # Safety
    /// The machine has AVX2, and the pointer is good for the blocks of a group up to that run.
    unsafe fn quants<const INDEX: usize>(bytes: *const u8) -> __m256i;
}

macro_rules! format {
    ($name:ident, signed $signed:literal, |$b:ident, $run:ident| $quants:expr) => {
        impl Format for $name {
            const SIGNED: bool = $signed;
            #[inline(always)]
            unsafe fn quants<const INDEX: usize>(bytes: *const u8) -> __m256i {
                let $run = INDEX;
                // SAFETY: all reads are inside the block, for which the caller vouches.
                unsafe {
                    let $b = if <$name as formats::Format>::LARGE {
                        bytes
                    } else {
                        bytes.add(INDEX * <$name as formats::Format>::BYTES)
                    };
                    $quants
                }
            }
        }
    };
}

format!(Q4_0, signed true, |b, _run| _mm256_sub_epi8(nibbles(b.add(2)), _mm256_set1_epi8(8)));
format!(Q4_1, signed false, |b, _run| nibbles(b.add(4)));
// A byte whose fifth bit is missing gets the high bits of a number that is 16 less.
format!(Q5_0, signed true, |b, _run| {
    _mm256_or_si256(nibbles(b.add(6)), _mm256_andnot_si256(fifth(b.add(2)), _mm256_set1_epi8(-16)))
});
format!(Q5_1, signed false, |b, _run| {
    _mm256_or_si256(nibbles(b.add(8)), _mm256_and_si256(fifth(b.add(4)), _mm256_set1_epi8(16)))
});
format!(Q8_0, signed true, |b, _run| load(b.add(2)));
format!(Q2K, signed false, |b, run| bits::<3>(load(b.add(16 + run / 4 * 32)), run % 4 * 2));
format!(Q3K, signed true, |b, run| {
    let low = bits::<3>(load(b.add(32 + run / 4 * 32)), run % 4 * 2);
    let high = _mm256_slli_epi16::<2>(bits::<1>(load(b), run));
    _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(4))
});
format!(Q4K, signed false, |b, run| bits::<15>(load(b.add(16 + run / 2 * 32)), run % 2 * 4));
format!(Q5K, signed false, |b, run| {
    let high = _mm256_slli_epi16::<4>(bits::<1>(load(b.add(16)), run));
    _mm256_or_si256(bits::<15>(load(b.add(48 + run / 2 * 32)), run % 2 * 4), high)
});
format!(Q6K, signed true, |b, run| {
    let (part, quarter) = (run / 4, run % 4);
    let low = bits::<15>(load(b.add(part * 64 + quarter % 2 * 32)), quarter / 2 * 4);
    let high = _mm256_slli_epi16::<4>(bits::<3>(load(b.add(128 + part * 32)), quarter * 2));
    _mm256_sub_epi8(_mm256_or_si256(low, high), _mm256_set1_epi8(32))
});

/// # Safety
/// The machine has AVX2, and the pointer is good for 32 bytes.
#[inline(always)]
unsafe fn load(bytes: *const u8) -> __m256i {
    // SAFETY: as the caller says.
    unsafe { _mm256_loadu_si256(bytes.cast()) }
}

/// Some bits of each byte.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn bits<const MASK: i8>(bytes: __m256i, shift: usize) -> __m256i {
    // SAFETY: as the caller says.
    unsafe { _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift as i32)), _mm256_set1_epi8(MASK)) }
}

/// The low nibbles of 16 bytes, then the high ones.
///
/// # Safety
/// The machine has AVX2, and the pointer is good for 16 bytes.
#[inline(always)]
unsafe fn nibbles(bytes: *const u8) -> __m256i {
    // SAFETY: as the caller says.
    unsafe {
        let bytes = _mm_loadu_si128(bytes.cast());
        _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16::<4>(bytes), bytes), _mm256_set1_epi8(15))
    }
}

/// A byte of ones for each bit of four bytes that is set, of zeros for the others.
///
/// # Safety
/// The machine has AVX2, and the pointer is good for 4 bytes.
#[inline(always)]
unsafe fn fifth(bytes: *const u8) -> __m256i {
    // SAFETY: as the caller says.
    unsafe {
        let all = _mm256_set1_epi32(bytes.cast::<i32>().read_unaligned());
        let each = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
        let others = _mm256_set1_epi64x(0x7fbfdfeff7fbfdfe);
        _mm256_cmpeq_epi8(_mm256_or_si256(_mm256_shuffle_epi8(all, each), others), _mm256_set1_epi8(-1))
    }
}

/// Bytes as integers of 16 bits: those at even places, and those at odd places.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen<F: Format>(bytes: __m256i) -> (__m256i, __m256i) {
    if F::SIGNED {
        (_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)), _mm256_srai_epi16::<8>(bytes))
    } else {
        (_mm256_and_si256(bytes, _mm256_set1_epi16(255)), _mm256_srli_epi16::<8>(bytes))
    }
}

/// Eight whole numbers, wider.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eight(numbers: u64) -> __m256i {
    _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(numbers as i64))
}

/// The half float at `at`, in all lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn half(bytes: &[u8], at: usize) -> __m256 {
    let bits = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}

/// The half floats at `at` of up to eight blocks.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves<F: Format>(bytes: &[u8], at: usize) -> __m256 {
    let one = |run: usize| match bytes.get(run * F::BYTES + at..run * F::BYTES + at + 2) {
        Some(bytes) => i16::from_le_bytes([bytes[0], bytes[1]]),
        None => 0,
    };
    _mm256_cvtph_ps(_mm_setr_epi16(one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7)))
}

/// The scales of small blocks, or that of a large one in all lanes.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales<F: Format>(bytes: &[u8]) -> __m256 {
    if F::LARGE { half(bytes, F::SCALE) } else { halves::<F>(bytes, F::SCALE) }
}

/// What the sums of runs, and those of their second halves, are multiplied with.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn minima<F: Format>(bytes: &[u8], whole: [u64; 2]) -> (__m256, __m256) {
    let zero = _mm256_setzero_ps();
    let Some(at) = F::MIN else { return (zero, zero) };
    if !F::LARGE {
        return (halves::<F>(bytes, at), zero);
    }
    let factor = _mm256_sub_ps(zero, half(bytes, at));
    let times = |whole: __m256i| _mm256_mul_ps(factor, _mm256_cvtepi32_ps(whole));
    if !F::HALVES {
        return (times(eight(whole[0])), zero);
    }
    let whole = _mm_set_epi64x(whole[1] as i64, whole[0] as i64);
    let first = _mm256_cvtepi16_epi32(_mm_and_si128(whole, _mm_set1_epi16(255)));
    let second = _mm256_cvtepi16_epi32(_mm_srli_epi16::<8>(whole));
    (times(first), times(_mm256_sub_epi32(second, first)))
}

/// The whole scale of each lane of a run.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn lanes<F: Format>(whole: [__m256i; 2], run: usize) -> __m256i {
    if F::HALVES {
        let first = (run % 4 * 2) as i32;
        let second = first + 1;
        let index = _mm256_setr_epi32(first, first, first, first, second, second, second, second);
        _mm256_permutevar8x32_epi32(whole[run / 4], index)
    } else {
        _mm256_permutevar8x32_epi32(whole[0], _mm256_set1_epi32(run as i32))
    }
}

/// Does something for every run of a group, `INDEX` being its number.
macro_rules! each_run {
    ($count:expr, |$index:ident| $work:expr) => {{
        each_run!($count, $index, $work, 0 1 2 3 4 5 6 7)
    }};
    ($count:expr, $index:ident, $work:expr, $($number:literal)*) => {{
        $( if $number < $count { const $index: usize = $number; $work } )*
    }};
}

/// The bytes of group after group, and how many runs each has.
fn groups<F: Format>(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let group = if F::LARGE { F::BYTES } else { F::BYTES * RUNS };
    bytes.chunks(group).map(|bytes| (bytes, if F::LARGE { RUNS } else { bytes.len() / F::BYTES }))
}

/// The dot product of a row with a weight row as it lies.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn dot<F: Format>(bytes: &[u8], x: Row<'_>) -> f32 {
    let mut total = _mm256_setzero_ps();
    for ((bytes, runs), (x, sums)) in groups::<F>(bytes).zip(x.integers.chunks(RUNS).zip(x.sums)) {
        assert!(runs == x.len() && bytes.len() >= F::BYTES * if F::LARGE { 1 } else { runs });
        let mut group = _mm256_setzero_ps();
        let whole = F::whole(bytes);
        let scales = scales::<F>(bytes);
        if F::LARGE {
            let by = whole.scales.map(|scales| eight(scales));
            let mut sum = _mm256_setzero_si256();
            each_run!(RUNS, |INDEX| {
                // SAFETY: the block and the run were checked above.
                let found = unsafe { run_sum::<F, INDEX>(bytes.as_ptr(), &x[INDEX]) };
                sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(found, lanes::<F>(by, INDEX)));
            });
            group = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scales);
        } else {
            let mut each = [0.0f32; RUNS];
            // SAFETY: eight floats are written, which is what the array has.
            unsafe { _mm256_storeu_ps(each.as_mut_ptr(), scales) };
            each_run!(runs, |INDEX| {
                // SAFETY: the blocks and the run were checked above.
                let found = unsafe { run_sum::<F, INDEX>(bytes.as_ptr(), &x[INDEX]) };
                let found = _mm256_mul_ps(_mm256_cvtepi32_ps(found), _mm256_set1_ps(sums.scales[INDEX]));
                group = _mm256_fmadd_ps(found, _mm256_set1_ps(each[INDEX]), group);
            });
        }
        group = add_minima::<F>(group, sums, minima::<F>(bytes, whole.mins));
        total = add_group::<F>(total, group, sums);
    }
    super::super::avx2::add_up(total)
}

/// # Safety
/// As [`Format::quants`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_sum<F: Format, const INDEX: usize>(bytes: *const u8, x: &Run) -> __m256i {
    // SAFETY: as the caller says.
    let (even, odd) = widen::<F>(unsafe { <F as Format>::quants::<INDEX>(bytes) });
    let [first, second] = integers(x);
    _mm256_add_epi32(_mm256_madd_epi16(even, first), _mm256_madd_epi16(odd, second))
}

/// The integers of a run.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn integers(run: &Run) -> [__m256i; 2] {
    let at = run.0.as_ptr();
    // SAFETY: both halves of the 32 integers of a run are read; it is aligned.
    unsafe { [_mm256_load_si256(at.cast()), _mm256_load_si256(at.add(RUN / 2).cast())] }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_minima<F: Format>(group: __m256, sums: &Sums, (mins_of_runs, more): (__m256, __m256)) -> __m256 {
    let mut group = group;
    if mins::<F>() != Mins::None {
        group = _mm256_fmadd_ps(floats(&sums.runs), mins_of_runs, group);
    }
    if mins::<F>() == Mins::HalfRuns {
        group = _mm256_fmadd_ps(floats(&sums.halves), more, group);
    }
    group
}

/// Adds a group to the whole, in the activations' units.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn add_group<F: Format>(total: __m256, group: __m256, sums: &Sums) -> __m256 {
    if F::LARGE { _mm256_fmadd_ps(group, _mm256_set1_ps(sums.scales[0]), total) } else { _mm256_add_ps(total, group) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn floats(eight: &[f32; RUNS]) -> __m256 {
    // SAFETY: eight floats are read, which is what the array has.
    unsafe { _mm256_loadu_ps(eight.as_ptr()) }
}

/// The integers and the floats of a weight row.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn unpack<F: Format>(bytes: &[u8], runs: &mut [Run], factors: &mut [Factors]) {
    for ((bytes, count), (runs, factors)) in groups::<F>(bytes).zip(runs.chunks_mut(RUNS).zip(factors)) {
        assert!(count == runs.len() && bytes.len() >= F::BYTES * if F::LARGE { 1 } else { count });
        let whole = F::whole(bytes);
        let by = whole.scales.map(|scales| eight(scales));
        each_run!(count, |INDEX| {
            // SAFETY: the blocks were checked above.
            let (mut even, mut odd) = widen::<F>(unsafe { <F as Format>::quants::<INDEX>(bytes.as_ptr()) });
            if F::LARGE {
                // Scales have at most 8 bits: twice in a lane of 32 they are two of 16.
                let scale = lanes::<F>(by, INDEX);
                let scale = _mm256_blend_epi16::<0xaa>(scale, _mm256_slli_epi32::<16>(scale));
                even = _mm256_mullo_epi16(even, scale);
                odd = _mm256_mullo_epi16(odd, scale);
            }
            let at = runs[INDEX].0.as_mut_ptr();
            // SAFETY: both halves of the 32 integers of a run are written; it is aligned.
            unsafe {
                _mm256_store_si256(at.cast(), even);
                _mm256_store_si256(at.add(RUN / 2).cast(), odd);
            }
        });
        let (mins_of_runs, more) = minima::<F>(bytes, whole.mins);
        // SAFETY: eight floats are written to each, which is what the arrays have.
        unsafe {
            _mm256_storeu_ps(factors.scales.as_mut_ptr(), scales::<F>(bytes));
            _mm256_storeu_ps(factors.mins.as_mut_ptr(), mins_of_runs);
            _mm256_storeu_ps(factors.more.as_mut_ptr(), more);
        }
    }
}

/// The dot products of rows with columns.
#[target_feature(enable = "avx2,fma,f16c")]
pub fn tile<F: Format>(
    x: &[Row<'_>; TILE_ROWS],
    columns: &[(&[Run], &[Factors]); TILE_COLUMNS],
) -> [[f32; TILE_COLUMNS]; TILE_ROWS] {
    let (runs, groups) = (x[0].integers.len(), x[0].sums.len());
    assert!(x.iter().all(|x| x.integers.len() == runs && x.sums.len() == groups), "rows of different lengths");
    assert!(columns.iter().all(|(r, f)| r.len() == runs && f.len() == groups), "columns of another length");
    assert!(runs.div_ceil(RUNS) == groups && (!F::LARGE || runs.is_multiple_of(RUNS)), "a length of its own");
    let mut total = [[_mm256_setzero_ps(); TILE_COLUMNS]; TILE_ROWS];
    for group in 0..groups {
        let first = group * RUNS;
        let count = RUNS.min(runs - first);
        let mut sums = [[_mm256_setzero_ps(); TILE_COLUMNS]; TILE_ROWS];
        // SAFETY: `group` is below `groups`, and `first + count` at most `runs`: the lengths were checked above.
        unsafe {
            if F::LARGE {
                let mut whole = [[_mm256_setzero_si256(); TILE_COLUMNS]; TILE_ROWS];
                for run in first..first + RUNS {
                    for half in 0..2 {
                        let at = |run: &Run| _mm256_load_si256(run.0.as_ptr().add(half * RUN / 2).cast());
                        let weights: [__m256i; TILE_COLUMNS] =
                            std::array::from_fn(|c| at(columns[c].0.get_unchecked(run)));
                        for r in 0..TILE_ROWS {
                            let x = at(x[r].integers.get_unchecked(run));
                            for c in 0..TILE_COLUMNS {
                                whole[r][c] = _mm256_add_epi32(whole[r][c], _mm256_madd_epi16(x, weights[c]));
                            }
                        }
                    }
                }
                for r in 0..TILE_ROWS {
                    for c in 0..TILE_COLUMNS {
                        let scale = _mm256_broadcast_ss(&columns[c].1.get_unchecked(group).scales[0]);
                        sums[r][c] = _mm256_mul_ps(_mm256_cvtepi32_ps(whole[r][c]), scale);
                    }
                }
            } else {
                for run in 0..count {
                    let weights: [[__m256i; 2]; TILE_COLUMNS] =
                        std::array::from_fn(|c| integers(columns[c].0.get_unchecked(first + run)));
                    let scales: [__m256; TILE_COLUMNS] = std::array::from_fn(|c| {
                        _mm256_broadcast_ss(columns[c].1.get_unchecked(group).scales.get_unchecked(run))
                    });
                    for r in 0..TILE_ROWS {
                        let scale = _mm256_broadcast_ss(x[r].sums.get_unchecked(group).scales.get_unchecked(run));
                        let x = integers(x[r].integers.get_unchecked(first + run));
                        for c in 0..TILE_COLUMNS {
                            let (even, odd) =
                                (_mm256_madd_epi16(weights[c][0], x[0]), _mm256_madd_epi16(weights[c][1], x[1]));
                            let sum = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(even, odd)), scale);
                            sums[r][c] = _mm256_fmadd_ps(sum, scales[c], sums[r][c]);
                        }
                    }
                }
            }
            for r in 0..TILE_ROWS {
                let x = x[r].sums.get_unchecked(group);
                for c in 0..TILE_COLUMNS {
                    let factors = columns[c].1.get_unchecked(group);
                    let sum = add_minima::<F>(sums[r][c], x, (floats(&factors.mins), floats(&factors.more)));
                    total[r][c] = add_group::<F>(total[r][c], sum, x);
                }
            }
        }
    }
    total.map(|row| row.map(|total| super::super::avx2::add_up(total)))
}

/// As [`activations::quantise`].
#[target_feature(enable = "avx2,fma,f16c")]
pub fn quantise(scaling: Scaling, x: &[f32], integers: &mut [Run], sums: &mut [Sums]) {
    activations::quantise(scaling, x, integers, sums);
}
