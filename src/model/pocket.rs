//! The judge in the box: the files of `models/pocket`, compiled in, and unpacked to where models are read from.
//!
//! Invariant: what is read has the bytes that were compiled in, and nothing else is read. A file that is missing, cut off or
//! changed is written anew, and has its name only when it is whole.

use std::path::{Path, PathBuf};
use std::{fs, io};

use sha2::{Digest, Sha256};

use super::ModelError;
use super::files::{Hash, SETTINGS};
use crate::run::write_if_other;

/// What it is called wherever a model is named. A folder of that name is `./pocket`.
pub const NAME: &str = "pocket";

/// What is said wherever it answers.
pub const REMARK: &str = "pocket, the built-in judge, is a toy that knows coloured shapes and nothing else; for real captions \
                          name a real model, such as Qwen/Qwen3-VL-4B-Instruct (capjudge models list)";

/// What is known of it.
pub const MANIFEST: &str = include_str!("../../models/pocket.toml");
const FILES: [(&str, &[u8]); 7] = embed![
    "models/pocket":
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// The folder with its files, in the user's cache folder for capjudge.
pub fn folder() -> Result<PathBuf, ModelError> {
    let Some(cache) = dirs::cache_dir() else {
        return Err(ModelError::NotFound(format!("{NAME}: there is no cache folder to unpack it to; set HOME")));
    };
    // Another version of it has another folder; the manifest has the hashes of all files.
    let version = Hash::from(Sha256::new_with_prefix(MANIFEST)).to_string();
    let folder = cache.join("capjudge").join(format!("{NAME}-{}", &version[..12]));
    unpack(&folder).map_err(|error| {
        let remedy = "make that folder writable, or set XDG_CACHE_HOME (Linux) or HOME to one that is";
        ModelError::bad(&folder, format!("{NAME} cannot be unpacked here: {error}; {remedy}"))
    })?;
    Ok(folder)
}

fn unpack(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, bytes) in FILES {
        write_if_other(&folder.join(name), bytes)?;
    }
    // What is not its own but would be read all the same.
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let own = FILES.iter().any(|(file, _)| name == *file);
        let read = SETTINGS.iter().any(|file| name == *file)
            || [".safetensors", ".index.json", ".gguf"].iter().any(|end| name.to_string_lossy().ends_with(end));
        if read && !own {
            fs::remove_file(folder.join(name))?;
        }
    }
    Ok(())
}
