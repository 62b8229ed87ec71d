//! Macroblocks, whichever way they are coded (ITU-T H.264, 7.3.5).
//!
//! Blocks are kept with a border of what is left of and above the macroblock, so that each finds its neighbours in the
//! same way. Places count 4×4 blocks.

use super::coder::{Around, Block, Coder, Kind, NOT_THERE};
use super::motion::{Motion, STILL};
use crate::media::codec::h264::params::{Pps, Sps};
use crate::media::codec::h264::slice::{Header, Prediction};

/// What later macroblocks need to know of one.
#[derive(Debug, Clone, Copy)]
pub struct Macroblock {
    /// Whether it is there, in the same slice.
    pub there: bool,
    /// Whether it is of a field, in a frame where that can be.
    pub field: bool,
    /// Whether its chroma is as tall as its luma.
    pub tall: bool,
    skipped: bool,
    intra: bool,
    /// Whether it is intra with modes for blocks.
    blocks: bool,
    /// Whether its motion is derived, all of it.
    pub direct: bool,
    transform_8x8: bool,
    chroma_mode: bool,
    /// Which of its blocks have coefficients: a bit for each quarter, and the chroma's << 4.
    pub pattern: u8,
    /// Whether there are DC coefficients: luma, Cb, Cr.
    dc: [u8; 3],
    /// Numbers of coefficients at the right and at the bottom: luma, Cb, Cr.
    pub right: [[u8; 4]; 3],
    bottom: [[u8; 4]; 3],
    /// Modes there.
    pub modes_right: [u8; 4],
    modes_bottom: [u8; 4],
    /// Motion there.
    pub motion_right: [Motion; 2],
    pub motion_bottom: [Motion; 2],
}

/// The mode of blocks that have none: DC.
const DC: u8 = 2;

impl Macroblock {
    /// None is there.
    pub const NONE: Self = Self {
        there: false,
        field: false,
        tall: false,
        skipped: false,
        intra: false,
        blocks: false,
        direct: false,
        transform_8x8: false,
        chroma_mode: false,
        // As contexts have it: nothing in luma is said to be zero, nothing in chroma to be there.
        pattern: 15,
        dc: [NOT_THERE; 3],
        right: [[NOT_THERE; 4]; 3],
        bottom: [[NOT_THERE; 4]; 3],
        modes_right: [DC; 4],
        modes_bottom: [DC; 4],
        motion_right: [STILL; 2],
        motion_bottom: [STILL; 2],
    };

    /// One without coefficients.
    const EMPTY: Self =
        Self { there: true, pattern: 0, dc: [0; 3], right: [[0; 4]; 3], bottom: [[0; 4]; 3], ..Self::NONE };
}

impl Macroblock {
    /// The same as a macroblock of a field, or of none, sees it: fields are half as high and twice as many.
    pub fn seen_from(mut self, field: bool) -> Self {
        if self.field == field {
            return self;
        }
        for motion in self.motion_right.iter_mut().chain(&mut self.motion_bottom) {
            for size in &mut motion.size {
                size[1] = if field { size[1] / 2 } else { size[1].saturating_mul(2) };
            }
            if !field {
                motion.later = motion.later.map(|later| later / 2);
            }
        }
        self
    }
}

/// What is around a macroblock.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Left of it.
    pub left: &'a Macroblock,
    /// Above it.
    pub top: &'a Macroblock,
}

impl Place<'_> {
    /// How many of the two are there and are so: the contexts' usual way to count.
    fn count(&self, so: impl Fn(&Macroblock) -> bool) -> usize {
        usize::from(self.left.there && so(self.left)) + usize::from(self.top.there && so(self.top))
    }

    /// Whether intra blocks can be predicted from the left and from above.
    fn usable(&self, constrained: bool) -> [bool; 2] {
        [self.left, self.top].map(|near| near.there && (near.intra || !constrained))
    }
}

/// Reads macroblocks.
#[derive(Clone, Copy)]
pub struct Parser {
    pub prediction: Prediction,
    pub active: [u32; 2],
    constrained: bool,
    /// Whether macroblocks can use the 8×8 transform.
    transform_8x8: bool,
    /// Whether derived motion is for 8×8 blocks.
    pub direct_8x8: bool,
    gray: bool,
    /// How many rows of blocks chroma has: 2, or 4 in 4:2:2.
    chroma_rows: usize,
    /// Bits of the raw samples of a macroblock.
    raw: usize,
    /// The largest change of the quantizer.
    quantizer: i32,
    /// Whether the macroblock before changed the quantizer.
    changed: bool,
    /// Whether intra modes are not checked: what is around can be partly usable.
    lenient: bool,
}

