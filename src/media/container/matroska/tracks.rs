//! The `Tracks` element: how the video is coded.

use super::super::faults::Faults;
use super::super::reader::Reader;
use super::super::{Codec, MediaError, Turn, unknown_codec};
use super::ebml::{Broken, Element};
use crate::media::picture::ColourHint;

/// More than any codec header takes.
const MOST_CONFIG: usize = 1 << 20;

/// More tracks than any file has.
const MOST_TRACKS: usize = 256;

/// The kind of a track with pictures.
const VIDEO: u64 = 1;

/// A video track.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Track {
    pub(super) number: u64,
    codec: String,
    config: Vec<u8>,
    pub(super) size: (u32, u32),
    /// Nanoseconds a frame; 0 if it does not say.
    pub(super) duration: u64,
    /// How its clock relates to the file's.
    pub(super) scale: f64,
    /// What its times are too late by, in nanoseconds.
    pub(super) delay: u64,
    pub(super) colour: ColourHint,
    turn: Turn,
    odd_turn: bool,
    encoding: Encoding,
}

/// What was done to the packets.
#[derive(Debug, Clone, PartialEq)]
enum Encoding {
    None,
    /// These bytes were taken away from the start of each packet, and of the codec's header or not.
    Stripped {
        bytes: Vec<u8>,
        packets: bool,
        config: bool,
    },
    Compressed,
    Encrypted,
}

impl Track {
    /// The codec and its header, or why it cannot be decoded.
    pub(super) fn codec(&self) -> Result<(Codec, Vec<u8>), MediaError> {
        let codec = match self.codec.as_str() {
            "V_MPEG4/ISO/AVC" => Codec::H264,
            "V_MPEGH/ISO/HEVC" => Codec::H265,
            "V_VP9" => Codec::Vp9,
            "V_AV1" => Codec::Av1,
            "V_MS/VFW/FOURCC" => {
                let letters = self.config.get(16..20).unwrap_or_default().escape_ascii();
                return Err(unknown_codec(&format!("`{letters}` (V_MS/VFW/FOURCC)")));
            }
            other => return Err(unknown_codec(&format!("`{}`", other.escape_default()))),
        };
        let config = match &self.encoding {
            Encoding::Stripped { bytes, config: true, .. } => [bytes.as_slice(), &self.config].concat(),
            Encoding::None | Encoding::Stripped { .. } => self.config.clone(),
            Encoding::Encrypted => {
                return Err(MediaError::Unsupported("the video is encrypted; decrypt it first".to_owned()));
            }
            Encoding::Compressed => {
                return Err(MediaError::Unsupported(
                    "the packets are compressed once more by the container; ffmpeg can read it (--decoder ffmpeg)"
                        .to_owned(),
                ));
            }
        };
        if config.is_empty() && matches!(codec, Codec::H264 | Codec::H265) {
            return Err(MediaError::Damaged(format!("the header of the video codec is missing ({})", self.codec)));
        }
        Ok((codec, config))
    }

    /// What stands before each packet.
    pub(super) fn prefix(&self) -> Vec<u8> {
        match &self.encoding {
            Encoding::Stripped { bytes, packets: true, .. } => bytes.clone(),
            _ => Vec::new(),
        }
    }

    /// How the picture is turned.
    pub(super) fn turn(&self, faults: &mut Faults) -> Turn {
        if self.odd_turn {
            faults.add(
                "the file asks for its picture to be turned by an angle that is no quarter turn; it is not turned",
            );
        }
        self.turn
    }
}

/// What a `Tracks` element says.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    /// The video track that is shown: the first one. Neither its size nor its length counts, nor whether it is marked
    /// as enabled or as the default: that is the track that `0:V:0` is for ffmpeg, and so all decoders show the same.
    /// Pictures that are attached are no tracks in these files.
    pub(super) video: Option<Track>,
    /// The numbers of all tracks.
    pub(super) numbers: Vec<u64>,
}

