//! The grid of a picture's patches, in the order in which the tower gets them.
//!
//! Invariant: patches stand step by step, in a step square by square, in a square row by row. So the rows of a square
//! lie together, and merging is a reshape.

use super::Cut;
use crate::model::rope::Position;
use crate::model::vision::Plan;

/// Patches of a picture or a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Steps in time.
    pub steps: usize,
    /// Rows of patches.
    pub rows: usize,
    /// Columns of patches.
    pub columns: usize,
    /// The side of a merged square.
    pub merge: usize,
}

impl Grid {
    /// For so many frames of a size that is a whole number of squares.
    pub fn new(frames: usize, (width, height): (usize, usize), cut: &Cut) -> Self {
        let Cut { patch, frames: step, merge } = *cut;
        Self { steps: frames.div_ceil(step), rows: height / patch, columns: width / patch, merge }
    }

    /// That of a plan.
    pub fn of(plan: &Plan, cut: &Cut) -> Self {
        let [steps, rows, columns] = plan.grid;
        Self { steps, rows, columns, merge: cut.merge }
    }

    /// That of one step of a plan.
    pub fn of_one_step(plan: &Plan, cut: &Cut) -> Self {
        Self { steps: 1, ..Self::of(plan, cut) }
    }

    /// Steps, rows and columns.
    pub fn sizes(&self) -> [usize; 3] {
        [self.steps, self.rows, self.columns]
    }

    /// Patches of a step.
    pub fn of_step(&self) -> usize {
        self.rows * self.columns
    }

    /// Merged rows and columns of a step.
    pub fn squares(&self) -> (usize, usize) {
        (self.rows / self.merge, self.columns / self.merge)
    }

    /// Merged rows of a step, in number.
    pub fn merged(&self) -> usize {
        self.of_step() / (self.merge * self.merge)
    }

    /// Row and column of each patch of a step, in the tower's order.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + Clone + use<> {
        let (merge, (rows, columns)) = (self.merge, self.squares());
        (0..rows * columns * merge * merge).map(move |at| {
            let (square, within) = (at / (merge * merge), at % (merge * merge));
            (square / columns * merge + within / merge, square % columns * merge + within % merge)
        })
    }

    /// The position of each merged row of a step that is shown at `time`.
    pub fn positions(&self, time: u32) -> impl Iterator<Item = Position> + use<> {
        let (rows, columns) = self.squares();
        (0..rows).flat_map(move |row| (0..columns).map(move |column| [time, row as u32, column as u32]))
    }

    /// Cosines' and sines' angles of each patch of a step: half of the pairs of a head turn by its row, half by its column.
    pub fn angles(&self, head_dim: usize, base: f64) -> Vec<f32> {
        let pairs = head_dim / 4;
        let speeds: Vec<f32> =
            (0..pairs).map(|pair| 1.0 / (base as f32).powf((2 * pair) as f32 / (2 * pairs) as f32)).collect();
        self.places()
            .flat_map(|(row, column)| [row, column])
            .flat_map(|place| speeds.iter().map(move |speed| place as f32 * speed))
            .collect()
    }
}
