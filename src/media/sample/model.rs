//! The frames that a model's own processor would choose.
//!
//! `transformers` 4.57.6 and 5.23 choose the same frames in all three processors here; only their types differ. They
//! take a video's rate and number of frames from its stream: see [`Clip::rate`].
//!
//! Invariant: the rule is that of the code with which the public checkpoints are used, mistakes included: SmolVLM2's
//! compares seconds with frames (`duration - 2 > max_frames * fps`), and so does this one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Clip, MOST, spacing};
use crate::media::MediaError;

/// How the processor of one model chooses frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSampler {
    /// The `model_type` of the model.
    pub model: String,
    /// What its processor does.
    pub rule: Rule,
}

/// What a processor does. N is the number of frames of the video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// `smart_nframes` of qwen-vl-utils 0.0.14, with which Qwen2-VL and Qwen2.5-VL are released: their folders say
    /// nothing of sampling, and `transformers` samples nothing by itself for them. As many as `fps` gives, between
    /// the limits, rounded down to pairs; `torch.linspace(0, N - 1, n).round()` in 32 bits.
    QwenVlUtils {
        /// Frames a second.
        fps: f64,
        /// The fewest.
        min_frames: u32,
        /// The most.
        max_frames: u32,
    },
    /// `Qwen2VLVideoProcessor.sample_frames`, where the folder says `do_sample_frames`: the same number, but the
    /// frames at `torch.arange(0, N, N / n)` in 32 bits, so that the last frame is not shown.
    Qwen2Vl {
        /// How many, or else how many a second.
        rate: Rate,
        /// The fewest.
        min_frames: u32,
        /// The most.
        max_frames: u32,
        /// The number is a multiple of this.
        temporal_patch: u32,
    },
    /// `Qwen3VLVideoProcessor.sample_frames`: as many as `fps` gives, between the limits;
    /// `numpy.linspace(0, N - 1, n).round()`.
    Qwen3Vl {
        /// How many, or else how many a second.
        rate: Rate,
        /// The fewest.
        min_frames: u32,
        /// The most.
        max_frames: u32,
    },
    /// `SmolVLMVideoProcessor.sample_frames`: as many as `fps` gives, up to the limit;
    /// `numpy.unique(numpy.linspace(first, last, n, dtype=int))`, where a long video loses its first and last second.
    SmolVlm {
        /// Frames a second.
        fps: f64,
        /// The most.
        max_frames: u32,
    },
}

/// How many frames are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// So many a second.
    Fps(f64),
    /// So many.
    Frames(u32),
}

/// Seconds that SmolVLM2 leaves out at both ends of a long video.
const SKIPPED: f64 = 1.0;
/// Qwen's models see frames in pairs.
const PAIR: f64 = 2.0;

impl ModelSampler {
    /// The numbers of the frames that the processor would choose. A video of fewer frames than the processor's
    /// smallest number, which some processors refuse with an error, gives all its frames.
    pub(super) fn pick(&self, clip: &Clip<'_>) -> Result<Vec<u64>, MediaError> {
        let total = clip.total();
        let frames = total as f64;
        let seconds = frames / clip.rate();
        match self.rule {
            Rule::QwenVlUtils { fps, min_frames, max_frames } => {
                let fewest = to_multiple(f64::from(min_frames).max(PAIR), PAIR, f64::ceil);
                let most = to_multiple(f64::from(max_frames).min(frames), PAIR, f64::floor);
                let count = to_multiple((seconds * fps).max(fewest).min(most).min(frames), PAIR, f64::floor);
                if count < PAIR {
                    return Ok((0..total).collect());
                }
                let indices = spacing::torch((total - 1) as f32, bounded(count)?);
                Ok(indices.map(|at| at.round_ties_even() as u64).collect())
            }
            Rule::Qwen2Vl { rate, min_frames, max_frames, temporal_patch } => {
                let patch = f64::from(temporal_patch.max(1));
                let count = match rate {
                    Rate::Frames(wanted) => to_multiple(f64::from(wanted), patch, f64::round_ties_even),
                    Rate::Fps(fps) => {
                        let most = to_multiple(f64::from(max_frames).min(frames), patch, f64::floor);
                        let count = (seconds * fps).max(f64::from(min_frames)).min(most).min(frames);
                        to_multiple(count, patch, f64::floor)
                    }
                };
                if count < 1.0 || count > frames {
                    return Ok((0..total).collect());
                }
                bounded(count)?;
                // Rounding sometimes makes it one number too many: the frame after the last, where the reference fails.
                let indices = spacing::torch_arange(total, frames / count).map(|at| at as u64);
                Ok(indices.filter(|index| *index < total).collect())
            }
            Rule::Qwen3Vl { rate, min_frames, max_frames } => {
                let count = match rate {
                    Rate::Frames(wanted) => f64::from(wanted),
                    Rate::Fps(fps) => {
                        let count = (seconds * fps).trunc().max(f64::from(min_frames));
                        count.min(f64::from(max_frames)).min(frames)
                    }
                };
                let indices = spacing::numpy(0.0, (total - 1) as f64, bounded(count)?);
                Ok(indices.map(|at| at.round_ties_even() as u64).collect())
            }
            Rule::SmolVlm { fps, max_frames } => {
                let most = f64::from(max_frames);
                let count = (fps * seconds).round_ties_even().min(most).max(1.0);
                let (mut first, mut last) = (0.0, (total - 1) as f64);
                if seconds - 2.0 * SKIPPED > most * fps {
                    let rate = clip.rate();
                    let (skipped, kept) = ((SKIPPED * rate).trunc(), (frames - SKIPPED * rate).trunc().min(last));
                    if skipped < kept {
                        (first, last) = (skipped, kept);
                    }
                }
                let mut indices: Vec<u64> =
                    spacing::numpy(first, last, bounded(count)?).map(|at| at.floor() as u64).collect();
                indices.dedup();
                Ok(indices)
            }
        }
    }
}

impl fmt::Display for ModelSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.model)?;
        match &self.rule {
            Rule::QwenVlUtils { fps, min_frames, max_frames } => {
                write!(f, "fps={fps},min={min_frames},max={max_frames}")
            }
            Rule::Qwen2Vl { rate, min_frames, max_frames, temporal_patch } => {
                write!(f, "arange,{rate},min={min_frames},max={max_frames},patch={temporal_patch}")
            }
            Rule::Qwen3Vl { rate, min_frames, max_frames } => write!(f, "{rate},min={min_frames},max={max_frames}"),
            Rule::SmolVlm { fps, max_frames } => write!(f, "fps={fps},max={max_frames}"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Fps(fps) => write!(f, "fps={fps}"),
            Rate::Frames(frames) => write!(f, "frames={frames}"),
        }
    }
}

/// A number turned into a multiple of a factor.
fn to_multiple(number: f64, factor: f64, round: fn(f64) -> f64) -> f64 {
    round(number / factor) * factor
}

/// A number of frames that can be held.
fn bounded(count: f64) -> Result<u64, MediaError> {
    if count >= 1.0 && count <= MOST as f64 {
        return Ok(count as u64);
    }
    Err(MediaError::Usage(format!("the model's processor asks for {count} frames; 1 to {MOST} can be had")))
}
