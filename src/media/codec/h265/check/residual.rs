//! The coefficients of a transform block (ITU-T H.265, 7.3.8.11).
//!
//! Invariant: no level is read that a block cannot have.

use super::contexts::{ABOVE_ONE, ABOVE_TWO, Contexts, GROUP, LAST_X, LAST_Y, NO_TRANSFORM, NOT_ZERO};
use crate::media::codec::cabac::Engine;

/// The arithmetic decoder with its contexts.
pub(super) struct Coder<'a> {
    pub engine: Engine<'a>,
    pub contexts: Contexts,
}

impl Coder<'_> {
    /// A symbol with the context at this place.
    #[inline(always)]
    pub(super) fn bin(&mut self, place: usize) -> bool {
        self.engine.decision(&mut self.contexts[place & 255])
    }
}

/// The order in which a block's coefficients come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scan {
    Diagonal,
    Rows,
    Columns,
}

/// What a block is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// Its size as a power of two, from 2 to 5.
    pub size: u32,
    pub chroma: bool,
    pub scan: Scan,
    /// Whether it may go without a transform if it is small.
    pub may_skip: bool,
    /// Whether a sign can be hidden in the sum of levels.
    pub hides_signs: bool,
}

/// Places in a group of 4×4, as row × 4 + column, in the order of each scan.
const PLACES: [[u8; 16]; 3] = [
    [0, 4, 1, 8, 5, 2, 12, 9, 6, 3, 13, 10, 7, 14, 11, 15],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
];

/// Groups in the order of the diagonal scan, as row × 8 + column, for blocks of 1, 2, 4 and 8 groups a side.
static GROUPS: [[u8; 64]; 4] = [diagonals(1), diagonals(2), diagonals(4), diagonals(8)];

const fn diagonals(side: usize) -> [u8; 64] {
    let mut order = [0; 64];
    let (mut count, mut sum) = (0, 0);
    while sum < 2 * side {
        let mut column = 0;
        while column <= sum {
            if column < side && sum - column < side {
                order[count] = ((sum - column) * 8 + column) as u8;
                count += 1;
            }
            column += 1;
        }
        sum += 1;
    }
    order
}

/// The places that [`PLACES`] and [`GROUPS`] have things at.
static PLACE_AT: [[u8; 16]; 3] = [places_at(PLACES[0]), places_at(PLACES[1]), places_at(PLACES[2])];
static GROUP_AT: [[u8; 64]; 4] = [groups_at(1), groups_at(2), groups_at(4), groups_at(8)];

const fn places_at(order: [u8; 16]) -> [u8; 16] {
    let mut at = [0; 16];
    let mut place = 0;
    while place < 16 {
        at[order[place] as usize] = place as u8;
        place += 1;
    }
    at
}

const fn groups_at(side: usize) -> [u8; 64] {
    let order = diagonals(side);
    let mut at = [0; 64];
    let mut group = 0;
    while group < side * side {
        at[order[group] as usize] = group as u8;
        group += 1;
    }
    at
}

/// The contexts of [`NOT_ZERO`] in a block of 4×4.
const SMALL: [u8; 16] = [0, 1, 4, 5, 2, 3, 4, 5, 6, 6, 8, 8, 7, 7, 8, 8];

