//! A matrix of weights as it lies in its file: rows of numbers or of quantised blocks.
//!
//! Invariant: the bytes are exactly those of `rows` whole rows; made only by [`Matrix::new`], which checks it.

use candle_core::quantized::GgmlDType;

use super::{Bytes, Level, blocks};

/// The weights of a linear layer, a row for each output.
#[derive(Debug, Clone)]
pub struct Matrix {
    dtype: GgmlDType,
    rows: usize,
    columns: usize,
    bytes: Bytes,
}

/// The bytes of a row of `columns` numbers; `None` if they do not fill whole blocks.
pub fn block_bytes(dtype: GgmlDType, columns: usize) -> Option<usize> {
    let block = dtype.block_size();
    columns.is_multiple_of(block).then(|| (columns / block).checked_mul(dtype.type_size()))?
}

impl Matrix {
    /// A matrix of these bytes; `None` if they are not as many as it needs.
    pub fn new(dtype: GgmlDType, rows: usize, columns: usize, bytes: Bytes) -> Option<Self> {
        let expected = block_bytes(dtype, columns)?.checked_mul(rows)?;
        (bytes.len() == expected).then_some(Self { dtype, rows, columns, bytes })
    }

    /// The type of its numbers.
    pub fn dtype(&self) -> GgmlDType {
        self.dtype
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The bytes of all rows.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The same matrix with its rows in another order: row `i` of the result is row `order(i)` of this one.
    pub fn reordered(&self, order: impl Fn(usize) -> usize) -> Self {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for row in 0..self.rows {
            bytes.extend_from_slice(self.row_bytes(order(row)));
        }
        Self { bytes: bytes.into(), ..self.clone() }
    }

    fn row_bytes(&self, row: usize) -> &[u8] {
        self.bytes_of(row..row + 1)
    }

    /// The bytes of some rows.
    pub(super) fn bytes_of(&self, rows: std::ops::Range<usize>) -> &[u8] {
        let length = self.bytes.len() / self.rows.max(1);
        &self.bytes[rows.start * length..rows.end * length]
    }

    /// Row `row` as numbers.
    pub fn dequantise(&self, row: usize, out: &mut [f32]) {
        self.dequantise_with(Level::detect(), row, out);
    }

    /// Row `row` as numbers, by the kernels of a level.
    pub(super) fn dequantise_with(&self, level: Level, row: usize, out: &mut [f32]) {
        let bytes = self.row_bytes(row);
        match level {
            Level::Portable => blocks::dequantise(self.dtype, bytes, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level is only given out where the machine has the instructions.
            Level::Avx2 | Level::Avx512 => unsafe { super::avx2::dequantise(self.dtype, bytes, out) },
        }
    }

    /// Rows `rows` as numbers where they lie, if they are 32-bit floats that lie where floats may.
    pub(super) fn floats(&self, rows: std::ops::Range<usize>) -> Option<&[f32]> {
        if self.dtype != GgmlDType::F32 || cfg!(target_endian = "big") {
            return None;
        }
        let length = self.columns * size_of::<f32>();
        let bytes = &self.bytes[rows.start * length..rows.end * length];
        // SAFETY: every bit pattern is a float; misaligned bytes come back as a prefix, and are refused.
        let (before, floats, after) = unsafe { bytes.align_to::<f32>() };
        (before.is_empty() && after.is_empty()).then_some(floats)
    }
}
