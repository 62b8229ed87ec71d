//! One pass over a data set before anything is judged: its hash, its size, its systems, its duplicate ids.
//!
//! A run asks for this first, so that a data set that could not be resumed (no ids, ids twice) is refused before an
//! hour of judging is spent on it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::{DataError, Limits, RecordReader, SeenIds};

const ERRORS_KEPT: usize = 10;

/// What a data set holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// SHA-256 of the file.
    pub sha256: String,
    /// How many records there are.
    pub records: u64,
    /// How many records each system has.
    pub systems: BTreeMap<String, u64>,
    /// The [`hash`](super::Entry::hash) of each record's line, in the order of the records (blank lines have none), so
    /// that whoever reads the file again can tell at each record whether it is the one that was surveyed.
    pub line_hashes: Vec<u64>,
    /// Where each record stands, in the same order, if that was asked for.
    pub places: Vec<Place>,
    /// How long the file is.
    pub bytes: u64,
}

/// Where a record stands in its file, and which video it is about: little enough to keep for each of a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Where its line begins.
    pub offset: u64,
    /// The line, counted from 1.
    pub line: u64,
    /// A hash of its video's name; `None` if it names none.
    pub video: Option<u64>,
}

/// Whether places are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places {
    /// No.
    Skip,
    /// Yes.
    Note,
}

/// Reads the whole data set once. `seen` is called after every record, for a progress bar.
pub fn survey(path: &Path, limits: Limits, places: Places, mut seen: impl FnMut(u64)) -> Result<Survey, DataError> {
    let mut reader = RecordReader::open_hashing(path, limits)?;
    let mut ids = SeenIds::default();
    let mut errors = Vec::new();
    let mut more = 0;
    let mut records = 0;
    let mut systems = BTreeMap::new();
    let mut line_hashes = Vec::new();
    let mut noted = Vec::new();
    while let Some(entry) = reader.next() {
        let error = match entry {
            Ok(entry) => {
                records += 1;
                seen(records);
                line_hashes.push(entry.hash);
                if places == Places::Note {
                    let video = entry.record.as_ref().ok().and_then(|record| record.video.as_ref());
                    let video = video.map(|video| {
                        let mut hasher = DefaultHasher::new();
                        video.paths(Path::new("")).hash(&mut hasher);
                        hasher.finish()
                    });
                    noted.push(Place { offset: reader.last_offset(), line: entry.line, video });
                }
                *systems.entry(entry.system.unwrap_or_default()).or_default() += 1;
                match ids.note(&entry.id, entry.line) {
                    None => continue,
                    Some(first) => DataError::Line {
                        path: path.to_owned(),
                        line: entry.line,
                        what: format!("id {:?} was used in line {first} already; make ids unique", entry.id),
                    },
                }
            }
            Err(error @ DataError::Line { .. }) => error,
            Err(error) => return Err(error),
        };
        if errors.len() < ERRORS_KEPT {
            errors.push(error);
        } else {
            more += 1;
        }
    }
    if !errors.is_empty() {
        return Err(DataError::Unusable { errors, more });
    }
    let bytes = reader.offset();
    let sha256 = reader.finish()?;
    Ok(Survey { sha256, records, systems, line_hashes, places: noted, bytes })
}
