//! The engine: a batched step over ragged sequences, and what stands on it.
//!
//! ```text
//!  step ◀── answering ◀── schedule ◀── generate, judge
//!                 draft, guide, weigh         tree
//!
//!  Prefill, decoding, batches, forks and guesses are all the one call of `step`.
//! ```
//!
//! Invariant: on the CPU the logits of a sequence do not depend, to the last bit, on how it was cut into chunks, on
//! what it shares with others, or on who stands beside it in a step.

mod answering;
mod attend;
mod draft;
#[cfg(feature = "flash-attn")]
mod flash;
mod generate;
mod guide;
mod kv;
mod sampler;
mod schedule;
pub mod text;
mod tree;
mod visual;
mod weigh;

pub use answering::Request;
pub use generate::{End as GenerationEnd, Generated, Generating, Generation, generate, prefill};
pub use guide::{Guide, GuideError};
pub use kv::{Prefix, Sequence};
pub use sampler::{Sampler, Sampling, top};
pub use schedule::{Ended, On, Scheduler};
pub use tree::{DEFAULT_BYTES as TREE_BYTES, Key, Mark, Tree};
pub use visual::{Passage, Stretch, Visual, stretches};
pub use weigh::{Follow, Weigh, Weighed};

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;
use thiserror::Error;

use crate::model::TokenId;
use crate::model::decoder::Decoder;
use crate::model::rope::Position;
use attend::Batch;
use kv::Shape;

/// Why a step cannot be made.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A sequence is longer than the model's context.
    #[error("{needed} tokens are more than the {context} of the model's context")]
    Context {
        /// Positions that the sequence needs.
        needed: usize,
        /// Positions that the model has.
        context: usize,
    },
    /// A sequence has no room for the new tokens.
    #[error("internal error: a sequence with room for {room} tokens was given {tokens}")]
    Room {
        /// Room that is left.
        room: usize,
        /// New tokens.
        tokens: usize,
    },
    /// There is nothing to answer.
    #[error("internal error: a prompt without a token")]
    Empty,
    /// The logits are not numbers.
    #[error("the model's logits are not numbers: its weights or its configuration are damaged; check the files")]
    NotANumber,
    /// The guide of an answer failed.
    #[error(transparent)]
    Guide(#[from] GuideError),
    /// The tensor library failed.
    #[error("internal error in the model: {0}")]
    Tensor(#[from] candle_core::Error),
}

/// Runs a decoder over sequences.
#[derive(Debug, Clone)]
pub struct Engine {
    decoder: Arc<Decoder>,
    shape: Shape,
}

/// What a sequence gets in a step.
#[derive(Debug)]
pub struct Chunk<'a> {
    /// The sequence.
    pub sequence: &'a mut Sequence,
    /// What it is given.
    pub input: Input<'a>,
    /// Which of the new rows need logits.
    pub logits: Rows,
}

/// New rows of a sequence.
#[derive(Debug, Clone)]
pub enum Input<'a> {
    /// Tokens.
    Tokens(&'a [TokenId]),
    /// Some rows of a picture.
    Visual {
        /// The picture.
        visual: &'a Visual,
        /// Its rows that come now; all before them were given already.
        rows: Range<usize>,
        /// The position that its own positions are counted from: [`Sequence::next_position`] before its first row.
        start: u32,
    },
}

impl Input<'_> {
    fn length(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Visual { rows, .. } => rows.len(),
        }
    }
}

/// Which rows of a chunk need logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// None of them.
    None,
    /// The last one.
    Last,
    /// So many of the last ones.
    Tail(usize),
    /// All.
    All,
}

/// The logits of a step.
#[derive(Debug)]
pub struct Logits {
    /// For each chunk the rows that were asked for.
    rows: Vec<Vec<Vec<f32>>>,
}

impl Logits {
    /// The rows of a chunk.
    pub fn of(&self, chunk: usize) -> &[Vec<f32>] {
        &self.rows[chunk]
    }

    /// The last row of a chunk; empty if none was asked for.
    pub fn last(&self, chunk: usize) -> &[f32] {
        self.rows[chunk].last().map_or(&[], Vec::as_slice)
    }
}

impl Engine {
    /// An engine for a decoder.
    pub fn new(decoder: Arc<Decoder>) -> Self {
        let layers = decoder.layers.iter().map(|layer| (layer.attention.kv_heads, layer.attention.head_dim)).collect();
        let shape = Shape { layers, device: decoder.compute.device.clone() };
        Self { decoder, shape }
    }

    /// The longest sequence that the model takes.
    pub fn context(&self) -> usize {
        self.decoder.context
    }

    /// How many numbers its decoder has, without the head.
    pub fn parameters(&self) -> u64 {
        self.decoder.parameters()
    }

    /// How many tokens the model knows.
    pub fn vocabulary(&self) -> usize {
        self.decoder.embedding.tokens()
    }

