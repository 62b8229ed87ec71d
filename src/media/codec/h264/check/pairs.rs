//! Frames whose macroblock pairs can be fields (MBAFF): what is around a macroblock (ITU-T H.264, 6.4.12.2).
//!
//! What is left of a macroblock can be rows of both macroblocks of a pair. They are put together here, so that the
//! macroblock itself is read as any other.

use super::macroblock::Macroblock;

/// A pair of macroblocks, the upper one (or the top field) first.
pub type Pair = [Macroblock; 2];

/// No pair.
pub const NO_PAIR: Pair = [Macroblock::NONE; 2];

/// Whether a pair that does not say is of fields: as the one on the left, or else above.
pub fn inferred(left: &Pair, above: &Pair) -> bool {
    [left, above].into_iter().find(|pair| pair[0].there).is_some_and(|pair| pair[0].field)
}

/// What is left of the macroblock at `place` (0 or 1) of a pair.
pub fn left(pair: &Pair, place: usize, field: bool) -> Macroblock {
    let place = place & 1;
    if !pair[0].there || pair[0].field == field {
        return pair[place];
    }
    // For each row of blocks: which macroblock of the pair is left of it, and which of its rows.
    let rows = match (field, place) {
        (false, 0) => [(0, 0), (0, 0), (0, 1), (0, 1)],
        (false, _) => [(0, 2), (0, 2), (0, 3), (0, 3)],
        (true, _) => [(0, 0), (0, 2), (1, 0), (1, 2)],
    };
    let mut near = pair[0];
    for (row, (from, at)) in rows.into_iter().enumerate() {
        near.right[0][row] = pair[from].right[0][at];
        near.modes_right[row] = pair[from].modes_right[at];
        for list in 0..2 {
            near.motion_right[list].size[row] = pair[from].motion_right[list].size[at];
        }
        for plane in 1..3 {
            // Chroma has as many rows in 4:2:2. In 4:2:0 it has two, each as high as two of luma's.
            let (from, at) = if near.tall { (from, at) } else { half(rows[row % 2 * 2]) };
            near.right[plane][row] = pair[from].right[plane][at];
        }
    }
    for (row, (from, at)) in [half(rows[0]), half(rows[2])].into_iter().enumerate() {
        for list in 0..2 {
            near.motion_right[list].later[row] = pair[from].motion_right[list].later[at];
        }
    }
    let bit = |(from, at): (usize, usize)| pair[from].pattern >> (1 + at / 2 * 2) & 1;
    near.pattern = near.pattern & !0b1010 | bit(rows[0]) << 1 | bit(rows[2]) << 3;
    near.seen_from(field)
}

/// The same place in blocks that are twice as high.
fn half((from, row): (usize, usize)) -> (usize, usize) {
    (from, row / 2)
}

/// What is above the macroblock at `place` of a pair, whose first one is `first`.
pub fn above(pair: &Pair, first: &Macroblock, place: usize, field: bool) -> Macroblock {
    match (field, place) {
        (false, 1) => *first,
        (true, 0) if pair[0].field => pair[0],
        _ => pair[1].seen_from(field),
    }
}
