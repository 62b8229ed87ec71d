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
    let blocks = rows.div_ceil(TILES * TILE_ROWS);
    let out = Shared(out.as_mut_ptr());
    thread_local! {
        static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    share(kv_heads * blocks, TILES * TILE_ROWS * available * head_dim * 2, |range| {
        SCORES.with_borrow_mut(|scores| {
            for index in range {
                let (kv_head, block) = (index / blocks, index % blocks * TILES * TILE_ROWS);
                let tiles = (block..rows.min(block + TILES * TILE_ROWS)).step_by(TILE_ROWS).map(|first_row| {
                    let count = TILE_ROWS.min(rows - first_row);
                    let start = |row: usize| {
                        let row = first_row + row.min(count - 1);
                        (row / group * heads + kv_head * group + row % group) * head_dim
                    };
                    let seen = |row: usize| kind.seen(first + (first_row + row.min(count - 1)) / group, available);
                    Tile {
                        level,
                        scale: kind.scale,
                        head_dim,
                        queries: std::array::from_fn(|row| &queries[start(row)..][..head_dim]),
                        seen: std::array::from_fn(seen),
                        count,
                        outs: std::array::from_fn(|row| {
                            let length = if row < count { head_dim } else { 0 };
                            // SAFETY: each tile has rows of its own, so these parts of the output are no other thread's.
                            unsafe { out.slice(start(row), length) }
                        }),
                    }
                });
                attend(&mut tiles.collect::<Vec<_>>(), kv_head, segments, scores);
            }
        });
    });
}

/// Tiles that go through the keys and values together, while a few of those are in the cache.
const TILES: usize = 8;
/// Keys or values that are taken at a time.
const BLOCK: usize = 64;

