//! A shape as a Hugging Face folder, for programs that read nothing else.
//!
//! Invariant: the folder appears whole or not at all, and however large the model, a few megabytes of it are in memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use half::bf16;
use serde_json::{Map, Value, json};

use super::Shape;
use super::numbers::{BYTES, Numbers, Spread};
use crate::model::ModelError;
use crate::model::manifest::Stored;

/// Numbers that are made at a time.
const PIECE: usize = 1 << 22;
/// Bytes of a file of weights, unless one tensor has more.
const SHARD: u64 = 2_000_000_000;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Numbers of the model.
    pub parameters: u64,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Files that they are in.
    pub shards: usize,
}

/// A tensor by name and shape.
type Tensor = (String, Vec<usize>);

/// Writes a shape with the numbers of a seed to a folder that is not there yet. `on` hears how many bytes more were
/// written; `None` if it wants no more, and then there is no folder.
pub fn write_folder(
    shape: &Shape,
    seed: u64,
    stored: Stored,
    out: &Path,
    on: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Written>, ModelError> {
    if out.exists() {
        let what = format!("{}: is there already; name a folder that is not", out.display());
        return Err(ModelError::Option(what));
    }
    let (name, wide) = match stored {
        Stored::Bf16 => ("bfloat16", 1),
        Stored::F32 => ("float32", 2),
        Stored::F16 => {
            let what = "a shape is written as bf16 or f32: f16 would change its numbers";
            return Err(ModelError::Option(what.to_owned()));
        }
    };
    let size = |(_, shape): &Tensor| (shape.iter().product::<usize>() * BYTES * wide) as u64;
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| ModelError::io(&path, source)
    };
    fs::create_dir_all(parent).map_err(at(parent))?;
    let folder = tempfile::Builder::new().prefix(".capjudge-shape-").tempdir_in(parent).map_err(at(parent))?;
    shape.write_settings(folder.path(), name)?;
    let shards = shards(shape.inventory()?.into_iter().collect(), size);
    let mut places = Map::new();
    for (index, tensors) in shards.iter().enumerate() {
        let name = match shards.len() {
            1 => "model.safetensors".to_owned(),
            count => format!("model-{:05}-of-{count:05}.safetensors", index + 1),
        };
        let path = folder.path().join(&name);
        let file = Shard { seed, wide: wide > 1, path: &path, tensors, size: &size };
        if file.write(on)?.is_break() {
            return Ok(None);
        }
        places.extend(tensors.iter().map(|(tensor, _)| (tensor.clone(), json!(name))));
    }
    let bytes = shards.iter().flatten().map(size).sum();
    if shards.len() > 1 {
        let index = json!({"metadata": {"total_size": bytes}, "weight_map": places});
        let path = folder.path().join("model.safetensors.index.json");
        fs::write(&path, format!("{index:#}\n")).map_err(at(&path))?;
    }
    fs::rename(folder.path(), out).map_err(at(out))?;
    // It has another name now, so there is nothing to take away.
    let _ = folder.keep();
    Ok(Some(Written { parameters: bytes / (BYTES * wide) as u64, bytes, shards: shards.len() }))
}

/// The tensors in files, none larger than [`SHARD`] if it has more than one.
fn shards(tensors: Vec<Tensor>, size: impl Fn(&Tensor) -> u64) -> Vec<Vec<Tensor>> {
    let mut shards: Vec<Vec<Tensor>> = vec![Vec::new()];
    let mut bytes = 0;
    for tensor in tensors {
        let more = size(&tensor);
        if bytes > 0 && bytes + more > SHARD {
            shards.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        if let Some(last) = shards.last_mut() {
            last.push(tensor);
        }
    }
    shards
}

struct Shard<'a> {
    seed: u64,
    /// As f32 instead of bf16.
    wide: bool,
    path: &'a Path,
    tensors: &'a [Tensor],
    size: &'a dyn Fn(&Tensor) -> u64,
}

impl Shard<'_> {
    fn write(&self, on: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<ControlFlow<()>, ModelError> {
        let failed = |source| ModelError::io(self.path, source);
        let mut file = BufWriter::new(File::create(self.path).map_err(failed)?);
        let header = self.header();
        file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
        file.write_all(header.as_bytes()).map_err(failed)?;
        let mut bytes = vec![0; PIECE * BYTES];
        for (name, shape) in self.tensors {
            let numbers = Numbers::new(self.seed, name, Spread::of(name, shape));
            let count: usize = shape.iter().product();
            for first in (0..count).step_by(PIECE) {
                let piece = &mut bytes[..PIECE.min(count - first) * BYTES];
                numbers.fill(first, piece);
                match self.wide {
                    true => {
                        let floats =
                            piece.chunks_exact(BYTES).map(|two| bf16::from_le_bytes([two[0], two[1]]).to_f32());
                        file.write_all(&floats.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()).map_err(failed)?;
                    }
                    false => file.write_all(piece).map_err(failed)?,
                }
                if on((piece.len() * if self.wide { 2 } else { 1 }) as u64).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Names, types, shapes and places, filled up with spaces so that the numbers begin at a multiple of 8.
    fn header(&self) -> String {
        let mut header = Map::from_iter([("__metadata__".to_owned(), json!({"format": "pt"}))]);
        let mut at = 0;
        for tensor @ (name, shape) in self.tensors {
            let end = at + (self.size)(tensor);
            let dtype = if self.wide { "F32" } else { "BF16" };
            header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}));
            at = end;
        }
        let text = Value::Object(header).to_string();
        let length = text.len().next_multiple_of(8);
        format!("{text:<length$}")
    }
}
