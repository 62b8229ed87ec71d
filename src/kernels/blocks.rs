//! The block formats of GGUF, as numbers.
//!
//! Invariant: each number is computed with the same roundings as the formats' own reference (gguf-py), so the results
//! are equal to the bit. Written so that a compiler can use whatever vectors the calling function allows.

use candle_core::quantized::GgmlDType;
use half::f16;

/// Numbers of a small block and of a large one.
const SMALL: usize = 32;
const LARGE: usize = 256;

/// The numbers of a row. The bytes and `out` belong to each other: [`super::Matrix`] has checked that.
#[inline(always)]
pub fn dequantise(dtype: GgmlDType, bytes: &[u8], out: &mut [f32]) {
    // A macro, because a function that is handed over as a value is not compiled for the caller's instructions.
    macro_rules! each {
        ($block:ident) => {
            for (bytes, out) in bytes.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
                $block(bytes, out);
            }
        };
    }
    match dtype {
        GgmlDType::F32 => each!(f32_),
        GgmlDType::F16 => each!(f16_),
        GgmlDType::BF16 => each!(bf16_),
        GgmlDType::Q4_0 => each!(q4_0),
        GgmlDType::Q4_1 => each!(q4_1),
        GgmlDType::Q5_0 => each!(q5_0),
        GgmlDType::Q5_1 => each!(q5_1),
        GgmlDType::Q8_0 => each!(q8_0),
        GgmlDType::Q2K => each!(q2_k),
        GgmlDType::Q3K => each!(q3_k),
        GgmlDType::Q4K => each!(q4_k),
        GgmlDType::Q5K => each!(q5_k),
        GgmlDType::Q6K => each!(q6_k),
        // These two hold activations, never weights; no loader gives them.
        GgmlDType::Q8_1 | GgmlDType::Q8K => out.fill(f32::NAN),
    }
}

#[inline(always)]
fn f32_(b: &[u8; 4], out: &mut [f32; 1]) {
    out[0] = f32::from_le_bytes(*b);
}

#[inline(always)]
fn f16_(b: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = half(b, 0);
}

