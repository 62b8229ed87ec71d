//! Reads bits and Exp-Golomb numbers, most significant bit first.
//!
//! Invariant: nothing is read beyond the end. A read that would is `None` and leaves the place where it was.

/// A place in a run of bits.
#[derive(Debug, Clone, Copy)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bits were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many bits are left.
    pub fn left(&self) -> usize {
        (self.bytes.len() * 8).saturating_sub(self.at)
    }

    /// The next 32 bits without reading them; zeros stand in for what is beyond the end.
    #[inline]
    pub fn peek(&self) -> u32 {
        let first = self.at / 8;
        let word = match self.bytes.get(first..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(chunk) => u64::from_be_bytes(*chunk),
            None => {
                let mut chunk = [0; 8];
                let rest = self.bytes.get(first..).unwrap_or_default();
                for (to, from) in chunk.iter_mut().zip(rest) {
                    *to = *from;
                }
                u64::from_be_bytes(chunk)
            }
        };
        ((word << (self.at % 8)) >> 32) as u32
    }

    /// Leaves out `count` bits.
    #[inline]
    pub fn skip(&mut self, count: usize) -> Option<()> {
        if count > self.left() {
            return None;
        }
        self.at += count;
        Some(())
    }

    /// One bit.
    #[inline]
    pub fn bit(&mut self) -> Option<bool> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    /// A number of `count` bits, at most 32.
    #[inline]
    pub fn bits(&mut self, count: u32) -> Option<u32> {
        if count == 0 {
            return Some(0);
        }
        let value = self.peek().checked_shr(32u32.checked_sub(count)?)?;
        self.skip(count as usize)?;
        Some(value)
    }

    /// An unsigned Exp-Golomb number, up to 2³² − 2.
    #[inline]
    pub fn ue(&mut self) -> Option<u32> {
        let zeros = self.peek().leading_zeros();
        if zeros >= 32 {
            return None;
        }
        let before = self.at;
        let read = self.skip(zeros as usize + 1).and_then(|()| self.bits(zeros));
        if read.is_none() {
            self.at = before;
        }
        Some(read? + ((1u32 << zeros) - 1))
    }

    /// A signed Exp-Golomb number.
    #[inline]
    pub fn se(&mut self) -> Option<i32> {
        let code = self.ue()?;
        let half = (code / 2) as i32;
        Some(if code % 2 == 1 { half + 1 } else { -half })
    }

    /// Whether anything is left before the stop bit, which is the last bit that is set.
    pub fn more(&self) -> bool {
        let Some(last) = self.bytes.iter().rposition(|&byte| byte != 0) else { return false };
        let stop = last * 8 + 7 - self.bytes.get(last).map_or(0, |byte| byte.trailing_zeros() as usize);
        self.at < stop
    }
}
