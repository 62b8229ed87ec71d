//! The two passes for AVX2.
//!
//! Invariant: the sums are those of the portable passes. Weights of zero stand in for pixels that are not there.

use std::arch::x86_64::*;
use std::ops::Range;

use super::{CHANNELS, GROUP, ROWS, Taps, portable};

/// As [`portable::across`].
#[target_feature(enable = "avx2")]
pub fn across(taps: &Taps, columns: Range<usize>, rows: [&[u8]; ROWS], out: &mut [u8], stride: usize) {
    assert!(columns.end <= taps.len() && columns.len() * CHANNELS < stride && ROWS * stride <= out.len());
    assert!(rows.iter().all(|row| row.len() >= taps.reach()));
    let (rows, out) = (rows.map(<[u8]>::as_ptr), out.as_mut_ptr());
    // SAFETY: the assertions above are what the function asks for.
    unsafe {
        match taps.stride / GROUP {
            1 => groups::<1>(taps, columns, rows, out, stride),
            2 => groups::<2>(taps, columns, rows, out, stride),
            3 => groups::<3>(taps, columns, rows, out, stride),
            4 => groups::<4>(taps, columns, rows, out, stride),
            _ => groups::<0>(taps, columns, rows, out, stride),
        }
    }
}

/// With a number of groups that the compiler knows, or 0 for any.
///
/// # Safety
/// The columns are those of `taps`; each row is good for `taps.reach()` bytes; `out` for four times `stride`, which is
/// more than three times the columns.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn groups<const GROUPS: usize>(
    taps: &Taps,
    columns: Range<usize>,
    rows: [*const u8; ROWS],
    out: *mut u8,
    stride: usize,
) {
    let count = if GROUPS == 0 { taps.stride / GROUP } else { GROUPS };
    let half = _mm256_set1_epi32(1 << (taps.precision - 1));
    let shift = _mm_cvtsi32_si128(taps.precision as i32);
    // From bytes RGBRGBRGBRGB: pixels 0 and 1 side by side in 16 bits each, one channel after the other; and 2 and 3.
    let one = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    let two = _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    let (one, two) = (_mm256_broadcastsi128_si256(one), _mm256_broadcastsi128_si256(two));
    for (i, column) in columns.enumerate() {
        // SAFETY: a window starts inside the row, and `reach` counts a whole stride and four bytes behind that, so 16
        // bytes can be read for each group of four pixels. A column has `stride` weights. The four bytes that are
        // written end before the next row.
        unsafe {
            let window = taps.windows.get_unchecked(column).start * CHANNELS;
            let weights = taps.weights.as_ptr().add(column * taps.stride);
            let (mut first, mut second) = (half, half);
            for group in 0..count {
                let at = window + group * GROUP * CHANNELS;
                let weights = weights.add(group * GROUP).cast::<i32>();
                let low = _mm256_set1_epi32(weights.read_unaligned());
                let high = _mm256_set1_epi32(weights.add(1).read_unaligned());
                let pixels = |a: usize, b: usize| {
                    let a = _mm256_castsi128_si256(_mm_loadu_si128(rows[a].add(at).cast()));
                    _mm256_inserti128_si256::<1>(a, _mm_loadu_si128(rows[b].add(at).cast()))
                };
                let (x, y) = (pixels(0, 1), pixels(2, 3));
                first = _mm256_add_epi32(first, _mm256_madd_epi16(_mm256_shuffle_epi8(x, one), low));
                second = _mm256_add_epi32(second, _mm256_madd_epi16(_mm256_shuffle_epi8(y, one), low));
                first = _mm256_add_epi32(first, _mm256_madd_epi16(_mm256_shuffle_epi8(x, two), high));
                second = _mm256_add_epi32(second, _mm256_madd_epi16(_mm256_shuffle_epi8(y, two), high));
            }
            // Rows 0 and 2 are in the lower half, 1 and 3 in the upper.
            let words = _mm256_packs_epi32(_mm256_sra_epi32(first, shift), _mm256_sra_epi32(second, shift));
            let bytes = _mm256_packus_epi16(words, words);
            let (even, odd) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
            let out = out.add(i * CHANNELS);
            out.cast::<i32>().write_unaligned(_mm_cvtsi128_si32(even));
            out.add(stride).cast::<i32>().write_unaligned(_mm_cvtsi128_si32(odd));
            out.add(2 * stride).cast::<i32>().write_unaligned(_mm_extract_epi32::<1>(even));
            out.add(3 * stride).cast::<i32>().write_unaligned(_mm_extract_epi32::<1>(odd));
        }
    }
}

/// Bytes that the second pass sums up at a time.
const COLUMNS: usize = 32;

/// As [`portable::down`].
#[target_feature(enable = "avx2")]
pub fn down(source: &[u8], stride: usize, weights: &[i16], precision: u32, out: &mut [u8]) {
    let Some(last) = out.len().checked_sub(COLUMNS).filter(|_| !weights.is_empty()) else {
        return portable::down(source, stride, weights, precision, out);
    };
    assert!(source.len() >= (weights.len() - 1) * stride + out.len());
    let half = _mm256_set1_epi32(1 << (precision - 1));
    let shift = _mm_cvtsi32_si128(precision as i32);
    let zero = _mm256_setzero_si256();
    for start in (0..out.len()).step_by(COLUMNS) {
        // The last bytes are done with some of those before them, once more.
        let start = start.min(last);
        let mut sums = [half; 4];
        for (pair, weights) in weights.chunks(2).enumerate() {
            // The last row of an odd number is taken twice, the second time with no weight.
            let (even, odd) = (weights[0], weights.get(1).copied());
            let at = 2 * pair * stride + start;
            let next = if odd.is_some() { at + stride } else { at };
            let weight = i32::from(even as u16) | i32::from(odd.unwrap_or(0)) << 16;
            let weight = _mm256_set1_epi32(weight);
            // SAFETY: `start` and 32 more bytes are inside a row, and there is a row for each weight.
            let (x, y) = unsafe {
                let source = source.as_ptr();
                (_mm256_loadu_si256(source.add(at).cast()), _mm256_loadu_si256(source.add(next).cast()))
            };
            let (low, high) = (_mm256_unpacklo_epi8(x, y), _mm256_unpackhi_epi8(x, y));
            let words = [
                _mm256_unpacklo_epi8(low, zero),
                _mm256_unpackhi_epi8(low, zero),
                _mm256_unpacklo_epi8(high, zero),
                _mm256_unpackhi_epi8(high, zero),
            ];
            for (sum, words) in sums.iter_mut().zip(words) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(words, weight));
            }
        }
        let [a, b, c, d] = sums.map(|sum| _mm256_sra_epi32(sum, shift));
        let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        // SAFETY: `start` and 32 more bytes are inside the row.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(start).cast(), bytes) };
    }
}
