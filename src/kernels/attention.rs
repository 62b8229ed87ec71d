//! Attention of new tokens to all that stands before them, over key and value segments as they lie; in towers, of
//! patches to each other.
//!
//! Invariant: a query meets its keys in the order of their positions, wherever one segment ends and the next begins.

use std::cell::RefCell;
use std::ops::Range;

use super::matmul::tile;
use super::threads::share;
use super::{Level, Shared, TILE_COLUMNS, TILE_ROWS, exp, portable};

/// The keys and values of a run of positions: for each head `capacity` places of `head_dim` floats, of which the
/// first `length` are taken.
#[derive(Debug, Clone, Copy)]
pub struct KeyValues<'a> {
    /// Keys.
    pub keys: &'a [f32],
    /// Values.
    pub values: &'a [f32],
    /// Places for each head.
    pub capacity: usize,
    /// Places taken.
    pub length: usize,
}

/// What kind of attention it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves as many query heads.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub head_dim: usize,
    /// What dot products are multiplied with.
    pub scale: f32,
    /// What a query sees.
    pub reach: Reach,
}

/// What a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Itself and all before it.
    Before,
    /// So many positions, itself the last of them.
    Window(usize),
    /// All that there is.
    All,
}

impl Attention {
    /// The positions, of `all`, that the query at `position` sees.
    pub fn seen(&self, position: usize, all: usize) -> Range<usize> {
        match self.reach {
            Reach::Before => 0..position + 1,
            Reach::Window(window) => (position + 1).saturating_sub(window)..position + 1,
            Reach::All => 0..all,
        }
    }
}

