//! How a unit's residual is cut into transform blocks (ITU-T H.265, 7.3.8.8 to 7.3.8.10).
//!
//! Invariant: a block is never split below the smallest size, so the depth is bounded.

use super::contexts::{CODED_CHROMA, CODED_LUMA, QP_CHANGE, SPLIT_TRANSFORM};
use super::residual::{self, Block, Scan};
use super::unit::{Parser, Unit};

/// A block of the tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Its size as a power of two, and how often the unit was split.
    pub size: u32,
    pub depth: u32,
    /// Which of the four of its parent it is.
    pub number: usize,
    /// Which part of the unit it is in, if that is cut in four.
    pub part: usize,
    /// Whether the two chroma components have coefficients.
    pub chroma: [bool; 2],
}

impl Parser<'_, '_> {
    /// `transform_tree`.
    pub(super) fn transforms(&mut self, unit: &Unit, node: Node) -> Option<()> {
        let tools = self.tools;
        let Node { size, depth, .. } = node;
        let four = unit.in_four && depth == 0;
        let free = size <= tools.most_transform && size > tools.least_transform && depth < unit.most_depth && !four;
        let split = if free {
            self.coder.bin(SPLIT_TRANSFORM + 5usize.saturating_sub(size as usize))
        } else {
            size > tools.most_transform || four || unit.cut_at_once && depth == 0
        };
        let mut chroma = node.chroma;
        if size > 2 || tools.full_chroma {
            for coded in &mut chroma {
                *coded = *coded && self.coder.bin(CODED_CHROMA + (depth as usize).min(4));
            }
        }
        if !split {
            let any = chroma[0] || chroma[1];
            let luma = !(unit.intra || depth > 0 || any) || self.coder.bin(CODED_LUMA + usize::from(depth == 0));
            return self.transform(unit, Node { chroma, ..node }, luma);
        }
        if size <= 2 {
            return None;
        }
        for number in 0..4 {
            let part = if depth == 0 { number } else { node.part };
            self.transforms(unit, Node { size: size - 1, depth: depth + 1, number, part, chroma })?;
        }
        Some(())
    }

    /// `transform_unit`.
    fn transform(&mut self, unit: &Unit, node: Node, luma: bool) -> Option<()> {
        let any = node.chroma[0] || node.chroma[1];
        if !luma && !any {
            return Some(());
        }
        if self.tools.qp_size.is_some() && !self.qp_known {
            self.quantizer()?;
        }
        if luma {
            let mode = unit.modes.get(node.part).copied().flatten();
            self.residual(unit, node.size, false, mode)?;
        }
        let size = match (self.tools.full_chroma, node.size) {
            (true, size) => size,
            (false, 3..) => node.size - 1,
            // Four small blocks share one of chroma, which comes with the last.
            (false, _) if node.number == 3 => 2,
            (false, _) => return Some(()),
        };
        let part = if self.tools.full_chroma { node.part } else { 0 };
        let mode = unit.chroma_modes.get(part).copied().flatten();
        for _ in node.chroma.iter().filter(|&&coded| coded) {
            self.residual(unit, size, true, mode)?;
        }
        Some(())
    }

    /// The change of the quantizer.
    fn quantizer(&mut self) -> Option<()> {
        self.qp_known = true;
        let coder = &mut *self.coder;
        let mut change = (0..5).find(|&bin| !coder.bin(QP_CHANGE + usize::from(bin > 0))).unwrap_or(5);
        if change == 5 {
            change += exp_golomb(&mut coder.engine, 0, 7)?;
        }
        let negative = change > 0 && coder.engine.bypass();
        let most = 25 + 3 * (self.tools.depth - 8) + u32::from(negative);
        (change <= most).then_some(())
    }

    fn residual(&mut self, unit: &Unit, size: u32, chroma: bool, mode: Option<u8>) -> Option<()> {
        let follows = size == 2 || size == 3 && (!chroma || self.tools.full_chroma);
        let scan = match mode {
            Some(6..=14) if follows => Scan::Columns,
            Some(22..=30) if follows => Scan::Rows,
            _ => Scan::Diagonal,
        };
        let may_skip = self.tools.transform_skip && !unit.lossless;
        let hides_signs = self.tools.sign_hiding && !unit.lossless;
        residual::read(self.coder, Block { size, chroma, scan, may_skip, hides_signs })
    }
}

/// An Exp-Golomb number of the order, with a prefix of less than `most`.
pub(super) fn exp_golomb(engine: &mut crate::media::codec::cabac::Engine<'_>, order: u32, most: u32) -> Option<u32> {
    let mut bits = order;
    let mut number = 0;
    while engine.bypass() {
        number += 1 << bits;
        bits += 1;
        if bits - order >= most {
            return None;
        }
    }
    Some(number + if bits > 0 { engine.number(bits) } else { 0 })
}
