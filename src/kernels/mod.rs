//! The arithmetic of the CPU: quantised matrices, matrix products, attention, resampled pictures.
//!
//! Invariant: what comes out of a row depends on that row alone. Each number is summed in one fixed order, whatever
//! else is in the batch, however a prompt is cut into chunks, and whichever thread does it. So a verdict is the same
//! at every batch size, with and without a shared prefix (`docs/design/0008-row-by-row.md`).
//!
//! It is a package of its own, so that tests of the rest run with its loops optimised. All `unsafe` code of capjudge is here
//! and in the mapping of files. A kernel is chosen at run time; adding one
//! (NEON) means files beside those named `avx2.rs`, a [`Level`] and a line in [`Level::detect`].

mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod bytes;
mod exp;
mod gate;
mod matmul;
mod matrix;
mod portable;
mod resample;
mod rows;
mod spread;
mod threads;
mod tiles;
mod weights;

pub use attention::{Attention, KeyValues, Reach, attention};
pub use bytes::{Bytes, Owner};
pub use gate::{ActivateOp, Gate, GateOp};
pub use matmul::{MatMul, matmul};
pub use matrix::{Matrix, block_bytes};
pub use resample::{Resample, Taps};
pub use rows::{AddOp, LayerNormOp, RmsNormOp, RopeOp};
pub use spread::Scale;
pub use threads::{set_threads, share, threads};
pub use tiles::Precision;
pub use weights::Weights;

use std::fmt;
use std::sync::OnceLock;

use candle_core::{CpuStorage, Result, Storage, bail};

/// Raised with every change after which kernels of the same name give other bits, so that a run is not continued with them.
pub const GENERATION: u32 = 2;

/// Which instructions the kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Plain Rust, on every machine.
    Portable,
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with its instructions for bytes and VNNI, for the products where that is faster; else as [`Level::Avx2`].
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best that this machine has.
    pub fn detect() -> Self {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Self::all().pop().unwrap_or(Level::Portable))
    }

    /// All that this machine has, the best one last.
    pub fn all() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut all = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") && has!("f16c") {
                all.push(Level::Avx2);
                if has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512vnni") {
                    all.push(Level::Avx512);
                }
            }
        }
        all
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        })
    }
}

/// The floats of a tensor's storage, where they lie.
pub fn floats(storage: &Storage) -> Result<&[f32]> {
    match storage {
        Storage::Cpu(CpuStorage::F32(floats)) => Ok(floats),
        _ => bail!("this crate's kernels work on 32-bit floats of the CPU"),
    }
}

/// Rows and columns of the largest tile of dot products.
const TILE_ROWS: usize = 4;
const TILE_COLUMNS: usize = 3;

/// A pointer that threads write through at places of their own.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: whoever shares the pointer gives every thread other elements to write, and reads none before all are done.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// `at` lies inside the memory behind the pointer, and no other thread touches it.
    unsafe fn write(self, at: usize, value: T) {
        // SAFETY: as the caller says.
        unsafe { *self.0.add(at) = value }
    }

    /// # Safety
    /// The `length` elements from `at` on lie inside the memory behind the pointer, and nobody else touches them while
    /// the slice is there.
    unsafe fn slice<'a>(self, at: usize, length: usize) -> &'a mut [T] {
        // SAFETY: as the caller says.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(at), length) }
    }
}
