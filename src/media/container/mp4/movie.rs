//! The `moov` box: which tracks there are, and where their tables are.
//!
//! Invariant: nothing that a track's tables hold is read here but their heads, so that only one track's tables ever
//! take memory.

use super::super::faults::Faults;
use super::super::reader::Reader;
use super::super::{Limits, MediaError};
use super::boxes::{Broken, Part, Parts};
use super::edits::Edit;

/// More tracks than any file has.
const MOST_TRACKS: usize = 1024;

/// The movie.
#[derive(Debug, Default)]
pub(super) struct Movie {
    /// Ticks a second.
    pub(super) scale: u32,
    /// Its own display matrix, which goes over each track's.
    matrix: Option<Matrix>,
    /// Its video tracks.
    pub(super) tracks: Vec<Track>,
    /// What fragments of a track have where they say nothing.
    pub(super) defaults: Vec<Defaults>,
}

/// The upper left four numbers of a display matrix.
pub(super) type Matrix = [f64; 4];

/// What fragments of a track have where they say nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Defaults {
    pub(super) track: u32,
    pub(super) description: u32,
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// A track, and where its tables are.
#[derive(Debug, Default)]
pub(super) struct Track {
    pub(super) id: u32,
    pub(super) enabled: bool,
    matrix: Option<Matrix>,
    /// Ticks a second.
    pub(super) scale: u32,
    edits: Option<Part>,
    video: bool,
    pub(super) stsd: Option<Part>,
    pub(super) stts: Option<Part>,
    pub(super) ctts: Option<Part>,
    pub(super) stss: Option<Part>,
    pub(super) stps: Option<Part>,
    pub(super) stsz: Option<Part>,
    pub(super) stsc: Option<Part>,
    /// `stco` or `co64`.
    pub(super) stco: Option<Part>,
    /// `sbgp` for random access points.
    pub(super) points: Option<Part>,
    /// How many samples the tables claim.
    pub(super) claimed: u64,
    /// The picture's size as the first description says.
    pub(super) size: (u32, u32),
}

impl Movie {
    /// Reads a whole `moov` box.
    pub(super) fn read(moov: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<Self, MediaError> {
        let mut movie = Movie::default();
        let mut tracks = 0;
        let mut parts = moov.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            match &part.kind {
                b"mvhd" => {
                    reader.go(part.start)?;
                    let long = reader.u8()? == 1;
                    reader.go(part.start + if long { 20 } else { 12 })?;
                    movie.scale = reader.u32()?;
                    reader.go(part.start + if long { 48 } else { 36 })?;
                    movie.matrix = Some(matrix(reader)?);
                }
                b"trak" if tracks < MOST_TRACKS => {
                    tracks += 1;
                    let track = Track::read(part, reader, faults)?;
                    if track.video {
                        movie.tracks.push(track);
                    }
                }
                b"mvex" => movie.read_defaults(part, reader, faults)?,
                b"cmov" => {
                    return Err(MediaError::Unsupported(
                        "the file's index is compressed (cmov); ffmpeg can read it (--decoder ffmpeg)".to_owned(),
                    ));
                }
                _ => {}
            }
        }
        Ok(movie)
    }

    fn read_defaults(&mut self, mvex: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<(), MediaError> {
        let mut parts = mvex.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            if &part.kind == b"trex" && self.defaults.len() < MOST_TRACKS {
                reader.go(part.start + 4)?;
                let [track, description, duration, size, flags] =
                    [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
                self.defaults.push(Defaults { track, description, duration, size, flags });
            }
        }
        Ok(())
    }

    /// How a track's pictures are shown: its matrix, then the movie's.
    pub(super) fn matrix(&self, track: &Track) -> Matrix {
        const PLAIN: Matrix = [1.0, 0.0, 0.0, 1.0];
        let [a, b, c, d] = track.matrix.unwrap_or(PLAIN);
        let [e, f, g, h] = self.matrix.unwrap_or(PLAIN);
        [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h]
    }
}

impl Track {
    fn read(trak: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<Self, MediaError> {
        let mut track = Track::default();
        let mut parts = trak.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            match &part.kind {
                b"tkhd" => {
                    reader.go(part.start)?;
                    let head = reader.u32()?;
                    let long = head >> 24 == 1;
                    track.enabled = head & 1 != 0;
                    reader.go(part.start + if long { 20 } else { 12 })?;
                    track.id = reader.u32()?;
                    reader.go(part.start + if long { 52 } else { 40 })?;
                    track.matrix = Some(matrix(reader)?);
                }
                b"edts" => {
                    let mut inner = part.parts(0);
                    while let Some(part) = next(&mut inner, reader, faults)? {
                        if &part.kind == b"elst" {
                            track.edits = Some(part);
                        }
                    }
                }
                b"mdia" => track.read_media(part, reader, faults)?,
                _ => {}
            }
        }
        Ok(track)
    }

