//! Maps a file of weights into memory.
//!
//! Invariant: what is mapped is a regular file that is not empty. A pipe, a device or a folder is refused before it is
//! opened, so that no name can make the program wait or read without end.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use super::{Bytes, ModelError};

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
    // SAFETY: the map is read-only and no reference to it outlives it, because `Bytes` shares its owner. What remains
    // is that another process could change the file meanwhile: then the weights are wrong, as they would be had they
    // been changed a moment earlier, and every value made of these bytes is valid for any bits. All that decides
    // where to read (lengths, offsets) is read once, checked, and kept as numbers.
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
    Bytes::new(Arc::new(mapped), 0..length).ok_or_else(|| ModelError::bad(path, "cannot be mapped as a whole"))
}
