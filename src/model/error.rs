//! What can be wrong with a model's files.
//!
//! Invariant: every error names the file, and where there is one the tensor or the key, and says what to do.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a model cannot be used.
#[derive(Debug, Error)]
pub enum ModelError {
    /// There is no such model.
    #[error("{0}")]
    NotFound(String),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: {what}")]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what to do.
        what: String,
    },
    /// A file is fine, but this version cannot use it.
    #[error("{path}: {what}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported, and what is.
        what: String,
    },
    /// A flag asks for something that this model or machine does not have.
    #[error("{0}")]
    Option(String),
    /// The tensor library failed: a mistake of this program.
    #[error("internal error in the model: {0}")]
    Tensor(#[from] candle_core::Error),
}

impl ModelError {
    /// A file that is not what it should be.
    pub fn bad(path: &Path, what: impl Into<String>) -> Self {
        Self::Bad { path: path.to_owned(), what: what.into() }
    }

    /// A file that this version cannot use.
    pub fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }

    /// What is wrong, without the file: for verdicts, whose bytes do not depend on where a model lies.
    pub fn without_path(&self) -> String {
        match self {
            Self::Bad { what, .. } | Self::Unsupported { what, .. } => what.clone(),
            Self::Io { source, .. } => source.to_string(),
            Self::NotFound(_) | Self::Option(_) | Self::Tensor(_) => self.to_string(),
        }
    }

    /// A file that cannot be read.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
