//! What a sequence remembers: keys and values of every layer.
//!
//! ```text
//!  Sequence = shared, immutable segments (the rubric, …) + private ones, of which the last has room to grow
//! ```
//!
//! Invariant: a segment never changes once it is shared, so any number of sequences can stand on it without copying.
//! A private segment has all its room from the start and never moves; where it is full, another one begins. So a
//! sequence that may become long costs memory only as it does.

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
        let zeros = |heads, dim| Tensor::zeros((heads, capacity, dim), DType::F32, &shape.device);
        let layers = shape.layers.iter().map(|(heads, dim)| Ok((zeros(*heads, *dim)?, zeros(*heads, *dim)?)));
        Ok(Self { layers: layers.collect::<Result<_>>()?, capacity, length: 0 })
    }

    /// What it takes, used or not.
    fn bytes(&self) -> u64 {
        let size = |tensor: &Tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64;
        self.layers.iter().map(|(keys, values)| size(keys) + size(values)).sum()
    }
}

/// The beginning of sequences, shared by all that fork from it.
#[derive(Debug, Clone, Default)]
pub struct Prefix {
    pub(super) segments: Vec<Arc<Segment>>,
    /// See [`Sequence::next_position`].
    shift: i64,
}

impl Prefix {
    /// Positions in it.
    pub fn length(&self) -> usize {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// The memory of the segments that its last `rows` rows lie in.
    pub(super) fn bytes_of_last(&self, rows: usize) -> u64 {
        let mut left = rows;
        let held = self.segments.iter().rev().take_while(|segment| {
            let wanted = left > 0;
            left = left.saturating_sub(segment.length);
            wanted
        });
        held.map(|segment| segment.bytes()).sum()
    }
}

/// A prompt that is being answered.
#[derive(Debug)]
pub struct Sequence {
    prefix: Prefix,
    own: Vec<Segment>,
    /// Positions that may still come.
    room: usize,
    /// How far the next position is ahead of the number of rows: pictures have several rows at one position.
    shift: i64,
}

/// The room of a private segment that nothing larger is asked of: long enough to be few, short enough to waste little.
const ROOM: usize = 512;

impl Sequence {
    /// A sequence that goes on from a prefix, for so many positions more at most.
    pub fn fork(prefix: &Prefix, room: usize) -> Self {
        Self { prefix: prefix.clone(), own: Vec::new(), room, shift: prefix.shift }
    }

    /// The rotary position of the next token: one more than the highest so far. Without pictures it is the length.
    pub fn next_position(&self) -> u32 {
        u32::try_from(self.length() as i64 + self.shift).unwrap_or(u32::MAX)
    }

    /// Sets what [`next_position`](Self::next_position) gives.
    pub(super) fn set_next_position(&mut self, position: u32) {
        self.shift = i64::from(position) - self.length() as i64;
    }

    /// Rows so far.
    pub fn length(&self) -> usize {
        self.prefix.length() + self.own.iter().map(|segment| segment.length).sum::<usize>()
    }

    /// Rows that are not of its prefix.
    pub(super) fn own_length(&self) -> usize {
        self.length() - self.prefix.length()
    }

    /// Positions that may still come.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Makes a place for `rows` new positions in one segment.
    pub(super) fn reserve(&mut self, rows: usize, shape: &Shape) -> Result<()> {
        if self.own.last().is_none_or(|tail| tail.capacity - tail.length < rows) {
            self.own.push(Segment::new(shape, rows.max(ROOM.min(self.room)))?);
        }
        Ok(())
    }

    /// The segment that new positions go to; there is one behind [`reserve`](Self::reserve).
    pub(super) fn tail(&self) -> Option<&Segment> {
        self.own.last()
    }

    /// All segments, in the order of their positions.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.prefix.segments.iter().map(|segment| &**segment).chain(&self.own)
    }

    /// Counts `rows` positions whose keys and values are stored now.
    pub(super) fn advance(&mut self, rows: usize) {
        if let Some(tail) = self.own.last_mut() {
            tail.length += rows;
        }
        self.room -= rows;
    }

    /// Forgets all but the first `length` rows; nothing of its prefix. What is forgotten has to be text.
    pub fn truncate(&mut self, length: usize) {
        let mut surplus = self.length().saturating_sub(length.max(self.prefix.length()));
        self.room += surplus;
        while let Some(tail) = self.own.last_mut().filter(|_| surplus > 0) {
            let gone = surplus.min(tail.length);
            tail.length -= gone;
            surplus -= gone;
            if tail.length == 0 && self.own.len() > 1 {
                self.own.pop();
            }
        }
    }

    /// Ends the sequence, and makes it a prefix for others.
    pub fn freeze(self) -> Prefix {
        let Self { mut prefix, own, shift, .. } = self;
        prefix.shift = shift;
        prefix.segments.extend(own.into_iter().filter(|segment| segment.length > 0).map(Arc::new));
        prefix
    }
}
