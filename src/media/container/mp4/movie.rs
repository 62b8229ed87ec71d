//! The `moov` box: which tracks there are, and where their tables are.
//!
//! Invariant: nothing that a track's tables hold is read here but their heads, so that only one track's tables ever
//! take memory.

use super::super::faults::Faults;
use super::super::reader::Reader;
use super::super::{Limits, MediaError};
use super::boxes::{Broken, Part, Parts};
use super::description;
use super::edits::Edit;

/// More tracks than any file has.
const MOST_TRACKS: usize = 1024;

/// Tables that have nothing to say on which frames there are, and boxes of any place.
const STRANGERS: [[u8; 4]; 17] = [
    *b"sgpd", *b"cslg", *b"stsh", *b"padb", *b"stdp", *b"sdtp", *b"subs", *b"saiz", *b"saio", *b"senc", *b"stgs",
    *b"csgp", *b"free", *b"skip", *b"wide", *b"uuid", *b"meta",
];

/// The movie.
#[derive(Debug, Default)]
pub(super) struct Movie {
    /// Ticks a second.
    pub(super) scale: u32,
    /// Its own display matrix, which goes over each track's.
    matrix: Option<Matrix>,
    /// Its video tracks, in the order of the file.
    tracks: Vec<Track>,
    /// The numbers of all its tracks.
    pub(super) ids: Vec<u32>,
    /// The numbers of tracks that are but chapters of others.
    chapters: Vec<u32>,
    /// Whether it says that fragments follow.
    pub(super) fragmented: bool,
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
    matrix: Option<Matrix>,
    /// Ticks a second, as the file says.
    scale: u32,
    edits: Option<Part>,
    /// What the track is for, and how its first samples are coded.
    handler: [u8; 4],
    coded: [u8; 4],
    /// Tracks that hold its chapters.
    chapters: Vec<u32>,
    /// The first box that may be a table with a damaged name.
    odd: Option<String>,
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
}

impl Movie {
    /// Reads a whole `moov` box.
    pub(super) fn read(moov: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<Self, MediaError> {
        let mut movie = Movie::default();
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
                b"trak" => {
                    if movie.ids.len() >= MOST_TRACKS {
                        return Err(MediaError::Damaged(format!("the file has more than {MOST_TRACKS} tracks")));
                    }
                    let track = Track::read(part, reader, faults)?;
                    movie.ids.push(track.id);
                    movie.chapters.extend(&track.chapters);
                    if track.is_video() {
                        movie.tracks.push(track);
                    }
                }
                b"mvex" => {
                    movie.fragmented = true;
                    movie.read_defaults(part, reader, faults)?;
                }
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

    /// The video track that is shown: the first that is not an attached picture. Neither its size nor its length counts,
    /// nor whether it is enabled: that is the track that `0:V:0` is for ffmpeg, and so all decoders show the same.
    /// The pictures of chapters are attached ones; a cover is no track at all.
    pub(super) fn track(&self) -> Result<&Track, MediaError> {
        let shown = self.tracks.iter().find(|track| !self.chapters.contains(&track.id));
        shown.ok_or_else(|| MediaError::Unsupported("the file has no video track".to_owned()))
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
                        } else {
                            track.doubt(part, b"elst");
                        }
                    }
                }
                b"tref" => track.read_references(part, reader, faults)?,
                b"mdia" => track.read_media(part, reader, faults)?,
                _ => track.doubt(part, b"edts"),
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
                    self.scale = reader.u32()?;
                }
                b"hdlr" => {
                    reader.go(part.start + 8)?;
                    self.handler = reader.array()?;
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
            let slot = match &part.kind {
                b"stsd" => {
                    // After 8 bytes before the list and the entry's size.
                    if part.size() >= 16 {
                        reader.go(part.start + 12)?;
                        self.coded = reader.array()?;
                    }
                    &mut self.stsd
                }
                b"stsz" | b"stz2" => {
                    reader.go(part.start + 8)?;
                    self.claimed = u64::from(reader.u32()?);
                    &mut self.stsz
                }
                b"sbgp" => {
                    reader.go(part.start + 4)?;
                    if &reader.array::<4>()? != b"rap " {
                        continue;
                    }
                    &mut self.points
                }
                b"stts" => &mut self.stts,
                b"ctts" => &mut self.ctts,
                b"stss" => &mut self.stss,
                b"stps" => &mut self.stps,
                b"stsc" => &mut self.stsc,
                b"stco" | b"co64" => &mut self.stco,
                kind if STRANGERS.contains(kind) => continue,
                _ => {
                    if part.may_be([b"stsd", b"stsz", b"stz2", b"stts", b"ctts", b"stss", b"stsc", b"stco", b"co64"]) {
                        self.odd.get_or_insert(part.name());
                    }
                    continue;
                }
            };
            // Of two with the same name, one is a table with a damaged name.
            if slot.replace(part).is_some() {
                self.odd.get_or_insert(part.name());
            }
        }
        Ok(())
    }

    /// The tracks that this one refers to.
    fn read_references(&mut self, tref: Part, reader: &mut Reader<'_>, faults: &mut Faults) -> Result<(), MediaError> {
        let mut parts = tref.parts(0);
        while let Some(part) = next(&mut parts, reader, faults)? {
            if &part.kind == b"chap" {
                reader.go(part.start)?;
                for _ in 0..(part.size() / 4).min(MOST_TRACKS as u64) {
                    self.chapters.push(reader.u32()?);
                }
            }
        }
        Ok(())
    }

    /// Whether it has pictures. As for ffmpeg, what is coded as video is video, whatever the handler is called, unless
    /// that is sound.
    fn is_video(&self) -> bool {
        &self.handler == b"vide" || (&self.handler != b"soun" && description::is_video(self.coded))
    }

    /// Takes note of a box that may be the known one with a damaged name.
    fn doubt(&mut self, part: Part, known: &[u8; 4]) {
        if part.may_be([known]) {
            self.odd.get_or_insert(part.name());
        }
    }

    /// Says what was noted of the track.
    pub(super) fn complain(&self, faults: &mut Faults) {
        if let Some(name) = &self.odd {
            faults.add(format!(
                "the video's index has a box `{name}` that should not be there and may be a damaged table: frames or \
                 times may be wrong"
            ));
        }
    }

    /// Ticks a second; there are no times without them.
    pub(super) fn scale(&self) -> Result<u32, MediaError> {
        match i32::try_from(self.scale) {
            Ok(1..) => Ok(self.scale),
            _ => Err(MediaError::Damaged(format!(
                "the file's index is broken: a time scale of {} says nothing on when frames are shown",
                self.scale
            ))),
        }
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
        reader.go(part.start + 4)?;
        let claimed = u64::from(reader.u32()?);
        let count = (part.size() - 8) / if long { 20 } else { 12 };
        if claimed != count {
            faults.add(format!("the edit list claims {claimed} entries but has {count}"));
        }
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
            edits.push(Edit::new(duration, start, self.scale()?, movie_scale));
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
