//! Finds a model by its name: the built-in one, a file, a folder, or a repository in the local Hugging Face cache.
//!
//! Invariant: nothing is downloaded, and no repository id or revision leads out of the cache. `pocket` is the built-in
//! model wherever one stands; else a path that exists wins over a repository of the same name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use hf_hub::{Cache, Repo, RepoType};

use super::{ModelError, pocket};

const WAYS: &str = "name a .gguf file, a folder with config.json, a repository as `org/name` or `org/name@revision`, or \
                    `pocket`, which is built in";

/// Where a model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// In one GGUF file.
    Gguf(PathBuf),
    /// In a folder with `config.json` and safetensors files.
    Folder(PathBuf),
}

/// Finds a model by a path, by a repository id in the cache that the environment names, or the built-in one.
pub fn locate(name: &str) -> Result<Located, ModelError> {
    if name == pocket::NAME {
        return pocket::folder().map(Located::Folder);
    }
    locate_in(name, cache().as_deref())
}

/// The folder of the Hugging Face cache that the environment names.
pub fn cache() -> Option<PathBuf> {
    cache_folder(|variable| std::env::var_os(variable), std::env::home_dir())
}

/// Finds a model by a path, or by a repository id in the given cache.
pub fn locate_in(name: &str, cache: Option<&Path>) -> Result<Located, ModelError> {
    let path = Path::new(name);
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => in_folder(path),
        Ok(_) if is_gguf(path) => Ok(Located::Gguf(path.to_owned())),
        Ok(_) => Err(ModelError::unsupported(path, format!("is neither a .gguf file nor a folder; {WAYS}"))),
        Err(source) if source.kind() == ErrorKind::PermissionDenied => Err(ModelError::io(path, source)),
        Err(_) => in_cache(name, cache),
    }
}

/// The folder of the Hugging Face cache: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in
/// `XDG_CACHE_HOME` or in `.cache` of the home folder, if there is one.
pub fn cache_folder(variable: impl Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let variable = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || home.filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(".cache"));
    variable("HF_HUB_CACHE")
        .or_else(|| Some(variable("HF_HOME")?.join("hub")))
        .or_else(|| Some(variable("XDG_CACHE_HOME").or_else(home)?.join("huggingface").join("hub")))
}

/// The model of a folder. GGUF repositories often carry the `config.json` of the model that they were made of, so it
/// counts only if there are safetensors beside it or no GGUF file.
fn in_folder(folder: &Path) -> Result<Located, ModelError> {
    let mut ggufs = Vec::new();
    let mut safetensors = false;
    for entry in fs::read_dir(folder).map_err(|source| ModelError::io(folder, source))? {
        let path = entry.map_err(|source| ModelError::io(folder, source))?.path();
        safetensors |= path.extension().is_some_and(|extension| extension == "safetensors");
        if is_gguf(&path) {
            ggufs.push(path);
        }
    }
    ggufs.sort();
    // A link that leads nowhere is still meant to be the model: let opening it say so.
    let config = folder.join("config.json");
    if (config.is_symlink() || config.exists()) && (safetensors || ggufs.is_empty()) {
        return Ok(Located::Folder(folder.to_owned()));
    }
    match ggufs.as_slice() {
        [file] => Ok(Located::Gguf(file.clone())),
        [] => Err(ModelError::NotFound(format!(
            "{}: there is neither config.json nor a .gguf file in the folder; {WAYS}",
            folder.display()
        ))),
        several => {
            let list = several.iter().map(|file| format!("\n  {}", file.display())).collect::<String>();
            let count = several.len();
            Err(ModelError::bad(folder, format!("has {count} .gguf files; name the one that is meant:{list}")))
        }
    }
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// The model of a repository, in the snapshot of its revision.
fn in_cache(name: &str, cache: Option<&Path>) -> Result<Located, ModelError> {
    let shown = name.escape_debug();
    let (id, revision) = name.split_once('@').unwrap_or((name, "main"));
    if !is_repository(id) || !is_revision(revision) {
        return Err(ModelError::NotFound(format!("{shown}: there is no such file or folder; {WAYS}")));
    }
    let Some(cache) = cache else {
        let what = "there is no such file or folder, and no home folder to look for the Hugging Face cache in";
        return Err(ModelError::NotFound(format!("{shown}: {what}; set HF_HOME")));
    };
    let repo = Repo::with_revision(id.to_owned(), RepoType::Model, revision.to_owned());
    let folder = cache.join(repo.folder_name());
    let snapshots = Cache::new(cache.to_owned()).repo(repo);
    if !folder.is_dir() {
        let what = format!("there is no such file or folder, and no {} in the Hugging Face cache", folder.display());
        let remedy = "copy that folder over from a machine that has it, or set HF_HOME; nothing is downloaded here";
        return Err(ModelError::NotFound(format!("{shown}: {what}; {remedy}")));
    }
    let reference = folder.join("refs").join(revision);
    let commit = match reference.is_file() {
        true => commit_of(&reference)?,
        false => revision.to_owned(),
    };
    let snapshot = snapshots.pointer_path(&commit);
    if !is_commit(&commit) || !snapshot.is_dir() {
        let there = snapshot_names(&folder.join("snapshots"));
        let what = format!("the Hugging Face cache has no snapshot of revision `{}`", revision.escape_debug());
        let remedy = match there.as_slice() {
            [] => "copy the whole folder over from a machine that has it; nothing is downloaded here".to_owned(),
            there => format!("copy it over, or add @ and one that is there: {}", there.join(", ")),
        };
        return Err(ModelError::NotFound(format!("{shown}: {what} in {}; {remedy}", folder.display())));
    }
    in_folder(&snapshot)
}

/// The commit that a reference names. Files that were written by hand end with a line end.
fn commit_of(reference: &Path) -> Result<String, ModelError> {
    let mut text = Vec::new();
    File::open(reference)
        .and_then(|file| file.take(256).read_to_end(&mut text))
        .map_err(|source| ModelError::io(reference, source))?;
    let commit = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    if !is_commit(&commit) {
        let what = format!("holds `{}`, not the hash of a commit; copy the cache folder again", commit.escape_debug());
        return Err(ModelError::bad(reference, what));
    }
    Ok(commit)
}

/// The commits whose snapshots are there, for messages: the first few.
fn snapshot_names(snapshots: &Path) -> Vec<String> {
    let entries = fs::read_dir(snapshots).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| is_commit(name));
    names.sort();
    names.truncate(5);
    names
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The hub's own rules: two parts of letters, digits, `-`, `_` and `.`, without `--` and `..`.
pub(super) fn is_repository(id: &str) -> bool {
    id.len() <= 96 && !id.contains("--") && id.split('/').count() == 2 && id.split('/').all(is_part)
}

/// A branch, a tag or a commit.
fn is_revision(revision: &str) -> bool {
    revision.len() <= 255 && revision.split('/').all(is_part)
}

fn is_part(part: &str) -> bool {
    !part.contains("..")
        && !part.is_empty()
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !part.starts_with(['-', '.'])
        && !part.ends_with(['-', '.'])
}
