//! Who answers: anything that turns a prompt into a stream of text.
//!
//! Invariant: a judge decides nothing about numbers. It gives text and says how the text ended; reading it is
//! `answer/`'s work, the same for every judge.

mod model;
mod scripted;

pub use model::ModelJudge;
pub use scripted::ScriptedJudge;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::answer::Finish;
use crate::engine::{EngineError, Sampling};
use crate::media::Frames;
use crate::model::{LoadOptions, ModelError};
use crate::prompt::Prompt;
use crate::task::Task;

/// What a judge is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The record's id.
    pub id: &'a str,
    /// The task's name.
    pub task: &'a str,
    /// Which attempt at the record this is.
    pub attempt: u32,
    /// The prompt.
    pub prompt: &'a Prompt<'a>,
    /// The frames of the video, where the task shows any and the judge looks at them.
    pub frames: Option<&'a Frames>,
}

/// Which judge it is, for a run's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name, as the user gave it.
    pub name: String,
    /// SHA-256 over the files that decide its answers.
    pub sha256: String,
    /// What else decides them, by name: flags, and the kind of arithmetic.
    pub settings: BTreeMap<String, String>,
}

/// What a judge does while it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said<'a> {
    /// The video's frames are fetched for it.
    Looking,
    /// It reads the prompt: so many tokens of so many.
    Reading {
        /// Tokens read.
        done: usize,
        /// Tokens to read.
        of: usize,
    },
    /// The next piece of its answer, which may be empty.
    Text(&'a str),
}

/// How an answer ended, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// How it ended.
    pub finish: Finish,
    /// What it took; `None` if nothing was computed.
    pub effort: Option<Effort>,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that an earlier answer had read already.
    pub reused_tokens: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Time to look at the frames; 0 where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vision_seconds: f64,
    /// Of that, time to bring their pixels to the model's size and scale.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pixels_seconds: f64,
    /// Time to read the prompt.
    pub prompt_seconds: f64,
    /// Time to write the answer.
    pub answer_seconds: f64,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Answers questions.
pub trait Judge {
    /// Which judge it is.
    fn identity(&self) -> Identity;

    /// Whether it looks at frames; one that does not can do without the video.
    fn sees_frames(&self) -> bool;

    /// Why it cannot do a task, if it cannot.
    fn check(&self, task: &Task) -> Result<(), JudgeError> {
        let _ = task;
        Ok(())
    }

    /// Answers one question. What it says goes to `on`; `Break` means that no more of it is wanted.
    fn answer(
        &mut self,
        question: &Question<'_>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Answered, JudgeError>;
}

/// How a judge that is a model answers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the model is loaded.
    pub load: LoadOptions,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// The longest answer; a longer one is cut off and not scored.
    pub max_tokens: usize,
    /// Whether what prompts have in common is read once.
    pub reuse: bool,
}

/// The longest answer, unless the user says otherwise: a long list of events takes about half of it.
pub const MAX_TOKENS: usize = 2048;

impl Default for Settings {
    fn default() -> Self {
        Self { load: LoadOptions::default(), sampling: Sampling::default(), max_tokens: MAX_TOKENS, reuse: true }
    }
}

/// Why a judge cannot be had, or cannot answer.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// It cannot do the task.
    #[error("{0}")]
    Unfit(String),
    /// Its model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its model failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
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

/// The file of recorded answers that a judge's name stands for.
pub fn scripted(name: &str) -> Option<&Path> {
    name.strip_prefix("scripted:").filter(|file| !file.is_empty()).map(Path::new)
}

/// Opens the judge of that name: `scripted:FILE`, or a model. `on_bytes` is told how much of a model was hashed.
pub fn open(name: &str, settings: &Settings, on_bytes: &mut dyn FnMut(u64)) -> Result<Box<dyn Judge>, JudgeError> {
    match scripted(name) {
        Some(file) => Ok(Box::new(ScriptedJudge::open(name, file)?)),
        None => match ModelJudge::open(name, settings, on_bytes) {
            Err(JudgeError::Model(ModelError::NotFound(what))) => {
                let what = format!("{what}; scripted:FILE replays recorded answers");
                Err(ModelError::NotFound(what).into())
            }
            opened => Ok(Box::new(opened?)),
        },
    }
}
