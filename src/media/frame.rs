//! What a judge sees.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::dataset::sha256_bytes;

/// The place of a frame in a video, in presentation order, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct FrameIndex(pub u64);

/// One frame, upright, in RGB.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Its place in the video.
    pub index: FrameIndex,
    /// When it is shown, in seconds.
    pub time: f64,
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Its pixels, row by row from the top, three bytes each.
    pub rgb: Vec<u8>,
}

/// The frames that were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Frames {
    /// The frames, in the order in which they were asked for; one may be there twice.
    pub frames: Vec<Frame>,
    /// How many frames the video has.
    pub total: u64,
    /// How long it is, in seconds: from its first frame to the end of its last.
    pub duration: f64,
    /// What is wrong with the video, as far as it was looked at.
    pub faults: Vec<Fault>,
}

impl Frame {
    /// SHA-256 of its pixels.
    pub fn sha256(&self) -> String {
        sha256_bytes([self.rgb.as_slice()])
    }
}

impl Frames {
    /// SHA-256 over the pixels of all frames.
    pub fn sha256(&self) -> String {
        sha256_bytes(self.frames.iter().map(|frame| frame.rgb.as_slice()))
    }
}

/// Something wrong with a video that may have changed what its frames show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// The wanted frames that may not be right; empty if it is the structure of the file that is wrong.
    pub frames: Vec<FrameIndex>,
}
