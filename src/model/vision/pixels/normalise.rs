//! From a byte to the float that a model sees.
//!
//! Invariant: the arithmetic is the reference's, in single precision and in its order. As a byte has 256 levels, it is
//! done once for each of them and channel; long runs of pixels do it again where that is faster than looking it up.

use crate::kernels::{Level, Scale};

/// The float of each level, for each channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    table: [[f32; 256]; 3],
    /// The arithmetic behind the table, if that is one of normalising.
    scale: Option<Scale>,
}

impl Levels {
    /// As a processor of transformers does it: `rescale` is its `rescale_factor`, nothing with `do_rescale` off;
    /// `normalise` is its `do_normalize`. With neither of them, a level is its own number.
    pub fn new(mean: [f64; 3], std: [f64; 3], rescale: Option<f64>, normalise: bool) -> Self {
        // Mean and deviation are blown up, in single precision, instead of every level shrunk.
        let blow_up = |number: f64| match rescale {
            Some(factor) => number as f32 * (1.0 / factor) as f32,
            None => number as f32,
        };
        let scale = normalise.then(|| Scale { mean: mean.map(blow_up), deviation: std.map(blow_up) });
        let level = |channel: usize, byte: u8| match (scale, rescale) {
            (Some(scale), _) => scale.of(channel, byte),
            (None, Some(factor)) => f32::from(byte) * factor as f32,
            (None, None) => f32::from(byte),
        };
        let table = [0, 1, 2].map(|channel| std::array::from_fn(|byte| level(channel, byte as u8)));
        Self { table, scale }
    }

    /// The float of a byte.
    ///
    /// # Panics
    /// If `channel` is none of red, green and blue: 0, 1 and 2.
    #[inline]
    pub fn of(&self, channel: usize, byte: u8) -> f32 {
        self.table[channel][usize::from(byte)]
    }

    /// The floats of a run of pixels of three bytes, one plane for each channel: those of a patch's row, say. Short
    /// runs do not cost more than long ones, from eight pixels on.
    ///
    /// # Panics
    /// If the planes are not as long as there are pixels.
    #[inline]
    pub fn spread(&self, rgb: &[u8], [red, green, blue]: [&mut [f32]; 3]) {
        if self.scale.is_some_and(|scale| scale.spread(Level::detect(), rgb, [red, green, blue])) {
            return;
        }
        assert!([&red, &green, &blue].iter().all(|plane| plane.len() * 3 == rgb.len()));
        let [reds, greens, blues] = &self.table;
        let (pixels, _) = rgb.as_chunks::<3>();
        for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
            let [r, g, b] = pixel.map(usize::from);
            (*red, *green, *blue) = (reds[r], greens[g], blues[b]);
        }
    }
}
