//! Pictures made larger or smaller: every new pixel is a weighted sum of old ones, first along the rows, then down the
//! columns.
//!
//! Invariant: all arithmetic is on integers, a pass ends in whole levels from 0 to 255, and the sums of a pixel do not
//! depend on the tile it is in. So every kernel and every number of threads gives the same bytes.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;

use std::ops::Range;

use super::threads::share;
use super::{Level, Shared};

/// The old pixels that make up each new one along one side of a picture, and their weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Taps {
    source: usize,
    windows: Vec<Range<usize>>,
    /// `stride` weights for each new pixel, with zeros behind those of its window.
    weights: Vec<i16>,
    stride: usize,
    precision: u32,
}

/// The weights of a window come in groups of so many, which is what a kernel multiplies at a time.
const GROUP: usize = 4;

impl Taps {
    /// For a side of `source` pixels. Each item is where a window begins and its weights, as multiples of
    /// 2^-`precision`. Nothing if a window is not inside the side or the precision is not within 1 to 30 bits.
    pub fn new(source: usize, precision: u32, windows: &[(usize, Vec<i16>)]) -> Option<Self> {
        let inside = |(start, weights): &(usize, Vec<i16>)| {
            !weights.is_empty() && start.checked_add(weights.len()).is_some_and(|end| end <= source)
        };
        if !windows.iter().all(inside) || !(1..=30).contains(&precision) {
            return None;
        }
        let longest = windows.iter().map(|(_, weights)| weights.len()).max().unwrap_or(0);
        let stride = longest.next_multiple_of(GROUP);
        let mut padded = vec![0; windows.len() * stride];
        for (padded, (_, weights)) in padded.chunks_exact_mut(stride.max(1)).zip(windows) {
            padded[..weights.len()].copy_from_slice(weights);
        }
        let windows = windows.iter().map(|(start, weights)| *start..start + weights.len()).collect();
        Some(Self { source, windows, weights: padded, stride, precision })
    }

    /// How many pixels the new side has.
    fn len(&self) -> usize {
        self.windows.len()
    }

    /// The old pixels of a new one, and their weights.
    fn window(&self, at: usize) -> (Range<usize>, &[i16]) {
        let window = self.windows[at].clone();
        let weights = &self.weights[at * self.stride..][..window.len()];
        (window, weights)
    }

    /// The old pixels that some new ones need.
    fn span(&self, news: Range<usize>) -> Range<usize> {
        let windows = &self.windows[news];
        let start = windows.iter().map(|window| window.start).min().unwrap_or(0);
        start..windows.iter().map(|window| window.end).max().unwrap_or(start)
    }

    /// How many bytes of a row a kernel may read, from the row's start on.
    fn reach(&self) -> usize {
        (self.source + self.stride) * CHANNELS + 4
    }
}

const CHANNELS: usize = 3;
/// Rows that the first pass takes at a time.
const ROWS: usize = 4;
/// How many old rows and new columns a tile has. What the first pass makes of it stays in the second cache.
const TILE_ROWS: usize = 256;
const TILE_COLUMNS: usize = 512;

/// From pictures of one size to pictures of another.
#[derive(Debug, Clone)]
pub struct Resample {
    width: usize,
    height: usize,
    /// Nothing if the width stays.
    across: Option<Taps>,
    /// Nothing if the height stays.
    down: Option<Taps>,
}

/// What a thread works in.
#[derive(Default)]
struct Scratch {
    /// What the first pass makes.
    rows: Vec<u8>,
    /// Rows at the end of a picture, with room behind them to read.
    ends: [Vec<u8>; ROWS],
}

impl Resample {
    /// From pictures of `width` × `height`. Nothing if the windows are made for other sides.
    pub fn new(width: usize, height: usize, across: Option<Taps>, down: Option<Taps>) -> Option<Self> {
        let fits = across.as_ref().is_none_or(|taps| taps.source == width)
            && down.as_ref().is_none_or(|taps| taps.source == height);
        fits.then_some(Self { width, height, across, down })
    }

    /// Width and height of what comes out.
    pub fn size(&self) -> (usize, usize) {
        let new = |taps: &Option<Taps>, old| taps.as_ref().map_or(old, Taps::len);
        (new(&self.across, self.width), new(&self.down, self.height))
    }

