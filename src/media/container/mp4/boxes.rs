//! Boxes inside boxes.
//!
//! Invariant: a box never reaches past the one it is in, nor past the end of the file.

use super::super::MediaError;
use super::super::reader::Reader;

/// Where a box is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Its four letters.
    pub(super) kind: [u8; 4],
    /// Where its header begins.
    pub(super) head: u64,
    /// Where what is in it begins.
    pub(super) start: u64,
    /// Where it ends, inside its parent and the file.
    pub(super) end: u64,
    /// Whether it says that it is longer than that.
    pub(super) cut: bool,
}

impl Part {
    /// Whether it may be one of these with a damaged name: all but one letter are the same, or there are letters in it
    /// that no name has. Programs write boxes of their own, which are no damage.
    pub(super) fn may_be<const N: usize>(&self, names: [&[u8; 4]; N]) -> bool {
        let near = |name: &&[u8; 4]| self.kind.iter().zip(*name).filter(|(one, other)| one == other).count() == 3;
        let legible = self.kind.iter().all(|letter| letter.is_ascii_graphic() || matches!(letter, b' ' | 0xa9));
        !legible || names.iter().any(near)
    }

    /// How many bytes are in it.
    pub(super) fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The boxes in it, from `skip` bytes on.
    pub(super) fn parts(&self, skip: u64) -> Parts {
        Parts { at: self.start.saturating_add(skip).min(self.end), end: self.end }
    }

    /// Its letters for a message.
    pub(super) fn name(&self) -> String {
        letters(self.kind)
    }
}

/// Four letters for a message.
pub(super) fn letters(kind: [u8; 4]) -> String {
    kind.escape_ascii().to_string().trim_end().to_owned()
}

/// Goes through the boxes of a span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    at: u64,
    end: u64,
}

impl Parts {
    /// The boxes of a whole file.
    pub(super) fn of_file(bytes: u64) -> Self {
        Self { at: 0, end: bytes }
    }

    /// The next box, if the span has bytes for another header. [`Broken::NoBox`] where its bytes are none.
    pub(super) fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<Part>, Broken> {
        let head = self.at;
        if self.end.saturating_sub(head) < 8 {
            return Ok(None);
        }
        reader.step()?;
        reader.go(head)?;
        let size = u64::from(reader.u32()?);
        let kind = reader.array()?;
        let (header, size) = match size {
            0 => (8, None),
            1 if self.end - head >= 16 => (16, Some(reader.u64()?)),
            size => (8, Some(size)),
        };
        if size.is_some_and(|size| size < header) {
            return Err(Broken::NoBox(head));
        }
        let start = head + header;
        let claimed = size.map_or(self.end, |size| head.saturating_add(size));
        let end = claimed.min(self.end);
        self.at = end;
        Ok(Some(Part { kind, head, start, end, cut: claimed > self.end }))
    }
}

/// Why there is no next box.
#[derive(Debug)]
pub(super) enum Broken {
    /// The bytes at this place are no box.
    NoBox(u64),
    /// The file cannot be read on.
    Stop(MediaError),
}

impl From<MediaError> for Broken {
    fn from(error: MediaError) -> Self {
        Broken::Stop(error)
    }
}

impl From<Broken> for MediaError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::NoBox(at) => {
                MediaError::Damaged(format!("the file's index is broken: there is no box at byte {at}"))
            }
            Broken::Stop(error) => error,
        }
    }
}
