//! The elements of a slice in CABAC (ITU-T H.264, 9.3).

use super::coder::{Around, Block, Coder, Kind, NOT_THERE, stop};
use super::contexts;
use crate::media::codec::cabac::Engine;
use crate::media::codec::h264::slice::Prediction;

/// Reads elements in CABAC.
pub struct Cabac<'a> {
    bytes: &'a [u8],
    engine: Engine<'a>,
    states: [u8; 512],
    stop: usize,
    /// Whether the macroblocks are of fields: their coefficients have other contexts.
    field: bool,
}

impl<'a> Cabac<'a> {
    /// Starts at the bit after a slice header.
    pub fn new(bytes: &'a [u8], at: usize, set: u32, qp: i32, field: bool) -> Option<Self> {
        let first = at.div_ceil(8);
        // The bits up to the next byte are ones.
        let ones =
            at.is_multiple_of(8) || bytes.get(first - 1).is_some_and(|byte| byte | 0xffu8 << (8 - at % 8) == 0xff);
        let stop = stop(bytes).filter(|_| ones)?;
        Some(Self { bytes, engine: Engine::new(bytes, first), states: contexts::start(set, qp), stop, field })
    }

    #[inline(always)]
    fn bit(&mut self, context: usize) -> bool {
        self.engine.decision(&mut self.states[context & 511])
    }

    #[inline(always)]
    fn one(&mut self, context: usize) -> u32 {
        u32::from(self.engine.decision(&mut self.states[context & 511]))
    }

    /// The kind of an intra macroblock. In I slices the contexts are further apart.
    fn intra(&mut self, first: usize, base: usize, apart: usize) -> u32 {
        if !self.bit(first) {
            return 0;
        }
        if self.engine.terminate() {
            return 25;
        }
        let luma = self.one(base + 1);
        let chroma = if self.bit(base + 2) { 1 + self.one(base + 2 + apart) } else { 0 };
        let mode = self.one(base + 3 + apart) << 1;
        let mode = mode | self.one(base + 3 + 2 * apart);
        1 + 12 * luma + 4 * chroma + mode
    }

    /// A number in unary, then in Exp-Golomb code of order `order`; `None` if it is too large to be.
    #[inline]
    fn golomb(&mut self, mut order: u32) -> Option<u32> {
        let mut sum = 0;
        while self.engine.bypass() {
            sum += 1 << order;
            order += 1;
            if order > 20 {
                return None;
            }
        }
        while order > 0 {
            order -= 1;
            sum += u32::from(self.engine.bypass()) << order;
        }
        Some(sum)
    }
}

