//! Interleaved bytes to planes of normalised floats.
//!
//! Invariant: a float is what one subtraction and one division in single precision give, so every kernel gives the same
//! bits.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::Level;

/// `(byte - mean) / deviation`, for each of three channels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// What is taken off.
    pub mean: [f32; 3],
    /// What the rest is divided by.
    pub deviation: [f32; 3],
}

impl Scale {
    /// The float of a byte.
    pub fn of(&self, channel: usize, byte: u8) -> f32 {
        (f32::from(byte) - self.mean[channel]) / self.deviation[channel]
    }

    /// The floats of pixels of three bytes, one plane for each channel. False, and nothing done, if there is no faster
    /// way than one by one.
    ///
    /// # Panics
    /// If the planes are not as long as there are pixels.
    pub fn spread(&self, level: Level, rgb: &[u8], planes: [&mut [f32]; 3]) -> bool {
        let pixels = planes[0].len();
        assert!(rgb.len() == pixels * 3 && planes.iter().all(|plane| plane.len() == pixels));
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 if pixels >= PIXELS => {
                // SAFETY: the level says that the machine has AVX2, and the lengths were looked at.
                unsafe { avx2(self, rgb, planes.map(<[f32]>::as_mut_ptr), pixels) };
                true
            }
            _ => false,
        }
    }
}

/// Pixels that are done at a time.
#[cfg(target_arch = "x86_64")]
const PIXELS: usize = 8;

/// # Safety
/// There are at least eight `pixels`, each has three bytes, and each plane room for all.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(scale: &Scale, rgb: &[u8], planes: [*mut f32; 3], pixels: usize) {
    let means = scale.mean.map(|mean| _mm256_set1_ps(mean));
    let deviations = scale.deviation.map(|deviation| _mm256_set1_ps(deviation));
    // Every third byte as a number of 32 bits: from byte 0 of the first 16, and from byte 4 of those that begin at 8.
    let every_third = |from: i8| {
        let byte = |i: i32| (i32::from(from) + 3 * i) | !0xff;
        _mm_setr_epi32(byte(0), byte(1), byte(2), byte(3))
    };
    let picks = [0, 1, 2].map(|channel| _mm256_set_m128i(every_third(channel + 4), every_third(channel)));
    for start in (0..pixels).step_by(PIXELS) {
        // The last pixels are done with some of those before them, once more.
        let start = start.min(pixels - PIXELS);
        // SAFETY: eight pixels, which are 24 bytes, begin at `start`.
        let bytes = unsafe {
            let bytes = rgb.as_ptr().add(start * 3);
            _mm256_set_m128i(_mm_loadu_si128(bytes.add(8).cast()), _mm_loadu_si128(bytes.cast()))
        };
        for channel in 0..3 {
            let numbers = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, picks[channel]));
            let floats = _mm256_div_ps(_mm256_sub_ps(numbers, means[channel]), deviations[channel]);
            // SAFETY: as above, for the plane.
            unsafe { _mm256_storeu_ps(planes[channel].add(start), floats) };
        }
    }
}
