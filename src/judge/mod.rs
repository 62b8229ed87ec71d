//! Who answers: anything that turns a prompt into a stream of text.
//!
//! Invariant: a judge decides nothing about numbers. It gives text and says how the text ended; reading it is
//! `answer/`'s work, the same for every judge.

mod scripted;

pub use scripted::ScriptedJudge;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::answer::Finish;
use crate::prompt::Prompt;

/// What a judge is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The record's id.
    pub id: &'a str,
    /// The task's name.
    pub task: &'a str,
    /// The prompt.
    pub prompt: &'a Prompt<'a>,
}

/// Which judge it is, for a run's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name, as the user gave it.
    pub name: String,
    /// SHA-256 over what decides its answers.
    pub sha256: String,
}

/// Answers questions.
pub trait Judge {
    /// Which judge it is.
    fn identity(&self) -> Identity;

    /// Whether it looks at frames; one that does not can do without the video.
    fn sees_frames(&self) -> bool;

    /// Answers one question. The text goes to `on_text` in pieces; `Break` means that no more of it is wanted.
    fn answer(
        &mut self,
        question: &Question<'_>,
        on_text: &mut dyn FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Finish, JudgeError>;
}

/// Why a judge cannot be had, or cannot answer.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// No such judge.
    #[error(
        "there is no judge `{0}`. This version has one: `scripted:FILE`, which replays the recorded answers of a JSON \
         Lines file (docs/formats.md); judges that load a model are not built yet"
    )]
    Unknown(String),
    /// Its files cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Its files are not what they should be.
    #[error("{path}:{line}: {what}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// It has no answer to this question.
    #[error("{0}")]
    NoAnswer(String),
}

/// Opens the judge of that name.
pub fn open(name: &str) -> Result<Box<dyn Judge>, JudgeError> {
    match name.split_once(':') {
        Some(("scripted", file)) if !file.is_empty() => Ok(Box::new(ScriptedJudge::open(name, Path::new(file))?)),
        _ => Err(JudgeError::Unknown(name.to_owned())),
    }
}
