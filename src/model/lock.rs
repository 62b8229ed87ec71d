//! Lock files: which bytes a model consisted of when somebody looked.
//!
//! Invariant: a lock that is read is whole. Its version is known, its files are plain names in order, each once, and its
//! digest is that of its own list, so that a lock that was edited or cut off is refused and never half believed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ModelError;
use super::files::{Hash, Hashed, is_plain, whole};
use super::locate::Located;
use super::read::read_file;

/// What a lock file is called, and how one beside a GGUF file ends.
pub const NAME: &str = "capjudge.lock";

const VERSION: u64 = 1;

/// The largest lock that is read. A model has a few hundred files at most.
const LARGEST: u64 = 16 << 20;

/// What a model consisted of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u64,
    /// The digest of all files: `judge_sha256` in the `run.json` of a judge with its own chat template.
    pub sha256: Hash,
    /// The files, sorted by name.
    pub files: Vec<LockedFile>,
}

/// A file of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFile {
    /// Its name in the model's folder.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Their hash.
    pub sha256: Hash,
}

impl Lock {
    /// A lock of files of one folder, sorted.
    pub fn new(files: &[Hashed]) -> Result<Self, ModelError> {
        let locked = files.iter().map(|file| {
            let name = file.name().filter(|name| is_plain(name));
            let name =
                name.ok_or_else(|| ModelError::bad(&file.path, "cannot be locked under this name; rename it"))?;
            Ok(LockedFile { name: name.to_owned(), size: file.size, sha256: file.sha256 })
        });
        let files = locked.collect::<Result<Vec<_>, ModelError>>()?;
        Ok(Self { version: VERSION, sha256: digest(&files), files })
    }

    /// Reads a lock; `None` if nothing has this name.
    pub fn read(path: &Path) -> Result<Option<Self>, ModelError> {
        let Some(bytes) = read_file(path, LARGEST)? else { return Ok(None) };
        let refused = |what: String| {
            let remedy = "delete it to lock the model anew, or name another with --lock";
            ModelError::bad(path, format!("is not a lock of capjudge: {what}; {remedy}"))
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| refused(format!("not JSON ({error})")))?;
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(other) => {
                let what = format!("is of version {other}, and this program knows {VERSION}; use a newer one");
                return Err(ModelError::unsupported(path, what));
            }
            None => return Err(refused("it has no version".to_owned())),
        }
        let lock: Self = serde_json::from_value(value).map_err(|error| refused(error.to_string()))?;
        lock.check().map_err(refused)?;
        Ok(Some(lock))
    }

    fn check(&self) -> Result<(), String> {
        if let Some(file) = self.files.iter().find(|file| !is_plain(&file.name)) {
            return Err(format!("`{}` is not the name of a file in the model's folder", file.name.escape_debug()));
        }
        if self.files.is_empty() || !self.files.is_sorted_by(|one, next| one.name < next.name) {
            return Err("its files are not sorted by name, each once".to_owned());
        }
        if digest(&self.files) != self.sha256 {
            return Err("its digest is not that of its files, so it was changed".to_owned());
        }
        Ok(())
    }

    /// The text of the file.
    pub fn to_text(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Where the lock of a model is, unless the user says otherwise: beside its files.
pub fn place(model: &Located) -> PathBuf {
    match model {
        Located::Folder(folder) => folder.join(NAME),
        Located::Gguf(path) => {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{NAME}"));
            path.with_file_name(name)
        }
    }
}

fn digest(files: &[LockedFile]) -> Hash {
    whole(files.iter().map(|file| (OsStr::new(&file.name), file.sha256))).into()
}
