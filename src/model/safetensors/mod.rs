//! The weights of a Hugging Face folder: one safetensors file, or the shards that its index names, mapped.
//!
//! Invariant: an open folder has been checked whole. Each name is one tensor, whose bytes lie inside its file and fit
//! its type and shape; whatever the index promises is there; no name in the index leads out of the folder.

mod index;
mod shard;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use self::index::Index;
use super::{Bytes, ModelError};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A tensor as it lies in its file.
#[derive(Debug, Clone)]
pub struct SafeTensor {
    /// The type of its numbers.
    pub dtype: Dtype,
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its data: exactly as many bytes as type and shape need.
    pub bytes: Bytes,
    /// The file that it is in.
    pub file: PathBuf,
}

/// The open safetensors files of a folder.
#[derive(Debug, Clone)]
pub struct SafetensorsFolder {
    folder: PathBuf,
    tensors: BTreeMap<String, SafeTensor>,
}

impl SafetensorsFolder {
    /// Maps the files of a folder and checks their headers. `model.safetensors` comes first, as it does for
    /// `transformers`; then the shards of `model.safetensors.index.json`; then the only `.safetensors` file there is.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        if !folder.is_dir() {
            let what = format!("{}: there is no such folder; name a folder with a model", folder.display());
            return Err(ModelError::NotFound(what));
        }
        let mut opened = Self { folder: folder.to_owned(), tensors: BTreeMap::new() };
        // A link that leads nowhere is still meant to be the model: let opening it say so.
        let single = folder.join(SINGLE);
        let index = folder.join(INDEX);
        if single.is_symlink() || single.exists() {
            opened.add(&single)?;
        } else if index.is_symlink() || index.exists() {
            opened.add_shards(&Index::read(&index)?)?;
        } else {
            opened.add(&only_file(folder)?)?;
        }
        Ok(opened)
    }

    /// Where the folder is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// A tensor by its name.
    pub fn tensor(&self, name: &str) -> Option<&SafeTensor> {
        self.tensors.get(name)
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The files that hold the tensors.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        self.tensors.values().map(|tensor| tensor.file.clone()).collect()
    }

    fn add(&mut self, file: &Path) -> Result<(), ModelError> {
        for (name, tensor) in shard::read(file)? {
            match self.tensors.entry(name) {
                Entry::Vacant(entry) => entry.insert(tensor),
                Entry::Occupied(entry) => {
                    let (name, first) = (entry.key().escape_debug(), entry.get().file.display());
                    let what = format!("tensor `{name}` is in {first} too; keep the shards of one model in the folder");
                    return Err(ModelError::bad(file, what));
                }
            };
        }
        Ok(())
    }

    fn add_shards(&mut self, index: &Index) -> Result<(), ModelError> {
        for shard in index.shards() {
            let file = self.folder.join(shard);
            if !file.exists() {
                let what = format!("names the shard `{shard}`, which is not in the folder; copy it there");
                return Err(ModelError::bad(index.path(), what));
            }
            self.add(&file)?;
        }
        for (name, shard) in index.tensors() {
            let found = self.tensors.get(name).map(|tensor| tensor.file == self.folder.join(shard));
            if found != Some(true) {
                let what = format!("says that tensor `{}` is in `{shard}`, but it is not", name.escape_debug());
                let remedy = "copy index and shards of one download";
                return Err(ModelError::bad(index.path(), format!("{what}; {remedy}")));
            }
        }
        Ok(())
    }
}

/// The only safetensors file of a folder that follows no convention.
fn only_file(folder: &Path) -> Result<PathBuf, ModelError> {
    let mut files = Vec::new();
    let mut pickled = false;
    for entry in fs::read_dir(folder).map_err(|source| ModelError::io(folder, source))? {
        let path = entry.map_err(|source| ModelError::io(folder, source))?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("safetensors") => files.push(path),
            Some("bin" | "pt" | "pth") => pickled = true,
            _ => {}
        }
    }
    files.sort();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        [] => {
            let remedy = match pickled {
                true => "pickled weights can run code and are not read: convert them to safetensors",
                false => "copy the model's weights there",
            };
            let what = format!("{}: there is no .safetensors file in the folder; {remedy}", folder.display());
            Err(ModelError::NotFound(what))
        }
        several => {
            let count = several.len();
            let what = format!("has {count} .safetensors files, but neither {SINGLE} nor {INDEX}; copy the index too");
            Err(ModelError::bad(folder, what))
        }
    }
}
