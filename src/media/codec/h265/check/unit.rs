//! Coding tree blocks, units and their prediction (ITU-T H.265, 7.3.8.2 to 7.3.8.9).
//!
//! Invariant: what is remembered of the blocks to the left and above is that of the blocks read last there, and is used
//! only where those belong to the same slice and tile.

use super::super::sets::Raw;
use super::contexts::*;
use super::residual::Coder;
use super::transform::{Node, exp_golomb};

/// What the parameter sets and the header say of a slice's data. Sizes are powers of two, but for the picture's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tools {
    pub width: u32,
    pub height: u32,
    pub depth: u32,
    pub full_chroma: bool,
    pub block: u32,
    pub least_unit: u32,
    pub least_transform: u32,
    pub most_transform: u32,
    pub inter_depth: u32,
    pub intra_depth: u32,
    pub quarters: bool,
    pub raw: Option<Raw>,
    /// Sample adaptive offsets of luma and of chroma.
    pub offsets: [bool; 2],
    /// The smallest area with its own quantizer.
    pub qp_size: Option<u32>,
    pub transform_skip: bool,
    pub sign_hiding: bool,
    pub lossless_units: bool,
    pub slice: Slice,
}

/// What the header of a slice says of its data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slice {
    /// The pictures of the two lists. The first is 0 in an intra slice, the second in one that has one list.
    pub lists: [u32; 2],
    /// Whether the second motion difference of two is 0.
    pub zero_difference: bool,
    /// How many neighbours motion can be taken from.
    pub merges: u32,
}

/// What is remembered of blocks.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// For each 8 samples: how deep the unit is, times two, and whether it is skipped.
    above: Vec<u8>,
    left: [u8; 8],
    /// The intra modes for each 4 samples, in this block only above.
    modes_above: [u8; 16],
    modes_left: [u8; 16],
}

impl Edges {
    /// Gets ready for a picture.
    pub(super) fn reset(&mut self, width: u32) {
        self.above.clear();
        self.above.resize(width.div_ceil(8) as usize, 0);
    }
}

/// The intra mode of what has none.
const DC: u8 = 1;

/// Reads coding tree blocks.
pub(super) struct Parser<'s, 'b> {
    pub coder: &'s mut Coder<'b>,
    pub tools: &'s Tools,
    pub edges: &'s mut Edges,
    /// Whether the blocks to the left and above are of the same slice and tile.
    pub has_left: bool,
    pub has_above: bool,
    pub qp_known: bool,
}

/// What is known of a unit while its residual is read.
pub(super) struct Unit {
    pub intra: bool,
    pub lossless: bool,
    /// Whether it is intra and cut in four.
    pub in_four: bool,
    /// Whether its residual is split without a word.
    pub cut_at_once: bool,
    pub most_depth: u32,
    pub modes: [Option<u8>; 4],
    pub chroma_modes: [Option<u8>; 4],
}

/// How a unit is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Whole,
    /// In two, of which the first has so many quarters of the height.
    Rows(u32),
    Columns(u32),
    Four,
}

impl Parser<'_, '_> {
    /// `coding_tree_unit` at this place.
    pub(super) fn block(&mut self, x: u32, y: u32) -> Option<()> {
        if self.tools.offsets != [false; 2] {
            self.offsets();
        }
        self.tree(x, y, self.tools.block, 0)
    }

    /// `sao`.
    fn offsets(&mut self) {
        let coder = &mut *self.coder;
        if self.has_left && coder.bin(OFFSETS_MERGED) || self.has_above && coder.bin(OFFSETS_MERGED) {
            return;
        }
        let most = (1 << (self.tools.depth.min(10) - 5)) - 1;
        let mut kind = 0;
        for component in 0..3 {
            if !self.tools.offsets[usize::from(component > 0)] {
                continue;
            }
            if component < 2 {
                kind = if coder.bin(OFFSETS_KIND) { 1 + u32::from(coder.engine.bypass()) } else { 0 };
            }
            if kind == 0 {
                continue;
            }
            let mut signs = 0;
            for _ in 0..4 {
                let size = (0..most).find(|_| !coder.engine.bypass()).unwrap_or(most);
                signs += u32::from(size > 0);
            }
            if kind == 1 {
                coder.engine.number(signs + 5);
            } else if component < 2 {
                coder.engine.number(2);
            }
        }
    }

    /// `coding_quadtree`.
    fn tree(&mut self, x: u32, y: u32, size: u32, depth: u8) -> Option<()> {
        let tools = self.tools;
        let side = 1 << size;
        let split = if size > tools.least_unit && x + side <= tools.width && y + side <= tools.height {
            let (left, above) = self.near(x, y);
            let deeper = |near: Option<u8>| usize::from(near.is_some_and(|near| near >> 1 > depth));
            self.coder.bin(SPLIT + deeper(left) + deeper(above))
        } else {
            size > tools.least_unit
        };
        if tools.qp_size.is_some_and(|least| size >= least) {
            self.qp_known = false;
        }
        if !split {
            return self.unit(x, y, size, depth);
        }
        let half = side / 2;
        for (x, y) in [(x, y), (x + half, y), (x, y + half), (x + half, y + half)] {
            if x < tools.width && y < tools.height {
                self.tree(x, y, size - 1, depth + 1)?;
            }
        }
        Some(())
    }

