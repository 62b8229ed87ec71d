//! Flags about videos, the same for every verb that looks at one.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum};

use super::exit::Usage;
use crate::media::sample::{ModelSampler, Sampler};
use crate::media::worker::Worker;
use crate::media::{Cache, DecoderChoice, Limits, Look, Player, cache};
use crate::task::Task;

/// How many frames, unless somebody says otherwise.
const FRAMES: u32 = 8;
/// How many a second.
const FPS: f64 = 2.0;
/// The most threads that decode.
const MOST_THREADS: usize = 1024;

/// Which frames of a video are taken, how, and at what cost.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Video")]
pub struct LookFlags {
    /// How frames are chosen; the task's own way unless said otherwise
    #[arg(long, value_enum, value_name = "WAY")]
    sample: Option<Way>,
    /// How many frames (uniform, midpoint), or how many at most (fps); in `generate` also a folder of frames
    #[arg(long, value_name = "N|DIR")]
    frames: Option<FramesFlag>,
    /// Frames a second (fps)
    #[arg(long, value_name = "FPS")]
    fps: Option<f64>,
    /// The folder of the model whose own way is meant (--sample model)
    #[arg(long, value_name = "DIR")]
    sample_model: Option<PathBuf>,
    /// Who decodes
    #[arg(long, value_enum, default_value_t)]
    decoder: DecoderChoice,
    /// Frames a second of folders and lists of images
    #[arg(long, value_name = "FPS", default_value_t = 1.0)]
    image_fps: f64,
    /// Take frames of damaged videos too; without this their records come out unscored
    #[arg(long)]
    allow_damaged: bool,
    /// The largest picture, in pixels
    #[arg(long, value_name = "N", default_value_t = Limits::default().pixels)]
    max_pixels: u64,
    /// The longest video, in frames
    #[arg(long, value_name = "N", default_value_t = Limits::default().frames)]
    max_video_frames: u64,
    /// The most pictures that are decoded to get at the wanted ones
    #[arg(long, value_name = "N", default_value_t = Limits::default().decoded)]
    max_decoded: u64,
    /// The largest file
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().file_bytes)]
    max_video_bytes: u64,
    /// The longest that decoding one video may take
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().seconds)]
    max_seconds: u64,
    /// The most memory that decoding one video may take
    #[arg(long, value_name = "MB", default_value_t = Limits::default().memory >> 20)]
    max_decode_memory: u64,
    /// Threads that decode; all cores unless said otherwise
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    decode_threads: usize,
    /// Where decoded frames are kept for the next time
    #[arg(long, value_name = "DIR", conflicts_with = "no_frame_cache")]
    frame_cache: Option<PathBuf>,
    /// How large that folder may become
    #[arg(long, value_name = "MB", default_value_t = cache::DEFAULT_BYTES >> 20)]
    frame_cache_size: u64,
    /// Keep no decoded frames
    #[arg(long)]
    no_frame_cache: bool,
}

/// What `--frames` says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FramesFlag {
    /// How many.
    Count(u32),
    /// All that are in a folder.
    Folder(PathBuf),
}

impl FromStr for FramesFlag {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::Folder(text.into()), Self::Count))
    }
}

/// How frames are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Evenly from the first to the last
    Uniform,
    /// The middles of equal parts
    Midpoint,
    /// So many a second
    Fps,
    /// What the model's own processor does
    Model,
}

impl LookFlags {
    /// A player for a task, if somebody looks at its videos.
    pub fn player_for(&self, task: &Task, looks: bool) -> Result<Option<Player>> {
        if !looks || !task.sees_frames() {
            return Ok(None);
        }
        self.player(task.sampler()).map(Some)
    }

    /// A player; `own` is how frames are chosen if no flag says otherwise.
    pub fn player(&self, own: Option<Sampler>) -> Result<Player> {
        let sampler = self.sampler(own)?;
        self.player_with(sampler)
    }

    /// A player for one picture of each file.
    pub fn picture_player(&self) -> Result<Player> {
        self.player_with(Sampler::Uniform { frames: 1 })
    }

