//! The arithmetic decoder of CABAC, the same in H.264 (9.3.3.2) and HEVC (9.3.4.3).
//!
//! Invariant: its place is that of the standard's decoder, which has read nine bits more than it has used, so that the
//! end of the data can be told to the bit. Beyond the end there are zeros, and the place says so.

/// How wide the less likely symbol is, by state and quarter of the range.
#[rustfmt::skip]
const LESS: [[u8; 4]; 64] = [
    [128, 176, 208, 240], [128, 167, 197, 227], [128, 158, 187, 216], [123, 150, 178, 205],
    [116, 142, 169, 195], [111, 135, 160, 185], [105, 128, 152, 175], [100, 122, 144, 166],
    [95, 116, 137, 158], [90, 110, 130, 150], [85, 104, 123, 142], [81, 99, 117, 135],
    [77, 94, 111, 128], [73, 89, 105, 122], [69, 85, 100, 116], [66, 80, 95, 110],
    [62, 76, 90, 104], [59, 72, 86, 99], [56, 69, 81, 94], [53, 65, 77, 89],
    [51, 62, 73, 85], [48, 59, 69, 80], [46, 56, 66, 76], [43, 53, 63, 72],
    [41, 50, 59, 69], [39, 48, 56, 65], [37, 45, 54, 62], [35, 43, 51, 59],
    [33, 41, 48, 56], [32, 39, 46, 53], [30, 37, 43, 50], [29, 35, 41, 48],
    [27, 33, 39, 45], [26, 31, 37, 43], [24, 30, 35, 41], [23, 28, 33, 39],
    [22, 27, 32, 37], [21, 26, 30, 35], [20, 24, 29, 33], [19, 23, 27, 31],
    [18, 22, 26, 30], [17, 21, 25, 28], [16, 20, 23, 27], [15, 19, 22, 25],
    [14, 18, 21, 24], [14, 17, 20, 23], [13, 16, 19, 22], [12, 15, 18, 21],
    [12, 14, 17, 20], [11, 14, 16, 19], [11, 13, 15, 18], [10, 12, 15, 17],
    [10, 12, 14, 16], [9, 11, 13, 15], [9, 11, 12, 14], [8, 10, 12, 14],
    [8, 9, 11, 13], [7, 9, 11, 12], [7, 9, 10, 12], [7, 8, 10, 11],
    [6, 8, 9, 11], [6, 7, 9, 10], [6, 7, 8, 9], [2, 2, 2, 2],
];

/// The state after a less likely symbol.
#[rustfmt::skip]
const DOWN: [u8; 64] = [
    0, 0, 1, 2, 2, 4, 4, 5, 6, 7, 8, 9, 9, 11, 11, 12,
    13, 13, 15, 15, 16, 16, 18, 18, 19, 19, 21, 21, 22, 22, 23, 24,
    24, 25, 26, 26, 27, 27, 28, 29, 29, 30, 30, 30, 31, 32, 32, 33,
    33, 33, 34, 34, 35, 35, 35, 36, 36, 36, 37, 37, 37, 38, 38, 63,
];

/// For each state (with its likely symbol in the lowest bit) and quarter: the width, the state after the likely symbol, and
/// the one after the other, in a byte each.
static STEPS: [[u32; 4]; 128] = steps();

const fn steps() -> [[u32; 4]; 128] {
    let mut steps = [[0; 4]; 128];
    let mut state = 0;
    while state < 128 {
        let (level, symbol) = (state >> 1, state as u32 & 1);
        let up = if level < 62 { level + 1 } else { level };
        let likely = (up as u32) << 1 | symbol;
        let other = (DOWN[level] as u32) << 1 | if level == 0 { 1 - symbol } else { symbol };
        let mut quarter = 0;
        while quarter < 4 {
            steps[state][quarter] = LESS[level][quarter] as u32 | likely << 8 | other << 16;
            quarter += 1;
        }
        state += 1;
    }
    steps
}

