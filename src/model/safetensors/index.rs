//! Reads `model.safetensors.index.json`: which tensor is in which shard.
//!
//! Invariant: every shard is the plain name of a `.safetensors` file, so that it lies in the index's own folder.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::model::ModelError;

/// The largest index that is read. Those of the largest models have about 10 MB.
const LARGEST: u64 = 64 << 20;

/// Which tensor is in which shard.
pub(super) struct Index {
    path: PathBuf,
    tensors: Vec<(String, String)>,
}

impl Index {
    pub(super) fn read(path: &Path) -> Result<Self, ModelError> {
        let error = |source| ModelError::io(path, source);
        if !path.metadata().map_err(error)?.is_file() {
            return Err(ModelError::bad(path, "is not a regular file; copy the index of the model there"));
        }
        let mut text = Vec::new();
        File::open(path).map_err(error)?.take(LARGEST + 1).read_to_end(&mut text).map_err(error)?;
        if text.len() as u64 > LARGEST {
            return Err(ModelError::unsupported(
                path,
                format!("is larger than {LARGEST} bytes, the most for an index"),
            ));
        }
        let Content { weight_map: WeightMap(tensors) } = serde_json::from_slice(&text).map_err(|error| {
            ModelError::bad(path, format!("is not an index of safetensors ({error}); copy or download it again"))
        })?;
        if tensors.is_empty() {
            return Err(ModelError::bad(path, "names no tensor in `weight_map`; copy or download it again"));
        }
        for (name, shard) in &tensors {
            if !is_plain(shard) {
                let (name, shard) = (name.escape_debug(), shard.escape_debug());
                let what = format!("puts tensor `{name}` into `{shard}`, which is not the name of a .safetensors file");
                return Err(ModelError::bad(path, format!("{what} in this folder; download the index again")));
            }
        }
        Ok(Self { path: path.to_owned(), tensors })
    }

    /// Where the index is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Each shard once, in alphabetical order.
    pub(super) fn shards(&self) -> BTreeSet<&str> {
        self.tensors.iter().map(|(_, shard)| shard.as_str()).collect()
    }

    /// Each tensor with its shard.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tensors.iter().map(|(name, shard)| (name.as_str(), shard.as_str()))
    }
}

/// Whether a shard's name is a file name and nothing else, on every system.
fn is_plain(shard: &str) -> bool {
    shard.len() > ".safetensors".len()
        && shard.ends_with(".safetensors")
        && !shard.contains(['/', '\\', ':'])
        && !shard.contains("..")
        && !shard.chars().any(char::is_control)
}

#[derive(serde::Deserialize)]
struct Content {
    weight_map: WeightMap,
}

/// The pairs of the map, of which none has the name of another.
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map from tensors to shards")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<WeightMap, A::Error> {
        let mut pairs = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some((name, shard)) = access.next_entry::<String, String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!("tensor `{}` is there twice", name.escape_debug())));
            }
            pairs.push((name, shard));
        }
        Ok(WeightMap(pairs))
    }
}
