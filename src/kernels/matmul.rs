//! Products of activations with weights.
//!
//! Quantised weights meet whole numbers ([`super::tiles`]). Weights that are floats meet floats: a panel of weight rows is
//! turned into 32-bit floats once and then meets every row of the activations while it is in the cache.

use std::cell::RefCell;
use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, bail};

use super::threads::share;
use super::tiles::{self, Activations, Precision, STRIP};
use super::{Level, Matrix, Shared, TILE_COLUMNS, TILE_ROWS, Weights, portable};

/// Weights that are multiplied with the same activations, as an operation of candle: the outputs stand side by side.
#[derive(Debug, Clone)]
pub struct MatMul {
    /// The weights; all have as many columns.
    pub parts: Arc<[Weights]>,
    /// What is added to the outputs of all parts, if anything.
    pub bias: Option<Arc<[f32]>>,
    /// The kernels.
    pub level: Level,
    /// How finely activations are told apart where weights are quantised.
    pub precision: Precision,
}

impl CustomOp1 for MatMul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let CpuStorage::F32(data) = storage else { bail!("activations are 32-bit floats") };
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("activations lie in one piece") };
        let (columns, dims) = match layout.dims() {
            [dims @ .., columns] if self.parts.iter().all(|part| part.columns() == *columns) => (*columns, dims),
            dims => bail!("activations of shape {dims:?} do not fit the weights"),
        };
        let outputs: usize = self.parts.iter().map(Weights::rows).sum();
        let rows = (end - start).checked_div(columns).unwrap_or(0);
        let mut out = vec![0.0; rows * outputs];
        matmul(self.level, self.precision, &data[start..end], &self.parts, &mut out);
        if let Some(bias) = &self.bias {
            out.chunks_exact_mut(outputs.max(1))
                .for_each(|row| row.iter_mut().zip(&**bias).for_each(|(out, bias)| *out += bias));
        }
        let mut shape = dims.to_vec();
        shape.push(outputs);
        Ok((CpuStorage::F32(out), shape.into()))
    }
}

/// Columns of the tile for a single row: many, because nothing else hides the time that a multiplication takes.
const WIDE: usize = 8;

/// The bytes of a panel: small for few rows, so that it stays in the first cache; larger for many.
const PANEL_BYTES: usize = 256 << 10;

/// `x · weightsᵀ` for rows of activations `x`, the outputs of all `parts` side by side in each row of `out`.
pub fn matmul(level: Level, precision: Precision, x: &[f32], parts: &[Weights], out: &mut [f32]) {
    let Some(columns) = parts.first().map(Weights::columns).filter(|columns| *columns > 0) else { return };
    let rows = x.len() / columns;
    let outputs: usize = parts.iter().map(Weights::rows).sum();
    assert_eq!(out.len(), rows * outputs, "the output has another size");
    thread_local! {
        static INTEGERS: RefCell<Activations> = RefCell::default();
    }
    INTEGERS.with_borrow_mut(|integers| {
        if parts.iter().any(|part| matches!(part, Weights::Tiles(_))) {
            integers.quantise(level, precision, x, columns);
        }
        let mut before = 0;
        for part in parts {
            let place = Place { out: Shared(out.as_mut_ptr()), outputs, before };
            match part {
                Weights::Tiles(tiles) => {
                    share(tiles.strips(), STRIP * columns * rows, |strips| {
                        tiles::multiply(level, tiles, strips, integers, |row, output, products| {
                            // SAFETY: row and outputs are inside; these strips' outputs are no other thread's.
                            unsafe { place.row(row, output, products.len()) }.copy_from_slice(products);
                        });
                    });
                }
                Weights::Floats(matrix) => floats(level, x, matrix, place),
            }
            before += part.rows();
        }
    });
}

/// Where the outputs of a part go.
#[derive(Clone, Copy)]
struct Place {
    out: Shared<f32>,
    /// Outputs of a row, of all parts.
    outputs: usize,
    /// Those before this part.
    before: usize,
}

impl Place {
    /// # Safety
    /// The outputs are inside the row, the row inside the output, and nobody else has them.
    unsafe fn row<'a>(self, row: usize, output: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: as the caller says.
        unsafe { self.out.slice(row * self.outputs + self.before + output, count) }
    }
}

