//! The elements of a slice in CAVLC (ITU-T H.264, 9.1 and 9.2).

use super::coder::{Around, Block, Coder, Kind, NOT_THERE, stop};
use super::words;
use crate::media::codec::bits::Bits;
use crate::media::codec::h264::slice::Prediction;

/// Reads elements in CAVLC.
pub struct Cavlc<'a> {
    bits: Bits<'a>,
    stop: usize,
    /// How many macroblocks are still to be skipped, if that was read.
    run: Option<u32>,
}

impl<'a> Cavlc<'a> {
    /// Starts at the bit after a slice header.
    pub fn new(bytes: &'a [u8], at: usize) -> Option<Self> {
        let mut bits = Bits::new(bytes);
        bits.skip(at)?;
        Some(Self { bits, stop: stop(bytes)?, run: None })
    }

    fn more(&self) -> bool {
        self.bits.position() < self.stop
    }

    /// Looks up a number by the next bits.
    #[inline]
    fn number(&mut self, table: &[u8]) -> Option<u32> {
        let entry = *table.get((self.bits.peek() >> (32 - table.len().trailing_zeros())) as usize)?;
        if entry == 0 {
            return None;
        }
        self.bits.skip(usize::from(entry >> 4))?;
        Some(u32::from(entry & 15))
    }

    /// The number of coefficients and of trailing ones.
    #[inline]
    fn token(&mut self, table: &words::Tokens) -> Option<(u32, u32)> {
        let word = self.bits.peek();
        let zeros = word.leading_zeros().min(15);
        let entry = table[(zeros << 3 | (word << zeros >> 28 & 7)) as usize & 127];
        if entry == 0 {
            return None;
        }
        self.bits.skip(usize::from(entry & 31))?;
        Some((u32::from(entry >> 5 & 31), u32::from(entry >> 10)))
    }

    /// The token where many coefficients are around: six bits as they are.
    fn fixed(&mut self) -> Option<(u32, u32)> {
        let word = self.bits.bits(6)?;
        let (total, ones) = if word == 3 { (0, 0) } else { ((word >> 2) + 1, word & 3) };
        (ones <= total).then_some((total, ones))
    }

    /// Reads over a level; its size.
    #[inline]
    fn level(&mut self, suffix: u32, first: bool) -> Option<u32> {
        let prefix = self.bits.peek().leading_zeros();
        // As much as the transform of 14 bit samples can give, and a bit more.
        if prefix > 20 {
            return None;
        }
        self.bits.skip(prefix as usize + 1)?;
        let size = match prefix {
            14 if suffix == 0 => 4,
            0..15 => suffix,
            _ => prefix - 3,
        };
        let mut code = (prefix.min(15) << suffix) + self.bits.bits(size)?;
        if prefix >= 15 && suffix == 0 {
            code += 15;
        }
        if prefix >= 16 {
            code += (1 << (prefix - 3)) - 4096;
        }
        if first {
            code += 2;
        }
        Some((code + 2) >> 1)
    }
}

