//! Quantising weights when they are loaded.
//!
//! Invariant: a matrix whose rows a type cannot hold gets the nearest type that can, never other numbers of columns.

use std::sync::Mutex;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Tensor};

use crate::kernels::{Matrix, share};

/// The types that `--quant` knows, by name.
pub const TYPES: [(&str, GgmlDType); 10] = [
    ("q8_0", GgmlDType::Q8_0),
    ("q6k", GgmlDType::Q6K),
    ("q5k", GgmlDType::Q5K),
    ("q5_1", GgmlDType::Q5_1),
    ("q5_0", GgmlDType::Q5_0),
    ("q4k", GgmlDType::Q4K),
    ("q4_1", GgmlDType::Q4_1),
    ("q4_0", GgmlDType::Q4_0),
    ("q3k", GgmlDType::Q3K),
    ("q2k", GgmlDType::Q2K),
];

/// The type of that name: `q4k`, `q4_k`, `Q4_K` and `q4_k_m` are one.
pub fn by_name(name: &str) -> Option<GgmlDType> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "");
    let wanted = plain(name);
    let wanted = wanted.strip_suffix("km").map_or(wanted.clone(), |start| format!("{start}k"));
    TYPES.into_iter().find(|(name, _)| plain(name) == wanted).map(|(_, dtype)| dtype)
}

/// The name of a type.
pub fn name_of(dtype: GgmlDType) -> &'static str {
    TYPES.into_iter().find(|(_, known)| *known == dtype).map_or("as stored", |(name, _)| name)
}

/// Rows that a thread quantises at a time.
const ROWS: usize = 64;

/// The type that rows of so many columns get where `dtype` is asked for: `q8_0` if they do not fill whole blocks of it, none
/// if they do not fill those either.
pub fn held(columns: usize, dtype: GgmlDType) -> Option<GgmlDType> {
    [dtype, GgmlDType::Q8_0].into_iter().find(|dtype| columns.is_multiple_of(dtype.block_size()))
}

/// The matrix in another type. Rows that do not fill whole blocks of it become `q8_0`, or stay as they are.
pub fn quantise(matrix: &Matrix, dtype: GgmlDType) -> Result<Matrix> {
    let Some(dtype) = held(matrix.columns(), dtype) else { return Ok(matrix.clone()) };
    let (rows, columns) = (matrix.rows(), matrix.columns());
    let parts: Mutex<Vec<(usize, Result<Vec<u8>>)>> = Mutex::default();
    share(rows.div_ceil(ROWS), ROWS * columns * 16, |range| {
        for index in range {
            let part = index * ROWS..rows.min((index + 1) * ROWS);
            let mut floats = vec![0.0; part.len() * columns];
            for (row, out) in part.clone().zip(floats.chunks_exact_mut(columns)) {
                matrix.dequantise(row, out);
            }
            // Quantising would make plausible numbers of them.
            if floats.iter().any(|number| !number.is_finite()) {
                let error = candle_core::Error::Msg("it has weights that are not finite numbers".to_owned());
                parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, Err(error)));
                return;
            }
            let bytes = Tensor::from_vec(floats, (part.len(), columns), &Device::Cpu)
                .and_then(|part| QTensor::quantize(&part, dtype))
                .and_then(|part| Ok(part.data()?.into_owned()));
            parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, bytes));
        }
    });
    let mut parts = parts.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    parts.sort_by_key(|(index, _)| *index);
    let mut bytes = Vec::new();
    for (_, part) in parts {
        bytes.extend_from_slice(&part?);
    }
    Matrix::new(dtype, rows, columns, bytes.into())
        .ok_or_else(|| candle_core::Error::Msg("a quantised matrix has another size".to_owned()))
}
