//! Frames for whoever wants some: the cache first, then a worker.
//!
//! Invariant: what comes back is complete and in the sampler's order, or says in its faults what is missing.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::cache::Cache;
use super::decode::{DecoderChoice, Job, Report};
use super::sample::Sampler;
use super::worker::Worker;
use super::{Frame, FrameIndex, Frames, Limits, MediaError};
use crate::dataset::{HashingReader, sha256_text};

/// The longest that a file is hashed for the cache: after that, decoding it again is cheaper.
const HASHING: Duration = Duration::from_secs(10);
/// How much is hashed between two looks at the clock.
const PIECE: u64 = 16 << 20;

/// How videos are looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Which frames.
    pub sampler: Sampler,
    /// By which decoder.
    pub decoder: DecoderChoice,
    /// Frames a second of images that have no times of their own.
    pub image_fps: f64,
    /// At what cost.
    pub limits: Limits,
    /// With how many threads; 0 for one a core.
    pub threads: usize,
    /// Whether frames of a damaged video are used.
    pub allow_damaged: bool,
}

impl Look {
    /// What decides which frames come out, by name, for a run's fingerprint. Time and memory are not in it: they decide
    /// whether a machine manages, and a record that failed by them can be tried again.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let Limits { file_bytes, pixels, frames, decoded, seconds: _, memory: _ } = self.limits;
        let decoder = match self.decoder {
            DecoderChoice::Auto => "auto",
            DecoderChoice::Builtin => "builtin",
            DecoderChoice::Ffmpeg => "ffmpeg",
        };
        vec![
            ("sample", self.sampler.to_string()),
            ("decoder", decoder.to_owned()),
            ("allow_damaged", self.allow_damaged.to_string()),
            ("image_fps", self.image_fps.to_string()),
            ("max_video_bytes", file_bytes.to_string()),
            ("max_pixels", pixels.to_string()),
            ("max_video_frames", frames.to_string()),
            ("max_decoded", decoded.to_string()),
        ]
    }
}

/// Gets frames.
#[derive(Debug)]
pub struct Player {
    worker: Worker,
    cache: Option<Cache>,
    look: Look,
    /// The last video's frames: the captions of one video often stand together.
    last: Option<(Seen, Arc<Frames>)>,
}

impl Player {
    /// One that starts these workers, and keeps what it decodes in that cache.
    pub fn new(worker: Worker, cache: Option<Cache>, look: Look) -> Self {
        Self { worker, cache, look, last: None }
    }

    /// How it looks at videos.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// The frames of a video: a file, a folder of images, or a list of images. `None` if the user interrupted it.
    pub fn frames(&mut self, paths: &[PathBuf], interrupt: &AtomicBool) -> Result<Option<Arc<Frames>>, MediaError> {
        let seen = Seen::of(paths);
        if let Some((last, frames)) = &self.last
            && seen.as_ref() == Some(last)
        {
            return Ok(Some(Arc::clone(frames)));
        }
        // The old ones' memory is free before the new ones' is taken.
        self.last = None;
        let entry = self.cache.as_ref().and_then(|cache| Some((cache, self.key(paths, interrupt)?)));
        let frames = match entry.as_ref().and_then(|(cache, key)| cache.get(key)) {
            Some(frames) => frames,
            None => {
                let Some(frames) = self.decode(paths, interrupt)? else { return Ok(None) };
                // Not what may be wrong, and not what may be of another file by now.
                if let (Some((cache, key)), true) = (&entry, frames.faults.is_empty() && seen == Seen::of(paths)) {
                    cache.put(key, &frames);
                }
                frames
            }
        };
        let frames = Arc::new(frames);
        self.last = seen.map(|seen| (seen, Arc::clone(&frames)));
        Ok(Some(frames))
    }