impl Coder for Cabac<'_> {
    const CABAC: bool = true;

    fn skipped(&mut self, context: usize, prediction: Prediction) -> Option<bool> {
        Some(match prediction {
            Prediction::I => false,
            Prediction::P => self.bit(11 + context),
            Prediction::B => self.bit(24 + context),
        })
    }

    fn ends(&mut self, _skipped: bool) -> Option<bool> {
        Some(self.engine.terminate())
    }

    fn kind(&mut self, context: usize, prediction: Prediction) -> Option<Kind> {
        Some(match prediction {
            Prediction::I => Kind::Intra(self.intra(3 + context, 5, 1)),
            Prediction::P if self.bit(14) => Kind::Intra(self.intra(17, 17, 0)),
            Prediction::P if self.bit(15) => Kind::P(2 - self.one(17)),
            Prediction::P => Kind::P(3 * self.one(16)),
            Prediction::B if !self.bit(27 + context) => Kind::B(0),
            Prediction::B if !self.bit(30) => Kind::B(1 + self.one(32)),
            Prediction::B => {
                let mut bits = self.one(31);
                for _ in 0..3 {
                    bits = bits << 1 | self.one(32);
                }
                match bits {
                    0..8 => Kind::B(3 + bits),
                    13 => Kind::Intra(self.intra(32, 32, 0)),
                    14 => Kind::B(11),
                    15 => Kind::B(22),
                    _ => Kind::B((bits << 1 | self.one(32)) - 4),
                }
            }
        })
    }

    fn quarter(&mut self, prediction: Prediction) -> Option<u32> {
        if prediction == Prediction::P {
            return Some(match () {
                () if self.bit(21) => 0,
                () if !self.bit(22) => 1,
                () => 3 - self.one(23),
            });
        }
        if !self.bit(36) {
            return Some(0);
        }
        if !self.bit(37) {
            return Some(1 + self.one(39));
        }
        let mut kind = 3;
        if self.bit(38) {
            if self.bit(39) {
                return Some(11 + self.one(39));
            }
            kind = 7;
        }
        kind += 2 * self.one(39);
        Some(kind + self.one(39))
    }

    fn transform_8x8(&mut self, context: usize) -> Option<bool> {
        Some(self.bit(399 + context))
    }

    fn mode(&mut self) -> Option<Option<u8>> {
        if self.bit(68) {
            return Some(None);
        }
        let mode = self.one(69);
        let mode = mode | self.one(69) << 1;
        Some(Some((mode | self.one(69) << 2) as u8))
    }

    fn chroma_mode(&mut self, context: usize) -> Option<u8> {
        Some(match () {
            () if !self.bit(64 + context) => 0,
            () if !self.bit(67) => 1,
            () if !self.bit(67) => 2,
            () => 3,
        })
    }

    fn reference(&mut self, context: usize, active: u32) -> Option<u32> {
        if !self.bit(54 + context) {
            return Some(0);
        }
        let mut reference = 1;
        let mut context = 58;
        while reference < active && self.bit(context) {
            reference += 1;
            context = 59;
        }
        (reference < active).then_some(reference)
    }

    fn motion(&mut self, component: usize, around: u32) -> Option<u32> {
        let base = 40 + 7 * component;
        let context = usize::from(around > 2) + usize::from(around > 32);
        if !self.bit(base + context) {
            return Some(0);
        }
        let mut size = 1;
        let mut context = base + 3;
        while size < 9 && self.bit(context) {
            context += usize::from(size < 4);
            size += 1;
        }
        if size == 9 {
            size += self.golomb(3)?;
        }
        self.engine.bypass();
        // Vectors are of −8192 to 8191.75, so two of them are at most twice that apart.
        (size <= 1 << 16).then_some(size)
    }

    fn pattern(&mut self, _intra: bool, gray: bool, around: Around) -> Option<u8> {
        let Around { left, top } = around;
        let none = |pattern: u8, bit: u8| usize::from(pattern >> bit & 1 == 0);
        let mut pattern = self.one(73 + none(left, 1) + 2 * none(top, 2)) as u8;
        pattern |= (self.one(73 + none(pattern, 0) + 2 * none(top, 3)) as u8) << 1;
        pattern |= (self.one(73 + none(left, 3) + 2 * none(pattern, 0)) as u8) << 2;
        pattern |= (self.one(73 + none(pattern, 2) + 2 * none(pattern, 1)) as u8) << 3;
        if !gray {
            let (left, top) = (left >> 4, top >> 4);
            if self.bit(77 + usize::from(left > 0) + 2 * usize::from(top > 0)) {
                pattern |= (1 + self.one(81 + usize::from(left == 2) + 2 * usize::from(top == 2)) as u8) << 4;
            }
        }
        Some(pattern)
    }

    fn quantizer(&mut self, changed: bool) -> Option<i32> {
        if !self.bit(60 + usize::from(changed)) {
            return Some(0);
        }
        let mut code = 1i32;
        let mut context = 62;
        while self.bit(context) {
            context = 63;
            code += 1;
            if code > 80 {
                return None;
            }
        }
        Some(if code % 2 == 1 { (code + 1) / 2 } else { -(code / 2) })
    }

    #[inline]
    fn block(&mut self, block: Block, most: u32, intra: bool, around: Around) -> Option<u8> {
        let place = block as usize;
        if block != Block::Luma8x8 {
            let coded = |count: u8| if count == NOT_THERE { usize::from(intra) } else { usize::from(count != 0) };
            if !self.bit(85 + 4 * place + coded(around.left) + 2 * coded(around.top)) {
                return Some(0);
            }
        }
        let at = &PLACES[place];
        let (significant, last) =
            if self.field { (at.significant_field, at.last_field) } else { (at.significant, at.last) };
        let mut count = 0u8;
        let ends = most as usize - 1;
        let mut position = 0;
        match block {
            Block::Luma8x8 => {
                let map = if self.field { &SIGNIFICANT_8X8_FIELD } else { &SIGNIFICANT_8X8 };
                while position < ends {
                    if self.bit(significant + usize::from(map[position & 63])) {
                        count += 1;
                        if self.bit(last + usize::from(LAST_8X8[position & 63])) {
                            break;
                        }
                    }
                    position += 1;
                }
            }
            Block::ChromaDc => {
                let step = most as usize / 4;
                while position < ends {
                    let context = (position / step).min(2);
                    if self.bit(significant + context) {
                        count += 1;
                        if self.bit(last + context) {
                            break;
                        }
                    }
                    position += 1;
                }
            }
            _ => {
                while position < ends {
                    if self.bit(significant + position) {
                        count += 1;
                        if self.bit(last + position) {
                            break;
                        }
                    }
                    position += 1;
                }
            }
        }
        // The last one is there if none before it was said to be the last.
        count += u8::from(position == ends);
        let (mut ones, mut larger) = (1, 0);
        let larger_most = if block == Block::ChromaDc { 3 } else { 4 };
        for _ in 0..count {
            let context = if larger > 0 { 0 } else { ones };
            if self.bit(at.level + context) {
                let context = at.level + 5 + larger.min(larger_most);
                let mut size = 2;
                while size < 15 && self.bit(context) {
                    size += 1;
                }
                if size == 15 {
                    // More than the transform of 14 bit samples gives.
                    self.golomb(0).filter(|&size| size < 1 << 19)?;
                }
                larger += 1;
            } else {
                ones = (ones + 1).min(4);
            }
            self.engine.bypass();
        }
        Some(count)
    }

    fn raw(&mut self, bits: usize) -> Option<()> {
        let at = self.engine.position();
        let first = at.div_ceil(8);
        let zeros = at.is_multiple_of(8) || self.bytes.get(first - 1).is_some_and(|byte| byte << (at % 8) == 0);
        let after = first + bits / 8;
        if !zeros || after >= self.bytes.len() {
            return None;
        }
        self.engine = Engine::new(self.bytes, after);
        Some(())
    }

    fn is_field(&mut self, context: usize) -> Option<bool> {
        Some(self.bit(70 + context))
    }

    fn set_field(&mut self, field: bool) {
        self.field = field;
    }

    fn exact(&self) -> bool {
        // The last bit that was read is the stop bit. x264 sets the last bit of its byte at random.
        let last = self.engine.position().saturating_sub(1);
        let one = self.bytes.get(last / 8).is_some_and(|byte| byte >> (7 - last % 8) & 1 == 1);
        one && last / 8 == self.stop / 8
    }

    fn overrun(&self) -> bool {
        self.engine.position() > (self.stop / 8 + 1) * 8
    }
}

