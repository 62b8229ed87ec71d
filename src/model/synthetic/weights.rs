//! The weights of a shape, made when they are asked for.
//!
//! Invariant: never more of the whole model is in memory than what was asked for and kept. Where a quantised type is
//! wanted, blocks of that type are drawn, so that a large model is there in seconds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use half::bf16;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Shape;
use super::inventory::Inventory;
use super::numbers::{BYTES, Numbers, Spread};
use crate::kernels::{Matrix, block_bytes};
use crate::model::quantise::held;
use crate::model::{Bytes, ModelError};

/// Quantised blocks that matrices are put together from.
const POOL: usize = 1 << 10;
/// Changes when other numbers are drawn, and with it a shape's SHA-256.
const GENERATOR: u32 = 1;
/// The seed of shapes that are named without one.
pub const SEED: u64 = 0;

/// What the weights of a shape are drawn from, beside the settings of the model.
const RECIPE: &str = "synthetic.json";

/// A shape with its weights.
#[derive(Debug)]
pub struct Synthetic {
    folder: Arc<TempDir>,
    tensors: Inventory,
    seed: u64,
    pools: Mutex<Vec<Pool>>,
}

/// Blocks of a type and deviation.
#[derive(Debug)]
struct Pool {
    dtype: GgmlDType,
    deviation: f32,
    blocks: Arc<[u8]>,
}

impl Synthetic {
    /// Writes the settings of a shape to a folder of its own, which goes when nobody needs it any more.
    pub fn new(shape: &Shape) -> Result<(Self, Value), ModelError> {
        let folder = tempfile::Builder::new().prefix("capjudge-shape-").tempdir();
        let folder = folder.map_err(|source| ModelError::io(&std::env::temp_dir(), source))?;
        shape.write_settings(folder.path(), Shape::STORED)?;
        let recipe = json!({"shape": shape.name(), "seed": SEED, "stored": Shape::STORED, "generator": GENERATOR});
        let path = folder.path().join(RECIPE);
        std::fs::write(&path, format!("{recipe:#}\n")).map_err(|source| ModelError::io(&path, source))?;
        let tensors = shape.inventory()?;
        let made = Self { folder: Arc::new(folder), tensors, seed: SEED, pools: Mutex::default() };
        Ok((made, shape.config(Shape::STORED)))
    }

    /// Where its settings are.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What keeps its settings where they are.
    pub fn folder(&self) -> Arc<TempDir> {
        Arc::clone(&self.folder)
    }

    /// The file that says what the weights are drawn from: it stands for them in the model's SHA-256.
    pub fn recipe(&self) -> PathBuf {
        self.path().join(RECIPE)
    }

    /// The shape of a tensor, if there is one of that name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(Vec::as_slice)
    }

    /// The names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The numbers of a tensor, as bf16.
    pub fn bytes(&self, name: &str, shape: &[usize]) -> Bytes {
        let mut bytes = vec![0; shape.iter().product::<usize>() * BYTES];
        Numbers::new(self.seed, name, Spread::of(name, shape)).fill(0, &mut bytes);
        bytes.into()
    }

    /// A matrix of the same size in another type, its blocks drawn from a pool of that type; as it is where its rows do
    /// not fill blocks.
    pub fn quantised(&self, name: &str, matrix: Matrix, dtype: GgmlDType) -> candle_core::Result<Matrix> {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let Some(dtype) = held(columns, dtype) else { return Ok(matrix) };
        let weight = format!("{name}.weight");
        let shape = self.tensors.get(&weight).map_or_else(|| vec![rows, columns], Vec::clone);
        let spread = Spread::of(&weight, &shape);
        let pool = self.pool(dtype, spread)?;
        let size = dtype.type_size();
        let numbers = Numbers::new(self.seed, &weight, spread);
        let mut bytes = vec![0; block_bytes(dtype, columns).unwrap_or(0) * rows];
        for (block, out) in bytes.chunks_exact_mut(size).enumerate() {
            let at = numbers.draw(block as u64) as usize % POOL * size;
            out.copy_from_slice(&pool[at..at + size]);
        }
        Matrix::new(dtype, rows, columns, bytes.into())
            .ok_or_else(|| candle_core::Error::Msg("a drawn matrix has another size".to_owned()))
    }

    fn pool(&self, dtype: GgmlDType, spread: Spread) -> candle_core::Result<Arc<[u8]>> {
        let mut pools = self.pools.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let there = pools.iter().find(|pool| pool.dtype == dtype && pool.deviation == spread.deviation);
        if let Some(pool) = there {
            return Ok(Arc::clone(&pool.blocks));
        }
        let count = POOL * dtype.block_size();
        let mut bytes = vec![0; count * BYTES];
        Numbers::new(self.seed, "pool", spread).fill(0, &mut bytes);
        let floats = bytes.chunks_exact(BYTES).map(|two| bf16::from_le_bytes([two[0], two[1]]).to_f32());
        let floats = Tensor::from_vec(floats.collect::<Vec<f32>>(), (POOL, dtype.block_size()), &Device::Cpu)?;
        let blocks: Arc<[u8]> = QTensor::quantize(&floats, dtype)?.data()?.into_owned().into();
        pools.push(Pool { dtype, deviation: spread.deviation, blocks: Arc::clone(&blocks) });
        Ok(blocks)
    }
}
