//! Activations as whole numbers.
//!
//! Invariant: the integers and sums of a run depend on its 32 numbers alone.

use super::super::threads::share;
use super::super::{Level, Shared};
use super::RUN;

/// How finely activations are told apart where weights are quantised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 14 bits: hardly another result than with floats.
    #[default]
    Fine,
    /// 8 bits: half of the work.
    Coarse,
}

impl Precision {
    /// The largest integer. Both planes of fine ones hold numbers from -64 to 63, so that two products with a byte of
    /// weights, the most that any instruction adds up in 16 bits, are at most 2 · 255 · 64, which is below 2¹⁵.
    fn largest(self) -> f32 {
        match self {
            Self::Fine => 63.0 * 128.0 + 63.0,
            Self::Coarse => 127.0,
        }
    }
}

/// Below this all numbers of a run count as nothing: their integers' scale would not be a normal float.
const NOTHING: f32 = 1e-30;

/// The integers of a run: `128 · high + low`, or `high` alone if they are coarse.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Planes {
    pub high: [i8; RUN],
    pub low: [i8; RUN],
}

/// What is known of a run of activations.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
pub(super) struct About {
    /// What an integer stands for.
    pub scale: f32,
    /// The sum of the integers; a whole number.
    pub sum: f32,
    /// The sums of both halves; whole numbers.
    pub halves: [f32; 2],
    /// The sum of the activations.
    pub total: f32,
    /// The sums of both halves of them.
    pub totals: [f32; 2],
    unused: f32,
}

/// Rows of activations as integers.
#[derive(Default)]
pub struct Activations {
    precision: Precision,
    rows: usize,
    runs: usize,
    planes: Vec<Planes>,
    about: Vec<About>,
}

/// A row of activations.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub planes: &'a [Planes],
    pub about: &'a [About],
}

impl Activations {
    /// Rows of `columns` numbers, which are whole runs.
    pub fn quantise(&mut self, level: Level, precision: Precision, x: &[f32], columns: usize) {
        assert!(columns.is_multiple_of(RUN) && x.len().is_multiple_of(columns.max(1)), "rows of whole runs");
        (self.rows, self.runs) = (x.len() / columns.max(1), columns / RUN);
        self.precision = precision;
        let runs = self.runs;
        self.planes.resize(self.rows * runs, Planes { high: [0; RUN], low: [0; RUN] });
        self.about.resize(self.rows * runs, About::default());
        let (planes, about) = (Shared(self.planes.as_mut_ptr()), Shared(self.about.as_mut_ptr()));
        let work = |rows: std::ops::Range<usize>| {
            let (first, count) = (rows.start * runs, rows.len() * runs);
            // SAFETY: ranges of rows are other parts of two lists with `rows` times `runs` entries.
            let (planes, about) = unsafe { (planes.slice(first, count), about.slice(first, count)) };
            let x = &x[rows.start * columns..rows.end * columns];
            match level {
                Level::Portable => quantise(precision, x, planes, about),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the machine has AVX2.
                Level::Avx2 | Level::Avx512 => unsafe { super::avx2::quantise(precision, x, planes, about) },
            }
        };
        share(self.rows, columns * 4, work);
    }

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let runs = self.runs;
        Row { planes: &self.planes[row * runs..][..runs], about: &self.about[row * runs..][..runs] }
    }
}

/// What an integer stands for among these numbers, and what they are multiplied with to be integers. If some are not
/// finite, the scale is no number, so that they are noticed in what is computed from them.
#[inline(always)]
fn scale(x: &[f32; RUN], largest: f32) -> (f32, f32) {
    // Without their signs, floats are in the order of their bits: infinity behind all numbers, then what is none.
    let highest = f32::from_bits(x.iter().fold(0, |highest, x| highest.max(x.abs().to_bits())));
    match highest {
        highest if !highest.is_finite() => (f32::NAN, 0.0),
        highest if highest < NOTHING => (0.0, 0.0),
        highest => (highest / largest, largest / highest),
    }
}

/// The integers of runs.
#[inline(always)]
pub(super) fn quantise(precision: Precision, x: &[f32], planes: &mut [Planes], about: &mut [About]) {
    for ((x, planes), about) in x.as_chunks::<RUN>().0.iter().zip(planes).zip(about) {
        let (scale, factor) = scale(x, precision.largest());
        // Adding 1.5 · 2^23 rounds to a whole number, which is then in the last bits.
        let rounded = x.map(|x| (x * factor + ROUND).to_bits() as i32 - ROUND.to_bits() as i32);
        let rounded = if factor == 0.0 { [0; RUN] } else { rounded };
        match precision {
            Precision::Fine => {
                let high = rounded.map(|number| (number + 64) >> 7);
                planes.high = high.map(|high| high as i8);
                planes.low = std::array::from_fn(|i| (rounded[i] - (high[i] << 7)) as i8);
            }
            Precision::Coarse => planes.high = rounded.map(|number| number as i8),
        }
        let (first, second) = rounded.split_at(RUN / 2);
        let (first, second): (i32, i32) = (first.iter().sum(), second.iter().sum());
        let halves = [first as f32, second as f32];
        let sum = (first + second) as f32;
        *about = About { scale, sum, halves, total: sum * scale, totals: halves.map(|half| half * scale), unused: 0.0 };
    }
}

const ROUND: f32 = 12_582_912.0;
