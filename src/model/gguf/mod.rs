//! GGUF files: metadata and tensors, mapped.
//!
//! Invariant: an open file has been checked whole. Each tensor's bytes lie inside the file, fit its type and shape, and
//! are no other tensor's. Nothing in the header is believed before it is compared with the size of the file, so that
//! opening neither panics nor takes more memory than the file's own size and a fixed number of list items.
//!
//! ```text
//!  magic, version, counts │ keys and values │ names, shapes, types, offsets │ padding │ data
//!  mod                    │ values          │ tensors                       │         │ mapped
//! ```

mod cursor;
mod metadata;
mod tensors;
mod types;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::quantized::GgmlDType;

use self::cursor::Cursor;
pub use self::metadata::{Array, Metadata, Value};
use super::{Bytes, ModelError, mapped};

/// The most keys or tensors that a file may have. The largest models have a few thousand.
const MOST_ENTRIES: u64 = 1 << 16;

/// A tensor as it lies in the file.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// How its numbers are packed.
    pub dtype: GgmlDType,
    /// Its dimensions, outermost first: the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// Its data: exactly as many bytes as type and shape need.
    pub bytes: Bytes,
}

/// An open GGUF file.
#[derive(Debug, Clone)]
pub struct GgufFile {
    path: PathBuf,
    metadata: Metadata,
    tensors: BTreeMap<String, TensorInfo>,
}

impl GgufFile {
    /// Maps a file and checks its header.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        Self::from_bytes(path, mapped::map(path)?)
    }

    /// Checks a file that is in memory already; the path stands in messages only.
    pub fn from_bytes(path: &Path, bytes: Bytes) -> Result<Self, ModelError> {
        let mut cursor = Cursor::new(path, &bytes);
        check_kind(&mut cursor)?;
        let tensor_count = cursor.count("the number of tensors", tensors::SMALLEST, MOST_ENTRIES)?;
        let key_count = cursor.count("the number of keys", values::SMALLEST, MOST_ENTRIES)?;
        let metadata = values::read(&mut cursor, key_count)?;
        check_whole(path, &metadata)?;
        let alignment = alignment(path, &metadata)?;
        let tensors = tensors::read(&mut cursor, tensor_count, alignment, &bytes)?;
        Ok(Self { path: path.to_owned(), metadata, tensors })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its keys and values.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// A tensor by its name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }
}

/// Magic and version.
fn check_kind(cursor: &mut Cursor<'_>) -> Result<(), ModelError> {
    let magic = cursor.take(4, "the magic")?;
    if magic != b"GGUF" {
        let found = magic.escape_ascii();
        return Err(cursor.bad(format!("is not a GGUF file: it starts with `{found}`; name a .gguf file")));
    }
    match cursor.u32("the version")? {
        2 | 3 => Ok(()),
        // A version that is large only because its bytes stand the other way round.
        version if (1..=3).contains(&version.swap_bytes()) => {
            Err(cursor.unsupported("is a big-endian GGUF file; convert the model to a little-endian one"))
        }
        version => {
            let remedy = "versions 2 and 3 are; convert the model with a current converter";
            Err(cursor.unsupported(format!("GGUF version {version} is not supported; {remedy}")))
        }
    }
}

/// That the file is the whole model and not a part of it.
fn check_whole(path: &Path, metadata: &Metadata) -> Result<(), ModelError> {
    if metadata.get("split.count").is_none() {
        return Ok(());
    }
    let Some(count) = metadata.unsigned("split.count") else {
        return Err(ModelError::bad(path, "key `split.count` is not a whole number; convert the model again"));
    };
    if count > 1 {
        let what = format!("is one of {count} parts of a model (split.count); merge them: llama-gguf-split --merge");
        return Err(ModelError::unsupported(path, what));
    }
    Ok(())
}

/// What every tensor's offset is a multiple of.
fn alignment(path: &Path, metadata: &Metadata) -> Result<usize, ModelError> {
    let wrong = |found: String| {
        let what = format!("key `general.alignment` is {found}, not an unsigned power of two from 8 to 65536");
        ModelError::bad(path, format!("{what}; convert the model again"))
    };
    match metadata.get("general.alignment") {
        None => Ok(32),
        Some(Value::Unsigned(number)) => match usize::try_from(*number) {
            Ok(size) if size.is_power_of_two() && (8..=65536).contains(&size) => Ok(size),
            _ => Err(wrong(number.to_string())),
        },
        Some(other) => Err(wrong(other.kind().to_owned())),
    }
}