impl Coder for Cavlc<'_> {
    const CABAC: bool = false;

    fn skipped(&mut self, _context: usize, prediction: Prediction) -> Option<bool> {
        if prediction == Prediction::I {
            return Some(false);
        }
        let run = match self.run {
            Some(run) => run,
            None => self.bits.ue()?,
        };
        self.run = run.checked_sub(1);
        Some(run > 0)
    }

    fn ends(&mut self, skipped: bool) -> Option<bool> {
        if skipped && self.run.is_some_and(|run| run > 0) {
            return Some(false);
        }
        Some(!self.more())
    }

    fn kind(&mut self, _context: usize, prediction: Prediction) -> Option<Kind> {
        let code = self.bits.ue()?;
        let (own, kind): (u32, fn(u32) -> Kind) = match prediction {
            Prediction::I => (0, Kind::Intra),
            Prediction::P => (5, Kind::P),
            Prediction::B => (23, Kind::B),
        };
        match code.checked_sub(own) {
            None => Some(kind(code)),
            Some(intra) => (intra <= 25).then_some(Kind::Intra(intra)),
        }
    }

    fn quarter(&mut self, prediction: Prediction) -> Option<u32> {
        let most = if prediction == Prediction::B { 12 } else { 3 };
        self.bits.ue().filter(|&kind| kind <= most)
    }

    fn transform_8x8(&mut self, _context: usize) -> Option<bool> {
        self.bits.bit()
    }

    fn mode(&mut self) -> Option<Option<u8>> {
        if self.bits.bit()? {
            return Some(None);
        }
        Some(Some(self.bits.bits(3)? as u8))
    }

    fn chroma_mode(&mut self, _context: usize) -> Option<u8> {
        self.bits.ue().filter(|&mode| mode <= 3).map(|mode| mode as u8)
    }

    fn reference(&mut self, _context: usize, active: u32) -> Option<u32> {
        if active == 2 {
            return self.bits.bit().map(|bit| u32::from(!bit));
        }
        self.bits.ue().filter(|&reference| reference < active)
    }

    fn motion(&mut self, _component: usize, _around: u32) -> Option<u32> {
        self.bits.se().map(i32::unsigned_abs).filter(|&size| size <= 1 << 16)
    }

    fn pattern(&mut self, intra: bool, gray: bool, _around: Around) -> Option<u8> {
        let code = self.bits.ue()? as usize;
        let table: &[u8] = match (intra, gray) {
            (true, false) => &words::PATTERN_INTRA,
            (false, false) => &words::PATTERN_INTER,
            (true, true) => &words::PATTERN_INTRA_GRAY,
            (false, true) => &words::PATTERN_INTER_GRAY,
        };
        table.get(code).copied()
    }

    fn quantizer(&mut self, _changed: bool) -> Option<i32> {
        self.bits.se()
    }

    fn block(&mut self, block: Block, most: u32, _intra: bool, around: Around) -> Option<u8> {
        let (total, ones) = match (block, most) {
            (Block::ChromaDc, 8) => self.token(&words::CHROMA_422),
            (Block::ChromaDc, _) => self.token(&words::CHROMA),
            _ => {
                let sum = match (around.left, around.top) {
                    (NOT_THERE, NOT_THERE) => 0,
                    (one, NOT_THERE) | (NOT_THERE, one) => u32::from(one),
                    (left, top) => (u32::from(left) + u32::from(top)).div_ceil(2),
                };
                match sum {
                    0..2 => self.token(&words::FEW),
                    2..4 => self.token(&words::SOME),
                    4..8 => self.token(&words::MANY),
                    _ => self.fixed(),
                }
            }
        }?;
        if total == 0 {
            return Some(0);
        }
        if total > most {
            return None;
        }
        self.bits.skip(ones as usize)?;
        let mut suffix = u32::from(total > 10 && ones < 3);
        for at in ones..total {
            let size = self.level(suffix, at == ones && ones < 3)?;
            suffix = suffix.max(1);
            if size > 3 << (suffix - 1) && suffix < 6 {
                suffix += 1;
            }
        }
        let mut zeros = if total == most {
            0
        } else {
            let at = total as usize - 1;
            let table: &[u8] = match (block, most) {
                (Block::ChromaDc, 8) => words::ZEROS_CHROMA_422.get(at)?,
                (Block::ChromaDc, _) => words::ZEROS_CHROMA.get(at)?,
                _ => words::ZEROS.get(at)?,
            };
            self.number(table)?
        };
        if zeros + total > most {
            return None;
        }
        for _ in 1..total {
            if zeros == 0 {
                break;
            }
            let run = match words::RUNS.get(zeros as usize - 1) {
                Some(table) => self.number(table)?,
                None => {
                    let word = self.bits.peek();
                    let (run, size) = match word >> 29 {
                        0 => (word.leading_zeros() + 4, word.leading_zeros() + 1),
                        high => (7 - high, 3),
                    };
                    self.bits.skip(size as usize)?;
                    run
                }
            };
            zeros = zeros.checked_sub(run)?;
        }
        Some(total as u8)
    }

    fn raw(&mut self, bits: usize) -> Option<()> {
        while !self.bits.position().is_multiple_of(8) {
            if self.bits.bit()? {
                return None;
            }
        }
        self.bits.skip(bits)
    }

    fn is_field(&mut self, _context: usize) -> Option<bool> {
        self.bits.bit()
    }

    fn set_field(&mut self, _field: bool) {}

    fn exact(&self) -> bool {
        self.bits.position() == self.stop
    }

    fn overrun(&self) -> bool {
        self.bits.position() > self.stop
    }
}
