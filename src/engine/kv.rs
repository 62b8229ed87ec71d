//! What a sequence remembers: keys and values of every layer.
//!
//! ```text
//!  Sequence = shared, immutable segments (the rubric, …) + one private tail with room to grow
//! ```
//!
//! Invariant: a segment never changes once it is shared, so any number of sequences can stand on it without copying.
//! A tail has all its room from the start and never moves.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

/// The sizes of keys and values.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Key and value heads and numbers of a head, for each layer.
    pub layers: Vec<(usize, usize)>,
    /// Where they are kept.
    pub device: Device,
}

/// Keys and values of a run of positions.
#[derive(Debug)]
pub struct Segment {
    /// For each layer keys and values, `[heads, capacity, head_dim]`.
    pub(super) layers: Vec<(Tensor, Tensor)>,
    /// Room.
    pub(super) capacity: usize,
    /// Positions that are taken.
    pub(super) length: usize,
}

impl Segment {
    fn new(shape: &Shape, capacity: usize) -> Result<Self> {
        // A tensor has no room for nothing.
        let capacity = capacity.max(1);
        let zeros = |heads, dim| Tensor::zeros((heads, capacity, dim), DType::F32, &shape.device);
        let layers = shape.layers.iter().map(|(heads, dim)| Ok((zeros(*heads, *dim)?, zeros(*heads, *dim)?)));
        Ok(Self { layers: layers.collect::<Result<_>>()?, capacity, length: 0 })
    }
}

/// The beginning of sequences, shared by all that fork from it.
#[derive(Debug, Clone, Default)]
pub struct Prefix {
    pub(super) segments: Vec<Arc<Segment>>,
}

impl Prefix {
    /// Positions in it.
    pub fn length(&self) -> usize {
        self.segments.iter().map(|segment| segment.length).sum()
    }
}

/// A prompt that is being answered.
#[derive(Debug)]
pub struct Sequence {
    pub(super) prefix: Prefix,
    pub(super) tail: Segment,
}

impl Sequence {
    /// A sequence that goes on from a prefix, with room for so many positions more.
    pub fn fork(prefix: &Prefix, room: usize, shape: &Shape) -> Result<Self> {
        Ok(Self { prefix: prefix.clone(), tail: Segment::new(shape, room)? })
    }

    /// Positions so far: the next token's position.
    pub fn length(&self) -> usize {
        self.prefix.length() + self.tail.length
    }

    /// Room that is left.
    pub fn room(&self) -> usize {
        self.tail.capacity - self.tail.length
    }

    /// Forgets all but the first `length` positions; nothing of its prefix.
    pub fn truncate(&mut self, length: usize) {
        self.tail.length = self.tail.length.min(length.saturating_sub(self.prefix.length()));
    }

    /// Ends the sequence, and makes it a prefix for others.
    pub fn freeze(self) -> Prefix {
        let Self { mut prefix, tail } = self;
        if tail.length > 0 {
            prefix.segments.push(Arc::new(tail));
        }
        prefix
    }
}
