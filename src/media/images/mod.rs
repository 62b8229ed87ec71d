//! Images in place of a video: one image, an animation, a list of images, or a folder of them.
//!
//! What a file is, is decided by its bytes. Pixels are those of PIL's `convert("RGB")` after `exif_transpose`:
//!
//! - Alpha is dropped, not blended; a palette gives its colours; 16 bits keep their upper 8, in gray too, where PIL
//!   clips them to white.
//! - JPEG decoders differ: by up to 2 levels from PIL's, and by up to 4 where colour has half the resolution.
//! - Animations are composed frame by frame. What no frame ever painted is black.
//! - A frame of an animation that is to be shown for 10 ms or less is shown for 100 ms, as browsers do for all three
//!   formats, and ffmpeg and most others for GIF.
//!
//! Invariant: sizes are checked before pixels are decoded, and no more pictures are in memory than were asked for.

mod decode;
mod list;
mod webp;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use image::{ImageFormat, RgbImage};

use super::sample::Clip;
use super::{Fault, Frame, FrameIndex, Frames, Limits, MediaError};

/// Images that stand for a video.
#[derive(Debug, Clone, PartialEq)]
pub struct Reel {
    pictures: Pictures,
    times: Vec<f64>,
    duration: f64,
    faults: Vec<Fault>,
    limits: Limits,
}

#[derive(Debug, Clone, PartialEq)]
enum Pictures {
    /// A frame a file.
    Files(Vec<PathBuf>),
    /// All frames in one file.
    Animation(PathBuf, ImageFormat),
}

/// Opens images: files, or one folder. Without delays of their own, frames are shown `fps` a second.
///
/// `None` if it is one file and no image that is known here: it may be a video.
pub fn open(paths: &[PathBuf], fps: f64, limits: &Limits) -> Result<Option<Reel>, MediaError> {
    if !(fps.is_finite() && fps > 0.0) {
        return Err(MediaError::Usage(format!("images cannot be shown at {fps} frames a second")));
    }
    let files = match paths {
        [] => return Err(MediaError::Usage("there is no file to take frames from".to_owned())),
        [folder] if folder.is_dir() => list::folder(folder, limits)?,
        [file] if list::format(file)?.is_none() => return Ok(None),
        files => list::files(files, limits)?,
    };
    if let [file] = files.as_slice() {
        match animation(file, limits) {
            Ok(None) => {}
            // An animation of a kind that only other programs compose, such as a PNG of 16 bits.
            Err(MediaError::Unsupported(_)) if paths == files => return Ok(None),
            opened => return opened,
        }
    }
    let times: Vec<f64> = (0..files.len()).map(|index| index as f64 / fps).collect();
    let duration = files.len() as f64 / fps;
    Ok(Some(Reel { pictures: Pictures::Files(files), times, duration, faults: Vec::new(), limits: *limits }))
}

/// Counts the frames of an animation by decoding them all, one at a time: a header's word for the number is not
/// believed. `None` if the file has but one picture.
fn animation(path: &Path, limits: &Limits) -> Result<Option<Reel>, MediaError> {
    let Some(format) = list::format(path)? else { return Ok(None) };
    let Some(frames) = decode::animation(path, format, limits)? else { return Ok(None) };
    // Milliseconds are whole in nearly all files, so their sum is exact where one of seconds would not be.
    let (mut times, mut milliseconds, mut faults) = (Vec::new(), 0.0, Vec::new());
    for frame in frames {
        match frame {
            Ok((_, delay)) => {
                times.push(milliseconds / 1000.0);
                milliseconds += delay;
                let count = times.len() as u64;
                limits.check_frames(count).map_err(|error| decode::named(path, error))?;
                if count > limits.decoded {
                    let what = format!("has more than {} frames to decode (--max-decoded)", limits.decoded);
                    return Err(MediaError::Limit(format!("{}: {what}", path.display())));
                }
            }
            Err(error) if times.is_empty() => return Err(error),
            Err(error @ (MediaError::Limit(_) | MediaError::Unsupported(_))) => return Err(error),
            Err(error) => {
                let what = format!("the animation breaks off after {} frames: {error}", times.len());
                faults.push(Fault { what, frames: Vec::new() });
                break;
            }
        }
    }
    if times.is_empty() {
        return Err(MediaError::Damaged(format!("{}: the animation has no frames", path.display())));
    }
    let pictures = Pictures::Animation(path.to_owned(), format);
    Ok(Some(Reel { pictures, times, duration: milliseconds / 1000.0, faults, limits: *limits }))
}

impl Reel {
    /// What a sampler has to know.
    pub fn clip(&self) -> Clip<'_> {
        Clip { times: &self.times, duration: self.duration }
    }

    /// How many frames there are.
    pub fn total(&self) -> u64 {
        self.times.len() as u64
    }

    /// When each frame is shown, in seconds.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// How long it is, in seconds.
    pub fn duration(&self) -> f64 {
        self.duration
    }

    /// What is wrong with the files, as far as was seen when they were opened.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// The frames with these numbers, in that order, all of them in memory.
    pub fn read(&self, wanted: &[u64]) -> Result<Frames, MediaError> {
        let mut decoded: BTreeMap<u64, Frame> = BTreeMap::new();
        let mut bytes = 0u64;
        self.visit(wanted, &mut |frame| {
            let times = wanted.iter().filter(|index| **index == frame.index.0).count() as u64;
            bytes = bytes.saturating_add((frame.rgb.len() as u64).saturating_mul(times));
            if bytes > self.limits.memory {
                let what = format!("the frames take more than the {} bytes of memory", self.limits.memory);
                return Err(MediaError::Limit(format!("{what} that are allowed (--max-decode-memory); ask for fewer")));
            }
            decoded.insert(frame.index.0, frame);
            Ok(())
        })?;
        let frames = wanted.iter().filter_map(|index| decoded.get(index).cloned()).collect();
        Ok(Frames { frames, total: self.total(), duration: self.duration, faults: self.faults.clone() })
    }

    /// Gives each of the frames with these numbers to `out`, once, in the order of time; no two are in memory. Files
    /// that are not asked for are not read; an animation is decoded up to the last frame that is.
    pub fn visit(
        &self,
        wanted: &[u64],
        out: &mut dyn FnMut(Frame) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let wanted: BTreeSet<u64> = wanted.iter().copied().collect();
        let Some(last) = wanted.last().copied() else { return Ok(()) };
        let total = self.total();
        if last >= total {
            return Err(MediaError::Usage(format!("frame {last} is asked for; there are {total}, counted from 0")));
        }
        match &self.pictures {
            Pictures::Files(files) => {
                for (index, file) in (0..).zip(files).filter(|(index, _)| wanted.contains(index)) {
                    out(self.frame(index, decode::still(file, &self.limits)?))?;
                }
            }
            Pictures::Animation(path, format) => {
                let gone = || MediaError::Damaged(format!("{}: the file changed", path.display()));
                let mut frames = decode::animation(path, *format, &self.limits)?.ok_or_else(gone)?;
                for index in 0..=last {
                    let (image, _) = frames.next().ok_or_else(gone)??;
                    if wanted.contains(&index) {
                        out(self.frame(index, image))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn frame(&self, index: u64, image: RgbImage) -> Frame {
        let time = usize::try_from(index).ok().and_then(|at| self.times.get(at)).copied().unwrap_or(0.0);
        let (width, height) = image.dimensions();
        Frame { index: FrameIndex(index), time, width, height, rgb: image.into_raw() }
    }
}
