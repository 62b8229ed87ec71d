//! What a picture becomes: rows that take the place of tokens.
//!
//! Invariant: all tensors have as many rows as there are positions, so a part of a picture is a part of each.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor, bail};

use crate::model::TokenId;
use crate::model::rope::Position;

/// Rows of a picture, or of some frames of a video, that follow each other in a prompt.
#[derive(Debug, Clone)]
pub struct Visual {
    rows: Tensor,
    deep: Vec<Tensor>,
    positions: Arc<[Position]>,
}

impl Visual {
    /// Rows at positions that are counted from the position of the token that would stand there. `deep` is what is
    /// added to the rows behind the first layers.
    pub fn new(rows: Tensor, deep: Vec<Tensor>, positions: Vec<Position>) -> Result<Self> {
        let shape = rows.dims2()?;
        if shape.0 == 0 || shape.0 != positions.len() || deep.iter().any(|deep| deep.dims() != [shape.0, shape.1]) {
            bail!("{} positions for rows of shape {shape:?}", positions.len());
        }
        Ok(Self { rows, deep, positions: positions.into() })
    }

    /// Rows that stand one after another, as tokens do.
    pub fn in_line(rows: Tensor) -> Result<Self> {
        let positions = (0..rows.dim(0)? as u32).map(|at| [at; 3]).collect();
        Self::new(rows, Vec::new(), positions)
    }

    /// How many rows there are.
    pub fn length(&self) -> usize {
        self.positions.len()
    }

    /// What takes the place of embeddings.
    pub fn rows(&self) -> &Tensor {
        &self.rows
    }

    /// The memory that it takes.
    pub fn bytes(&self) -> u64 {
        let size = |tensor: &Tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64;
        size(&self.rows) + self.deep.iter().map(size).sum::<u64>()
    }

    /// What is added behind the first layers.
    pub fn deep(&self) -> &[Tensor] {
        &self.deep
    }

    /// The positions, counted from that of the first.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// One more than the highest of the first `count` positions.
    pub(super) fn end(&self, count: usize) -> u32 {
        self.positions[..count].iter().flatten().max().map_or(0, |highest| highest.saturating_add(1))
    }
}

/// A stretch of a prompt.
#[derive(Debug, Clone, Copy)]
pub enum Stretch<'a> {
    /// Tokens.
    Tokens(&'a [TokenId]),
    /// A picture.
    Visual(&'a Visual),
}

impl Stretch<'_> {
    /// Rows in it.
    pub fn length(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Visual(visual) => visual.length(),
        }
    }
}

impl Stretch<'_> {
    /// The same, to be kept while it is read.
    pub fn to_passage(self) -> Passage {
        match self {
            Self::Tokens(tokens) => Passage::Tokens(tokens.to_vec()),
            Self::Visual(visual) => Passage::Visual(visual.clone()),
        }
    }
}

/// A stretch of a prompt that is its own.
#[derive(Debug, Clone)]
pub enum Passage {
    /// Tokens.
    Tokens(Vec<TokenId>),
    /// A picture.
    Visual(Visual),
}

impl Passage {
    /// Rows in it.
    pub fn length(&self) -> usize {
        match self {
            Self::Tokens(tokens) => tokens.len(),
            Self::Visual(visual) => visual.length(),
        }
    }
}

/// A prompt in stretches: its tokens from `from` on, with pictures in the place of the placeholders that they have there.
pub fn stretches<'a>(
    tokens: &'a [TokenId],
    from: usize,
    pictures: impl IntoIterator<Item = (Range<usize>, &'a Visual)>,
) -> Vec<Stretch<'a>> {
    let mut found = Vec::new();
    let mut at = from;
    for (place, visual) in pictures {
        if place.start > at {
            found.push(Stretch::Tokens(&tokens[at..place.start]));
        }
        found.push(Stretch::Visual(visual));
        at = place.end;
    }
    if at < tokens.len() {
        found.push(Stretch::Tokens(&tokens[at..]));
    }
    found
}
