//! Random numbers of a tensor, any part of it at any time.
//!
//! Invariant: a number depends on the seed, the tensor's name and its own place, so that a tensor can be made in pieces,
//! by several threads, and is the same on every machine. Only sums and products are used: no function whose last bit
//! depends on a library.

use std::sync::OnceLock;

use half::bf16;
use rayon::prelude::*;

/// Numbers are drawn from so many, which are about normal.
const DIFFERENT: usize = 1 << 12;
/// Numbers that one draw of 64 bits gives.
const AT_ONCE: usize = 4;
/// Numbers that a thread makes at a time; a multiple of [`AT_ONCE`].
const PIECE: usize = 1 << 15;
/// Bytes of a number.
pub const BYTES: usize = size_of::<bf16>();

/// Mean and deviation of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f32,
    /// The standard deviation.
    pub deviation: f32,
}

impl Spread {
    /// What keeps the numbers of a model in sane bounds: norms about 1, small biases, and matrices that keep the size of
    /// what goes through them. Logits are spread more, so that the likeliest token stands out as it does for real, and so
    /// are queries and keys, so that an answer depends on what stands before it and does not only repeat itself.
    pub fn of(name: &str, shape: &[usize]) -> Self {
        let spread = |mean, deviation| Self { mean, deviation };
        let [_, inputs @ ..] = shape else { return spread(0.0, 0.0) };
        if inputs.is_empty() {
            return if name.ends_with(".bias") { spread(0.0, 0.02) } else { spread(1.0, 0.1) };
        }
        if name.contains("pos_embed") || name.contains("position_embedding") {
            return spread(0.0, 0.5);
        }
        let gains = [("embed_tokens", 3.0), ("lm_head", 3.0), ("q_proj", 2.0), ("k_proj", 2.0), ("down_proj", 1.5)];
        let gain = gains.into_iter().find(|(part, _)| name.contains(part)).map_or(1.0, |(_, gain)| gain);
        spread(0.0, gain / (inputs.iter().product::<usize>() as f32).sqrt())
    }
}

/// The numbers of one tensor.
#[derive(Debug, Clone)]
pub struct Numbers {
    key: u64,
    table: Vec<[u8; BYTES]>,
}

impl Numbers {
    /// Those of a tensor by its name.
    pub fn new(seed: u64, name: &str, spread: Spread) -> Self {
        let named = name.bytes().fold(mixed(seed), |key, byte| mixed(key ^ u64::from(byte)));
        let number = |normal: &f32| bf16::from_f32(spread.mean + spread.deviation * normal).to_le_bytes();
        Self { key: named, table: normals().iter().map(number).collect() }
    }

    /// Makes the numbers from the place `first` on, which is a multiple of 4, as little-endian bf16.
    pub fn fill(&self, first: usize, out: &mut [u8]) {
        out.par_chunks_mut(PIECE * BYTES).enumerate().for_each(|(piece, out)| {
            let first = (first + piece * PIECE) / AT_ONCE;
            for (index, out) in out.chunks_mut(AT_ONCE * BYTES).enumerate() {
                let mut bits = self.draw((first + index) as u64);
                for out in out.chunks_exact_mut(BYTES) {
                    out.copy_from_slice(&self.table[bits as usize % DIFFERENT]);
                    bits >>= u64::BITS as usize / AT_ONCE;
                }
            }
        });
    }

    /// 64 random bits of a place.
    pub fn draw(&self, place: u64) -> u64 {
        mixed(self.key.wrapping_add(place.wrapping_mul(STEP)))
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finish (Steele, Lea and Flood 2014): every bit of the input changes half of the output's.
fn mixed(bits: u64) -> u64 {
    let bits = bits.wrapping_add(STEP);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// About normal numbers: sums of twelve that are even between 0 and 1, less 6.
fn normals() -> &'static [f32] {
    static NORMALS: OnceLock<Vec<f32>> = OnceLock::new();
    NORMALS.get_or_init(|| {
        let even = |place: usize| (mixed(place as u64) >> 40) as f32 / (1u64 << 24) as f32;
        (0..DIFFERENT).map(|index| (0..12).map(|term| even(index * 12 + term)).sum::<f32>() - 6.0).collect()
    })
}
