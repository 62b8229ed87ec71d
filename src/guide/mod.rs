//! Guided answers: the task's answer format as a grammar, and what keeps one answer to it.
//!
//! ```text
//!  Task ── counts, score ──▶ Lark text ──▶ Grammar ── Bounds of a record ──▶ Follower (a Guide)
//!          free, lark                      tokens                            closing, thought
//! ```
//!
//! Invariant: an answer that was guided to its end is read to its numbers, unless it quotes its input. What the judge
//! writes where the format leaves room is its own: a guide takes choices away, it never makes one.

mod closing;
mod counts;
mod follow;
mod free;
mod lark;
mod score;
mod thought;
mod tokens;
mod watch;

pub use counts::MOST_EVENTS;
pub use free::{LONGEST_ITEM, LONGEST_REASON, LONGEST_SCORE_REASON};

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use llguidance::{Matcher, ParserFactory};
use thiserror::Error;

use crate::answer::Format;
use crate::engine::Guide;
use crate::model::{ModelError, Tokenizer};
use crate::task::{AnswerSpec, Task};
use closing::Closing;
use counts::Limits;
use follow::Follower;
use tokens::Tokens;
use watch::Watch;

/// Tokens that free text mostly is made of: a grammar that allows all of a group is asked once for the group.
const SLICES: [&str; 2] = [r"[^ \x00-\x1f\x7f][^\x00-\x1f\x7f]{0,14}", r#"[^"\\\x00-\x1F\x7F]{1,30}"#];

/// How much of its tokens a thought may take.
const THOUGHT_SHARE: (usize, usize) = (3, 4);

/// Why there is no guide.
#[derive(Debug, Error)]
pub enum GrammarError {
    /// The task's layout cannot be guided.
    #[error("answers of this task cannot be guided: {0}")]
    Layout(String),
    /// The tokenizer cannot spell the format.
    #[error(transparent)]
    Tokenizer(#[from] ModelError),
    /// More tokens than a grammar can have.
    #[error("the model's vocabulary is too large for guided answers; use --free")]
    Vocabulary,
    /// The grammar engine refuses what was written for it.
    #[error("internal error in the grammar of an answer: {0}")]
    Engine(String),
}

/// What one question says about its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The record's ground-truth events; `None` if it has none to count.
    pub events: Option<u32>,
    /// How many of them are inserted ones; `None` if that is unknown.
    pub inserted: Option<u32>,
    /// The opening of a thought that the prompt ends with (`ModelPrompt::opens_thought`).
    pub thought: Option<String>,
    /// The most tokens that the answer may have.
    pub max_tokens: usize,
}

/// A task's answer format, for one model.
pub struct Grammar {
    answer: AnswerSpec,
    format: Format,
    shared: Arc<Shared>,
    factory: ParserFactory,
    /// Parsers that stand at the start of an answer, by what decides their grammar.
    ready: Mutex<HashMap<(Option<Limits>, bool), Matcher>>,
}

/// What all guides of a grammar use.
pub(crate) struct Shared {
    tokens: Arc<Tokens>,
    closing: Closing,
    /// What rules out lines of the list and lines with labels that would be misread.
    watches: Vec<Mutex<Watch>>,
    /// Which tokens are ordinary text, by token.
    ordinary: Vec<bool>,
    /// The ordinary tokens with a `>` in them, which might go beyond the end of a thought.
    tags: Vec<u32>,
}

impl Grammar {
    /// Prepares a task's answer format for a model.
    pub fn new(task: &Task, tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        let tokens = Arc::new(Tokens::new(tokenizer)?);
        let env: TokEnv = tokens.clone();
        let slices = SLICES.map(str::to_owned);
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices).map_err(internal)?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        let closing = Closing::new(&task.spec.answer, &tokens)?;
        let excluded = match &task.spec.answer {
            AnswerSpec::Counts(spec) => counts::excluded(spec, &task.format)?.into(),
            AnswerSpec::JsonScore(_) => Vec::new(),
        };
        let watches = excluded.iter().map(|excluded| Watch::new(excluded).map(Mutex::new).map_err(internal));
        let watches: Vec<Mutex<Watch>> = watches.collect::<Result<_, _>>()?;
        let all = 0..u32::try_from(tokenizer.vocab_size()).map_err(|_| GrammarError::Vocabulary)?;
        let ordinary: Vec<bool> = all.clone().map(|id| tokens.is_ordinary(id)).collect();
        let tags =
            all.filter(|id| ordinary[*id as usize] && tokenizer.bytes(*id).is_some_and(|bytes| bytes.contains(&b'>')));
        let shared = Arc::new(Shared { closing, watches, tags: tags.collect(), ordinary, tokens });
        let grammar = Self {
            answer: task.spec.answer.clone(),
            format: task.format.clone(),
            shared,
            factory,
            ready: Mutex::new(HashMap::new()),
        };
        // A task that cannot be guided is refused before any record is judged.
        grammar.matcher(&Bounds::default())?;
        Ok(grammar)
    }

    /// The guide of one answer.
    pub fn guide(&self, bounds: &Bounds) -> Result<Box<dyn Guide>, GrammarError> {
        let matcher = self.matcher(bounds)?;
        Ok(Box::new(Follower::new(matcher, Arc::clone(&self.shared), bounds)))
    }

    fn matcher(&self, bounds: &Bounds) -> Result<Matcher, GrammarError> {
        let limits = match &self.answer {
            AnswerSpec::Counts(spec) => Some(Limits::new(spec, bounds)),
            AnswerSpec::JsonScore(_) => None,
        };
        let key = (limits, bounds.thought.is_some());
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matcher) = ready.get(&key) {
            return Ok(matcher.clone());
        }
        let text = text_of(&self.answer, &self.format, bounds)?;
        let parser = self.factory.create_parser(TopLevelGrammar::from_lark(text)).map_err(internal)?;
        let matcher = Matcher::new(Ok(parser));
        Ok(ready.entry(key).or_insert(matcher).clone())
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grammar for {:?}", self.shared.tokens.tokenizer())
    }
}

/// The grammar of a task's answers, as text for people.
pub fn grammar_text(task: &Task, bounds: &Bounds) -> Result<String, GrammarError> {
    text_of(&task.spec.answer, &task.format, bounds)
}

fn text_of(answer: &AnswerSpec, format: &Format, bounds: &Bounds) -> Result<String, GrammarError> {
    let rules = match answer {
        AnswerSpec::Counts(spec) => counts::grammar(spec, format, &Limits::new(spec, bounds))?,
        AnswerSpec::JsonScore(spec) => score::grammar(spec),
    };
    // White space may stand between a thought and the answer.
    let start = if bounds.thought.is_some() { "start: /[ \\n]{1,3}/? answer" } else { "start: answer" };
    Ok(format!("{start}\n{rules}"))
}

fn internal(error: impl fmt::Display) -> GrammarError {
    GrammarError::Engine(error.to_string())
}
