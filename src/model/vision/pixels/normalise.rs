//! From a byte to the float that a model sees.
//!
//! Invariant: the arithmetic is the reference's, in single precision and in its order. As a byte has 256 levels, it is
//! done once for each of them and channel.

/// The float of each level, for each channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels([[f32; 256]; 3]);

impl Levels {
    /// As a processor of transformers does it: `rescale` is its `rescale_factor`, nothing with `do_rescale` off;
    /// `normalise` is its `do_normalize`. With neither of them, a level is its own number.
    pub fn new(mean: [f64; 3], std: [f64; 3], rescale: Option<f64>, normalise: bool) -> Self {
        // The two are made one by blowing up mean and deviation, in single precision.
        let blow_up = |number: f64| match rescale {
            Some(factor) => number as f32 * (1.0 / factor) as f32,
            None => number as f32,
        };
        let level = |channel: usize, level: usize| match rescale {
            _ if normalise => (level as f32 - blow_up(mean[channel])) / blow_up(std[channel]),
            Some(factor) => level as f32 * factor as f32,
            None => level as f32,
        };
        Self(std::array::from_fn(|channel| std::array::from_fn(|byte| level(channel, byte))))
    }

    /// The float of a byte.
    ///
    /// # Panics
    /// If `channel` is none of red, green and blue: 0, 1 and 2.
    #[inline]
    pub fn of(&self, channel: usize, byte: u8) -> f32 {
        self.0[channel][usize::from(byte)]
    }

    /// The floats of a run of pixels, one run for each channel. As many pixels are done as the shortest run has.
    #[inline]
    pub fn spread(&self, rgb: &[u8], [red, green, blue]: [&mut [f32]; 3]) {
        let [reds, greens, blues] = &self.0;
        let (pixels, _) = rgb.as_chunks::<3>();
        for (((pixel, red), green), blue) in pixels.iter().zip(red).zip(green).zip(blue) {
            let [r, g, b] = pixel.map(usize::from);
            (*red, *green, *blue) = (reds[r], greens[g], blues[b]);
        }
    }
}