    /// The folder of frames that `--frames` names, and a player for all that are in it.
    pub fn frames_folder(&self) -> Result<Option<(PathBuf, Player)>> {
        let Some(FramesFlag::Folder(folder)) = &self.frames else { return Ok(None) };
        if self.sample.is_some() || self.fps.is_some() || self.sample_model.is_some() {
            let what = "--frames DIR shows all frames of the folder; to choose among them, name it with --video";
            return Err(Usage(what.to_owned()).into());
        }
        let sampler = Sampler::Fps { fps: positive("--image-fps", self.image_fps)?, max_frames: None };
        Ok(Some((folder.clone(), self.player_with(sampler)?)))
    }

    fn player_with(&self, sampler: Sampler) -> Result<Player> {
        let limits = Limits {
            file_bytes: self.max_video_bytes,
            pixels: self.max_pixels,
            frames: self.max_video_frames,
            decoded: self.max_decoded,
            seconds: self.max_seconds,
            memory: self.max_decode_memory.saturating_mul(1 << 20),
        };
        if self.decode_threads > MOST_THREADS {
            return Err(Usage(format!("--decode-threads {}: give at most {MOST_THREADS}", self.decode_threads)).into());
        }
        let look = Look {
            sampler,
            decoder: self.decoder,
            image_fps: positive("--image-fps", self.image_fps)?,
            limits,
            threads: self.decode_threads,
            allow_damaged: self.allow_damaged,
        };
        let folder = self.frame_cache.clone().or_else(Cache::default_folder).filter(|_| !self.no_frame_cache);
        let cache = folder.map(|folder| Cache::new(folder, self.frame_cache_size.saturating_mul(1 << 20)));
        Ok(Player::new(Worker::this_program()?, cache, look))
    }

    fn sampler(&self, own: Option<Sampler>) -> Result<Sampler> {
        let count = match &self.frames {
            None => None,
            Some(FramesFlag::Count(0)) => return Err(Usage("--frames 0: at least one is needed".to_owned()).into()),
            Some(FramesFlag::Count(count)) => Some(*count),
            Some(FramesFlag::Folder(name)) => {
                let what = format!("--frames {}: give a number of frames", name.display());
                return Err(Usage(what).into());
            }
        };
        let fps = self.fps.map(|fps| positive("--fps", fps)).transpose()?;
        // A number alone is enough to say which way is meant.
        let way = self.sample.or(match (&self.sample_model, fps, count) {
            (Some(_), _, _) => Some(Way::Model),
            (None, Some(_), _) => Some(Way::Fps),
            (None, None, Some(_)) if !matches!(own, Some(Sampler::Midpoint { .. })) => Some(Way::Uniform),
            (None, None, Some(_)) => Some(Way::Midpoint),
            (None, None, None) => None,
        });
        let misplaced = [
            (fps.is_some() && way != Some(Way::Fps), "--fps", "fps"),
            (self.sample_model.is_some() && way != Some(Way::Model), "--sample-model", "model"),
        ];
        if let Some((_, flag, way)) = misplaced.into_iter().find(|(wrong, _, _)| *wrong) {
            return Err(Usage(format!("{flag} goes with --sample {way}")).into());
        }
        let frames = count.unwrap_or(FRAMES);
        Ok(match way {
            None => own.unwrap_or(Sampler::Uniform { frames }),
            Some(Way::Uniform) => Sampler::Uniform { frames },
            Some(Way::Midpoint) => Sampler::Midpoint { frames },
            Some(Way::Fps) => Sampler::Fps { fps: fps.unwrap_or(FPS), max_frames: count },
            Some(Way::Model) => {
                if count.is_some() {
                    let what = "--frames does not go with --sample model: the model's own files say how many";
                    return Err(Usage(what.to_owned()).into());
                }
                let folder = self
                    .sample_model
                    .as_deref()
                    .ok_or_else(|| Usage("--sample model needs the model's folder: --sample-model DIR".to_owned()))?;
                Sampler::Model(ModelSampler::from_folder(folder)?)
            }
        })
    }
}

/// A flag's number, if it is one that frames can be counted by.
fn positive(flag: &str, value: f64) -> Result<f64, Usage> {
    let sane = value.is_finite() && value > 0.0 && value <= 1e6;
    if sane { Ok(value) } else { Err(Usage(format!("{flag} {value}: give a number above 0, at most 1000000"))) }
}
