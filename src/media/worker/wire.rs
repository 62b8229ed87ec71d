//! What a worker says to its parent.
//!
//! Each message is a JSON header behind its length (4 bytes, big-endian), and behind the header of a frame its pixels.
//!
//! Invariant: the parent believes no length that it has not bounded; a worker may have been taken over by the file it
//! reads.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::media::decode::Report;
use crate::media::{Frame, FrameIndex, MediaError};

/// The longest header: a sampler may pick every frame of a long video.
const HEADER_BYTES: u32 = 64 << 20;
/// The most pixels of a frame that a parent takes, whatever the limits: 1 GiB.
const PIXEL_BYTES: u64 = 1 << 30;

/// What a worker says.
#[derive(Debug)]
pub enum Message {
    /// A frame.
    Frame(Frame),
    /// It is done.
    Done(Result<Report, MediaError>),
    /// It says what no worker says.
    Broken(String),
}

#[derive(Serialize, Deserialize)]
enum Header {
    Frame { index: FrameIndex, time: f64, width: u32, height: u32 },
    Done(Result<Report, MediaError>),
}

/// Says a frame.
pub fn write_frame(to: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let Frame { index, time, width, height, ref rgb } = *frame;
    write_header(to, &Header::Frame { index, time, width, height })?;
    to.write_all(rgb)
}

/// Says how it ended.
pub fn write_done(to: &mut impl Write, result: Result<Report, MediaError>) -> io::Result<()> {
    write_header(to, &Header::Done(result))?;
    to.flush()
}

fn write_header(to: &mut impl Write, header: &Header) -> io::Result<()> {
    let json = serde_json::to_vec(header)?;
    let length = u32::try_from(json.len()).map_err(|_| io::Error::other("the header is too long"))?;
    to.write_all(&length.to_be_bytes())?;
    to.write_all(&json)
}

/// Hears the next message; `None` when the worker is gone.
pub fn read(from: &mut impl Read) -> Option<Message> {
    let mut length = [0; 4];
    from.read_exact(&mut length).ok()?;
    let length = u32::from_be_bytes(length);
    if length > HEADER_BYTES {
        return Some(Message::Broken("the decoder process talks nonsense".to_owned()));
    }
    let json = bytes(from, length.into())?;
    match serde_json::from_slice(&json) {
        Ok(Header::Frame { index, time, width, height }) => {
            let length = u64::from(width) * u64::from(height) * 3;
            if length > PIXEL_BYTES {
                return Some(Message::Broken(format!(
                    "the decoder process gives a frame of {width} × {height} pixels"
                )));
            }
            let rgb = bytes(from, length)?;
            Some(Message::Frame(Frame { index, time, width, height, rgb }))
        }
        Ok(Header::Done(result)) => Some(Message::Done(result)),
        Err(error) => Some(Message::Broken(format!("the decoder process talks nonsense: {error}"))),
    }
}

fn bytes(from: &mut impl Read, length: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?);
    from.take(length).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 == length).then_some(bytes)
}
