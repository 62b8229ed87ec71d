//! The block formats of GGUF as integers: what every level of kernels knows about them.
//!
//! Invariant: a run's integers times its factors are the numbers that [`super::super::blocks`] gives.

use half::f16;

use super::RUN;

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

    /// The integers of run `run` of the group that begins with `bytes`, not yet multiplied with the run's scale.
    fn quants(bytes: &[u8], run: usize) -> [i8; RUN];

    /// The whole scales and minima of a large block: of its 8 runs, or of its 16 half runs.
    #[inline(always)]
    fn whole(_bytes: &[u8]) -> Whole {
        Whole { scales: [0; 2], mins: [0; 2] }
    }
}

/// The scales and the minima of the runs of a large block, as whole numbers of a byte each, eight in a word with the
/// first one lowest: so they never have to go through memory.
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

/// The 4-bit numbers of a small block: low nibbles, then high ones.
#[inline(always)]
fn nibbles(bytes: &[u8]) -> [i8; RUN] {
    std::array::from_fn(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 } as i8)
}

/// The fifth bit of number `i` of a small block, as 16 or 0.
#[inline(always)]
fn fifth(bytes: &[u8], i: usize) -> i8 {
    ((bytes[i / 8] >> (i % 8) & 1) << 4) as i8
}

macro_rules! small {
    ($name:ident, $bytes:literal, $min:expr, |$block:ident| $quants:expr) => {
        pub struct $name;
        impl Format for $name {
            const BYTES: usize = $bytes;
            const LARGE: bool = false;
            const HALVES: bool = false;
            const SCALE: usize = 0;
            const MIN: Option<usize> = $min;
            #[inline(always)]
            fn quants(bytes: &[u8], run: usize) -> [i8; RUN] {
                let $block = &bytes[run * $bytes..(run + 1) * $bytes];
                $quants
            }
        }
    };
}

small!(Q4_0, 18, None, |b| nibbles(&b[2..]).map(|q| q - 8));
small!(Q4_1, 20, Some(2), |b| nibbles(&b[4..]));
small!(Q5_0, 22, None, |b| {
    let low = nibbles(&b[6..]);
    std::array::from_fn(|i| (low[i] | fifth(&b[2..], i)) - 16)
});
small!(Q5_1, 24, Some(2), |b| {
    let low = nibbles(&b[8..]);
    std::array::from_fn(|i| low[i] | fifth(&b[4..], i))
});
small!(Q8_0, 34, None, |b| std::array::from_fn(|i| b[2 + i] as i8));

macro_rules! large {
    ($name:ident, $bytes:literal, halves $halves:literal, scale $scale:literal, $min:expr,
     |$b:ident, $run:ident| $quants:expr, |$w:ident| $whole:expr) => {
        pub struct $name;
        impl Format for $name {
            const BYTES: usize = $bytes;
            const LARGE: bool = true;
            const HALVES: bool = $halves;
            const SCALE: usize = $scale;
            const MIN: Option<usize> = $min;
            #[inline(always)]
            fn quants($b: &[u8], $run: usize) -> [i8; RUN] {
                std::array::from_fn($quants)
            }
            #[inline(always)]
            fn whole($w: &[u8]) -> Whole {
                $whole
            }
        }
    };
}

large!(
    Q2K, 84, halves true, scale 80, Some(82),
    |b, run| |i| (b[16 + run / 4 * 32 + i] >> (run % 4 * 2) & 3) as i8,
    |b| {
        let both = [word(b, 0), word(b, 8)];
        Whole { scales: both.map(|both| both & each(15)), mins: both.map(|both| both >> 4 & each(15)) }
    }
);
large!(
    Q3K, 110, halves true, scale 108, None,
    |b, run| |i| {
        let low = b[32 + run / 4 * 32 + i] >> (run % 4 * 2) & 3;
        (low | (b[i] >> run & 1) << 2) as i8 - 4
    },
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
    Q4K, 144, halves false, scale 0, Some(2),
    |b, run| |i| (b[16 + run / 2 * 32 + i] >> (run % 2 * 4) & 15) as i8,
    |b| six_bits(b)
);
large!(
    Q5K, 176, halves false, scale 0, Some(2),
    |b, run| |i| {
        let low = b[48 + run / 2 * 32 + i] >> (run % 2 * 4) & 15;
        (low | (b[16 + i] >> run & 1) << 4) as i8
    },
    |b| six_bits(b)
);
large!(
    Q6K, 210, halves true, scale 208, None,
    |b, run| |i| {
        let (part, quarter) = (run / 4, run % 4);
        let low = b[part * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        (low | (b[128 + part * 32 + i] >> (quarter * 2) & 3) << 4) as i8 - 32
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
