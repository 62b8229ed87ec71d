//! The files that decide what a model answers, and their hashes.
//!
//! Invariant: loading, locking and verifying mean the same files and the same digest, so that what was verified is what
//! runs. A file counts as absent only if nothing is there at all: a link that leads nowhere is an error.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::{fmt, iter, thread};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ModelError;
use super::gguf::GgufFile;
use super::locate::Located;
use super::safetensors::SafetensorsFolder;

/// The files beside the weights that are read, where they are there.
pub const SETTINGS: [&str; 10] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
];

/// Files that are hashed at a time; more only make a disk jump.
const AT_A_TIME: usize = 4;

/// The settings that a folder has.
pub fn settings(folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let mut there = Vec::new();
    for path in SETTINGS.iter().map(|name| folder.join(name)) {
        if leads_nowhere(&path) {
            return Err(ModelError::bad(&path, LEADS_NOWHERE));
        }
        if path.exists() {
            there.push(path);
        }
    }
    Ok(there)
}

/// The files of a model that decide its answers, sorted. Headers of weights are checked on the way.
pub fn deciding(model: &Located) -> Result<Vec<PathBuf>, ModelError> {
    match model {
        Located::Gguf(path) => Ok(vec![GgufFile::open(path)?.path().to_owned()]),
        Located::Folder(folder) => {
            let weights = SafetensorsFolder::open(folder)?;
            let mut files = settings(folder)?;
            files.extend(weights.files());
            files.sort();
            Ok(files)
        }
    }
}

/// What is wrong with a link that leads nowhere. The snapshots of a Hugging Face cache are links into its blobs.
pub(super) const LEADS_NOWHERE: &str =
    "is a link to a file that is missing; copy the cache folder whole, with its blobs";

/// Whether a name is there and the file is not.
pub(super) fn leads_nowhere(path: &Path) -> bool {
    path.is_symlink() && !path.exists()
}

/// Whether a name is a file name and nothing else, on every system.
pub(super) fn is_plain(name: &str) -> bool {
    let path = name.is_empty() || name == "." || name.contains("..") || name.contains(['/', '\\', ':']);
    !path && !name.chars().any(char::is_control)
}

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash([u8; 32]);

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a SHA-256: 64 hexadecimal digits", text.escape_debug());
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

/// A file, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashed {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub size: u64,
    /// Their hash.
    pub sha256: Hash,
}

impl Hashed {
    /// Its name, if that is text.
    pub fn name(&self) -> Option<&str> {
        self.path.file_name()?.to_str()
    }
}

/// Reads and hashes files, several at a time; links are followed. `on_bytes` is told how many bytes were read.
pub fn hash(files: &[PathBuf], on_bytes: &mut dyn FnMut(u64)) -> Result<Vec<Hashed>, ModelError> {
    let queue = Mutex::new(files.iter().enumerate());
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let workers = thread::available_parallelism().map_or(1, usize::from).min(AT_A_TIME).min(files.len());
    let mut done: Vec<_> = thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let work = |sender: Sender<u64>| {
            let mut done = Vec::new();
            while let Some((index, path)) = take() {
                let hashed = hash_one(path, &sender);
                if hashed.is_err() {
                    // Nobody begins another file.
                    while take().is_some() {}
                }
                done.push((index, hashed));
            }
            done
        };
        let running: Vec<_> = iter::repeat_n(sender, workers).map(|sender| scope.spawn(move || work(sender))).collect();
        receiver.iter().for_each(on_bytes);
        running.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, hashed)| hashed).collect()
}

fn hash_one(path: &Path, on_bytes: &Sender<u64>) -> Result<Hashed, ModelError> {
    let failed = |error| ModelError::io(path, error);
    // A pipe or a device would be read without end.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(ModelError::bad(path, "is not a regular file; put a copy of the file in its place"));
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut size = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        hasher.update(&buffer[..count]);
        size += count as u64;
        // Who asked may have stopped listening; the hash is wanted all the same.
        let _ = on_bytes.send(count as u64);
    }
    Ok(Hashed { path: path.to_owned(), size, sha256: Hash(hasher.finalize().into()) })
}

/// One hasher over all files, in their order. A lone file may be renamed; files of a folder may not be swapped.
pub fn whole<'a>(files: impl ExactSizeIterator<Item = (&'a OsStr, Hash)>) -> Sha256 {
    let several = files.len() > 1;
    let mut whole = Sha256::new();
    for (name, Hash(hash)) in files {
        whole.update(if several { name.as_encoded_bytes() } else { b"" });
        whole.update([0]);
        whole.update(hash);
    }
    whole
}

impl From<Sha256> for Hash {
    fn from(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }
}