/// Products with weights that are floats.
fn floats(level: Level, x: &[f32], matrix: &Matrix, place: Place) {
    let columns = matrix.columns();
    let rows = x.len() / columns;
    let panel = if rows == 1 {
        WIDE
    } else {
        (PANEL_BYTES / (columns * size_of::<f32>()) / TILE_COLUMNS).clamp(1, 8) * TILE_COLUMNS
    };
    thread_local! {
        static FLOATS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    }
    share(matrix.rows().div_ceil(panel), panel * columns * rows, |range| {
        for first in range.map(|index| index * panel) {
            let outputs = first..matrix.rows().min(first + panel);
            let put = |row: usize, output: usize, value: f32| {
                // SAFETY: row and output are inside; this panel's outputs are no other thread's.
                unsafe { place.out.write(row * place.outputs + place.before + first + output, value) }
            };
            if let Some(weights) = matrix.floats(outputs.clone()) {
                multiply(level, x, weights, columns, put);
            } else {
                FLOATS.with_borrow_mut(|floats| {
                    floats.resize(outputs.len() * columns, 0.0);
                    for (row, out) in outputs.zip(floats.chunks_exact_mut(columns)) {
                        matrix.dequantise_with(level, row, out);
                    }
                    multiply(level, x, floats, columns, put);
                });
            }
        }
    });
}

/// Multiplies rows of `x` with rows of `weights`, both of `length` floats; `put` takes row, weight and product.
fn multiply(level: Level, x: &[f32], weights: &[f32], length: usize, put: impl Fn(usize, usize, f32)) {
    let row = |index: usize| &x[index * length..][..length];
    let weight = |index: usize| &weights[index * length..][..length];
    let (rows, count) = (x.len() / length, weights.len() / length);
    #[cfg(target_arch = "x86_64")]
    if level != Level::Portable && rows == 1 && count == WIDE {
        let columns: [*const f32; WIDE] = std::array::from_fn(|c| weight(c).as_ptr());
        // SAFETY: the level says that the machine has AVX2; all slices have `length` floats.
        let [sums] = unsafe { super::avx2::dots([row(0).as_ptr()], columns, length) };
        sums.into_iter().enumerate().for_each(|(column, sum)| put(0, column, sum));
        return;
    }
    for first_row in (0..rows).step_by(TILE_ROWS) {
        let tile_rows = TILE_ROWS.min(rows - first_row);
        for first in (0..count).step_by(TILE_COLUMNS) {
            let tile_columns = TILE_COLUMNS.min(count - first);
            let tile = tile(
                level,
                &std::array::from_fn(|r| row(first_row + r.min(tile_rows - 1))),
                tile_rows,
                &std::array::from_fn(|c| weight(first + c.min(tile_columns - 1))),
                tile_columns,
            );
            for (r, sums) in tile.iter().enumerate().take(tile_rows) {
                for (c, sum) in sums.iter().enumerate().take(tile_columns) {
                    put(first_row + r, first + c, *sum);
                }
            }
        }
    }
}

/// The dot products of the first `r` rows with the first `c` columns.
pub(super) fn tile(
    level: Level,
    rows: &[&[f32]; TILE_ROWS],
    r: usize,
    columns: &[&[f32]; TILE_COLUMNS],
    c: usize,
) -> [[f32; TILE_COLUMNS]; TILE_ROWS] {
    match level {
        Level::Portable => portable::dots(&rows[..r], &columns[..c]),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => {
            let length = rows[0].len();
            let equal = rows.iter().chain(columns).all(|list| list.len() == length);
            assert!(equal, "rows of different lengths");
            macro_rules! shaped {
                ($r:literal, $c:literal) => {{
                    let rows: [*const f32; $r] = std::array::from_fn(|i| rows[i].as_ptr());
                    let columns: [*const f32; $c] = std::array::from_fn(|i| columns[i].as_ptr());
                    let mut out = [[0.0; TILE_COLUMNS]; TILE_ROWS];
                    // SAFETY: the level says that the machine has AVX2; all slices have `length` floats.
                    let sums = unsafe { super::avx2::dots::<$r, $c>(rows, columns, length) };
                    for (out, sums) in out.iter_mut().zip(sums) {
                        out[..$c].copy_from_slice(&sums);
                    }
                    out
                }};
            }
            match (r, c) {
                (4, 3) => shaped!(4, 3),
                (4, 2) => shaped!(4, 2),
                (4, 1) => shaped!(4, 1),
                (3, 3) => shaped!(3, 3),
                (3, 2) => shaped!(3, 2),
                (3, 1) => shaped!(3, 1),
                (2, 3) => shaped!(2, 3),
                (2, 2) => shaped!(2, 2),
                (2, 1) => shaped!(2, 1),
                (1, 3) => shaped!(1, 3),
                (1, 2) => shaped!(1, 2),
                _ => shaped!(1, 1),
            }
        }
    }
}
