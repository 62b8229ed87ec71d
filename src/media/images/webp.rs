//! Animated WebP: where its frames are, and how they are laid over each other.
//!
//! The `image` crate decodes each frame's bits, but does not compose them: its way loses a level of brightness
//! wherever a frame is blended, again with each frame, and leaves out the disposal of frames.
//!
//! Invariant: the canvas after each frame is what libwebp's animation decoder gives, which is what PIL and browsers
//! show.

use std::io::Cursor;
use std::ops::Range;
use std::path::PathBuf;

use image::codecs::webp::WebPDecoder;
use image::{DynamicImage, ImageError, RgbaImage};

use super::decode::broken;
use crate::media::MediaError;

/// Where in a frame's chunk its own chunks begin.
const FRAME_HEAD: usize = 16;

/// An animation whose frames are decoded one after the other.
pub(super) struct Animation {
    path: PathBuf,
    bytes: Vec<u8>,
    canvas: RgbaImage,
    /// Where the next chunk begins.
    at: usize,
    /// What the frame before covered, if it is to be wiped away.
    wiped: Option<[u32; 4]>,
    ended: bool,
}

/// What a frame's chunk says of it: x, y, width, height.
struct Head {
    place: [u32; 4],
    milliseconds: u32,
    blended: bool,
    wiped: bool,
}

/// The size of an animation's canvas; `None` if the file is no animation.
pub(super) fn canvas(bytes: &[u8]) -> Option<(u32, u32)> {
    let (kind, payload) = chunk(bytes, 12)?;
    let head = bytes.get(payload)?;
    (kind == b"VP8X" && head.first()? & 2 != 0).then_some((three(head, 4)? + 1, three(head, 7)? + 1))
}

impl Animation {
    /// Starts at the first frame. There has to be memory for the canvas.
    pub(super) fn new(path: PathBuf, bytes: Vec<u8>, (width, height): (u32, u32)) -> Self {
        Self { path, bytes, canvas: RgbaImage::new(width, height), at: 12, wiped: None, ended: false }
    }

    /// The next frame's chunk, or `None` at the end of the file.
    fn next_chunk(&mut self) -> Result<Option<Range<usize>>, MediaError> {
        while self.at < self.bytes.len() {
            let Some((kind, payload)) = chunk(&self.bytes, self.at) else { return Err(self.damaged("is cut off")) };
            let is_frame = kind == b"ANMF";
            self.at = payload.end + (payload.len() & 1);
            if is_frame {
                return Ok(Some(payload));
            }
        }
        // The whole length is in the file's first chunk: a file may also be cut between two frames.
        let claimed = self.bytes.get(4..8).and_then(|size| size.try_into().ok()).map_or(0, u32::from_le_bytes);
        if claimed as usize > self.bytes.len().saturating_sub(8).next_multiple_of(2) {
            return Err(self.damaged("is cut off"));
        }
        Ok(None)
    }

    fn frame(&mut self, payload: Range<usize>) -> Result<u32, MediaError> {
        let chunk = self.bytes.get(payload).unwrap_or_default();
        let head = Head::read(chunk).ok_or_else(|| self.damaged("has a frame without a header"))?;
        let [x, y, width, height] = head.place;
        if x + width > self.canvas.width() || y + height > self.canvas.height() {
            return Err(self.damaged("has a frame outside of the picture"));
        }
        let parts = chunk.get(FRAME_HEAD..).unwrap_or_default();
        let source = decode(still(parts, width, height)).map_err(|error| broken(&self.path, error))?;
        if source.dimensions() != (width, height) {
            return Err(self.damaged("has a frame of another size than it says"));
        }
        if let Some(before) = self.wiped.take() {
            wipe(&mut self.canvas, before);
        }
        for (from, to) in source.rows().zip(self.canvas.rows_mut().skip(y as usize)) {
            for (new, old) in from.zip(to.skip(x as usize)) {
                old.0 = if head.blended { blend(new.0, old.0) } else { new.0 };
            }
        }
        self.wiped = head.wiped.then_some(head.place);
        Ok(head.milliseconds)
    }

