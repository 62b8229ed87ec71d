//! Linear layers, and the one place that decides how a matrix product is computed.
//!
//! Invariant: the decoder never sees a weight. Whoever replaces a kernel, or adds a device, changes [`Linear`] and
//! nothing above it.

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};

use crate::kernels::{Gate, GateOp, Level, MatMul, Matrix};

/// Where and how tensors are computed.
#[derive(Debug, Clone)]
pub struct Compute {
    /// The device that holds the tensors.
    pub device: Device,
    /// Who does the arithmetic.
    pub kernels: Kernels,
}

/// Who does the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernels {
    /// This crate's kernels for the CPU: weights stay where they lie in their file.
    Own(Level),
    /// Candle's operations, on any device.
    Candle,
}

impl Compute {
    /// The CPU with this crate's kernels.
    pub fn cpu() -> Self {
        Self { device: Device::Cpu, kernels: Kernels::Own(Level::detect()) }
    }

    /// What decides the last bits of a result, for a run's fingerprint.
    pub fn name(&self) -> String {
        let device = match &self.device {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Metal(_) => "metal",
        };
        match self.kernels {
            Kernels::Own(level) => format!("{device}, {level} kernels"),
            Kernels::Candle => format!("{device}, candle"),
        }
    }
}

/// One or more linear layers with the same input; their outputs stand side by side.
#[derive(Debug)]
pub struct Linear {
    weights: Weights,
    bias: Option<Tensor>,
}

#[derive(Debug)]
enum Weights {
    Own(MatMul),
    Quantised(Vec<QMatMul>),
    /// Transposed.
    Dense(Vec<Tensor>),
}

impl Linear {
    /// A layer of matrices with as many columns, and a bias over all outputs.
    pub fn new(parts: Vec<Matrix>, bias: Option<Tensor>, compute: &Compute) -> Result<Self> {
        let weights = match compute.kernels {
            Kernels::Own(level) => Weights::Own(MatMul { parts: parts.into(), level }),
            Kernels::Candle if parts.iter().all(|part| part.dtype().block_size() > 1) => {
                let quantised = parts.iter().map(|part| quantised(part, &compute.device));
                Weights::Quantised(quantised.collect::<Result<_>>()?)
            }
            Kernels::Candle => {
                let dense = parts.iter().map(|part| dense(part, &compute.device)?.t()?.contiguous());
                Weights::Dense(dense.collect::<Result<_>>()?)
            }
        };
        Ok(Self { weights, bias })
    }

    /// The outputs of rows of inputs.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let out = match &self.weights {
            Weights::Own(matmul) => x.contiguous()?.apply_op1_no_bwd(matmul)?,
            Weights::Quantised(parts) => {
                let outs = parts.iter().map(|part| part.forward(x)).collect::<Result<Vec<_>>>()?;
                Tensor::cat(&outs, 1)?
            }
            Weights::Dense(parts) => {
                let product = |part: &Tensor| x.to_dtype(part.dtype())?.matmul(part)?.to_dtype(DType::F32);
                let outs = parts.iter().map(product).collect::<Result<Vec<_>>>()?;
                Tensor::cat(&outs, 1)?
            }
        };
        match &self.bias {
            Some(bias) => out.broadcast_add(bias),
            None => Ok(out),
        }
    }
}

fn quantised(matrix: &Matrix, device: &Device) -> Result<QMatMul> {
    let storage = QStorage::from_data((&**matrix.bytes()).into(), device, matrix.dtype())?;
    QMatMul::from_qtensor(QTensor::new(storage, (matrix.rows(), matrix.columns()))?)
}

/// A matrix as a tensor of floats: of its own type on a GPU, of 32 bits on the CPU.
fn dense(matrix: &Matrix, device: &Device) -> Result<Tensor> {
    let shape = (matrix.rows(), matrix.columns());
    let dtype = match (matrix.dtype(), device) {
        (GgmlDType::F16, Device::Cuda(_) | Device::Metal(_)) => DType::F16,
        (GgmlDType::BF16, Device::Cuda(_) | Device::Metal(_)) => DType::BF16,
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