/// Where the contexts of a kind of block begin.
struct Place {
    significant: usize,
    significant_field: usize,
    last: usize,
    last_field: usize,
    level: usize,
}

/// By [`Block`].
const PLACES: [Place; 6] = {
    const fn at(block: usize, level: usize) -> Place {
        Place {
            significant: 105 + block,
            significant_field: 277 + block,
            last: 166 + block,
            last_field: 338 + block,
            level: 227 + level,
        }
    }
    let large = Place { significant: 402, significant_field: 436, last: 417, last_field: 451, level: 426 };
    [at(0, 0), at(15, 10), at(29, 20), at(44, 30), at(47, 39), large]
};

#[rustfmt::skip]
const SIGNIFICANT_8X8: [u8; 64] = [
    0, 1, 2, 3, 4, 5, 5, 4, 4, 3, 3, 4, 4, 4, 5, 5, 4, 4, 4, 4, 3, 3, 6, 7, 7, 7, 8, 9, 10, 9, 8, 7,
    7, 6, 11, 12, 13, 11, 6, 7, 8, 9, 14, 10, 9, 8, 6, 11, 12, 13, 11, 6, 9, 14, 10, 9, 11, 12, 13, 11, 14, 10, 12, 0,
];

#[rustfmt::skip]
const SIGNIFICANT_8X8_FIELD: [u8; 64] = [
    0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 7, 7, 8, 4, 5, 6, 9, 10, 10, 8, 11, 12, 11, 9, 9, 10, 10, 8, 11, 12, 11,
    9, 9, 10, 10, 8, 11, 12, 11, 9, 9, 10, 10, 8, 13, 13, 9, 9, 10, 10, 8, 13, 13, 9, 9, 10, 10, 14, 14, 14, 14, 14, 0,
];

#[rustfmt::skip]
const LAST_8X8: [u8; 64] = [
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
    3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 8, 8, 8, 0,
];
