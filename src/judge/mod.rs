//! Who answers: anything that turns a prompt into a stream of text.
//!
//! Invariant: a judge decides nothing about numbers. It gives text and says how the text ended; reading it is
//! `answer/`'s work, the same for every judge.

mod guides;
mod model;
mod scale;
mod scripted;
mod sights;

pub use guides::Guides;
pub use model::ModelJudge;
pub use scripted::ScriptedJudge;
pub use sights::SIGHT_BYTES;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::answer::Finish;
use crate::engine::{EngineError, Sampling, TREE_BYTES, Weighed};
use crate::media::Frames;
use crate::model::{LoadOptions, ModelError};
use crate::prompt::Prompt;
use crate::task::Task;

/// What a judge is asked.
#[derive(Debug, Clone)]
pub struct Question<'t> {
    /// Tells it from the others that are being answered.
    pub number: u64,
    /// The record's id.
    pub id: String,
    /// The task.
    pub task: &'t Task,
    /// Which attempt at the record this is.
    pub attempt: u32,
    /// The prompt.
    pub prompt: Prompt<'t>,
    /// How many events the record has.
    pub events: usize,
    /// How many of them were inserted: 1 or 0.
    pub inserted: usize,
    /// The frames of the video, where the task shows any and the judge looks at them.
    pub frames: Option<Sight>,
}

/// The frames that a judge is shown.
#[derive(Debug, Clone)]
pub struct Sight {
    /// The frames.
    pub frames: Arc<Frames>,
    /// SHA-256 over their pixels.
    pub sha256: String,
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
    /// How likely each score was, at every place of the answer where one was written; empty if nobody knows.
    pub scores: Vec<Weighed>,
    /// What it took; `None` if nothing was computed.
    pub effort: Option<Effort>,
}

/// What an answer took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that another answer had read already.
    pub reused_tokens: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Time to look at the frames; 0 where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vision_seconds: f64,
    /// Of that, time to bring their pixels to the model's size and scale.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pixels_seconds: f64,
    /// Time to read the prompt; of steps that other answers had a part in, its share by rows.
    pub prompt_seconds: f64,
    /// Time to write the answer, counted in the same way.
    pub answer_seconds: f64,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Who asks many questions: hands them out one after another, hears the answers, and takes note of their ends.
pub trait Desk<'t> {
    /// The next question; `None` if there is none left. Each has a number of its own.
    fn next(&mut self) -> Option<Question<'t>>;

    /// Hears what a judge does about the question of that number; `Break` means that no more of it is wanted.
    fn hear(&mut self, number: u64, said: Said<'_>) -> ControlFlow<()>;

    /// The answer to the question of that number ended, or there is none.
    fn end(&mut self, number: u64, answered: Result<Answered, JudgeError>);
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

    /// Sets how many questions are answered at once, where that can be chosen.
    fn set_batch(&mut self, batch: usize) {
        let _ = batch;
    }

    /// Answers one question. What it says goes to `on`; `Break` means that no more of it is wanted.
    fn answer(
        &mut self,
        question: &Question<'_>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Answered, JudgeError>;

    /// Answers all questions of a desk, several at once if the judge can. An error is one that ends all of them; what
    /// concerns one question goes to [`Desk::end`].
    fn answer_all<'t>(&mut self, desk: &mut dyn Desk<'t>) -> Result<(), JudgeError> {
        while let Some(question) = desk.next() {
            let number = question.number;
            match self.answer(&question, &mut |said| desk.hear(number, said)) {
                Err(error @ JudgeError::NoAnswer(_)) => desk.end(number, Err(error)),
                answered => desk.end(number, Ok(answered?)),
            }
        }
        Ok(())
    }
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
    /// Whether answers are kept to the task's format; as the model's size suggests if `None`.
    pub guided: Option<bool>,
    /// How many questions are answered at once.
    pub batch: usize,
    /// Whether tokens are guessed from the prompt, and checked several at a time.
    pub speculate: bool,
    /// Whether what prompts have in common is read once.
    pub reuse: bool,
    /// The memory for what was read and seen of videos; what does not fit is read again.
    pub kept_bytes: u64,
}

/// The longest answer, unless the user says otherwise: a long list of events takes about half of it.
pub const MAX_TOKENS: usize = 2048;

/// The most questions that are answered at once.
pub const MOST_AT_ONCE: usize = 1024;

/// How many questions are answered at once, unless the user says otherwise.
pub const BATCH: usize = 8;

impl Default for Settings {
    fn default() -> Self {
        Self {
            load: LoadOptions::default(),
            sampling: Sampling::default(),
            max_tokens: MAX_TOKENS,
            guided: None,
            batch: BATCH,
            speculate: true,
            reuse: true,
            kept_bytes: TREE_BYTES,
        }
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
