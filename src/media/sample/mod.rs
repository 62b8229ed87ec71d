//! Which frames of a video are shown to a judge.
//!
//! Invariant: a sampler gives numbers of frames that exist, in the order of time, and the same ones as the reference
//! program that it is named after. It depends on nothing but the clip, so its name is part of a cache key.

mod folder;
mod model;
mod spacing;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use self::model::{ModelSampler, Rate, Rule};
use super::MediaError;

/// The most frames that one sampler gives: far more than any model takes, and few enough to hold.
const MOST: u64 = 1 << 20;

/// How much later than asked for a frame may begin and still count as shown: times are sums of rounded fractions.
const SLACK: f64 = 1e-9;

/// What a sampler knows of a video.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip<'a> {
    /// When each frame is shown, in seconds, in the order of presentation.
    pub times: &'a [f64],
    /// How long the video is, in seconds: from its first frame to the end of its last.
    pub duration: f64,
}

impl Clip<'_> {
    /// How many frames there are.
    pub fn total(&self) -> u64 {
        self.times.len() as u64
    }

    /// Frames a second, as the reference programs get it: the average rate of the stream, which is the number of
    /// frames by the duration. They have it as a fraction; here it comes from a rounded duration, so a rate within
    /// rounding of a whole number, or of one of the NTSC rates (24000/1001 and its kin), is taken for that one. 24 if
    /// there is no duration, as `transformers` assumes for Qwen3-VL.
    pub fn rate(&self) -> f64 {
        let rate = self.times.len() as f64 / self.duration;
        if !(rate.is_finite() && rate > 0.0) {
            return 24.0;
        }
        for scale in [1.0, 1.001] {
            let whole = (rate * scale).round();
            if whole >= 1.0 && (rate * scale - whole).abs() <= 1e-9 * whole {
                // 30000/1001, with one rounding.
                return if scale == 1.0 { whole } else { whole * 1000.0 / 1001.0 };
            }
        }
        rate
    }
}

/// A way to choose frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// Evenly from the first frame to the last: `numpy.linspace(0, N - 1, frames, dtype=int)`, as AnyCapEval does.
    /// Where more frames are asked for than there are, some come twice, as they do there.
    Uniform {
        /// How many.
        frames: u32,
    },
    /// The middle of each of so many equal parts, as `get_index` of InternVL's example does: parts of (N - 1) / frames,
    /// and frame `int(part / 2 + numpy.round(part * i))` for part i, where halves are rounded to the even number.
    Midpoint {
        /// How many.
        frames: u32,
    },
    /// The frame that is on the screen at each of the times 0, 1/fps, 2/fps … from the first frame on, while the
    /// video lasts: the last one whose time is not later. The real times are used, so that a variable rate changes
    /// nothing; a frame that stays on the screen for several of those times is there several times.
    Fps {
        /// How many a second.
        fps: f64,
        /// The most frames; where there would be more, so many of the times are taken, evenly as by
        /// [`Sampler::Uniform`].
        max_frames: Option<u32>,
    },
    /// As the processor of a model does.
    Model(ModelSampler),
}

impl Sampler {
    /// The sampler as text, the same for the same sampler: `uniform:8`, `midpoint:8`, `fps:2`, `fps:2,max=64`,
    /// `model:qwen2_5_vl:fps=2,min=4,max=768`.
    pub fn name(&self) -> String {
        self.to_string()
    }

    /// The numbers of the frames to show, counted from 0, never falling.
    pub fn pick(&self, clip: &Clip<'_>) -> Result<Vec<u64>, MediaError> {
        let total = clip.total();
        if total == 0 {
            return Err(MediaError::Damaged("the video has no frames".to_owned()));
        }
        let picked = match self {
            Sampler::Uniform { frames } => uniform(total, wanted(*frames)?),
            Sampler::Midpoint { frames } => midpoint(total, wanted(*frames)?),
            Sampler::Fps { fps, max_frames } => by_time(clip, *fps, *max_frames)?,
            Sampler::Model(model) => model.pick(clip)?,
        };
        // The references round; none of them may lead out of the video.
        Ok(picked.into_iter().map(|index| index.min(total - 1)).collect())
    }
}

