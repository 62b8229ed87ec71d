//! From resized frames to the floats of patches.

use rayon::prelude::*;

use super::Cut;
use super::grid::Grid;
use crate::model::vision::pixels::{Levels, Picture};

/// The floats of a step's patches, by colour, frame, row and column in each. `frames` are those of the step, and may be
/// more, and at least one. Where there are too few, the last one stands several times; so a picture is a video of one frame.
pub fn patches(frames: &[Picture], grid: &Grid, cut: &Cut, levels: &Levels) -> Vec<f32> {
    let Cut { patch, frames: step, .. } = *cut;
    let plane = step * patch * patch;
    let places: Vec<(usize, usize)> = grid.places().collect();
    let mut out = vec![0.0; grid.of_step() * cut.numbers()];
    out.par_chunks_exact_mut(cut.numbers()).zip(places).for_each(|(out, (row, column))| {
        let (reds, rest) = out.split_at_mut(plane);
        let (greens, blues) = rest.split_at_mut(plane);
        for turn in 0..step {
            let Some(frame) = frames.get(turn) else {
                let area = patch * patch;
                for colour in [&mut *reds, &mut *greens, &mut *blues] {
                    colour.copy_within((turn - 1) * area..turn * area, turn * area);
                }
                continue;
            };
            for line in 0..patch {
                let from = ((row * patch + line) * frame.width + column * patch) * 3;
                let to = (turn * patch + line) * patch;
                let colours = [&mut *reds, &mut *greens, &mut *blues].map(|colour| &mut colour[to..to + patch]);
                levels.spread(&frame.rgb[from..from + patch * 3], colours);
            }
        }
    });
    out
}