/// The results for queries at the positions from `first` on, `[tokens, heads, head_dim]` as `out`. The segments hold
/// all positions from 0 to that of the last query, in order.
pub fn attention(
    level: Level,
    kind: &Attention,
    queries: &[f32],
    first: usize,
    segments: &[KeyValues<'_>],
    out: &mut [f32],
) {
    let Attention { heads, kv_heads, head_dim, .. } = *kind;
    let tokens = queries.len() / (heads * head_dim).max(1);
    assert_eq!(queries.len(), tokens * heads * head_dim);
    assert_eq!(out.len(), queries.len());
    let group = heads / kv_heads;
    let available: usize = segments.iter().map(|segment| segment.length).sum();
    assert!(available >= first + tokens, "fewer keys than positions");
    for segment in segments {
        // The last head's places need not all be there.
        let size = ((kv_heads - 1) * segment.capacity + segment.length) * head_dim;
        assert!(segment.keys.len() >= size && segment.values.len() >= size && segment.length <= segment.capacity);
    }
    // The queries of one key head, by token and then by head, in tiles.
    let rows = tokens * group;
    let tiles = rows.div_ceil(TILE_ROWS);
    let out = Shared(out.as_mut_ptr());
    thread_local! {
        static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    share(kv_heads * tiles, TILE_ROWS * available * head_dim * 2, |range| {
        SCORES.with_borrow_mut(|scores| {
            for index in range {
                let (kv_head, first_row) = (index / tiles, index % tiles * TILE_ROWS);
                let count = TILE_ROWS.min(rows - first_row);
                let start = |row: usize| {
                    let row = first_row + row.min(count - 1);
                    (row / group * heads + kv_head * group + row % group) * head_dim
                };
                let seen = |row: usize| kind.seen(first + (first_row + row.min(count - 1)) / group, available);
                let work = Tile {
                    level,
                    scale: kind.scale,
                    head_dim,
                    queries: std::array::from_fn(|row| &queries[start(row)..][..head_dim]),
                    seen: std::array::from_fn(seen),
                    count,
                };
                let mut outs: [&mut [f32]; TILE_ROWS] = std::array::from_fn(|row| {
                    let length = if row < count { head_dim } else { 0 };
                    // SAFETY: each tile has rows of its own, so these parts of the output are no other thread's.
                    unsafe { out.slice(start(row), length) }
                });
                work.attend(kv_head, segments, scores, &mut outs);
            }
        });
    });
}

/// Up to four queries that share their keys, in the order of their positions.
struct Tile<'a> {
    level: Level,
    scale: f32,
    head_dim: usize,
    queries: [&'a [f32]; TILE_ROWS],
    seen: [Range<usize>; TILE_ROWS],
    count: usize,
}

impl Tile<'_> {
    fn attend(
        &self,
        kv_head: usize,
        segments: &[KeyValues<'_>],
        scores: &mut Vec<f32>,
        outs: &mut [&mut [f32]; TILE_ROWS],
    ) {
        // The first query sees the earliest key, the last one the latest.
        let (first, last) = (&self.seen[0], &self.seen[self.count - 1]);
        let all = first.start..last.end;
        let width = all.len();
        scores.resize(TILE_ROWS * width, 0.0);
        for (position, keys) in self.runs(segments, kv_head, all.clone(), |segment| segment.keys) {
            self.score(keys, position - all.start, width, scores);
        }
        let mut totals = [1.0; TILE_ROWS];
        for row in 0..self.count {
            let seen = &self.seen[row];
            let scores = &mut scores[row * width..][seen.start - all.start..seen.end - all.start];
            let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            totals[row] = match self.level {
                Level::Portable => exp::exp_and_sum(scores, highest),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { super::avx2::exp_and_sum(scores, highest) },
            };
            outs[row].fill(0.0);
        }
        // What all queries see, they take together; what only some see, before and behind it, each takes for itself.
        let common = last.start.min(first.end)..first.end;
        let mut add = |rows: Range<usize>, positions: Range<usize>| {
            for (position, values) in self.runs(segments, kv_head, positions, |segment| segment.values) {
                let at = position - all.start;
                self.add_values(rows.clone(), values, |row| &scores[row * width + at..], outs);
            }
        };
        for row in 0..self.count {
            add(row..row + 1, self.seen[row].start..common.start);
        }
        add(0..self.count, common.clone());
        for row in 0..self.count {
            add(row..row + 1, self.seen[row].start.max(common.end)..self.seen[row].end);
        }
        for (out, total) in outs.iter_mut().zip(totals) {
            out.iter_mut().for_each(|value| *value /= total);
        }
    }

    /// The parts of the segments that hold `positions`: the first position of each, and its floats.
    fn runs<'s>(
        &self,
        segments: &[KeyValues<'s>],
        kv_head: usize,
        positions: Range<usize>,
        of: impl Fn(&KeyValues<'s>) -> &'s [f32],
    ) -> impl Iterator<Item = (usize, &'s [f32])> {
        let mut before = 0;
        segments.iter().filter_map(move |segment| {
            let start = positions.start.max(before);
            let end = positions.end.min(before + segment.length);
            let run = (start < end).then(|| {
                let head = &of(segment)[kv_head * segment.capacity * self.head_dim..];
                (start, &head[(start - before) * self.head_dim..(end - before) * self.head_dim])
            });
            before += segment.length;
            run
        })
    }

    /// Scores the keys, whose first one is number `at` of a row of scores.
    fn score(&self, keys: &[f32], at: usize, width: usize, scores: &mut [f32]) {
        let count = keys.len() / self.head_dim;
        let key = |index: usize| &keys[index.min(count - 1) * self.head_dim..][..self.head_dim];
        for first in (0..count).step_by(TILE_COLUMNS) {
            let columns = TILE_COLUMNS.min(count - first);
            let sums = tile(self.level, &self.queries, self.count, &std::array::from_fn(|c| key(first + c)), columns);
            for (row, sums) in sums.iter().enumerate().take(self.count) {
                for (c, sum) in sums.iter().enumerate().take(columns) {
                    scores[row * width + at + first + c] = sum * self.scale;
                }
            }
        }
    }

    /// Adds values to the outputs of some rows, weighted by each row's weights, which begin at the first value.
    fn add_values<'w>(
        &self,
        rows: Range<usize>,
        values: &[f32],
        weights: impl Fn(usize) -> &'w [f32],
        outs: &mut [&mut [f32]; TILE_ROWS],
    ) {
        let count = values.len() / self.head_dim;
        match self.level {
            Level::Portable => {
                for row in rows {
                    portable::add_weighted(&weights(row)[..count], values, outs[row]);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => {
                macro_rules! shaped {
                    ($r:literal) => {{
                        let weights = std::array::from_fn(|r| weights(rows.start + r)[..count].as_ptr());
                        let sums = std::array::from_fn(|r| outs[rows.start + r].as_mut_ptr());
                        // SAFETY: the level says that the machine has AVX2; weights were cut to `count`, values have
                        // `count` rows, and each output is a slice of its own with `head_dim` floats.
                        unsafe {
                            super::avx2::add_weighted::<$r>(weights, count, values.as_ptr(), self.head_dim, sums);
                        }
                    }};
                }
                match rows.len() {
                    4 => shaped!(4),
                    3 => shaped!(3),
                    2 => shaped!(2),
                    _ => shaped!(1),
                }
            }
        }
    }
}
