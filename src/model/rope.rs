//! Rotary positions: how fast each pair of numbers of a head turns, and by which coordinate.
//!
//! A text has one coordinate, its place. A picture has three: time, row and column ([`Position`]). Models that see
//! give each pair one of them to turn by ([`Axes`]); for text all three are the same, so nothing changes there.
//!
//! Invariant: angles are computed as the reference does, in 32-bit floats from exact speeds.

use candle_core::{Device, Tensor};

/// Where a row stands: time, row and column. A row of text has the same number three times.
pub type Position = [u32; 3];

/// Which coordinate the pairs of a head turn by, in models that see (M-RoPE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes {
    /// The first pairs by time, the next by row, the last by column: so many of each (Qwen2.5-VL).
    Sections([usize; 3]),
    /// Time, row and column in turn, while there are so many of each; what is left by time (Qwen3-VL).
    Interleaved([usize; 3]),
}

impl Axes {
    /// The coordinate of each of `pairs` pairs; an error if the sections are not as many.
    fn of_pairs(self, pairs: usize) -> Result<Vec<u8>, String> {
        let (Self::Sections(sections) | Self::Interleaved(sections)) = self;
        let sum = sections.iter().fold(0, |sum: usize, count| sum.saturating_add(*count));
        if sum != pairs {
            return Err(format!("mrope_section {sections:?} is {sum} pairs in all; a head has {pairs}"));
        }
        let axis = |pair: usize| match self {
            Self::Sections([time, rows, _]) => u8::from(pair >= time) + u8::from(pair >= time + rows),
            Self::Interleaved(sections) => {
                let axis = pair % 3;
                if axis > 0 && pair / 3 < sections[axis] { axis as u8 } else { 0 }
            }
        };
        Ok((0..pairs).map(axis).collect())
    }
}

/// The speeds of a head's pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    speeds: Vec<f32>,
    /// The coordinate that each pair turns by.
    axes: Vec<u8>,
    /// What sines and cosines are multiplied with.
    magnitude: f32,
}

/// How the speeds of a model are changed for contexts longer than those it was first trained on.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All speeds are divided by the factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Slow pairs are slowed down, fast ones are not (Llama 3).
    Llama3 {
        /// The factor of slow pairs.
        factor: f64,
        /// Pairs that turn less often than this in the original context are slow.
        low: f64,
        /// Pairs that turn more often than this are fast.
        high: f64,
        /// The original context.
        original: f64,
    },
    /// As Llama 3's in other words, and a magnitude (YaRN).
    Yarn {
        /// The factor of slow pairs.
        factor: f64,
        /// The original context.
        original: f64,
        /// Turns above which a pair is fast.
        beta_fast: f64,
        /// Turns below which a pair is slow.
        beta_slow: f64,
        /// The magnitude; by the factor if `None`.
        magnitude: Option<f64>,
        /// Whether the bounds between slow and fast are rounded to whole pairs.
        truncate: bool,
    },
    /// Each speed is divided by a number from the file (GGUF's `rope_freqs.weight`).
    Divisors(Vec<f32>),
}

impl Rope {
    /// The speeds for heads of `dim` numbers; an error if base and scaling make no sense.
    pub fn new(dim: usize, base: f64, scaling: &Scaling) -> Result<Self, String> {
        let plain = (0..dim / 2).map(|pair| base.powf(-2.0 * pair as f64 / dim as f64));
        let turn = std::f64::consts::TAU;
        let mut magnitude = 1.0;
        let speeds: Vec<f64> = match scaling {
            Scaling::None => plain.collect(),
            Scaling::Linear { factor } => plain.map(|speed| speed / factor).collect(),
            Scaling::Llama3 { factor, low, high, original } => plain
                .map(|speed| {
                    let turns = original * speed / turn;
                    let fast = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 - fast) * speed / factor + fast * speed
                })
                .collect(),
            Scaling::Yarn { factor, original, beta_fast, beta_slow, magnitude: given, truncate } => {
                magnitude = given.unwrap_or(if *factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 });
                // The pair that turns so often in the original context.
                let pair = |turns: f64| dim as f64 * (original / (turns * turn)).ln() / (2.0 * base.ln());
                let (low, high) = (pair(*beta_fast), pair(*beta_slow));
                let (low, high) = if *truncate { (low.floor(), high.ceil()) } else { (low, high) };
                let (low, high) = (low.max(0.0), high.min(dim as f64 - 1.0));
                let width = if high == low { 0.001 } else { high - low };
                let slow = |pair: usize| ((pair as f64 - low) / width).clamp(0.0, 1.0);
                plain
                    .enumerate()
                    .map(|(pair, speed)| slow(pair) * speed / factor + (1.0 - slow(pair)) * speed)
                    .collect()
            }
            Scaling::Divisors(divisors) => {
                plain.zip(divisors).map(|(speed, divisor)| speed / f64::from(*divisor)).collect()
            }
        };
        let speeds: Vec<f32> = speeds.iter().map(|speed| *speed as f32).collect();
        let rope = Self { axes: vec![0; speeds.len()], speeds, magnitude: magnitude as f32 };
        let sane = rope.speeds.iter().chain([&rope.magnitude]).all(|number| number.is_finite() && *number >= 0.0);
        let error = || format!("rotary positions with the base {base} and {scaling:?} make no sense");
        sane.then_some(rope).ok_or_else(error)
    }

    /// The same, with pairs that turn by other coordinates than the first.
    pub fn by(self, axes: Axes) -> Result<Self, String> {
        Ok(Self { axes: axes.of_pairs(self.speeds.len())?, ..self })
    }

    /// Cosines and sines of positions, a row each.
    pub fn tables(&self, positions: &[Position], device: &Device) -> candle_core::Result<(Tensor, Tensor)> {
        let pairs = || self.speeds.iter().zip(&self.axes);
        let angles =
            || positions.iter().flat_map(|at| pairs().map(|(speed, axis)| at[usize::from(*axis)] as f32 * speed));
        let shape = (positions.len(), self.speeds.len());
        let cos: Vec<f32> = angles().map(|angle| angle.cos() * self.magnitude).collect();
        let sin: Vec<f32> = angles().map(|angle| angle.sin() * self.magnitude).collect();
        Ok((Tensor::from_vec(cos, shape, device)?, Tensor::from_vec(sin, shape, device)?))
    }
}
