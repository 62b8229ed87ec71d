//! Frames that were decoded before, in a folder.
//!
//! An entry is a file whose name is the digest of all that decides the frames: the bytes of the video, the sampler, the
//! decoder, the limits. It is written beside and moved into place, so that another process sees all of it or nothing.
//!
//! Invariant: the cache changes how long it takes to get frames, and no byte of them. An entry that is not what it was
//! when it was written is no entry; a folder that cannot be used is no error.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use image::codecs::png::{CompressionType, FilterType, PngDecoder, PngEncoder};
use image::{ExtendedColorType, ImageDecoder, ImageEncoder};
use serde::{Deserialize, Serialize};

use super::{Frame, FrameIndex, Frames};
use crate::dataset::sha256_bytes;

/// What an entry begins with: a name and the version of the format.
const MAGIC: &[u8; 8] = b"CAPJFRM2";
/// How an entry's file name ends.
const ENDING: &str = "frames";
/// The longest header.
const HEADER_BYTES: u32 = 64 << 20;
/// How large the folder may become, unless the user says otherwise.
pub const DEFAULT_BYTES: u64 = 4 << 30;

/// A folder with frames.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
    most: u64,
}

#[derive(Serialize, Deserialize)]
struct Header {
    total: u64,
    duration: f64,
    frames: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    index: FrameIndex,
    time: f64,
    width: u32,
    height: u32,
    /// Of the pixels.
    sha256: String,
    /// Of the compressed pixels.
    bytes: u64,
}

impl Cache {
    /// A cache of at most that many bytes.
    pub fn new(folder: PathBuf, most: u64) -> Self {
        Self { folder, most }
    }

    /// The folder that the system has for such things: `frames` in the user's cache folder for capjudge.
    pub fn default_folder() -> Option<PathBuf> {
        Some(dirs::cache_dir()?.join("capjudge").join("frames"))
    }

    /// The frames of that key, if they are here and whole.
    pub fn get(&self, key: &str) -> Option<Frames> {
        let path = self.path(key);
        // A pipe in its place would be waited for.
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut file = File::open(path).ok()?;
        let frames = read(&mut file)?;
        // What is used stays.
        let _ = file.set_modified(SystemTime::now());
        Some(frames)
    }

    /// Keeps frames. Fails silently: a full disk is no reason not to judge.
    pub fn put(&self, key: &str, frames: &Frames) {
        let _ = self.try_put(key, frames);
    }

    fn try_put(&self, key: &str, frames: &Frames) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut pixels = Vec::new();
        let mut entries = Vec::new();
        for frame in &frames.frames {
            let before = pixels.len();
            PngEncoder::new_with_quality(&mut pixels, CompressionType::Fast, FilterType::Adaptive)
                .write_image(&frame.rgb, frame.width, frame.height, ExtendedColorType::Rgb8)
                .map_err(io::Error::other)?;
            let Frame { index, time, width, height, .. } = *frame;
            let bytes = (pixels.len() - before) as u64;
            entries.push(Entry { index, time, width, height, sha256: frame.sha256(), bytes });
        }
        if pixels.len() as u64 > self.most {
            return self.shrink();
        }
        let header = Header { total: frames.total, duration: frames.duration, frames: entries };
        let header = serde_json::to_vec(&header)?;
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        file.write_all(MAGIC)?;
        file.write_all(&length.to_be_bytes())?;
        file.write_all(sha256_bytes([header.as_slice()]).as_bytes())?;
        file.write_all(&header)?;
        file.write_all(&pixels)?;
        file.persist(self.path(key))?;
        self.shrink()
    }

    /// Deletes what was not used for the longest time until the rest fits. Several processes may do so at once.
    fn shrink(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            let path = entry.path();
            let ours = path.extension().is_some_and(|ending| ending == ENDING);
            // One that another process has just deleted has no metadata.
            if let (true, Ok(data)) = (ours, entry.metadata()) {
                entries.push((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), data.len(), path));
            }
        }
        entries.sort();
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in entries {
            if total <= self.most {
                break;
            }
            let _ = fs::remove_file(path);
            total -= bytes;
        }
        Ok(())
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key).with_extension(ENDING)
    }
}

fn read(file: &mut File) -> Option<Frames> {
    let mut start = [0; 12];
    file.read_exact(&mut start).ok()?;
    let (magic, length) = start.split_at(MAGIC.len());
    let length = u32::from_be_bytes(length.try_into().ok()?);
    if magic != MAGIC || length > HEADER_BYTES {
        return None;
    }
    let digest = take(file, 64)?;
    let header = take(file, length.into())?;
    if sha256_bytes([header.as_slice()]).as_bytes() != digest {
        return None;
    }
    let header: Header = serde_json::from_slice(&header).ok()?;
    let mut frames = Vec::new();
    for entry in header.frames {
        let png = take(file, entry.bytes)?;
        let decoder = PngDecoder::new(Cursor::new(png)).ok()?;
        let length = u64::from(entry.width) * u64::from(entry.height) * 3;
        if decoder.dimensions() != (entry.width, entry.height) || decoder.total_bytes() != length {
            return None;
        }
        let mut rgb = vec![0; usize::try_from(length).ok()?];
        decoder.read_image(&mut rgb).ok()?;
        if sha256_bytes([rgb.as_slice()]) != entry.sha256 {
            return None;
        }
        let Entry { index, time, width, height, .. } = entry;
        frames.push(Frame { index, time, width, height, rgb });
    }
    Some(Frames { frames, total: header.total, duration: header.duration, faults: Vec::new() })
}

fn take(file: &mut File, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == length).then_some(bytes)
}
