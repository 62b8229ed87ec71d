//! Reads a data set line by line.
//!
//! Invariant: every error knows its line, and a line that is longer than the limit is never held in memory whole. No
//! value of a line is dropped unseen: a key that is there twice makes the line an error.

use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use thiserror::Error;

use super::digest::HashingReader;
use super::record::{Broken, Record, id_of};

/// How large an input may be before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest line of a data set, in bytes.
    pub line_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: 16 << 20 }
    }
}

/// Why a data set cannot be used.
#[derive(Debug, Error)]
pub enum DataError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not a record at all, so that no verdict could name it.
    #[error("{path}:{line}: {what}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Lines that are no records, or ids that are not unique.
    #[error("{}", list(errors, *more))]
    Unusable {
        /// The first of them.
        errors: Vec<DataError>,
        /// How many more there are.
        more: u64,
    },
}

fn list(errors: &[DataError], more: u64) -> String {
    let mut text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    if more > 0 {
        text.push_str(&format!("\nand {more} more (capjudge validate lists them all)"));
    }
    text
}

/// A line of a data set that has an id.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The line, counted from 1.
    pub line: u64,
    /// The record's id.
    pub id: String,
    /// The system, if the record names one.
    pub system: Option<String>,
    /// A hash of the line's bytes, its line end included. It is the same in every reading of the same line by one
    /// process, and by no other: compare it with [`Survey::line_hashes`](super::Survey::line_hashes), do not store it.
    pub hash: u64,
    /// The record, or what can be read of it and all that is wrong with its fields.
    pub record: Result<Record, Broken>,
}

/// Reads the entries of a data set.
#[derive(Debug)]
pub struct RecordReader<R = File> {
    path: PathBuf,
    input: BufReader<R>,
    limits: Limits,
    line: u64,
    /// Where the next line begins, and where the last one did.
    offset: u64,
    last: u64,
    buffer: Vec<u8>,
}

impl RecordReader {
    /// Opens a data set.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, DataError> {
        Ok(Self::of(open_file(path)?, path, limits))
    }

    /// Goes to the line of that number, which begins at that byte.
    pub fn go_to(&mut self, offset: u64, line: u64) -> Result<(), DataError> {
        let error = |source| DataError::Io { path: self.path.clone(), source };
        // Lines that follow each other are in the buffer already.
        if offset != self.offset {
            self.input.seek(SeekFrom::Start(offset)).map_err(error)?;
        }
        (self.offset, self.line) = (offset, line.saturating_sub(1));
        Ok(())
    }

    /// How long the file is now.
    pub fn bytes(&self) -> Result<u64, DataError> {
        let error = |source| DataError::Io { path: self.path.clone(), source };
        self.input.get_ref().metadata().map(|data| data.len()).map_err(error)
    }
}

impl RecordReader<HashingReader<File>> {
    /// Opens a data set whose hash is wanted too.
    pub fn open_hashing(path: &Path, limits: Limits) -> Result<Self, DataError> {
        Ok(Self::of(HashingReader::new(open_file(path)?), path, limits))
    }

    /// Reads what is left and gives the SHA-256 of the whole file.
    pub fn finish(mut self) -> Result<String, DataError> {
        match io::copy(&mut self.input, &mut io::sink()) {
            Ok(_) => Ok(self.input.into_inner().finish()),
            Err(source) => Err(DataError::Io { path: self.path, source }),
        }
    }
}

fn open_file(path: &Path) -> Result<File, DataError> {
    let error = |source| DataError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(error)?;
    if file.metadata().map_err(error)?.is_dir() {
        return Err(error(io::Error::new(io::ErrorKind::IsADirectory, "is a folder; name a JSON Lines file")));
    }
    Ok(file)
}

impl<R: Read> RecordReader<R> {
    fn of(input: R, path: &Path, limits: Limits) -> Self {
        let input = BufReader::with_capacity(1 << 18, input);
        Self { path: path.to_owned(), input, limits, line: 0, offset: 0, last: 0, buffer: Vec::new() }
    }

    /// Where the last entry's line begins, in bytes.
    pub fn last_offset(&self) -> u64 {
        self.last
    }

    /// Where the next line begins: behind the last one the length of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn next_entry(&mut self) -> Option<Result<Entry, DataError>> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let limit = (self.limits.line_bytes as u64).saturating_add(1);
            match self.input.by_ref().take(limit).read_until(b'\n', &mut self.buffer) {
                Err(source) => return Some(Err(DataError::Io { path: self.path.clone(), source })),
                Ok(0) => return None,
                Ok(read) => {
                    self.last = self.offset;
                    self.offset += read as u64;
                }
            }
            if self.buffer.len() as u64 == limit && !self.buffer.ends_with(b"\n") {
                match self.input.skip_until(b'\n') {
                    Ok(skipped) => self.offset += skipped as u64,
                    Err(source) => return Some(Err(DataError::Io { path: self.path.clone(), source })),
                }
                let limit = self.limits.line_bytes;
                return Some(Err(self.wrong(format!("longer than {limit} bytes; raise --max-line-bytes to allow it"))));
            }
            let mut bytes = self.buffer.as_slice();
            if self.line == 1 {
                bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
            }
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let mut hasher = DefaultHasher::new();
            hasher.write(&self.buffer);
            let entry = parse(bytes, self.line, hasher.finish());
            return Some(entry.map_err(|what| self.wrong(what)));
        }
    }

    fn wrong(&self, what: String) -> DataError {
        DataError::Line { path: self.path.clone(), line: self.line, what }
    }
}

impl<R: Read> Iterator for RecordReader<R> {
    type Item = Result<Entry, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry()
    }
}

fn parse(bytes: &[u8], line: u64, hash: u64) -> Result<Entry, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 at byte {} of the line; save the file as UTF-8", error.valid_up_to()))?;
    let Object { fields, twice } = serde_json::from_str(text)
        .map_err(|error| format!("not a JSON object ({error}); write one record a line, as a JSON object"))?;
    if let Some(key) = twice {
        return Err(format!("key `{}` is there twice; keep the one that is meant", key.escape_debug()));
    }
    let id =
        id_of(&fields).ok_or("id is missing, empty or not a string; give every record a unique string as its id")?;
    let system = fields.get("system").and_then(Value::as_str).map(str::to_owned);
    Ok(Entry { line, id, system, hash, record: Record::from_fields(fields) })
}

/// A JSON object that remembers a key that was there twice, where a [`Map`] would keep the last value in silence.
struct Object {
    fields: Map<String, Value>,
    twice: Option<String>,
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Object, A::Error> {
        let mut object = Object { fields: Map::new(), twice: None };
        while let Some((key, value)) = access.next_entry::<String, Value>()? {
            if object.fields.contains_key(&key) {
                object.twice.get_or_insert(key);
            } else {
                object.fields.insert(key, value);
            }
        }
        Ok(object)
    }
}