    /// A sequence that goes on from a prefix, with room for so many positions more.
    pub fn fork(&self, prefix: &Prefix, room: usize) -> Result<Sequence, EngineError> {
        let needed = prefix.length() + room;
        let context = self.context();
        if needed > context {
            return Err(EngineError::Context { needed, context });
        }
        Ok(Sequence::fork(prefix, room))
    }

    /// Gives every chunk's sequence its new positions, all in one pass through the decoder.
    pub fn step(&self, chunks: &mut [Chunk<'_>]) -> Result<Logits, EngineError> {
        let device = &self.decoder.compute.device;
        let mut embeddings = Vec::with_capacity(chunks.len());
        let mut positions: Vec<Position> = Vec::new();
        let mut deep = Deep::default();
        let mut wanted = Vec::new();
        let mut counts = Vec::with_capacity(chunks.len());
        let mut sequences = Vec::with_capacity(chunks.len());
        let mut ends = Vec::with_capacity(chunks.len());
        for chunk in chunks.iter_mut() {
            let (count, room) = (chunk.input.length(), chunk.sequence.room());
            if count > room {
                return Err(EngineError::Room { room, tokens: count });
            }
            let first = positions.len();
            let next = chunk.sequence.next_position();
            let (rows, end) = match &chunk.input {
                Input::Tokens(tokens) => {
                    let end = next.saturating_add(count as u32);
                    positions.extend((next..end).map(|position| [position; 3]));
                    (self.decoder.embedding.forward(tokens, device)?, end)
                }
                Input::Visual { visual, rows, start } => {
                    let shifted = |position: &Position| position.map(|axis| start.saturating_add(axis));
                    positions.extend(visual.positions()[rows.clone()].iter().map(shifted));
                    deep.add(first, visual, rows);
                    (visual.rows().narrow(0, rows.start, rows.len())?, start.saturating_add(visual.end(rows.end)))
                }
            };
            let asked = match chunk.logits {
                Rows::None => 0,
                Rows::Last => count.min(1),
                Rows::Tail(rows) => count.min(rows),
                Rows::All => count,
            };
            wanted.extend((first + count - asked..first + count).map(|row| row as u32));
            counts.push(asked);
            if count > 0 {
                chunk.sequence.reserve(count, &self.shape)?;
                embeddings.push(rows);
                sequences.push((&mut *chunk.sequence, count));
                ends.push(end);
            }
        }
        if positions.is_empty() {
            return Ok(Logits { rows: counts.iter().map(|_| Vec::new()).collect() });
        }
        let embeddings = if embeddings.len() == 1 { embeddings.remove(0) } else { Tensor::cat(&embeddings, 0)? };
        let mut batch = Batch { sequences, compute: &self.decoder.compute };
        let deep = deep.tensors(&embeddings)?;
        let out = self.decoder.forward(embeddings, &positions, &deep, &mut batch)?;
        for ((sequence, rows), end) in batch.sequences.into_iter().zip(ends) {
            sequence.advance(rows);
            sequence.set_next_position(end);
        }
        if wanted.is_empty() {
            return Ok(Logits { rows: counts.iter().map(|_| Vec::new()).collect() });
        }
        let wanted = Tensor::new(wanted.as_slice(), device)?;
        let mut logits = self.decoder.logits(&out.index_select(&wanted, 0)?)?.to_vec2::<f32>()?.into_iter();
        let rows: Vec<Vec<Vec<f32>>> = counts.iter().map(|count| logits.by_ref().take(*count).collect()).collect();
        if rows.iter().flatten().any(|row| row.iter().any(|logit| logit.is_nan())) {
            return Err(EngineError::NotANumber);
        }
        Ok(Logits { rows })
    }
}

/// What pictures add behind the first layers, by the rows of a step.
#[derive(Default)]
struct Deep<'a> {
    /// The first row of a picture's part, the picture, and the part.
    parts: Vec<(usize, &'a Visual, Range<usize>)>,
}

impl<'a> Deep<'a> {
    fn add(&mut self, first: usize, visual: &'a Visual, rows: &Range<usize>) {
        if !visual.deep().is_empty() && !rows.is_empty() {
            self.parts.push((first, visual, rows.clone()));
        }
    }

    /// A tensor for each layer, as large as all rows together; zero where there is text.
    fn tensors(&self, embeddings: &Tensor) -> candle_core::Result<Vec<Tensor>> {
        let layers = self.parts.iter().map(|(_, visual, _)| visual.deep().len()).max().unwrap_or(0);
        let all = |layer: usize| {
            let sums = embeddings.zeros_like()?;
            for (first, visual, rows) in &self.parts {
                if let Some(deep) = visual.deep().get(layer) {
                    sums.slice_set(&deep.narrow(0, rows.start, rows.len())?.contiguous()?, 0, *first)?;
                }
            }
            Ok(sums)
        };
        (0..layers).map(all).collect()
    }
}
