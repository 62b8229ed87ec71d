//! The arithmetic decoder of CABAC (ITU-T H.264, 9.3.3.2).
//!
//! Invariant: its place is that of the standard's decoder, which has read nine bits more than it has used, so that the
//! end of a slice can be told to the bit. Beyond the end there are zeros, and the place says so.

use super::contexts::{NEXT, RANGE};

/// The arithmetic decoder.
pub struct Engine<'a> {
    bytes: &'a [u8],
    /// The next byte to load.
    next: usize,
    /// The offset of the standard, followed by `spare` bits that were loaded before they are needed.
    value: u64,
    range: u32,
    spare: u32,
}

impl<'a> Engine<'a> {
    /// Starts at a byte.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        let mut engine = Self { bytes, next: at, value: 0, range: 510, spare: 0 };
        let high = engine.load();
        let low = engine.load();
        engine.value = (u64::from(high) << 32 | u64::from(low)) >> 8;
        // One byte too many was loaded: nine bits of offset and 47 spare ones is what there is room for.
        engine.next -= 1;
        engine.spare = 47;
        engine
    }

    #[inline]
    fn load(&mut self) -> u32 {
        let at = self.next;
        self.next += 4;
        match self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(chunk) => u32::from_be_bytes(*chunk),
            None => {
                let rest = self.bytes.get(at..).unwrap_or_default();
                rest.iter().zip([24, 16, 8, 0]).fold(0, |word, (&byte, shift)| word | u32::from(byte) << shift)
            }
        }
    }

    #[inline]
    fn refill(&mut self) {
        if self.spare < 16 {
            self.value = self.value << 32 | u64::from(self.load());
            self.spare += 32;
        }
    }

    /// How many bits were read, counted from the first byte.
    pub fn position(&self) -> usize {
        (self.next * 8).saturating_sub(self.spare as usize)
    }

    /// A symbol with a context.
    #[inline(always)]
    pub fn decision(&mut self, state: &mut u8) -> u32 {
        let now = *state & 127;
        let less = u32::from(RANGE[usize::from(now >> 1)][(self.range >> 6 & 3) as usize]);
        let more = self.range - less;
        let border = u64::from(more) << self.spare;
        let is_less = self.value >= border;
        self.value -= if is_less { border } else { 0 };
        let range = if is_less { less } else { more };
        let shift = range.leading_zeros() - 23;
        self.range = range << shift;
        self.spare -= shift;
        self.refill();
        *state = NEXT[usize::from(now) * 2 + usize::from(is_less)];
        u32::from(now & 1) ^ u32::from(is_less)
    }

    /// A symbol without a context.
    #[inline(always)]
    pub fn bypass(&mut self) -> u32 {
        self.spare -= 1;
        let border = u64::from(self.range) << self.spare;
        let one = self.value >= border;
        self.value -= if one { border } else { 0 };
        self.refill();
        u32::from(one)
    }

    /// The symbol that ends slices and comes before raw samples.
    #[inline]
    pub fn terminate(&mut self) -> bool {
        self.range -= 2;
        let border = u64::from(self.range) << self.spare;
        let end = self.value >= border;
        if end {
            // Nothing more can be decoded; the place is what counts.
            self.range = 256;
            self.value = 0;
            return true;
        }
        let shift = self.range.leading_zeros() - 23;
        self.range <<= shift;
        self.spare -= shift;
        self.refill();
        false
    }
}
