//! An answer to a prompt, token by token.
//!
//! Invariant: generation ends at an end token, when nobody wants more, or at its limit, and says which.

use std::ops::ControlFlow;
use std::time::Instant;

use super::text::TextStream;
use super::{Chunk, Engine, EngineError, Input, Prefix, Rows, Sampler, Sequence, Stretch};
use crate::model::TokenId;
use crate::model::tokenizer::Tokenizer;

/// How many tokens of a prompt are read at once: enough to be fast, few enough to answer Ctrl-C and to bound memory.
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
}

/// What happens while an answer is generated.
#[derive(Debug, Clone, Copy)]
pub enum Generating<'a> {
    /// So many tokens of the prompt are read, of so many.
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
    /// At an end token.
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
    /// Time to read the prompt, up to the first logits.
    pub prompt_seconds: f64,
    /// Time for all that followed.
    pub decode_seconds: f64,
}

/// Reads a prompt into a sequence, chunk by chunk; gives the logits of its last row. `None` if nobody wants more.
fn read(
    engine: &Engine,
    sequence: &mut Sequence,
    prompt: &[Stretch<'_>],
    logits: Rows,
    on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
) -> Result<Option<Vec<f32>>, EngineError> {
    let mut last = Vec::new();
    let mut done = 0;
    let all = prompt.iter().map(Stretch::length).sum();
    for stretch in prompt {
        let start = sequence.next_position();
        for first in (0..stretch.length()).step_by(CHUNK) {
            if on(Generating::Reading { done, of: all }).is_break() {
                return Ok(None);
            }
            let rows = first..stretch.length().min(first + CHUNK);
            done += rows.len();
            let input = match stretch {
                Stretch::Tokens(tokens) => Input::Tokens(&tokens[rows]),
                Stretch::Visual(visual) => Input::Visual { visual, rows, start },
            };
            let logits = if done == all { logits } else { Rows::None };
            last = engine.step(&mut [Chunk { sequence, input, logits }])?.last(0).to_vec();
        }
    }
    Ok(Some(last))
}

/// Reads the beginning of prompts once, for all sequences that have it. `None` if nobody wants more.
pub fn prefill(
    engine: &Engine,
    beginning: &[Stretch<'_>],
    on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
) -> Result<Option<Prefix>, EngineError> {
    let length = beginning.iter().map(Stretch::length).sum();
    let mut sequence = engine.fork(&Prefix::default(), length)?;
    let read = read(engine, &mut sequence, beginning, Rows::None, on)?;
    Ok(read.map(|_| sequence.freeze()))
}

/// Answers a prompt. What happens goes to `on`, which may end it.
pub fn generate(
    engine: &Engine,
    tokenizer: &Tokenizer,
    what: &Generation<'_>,
    sampler: &mut Sampler,
    on: &mut dyn FnMut(Generating<'_>) -> ControlFlow<()>,
) -> Result<Generated, EngineError> {
    let start = Instant::now();
    let rows: usize = what.prompt.iter().map(Stretch::length).sum();
    let length = what.prefix.length() + rows;
    if length >= engine.context() {
        return Err(EngineError::Context { needed: length + 1, context: engine.context() });
    }
    // An answer that the context cuts off is cut off like any other.
    let limit = what.max_tokens.min(engine.context() - length);
    let mut sequence = engine.fork(what.prefix, rows + limit)?;
    let mut out = Generated { tokens: Vec::new(), end: End::Stopped, prompt_seconds: 0.0, decode_seconds: 0.0 };
    let Some(mut logits) = read(engine, &mut sequence, what.prompt, Rows::Last, on)? else { return Ok(out) };
    out.prompt_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut stream = TextStream::default();
    out.end = 'end: {
        if on(Generating::First(&logits)).is_break() {
            break 'end End::Stopped;
        }
        while out.tokens.len() < limit {
            let token = sampler.sample(&logits)?;
            if tokenizer.is_end(token) && !what.ignore_end {
                break 'end End::Token;
            }
            out.tokens.push(token);
            let text = stream.push(&tokenizer.bytes(token).unwrap_or_default());
            if on(Generating::Token(token, &text)).is_break() {
                break 'end End::Stopped;
            }
            if out.tokens.len() < limit {
                let chunk = Chunk { sequence: &mut sequence, input: Input::Tokens(&[token]), logits: Rows::Last };
                logits = engine.step(&mut [chunk])?.last(0).to_vec();
            }
        }
        End::Limit
    };
    let rest = stream.finish();
    if out.end != End::Stopped && !rest.is_empty() && on(Generating::Rest(&rest)).is_break() {
        out.end = End::Stopped;
    }
    out.decode_seconds = start.elapsed().as_secs_f64();
    Ok(out)
}