impl Parser {
    /// For the macroblocks of a slice.
    pub fn new(header: &Header, sps: &Sps, pps: &Pps) -> Self {
        let chroma = match sps.chroma {
            0 => 0,
            1 => 128,
            _ => 256,
        };
        Self {
            prediction: header.prediction,
            active: header.active,
            constrained: pps.constrained_intra,
            transform_8x8: pps.transform_8x8,
            direct_8x8: sps.direct_8x8,
            gray: sps.chroma == 0,
            chroma_rows: if sps.chroma == 2 { 4 } else { 2 },
            raw: 256 * sps.depth as usize + chroma * sps.chroma_depth as usize,
            quantizer: 26 + 3 * (sps.depth as i32 - 8),
            changed: false,
            lenient: pps.constrained_intra && header.mbaff(sps),
        }
    }

    /// Reads whether a macroblock is skipped.
    pub fn skipped<C: Coder>(&mut self, coder: &mut C, place: Place<'_>) -> Option<bool> {
        coder.skipped(place.count(|near| !near.skipped), self.prediction)
    }

    /// A macroblock that is skipped.
    pub fn skip(&mut self) -> Macroblock {
        self.changed = false;
        Macroblock { skipped: true, direct: self.prediction == Prediction::B, ..Macroblock::EMPTY }
    }

    /// Has twice as many references for the macroblocks of fields in frames.
    pub fn fields(&self, field: bool) -> Self {
        let active = self.active.map(|active| if field { active * 2 } else { active });
        Self { active, ..*self }
    }

    /// Whether chroma is as tall as luma.
    pub fn tall(&self) -> bool {
        self.chroma_rows == 4
    }

    /// Takes over what the macroblock before changed.
    pub fn after(&mut self, other: &Self) {
        self.changed = other.changed;
    }

    /// Reads a macroblock that is not skipped.
    pub fn macroblock<C: Coder>(&mut self, coder: &mut C, place: Place<'_>) -> Option<Macroblock> {
        let context = match self.prediction {
            Prediction::I => place.count(|near| !near.blocks),
            Prediction::P => 0,
            Prediction::B => place.count(|near| !near.direct),
        };
        let mut now = Macroblock::EMPTY;
        let kind = coder.kind(context, self.prediction)?;
        match kind {
            Kind::Intra(25) => {
                coder.raw(self.raw)?;
                self.changed = false;
                now.intra = true;
                now.pattern = 0x2f;
                now.dc = [1; 3];
                now.right = [[16; 4]; 3];
                now.bottom = [[16; 4]; 3];
                return Some(now);
            }
            Kind::Intra(number) => self.intra(coder, place, number, &mut now)?,
            Kind::P(_) | Kind::B(_) => {
                let small = self.inter(coder, place, kind, &mut now)?;
                now.pattern =
                    coder.pattern(false, self.gray, Around { left: place.left.pattern, top: place.top.pattern })?;
                if now.pattern & 15 != 0 && self.transform_8x8 && !small {
                    now.transform_8x8 = coder.transform_8x8(place.count(|near| near.transform_8x8))?;
                }
            }
        }
        let whole = now.intra && !now.blocks;
        if now.pattern == 0 && !whole {
            self.changed = false;
            return Some(now);
        }
        let change = coder.quantizer(self.changed)?;
        if !(-self.quantizer..self.quantizer).contains(&change) {
            return None;
        }
        self.changed = change != 0;
        self.luma(coder, place, whole, &mut now)?;
        if now.pattern >> 4 != 0 {
            self.chroma(coder, place, &mut now)?;
        }
        Some(now)
    }

    fn intra<C: Coder>(&self, coder: &mut C, place: Place<'_>, number: u32, now: &mut Macroblock) -> Option<()> {
        now.intra = true;
        let [left, top] = if self.lenient { [true; 2] } else { place.usable(self.constrained) };
        // Across needs what is left, down what is above, and the third way both.
        let possible = |mode: u8, across: u8, down: u8| match mode {
            3 => left && top,
            mode if mode == across => left,
            mode if mode == down => top,
            _ => true,
        };
        if number == 0 {
            now.blocks = true;
            if self.transform_8x8 {
                now.transform_8x8 = coder.transform_8x8(place.count(|near| near.transform_8x8))?;
            }
            modes(coder, place, [left, top], now)?;
        } else if !possible(((number - 1) % 4) as u8, 1, 0) {
            return None;
        }
        if !self.gray {
            let mode = coder.chroma_mode(place.count(|near| near.chroma_mode))?;
            now.chroma_mode = mode != 0;
            if !possible(mode, 1, 2) {
                return None;
            }
        }
        now.pattern = match number.checked_sub(1) {
            None => coder.pattern(true, self.gray, Around { left: place.left.pattern, top: place.top.pattern })?,
            Some(number) => {
                let chroma = (number / 4 % 3) as u8;
                if self.gray && chroma != 0 {
                    return None;
                }
                chroma << 4 | if number >= 12 { 15 } else { 0 }
            }
        };
        Some(())
    }