    /// What is remembered to the left and above.
    fn near(&self, x: u32, y: u32) -> (Option<u8>, Option<u8>) {
        let inside = (1 << self.tools.block) - 1;
        let left = (x & inside != 0 || self.has_left).then(|| self.edges.left[(y >> 3 & 7) as usize]);
        let above = if y & inside != 0 || self.has_above { self.edges.above.get(x as usize >> 3) } else { None };
        (left, above.copied())
    }

    /// Remembers a unit.
    fn mark(&mut self, x: u32, y: u32, size: u32, value: u8) {
        let count = 1usize << (size - 3);
        self.edges.above.iter_mut().skip(x as usize >> 3).take(count).for_each(|edge| *edge = value);
        self.edges.left.iter_mut().skip((y >> 3 & 7) as usize).take(count).for_each(|edge| *edge = value);
    }

    /// Remembers an intra mode.
    fn mark_mode(&mut self, x: u32, y: u32, side: u32, mode: u8) {
        let count = side as usize >> 2;
        self.edges.modes_above.iter_mut().skip((x >> 2 & 15) as usize).take(count).for_each(|edge| *edge = mode);
        self.edges.modes_left.iter_mut().skip((y >> 2 & 15) as usize).take(count).for_each(|edge| *edge = mode);
    }

    /// `coding_unit`.
    fn unit(&mut self, x: u32, y: u32, size: u32, depth: u8) -> Option<()> {
        let tools = self.tools;
        let inter_slice = tools.slice.lists[0] > 0;
        let lossless = tools.lossless_units && self.coder.bin(LOSSLESS);
        if inter_slice {
            let (left, above) = self.near(x, y);
            let skipped = |near: Option<u8>| usize::from(near.is_some_and(|near| near & 1 == 1));
            if self.coder.bin(SKIPPED + skipped(left) + skipped(above)) {
                self.merge_choice();
                self.mark(x, y, size, depth << 1 | 1);
                self.mark_mode(x, y, 1 << size, DC);
                return Some(());
            }
        }
        self.mark(x, y, size, depth << 1);
        let intra = !inter_slice || self.coder.bin(INTRA);
        let cut = if !intra || size == tools.least_unit { self.cut(intra, size) } else { Cut::Whole };
        let mut unit = Unit {
            intra,
            lossless,
            in_four: intra && cut == Cut::Four,
            cut_at_once: !intra && cut != Cut::Whole && tools.inter_depth == 0,
            most_depth: tools.inter_depth,
            modes: [None; 4],
            chroma_modes: [None; 4],
        };
        let mut residual = true;
        if intra {
            unit.most_depth = tools.intra_depth + u32::from(unit.in_four);
            let raw = tools.raw.filter(|raw| cut == Cut::Whole && (raw.least..=raw.most).contains(&size));
            if let Some(raw) = raw.filter(|_| self.coder.engine.terminate()) {
                self.mark_mode(x, y, 1 << size, DC);
                let luma = 1usize << (2 * size);
                let chroma = if tools.full_chroma { luma * 2 } else { luma / 2 };
                self.coder.engine.skip((luma * raw.depth as usize + chroma * raw.chroma_depth as usize) / 8);
                return (!self.coder.engine.overrun()).then_some(());
            }
            self.modes(&mut unit, x, y, 1 << size);
        } else {
            self.mark_mode(x, y, 1 << size, DC);
            let merged = self.parts(cut, size, depth)?;
            residual = cut == Cut::Whole && merged || self.coder.bin(RESIDUAL);
        }
        if residual {
            let root = Node { size, depth: 0, number: 0, part: 0, chroma: [true; 2] };
            self.transforms(&unit, root)?;
        }
        Some(())
    }

    /// `part_mode`.
    fn cut(&mut self, intra: bool, size: u32) -> Cut {
        let coder = &mut *self.coder;
        if coder.bin(PARTS) {
            return Cut::Whole;
        }
        if intra {
            return Cut::Four;
        }
        let rows = coder.bin(PARTS + 1);
        if size == self.tools.least_unit {
            return match rows {
                true => Cut::Rows(2),
                false if size == 3 || coder.bin(PARTS + 2) => Cut::Columns(2),
                false => Cut::Four,
            };
        }
        let mut quarters = 2;
        if self.tools.quarters && !coder.bin(PARTS + 3) {
            quarters = if coder.engine.bypass() { 3 } else { 1 };
        }
        if rows { Cut::Rows(quarters) } else { Cut::Columns(quarters) }
    }