/// Those in a group of a larger block, by which groups next to it have coefficients: to the right (1), below (2).
const LARGE: [[u8; 16]; 4] = [
    [2, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    [2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    [2, 1, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0],
    [2; 16],
];

/// The largest level.
const MOST: u32 = 1 << 15;

/// Reads a block's coefficients.
pub(super) fn read(coder: &mut Coder<'_>, block: Block) -> Option<()> {
    let Block { size, chroma, scan, .. } = block;
    if block.may_skip && size == 2 {
        coder.bin(NO_TRANSFORM + usize::from(chroma));
    }
    let (last_group, last_place) = last(coder, block);
    let places = &PLACES[scan as usize];
    let kind = usize::from(chroma);
    let (step, step_inside) = match (chroma, size, scan) {
        (_, 2, _) => (0, 0),
        (false, 3, Scan::Diagonal) => (9, 3),
        (false, 3, _) => (15, 3),
        (false, ..) => (21, 3),
        (true, 3, _) => (9, 0),
        (true, ..) => (12, 0),
    };
    // The groups that have coefficients, a bit a column.
    let mut coded = [0u16; 16];
    let mut greater = 1;
    for group in (0..=last_group).rev() {
        let (row, column) = place_of_group(size, scan, group);
        let right = coded[row & 15] >> (column + 1) & 1;
        let below = coded[(row + 1) & 15] >> column & 1;
        let certain = group == last_group || group == 0;
        if !certain && !coder.bin(GROUP + usize::from(right | below) + 2 * kind) {
            continue;
        }
        coded[row & 15] |= 1 << column;
        let table = if size == 2 { &SMALL } else { &LARGE[usize::from(right | below << 1) & 3] };
        let base = NOT_ZERO + 27 * kind + step + if group > 0 { step_inside } else { 0 };
        // A bit for each coefficient that is not 0, by its place in the scan.
        let (mut list, end) = if group == last_group { (1u32 << last_place, last_place) } else { (0, 16) };
        // A copy, which the compiler keeps in registers.
        let mut engine = coder.engine;
        for place in (1..end).rev() {
            let context = base + usize::from(table[usize::from(places[place & 15]) & 15]);
            list |= u32::from(engine.decision(&mut coder.contexts[context & 255])) << place;
        }
        coder.engine = engine;
        if end > 0 {
            let first = if group == 0 { NOT_ZERO + 27 * kind } else { base + usize::from(table[0]) };
            list |= u32::from(!certain && list == 0 || coder.bin(first));
        }
        if list != 0 {
            let set = if group == 0 || chroma { 0 } else { 2 } + usize::from(group != last_group && greater == 0);
            greater = levels(coder, list, set, block)?;
        }
    }
    Some(())
}

/// The group of the last coefficient and its place in it, by the scan.
#[inline]
fn last(coder: &mut Coder<'_>, block: Block) -> (usize, usize) {
    let Block { size, chroma, scan, .. } = block;
    let (offset, shift) = if chroma { (15, size - 2) } else { (3 * (size - 2) + ((size - 1) >> 2), (size + 1) >> 2) };
    let mut prefix = |base: usize| {
        let most = 2 * size - 1;
        (0..most).find(|&bin| !coder.bin(base + (offset + (bin >> shift)) as usize)).unwrap_or(most)
    };
    let (x, y) = (prefix(LAST_X), prefix(LAST_Y));
    let mut whole = |prefix: u32| {
        if prefix < 4 {
            return prefix;
        }
        let bits = (prefix >> 1) - 1;
        ((2 + (prefix & 1)) << bits) + coder.engine.number(bits)
    };
    let (x, y) = (whole(x), whole(y));
    let (x, y) = if scan == Scan::Columns { (y, x) } else { (x, y) };
    let place = PLACE_AT[scan as usize][((y & 3) << 2 | x & 3) as usize];
    let (row, column) = (y >> 2 & 7, x >> 2 & 7);
    let group = if size == 3 && scan == Scan::Rows {
        (row << 1 | column) as u8
    } else {
        GROUP_AT[(size.wrapping_sub(2) & 3) as usize][(row << 3 | column) as usize]
    };
    (usize::from(group), usize::from(place))
}

/// The row and the column of a group.
#[inline]
fn place_of_group(size: u32, scan: Scan, group: usize) -> (usize, usize) {
    if size == 3 && scan == Scan::Rows {
        return (group >> 1 & 1, group & 1);
    }
    let place = GROUPS[(size.wrapping_sub(2) & 3) as usize][group & 63];
    (usize::from(place >> 3), usize::from(place & 7))
}

/// Reads the levels of a group: how far its contexts went, which those of the next group depend on.
#[inline]
fn levels(coder: &mut Coder<'_>, list: u32, set: usize, block: Block) -> Option<usize> {
    let kind = usize::from(block.chroma);
    let total = list.count_ones();
    let mut greater = 1;
    // A bit for each level above 1, in the order in which they come.
    let mut above_one = 0u32;
    for number in 0..total.min(8) {
        if coder.bin(ABOVE_ONE + 16 * kind + 4 * set + greater) {
            greater = 0;
            above_one |= 1 << number;
        } else if greater > 0 && greater < 3 {
            greater += 1;
        }
    }
    let first = above_one.trailing_zeros();
    let above_two = above_one != 0 && coder.bin(ABOVE_TWO + 4 * kind + set);
    let hidden = block.hides_signs && list.ilog2() - list.trailing_zeros() > 3;
    coder.engine.number(total - u32::from(hidden));
    if above_one == 0 && total <= 8 {
        return Some(greater);
    }
    let mut rice = 0;
    for number in 0..total {
        let (known, most) = match number {
            8.. => (1, 1),
            _ if number == first => (2 + u32::from(above_two), 3),
            _ => (1 + (above_one >> number & 1), 2),
        };
        if known == most {
            let level = known + remaining(&mut coder.engine, rice)?;
            if level > MOST {
                return None;
            }
            if level > 3 << rice {
                rice = (rice + 1).min(4);
            }
        }
    }
    Some(greater)
}

/// What a level has beyond what is known of it.
#[inline]
fn remaining(engine: &mut Engine<'_>, rice: u32) -> Option<u32> {
    let peeked = engine.peek();
    let mut prefix = (peeked << 16).leading_ones();
    if prefix < 4 {
        let code = engine.take(peeked, prefix + 1 + rice);
        return Some((prefix << rice) + (code & ((1 << rice) - 1)));
    }
    engine.take(peeked, prefix + 1);
    if prefix == 16 {
        // All of them were ones. No level has more than two further.
        prefix += (0..3).take_while(|_| engine.bypass()).count() as u32;
    }
    let bits = prefix - 3 + rice;
    (bits <= 15).then(|| (((1 << (prefix - 3)) + 2) << rice) + engine.number(bits))
}