/// Up to four queries that share their keys, in the order of their positions, and where what they find goes.
struct Tile<'a> {
    level: Level,
    scale: f32,
    head_dim: usize,
    queries: [&'a [f32]; TILE_ROWS],
    seen: [Range<usize>; TILE_ROWS],
    count: usize,
    outs: [&'a mut [f32]; TILE_ROWS],
}

/// What both ranges have.
fn both(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

/// Fills the outputs of tiles, whose queries are in the order of their positions.
fn attend(tiles: &mut [Tile<'_>], kv_head: usize, segments: &[KeyValues<'_>], scores: &mut Vec<f32>) {
    let (Some(first), Some(last)) = (tiles.first(), tiles.last()) else { return };
    let head_dim = first.head_dim;
    let all = first.all().start..last.all().end;
    let width = all.len();
    scores.resize(tiles.len() * TILE_ROWS * width, 0.0);
    for (place, keys) in runs(head_dim, segments, kv_head, &all, |segment| segment.keys) {
        for (tile, scores) in tiles.iter().zip(scores.chunks_exact_mut(TILE_ROWS * width)) {
            let mine = both(&place, &tile.all());
            if !mine.is_empty() {
                let keys = &keys[(mine.start - place.start) * head_dim..(mine.end - place.start) * head_dim];
                tile.score(keys, mine.start - all.start, width, scores);
            }
        }
    }
    let mut totals = vec![[1.0; TILE_ROWS]; tiles.len()];
    for ((tile, scores), totals) in tiles.iter_mut().zip(scores.chunks_exact_mut(TILE_ROWS * width)).zip(&mut totals) {
        for row in 0..tile.count {
            let seen = &tile.seen[row];
            let scores = &mut scores[row * width..][seen.start - all.start..seen.end - all.start];
            totals[row] = match tile.level {
                Level::Portable => exp::exp_and_sum(scores),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { super::avx2::exp_and_sum(scores) },
            };
            tile.outs[row].fill(0.0);
        }
    }
    for (place, values) in runs(head_dim, segments, kv_head, &all, |segment| segment.values) {
        for (tile, scores) in tiles.iter_mut().zip(scores.chunks_exact(TILE_ROWS * width)) {
            tile.add_block(&place, values, scores, all.start, width);
        }
    }
    for (tile, totals) in tiles.iter_mut().zip(totals) {
        for (out, total) in tile.outs.iter_mut().zip(totals) {
            out.iter_mut().for_each(|value| *value /= total);
        }
    }
}

/// The parts of the segments that hold `positions`, in blocks: the positions of each, and their floats.
fn runs<'s>(
    head_dim: usize,
    segments: &[KeyValues<'s>],
    kv_head: usize,
    positions: &Range<usize>,
    of: impl Fn(&KeyValues<'s>) -> &'s [f32],
) -> impl Iterator<Item = (Range<usize>, &'s [f32])> {
    let mut before = 0;
    segments.iter().flat_map(move |segment| {
        let place = both(positions, &(before..before + segment.length));
        let head = &of(segment)[kv_head * segment.capacity * head_dim..];
        let first = before;
        before += segment.length;
        place.clone().step_by(BLOCK).map(move |start| {
            let end = place.end.min(start + BLOCK);
            (start..end, &head[(start - first) * head_dim..(end - first) * head_dim])
        })
    })
}

impl Tile<'_> {
    /// All positions that a query of it sees: the first one sees the earliest key, the last one the latest.
    fn all(&self) -> Range<usize> {
        self.seen[0].start..self.seen[self.count - 1].end
    }

    /// Adds the values at some positions to the outputs. What all queries see, they take together; what only some see,
    /// before and behind it, each takes for itself.
    fn add_block(&mut self, place: &Range<usize>, values: &[f32], scores: &[f32], start: usize, width: usize) {
        let (seen, count, head_dim) = (self.seen.clone(), self.count, self.head_dim);
        let (first, last) = (&seen[0], &seen[count - 1]);
        let common = last.start.min(first.end)..first.end;
        let mut add = |rows: Range<usize>, positions: Range<usize>| {
            let mine = both(place, &positions);
            if !mine.is_empty() {
                let values = &values[(mine.start - place.start) * head_dim..(mine.end - place.start) * head_dim];
                self.add_values(rows, values, |row| &scores[row * width + mine.start - start..]);
            }
        };
        for (row, seen) in seen.iter().enumerate().take(count) {
            add(row..row + 1, seen.start..common.start);
        }
        add(0..count, common.clone());
        for (row, seen) in seen.iter().enumerate().take(count) {
            add(row..row + 1, seen.start.max(common.end)..seen.end);
        }
    }

    /// Scores the keys, whose first one is number `at` of a row of scores.
    fn score(&self, keys: &[f32], at: usize, width: usize, scores: &mut [f32]) {
        let count = keys.len() / self.head_dim;
        #[cfg(target_arch = "x86_64")]
        if self.level == Level::Avx512 {
            assert!(scores.len() >= (TILE_ROWS - 1) * width + at + count && at + count <= width);
            let queries = self.queries.map(<[f32]>::as_ptr);
            let start = scores.as_mut_ptr();
            let out = std::array::from_fn(|row| start.wrapping_add(row * width + at));
            // SAFETY: the level says that the machine has AVX-512; queries have `head_dim` floats, keys `count` times as
            // many, and each row of scores has its own `count` places, as was checked.
            unsafe { super::avx512::scores(queries, keys.as_ptr(), count, self.head_dim, self.scale, out) };
            return;
        }
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
    fn add_values<'w>(&mut self, rows: Range<usize>, values: &[f32], weights: impl Fn(usize) -> &'w [f32]) {
        let (count, outs) = (values.len() / self.head_dim, &mut self.outs);
        #[cfg(target_arch = "x86_64")]
        macro_rules! shaped {
            ($kernels:ident, $r:literal) => {{
                let weights = std::array::from_fn(|r| weights(rows.start + r)[..count].as_ptr());
                let sums = std::array::from_fn(|r| outs[rows.start + r].as_mut_ptr());
                // SAFETY: the level says that the machine has the instructions; weights were cut to `count`, values have
                // `count` rows, and each output is a slice of its own with `head_dim` floats.
                unsafe {
                    super::$kernels::add_weighted::<$r>(weights, count, values.as_ptr(), self.head_dim, sums);
                }
            }};
            ($kernels:ident) => {
                match rows.len() {
                    4 => shaped!($kernels, 4),
                    3 => shaped!($kernels, 3),
                    2 => shaped!($kernels, 2),
                    _ => shaped!($kernels, 1),
                }
            };
        }
        match self.level {
            Level::Portable => {
                for row in rows {
                    portable::add_weighted(&weights(row)[..count], values, outs[row]);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => shaped!(avx2),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => shaped!(avx512),
        }
    }
}
