//! EBML: elements with a name, a size and what is in them.
//!
//! Invariant: an element that is read whole lies in the file; of one that does not, only the head is ever believed.

use super::super::MediaError;
use super::super::reader::Reader;

/// Where an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    /// Its name, with the length marker.
    pub(super) id: u32,
    /// Where its head begins.
    pub(super) head: u64,
    /// Where what is in it begins.
    pub(super) start: u64,
    /// Where it ends, as it says; `None` if it does not say.
    pub(super) end: Option<u64>,
}

/// Why there is no next element.
#[derive(Debug)]
pub(super) enum Broken {
    /// The bytes at this place are no element.
    NoElement(u64),
    /// The file ends in an element's head.
    Cut,
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
            Broken::NoElement(at) => {
                MediaError::Damaged(format!("the file's header is broken: there is no element at byte {at}"))
            }
            Broken::Cut => MediaError::Damaged("the file is cut off inside its header".to_owned()),
            Broken::Stop(error) => error,
        }
    }
}

impl Element {
    /// The element that begins where the reader is, inside of `end`; `None` at the end.
    pub(super) fn next(reader: &mut Reader<'_>, end: u64) -> Result<Option<Self>, Broken> {
        let head = reader.at();
        let end = end.min(reader.bytes());
        if head >= end {
            return Ok(None);
        }
        reader.step()?;
        let Some((id, true)) = vint(reader, 4, end, true)? else {
            return Err(Broken::NoElement(head));
        };
        let Some((size, known)) = vint(reader, 8, end, false)? else {
            return Err(Broken::NoElement(head));
        };
        let start = reader.at();
        let id = u32::try_from(id).map_err(|_| Broken::NoElement(head))?;
        Ok(Some(Self { id, head, start, end: known.then(|| start.saturating_add(size)) }))
    }

    /// How many bytes are in it, if it says.
    pub(super) fn size(&self) -> Option<u64> {
        self.end.map(|end| end - self.start)
    }

    /// Its whole number.
    pub(super) fn unsigned(&self, reader: &mut Reader<'_>) -> Result<u64, MediaError> {
        let bytes = self.small(reader)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Its number with a point.
    pub(super) fn float(&self, reader: &mut Reader<'_>) -> Result<f64, MediaError> {
        let bytes = self.small(reader)?;
        match (<[u8; 4]>::try_from(bytes.as_slice()), <[u8; 8]>::try_from(bytes.as_slice())) {
            (Ok(four), _) => Ok(f64::from(f32::from_be_bytes(four))),
            (_, Ok(eight)) => Ok(f64::from_be_bytes(eight)),
            _ => Ok(0.0),
        }
    }

    fn small(&self, reader: &mut Reader<'_>) -> Result<Vec<u8>, MediaError> {
        self.bytes(reader, 8)
    }

    /// Its bytes, if they are no more than `most`.
    pub(super) fn bytes(&self, reader: &mut Reader<'_>, most: usize) -> Result<Vec<u8>, MediaError> {
        let broken = || MediaError::Damaged(format!("the file's header is broken: element {:X} has no size", self.id));
        let size = self.size().ok_or_else(broken)?;
        reader.go(self.start)?;
        reader.take(size, most)
    }
}

/// A number with its own length, of at most `most` bytes; `false` with it if all its bits are 1, which says that a
/// size is not known. `None` if there is no such number.
pub(super) fn vint(
    reader: &mut Reader<'_>,
    most: u32,
    end: u64,
    keep_marker: bool,
) -> Result<Option<(u64, bool)>, Broken> {
    if reader.at() >= end {
        return Err(Broken::Cut);
    }
    let first = reader.u8()?;
    let length = first.leading_zeros() + 1;
    if length > most {
        return Ok(None);
    }
    if end - reader.at() < u64::from(length - 1) {
        return Err(Broken::Cut);
    }
    let mut number = u64::from(first);
    for _ in 1..length {
        number = number << 8 | u64::from(reader.u8()?);
    }
    // Seven bits a byte; the marker is the one above them.
    let bits = 7 * length;
    let plain = number & ((1 << bits) - 1);
    let known = plain != (1 << bits) - 1;
    Ok(Some((if keep_marker { number } else { plain }, known)))
}
