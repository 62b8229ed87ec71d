//! Frames of anything: images, what the built-in decoder knows, what ffmpeg knows. Runs inside the worker process.
//!
//! Invariant: every way in gives the same kind of frames. Which one was taken is decided by what the file holds, not by
//! its name.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::sample::{Clip, Sampler};
use super::{Fault, Frame, FrameIndex, Limits, MediaError, builtin, colour, ffmpeg, images};

/// Which decoder is used for video files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum DecoderChoice {
    /// The built-in one, and ffmpeg for what it does not know
    #[default]
    Auto,
    /// The built-in one only: MP4, MOV, MKV and WebM with H.264, HEVC, VP9 or AV1
    Builtin,
    /// The program `ffmpeg`, which has to be on the PATH
    Ffmpeg,
}

/// What is to be decoded. It crosses the border between two processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// A video file, a folder of images, an image, or several images.
    #[serde(with = "super::worker::path::list")]
    pub paths: Vec<PathBuf>,
    /// Which frames.
    pub sampler: Sampler,
    /// By what.
    pub decoder: DecoderChoice,
    /// Frames a second of images that have no times of their own.
    pub image_fps: f64,
    /// At what cost.
    pub limits: Limits,
    /// With how many threads.
    pub threads: usize,
}

/// What was decoded, apart from the frames themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How many frames the video has.
    pub total: u64,
    /// How long it is, in seconds.
    pub duration: f64,
    /// The frames that the sampler picked, in its order.
    pub picked: Vec<u64>,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// Decodes the frames that the sampler picks. Each goes to `out` once, in any order.
pub fn decode(job: &Job, out: &mut dyn FnMut(Frame) -> Result<(), MediaError>) -> Result<Report, MediaError> {
    // What can be nothing but images is not asked of a video decoder.
    let images_only = job.paths.len() > 1 || job.paths.first().is_some_and(|path| path.is_dir());
    if (job.decoder != DecoderChoice::Ffmpeg || images_only)
        && let Some(reel) = images::open(&job.paths, job.image_fps, &job.limits)?
    {
        return from_images(&reel, job, out);
    }
    let [path] = job.paths.as_slice() else {
        return Err(MediaError::Usage("a video is one file; several files have to be images".to_owned()));
    };
    match job.decoder {
        DecoderChoice::Builtin => builtin::decode(path, job, out),
        DecoderChoice::Ffmpeg => match ffmpeg::find() {
            Some(program) => from_ffmpeg(&program, path, job, out),
            None => Err(MediaError::Unsupported(
                "--decoder ffmpeg: there is no program `ffmpeg` on the PATH; install it, or leave the flag out"
                    .to_owned(),
            )),
        },
        DecoderChoice::Auto => match builtin::decode(path, job, out) {
            Err(MediaError::Unsupported(what)) => match ffmpeg::find() {
                Some(program) => from_ffmpeg(&program, path, job, out),
                None => Err(MediaError::Unsupported(format!("{what}; it is not installed here"))),
            },
            decoded => decoded,
        },
    }
}

/// Frames of images.
fn from_images(
    reel: &images::Reel,
    job: &Job,
    out: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
) -> Result<Report, MediaError> {
    let picked = job.sampler.pick(&reel.clip())?;
    reel.visit(&picked, out)?;
    Ok(Report { total: reel.total(), duration: reel.duration(), picked, faults: reel.faults().to_vec() })
}

/// Frames by the program.
fn from_ffmpeg(
    program: &Path,
    path: &Path,
    job: &Job,
    out: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
) -> Result<Report, MediaError> {
    let mut pick = |times: &[f64], duration: f64| job.sampler.pick(&Clip { times, duration });
    let mut take = |taken: ffmpeg::Taken| {
        let (width, height, rgb) = colour::to_rgb(&taken.picture, taken.turn)?;
        out(Frame { index: FrameIndex(taken.index), time: taken.time, width, height, rgb })
    };
    let sampled = ffmpeg::sample(program, path, &job.limits, job.threads, &mut pick, &mut take)?;
    let ffmpeg::Sampled { times, duration, picked, faults } = sampled;
    Ok(Report { total: times.len() as u64, duration, picked, faults })
}
