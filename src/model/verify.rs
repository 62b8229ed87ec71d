//! Whether a model's files are what they were, and what is known of the model.
//!
//! Invariant: every difference is named, file by file. A model with a problem is never locked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use super::ModelError;
use super::files::{Hashed, LEADS_NOWHERE, SETTINGS, deciding, hash, leads_nowhere};
use super::locate::Located;
use super::lock::{Lock, LockedFile};
use super::manifest::Manifest;

/// A difference between a model's files and what they should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, where there is one.
    pub file: Option<String>,
    /// What kind of a difference it is.
    pub kind: Kind,
    /// What is wrong, and what to do.
    pub what: String,
}

/// Kinds of differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file that should be there is not.
    Missing,
    /// A file that decides answers was not there when the model was locked.
    Extra,
    /// A file has other bytes.
    Changed,
    /// A file is there, but another one is read in its place.
    Unread,
    /// A file cannot be what it says it is.
    Damaged,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The files that decide answers; none if they could not be told, which is a problem.
    pub files: Vec<Hashed>,
    /// All differences.
    pub problems: Vec<Problem>,
}

/// Reads all files of a model and compares them with its manifest and its lock, where there are such. `on_bytes` is
/// told how many bytes were read.
pub fn verify(
    model: &Located,
    manifest: Option<&Manifest>,
    lock: Option<&Lock>,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<Verified, ModelError> {
    let mut problems = Vec::new();
    // A GGUF file is a model of its own: a manifest's files are not its, and it may have been renamed since it was locked.
    let (manifest, lock) = match model {
        Located::Gguf(path) => (None, lock.map(|lock| renamed(lock, path))),
        Located::Folder(folder) => {
            let lock = lock.map(|lock| lock.files.clone());
            problems.extend(broken_links(folder)?);
            problems.extend(missing(folder, manifest, lock.as_deref()));
            (manifest, lock)
        }
    };
    let files = match deciding(model) {
        Ok(files) => hash(&files, on_bytes)?,
        Err(error) => {
            problems.extend(damaged(&error, &problems));
            Vec::new()
        }
    };
    if !files.is_empty() {
        problems.extend(lock.iter().flat_map(|lock| compare(&files, lock)));
        problems.extend(manifest.iter().flat_map(|manifest| disowned(&files, manifest)));
    }
    Ok(Verified { files, problems })
}

/// The files of a lock; a lone one under the name that it has now.
fn renamed(lock: &Lock, path: &Path) -> Vec<LockedFile> {
    match (lock.files.as_slice(), path.file_name().and_then(|name| name.to_str())) {
        ([file], Some(name)) => vec![LockedFile { name: name.to_owned(), ..file.clone() }],
        (files, _) => files.to_vec(),
    }
}

/// Links of a folder that should be settings or weights and lead nowhere.
fn broken_links(folder: &Path) -> Result<Vec<Problem>, ModelError> {
    let io = |source| ModelError::io(folder, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let wanted = SETTINGS.contains(&name) || name.ends_with(".safetensors") || name.ends_with(".index.json");
        if wanted && leads_nowhere(&path) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| Problem::of(name, Kind::Missing, LEADS_NOWHERE)).collect())
}

/// Files that the manifest or the lock asks for and that are not there at all.
fn missing(folder: &Path, manifest: Option<&Manifest>, lock: Option<&[LockedFile]>) -> Vec<Problem> {
    let known = manifest.iter().flat_map(|manifest| &manifest.files).map(|name| (name, "manifest"));
    let locked = lock.iter().flat_map(|lock| lock.iter()).map(|file| (&file.name, "lock"));
    let wanted: BTreeMap<&String, &str> = known.chain(locked).collect();
    let gone = wanted.into_iter().filter(|(name, _)| fs::symlink_metadata(folder.join(name)).is_err());
    gone.map(|(name, by)| {
        let what = format!("is not there, and the {by} has it; copy it over from where the model came from");
        Problem::of(name.clone(), Kind::Missing, what)
    })
    .collect()
}

/// Why the files of a model could not be told, unless that is known already.
fn damaged(error: &ModelError, known: &[Problem]) -> Option<Problem> {
    let file = match error {
        ModelError::Bad { path, .. } | ModelError::Unsupported { path, .. } | ModelError::Io { path, .. } => {
            path.file_name().map(|name| name.to_string_lossy().into_owned())
        }
        _ => None,
    };
    let told = known.iter().any(|problem| problem.file == file && file.is_some());
    (!told).then(|| Problem { file, kind: Kind::Damaged, what: error.without_path() })
}

/// What changed since the model was locked.
fn compare(files: &[Hashed], lock: &[LockedFile]) -> Vec<Problem> {
    let now: BTreeMap<&str, &Hashed> = files.iter().filter_map(|file| Some((file.name()?, file))).collect();
    let mut problems = Vec::new();
    for LockedFile { name, size, sha256 } in lock {
        match now.get(name.as_str()) {
            Some(file) if file.sha256 == *sha256 => {}
            Some(file) => {
                let found = format!("it has {} bytes and the SHA-256 {}", file.size, file.sha256);
                let what = format!("{found}; the lock says {size} bytes and {sha256}");
                let remedy = "copy it again, or delete the lock if the new file is meant";
                problems.push(Problem::of(name.clone(), Kind::Changed, format!("{what}; {remedy}")));
            }
            None if files.iter().any(|file| file.path.with_file_name(name).exists()) => {
                let what =
                    "is there, but no longer read: another file takes its place; remove the one that is not meant";
                problems.push(Problem::of(name.clone(), Kind::Unread, what));
            }
            // Told already.
            None => {}
        }
    }
    for name in now.keys().filter(|name| !lock.iter().any(|file| file.name == **name)) {
        let what = "was not there when the model was locked, and decides its answers; remove it, or delete the lock";
        problems.push(Problem::of((*name).to_owned(), Kind::Extra, what));
    }
    problems
}

/// Files whose hash is not the one that the manifest vouches for.
fn disowned(files: &[Hashed], manifest: &Manifest) -> Vec<Problem> {
    let wrong = files.iter().filter_map(|file| {
        let name = file.name()?;
        let wanted = manifest.sha256.get(name).filter(|wanted| **wanted != file.sha256)?;
        let what = format!("has the SHA-256 {}; the manifest says {wanted}; copy it again", file.sha256);
        Some(Problem::of(name.to_owned(), Kind::Changed, what))
    });
    wrong.collect()
}

impl Problem {
    fn of(file: String, kind: Kind, what: impl Into<String>) -> Self {
        Self { file: Some(file), kind, what: what.into() }
    }
}