    /// Resamples pictures of three interleaved bytes a pixel.
    ///
    /// # Panics
    /// If a picture has not as many bytes as its size says.
    pub fn run(&self, level: Level, pictures: &[&[u8]]) -> Vec<Vec<u8>> {
        assert!(pictures.iter().all(|picture| picture.len() == self.width * self.height * CHANNELS));
        if self.across.is_none() && self.down.is_none() {
            return pictures.iter().map(|picture| picture.to_vec()).collect();
        }
        let (width, height) = self.size();
        let mut outs: Vec<Vec<u8>> = pictures.iter().map(|_| vec![0; width * height * CHANNELS]).collect();
        if width * height == 0 {
            return outs;
        }
        let shared: Vec<Shared<u8>> = outs.iter_mut().map(|out| Shared(out.as_mut_ptr())).collect();
        let tall = (TILE_ROWS * height / self.height.max(1)).clamp(1, TILE_ROWS);
        let (bands, blocks) = (height.div_ceil(tall), width.div_ceil(TILE_COLUMNS));
        let taps = [&self.across, &self.down].into_iter().flatten().map(|taps| taps.stride).sum::<usize>();
        share(pictures.len() * bands * blocks, tall * TILE_COLUMNS.min(width) * CHANNELS * taps, |tiles| {
            let mut scratch = Scratch::default();
            for tile in tiles {
                let (picture, band, block) = (tile / (bands * blocks), tile / blocks % bands, tile % blocks);
                let rows = band * tall..height.min((band + 1) * tall);
                let columns = block * TILE_COLUMNS..width.min((block + 1) * TILE_COLUMNS);
                let out = |row: usize| {
                    let start = (row * width + columns.start) * CHANNELS;
                    // SAFETY: a row of a tile is inside the picture that comes out, and each tile is done once, by one
                    // thread, which holds one row at a time.
                    unsafe { shared[picture].slice(start, columns.len() * CHANNELS) }
                };
                self.tile(level, pictures[picture], rows, columns.clone(), out, &mut scratch);
            }
        });
        outs
    }

    /// One tile: `rows` and `columns` of what comes out.
    fn tile<'a>(
        &self,
        level: Level,
        picture: &[u8],
        rows: Range<usize>,
        columns: Range<usize>,
        out: impl Fn(usize) -> &'a mut [u8],
        scratch: &mut Scratch,
    ) {
        let needed = self.down.as_ref().map_or(rows.clone(), |down| down.span(rows.clone()));
        // What the second pass reads, its first row, and how far apart rows are.
        let (source, first, stride) = match &self.across {
            None => (&picture[columns.start * CHANNELS..], 0, self.width * CHANNELS),
            Some(across) => {
                let stride = (columns.len() * CHANNELS + 1).next_multiple_of(32);
                self.first_pass(level, across, picture, needed.clone(), columns, stride, scratch);
                (scratch.rows.as_slice(), needed.start, stride)
            }
        };
        for row in rows {
            let out = out(row);
            let Some(down) = &self.down else {
                out.copy_from_slice(&source[(row - first) * stride..][..out.len()]);
                continue;
            };
            let (window, weights) = down.window(row);
            let source = &source[(window.start - first) * stride..];
            match level {
                Level::Portable => portable::down(source, stride, weights, down.precision, out),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { avx2::down(source, stride, weights, down.precision, out) },
            }
        }
    }

    /// The rows of `picture` that are `needed`, resampled to the new `columns`, into `scratch`.
    #[allow(clippy::too_many_arguments)]
    fn first_pass(
        &self,
        level: Level,
        taps: &Taps,
        picture: &[u8],
        needed: Range<usize>,
        columns: Range<usize>,
        stride: usize,
        scratch: &mut Scratch,
    ) {
        let length = needed.len().next_multiple_of(ROWS) * stride;
        if scratch.rows.len() < length {
            scratch.rows.resize(length, 0);
        }
        let width = self.width * CHANNELS;
        for end in scratch.ends.iter_mut().filter(|end| end.len() < taps.reach()) {
            end.resize(taps.reach(), 0);
        }
        for (out, start) in scratch.rows.chunks_exact_mut(ROWS * stride).zip(needed.clone().step_by(ROWS)) {
            // Behind the last row it is taken again, into rows that nobody reads.
            let row = |i: usize| (start + i).min(needed.end - 1) * width;
            for (i, end) in scratch.ends.iter_mut().enumerate() {
                if row(i) + taps.reach() > picture.len() {
                    end[..width].copy_from_slice(&picture[row(i)..][..width]);
                }
            }
            let rows: [&[u8]; ROWS] =
                std::array::from_fn(|i| picture.get(row(i)..row(i) + taps.reach()).unwrap_or(&scratch.ends[i]));
            match level {
                Level::Portable => portable::across(taps, columns.clone(), rows, out, stride),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { avx2::across(taps, columns.clone(), rows, out, stride) },
            }
        }
    }
}
