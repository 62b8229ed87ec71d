//! Motion: partitions, references and vectors (ITU-T H.264, 7.3.5.1 and 7.3.5.2).
//!
//! Vectors are not made of their differences here. What is kept of them is what the contexts of CABAC need.

use super::coder::{Coder, Kind};
use super::macroblock::{Macroblock, Parser, Place};
use crate::media::codec::h264::slice::Prediction;

/// What contexts need to know of motion, for one list along one side.
#[derive(Debug, Clone, Copy)]
pub struct Motion {
    /// Sizes of the differences, across and down.
    pub size: [[u8; 2]; 4],
    /// The number of the reference, as far as it matters: 0, 1, or 2 for any later one.
    pub later: [u8; 2],
}

/// No motion.
pub const STILL: Motion = Motion { size: [[0; 2]; 4], later: [0; 2] };

/// Motion with its border: one list.
#[derive(Clone, Copy)]
struct Grid {
    size: [[u8; 2]; 25],
    later: [u8; 9],
}

impl Parser {
    /// Reads motion. Whether it is of parts that are too small for the 8×8 transform.
    pub fn inter<C: Coder>(&self, coder: &mut C, place: Place<'_>, kind: Kind, now: &mut Macroblock) -> Option<bool> {
        let (parts, lists): (Parts, [u8; 2]) = match kind {
            Kind::B(0) => {
                now.direct = true;
                return Some(!self.direct_8x8);
            }
            Kind::P(0) => (Parts::One, [1, 0]),
            Kind::P(1) => (Parts::Rows, [1, 1]),
            Kind::P(2) => (Parts::Columns, [1, 1]),
            Kind::P(_) | Kind::B(22) => return self.quarters(coder, place, kind, now),
            Kind::B(number @ 1..4) => (Parts::One, [number as u8, 0]),
            Kind::B(number) => {
                let parts = if number % 2 == 0 { Parts::Rows } else { Parts::Columns };
                (parts, *PAIRS.get((number as usize).checked_sub(4)? / 2)?)
            }
            Kind::Intra(_) => return None,
        };
        // Place and size of both parts.
        let boxes: [[usize; 4]; 2] = match parts {
            Parts::One => [[0, 0, 4, 4], [0; 4]],
            Parts::Rows => [[0, 0, 4, 2], [0, 2, 4, 2]],
            Parts::Columns => [[0, 0, 2, 4], [2, 0, 2, 4]],
        };
        let mut grids = [Grid::around::<C>(place, 0), Grid::around::<C>(place, 1)];
        for (list, grid) in grids.iter_mut().enumerate() {
            for (part, uses) in boxes.into_iter().zip(lists) {
                if uses >> list & 1 == 1 && self.active[list] > 1 {
                    let reference = coder.reference(grid.later(part), self.active[list])?;
                    grid.refer(part, reference);
                }
            }
        }
        for (list, grid) in grids.iter_mut().enumerate() {
            for (part, uses) in boxes.into_iter().zip(lists) {
                if uses >> list & 1 == 1 {
                    grid.motion(coder, part)?;
                }
            }
        }
        if C::CABAC {
            grids.iter().enumerate().for_each(|(list, grid)| grid.keep(list, now));
        }
        Some(false)
    }

