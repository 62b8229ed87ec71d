//! How Qwen3-VL reads a picture or a video: a run of rows for each step in time, behind its time in words.
//!
//! ```text
//!  <0.2 seconds><|vision_start|>…<|vision_end|><1.2 seconds><|vision_start|>…<|vision_end|>
//! ```
//!
//! The time of a step is the middle between its first and its last frame, with one decimal (0.25 is 0.2). That takes
//! the place of the start, placeholder and end that the chat template writes, as transformers did up to 4.57 and as the
//! public checkpoints were trained; release 5 leaves that outer start and end around all steps. 4.57 counts the frames
//! of a step by the size of a merged square, which is the same number, 2, in all public checkpoints; here they are
//! counted by the step.

use crate::model::vision::qwen::budget::Budget;
use crate::model::vision::qwen::grid::Grid;
use crate::model::vision::qwen::{Cut, plain, timed_step};
use crate::model::vision::{Medium, Plan, Run, check_rows};

/// The plan for a medium.
pub fn plan(medium: &Medium<'_>, budget: &Budget, cut: &Cut) -> Result<Plan, String> {
    let frames = medium.frames();
    let Some(first) = frames.first() else { return Err("there are no frames to show".to_owned()) };
    let (width, height) = (first.width(), first.height());
    let size = match medium {
        Medium::Image(_) => budget.of_picture(width, height, cut.square())?,
        Medium::Video(_) => budget.of_video(width, height, frames.len(), cut.square(), cut.frames)?,
    };
    let grid = Grid::new(frames.len(), size, cut);
    let rows = grid.merged();
    check_rows(rows.saturating_mul(grid.steps))?;
    let layout = match medium {
        Medium::Image(_) => plain(medium, rows),
        Medium::Video(clip) => {
            let middle = |times: &[f64]| (times[0] + times[times.len() - 1]) / 2.0;
            // In a step that is not full, the last frame stands for those that are missing.
            clip.times().chunks(cut.frames).map(|times| timed_step(middle(times), rows)).collect()
        }
    };
    let run = Run { positions: grid.positions(0).collect() };
    Ok(Plan { layout, runs: vec![run; grid.steps], sizes: vec![size], grid: grid.sizes() })
}