    fn luma<C: Coder>(&self, coder: &mut C, place: Place<'_>, whole: bool, now: &mut Macroblock) -> Option<()> {
        let mut counts = border::<25>(5, &place.left.right[0], &place.top.bottom[0]);
        let around = |counts: &[u8; 25], x: usize, y: usize| Around {
            left: counts[(y + 1) * 5 + x],
            top: counts[y * 5 + x + 1],
        };
        if whole {
            // Whether there are DC coefficients is what CABAC looks at; CAVLC looks at the first block.
            let near = match C::CABAC {
                true => Around { left: place.left.dc[0], top: place.top.dc[0] },
                false => around(&counts, 0, 0),
            };
            now.dc[0] = coder.block(Block::LumaDc, 16, true, near)?;
        }
        let (block, most) = if whole { (Block::LumaAc, 15) } else { (Block::Luma, 16) };
        for quarter in 0..4 {
            if now.pattern >> quarter & 1 == 0 {
                continue;
            }
            let (x, y) = (quarter % 2 * 2, quarter / 2 * 2);
            if C::CABAC && now.transform_8x8 {
                let none = Around { left: 0, top: 0 };
                let count = coder.block(Block::Luma8x8, 64, now.intra, none)?;
                for (x, y) in [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)] {
                    counts[(y + 1) * 5 + x + 1] = count;
                }
                continue;
            }
            for (x, y) in [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)] {
                counts[(y + 1) * 5 + x + 1] = coder.block(block, most, now.intra, around(&counts, x, y))?;
            }
        }
        now.right[0] = [9, 14, 19, 24].map(|at| counts[at]);
        now.bottom[0] = [21, 22, 23, 24].map(|at| counts[at]);
        Some(())
    }

    fn chroma<C: Coder>(&self, coder: &mut C, place: Place<'_>, now: &mut Macroblock) -> Option<()> {
        let rows = self.chroma_rows;
        for plane in 1..3 {
            let near = Around { left: place.left.dc[plane], top: place.top.dc[plane] };
            now.dc[plane] = coder.block(Block::ChromaDc, rows as u32 * 2, now.intra, near)?;
        }
        if now.pattern >> 4 == 1 {
            return Some(());
        }
        for plane in 1..3 {
            let top = place.top.bottom[plane];
            let mut counts = border::<15>(3, &place.left.right[plane], &top[..2]);
            for y in 0..rows {
                for x in 0..2 {
                    let near = Around { left: counts[(y + 1) * 3 + x], top: counts[y * 3 + x + 1] };
                    counts[(y + 1) * 3 + x + 1] = coder.block(Block::ChromaAc, 15, now.intra, near)?;
                }
            }
            now.right[plane] = [5, 8, 11, 14].map(|at| counts[at]);
            now.bottom[plane][0] = counts[rows * 3 + 1];
            now.bottom[plane][1] = counts[rows * 3 + 2];
        }
        Some(())
    }
}

/// Zeros with a border at the left and above, in rows of `width`.
fn border<const N: usize>(width: usize, left: &[u8], top: &[u8]) -> [u8; N] {
    let mut cells = [0; N];
    for (cell, from) in cells.iter_mut().skip(1).zip(top) {
        *cell = *from;
    }
    for (cell, from) in cells.iter_mut().skip(width).step_by(width).zip(left) {
        *cell = *from;
    }
    cells
}

/// Reads the modes of intra blocks.
fn modes<C: Coder>(coder: &mut C, place: Place<'_>, usable: [bool; 2], now: &mut Macroblock) -> Option<()> {
    let [left, top] = usable;
    let mut modes = border::<25>(5, &place.left.modes_right, &place.top.modes_bottom);
    let step = if now.transform_8x8 { 2 } else { 1 };
    for at in (0..16).step_by(step * step) {
        let (x, y) = (at & 1 | at >> 1 & 2, at >> 1 & 1 | at >> 2 & 2);
        let (has_left, has_top) = (x > 0 || left, y > 0 || top);
        // What is expected is the lower one of the two, and DC where one is missing.
        let expected = match has_left && has_top {
            true => modes[(y + 1) * 5 + x].min(modes[y * 5 + x + 1]),
            false => DC,
        };
        let mode = match coder.mode()? {
            None => expected,
            Some(other) => other + u8::from(other >= expected),
        };
        let possible = match mode {
            0 | 3 | 7 => has_top,
            1 | 8 => has_left,
            4..7 => has_left && has_top,
            _ => true,
        };
        if !possible {
            return None;
        }
        for y in y..y + step {
            for x in x..x + step {
                modes[(y + 1) * 5 + x + 1] = mode;
            }
        }
    }
    now.modes_right = [9, 14, 19, 24].map(|at| modes[at]);
    now.modes_bottom = [21, 22, 23, 24].map(|at| modes[at]);
    Some(())
}
