//! Public data sets and their result files become records.
//!
//! Invariant: what cannot be imported is said, never dropped in silence, and a caption that a system failed to produce
//! stays a failure: it becomes a record without a caption, which no judge can find perfect. No field of the data
//! set becomes the caption under judgement, unless the user asks for the references.

mod anycapeval;
mod dream1k;
mod join;
mod noah;
mod source;

pub use anycapeval::anycapeval;
pub use dream1k::{Captions, dream1k};
pub use noah::noah;

use std::path::PathBuf;

use thiserror::Error;

use super::Record;

/// What an import gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    /// The records, in the order of the data set.
    pub records: Vec<Record>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What to do with items of the data set that the system has no caption for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Leave them out, and say so.
    Skip,
    /// Make records without a caption of them: they come out unscored, and the coverage shows it.
    Keep,
}

/// How records are made of an import's items.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The system whose captions they are.
    pub system: &'a str,
    /// Stands before every id, so that files of several systems can be joined.
    pub id_prefix: &'a str,
    /// What to do without a caption.
    pub missing: Missing,
}

/// Why an import is not possible.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An item of a file is not what it should be.
    #[error("{path}, item {item}: {what}")]
    Item {
        /// The file.
        path: PathBuf,
        /// The item, counted from 1.
        item: usize,
        /// What is wrong.
        what: String,
    },
    /// A file is not text.
    #[error("{path}:{line}: not UTF-8; save the file as UTF-8")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// Nothing fits.
    #[error("{0}")]
    Nothing(String),
}
