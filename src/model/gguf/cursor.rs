//! A place in the header, from which numbers and texts are read.
//!
//! Invariant: nothing is read beyond the end, and no length or count is given out that the rest of the file could not
//! hold; the error says what was being read.

use std::fmt::Display;
use std::path::Path;

use crate::model::ModelError;

const COPY_AGAIN: &str = "the file is cut off or damaged: copy or download it again";

/// A place in the header.
pub(super) struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(path: &'a Path, bytes: &'a [u8]) -> Self {
        Self { path, bytes, at: 0 }
    }

    /// How many bytes have been read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next bytes, of which `what` is made.
    pub(super) fn take(&mut self, length: u64, what: impl Display) -> Result<&'a [u8], ModelError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => {
                let (at, left) = (self.at, rest.len());
                let what = format!("{what} takes {length} bytes at byte {at}, but {left} are left; {COPY_AGAIN}");
                Err(self.bad(what))
            }
        }
    }

    /// The next `N` bytes.
    pub(super) fn fixed<const N: usize>(&mut self, what: impl Display) -> Result<[u8; N], ModelError> {
        let mut fixed = [0; N];
        fixed.copy_from_slice(self.take(N as u64, what)?);
        Ok(fixed)
    }

    pub(super) fn u32(&mut self, what: impl Display) -> Result<u32, ModelError> {
        self.fixed(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: impl Display) -> Result<u64, ModelError> {
        self.fixed(what).map(u64::from_le_bytes)
    }

    /// A number of things, each of which takes `smallest` bytes or more, and of which there may be `most`.
    pub(super) fn count(&mut self, what: impl Display, smallest: u64, most: u64) -> Result<usize, ModelError> {
        let count = self.u64(&what)?;
        let left = (self.bytes.len() - self.at) as u64;
        if count > left / smallest {
            let what = format!("{what} is {count}, more than the {left} bytes behind it can hold; {COPY_AGAIN}");
            return Err(self.bad(what));
        }
        if count > most {
            return Err(self.unsupported(format!("{what} is {count}; up to {most} are supported")));
        }
        // What fits into a file that is mapped fits into an address.
        Ok(count as usize)
    }

    /// The bytes of a text.
    pub(super) fn text(&mut self, what: impl Display) -> Result<&'a [u8], ModelError> {
        let length = self.u64(format_args!("the length of {what}"))?;
        self.take(length, what)
    }

    /// The name of a key or a tensor.
    pub(super) fn name(&mut self, what: impl Display, longest: usize) -> Result<String, ModelError> {
        let bytes = self.text(&what)?;
        if bytes.len() > longest {
            return Err(self.bad(format!("{what} has {} bytes; up to {longest} are allowed", bytes.len())));
        }
        match String::from_utf8(bytes.to_vec()) {
            Ok(name) if name.is_empty() => Err(self.bad(format!("{what} is empty; convert the model again"))),
            Ok(name) => Ok(name),
            Err(_) => {
                Err(self.bad(format!("{what} is not UTF-8: `{}`; convert the model again", bytes.escape_ascii())))
            }
        }
    }

    /// An error about this file: it is not what it should be.
    pub(super) fn bad(&self, what: impl Into<String>) -> ModelError {
        ModelError::bad(self.path, what)
    }

    /// An error about this file: this version cannot use it.
    pub(super) fn unsupported(&self, what: impl Into<String>) -> ModelError {
        ModelError::unsupported(self.path, what)
    }
}