    /// The same for a macroblock in quarters.
    fn quarters<C: Coder>(&self, coder: &mut C, place: Place<'_>, kind: Kind, now: &mut Macroblock) -> Option<bool> {
        let mut quarters = [(0u8, 0u8); 4];
        let mut small = false;
        for quarter in &mut quarters {
            let number = coder.quarter(self.prediction)?;
            *quarter = match self.prediction {
                Prediction::B => *QUARTERS.get(number as usize)?,
                _ => (1, number as u8),
            };
            small |= if quarter.0 == 0 { !self.direct_8x8 } else { quarter.1 != 0 };
        }
        let mut grids = [Grid::around::<C>(place, 0), Grid::around::<C>(place, 1)];
        for (list, grid) in grids.iter_mut().enumerate() {
            for (at, (uses, _)) in quarters.into_iter().enumerate() {
                if uses >> list & 1 == 1 && self.active[list] > 1 && kind != Kind::P(4) {
                    let part = [at % 2 * 2, at / 2 * 2, 2, 2];
                    let reference = coder.reference(grid.later(part), self.active[list])?;
                    grid.refer(part, reference);
                }
            }
        }
        for (list, grid) in grids.iter_mut().enumerate() {
            for (at, (uses, shape)) in quarters.into_iter().enumerate() {
                if uses >> list & 1 == 0 {
                    continue;
                }
                let (width, height) = [(2, 2), (2, 1), (1, 2), (1, 1)][usize::from(shape & 3)];
                for y in (0..2).step_by(height) {
                    for x in (0..2).step_by(width) {
                        grid.motion(coder, [at % 2 * 2 + x, at / 2 * 2 + y, width, height])?;
                    }
                }
            }
        }
        if C::CABAC {
            grids.iter().enumerate().for_each(|(list, grid)| grid.keep(list, now));
        }
        Some(small)
    }
}

/// How a macroblock is cut for its motion.
enum Parts {
    One,
    Rows,
    Columns,
}

/// Which lists the two parts of a B macroblock use (1, 2 or both), by its number from 4 on, two each.
const PAIRS: [[u8; 2]; 9] = [[1, 1], [2, 2], [1, 2], [2, 1], [1, 3], [2, 3], [3, 1], [3, 2], [3, 3]];

/// Which lists a quarter of a B macroblock uses, and its shape: whole, rows, columns, quarters.
const QUARTERS: [(u8, u8); 13] =
    [(0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2), (1, 3), (2, 3), (3, 3)];

impl Grid {
    fn around<C: Coder>(place: Place<'_>, list: usize) -> Self {
        let mut grid = Self { size: [[0; 2]; 25], later: [0; 9] };
        if C::CABAC {
            let (left, top) = (&place.left.motion_right[list], &place.top.motion_bottom[list]);
            for at in 0..4 {
                grid.size[(at + 1) * 5] = left.size[at];
                grid.size[at + 1] = top.size[at];
            }
            for at in 0..2 {
                grid.later[(at + 1) * 3] = left.later[at];
                grid.later[at + 1] = top.later[at];
            }
        }
        grid
    }

    /// The context of the reference of a part.
    fn later(&self, [x, y, ..]: [usize; 4]) -> usize {
        let (x, y) = (x / 2, y / 2);
        usize::from(self.later[(y + 1) * 3 + x] > 0) + 2 * usize::from(self.later[y * 3 + x + 1] > 0)
    }

    fn refer(&mut self, [x, y, width, height]: [usize; 4], reference: u32) {
        for y in y / 2..(y + height) / 2 {
            for x in x / 2..(x + width) / 2 {
                self.later[(y + 1) * 3 + x + 1] = reference.min(2) as u8;
            }
        }
    }

    /// Reads the difference of a motion vector.
    fn motion<C: Coder>(&mut self, coder: &mut C, [x, y, width, height]: [usize; 4]) -> Option<()> {
        let (left, top) = (self.size[(y + 1) * 5 + x], self.size[y * 5 + x + 1]);
        let mut size = [0; 2];
        for (component, size) in size.iter_mut().enumerate() {
            let around = u32::from(left[component]) + u32::from(top[component]);
            // Contexts tell sums up to 32 apart, of halves, too.
            *size = coder.motion(component, around)?.min(128) as u8;
        }
        if C::CABAC {
            for y in y..y + height {
                for x in x..x + width {
                    self.size[(y + 1) * 5 + x + 1] = size;
                }
            }
        }
        Some(())
    }

    fn keep(&self, list: usize, now: &mut Macroblock) {
        now.motion_right[list] =
            Motion { size: [9, 14, 19, 24].map(|at| self.size[at]), later: [5, 8].map(|at| self.later[at]) };
        now.motion_bottom[list] =
            Motion { size: [21, 22, 23, 24].map(|at| self.size[at]), later: [7, 8].map(|at| self.later[at]) };
    }
}
