//! Reads the header of one safetensors file.
//!
//! Invariant: the tensors given out cover the file's data without gap or overlap, each name once. Sizes are compared
//! with the file first, by tensor; the `safetensors` crate then checks how the tensors lie beside each other.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use safetensors::SafeTensorError;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::SafeTensor;
use crate::model::{Bytes, ModelError, mapped};

/// The bytes of the header's length.
const LENGTH: usize = 8;

/// The largest header that is read; the format's own limit.
const LARGEST_HEADER: u64 = 100_000_000;

const COPY_AGAIN: &str = "the file is cut off or damaged: copy or download it again";

/// Maps a file and gives its tensors.
pub(super) fn read(path: &Path) -> Result<Vec<(String, SafeTensor)>, ModelError> {
    let file = mapped::map(path)?;
    tensors(path, &file).map_err(|what| ModelError::bad(path, what))
}

fn tensors(path: &Path, file: &Bytes) -> Result<Vec<(String, SafeTensor)>, String> {
    let (start, text) = header(file)?;
    let text = String::from_utf8(text.to_vec()).map_err(|_| format!("the header is not UTF-8; {COPY_AGAIN}"))?;
    let Header(mut infos) =
        serde_json::from_str(&text).map_err(|error| format!("the header is wrong ({error}); {COPY_AGAIN}"))?;
    let data = file.len() - start;
    for (name, info) in &infos {
        check_size(info, data).map_err(|what| format!("tensor `{}` {what}; {COPY_AGAIN}", name.escape_debug()))?;
    }
    infos.sort_by_key(|(_, info)| info.data_offsets);
    let checked = Metadata::new(None, infos.clone()).map_err(explain)?;
    if checked.data_len() != data {
        let covered = checked.data_len();
        return Err(format!("the tensors take {covered} bytes, but the file has {data}; {COPY_AGAIN}"));
    }
    let mut tensors = Vec::with_capacity(infos.len());
    for (name, TensorInfo { dtype, shape, data_offsets: (from, to) }) in infos {
        let bytes = file
            .slice(start + from..start + to)
            .ok_or_else(|| format!("tensor `{}` lies beyond the end of the file; {COPY_AGAIN}", name.escape_debug()))?;
        tensors.push((name, SafeTensor { dtype, shape, bytes, file: path.to_owned() }));
    }
    Ok(tensors)
}

/// Where the data begins, and the header's text.
fn header(file: &[u8]) -> Result<(usize, &[u8]), String> {
    let Some((length, rest)) = file.split_first_chunk::<LENGTH>() else {
        let size = file.len();
        return Err(format!("has {size} bytes, and a safetensors file begins with a length of 8; {COPY_AGAIN}"));
    };
    let length = u64::from_le_bytes(*length);
    if length > LARGEST_HEADER {
        return Err(format!("the header has {length} bytes, and {LARGEST_HEADER} are the most; is this safetensors?"));
    }
    match rest.get(..length as usize) {
        Some(text) => Ok((LENGTH + text.len(), text)),
        None => Err(format!("the header has {length} bytes, but {} follow; {COPY_AGAIN}", rest.len())),
    }
}

/// That a tensor lies in the data and has as many bytes as its type and shape need.
fn check_size(info: &TensorInfo, data: usize) -> Result<(), String> {
    let TensorInfo { dtype, shape, data_offsets: (from, to) } = info;
    if from > to || *to > data {
        return Err(format!("lies at bytes {from} to {to} of the data, which has {data}"));
    }
    let bits = shape.iter().try_fold(dtype.bitsize(), |bits, &dimension| bits.checked_mul(dimension));
    if bits.is_none_or(|bits| bits.div_ceil(8) != to - from) {
        return Err(format!("has {} bytes, which type {dtype} and shape {shape:?} do not take", to - from));
    }
    Ok(())
}

fn explain(error: SafeTensorError) -> String {
    match error {
        SafeTensorError::InvalidOffset(name) => {
            let name = name.escape_debug();
            format!("tensor `{name}` does not begin where the one before it ends; {COPY_AGAIN}")
        }
        other => format!("the header is wrong ({other}); {COPY_AGAIN}"),
    }
}

/// The tensors of a header, of which none has the name of another.
struct Header(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from names to tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Header, A::Error> {
        let mut tensors = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(name) = access.next_key::<String>()? {
            let shown = name.escape_debug();
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!("`{shown}` is there twice")));
            }
            if name == "__metadata__" {
                access.next_value::<IgnoredAny>()?;
                continue;
            }
            let info = access.next_value().map_err(|error| A::Error::custom(format!("tensor `{shown}`: {error}")))?;
            tensors.push((name, info));
        }
        Ok(Header(tensors))
    }
}
