//! Bytes of weights: a part of a mapped file, or of memory.
//!
//! Invariant: the range lies inside its owner, which lives as long as the bytes do. Cloning copies nothing.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Bytes that several tensors may share without copying.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn Owner>,
    range: Range<usize>,
}

/// Who holds bytes.
pub trait Owner: AsRef<[u8]> + Send + Sync {
    /// Gives back the memory of these bytes, if they can be had again from where they came from.
    fn forget(&self, range: Range<usize>) {
        let _ = range;
    }
}

impl Owner for Vec<u8> {}

impl Bytes {
    /// The given range of the owner's bytes; `None` if it does not lie inside them.
    pub fn new(owner: Arc<dyn Owner>, range: Range<usize>) -> Option<Self> {
        let length = (*owner).as_ref().len();
        (range.start <= range.end && range.end <= length).then_some(Self { owner, range })
    }

    /// A part of these bytes; `None` if it does not lie inside them.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.range.len() {
            return None;
        }
        let range = self.range.start + range.start..self.range.start + range.end;
        Some(Self { owner: Arc::clone(&self.owner), range })
    }

    /// Says that these bytes will hardly be read again: of a mapped file they need no memory then.
    pub fn forget(&self) {
        self.owner.forget(self.range.clone());
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { owner: Arc::new(bytes), range }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}