    /// The intra modes of a unit.
    fn modes(&mut self, unit: &mut Unit, x: u32, y: u32, side: u32) {
        let (count, side) = if unit.in_four { (4, side / 2) } else { (1, side) };
        let mut likely = [false; 4];
        likely.iter_mut().take(count).for_each(|likely| *likely = self.coder.bin(LIKELY_MODE));
        for (number, (likely, slot)) in (0u32..).zip(likely.into_iter().zip(&mut unit.modes)).take(count) {
            let (x, y) = (x + side * (number & 1), y + side * (number >> 1));
            let inside = (1 << self.tools.block) - 1;
            let left =
                if x & inside != 0 || self.has_left { self.edges.modes_left[(y >> 2 & 15) as usize] } else { DC };
            let above = if y & inside != 0 { self.edges.modes_above[(x >> 2 & 15) as usize] } else { DC };
            let mut candidates = candidates(left, above);
            let engine = &mut self.coder.engine;
            let mode = if likely {
                let choice = usize::from(engine.bypass());
                candidates[choice + usize::from(choice == 1 && engine.bypass())]
            } else {
                candidates.sort_unstable();
                let rest = engine.number(5) as u8;
                candidates.iter().fold(rest, |mode, &candidate| mode + u8::from(mode >= candidate))
            };
            self.mark_mode(x, y, side, mode);
            *slot = Some(mode);
        }
        if count == 1 {
            unit.modes = [unit.modes[0]; 4];
        }
        let count = if self.tools.full_chroma { count } else { 1 };
        for (slot, luma) in unit.chroma_modes.iter_mut().zip(unit.modes).take(count) {
            *slot = luma;
            if self.coder.bin(CHROMA_MODE) {
                let mode = [0, 26, 10, DC][(self.coder.engine.number(2) & 3) as usize];
                *slot = Some(if luma == Some(mode) { 34 } else { mode });
            }
        }
        if count == 1 {
            unit.chroma_modes = [unit.chroma_modes[0]; 4];
        }
    }

    /// The parts of an inter unit: whether the last takes its motion from a neighbour.
    fn parts(&mut self, cut: Cut, size: u32, depth: u8) -> Option<bool> {
        let side = 1u32 << size;
        // Half of the border of each part.
        let (borders, count) = match cut {
            Cut::Whole => ([2 * side; 4], 1),
            Cut::Rows(quarters) | Cut::Columns(quarters) => {
                let first = side * quarters / 4;
                ([side + first, side + side - first, 0, 0], 2)
            }
            Cut::Four => ([side; 4], 4),
        };
        let mut merged = false;
        for border in borders.into_iter().take(count) {
            merged = self.coder.bin(MERGED);
            if merged {
                self.merge_choice();
            } else {
                self.motion(border, depth)?;
            }
        }
        Some(merged)
    }

    /// `merge_idx`.
    fn merge_choice(&mut self) {
        let most = self.tools.slice.merges;
        if most > 1 && self.coder.bin(MERGE_CHOICE) {
            let _ = (2..most).find(|_| !self.coder.engine.bypass());
        }
    }

    /// The motion of a part.
    fn motion(&mut self, border: u32, depth: u8) -> Option<()> {
        let slice = self.tools.slice;
        let coder = &mut *self.coder;
        let mut lists = [true, false];
        if slice.lists[1] > 0 {
            // The smallest parts have one list.
            if border != 12 && coder.bin(LISTS + usize::from(depth & 3)) {
                lists = [true; 2];
            } else if coder.bin(LISTS + 4) {
                lists = [false, true];
            }
        }
        for (number, (used, count)) in lists.into_iter().zip(slice.lists).enumerate() {
            if !used {
                continue;
            }
            let mut bin = 0;
            while bin + 1 < count {
                let more = if bin < 2 { coder.bin(REFERENCE + bin as usize) } else { coder.engine.bypass() };
                if !more {
                    break;
                }
                bin += 1;
            }
            if !(number == 1 && lists[0] && slice.zero_difference) {
                difference(coder)?;
            }
            coder.bin(PREDICTOR);
        }
        Some(())
    }
}

/// `mvd_coding`.
fn difference(coder: &mut Coder<'_>) -> Option<()> {
    let any = [coder.bin(MOTION_ANY), coder.bin(MOTION_ANY)];
    let more = any.map(|any| any && coder.bin(MOTION_MORE));
    for (any, more) in any.into_iter().zip(more) {
        if !any {
            continue;
        }
        let size = if more { 2 + exp_golomb(&mut coder.engine, 1, 15)? } else { 1 };
        let negative = coder.engine.bypass();
        if size >= 1 << 15 && !(negative && size == 1 << 15) {
            return None;
        }
    }
    Some(())
}

/// The likely intra modes by those to the left and above.
fn candidates(left: u8, above: u8) -> [u8; 3] {
    const PLANAR: u8 = 0;
    match (left, above) {
        (mode, other) if mode == other && mode < 2 => [PLANAR, DC, 26],
        (mode, other) if mode == other => [mode, 2 + (mode + 29) % 32, 2 + (mode - 1) % 32],
        _ => {
            let third = [PLANAR, DC, 26].into_iter().find(|&mode| mode != left && mode != above);
            [left, above, third.unwrap_or(26)]
        }
    }
}
