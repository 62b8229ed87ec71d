//! Why there are no frames.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a video gives no frames. It crosses the border between two processes, so it is plain data.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum MediaError {
    /// The file is not there or cannot be read.
    #[error("{path}: {what}")]
    Io {
        /// The file.
        #[serde(with = "super::worker::path")]
        path: PathBuf,
        /// What the system said.
        what: String,
    },
    /// The file is no video that this decoder knows; another one may.
    #[error("{0}")]
    Unsupported(String),
    /// The file is broken where nothing can be had from it.
    #[error("{0}")]
    Damaged(String),
    /// The file asks for more than it may have. The text names the limit and its flag.
    #[error("{0}")]
    Limit(String),
    /// The decoder crashed, hung or ran out of its memory.
    #[error("{0}")]
    Crashed(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl MediaError {
    /// What the system said about a file.
    pub fn io(path: &Path, error: &io::Error) -> Self {
        MediaError::Io { path: path.to_owned(), what: error.to_string() }
    }
}