impl fmt::Display for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sampler::Uniform { frames } => write!(f, "uniform:{frames}"),
            Sampler::Midpoint { frames } => write!(f, "midpoint:{frames}"),
            Sampler::Fps { fps, max_frames: None } => write!(f, "fps:{fps}"),
            Sampler::Fps { fps, max_frames: Some(most) } => write!(f, "fps:{fps},max={most}"),
            Sampler::Model(model) => write!(f, "model:{model}"),
        }
    }
}

impl FromStr for Sampler {
    type Err = MediaError;

    /// Reads what [`Sampler::name`] writes, except for a model's sampler, which comes from the model's folder
    /// ([`ModelSampler::from_folder`]).
    fn from_str(text: &str) -> Result<Self, MediaError> {
        let wrong = || {
            let known = "uniform:8, midpoint:8, fps:2 and fps:2,max=64";
            MediaError::Usage(format!("`{}` is no way to choose frames; there are {known}", text.escape_debug()))
        };
        let (kind, number) = text.split_once(':').ok_or_else(wrong)?;
        let count = |number: &str| number.parse::<u32>().ok().filter(|n| wanted(*n).is_ok()).ok_or_else(wrong);
        match kind {
            "uniform" => Ok(Sampler::Uniform { frames: count(number)? }),
            "midpoint" => Ok(Sampler::Midpoint { frames: count(number)? }),
            "fps" => {
                let (fps, most) = match number.split_once(",max=") {
                    Some((fps, most)) => (fps, Some(count(most)?)),
                    None => (number, None),
                };
                let fps = fps.parse::<f64>().ok().filter(|fps| fps.is_finite() && *fps > 0.0).ok_or_else(wrong)?;
                Ok(Sampler::Fps { fps, max_frames: most })
            }
            _ => Err(wrong()),
        }
    }
}

/// A number of frames that can be asked for.
fn wanted(frames: u32) -> Result<u64, MediaError> {
    match u64::from(frames) {
        0 => Err(MediaError::Usage("no frames are asked for; ask for 1 or more".to_owned())),
        frames if frames > MOST => {
            Err(MediaError::Usage(format!("{frames} frames are asked for; ask for {MOST} or fewer")))
        }
        frames => Ok(frames),
    }
}

/// `numpy.linspace(0, total - 1, count, dtype=int)`, which rounds down.
fn uniform(total: u64, count: u64) -> Vec<u64> {
    spacing::numpy(0.0, (total - 1) as f64, count).map(|at| at.floor() as u64).collect()
}

fn midpoint(total: u64, count: u64) -> Vec<u64> {
    let part = (total - 1) as f64 / count as f64;
    (0..count).map(|i| (part / 2.0 + (part * i as f64).round_ties_even()) as u64).collect()
}

fn by_time(clip: &Clip<'_>, fps: f64, max_frames: Option<u32>) -> Result<Vec<u64>, MediaError> {
    if !(fps.is_finite() && fps > 0.0) {
        return Err(MediaError::Usage(format!("{fps} frames a second are asked for; ask for more than 0")));
    }
    let start = clip.times.first().copied().unwrap_or(0.0);
    // How many k have k / fps before the end. A video without a duration still shows its first frame.
    let times = ((clip.duration - SLACK) * fps).ceil();
    let times = if times.is_finite() && times >= 1.0 { times as u64 } else { 1 };
    let at = |k: u64| {
        let time = start + k as f64 / fps;
        let begun = clip.times.partition_point(|begin| *begin <= time + SLACK);
        begun.saturating_sub(1) as u64
    };
    match max_frames.map(wanted).transpose()? {
        Some(most) if times > most => Ok(uniform(times, most).into_iter().map(at).collect()),
        _ if times > MOST => {
            let what = format!("{fps} frames a second of {} s are {times} frames", clip.duration);
            Err(MediaError::Usage(format!("{what}; ask for {MOST} or fewer (fps:{fps},max=64)")))
        }
        _ => Ok((0..times).map(at).collect()),
    }
}