/// The tracks of a `Tracks` element.
pub(super) fn read(tracks: Element, reader: &mut Reader<'_>) -> Result<Tracks, MediaError> {
    let mut out = Tracks::default();
    each(tracks, reader, |element, reader| {
        if element.id == 0xae {
            if out.numbers.len() >= MOST_TRACKS {
                return Err(MediaError::Damaged(format!("the file has more than {MOST_TRACKS} tracks")));
            }
            let (track, kind) = entry(element, reader)?;
            out.numbers.push(track.number);
            // What does not say how it is coded is no stream for ffmpeg either.
            if kind == VIDEO && !track.codec.is_empty() && out.video.is_none() {
                out.video = Some(track);
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// Goes through what is in an element.
pub(super) fn each(
    parent: Element,
    reader: &mut Reader<'_>,
    mut visit: impl FnMut(Element, &mut Reader<'_>) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let end = match parent.end {
        Some(end) if end <= reader.bytes() => end,
        Some(_) => return Err(Broken::Cut.into()),
        None => return Err(Broken::NoElement(parent.head).into()),
    };
    reader.go(parent.start)?;
    while let Some(element) = Element::next(reader, end)? {
        let next = element.end.filter(|next| *next <= end).ok_or(Broken::NoElement(element.head))?;
        visit(element, reader)?;
        reader.go(next)?;
    }
    Ok(())
}

/// A track, and what kind it is.
fn entry(entry: Element, reader: &mut Reader<'_>) -> Result<(Track, u64), MediaError> {
    let mut kind = 0;
    let mut track = Track {
        number: 0,
        codec: String::new(),
        config: Vec::new(),
        size: (0, 0),
        duration: 0,
        scale: 1.0,
        delay: 0,
        colour: ColourHint::default(),
        turn: Turn::default(),
        odd_turn: false,
        encoding: Encoding::None,
    };
    each(entry, reader, |element, reader| {
        match element.id {
            0xd7 => track.number = element.unsigned(reader)?,
            0x83 => kind = element.unsigned(reader)?,
            0x86 => {
                let name = String::from_utf8_lossy(&element.bytes(reader, 64)?).into_owned();
                track.codec = name.trim_end_matches('\0').to_owned();
            }
            0x63a2 => track.config = element.bytes(reader, MOST_CONFIG)?,
            0x23_e383 => track.duration = element.unsigned(reader)?,
            0x23_314f => track.scale = element.float(reader)?,
            0x56aa => track.delay = element.unsigned(reader)?,
            0xe0 => video(element, reader, &mut track)?,
            0x6d80 => encodings(element, reader, &mut track)?,
            _ => {}
        }
        Ok(())
    })?;
    // As ffmpeg does with a scale that makes no sense.
    if !(track.scale >= 0.01 && track.scale.is_finite()) {
        track.scale = 1.0;
    }
    Ok((track, kind))
}

fn video(video: Element, reader: &mut Reader<'_>, track: &mut Track) -> Result<(), MediaError> {
    let pixels = |number: u64| u32::try_from(number).unwrap_or(0);
    each(video, reader, |element, reader| {
        match element.id {
            0xb0 => track.size.0 = pixels(element.unsigned(reader)?),
            0xba => track.size.1 = pixels(element.unsigned(reader)?),
            0x55b0 => each(element, reader, |element, reader| {
                match element.id {
                    0x55b1 => track.colour.matrix = u8::try_from(element.unsigned(reader)?).ok(),
                    0x55b9 => {
                        track.colour.full_range = match element.unsigned(reader)? {
                            1 => Some(false),
                            2 => Some(true),
                            _ => None,
                        };
                    }
                    _ => {}
                }
                Ok(())
            })?,
            0x7670 => projection(element, reader, track)?,
            _ => {}
        }
        Ok(())
    })
}

/// A projection; a flat one may be turned and mirrored.
fn projection(projection: Element, reader: &mut Reader<'_>, track: &mut Track) -> Result<(), MediaError> {
    let (mut kind, mut yaw, mut pitch, mut roll) = (0, 0.0, 0.0, 0.0);
    each(projection, reader, |element, reader| {
        match element.id {
            0x7671 => kind = element.unsigned(reader)?,
            0x7673 => yaw = element.float(reader)?,
            0x7674 => pitch = element.float(reader)?,
            0x7675 => roll = element.float(reader)?,
            _ => {}
        }
        Ok(())
    })?;
    let flat = kind == 0 && pitch == 0.0 && (yaw == 0.0 || f64::abs(yaw) == 180.0) && f64::is_finite(roll);
    if !flat {
        return Ok(());
    }
    // The roll is anticlockwise; seen from behind, it is the other way round.
    let mirrored = yaw != 0.0;
    let sign = if mirrored { -1.0 } else { 1.0 };
    let (sin, cos) = (roll * sign).to_radians().sin_cos();
    match Turn::from_matrix([cos * sign, -sin, sin * sign, cos]) {
        Some(turn) => track.turn = turn,
        None => track.odd_turn = true,
    }
    Ok(())
}

fn encodings(encodings: Element, reader: &mut Reader<'_>, track: &mut Track) -> Result<(), MediaError> {
    each(encodings, reader, |element, reader| {
        if element.id != 0x6240 {
            return Ok(());
        }
        let (mut scope, mut kind, mut algorithm, mut bytes) = (1, 0, 0, Vec::new());
        each(element, reader, |element, reader| {
            match element.id {
                0x5032 => scope = element.unsigned(reader)?,
                0x5033 => kind = element.unsigned(reader)?,
                0x5034 => each(element, reader, |element, reader| {
                    match element.id {
                        0x4254 => algorithm = element.unsigned(reader)?,
                        0x4255 => bytes = element.bytes(reader, 1 << 10)?,
                        _ => {}
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        let first = track.encoding == Encoding::None;
        track.encoding = match (kind, algorithm) {
            (1, _) => Encoding::Encrypted,
            (0, 3) if first => Encoding::Stripped { bytes, packets: scope & 1 != 0, config: scope & 2 != 0 },
            _ => Encoding::Compressed,
        };
        Ok(())
    })
}
