//! Reads a small file of a model whole: settings, a tokenizer, a chat template.
//!
//! Invariant: a file counts as absent only if nothing is there at all. What is there and cannot be read is an error,
//! since to go on without it would be to judge with another model. A pipe, a device or a folder is refused before it is
//! opened, so that no name can make the program wait or read without end.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::ModelError;
use super::files::LEADS_NOWHERE;

/// The bytes of a file of at most `limit` bytes; `None` if nothing has this name.
pub fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, ModelError> {
    let failed = |error| ModelError::io(path, error);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        about => about.map_err(failed)?,
    };
    let about = match fs::metadata(path) {
        // There is a name, so it is a link.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(ModelError::bad(path, LEADS_NOWHERE));
        }
        about => about.map_err(failed)?,
    };
    if about.is_dir() {
        return Err(ModelError::bad(path, "is a folder; a file is wanted"));
    }
    if !about.is_file() {
        return Err(ModelError::bad(path, "is not a regular file; put a copy of the file in its place"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(ModelError::bad(path, format!("is larger than {}, which no such file is", told(limit))));
    }
    Ok(Some(bytes))
}

/// A size for messages.
fn told(bytes: u64) -> String {
    match bytes {
        _ if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}
