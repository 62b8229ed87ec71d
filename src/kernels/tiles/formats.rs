//! The block formats of GGUF as integers: what every level of kernels knows about them.
//!
//! Invariant: a run's integers less their offset, times its factors, are the numbers that [`super::super::blocks`] gives.

use half::f16;

use super::{LINE, RUN, RUNS, STRIP};

/// A block format. A *large* one has a block of 256 numbers, with a small whole number as the scale of each run; a
/// small one has blocks of 32, each with a scale of its own.
pub trait Format {
    /// The bytes of a block.
    const BYTES: usize;
    /// Whether a block is a whole group.
    const LARGE: bool;
    /// Whether the scales (and minima) of a large block are those of half runs.
    const HALVES: bool;
    /// Where a block's scale is.
    const SCALE: usize;
    /// Where the factor of its minima is, if it has them.
    const MIN: Option<usize>;
    /// Bits of an integer as it is laid out: 4, 5, 6 or 8.
    const BITS: usize;
    /// What is taken away from an integer.
    const OFFSET: u8;

    /// Bytes of the integers of a run of a strip.
    const QUANT_BYTES: usize = Self::BITS * LINE;
    /// Bytes of the floats that belong together, of a run or of a large block: its scales and the factors of its minima
    /// as half floats, and in a large block the whole scales and minima of each run.
    const FACTOR_BYTES: usize = (2 * STRIP + if Self::LARGE { RUNS * Self::WHOLE_BYTES } else { 0 }) * Self::KINDS;
    /// Bytes of the whole scales of a run.
    const WHOLE_BYTES: usize = if Self::HALVES { 2 * STRIP } else { STRIP };
    /// Scales alone, or scales and minima.
    const KINDS: usize = if Self::MIN.is_some() { 2 } else { 1 };

    /// The integers of run `INDEX` of a block, without any scale.
    fn quants<const INDEX: usize>(block: &[u8]) -> [u8; RUN];

    /// The whole scales and minima of a large block: of its 8 runs, or of its 16 half runs.
    #[inline(always)]
    fn whole(_bytes: &[u8]) -> Whole {
        Whole { scales: [0; 2], mins: [0; 2] }
    }
}

/// The scales and the minima of the runs of a large block, as whole numbers of a byte each, eight in a word with the
/// first one lowest.
#[derive(Clone, Copy)]
pub struct Whole {
    /// What integers are multiplied with: up to 63, or from -128 to 127 where integers are from -32 to 31.
    pub scales: [u64; 2],
    /// What is then taken away, in units of the minima's factor: up to 63.
    pub mins: [u64; 2],
}

/// The eight bytes from `at` on.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// The four bytes from `at` on.
#[inline(always)]
fn half_word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

/// A byte, eight times.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// The half float at `at`.
#[inline(always)]
pub fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// Some bytes of a block. With their number known, what is done to all of them is done to all at once.
#[inline(always)]
fn some<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&block[at..at + N]);
    bytes
}

/// The 4-bit numbers of a small block: low nibbles, then high ones.
#[inline(always)]
fn nibbles(block: &[u8], at: usize) -> [u8; RUN] {
    let bytes: [u8; RUN / 2] = some(block, at);
    let mut out = [0; RUN];
    for i in 0..RUN / 2 {
        out[i] = bytes[i] & 15;
        out[i + RUN / 2] = bytes[i] >> 4;
    }
    out
}

/// The same with a fifth bit, the bits of all numbers in four bytes.
#[inline(always)]
fn nibbles_and_fifth(block: &[u8], bits: usize, at: usize) -> [u8; RUN] {
    let (mut out, bits) = (nibbles(block, at), u32::from_le_bytes(some(block, bits)));
    for (i, out) in out.iter_mut().enumerate() {
        *out |= ((bits >> i & 1) << 4) as u8;
    }
    out
}

macro_rules! small {
    ($name:ident, $bytes:literal, bits $bits:literal, offset $offset:literal, $min:expr, |$b:ident| $quants:expr) => {
        pub struct $name;
        impl Format for $name {
            const BYTES: usize = $bytes;
            const LARGE: bool = false;
            const HALVES: bool = false;
            const SCALE: usize = 0;
            const MIN: Option<usize> = $min;
            const BITS: usize = $bits;
            const OFFSET: u8 = $offset;
            #[inline(always)]
            fn quants<const INDEX: usize>($b: &[u8]) -> [u8; RUN] {
                $quants
            }
        }
    };
}