    fn decode(&self, paths: &[PathBuf], interrupt: &AtomicBool) -> Result<Option<Frames>, MediaError> {
        let Look { sampler, decoder, image_fps, limits, threads, .. } = self.look.clone();
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { cores() } else { threads };
        let job = Job { paths: paths.to_vec(), sampler, decoder, image_fps, limits, threads };
        let mut decoded: HashMap<FrameIndex, Frame> = HashMap::new();
        let mut bytes = 0u64;
        let report = self.worker.decode(&job, interrupt, &mut |frame| {
            bytes = bytes.saturating_add(frame.rgb.len() as u64);
            decoded.insert(frame.index, frame);
            check_memory(bytes, &limits)
        })?;
        let Some(report) = report else { return Ok(None) };
        // A frame that was picked a thousand times is there a thousand times.
        let picked = report.picked.iter().filter_map(|index| decoded.get(&FrameIndex(*index)));
        check_memory(picked.map(|frame| frame.rgb.len() as u64).sum(), &limits)?;
        Ok(Some(gather(report, decoded)))
    }

    /// What decides the frames of a single file; `None` for what is not cached, which is also what takes too long.
    fn key(&self, paths: &[PathBuf], interrupt: &AtomicBool) -> Option<String> {
        let [path] = paths else { return None };
        let data = fs::metadata(path).ok()?;
        // Nothing is in a file of no length, whatever comes out of it: the system makes it up.
        if !data.is_file() || data.len() == 0 || data.len() > self.look.limits.file_bytes {
            return None;
        }
        let mut reader = HashingReader::new(File::open(path).ok()?);
        let start = Instant::now();
        let mut left = data.len();
        while left > 0 {
            if interrupt.load(Ordering::Relaxed) || start.elapsed() > HASHING {
                return None;
            }
            match io::copy(&mut reader.by_ref().take(left.min(PIECE)), &mut io::sink()).ok()? {
                0 => return None,
                read => left = left.saturating_sub(read),
            }
        }
        let file = reader.finish();
        let settings = self.look.settings();
        let settings = settings.iter().filter(|(name, _)| *name != "allow_damaged");
        let settings: String = settings.map(|(name, value)| format!("\0{name}={value}")).collect();
        Some(sha256_text(&format!("{}\0{file}{settings}", env!("CARGO_PKG_VERSION"))))
    }
}

/// Refuses frames that need too much memory together.
fn check_memory(bytes: u64, limits: &Limits) -> Result<(), MediaError> {
    if bytes <= limits.memory {
        return Ok(());
    }
    Err(MediaError::Limit(format!(
        "the frames need more memory than the {} MB that are allowed (--max-decode-memory); fewer frames need less \
         (--frames)",
        limits.memory >> 20
    )))
}

/// Puts frames in the sampler's order. One that it picked twice is there twice.
fn gather(report: Report, mut decoded: HashMap<FrameIndex, Frame>) -> Frames {
    let mut uses: HashMap<FrameIndex, usize> = HashMap::new();
    for index in &report.picked {
        *uses.entry(FrameIndex(*index)).or_default() += 1;
    }
    let mut frames = Vec::with_capacity(report.picked.len());
    for index in report.picked.iter().map(|index| FrameIndex(*index)) {
        let left = uses.entry(index).or_default();
        *left = left.saturating_sub(1);
        frames.extend(if *left == 0 { decoded.remove(&index) } else { decoded.get(&index).cloned() });
    }
    Frames { frames, total: report.total, duration: report.duration, faults: report.faults }
}

/// What tells that files were changed; only of regular files.
#[derive(Debug, PartialEq)]
struct Seen(Vec<(PathBuf, u64, SystemTime)>);

impl Seen {
    fn of(paths: &[PathBuf]) -> Option<Self> {
        let seen = |path: &PathBuf| {
            let data = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
            Some((path.clone(), data.len(), data.modified().ok()?))
        };
        paths.iter().map(seen).collect::<Option<_>>().map(Self)
    }
}
