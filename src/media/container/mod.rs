//! Containers: where a video's packets are in its file, and when they are shown. Nothing is decoded here.
//!
//! Invariant: what a file claims is never believed where it can be counted. Sizes and counts in headers bound nothing
//! but a look at the file; packets that are not in the file are not in the index.

mod faults;
mod matroska;
mod mp4;
mod reader;
mod turn;

use std::io::{Read, Seek};

use self::reader::Reader;
use super::picture::ColourHint;
use super::{Limits, MediaError};

/// What a container says of its video.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// How the packets are coded.
    pub codec: Codec,
    /// The codec's own header (`avcC`, `hvcC`, `vpcC`, `av1C` without the box header; Matroska's CodecPrivate); empty
    /// if there is none.
    pub config: Vec<u8>,
    /// The packets that are in the file, in decoding order.
    pub packets: Vec<Packet>,
    /// The frames in the order in which they are shown, edit lists applied.
    pub shown: Vec<Shown>,
    /// Seconds a tick, as a fraction.
    pub tick: (u64, u64),
    /// The last frame's end, in ticks; by packet durations where the container has them, else as if the last frame
    /// was shown for as long as the one before it.
    pub end: i64,
    /// How the picture is to be turned, clockwise.
    pub turn: Turn,
    /// What the container says of the colour.
    pub colour: ColourHint,
    /// Size of the coded picture as the container says; (0, 0) if it does not.
    pub size: (u32, u32),
    /// What is wrong with the file: cut off, tables that contradict each other, sizes that lie. One sentence each,
    /// without the file's name.
    pub faults: Vec<String>,
    /// Bytes that stand before each packet's bytes (Matroska's header stripping).
    pub prefix: Vec<u8>,
}

/// A coded picture in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Where its bytes begin.
    pub offset: u64,
    /// How many there are; never 0, and all of them are in the file.
    pub size: u32,
    /// When it is to be shown, in ticks, before edits.
    pub pts: i64,
    /// Whether the container says that decoding can start here.
    pub key: bool,
}

/// A frame that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The packet, counted in decoding order.
    pub packet: usize,
    /// When it is shown, in ticks, after edits.
    pub time: i64,
}

/// A video codec of the built-in decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// H.264, with length-prefixed NAL units.
    H264,
    /// HEVC, with length-prefixed NAL units.
    H265,
    /// VP9.
    Vp9,
    /// AV1.
    Av1,
}

/// How a picture is turned to stand upright, clockwise, after it was mirrored left to right where it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Turn {
    /// Quarter turns clockwise, 0 to 3.
    pub quarters: u8,
    /// Whether it is mirrored first.
    pub mirrored: bool,
}

/// What can be read at any place.
pub trait Source: Read + Seek {}

impl<T: Read + Seek> Source for T {}

/// Reads the index of a file of `bytes` bytes. `Unsupported` if it is not MP4, QuickTime, Matroska or WebM, or has a codec
/// that the built-in decoder does not know.
pub fn index(source: &mut dyn Source, bytes: u64, limits: &Limits) -> Result<Index, MediaError> {
    limits.check_file(bytes)?;
    if bytes == 0 {
        return Err(MediaError::Damaged("the file is empty".to_owned()));
    }
    // A fragment for each frame takes about ten boxes; an element for each frame, three.
    let steps = limits.frames.saturating_mul(16).saturating_add(4096);
    let mut reader = Reader::new(source, bytes, steps)?;
    let start = reader.take(bytes.min(64), 64)?;
    reader.go(0)?;
    if start.starts_with(&matroska::MAGIC) {
        return matroska::index(&mut reader, limits).map(doubt);
    }
    if mp4::looks_like(&start) {
        return mp4::index(&mut reader, limits).map(doubt);
    }
    let what = match known(&start) {
        Some(name) => format!("the file is {name}, not MP4, QuickTime, Matroska or WebM"),
        None => "the file is not MP4, QuickTime, Matroska or WebM".to_owned(),
    };
    Err(MediaError::Unsupported(format!("{what}; ffmpeg may be able to read it (--decoder ffmpeg)")))
}

