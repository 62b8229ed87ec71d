//! Linear layers, and the one place that decides how a matrix product is computed.
//!
//! Invariant: the decoder never sees a weight. Whoever replaces a kernel, or adds a device, changes [`Linear`] and
//! nothing above it.

use std::io;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::rotary_emb::rope_thd;

use super::device;
use crate::kernels::{self, AddOp, Gate, GateOp, Level, MatMul, Matrix, Precision, RopeOp};

/// Where and how tensors are computed.
#[derive(Debug, Clone)]
pub struct Compute {
    /// The device that holds the tensors.
    pub device: Device,
    /// Who does the arithmetic.
    pub kernels: Kernels,
    /// How finely this crate's kernels tell activations apart where weights are quantised.
    pub precision: Precision,
}

/// Who does the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// This crate's kernels for the CPU: floats stay where they lie in their file, blocks are laid out anew.
    Own(Level),
    /// Candle's operations, on any device.
    Candle,
}

impl Compute {
    /// The CPU with this crate's kernels.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, kernels: Kernels::Own(Level::detect()), precision: Precision::default() }
    }

    /// A device that only candle knows.
    pub fn candle(device: Device) -> Self {
        Self { device, kernels: Kernels::Candle, precision: Precision::default() }
    }

    /// What decides the last bits of a result, for a run's fingerprint.
    pub fn name(&self) -> String {
        let device = device::name(&self.device);
        let kernels = match self.kernels {
            Kernels::Own(level) => {
                let coarse = if self.precision == Precision::Coarse { ", 8-bit activations" } else { "" };
                format!("{level} kernels {}{coarse}", kernels::GENERATION)
            }
            Kernels::Candle => "candle".to_owned(),
        };
        let library = match () {
            () if self.device.is_cpu() && cfg!(feature = "mkl") => ", mkl",
            () if self.device.is_cpu() && cfg!(feature = "accelerate") => ", accelerate",
            () if self.device.is_cuda() && cfg!(feature = "flash-attn") => ", flash attention",
            () => "",
        };
        format!("{device}, {kernels}{library}")
    }
}

/// One or more linear layers with the same input; their outputs stand side by side.
#[derive(Debug)]
pub struct Linear(Weights);

#[derive(Debug)]
enum Weights {
    Own(MatMul),
    Candle(Vec<Product>, Option<Tensor>),
}

impl Linear {
    /// A layer of matrices with as many columns, and a bias over all outputs.
    pub fn new(parts: Vec<Matrix>, bias: Option<Tensor>, compute: &Compute) -> Result<Self> {
        let weights = match compute.kernels {
            Kernels::Own(level) => {
                let parts = parts.into_iter().map(|part| kernels::Weights::new(level, part));
                let bias = bias.map(|bias| bias.to_vec1().map(Vec::into)).transpose()?;
                Weights::Own(MatMul {
                    parts: parts.collect::<io::Result<_>>()?,
                    bias,
                    level,
                    precision: compute.precision,
                })
            }
            Kernels::Candle => {
                let products = parts.iter().map(|part| Product::new(part, &compute.device));
                Weights::Candle(products.collect::<Result<_>>()?, bias)
            }
        };
        Ok(Self(weights))
    }

    /// How many weights it has.
    pub fn parameters(&self) -> u64 {
        match &self.0 {
            Weights::Own(matmul) => matmul.parts.iter().map(|part| (part.rows() * part.columns()) as u64).sum(),
            Weights::Candle(parts, _) => parts.iter().map(Product::parameters).sum(),
        }
    }

    /// The outputs of rows of inputs.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Weights::Own(matmul) => x.contiguous()?.apply_op1_no_bwd(matmul),
            Weights::Candle(parts, bias) => {
                // Metal's kernels for quantised matrices read a buffer from its start, wherever the tensor begins.
                let settled = x.is_contiguous() && x.layout().start_offset() == 0;
                let x = if settled { x.clone() } else { x.force_contiguous()? };
                let outs = parts.iter().map(|part| part.forward(&x)).collect::<Result<Vec<_>>>()?;
                let out = Tensor::cat(&outs, 1)?;
                bias.as_ref().map_or(Ok(out.clone()), |bias| out.broadcast_add(bias))
            }
        }
    }
}

/// A matrix that candle multiplies with, on its device.
#[derive(Debug)]
enum Product {
    /// As it is quantised. The GPUs' kernels know all types that files may have here.
    Quantised(QMatMul),
    /// Floats, a row for each output.
    Dense(Tensor),
}

