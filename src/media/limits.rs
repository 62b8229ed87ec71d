//! What a video may cost.
//!
//! Invariant: each limit is checked before the memory or the time is spent, by numbers that the file claims where it
//! claims any, and by what is there where it does not.

use serde::{Deserialize, Serialize};

use super::MediaError;

/// What a video may cost. Each has a flag of the same name (`--max-pixels`, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The largest file, in bytes.
    pub file_bytes: u64,
    /// The largest picture, in pixels.
    pub pixels: u64,
    /// The longest video, in frames.
    pub frames: u64,
    /// The most pictures that are decoded to get at the wanted ones.
    pub decoded: u64,
    /// The longest time for one video, in seconds.
    pub seconds: u64,
    /// The most memory that decoding takes, in bytes.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 30,
            // The largest picture of any level of the four codecs, 8192 × 4352.
            pixels: 8192 * 4352,
            // Nine hours at 30 frames a second.
            frames: 1 << 20,
            decoded: 100_000,
            seconds: 120,
            memory: 4 << 30,
        }
    }
}

impl Limits {
    /// Refuses a picture that is too large, or none at all.
    pub fn check_size(&self, width: u64, height: u64) -> Result<(), MediaError> {
        if width == 0 || height == 0 {
            return Err(MediaError::Damaged(format!("the picture is {width} × {height} pixels")));
        }
        if width.saturating_mul(height) > self.pixels {
            return Err(MediaError::Limit(format!(
                "the picture is {width} × {height} pixels, more than the {} that are allowed (--max-pixels)",
                self.pixels
            )));
        }
        Ok(())
    }

    /// Refuses a video with too many frames.
    pub fn check_frames(&self, frames: u64) -> Result<(), MediaError> {
        if frames > self.frames {
            return Err(MediaError::Limit(format!(
                "the video has {frames} frames, more than the {} that are allowed (--max-video-frames)",
                self.frames
            )));
        }
        Ok(())
    }

    /// Refuses to decode too many pictures.
    pub fn check_decoded(&self, pictures: u64) -> Result<(), MediaError> {
        if pictures > self.decoded {
            return Err(MediaError::Limit(format!(
                "{pictures} pictures would have to be decoded, more than the {} that are allowed (--max-decoded)",
                self.decoded
            )));
        }
        Ok(())
    }

    /// Refuses a file that is too large.
    pub fn check_file(&self, bytes: u64) -> Result<(), MediaError> {
        if bytes > self.file_bytes {
            return Err(MediaError::Limit(format!(
                "the file has {bytes} bytes, more than the {} that are allowed (--max-video-bytes)",
                self.file_bytes
            )));
        }
        Ok(())
    }
}
