//! Rotary positions: how fast each pair of numbers of a head turns.
//!
//! Invariant: angles are computed as the reference does, in 32-bit floats from exact speeds.

use candle_core::{Device, Tensor};

/// The speeds of a head's pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    speeds: Vec<f32>,
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
        let rope = Self { speeds: speeds.iter().map(|speed| *speed as f32).collect(), magnitude: magnitude as f32 };
        let sane = rope.speeds.iter().chain([&rope.magnitude]).all(|number| number.is_finite() && *number >= 0.0);
        let error = || format!("rotary positions with the base {base} and {scaling:?} make no sense");
        sane.then_some(rope).ok_or_else(error)
    }

    /// Cosines and sines of positions, a row each.
    pub fn tables(&self, positions: &[u32], device: &Device) -> candle_core::Result<(Tensor, Tensor)> {
        let angles = || positions.iter().flat_map(|p| self.speeds.iter().map(move |speed| *p as f32 * speed));
        let shape = (positions.len(), self.speeds.len());
        let cos: Vec<f32> = angles().map(|angle| angle.cos() * self.magnitude).collect();
        let sin: Vec<f32> = angles().map(|angle| angle.sin() * self.magnitude).collect();
        Ok((Tensor::from_vec(cos, shape, device)?, Tensor::from_vec(sin, shape, device)?))
    }
}