    fn read_media(&mut self, mdia: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<(), MediaError> {
        let mut parts = mdia.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            match &part.kind {
                b"mdhd" => {
                    reader.go(part.start)?;
                    let long = reader.u8()? == 1;
                    reader.go(part.start + if long { 20 } else { 12 })?;
                    let scale = reader.u32()?;
                    // As ffmpeg does with what is no number of ticks.
                    self.scale = if scale == 0 || i32::try_from(scale).is_err() { 1 } else { scale };
                }
                b"hdlr" => {
                    reader.go(part.start + 8)?;
                    self.video = &reader.array::<4>()? == b"vide";
                }
                b"minf" => {
                    let mut inner = part.parts(0);
                    while let Some(part) = next(&mut inner, reader, faults)? {
                        if &part.kind == b"stbl" {
                            self.read_tables(part, reader, faults)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_tables(&mut self, stbl: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<(), MediaError> {
        let mut parts = stbl.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            match &part.kind {
                b"stsd" => {
                    self.stsd = Some(part);
                    // The first description's size: 8 bytes before the list, 32 into the entry.
                    if part.size() >= 8 + 36 {
                        reader.go(part.start + 8 + 32)?;
                        self.size = (u32::from(reader.u16()?), u32::from(reader.u16()?));
                    }
                }
                b"stts" => self.stts = Some(part),
                b"ctts" => self.ctts = Some(part),
                b"stss" => self.stss = Some(part),
                b"stps" => self.stps = Some(part),
                b"stsz" | b"stz2" => {
                    self.stsz = Some(part);
                    reader.go(part.start + 8)?;
                    self.claimed = u64::from(reader.u32()?);
                }
                b"stsc" => self.stsc = Some(part),
                b"stco" | b"co64" => self.stco = Some(part),
                b"sbgp" => {
                    reader.go(part.start + 4)?;
                    if &reader.array::<4>()? == b"rap " {
                        self.points = Some(part);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The edit list, if it has one.
    pub(super) fn edits(
        &self,
        movie_scale: u32,
        reader: &mut Reader<'_>,
        limits: &Limits,
        faults: &mut Faults,
    ) -> Result<Vec<Edit>, MediaError> {
        let Some(part) = self.edits.filter(|part| part.size() >= 8) else { return Ok(Vec::new()) };
        reader.go(part.start)?;
        let long = reader.u8()? == 1;
        reader.go(part.start + 8)?;
        let count = (part.size() - 8) / if long { 20 } else { 12 };
        limits.check_frames(count)?;
        if movie_scale == 0 {
            // ffmpeg has no use for such a list either.
            faults.add("the file has an edit list, but not the time scale for it; all frames are shown");
            return Ok(Vec::new());
        }
        let mut edits = Vec::new();
        for _ in 0..count {
            let (duration, start) = match long {
                true => (reader.u64()?, reader.u64()? as i64),
                false => (u64::from(reader.u32()?), i64::from(reader.i32()?)),
            };
            if reader.u32()? != 1 << 16 && start != -1 {
                faults.add("the edit list asks for another speed, which is not applied");
            }
            edits.push(Edit::new(duration, start, self.scale, movie_scale));
        }
        Ok(edits)
    }
}

/// The next box; one that reaches past its parent is a fault, and bytes that are no box end the parent.
pub(super) fn next(
    parts: &mut Parts,
    reader: &mut Reader<'_>,
    faults: &mut Faults,
) -> Result<Option<Part>, MediaError> {
    match parts.next(reader) {
        Ok(Some(part)) => {
            if part.cut {
                faults.add(format!("box `{}` of the file's index is longer than the box it is in", part.name()));
            }
            Ok(Some(part))
        }
        Ok(None) => Ok(None),
        Err(Broken::NoBox(at)) => {
            faults.add(format!("the file's index is broken: there is no box at byte {at}"));
            Ok(None)
        }
        Err(Broken::Stop(error)) => Err(error),
    }
}

/// The upper left of a display matrix, as numbers.
fn matrix(reader: &mut Reader<'_>) -> Result<Matrix, MediaError> {
    let mut rows = [0.0; 6];
    for number in &mut rows {
        *number = f64::from(reader.i32()?) / 65536.0;
    }
    let [a, b, _, c, d, _] = rows;
    Ok([a, b, c, d])
}
