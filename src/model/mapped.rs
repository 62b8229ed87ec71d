//! Maps a file of weights into memory.
//!
//! Invariant: what is mapped is a regular file that is not empty. A pipe, a device or a folder is refused before it is
//! opened, so that no name can make the program wait or read without end.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::{Bytes, ModelError};
use crate::kernels::Owner;

/// The bytes of a whole file, mapped and not read.
pub(super) fn map(path: &Path) -> Result<Bytes, ModelError> {
    let about = fs::metadata(path).map_err(|source| ModelError::io(path, source))?;
    if about.is_dir() {
        return Err(ModelError::bad(path, "is a folder; name a file in it"));
    }
    if !about.is_file() {
        return Err(ModelError::bad(path, "is not a regular file; copy the weights into one"));
    }
    let file = File::open(path).map_err(|source| ModelError::io(path, source))?;
    // SAFETY: the map is read-only, and `Bytes` keeps it alive as long as anything points into it. What remains is that
    // another process changes the file meanwhile. Numbers of tensors are valid whatever their bits are, texts are
    // copied before they are checked, and lengths and offsets are read once and kept, so that changed bytes give wrong
    // weights and no more; a file that is made shorter ends the process, which no reader of a map can prevent.
    let mapped = unsafe { Mmap::map(&file) }.map_err(|source| ModelError::io(path, source))?;
    if mapped.is_empty() {
        return Err(ModelError::bad(path, "is empty; copy or download it again"));
    }
    if mapped.starts_with(b"version https://git-lfs") {
        let what =
            "is a pointer that Git LFS left in place of the weights; run `git lfs pull` where there is a network";
        return Err(ModelError::bad(path, what));
    }
    let length = mapped.len();
    Bytes::new(Arc::new(Mapped(mapped)), 0..length).ok_or_else(|| ModelError::bad(path, "cannot be mapped as a whole"))
}

/// A file of weights.
struct Mapped(Mmap);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Owner for Mapped {
    #[cfg(unix)]
    fn forget(&self, range: std::ops::Range<usize>) {
        use memmap2::UncheckedAdvice::DontNeed;
        // SAFETY: the mapping is of a file and never written to, so pages that are dropped come back with the same bytes.
        // That it fails costs memory and nothing else.
        let _ = unsafe { self.0.unchecked_advise_range(DontNeed, range.start, range.len()) };
    }
}
