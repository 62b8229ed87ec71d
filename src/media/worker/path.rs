//! Paths across the border of two processes: text where they are text, bytes where they are not.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    Bytes(Vec<u8>),
}

impl Wire {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Wire::Text(text.to_owned()),
            #[cfg(unix)]
            None => Wire::Bytes(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_owned()),
            #[cfg(not(unix))]
            None => Wire::Text(path.to_string_lossy().into_owned()),
        }
    }

    fn into(self) -> PathBuf {
        match self {
            Wire::Text(text) => text.into(),
            #[cfg(unix)]
            Wire::Bytes(bytes) => <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes).into(),
            #[cfg(not(unix))]
            Wire::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        }
    }
}

/// Writes a path.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    Wire::from(path).serialize(to)
}

/// Reads a path.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Wire::deserialize(from).map(Wire::into)
}

/// Lists of paths.
pub mod list {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, Serializer, Wire};

    /// Writes paths.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
        let wire: Vec<Wire> = paths.iter().map(|path| Wire::from(path)).collect();
        wire.serialize(to)
    }

    /// Reads paths.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Wire>::deserialize(from)?.into_iter().map(Wire::into).collect())
    }
}
