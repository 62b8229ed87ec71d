//! How Qwen2.5-VL reads a picture or a video: one run of rows, at positions in time, row and column.
//!
//! Time is absolute: a step of a video stands `tokens_per_second` positions behind another for each second between
//! them, rounded down. What follows a video stands behind its highest position, be that a time or a place. That is what
//! the public checkpoints were trained with and what transformers did up to 4.57; release 5 begins the text behind a
//! video after its rows and columns alone, so that its positions can go backwards. And 4.57 cuts the seconds of a step
//! to a whole number before it multiplies, which the original does not do and neither do we.

use crate::model::vision::qwen::budget::Budget;
use crate::model::vision::qwen::grid::Grid;
use crate::model::vision::qwen::{Cut, plain};
use crate::model::vision::{Medium, Plan, Run, check_rows};

/// The latest position in time; beyond it, 32-bit floats cannot tell one from the next.
const LATEST: u32 = 1 << 24;

/// The plan for a medium.
pub fn plan(medium: &Medium<'_>, budget: &Budget, cut: &Cut, tokens_per_second: f32) -> Result<Plan, String> {
    let frames = medium.frames();
    let Some(first) = frames.first() else { return Err("there are no frames to show".to_owned()) };
    let (size, seconds) = match medium {
        Medium::Image(_) => (budget.of_picture(first.width(), first.height(), cut.square())?, 0.0),
        Medium::Video(clip) => {
            let size = budget.of_frames(first.width(), first.height(), frames.len(), cut.square(), cut.frames)?;
            (size, cut.frames as f64 / clip.rate())
        }
    };
    let grid = Grid::new(frames.len(), size, cut);
    let rows = grid.steps.saturating_mul(grid.merged());
    check_rows(rows)?;
    // In 32-bit floats and in this order, as the reference.
    let time = |step: usize| (step as f32 * seconds as f32 * tokens_per_second) as u32;
    if time(grid.steps - 1) > LATEST {
        return Err(format!("the video is too long: its last step would stand at position {}", time(grid.steps - 1)));
    }
    let positions = (0..grid.steps).flat_map(|step| grid.positions(time(step))).collect();
    Ok(Plan { layout: plain(medium, rows), runs: vec![Run { positions }], sizes: vec![size], grid: grid.sizes() })
}
