//! Activations as integers.
//!
//! Invariant: the integers and sums of a group depend on its 256 numbers alone.

use super::super::threads::share;
use super::super::{Level, Shared};
use super::{GROUP, RUN, RUNS, Run};

/// The largest integer. With weights of up to 4096 (`Q6_K`: 128 · 32) the 32 products of a lane in a group are at most
/// 32 · 4096 · 16383 = 2,147,352,576, which is below 2³¹.
const LARGEST: f32 = 16383.0;

/// Below this all numbers of a group count as nothing: their integers' scale would not be a normal float.
const NOTHING: f32 = 1e-30;

/// How many numbers share a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scaling {
    /// Those of a group: for large blocks, whose integers are added up over the whole group.
    Groups,
    /// Those of a run: for small blocks. A large number then costs only its own run some digits.
    Runs,
}

/// Rows of activations as integers.
#[derive(Default)]
pub struct Activations {
    rows: usize,
    runs: usize,
    integers: Vec<Run>,
    sums: Vec<Sums>,
}

/// What is known of a group of activations.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Sums {
    /// The sums of its runs: whole numbers below 2²⁰, multiplied with their scale if each run has its own.
    pub runs: [f32; RUNS],
    /// The same of their second halves.
    pub halves: [f32; RUNS],
    /// What an integer of each run stands for.
    pub scales: [f32; RUNS],
}

/// A row of activations.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub integers: &'a [Run],
    pub sums: &'a [Sums],
}

impl Activations {
    /// Rows of `columns` numbers, which are whole runs.
    pub fn quantise(&mut self, level: Level, scaling: Scaling, x: &[f32], columns: usize) {
        assert!(columns.is_multiple_of(RUN) && x.len().is_multiple_of(columns.max(1)), "rows of whole runs");
        (self.rows, self.runs) = (x.len() / columns.max(1), columns / RUN);
        let nothing = Sums { runs: [0.0; RUNS], halves: [0.0; RUNS], scales: [0.0; RUNS] };
        self.integers.resize(self.rows * self.runs, Run([0; RUN]));
        self.sums.resize(self.rows * self.groups(), nothing);
        let (runs, groups) = (self.runs, self.groups());
        let (integers, sums) = (Shared(self.integers.as_mut_ptr()), Shared(self.sums.as_mut_ptr()));
        let work = |rows: std::ops::Range<usize>| {
            for row in rows {
                // SAFETY: row by row these are other parts of two lists with `rows` times `runs` and `groups` entries.
                let (integers, sums) = unsafe { (integers.slice(row * runs, runs), sums.slice(row * groups, groups)) };
                let x = &x[row * columns..][..columns];
                match level {
                    Level::Portable => quantise(scaling, x, integers, sums),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: the level says that the machine has AVX2.
                    Level::Avx2 => unsafe { super::avx2::quantise(scaling, x, integers, sums) },
                }
            }
        };
        share(self.rows, columns * 4, work);
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Groups of a row; the last one may be shorter.
    pub(super) fn groups(&self) -> usize {
        self.runs.div_ceil(RUNS)
    }

    pub(super) fn row(&self, row: usize) -> Row<'_> {
        let (runs, groups) = (self.runs, self.groups());
        Row { integers: &self.integers[row * runs..][..runs], sums: &self.sums[row * groups..][..groups] }
    }
}

/// What an integer stands for among these numbers, and what they are multiplied with to be integers. If some are not
/// finite, the scale is no number, so that they are noticed in what is computed from them.
#[inline(always)]
fn scale(x: &[f32]) -> (f32, f32) {
    // Without their signs, floats are in the order of their bits: infinity behind all numbers, then what is none.
    let highest = f32::from_bits(x.iter().fold(0, |highest, x| highest.max(x.abs().to_bits())));
    match highest {
        highest if !highest.is_finite() => (f32::NAN, 0.0),
        highest if highest < NOTHING => (0.0, 0.0),
        highest => (highest / LARGEST, LARGEST / highest),
    }
}

/// The integers of a row.
#[inline(always)]
pub(super) fn quantise(scaling: Scaling, x: &[f32], integers: &mut [Run], sums: &mut [Sums]) {
    let groups = x.chunks(GROUP).zip(integers.chunks_mut(RUNS)).zip(sums);
    for ((x, integers), sums) in groups {
        let of_group = scale(x);
        *sums = Sums { runs: [0.0; RUNS], halves: [0.0; RUNS], scales: [0.0; RUNS] };
        for (index, (x, run)) in x.as_chunks::<RUN>().0.iter().zip(integers).enumerate() {
            let (scale, factor) = if scaling == Scaling::Groups { of_group } else { scale(x) };
            // Adding 1.5 · 2^23 rounds to a whole number, which is then in the last bits.
            let rounded = x.map(|x| (x * factor + ROUND).to_bits() as i32 - ROUND.to_bits() as i32);
            let rounded = if factor == 0.0 { [0; RUN] } else { rounded };
            for i in 0..RUN / 2 {
                run.0[i] = rounded[2 * i] as i16;
                run.0[i + RUN / 2] = rounded[2 * i + 1] as i16;
            }
            let (first, second) = rounded.split_at(RUN / 2);
            let (first, second): (i32, i32) = (first.iter().sum(), second.iter().sum());
            let unit = if scaling == Scaling::Groups { 1.0 } else { scale };
            sums.runs[index] = (first + second) as f32 * unit;
            sums.halves[index] = second as f32 * unit;
            sums.scales[index] = scale;
        }
    }
}

const ROUND: f32 = 12_582_912.0;