small!(Q4_0, 18, bits 4, offset 8, None, |b| nibbles(b, 2));
small!(Q4_1, 20, bits 4, offset 0, Some(2), |b| nibbles(b, 4));
small!(Q5_0, 22, bits 5, offset 16, None, |b| nibbles_and_fifth(b, 2, 6));
small!(Q5_1, 24, bits 5, offset 0, Some(2), |b| nibbles_and_fifth(b, 4, 8));
small!(Q8_0, 34, bits 8, offset 128, None, |b| some::<RUN>(b, 2).map(|byte| byte ^ 128));

macro_rules! large {
    ($name:ident, $bytes:literal, bits $bits:literal, offset $offset:literal, halves $halves:literal,
     scale $scale:literal, $min:expr, |$b:ident, $run:ident| $quants:expr, |$w:ident| $whole:expr) => {
        pub struct $name;
        impl Format for $name {
            const BYTES: usize = $bytes;
            const LARGE: bool = true;
            const HALVES: bool = $halves;
            const SCALE: usize = $scale;
            const MIN: Option<usize> = $min;
            const BITS: usize = $bits;
            const OFFSET: u8 = $offset;
            #[inline(always)]
            fn quants<const INDEX: usize>($b: &[u8]) -> [u8; RUN] {
                let $run = INDEX;
                $quants
            }
            #[inline(always)]
            fn whole($w: &[u8]) -> Whole {
                $whole
            }
        }
    };
}

/// Low bits with high bits above them.
#[inline(always)]
fn joined(low: [u8; RUN], high: [u8; RUN], shift: u32) -> [u8; RUN] {
    std::array::from_fn(|i| low[i] | high[i] << shift)
}

/// Bits of a run that shares its bytes with others.
#[inline(always)]
fn bits(block: &[u8], at: usize, shift: usize, mask: u8) -> [u8; RUN] {
    some::<RUN>(block, at).map(|byte| byte >> shift & mask)
}

large!(
    Q2K, 84, bits 4, offset 0, halves true, scale 80, Some(82),
    |b, run| bits(b, 16 + run / 4 * 32, run % 4 * 2, 3),
    |b| {
        let both = [word(b, 0), word(b, 8)];
        Whole { scales: both.map(|both| both & each(15)), mins: both.map(|both| both >> 4 & each(15)) }
    }
);
large!(
    Q3K, 110, bits 4, offset 4, halves true, scale 108, None,
    |b, run| joined(bits(b, 32 + run / 4 * 32, run % 4 * 2, 3), bits(b, 0, run, 1), 2),
    |b| {
        let (low, high) = (word(b, 96), half_word(b, 104));
        let scales = [0, 1].map(|eight| {
            let high = high >> (4 * eight);
            let scale = low >> (4 * eight) & each(15) | ((high | high << 30) & each(3)) << 4;
            // Less 32 in every byte; the highest bit is lent, so that no byte borrows from the next.
            ((scale | each(128)) - each(32)) ^ each(128)
        });
        Whole { scales, mins: [0; 2] }
    }
);
large!(
    Q4K, 144, bits 4, offset 0, halves false, scale 0, Some(2),
    |b, run| bits(b, 16 + run / 2 * 32, run % 2 * 4, 15),
    |b| six_bits(b)
);
large!(
    Q5K, 176, bits 5, offset 0, halves false, scale 0, Some(2),
    |b, run| joined(bits(b, 48 + run / 2 * 32, run % 2 * 4, 15), bits(b, 16, run, 1), 4),
    |b| six_bits(b)
);
large!(
    Q6K, 210, bits 6, offset 32, halves true, scale 208, None,
    |b, run| {
        let (part, quarter) = (run / 4, run % 4);
        let low = bits(b, part * 64 + quarter % 2 * 32, quarter / 2 * 4, 15);
        joined(low, bits(b, 128 + part * 32, quarter * 2, 3), 4)
    },
    |b| Whole { scales: [word(b, 192), word(b, 200)], mins: [0; 2] }
);

/// Eight scales and eight minima of six bits each, in the twelve bytes behind the two factors.
#[inline(always)]
fn six_bits(b: &[u8]) -> Whole {
    let (first, second, third) = (half_word(b, 4), half_word(b, 8), half_word(b, 12));
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    Whole {
        scales: [first & six | (third & four | (first >> 6 & two) << 4) << 32, 0],
        mins: [second & six | (third >> 4 & four | (second >> 6 & two) << 4) << 32, 0],
    }
}