/// Adds faults for times that no writer writes: a frame that is shown for longer than a day, or in an order in which no
/// codec has its pictures.
fn doubt(mut index: Index) -> Index {
    const DAY: u64 = 24 * 60 * 60;
    let (over, under) = index.tick;
    let longest = u128::from(DAY) * u128::from(under) / u128::from(over.max(1));
    let ends = index.shown.iter().skip(1).map(|shown| shown.time).chain([index.end]);
    let spans = index.shown.iter().zip(ends).map(|(shown, end)| end.saturating_sub(shown.time));
    if spans.max().is_some_and(|span| u128::try_from(span).is_ok_and(|span| span > longest)) {
        index.faults.push("a time in the file is broken: a frame would be shown for more than a day".to_owned());
    }
    if out_of_order(&index.packets, index.codec) {
        index.faults.push("a time in the file is broken: frames may be in the wrong order".to_owned());
    }
    index
}

/// Whether a packet is shown after one that is decoded so much later that no decoder could have kept it, or after a key
/// frame that follows it.
fn out_of_order(packets: &[Packet], codec: Codec) -> bool {
    let kept = match codec {
        // A decoder keeps 16 pictures, which are two packets each where fields are apart.
        Codec::H264 | Codec::H265 => 32,
        // Each packet shows one picture at once.
        Codec::Vp9 | Codec::Av1 => 0,
    };
    let latest = |latest: &mut i64, packet: &Packet| {
        *latest = (*latest).max(packet.pts);
        Some(*latest)
    };
    let latest: Vec<i64> = packets.iter().scan(i64::MIN, latest).collect();
    let late = latest.iter().zip(packets.iter().skip(kept + 1)).any(|(latest, packet)| *latest > packet.pts);
    // Where all are marked as key frames, none is.
    let marked = packets.iter().any(|packet| !packet.key);
    late || marked
        && latest.iter().zip(packets.iter().skip(1)).any(|(latest, packet)| packet.key && *latest > packet.pts)
}

/// The name of another kind of file, by its first bytes.
fn known(start: &[u8]) -> Option<&'static str> {
    let has = |at: usize, magic: &[u8]| start.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let kinds: [(bool, &str); 11] = [
        (has(0, b"RIFF") && has(8, b"AVI "), "AVI"),
        (has(0, b"RIFF") && has(8, b"WEBP"), "WebP"),
        (has(0, b"FLV\x01"), "Flash video"),
        (has(0, b"OggS"), "Ogg"),
        (has(0, b"DKIF"), "IVF"),
        (has(0, &[0x30, 0x26, 0xb2, 0x75]), "Windows Media"),
        (has(0, &[0, 0, 1, 0xba]) || has(0, &[0, 0, 1, 0xb3]), "MPEG"),
        (has(0, b"GIF8"), "GIF"),
        (has(0, b"\x89PNG"), "PNG"),
        (has(0, &[0xff, 0xd8, 0xff]), "JPEG"),
        (has(0, &[0, 0, 0, 1]) || has(0, &[0, 0, 1]), "a bare stream without container"),
    ];
    kinds.iter().find(|(is, _)| *is).map(|(_, name)| *name)
}

/// The frames in the order in which they are shown: by time, and where times are the same, as they are decoded.
fn in_order(mut shown: Vec<Shown>) -> Vec<Shown> {
    shown.sort_by_key(|shown| (shown.time, shown.packet));
    shown
}

/// What to do about a codec that the built-in decoder does not know.
fn unknown_codec(name: &str) -> MediaError {
    MediaError::Unsupported(format!(
        "the video is coded as {name}, which the built-in decoder does not know; ffmpeg can decode it (--decoder ffmpeg)"
    ))
}