#[inline(always)]
fn bf16_(b: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

#[inline(always)]
fn q4_0(b: &[u8; 18], out: &mut [f32; SMALL]) {
    let d = half(b, 0);
    for i in 0..16 {
        out[i] = f32::from((b[2 + i] & 15) as i8 - 8) * d;
        out[i + 16] = f32::from((b[2 + i] >> 4) as i8 - 8) * d;
    }
}

#[inline(always)]
fn q4_1(b: &[u8; 20], out: &mut [f32; SMALL]) {
    let (d, m) = (half(b, 0), half(b, 2));
    for i in 0..16 {
        out[i] = f32::from(b[4 + i] & 15) * d + m;
        out[i + 16] = f32::from(b[4 + i] >> 4) * d + m;
    }
}

/// The fifth bits of a small block, as 16 or 0.
#[inline(always)]
fn fifth_bits(b: &[u8], at: usize) -> [u8; SMALL] {
    let bits = u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
    let mut high = [0; SMALL];
    for (i, high) in high.iter_mut().enumerate() {
        *high = ((bits >> i & 1) as u8) << 4;
    }
    high
}

#[inline(always)]
fn q5_0(b: &[u8; 22], out: &mut [f32; SMALL]) {
    let d = half(b, 0);
    let high = fifth_bits(b, 2);
    for i in 0..16 {
        out[i] = f32::from((b[6 + i] & 15 | high[i]) as i8 - 16) * d;
        out[i + 16] = f32::from((b[6 + i] >> 4 | high[i + 16]) as i8 - 16) * d;
    }
}

#[inline(always)]
fn q5_1(b: &[u8; 24], out: &mut [f32; SMALL]) {
    let (d, m) = (half(b, 0), half(b, 2));
    let high = fifth_bits(b, 4);
    for i in 0..16 {
        out[i] = f32::from(b[8 + i] & 15 | high[i]) * d + m;
        out[i + 16] = f32::from(b[8 + i] >> 4 | high[i + 16]) * d + m;
    }
}

#[inline(always)]
fn q8_0(b: &[u8; 34], out: &mut [f32; SMALL]) {
    let d = half(b, 0);
    for i in 0..SMALL {
        out[i] = f32::from(b[2 + i] as i8) * d;
    }
}

#[inline(always)]
fn q2_k(b: &[u8; 84], out: &mut [f32; LARGE]) {
    let (d, dmin) = (half(b, 80), half(b, 82));
    for sixteen in 0..16 {
        // Two halves of 128, four shifts in each, two runs of 16 in each of those.
        let (part, shift, run) = (sixteen / 8, sixteen % 8 / 2 * 2, sixteen % 2);
        let scale = b[sixteen];
        let (scale, min) = (d * f32::from(scale & 15), dmin * f32::from(scale >> 4));
        for i in 0..16 {
            let q = b[16 + part * 32 + run * 16 + i] >> shift & 3;
            out[sixteen * 16 + i] = scale * f32::from(q) - min;
        }
    }
}

#[inline(always)]
fn q3_k(b: &[u8; 110], out: &mut [f32; LARGE]) {
    let d = half(b, 108);
    for sixteen in 0..16 {
        let (part, shift, run) = (sixteen / 8, sixteen % 8 / 2, sixteen % 2);
        let low = b[96 + sixteen % 8] >> (sixteen / 8 * 4) & 15;
        let high = b[104 + sixteen % 4] >> (sixteen / 4 * 2) & 3;
        let scale = d * f32::from((low | high << 4) as i8 - 32);
        for i in 0..16 {
            let q = (b[32 + part * 32 + run * 16 + i] >> (shift * 2) & 3) as i8;
            // The mask has a bit for the values that are not to be lowered by 4.
            let lowered = (b[run * 16 + i] >> (part * 4 + shift) & 1 ^ 1) as i8;
            out[sixteen * 16 + i] = scale * f32::from(q - lowered * 4);
        }
    }
}

/// The scale and the minimum of one of the eight runs of 32 in a large block, packed in 12 bytes at `at`.
#[inline(always)]
fn scale_and_min(b: &[u8], at: usize, run: usize) -> (u8, u8) {
    let s = &b[at..at + 12];
    if run < 4 {
        (s[run] & 63, s[run + 4] & 63)
    } else {
        (s[run + 4] & 15 | s[run - 4] >> 6 << 4, s[run + 4] >> 4 | s[run] >> 6 << 4)
    }
}

#[inline(always)]
fn q4_k(b: &[u8; 144], out: &mut [f32; LARGE]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    for pair in 0..4 {
        let (s1, m1) = scale_and_min(b, 4, 2 * pair);
        let (s2, m2) = scale_and_min(b, 4, 2 * pair + 1);
        let (s1, m1, s2, m2) = (d * f32::from(s1), dmin * f32::from(m1), d * f32::from(s2), dmin * f32::from(m2));
        let q = &b[16 + pair * 32..48 + pair * 32];
        let (low, high) = out[pair * 64..pair * 64 + 64].split_at_mut(32);
        for i in 0..32 {
            low[i] = s1 * f32::from(q[i] & 15) - m1;
            high[i] = s2 * f32::from(q[i] >> 4) - m2;
        }
    }
}

#[inline(always)]
fn q5_k(b: &[u8; 176], out: &mut [f32; LARGE]) {
    let (d, dmin) = (half(b, 0), half(b, 2));
    for pair in 0..4 {
        let (s1, m1) = scale_and_min(b, 4, 2 * pair);
        let (s2, m2) = scale_and_min(b, 4, 2 * pair + 1);
        let (s1, m1, s2, m2) = (d * f32::from(s1), dmin * f32::from(m1), d * f32::from(s2), dmin * f32::from(m2));
        let bits = &b[16..48];
        let q = &b[48 + pair * 32..80 + pair * 32];
        let (low, high) = out[pair * 64..pair * 64 + 64].split_at_mut(32);
        for i in 0..32 {
            let (first, second) = ((bits[i] >> (2 * pair) & 1) << 4, (bits[i] >> (2 * pair + 1) & 1) << 4);
            low[i] = s1 * f32::from(q[i] & 15 | first) - m1;
            high[i] = s2 * f32::from(q[i] >> 4 | second) - m2;
        }
    }
}

#[inline(always)]
fn q6_k(b: &[u8; 210], out: &mut [f32; LARGE]) {
    let d = half(b, 208);
    for part in 0..2 {
        let (low, high) = (&b[part * 64..part * 64 + 64], &b[128 + part * 32..160 + part * 32]);
        for quarter in 0..4 {
            // Quarters 0 and 1 are the low nibbles of the first and the last 32 bytes, 2 and 3 the high ones.
            let (bytes, nibble) = (&low[quarter % 2 * 32..quarter % 2 * 32 + 32], quarter / 2 * 4);
            for run in 0..2 {
                let scale = d * f32::from(b[192 + part * 8 + quarter * 2 + run] as i8);
                let start = part * 128 + quarter * 32 + run * 16;
                for i in 0..16 {
                    let at = run * 16 + i;
                    let q = (bytes[at] >> nibble & 15 | (high[at] >> (quarter * 2) & 3) << 4) as i8 - 32;
                    out[start + i] = scale * f32::from(q);
                }
            }
        }
    }
}
