//! Sample descriptions: how a track is coded.

use super::super::faults::Faults;
use super::super::reader::Reader;
use super::super::{Codec, MediaError, unknown_codec};
use super::boxes::{Part, letters};
use super::movie::next;
use crate::media::picture::ColourHint;

/// More than any codec header takes.
const MOST_CONFIG: usize = 1 << 20;

/// Bytes of a visual description before its boxes.
const VISUAL: u64 = 78;

/// How a track is coded.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) codec: Codec,
    pub(super) config: Vec<u8>,
    pub(super) colour: ColourHint,
    pub(super) size: (u32, u32),
}

impl Description {
    /// Reads the description with this number, counted from 1.
    pub(super) fn read(
        stsd: Part,
        number: u32,
        reader: &mut Reader<'_>,
        faults: &mut Faults,
    ) -> Result<Self, MediaError> {
        let mut parts = stsd.parts(8);
        let mut entry = None;
        for _ in 0..number.clamp(1, 64) {
            entry = next(&mut parts, reader, faults)?;
        }
        let entry = entry.filter(|entry| entry.size() >= VISUAL).ok_or_else(|| {
            MediaError::Damaged("the file does not say how its video is coded (its `stsd` box is broken)".to_owned())
        })?;
        let codec = codec(entry.kind)?;
        reader.go(entry.start + 24)?;
        let size = (u32::from(reader.u16()?), u32::from(reader.u16()?));
        let mut out = Self { codec, config: Vec::new(), colour: ColourHint::default(), size };
        let mut vpx = ColourHint::default();
        let mut inner = entry.parts(VISUAL);
        while let Some(part) = next(&mut inner, reader, faults)? {
            match (&part.kind, codec) {
                (b"avcC", Codec::H264) | (b"hvcC", Codec::H265) | (b"vpcC", Codec::Vp9) | (b"av1C", Codec::Av1) => {
                    reader.go(part.start)?;
                    out.config = reader.take(part.size(), MOST_CONFIG)?;
                    if let (Codec::Vp9, Some(&[range, _, _, matrix])) = (codec, out.config.get(6..10)) {
                        vpx = ColourHint { matrix: Some(matrix), full_range: Some(range & 1 != 0) };
                    }
                }
                (b"colr", _) if part.size() >= 10 => {
                    reader.go(part.start)?;
                    let kind: [u8; 4] = reader.array()?;
                    reader.go(part.start + 8)?;
                    if matches!(&kind, b"nclx" | b"nclc") {
                        out.colour.matrix = u8::try_from(reader.u16()?).ok();
                    }
                    if &kind == b"nclx" && part.size() >= 11 {
                        out.colour.full_range = Some(reader.u8()? & 0x80 != 0);
                    }
                }
                (b"sinf", _) => return Err(encrypted()),
                _ => {}
            }
        }
        out.colour = out.colour.or(vpx);
        if out.config.is_empty() && matches!(codec, Codec::H264 | Codec::H265) {
            return Err(MediaError::Damaged(format!("the header of the video codec is missing ({})", entry.name())));
        }
        Ok(out)
    }
}

/// Whether samples of this kind are pictures.
pub(super) fn is_video(kind: [u8; 4]) -> bool {
    const OTHER: [&[u8; 4]; 20] = [
        b"encv", b"mp4v", b"jpeg", b"mjpa", b"mjpb", b"vp08", b"apch", b"apcn", b"apcs", b"apco", b"ap4h", b"ap4x",
        b"dvh1", b"dvhe", b"dvav", b"dva1", b"s263", b"h263", b"rle ", b"png ",
    ];
    codec(kind).is_ok() || OTHER.contains(&&kind)
}

fn codec(kind: [u8; 4]) -> Result<Codec, MediaError> {
    Ok(match &kind {
        b"avc1" | b"avc3" => Codec::H264,
        b"hvc1" | b"hev1" => Codec::H265,
        b"vp09" => Codec::Vp9,
        b"av01" => Codec::Av1,
        b"encv" => return Err(encrypted()),
        b"mp4v" => return Err(unknown_codec("MPEG-4 part 2 (mp4v)")),
        b"jpeg" | b"mjpa" | b"mjpb" => return Err(unknown_codec("Motion JPEG")),
        b"vp08" => return Err(unknown_codec("VP8 (vp08)")),
        b"apch" | b"apcn" | b"apcs" | b"apco" | b"ap4h" | b"ap4x" => return Err(unknown_codec("ProRes")),
        b"dvh1" | b"dvhe" | b"dvav" | b"dva1" => return Err(unknown_codec("Dolby Vision")),
        _ => return Err(unknown_codec(&format!("`{}`", letters(kind)))),
    })
}

fn encrypted() -> MediaError {
    MediaError::Unsupported("the video is encrypted; decrypt it first".to_owned())
}
