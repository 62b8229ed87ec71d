//! Numbers and bytes at any place of a file.
//!
//! Invariant: nothing is read past the end of the file and nothing is allocated before it is known to be in the file.

use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::{MediaError, Source};

/// Large enough that tables come in few pieces, small enough that a jump over a picture costs little.
const BUFFER: usize = 16 << 10;

/// A file that is read at any place.
pub(super) struct Reader<'a> {
    source: BufReader<&'a mut dyn Source>,
    bytes: u64,
    at: u64,
    steps: u64,
}

impl<'a> Reader<'a> {
    /// A reader at the start of a file of `bytes` bytes, which may visit `steps` boxes or elements.
    pub(super) fn new(source: &'a mut dyn Source, bytes: u64, steps: u64) -> Result<Self, MediaError> {
        let mut source = BufReader::with_capacity(BUFFER, source);
        source.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Self { source, bytes, at: 0, steps })
    }

    /// How many bytes the file has.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the next byte is read.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.at)
    }

    /// Counts a box or an element, so that a file made of nothing but empty ones has an end.
    pub(super) fn step(&mut self) -> Result<(), MediaError> {
        match self.steps.checked_sub(1) {
            Some(steps) => {
                self.steps = steps;
                Ok(())
            }
            None => Err(MediaError::Limit(
                "the file has more parts than the allowed number of frames could need (--max-video-frames)".to_owned(),
            )),
        }
    }

    /// Goes to a place; at most to the end of the file.
    pub(super) fn go(&mut self, to: u64) -> Result<(), MediaError> {
        let to = to.min(self.bytes);
        // A file may be larger than a signed offset from here can say.
        match i64::try_from(i128::from(to) - i128::from(self.at)) {
            Ok(0) => {}
            Ok(by) => self.source.seek_relative(by).map_err(failed)?,
            Err(_) => {
                self.source.seek(SeekFrom::Start(to)).map_err(failed)?;
            }
        }
        self.at = to;
        Ok(())
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], MediaError> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    /// The next bytes, as many as `out` takes.
    pub(super) fn fill(&mut self, out: &mut [u8]) -> Result<(), MediaError> {
        let size = out.len() as u64;
        if size > self.left() {
            return Err(ended());
        }
        self.source.read_exact(out).map_err(failed)?;
        self.at += size;
        Ok(())
    }

    /// The next `size` bytes, if there are so many and they are no more than `most`.
    pub(super) fn take(&mut self, size: u64, most: usize) -> Result<Vec<u8>, MediaError> {
        let size = usize::try_from(size).ok().filter(|size| *size <= most && *size as u64 <= self.left());
        let mut out = vec![0; size.ok_or_else(ended)?];
        self.fill(&mut out)?;
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8, MediaError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, MediaError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, MediaError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> Result<i32, MediaError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, MediaError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}

/// A header that ends before it is whole.
fn ended() -> MediaError {
    MediaError::Damaged("the file's index is broken: a part of it is shorter than it has to be".to_owned())
}

fn failed(error: std::io::Error) -> MediaError {
    match error.kind() {
        // The caller's size was wrong, or the file became shorter while it was read.
        ErrorKind::UnexpectedEof => MediaError::Damaged("the file became shorter while it was read".to_owned()),
        // The path is the caller's to add.
        _ => MediaError::Io { path: PathBuf::new(), what: error.to_string() },
    }
}