/// The arithmetic decoder.
#[derive(Clone, Copy)]
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
        // Seven bytes: nine bits of offset and 47 spare ones.
        engine.value = (u64::from(high) << 32 | u64::from(low)) >> 8;
        engine.next -= 1;
        engine.spare = 47;
        engine
    }

    #[inline(always)]
    fn load(&mut self) -> u32 {
        let at = self.next;
        self.next = at.saturating_add(4);
        match self.bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(chunk) => u32::from_be_bytes(*chunk),
            None => {
                let rest = self.bytes.get(at..).unwrap_or_default();
                rest.iter().zip([24, 16, 8, 0]).fold(0, |word, (&byte, shift)| word | u32::from(byte) << shift)
            }
        }
    }

    #[inline(always)]
    fn refill(&mut self) {
        if self.spare < 16 {
            self.value = self.value << 32 | u64::from(self.load());
            self.spare += 32;
        }
    }

    /// How many bits were read, counted from the first byte.
    pub fn position(&self) -> usize {
        self.next.saturating_mul(8).saturating_sub(self.spare as usize)
    }

    /// A symbol with a context.
    #[inline(always)]
    pub fn decision(&mut self, state: &mut u8) -> bool {
        let now = *state & 127;
        let step = STEPS[usize::from(now)][(self.range >> 6 & 3) as usize];
        let less = step & 255;
        let more = self.range - less;
        let border = u64::from(more) << self.spare;
        let is_less = self.value >= border;
        self.value -= if is_less { border } else { 0 };
        let range = if is_less { less } else { more };
        let shift = range.leading_zeros() - 23;
        self.range = range << shift;
        self.spare -= shift;
        self.refill();
        *state = (if is_less { step >> 16 } else { step >> 8 }) as u8;
        (now & 1 == 1) != is_less
    }

    /// A symbol without a context.
    #[inline(always)]
    pub fn bypass(&mut self) -> bool {
        self.spare -= 1;
        let border = u64::from(self.range) << self.spare;
        let one = self.value >= border;
        self.value -= if one { border } else { 0 };
        self.refill();
        one
    }

    /// The next 16 symbols as if they had no context, without taking them.
    #[inline(always)]
    pub fn peek(&self) -> u32 {
        // At least 16 bits are spare. Below 2²⁵, so that a short division will do.
        (self.value >> (self.spare - 16)) as u32 / self.range
    }

    /// Takes the first `count` of the symbols that [`Engine::peek`] gave.
    #[inline(always)]
    pub fn take(&mut self, peeked: u32, count: u32) -> u32 {
        let count = count.min(16);
        let number = peeked >> (16 - count);
        self.spare -= count;
        // Wraps only where the data starts with an offset that no slice has.
        self.value = self.value.wrapping_sub((u64::from(number) * u64::from(self.range)) << self.spare);
        self.refill();
        number
    }

    /// A number of up to 16 symbols without a context.
    #[inline]
    pub fn number(&mut self, count: u32) -> u32 {
        self.take(self.peek(), count)
    }

    /// The symbol that ends things.
    #[inline]
    pub fn terminate(&mut self) -> bool {
        self.range -= 2;
        let border = u64::from(self.range) << self.spare;
        if self.value >= border {
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

    /// The byte behind data that has ended. `None` if it does not end with its stop bit here.
    pub fn end(&self) -> Option<usize> {
        let last = self.position().checked_sub(1)?;
        let byte = self.bytes.get(last / 8)?;
        (byte << (last % 8) == 0x80).then_some(last / 8 + 1)
    }

    /// Whether more was read than there is.
    pub fn overrun(&self) -> bool {
        // The decoder is nine bits ahead at first, of which it may use all but one.
        self.position() > self.bytes.len().saturating_mul(8)
    }

    /// Leaves out so many bytes from the next whole one on, and starts again.
    pub fn skip(&mut self, bytes: usize) {
        *self = Self::new(self.bytes, self.position().div_ceil(8).saturating_add(bytes));
    }
}