impl Product {
    fn new(matrix: &Matrix, device: &Device) -> Result<Self> {
        if matrix.dtype().block_size() == 1 {
            return Ok(Self::Dense(dense(matrix, device)?));
        }
        let storage = QStorage::from_data((&**matrix.bytes()).into(), device, matrix.dtype())?;
        let tensor = QTensor::new(storage, (matrix.rows(), matrix.columns()))?;
        Ok(Self::Quantised(QMatMul::from_qtensor(tensor)?))
    }

    fn parameters(&self) -> u64 {
        let count = match self {
            Self::Quantised(QMatMul::QTensor(matrix)) => matrix.shape().elem_count(),
            Self::Quantised(QMatMul::Tensor(matrix) | QMatMul::TensorF16(matrix)) | Self::Dense(matrix) => {
                matrix.elem_count()
            }
        };
        count as u64
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::Quantised(matrix) => matrix.forward(x),
            Self::Dense(matrix) => x.to_dtype(matrix.dtype())?.matmul(&matrix.t()?)?.to_dtype(DType::F32),
        }
    }
}

/// A matrix as a tensor of floats: of its own type on a GPU that computes with it, else of 32 bits.
fn dense(matrix: &Matrix, device: &Device) -> Result<Tensor> {
    let shape = (matrix.rows(), matrix.columns());
    let dtype = match matrix.dtype() {
        GgmlDType::F16 if !device.is_cpu() => DType::F16,
        GgmlDType::BF16 if device::has_brain_floats(device) => DType::BF16,
        _ => DType::F32,
    };
    if dtype != DType::F32 {
        return Tensor::from_raw_buffer(matrix.bytes(), dtype, &[shape.0, shape.1], device);
    }
    let mut floats = vec![0.0; shape.0 * shape.1];
    for (row, out) in floats.chunks_exact_mut(shape.1.max(1)).enumerate() {
        matrix.dequantise(row, out);
    }
    Tensor::from_vec(floats, shape, device)
}

/// The rows of a table of token embeddings.
#[derive(Debug)]
pub struct Embedding {
    table: Matrix,
    scale: Option<f32>,
}

impl Embedding {
    /// A table, and what its rows are multiplied with.
    pub fn new(table: Matrix, scale: Option<f32>) -> Self {
        Self { table, scale }
    }

    /// How many numbers it has.
    pub fn parameters(&self) -> u64 {
        (self.table.rows() * self.table.columns()) as u64
    }

    /// How many tokens there are.
    pub fn tokens(&self) -> usize {
        self.table.rows()
    }

    /// The embeddings of tokens, a row each.
    pub fn forward(&self, tokens: &[u32], device: &Device) -> Result<Tensor> {
        let width = self.table.columns();
        let mut floats = vec![0.0; tokens.len() * width];
        for (token, out) in tokens.iter().zip(floats.chunks_exact_mut(width.max(1))) {
            let row = *token as usize;
            if row >= self.tokens() {
                candle_core::bail!("token {row} is not among the {} of the model", self.tokens());
            }
            self.table.dequantise(row, out);
            if let Some(scale) = self.scale {
                out.iter_mut().for_each(|value| *value *= scale);
            }
        }
        Tensor::from_vec(floats, (tokens.len(), width), device)
    }
}

/// `activation(gate) · up` of rows that hold the gate's outputs and then the up projection's.
pub fn gated(x: &Tensor, gate: Gate, compute: &Compute) -> Result<Tensor> {
    if let Kernels::Own(level) = compute.kernels {
        return x.contiguous()?.apply_op1_no_bwd(&GateOp { gate, level });
    }
    let width = x.dim(1)? / 2;
    let (left, right) = (x.narrow(1, 0, width)?.contiguous()?, x.narrow(1, width, width)?);
    let left = match gate {
        Gate::Silu => left.silu()?,
        Gate::GeluTanh => left.gelu()?,
    };
    left * right
}

/// The sum of two tensors of the same shape.
pub fn sum(x: &Tensor, y: &Tensor, compute: &Compute) -> Result<Tensor> {
    match compute.kernels {
        Kernels::Own(level) => x.apply_op2_no_bwd(y, &AddOp { level }),
        Kernels::Candle => x + y,
    }
}

/// Heads `[rows, heads, head_dim]`, turned by the cosines and sines of their rows.
pub fn turned(heads: &Tensor, (cos, sin): &(Tensor, Tensor), compute: &Compute) -> Result<Tensor> {
    match compute.kernels {
        Kernels::Own(level) => heads.apply_op3_no_bwd(cos, sin, &RopeOp { level }),
        Kernels::Candle => rope_thd(&heads.contiguous()?.unsqueeze(0)?, cos, sin)?.squeeze(0),
    }
}
