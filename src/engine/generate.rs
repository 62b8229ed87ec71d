//! An answer to one prompt, token by token: the scheduler with nobody else in it.
//!
//! Invariant: generation ends at an end token, when its guide says that it is whole, when nobody wants more, or at its
//! limit, and says which.

use std::ops::ControlFlow;

use super::{Chunk, Engine, EngineError, Input, Prefix, Request, Rows, Sampler, Scheduler, Stretch, Tree, Weighed};
use crate::model::TokenId;
use crate::model::tokenizer::Tokenizer;

/// How many tokens of a beginning are read at once.
const CHUNK: usize = 128;

/// What is generated, and until when.
#[derive(Debug)]
pub struct Generation<'a> {
    /// What stands before the prompt and was read already.
    pub prefix: &'a Prefix,
    /// The rest of the prompt; not empty.
    pub prompt: &'a [Stretch<'a>],
    /// How many tokens there may be.
    pub max_tokens: usize,
    /// Whether end tokens are tokens like all others.
    pub ignore_end: bool,
    /// Whether tokens are guessed; the answer is the same.
    pub speculate: bool,
}

/// What happens while an answer is generated.
#[derive(Debug, Clone, Copy)]
pub enum Generating<'a> {
    /// So many tokens of the prompt are read, of so many; those that were read before count too.
    Reading {
        /// Tokens read.
        done: usize,
        /// Tokens to read.
        of: usize,
    },
    /// The logits of the first token.
    First(&'a [f32]),
    /// A token, and the text that it completes, which may be empty.
    Token(TokenId, &'a str),
    /// What is left of a text whose last character was never completed.
    Rest(&'a str),
}

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At an end token, or where the answer was whole by its guide.
    Token,
    /// At the limit.
    Limit,
    /// Nobody wanted more.
    Stopped,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Its tokens, without the end token.
    pub tokens: Vec<TokenId>,
    /// Why it ended.
    pub end: End,
    /// Tokens of the prompt that were read before.
    pub reused: usize,
    /// Time to read the prompt, up to the first logits; of steps with others in them, its share by rows.
    pub prompt_seconds: f64,
    /// Time for all that followed, counted in the same way.
    pub decode_seconds: f64,
    /// What else could have stood at places that somebody weighed.
    pub weighed: Vec<Weighed>,
}

/// Reads the beginning of prompts once, for all sequences that have it. `None` if nobody wants more.
pub fn prefill(
    engine: &Engine,
    beginning: &[Stretch<'_>],
    on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
) -> Result<Option<Prefix>, EngineError> {
    let all = beginning.iter().map(Stretch::length).sum();
    let mut sequence = engine.fork(&Prefix::default(), all)?;
    for stretch in beginning {
        let start = sequence.next_position();
        for first in (0..stretch.length()).step_by(CHUNK) {
            if on(Generating::Reading { done: sequence.length(), of: all }).is_break() {
                return Ok(None);
            }
            let rows = first..stretch.length().min(first + CHUNK);
            let input = match stretch {
                Stretch::Tokens(tokens) => Input::Tokens(&tokens[rows]),
                Stretch::Visual(visual) => Input::Visual { visual, rows, start },
            };
            engine.step(&mut [Chunk { sequence: &mut sequence, input, logits: Rows::None }])?;
        }
    }
    Ok(Some(sequence.freeze()))
}

/// Answers a prompt. What happens goes to `on`, which may end it.
pub fn generate(
    engine: &Engine,
    tokenizer: &Tokenizer,
    what: &Generation<'_>,
    sampler: &mut Sampler,
    on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let request = Request {
        prompt: what.prompt.iter().map(|stretch| stretch.to_passage()).collect(),
        start: what.prefix.clone(),
        marks: Vec::new(),
        max_tokens: what.max_tokens,
        ignore_end: what.ignore_end,
        sampler: sampler.clone(),
        guide: None,
        weigh: None,
        speculate: what.speculate,
    };
    let mut tree = Tree::new(0);
    let mut scheduler = Scheduler::new(engine, tokenizer, &mut tree);
    scheduler.admit(0, request)?;
    loop {
        if let Some((_, generated)) = scheduler.step(&mut |_, event| on(event))?.pop() {
            return generated;
        }
    }
}