    fn damaged(&self, what: &str) -> MediaError {
        MediaError::Damaged(format!("{}: the WebP {what}", self.path.display()))
    }
}

impl Iterator for Animation {
    /// The canvas, and for how many milliseconds it is shown.
    type Item = Result<(RgbaImage, u32), MediaError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = match self.next_chunk() {
            Ok(Some(payload)) => self.frame(payload).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        self.ended = !matches!(next, Ok(Some(_)));
        next.transpose().map(|shown| shown.map(|milliseconds| (self.canvas.clone(), milliseconds)))
    }
}

impl Head {
    fn read(chunk: &[u8]) -> Option<Self> {
        let flags = *chunk.get(15)?;
        // Places are in pairs of pixels, sizes one less than they are.
        let place = [three(chunk, 0)? * 2, three(chunk, 3)? * 2, three(chunk, 6)? + 1, three(chunk, 9)? + 1];
        Some(Self { place, milliseconds: three(chunk, 12)?, blended: flags & 2 == 0, wiped: flags & 1 != 0 })
    }
}

/// A file of its own for one frame's chunks.
fn still(parts: &[u8], width: u32, height: u32) -> Vec<u8> {
    let alpha = if parts.starts_with(b"VP8 ") { 0 } else { 0x10 };
    let mut file = Vec::with_capacity(parts.len() + 30);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&u32::try_from(parts.len() + 22).unwrap_or(u32::MAX).to_le_bytes());
    file.extend_from_slice(b"WEBPVP8X\x0a\0\0\0");
    file.extend_from_slice(&[alpha, 0, 0, 0]);
    for size in [width, height] {
        file.extend(size.saturating_sub(1).to_le_bytes().into_iter().take(3));
    }
    file.extend_from_slice(parts);
    file
}

fn decode(file: Vec<u8>) -> Result<RgbaImage, ImageError> {
    let decoder = WebPDecoder::new(Cursor::new(file))?;
    Ok(DynamicImage::from_decoder(decoder)?.into_rgba8())
}

fn wipe(canvas: &mut RgbaImage, [x, y, width, height]: [u32; 4]) {
    for row in canvas.rows_mut().skip(y as usize).take(height as usize) {
        for pixel in row.skip(x as usize).take(width as usize) {
            pixel.0 = [0; 4];
        }
    }
}

/// A pixel over another one, in the whole numbers of libwebp: colours are not multiplied by their alpha.
fn blend(new: [u8; 4], old: [u8; 4]) -> [u8; 4] {
    let ([.., alpha], [.., below]) = (new, old);
    match alpha {
        255 => new,
        0 => old,
        _ => {
            let (alpha, below) = (u32::from(alpha), (u32::from(below) * (256 - u32::from(alpha))) >> 8);
            let whole = alpha + below;
            let scale = (1u32 << 24) / whole;
            let mixed = |new: u8, old: u8| {
                let sum = u64::from(u32::from(new) * alpha + u32::from(old) * below);
                ((sum * u64::from(scale)) >> 24) as u8
            };
            let ([r, g, b, _], [s, h, c, _]) = (new, old);
            [mixed(r, s), mixed(g, h), mixed(b, c), whole as u8]
        }
    }
}

/// The kind and the payload of the chunk at a place; `None` if not all of it is there.
fn chunk(bytes: &[u8], at: usize) -> Option<(&[u8], Range<usize>)> {
    let kind = bytes.get(at..at.checked_add(4)?)?;
    let size: [u8; 4] = bytes.get(at.checked_add(4)?..at.checked_add(8)?)?.try_into().ok()?;
    let start = at.checked_add(8)?;
    let end = start.checked_add(usize::try_from(u32::from_le_bytes(size)).ok()?)?;
    (end <= bytes.len()).then_some((kind, start..end))
}

/// A number of three bytes, the lowest first.
fn three(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.get(at..at + 3)? {
        [a, b, c] => Some(u32::from_le_bytes([*a, *b, *c, 0])),
        _ => None,
    }
}
