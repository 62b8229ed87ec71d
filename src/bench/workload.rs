//! What is judged: records, and pictures for tasks that show some.
//!
//! Invariant: without a data set and a video nothing is needed but this program. What is decoded is decoded anew for each
//! judgement, so that its time is a time to decode.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::BenchError;
use crate::dataset::{HashingReader, Limits as DataLimits, Record, RecordReader, check, sha256_text};
use crate::media::sample::Sampler;
use crate::media::worker::Worker;
use crate::media::{DecoderChoice, Frame, FrameIndex, Frames, Limits, Look, MediaError, Player};
use crate::task::Task;

/// The records of the example that the documentation has.
const EXAMPLE: &str = include_str!("../../docs/example/captions.jsonl");

/// Where pictures come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pictures {
    /// They are made: a gradient that moves, with noise, of this width and height.
    Synthetic(u32, u32),
    /// A video.
    Video(PathBuf),
}

impl Pictures {
    fn described(&self) -> Result<String, BenchError> {
        let path = match self {
            Self::Synthetic(width, height) => return Ok(format!("synthetic {width}x{height}")),
            Self::Video(path) => path,
        };
        let failed = |error: io::Error| MediaError::io(path, &error);
        let mut reader = HashingReader::new(File::open(path).map_err(failed)?);
        io::copy(&mut reader, &mut io::sink()).map_err(failed)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(format!("{name}, SHA-256 {}", reader.finish()))
    }
}

/// Records and pictures.
#[derive(Debug)]
pub struct Workload {
    /// The records.
    pub records: Vec<Record>,
    /// Where they are from.
    pub data: String,
    /// SHA-256 of that.
    pub data_sha256: String,
    /// Pictures, for tasks that show some.
    pub pictures: Pictures,
    /// The pictures in a few words, which tell one video from another wherever it lies.
    pub shown: String,
}

impl Workload {
    /// The first so many records of a data set, or of the built-in one.
    pub fn new(task: &Task, data: Option<&Path>, most: Option<usize>, pictures: Pictures) -> Result<Self, BenchError> {
        let name = data.map_or("built in".to_owned(), |path| path.display().to_string());
        let most = most.unwrap_or(usize::MAX);
        let (records, data_sha256) =
            match data {
                None => (built_in(most)?, sha256_text(EXAMPLE)),
                Some(path) => {
                    let mut reader = RecordReader::open_hashing(path, DataLimits::default())?;
                    let mut records = Vec::new();
                    for entry in reader.by_ref().take(most) {
                        let entry = entry?;
                        let told = |problems: &[_]| problems.first().map_or(String::new(), ToString::to_string);
                        records.push(entry.record.map_err(|broken| BenchError::Record {
                            id: entry.id.clone(),
                            what: told(&broken.problems),
                        })?);
                    }
                    (records, reader.finish()?)
                }
            };
        if records.is_empty() {
            return Err(BenchError::NoRecords(name));
        }
        for record in &records {
            if let Some(problem) = check(record, task, None).first() {
                return Err(BenchError::Record { id: record.id.clone(), what: problem.to_string() });
            }
        }
        let shown = if task.sees_frames() { pictures.described()? } else { "none".to_owned() };
        Ok(Self { records, data: name, data_sha256, pictures, shown })
    }

    /// So many frames that are made, and not decoded: another clip for each number.
    pub fn made(&self, count: u32, number: u32) -> Option<Frames> {
        match self.pictures {
            Pictures::Synthetic(width, height) => Some(synthetic(width, height, count, number)),
            Pictures::Video(_) => None,
        }
    }

    /// So many frames of the video; `None` if there is none, or the user interrupted it.
    pub fn decoded(&self, count: u32, interrupt: &AtomicBool) -> Result<Option<Arc<Frames>>, BenchError> {
        let Pictures::Video(path) = &self.pictures else { return Ok(None) };
        let look = Look {
            sampler: Sampler::Uniform { frames: count },
            decoder: DecoderChoice::default(),
            image_fps: 1.0,
            limits: Limits::default(),
            threads: 0,
            allow_damaged: false,
        };
        // A new player remembers nothing, and it has no cache.
        let frames = Player::new(Worker::this_program()?, None, look).frames(slice::from_ref(path), interrupt)?;
        match frames.as_ref().and_then(|frames| frames.faults.first()) {
            Some(fault) => Err(MediaError::Damaged(fault.what.clone()).into()),
            None => Ok(frames),
        }
    }
}

fn built_in(most: usize) -> Result<Vec<Record>, BenchError> {
    let record = |line: &str| {
        // Compiled in and tested: only a mistake of this program makes it fail.
        let broken = || BenchError::Record { id: "built in".to_owned(), what: "is no record".to_owned() };
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Record::from_fields(fields).map_err(|_| broken()),
            _ => Err(broken()),
        }
    };
    EXAMPLE.lines().take(most).map(record).collect()
}

/// Frames of a clip, one a second: a gradient that moves, with noise, so that nothing about them is easy.
fn synthetic(width: u32, height: u32, count: u32, number: u32) -> Frames {
    let mut noise = 0x2545_f491u32.wrapping_add(number.wrapping_mul(0x9e37_79b9)).max(1);
    let frames = (0..count).map(|index| {
        let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            // Marsaglia's xorshift.
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            let grain = noise % 16;
            let level = |place: u32, size: u32| ((place + index * 8) % size * 239 / size + grain) as u8;
            rgb.extend([level(x, width), level(y, height), level(x + y, width + height)]);
        }
        Frame { index: FrameIndex(u64::from(index)), time: f64::from(index), width, height, rgb }
    });
    Frames { frames: frames.collect(), total: u64::from(count), duration: f64::from(count), faults: Vec::new() }
}
