//! The tensors of a model's files, by name.
//!
//! Invariant: a tensor is given out only with the shape that was asked for, and it is known which ones were. So a model
//! whose files hold more or less than its description is refused, by the name of a tensor. Weights stay where they lie
//! in the mapped file.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use candle_core::quantized::GgmlDType;
use safetensors::Dtype;

use super::linear::{Compute, Linear};
use super::quantise::quantise;
use super::weights::Source;
use super::{Bytes, ModelError};
use crate::kernels::Matrix;

/// The tensors of a model, and which of them were asked for.
#[derive(Debug)]
pub struct Tensors<'a> {
    /// The files.
    pub source: &'a Source,
    /// Where tensors are computed with.
    pub compute: &'a Compute,
    /// The architecture, for messages.
    pub architecture: &'a str,
    used: RefCell<BTreeSet<String>>,
}

/// A tensor as it lies in a file.
struct Found {
    dtype: GgmlDType,
    shape: Vec<usize>,
    bytes: Bytes,
    file: PathBuf,
}

/// The numbers of a matrix of one row.
pub fn row(matrix: &Matrix) -> Vec<f32> {
    let mut out = vec![0.0; matrix.columns()];
    matrix.dequantise(0, &mut out);
    out
}

impl<'a> Tensors<'a> {
    /// The tensors of files, of which none was asked for yet.
    pub fn new(source: &'a Source, compute: &'a Compute, architecture: &'a str) -> Self {
        Self { source, compute, architecture, used: RefCell::default() }
    }

    /// Whether there is a tensor of that name.
    pub fn has(&self, name: &str) -> bool {
        match self.source {
            Source::Gguf(file) => file.tensor(name).is_some(),
            Source::Folder(folder, _) => folder.tensor(name).is_some(),
            Source::Synthetic(tensors, _) => tensors.shape(name).is_some(),
        }
    }

    /// The first of these beginnings that the tensor `name` is there with; the last one if there is none.
    pub fn prefix(&self, beginnings: &[&'static str], name: &str) -> &'static str {
        let there = beginnings.iter().find(|beginning| self.has(&format!("{beginning}{name}")));
        there.or(beginnings.last()).copied().unwrap_or_default()
    }

    /// How many rows a matrix has.
    pub fn rows(&self, name: &str) -> Result<usize, ModelError> {
        let found = self.find(name)?.ok_or_else(|| self.missing(name))?;
        let [rows, _] = *found.shape else { return Err(self.misshaped(name, &found, "two dimensions")) };
        Ok(rows)
    }

    /// A matrix.
    pub fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        self.flattened(name, &[rows, columns])
    }

    /// A tensor of any shape as a matrix: its first dimension are the rows.
    fn flattened(&self, name: &str, shape: &[usize]) -> Result<Matrix, ModelError> {
        let found = self.find(name)?.ok_or_else(|| self.missing(name))?;
        if found.shape != shape {
            return Err(self.misshaped(name, &found, &format!("{shape:?}")));
        }
        let (rows, columns) = (shape.first().copied().unwrap_or(0), shape.iter().skip(1).product());
        let Found { dtype, bytes, file, .. } = found;
        Matrix::new(dtype, rows, columns, bytes).ok_or_else(|| bad_size(&file, name))
    }

    /// A vector, where the file has it.
    pub fn vector(&self, name: &str, size: usize) -> Result<Option<Vec<f32>>, ModelError> {
        let Some(found) = self.find(name)? else { return Ok(None) };
        if found.shape != [size] {
            return Err(self.misshaped(name, &found, &format!("[{size}]")));
        }
        let matrix = Matrix::new(found.dtype, 1, size, found.bytes);
        Ok(Some(row(&matrix.ok_or_else(|| bad_size(&found.file, name))?)))
    }

    /// A vector that has to be there, as a tensor.
    pub fn required(&self, name: &str, size: usize) -> Result<Tensor, ModelError> {
        self.tensor(self.vector(name, size)?.ok_or_else(|| self.missing(name))?)
    }

    /// A linear layer with a bias where there is one: `name.weight`, `name.bias`.
    pub fn linear(
        &self,
        name: &str,
        outputs: usize,
        inputs: usize,
        quant: Option<GgmlDType>,
    ) -> Result<Linear, ModelError> {
        self.side_by_side(&[(name, outputs)], inputs, quant)
    }

    /// Linear layers with the same input, whose outputs stand side by side.
    pub fn side_by_side(
        &self,
        parts: &[(&str, usize)],
        inputs: usize,
        quant: Option<GgmlDType>,
    ) -> Result<Linear, ModelError> {
        let mut joined = Joined::default();
        for (name, outputs) in parts {
            let matrix = self.matrix(&format!("{name}.weight"), *outputs, inputs)?;
            joined.add(self, name, matrix, self.vector(&format!("{name}.bias"), *outputs)?, quant)?;
        }
        joined.linear(self)
    }

    /// A convolution whose steps are as large as its kernel, as a linear layer over cut-out patches: `name.weight` of
    /// this shape, outputs first, and `name.bias` where there is one.
    pub fn convolution(&self, name: &str, shape: &[usize], quant: Option<GgmlDType>) -> Result<Linear, ModelError> {
        let weight = self.flattened(&format!("{name}.weight"), shape)?;
        let bias = self.vector(&format!("{name}.bias"), weight.rows())?;
        let mut joined = Joined::default();
        joined.add(self, name, weight, bias, quant)?;
        joined.linear(self)
    }

    /// A matrix in another type.
    pub fn quantised(&self, name: &str, matrix: Matrix, quant: Option<GgmlDType>) -> Result<Matrix, ModelError> {
        let Some(dtype) = quant else { return Ok(matrix) };
        let quantised = match self.source {
            Source::Synthetic(tensors, _) => tensors.quantised(name, matrix, dtype),
            Source::Gguf(_) | Source::Folder(..) => quantise(&matrix, dtype),
        };
        quantised.map_err(|error| {
            let what = format!("the tensor `{name}.weight` cannot be quantised: {error}; the file is damaged");
            ModelError::bad(&self.source.path(), what)
        })
    }

    /// Numbers as a tensor.
    pub fn tensor(&self, numbers: Vec<f32>) -> Result<Tensor, ModelError> {
        let count = numbers.len();
        Ok(Tensor::from_vec(numbers, count, &self.compute.device)?)
    }

    fn find(&self, name: &str) -> Result<Option<Found>, ModelError> {
        let found = match self.source {
            Source::Gguf(file) => file.tensor(name).map(|tensor| Found {
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                bytes: tensor.bytes.clone(),
                file: file.path().to_owned(),
            }),
            Source::Folder(folder, _) => match folder.tensor(name) {
                None => None,
                Some(tensor) => {
                    let dtype = match tensor.dtype {
                        Dtype::F32 => GgmlDType::F32,
                        Dtype::F16 => GgmlDType::F16,
                        Dtype::BF16 => GgmlDType::BF16,
                        other => {
                            let what = format!("tensor `{name}` has the type {other:?}; supported are F32, F16, BF16");
                            return Err(ModelError::unsupported(&tensor.file, what));
                        }
                    };
                    let (shape, bytes) = (tensor.shape.clone(), tensor.bytes.clone());
                    Some(Found { dtype, shape, bytes, file: tensor.file.clone() })
                }
            },
            Source::Synthetic(tensors, _) => tensors.shape(name).map(|shape| Found {
                dtype: GgmlDType::BF16,
                shape: shape.to_vec(),
                bytes: tensors.bytes(name, shape),
                file: tensors.recipe(),
            }),
        };
        if found.is_some() {
            self.used.borrow_mut().insert(name.to_owned());
        }
        Ok(found)
    }

    /// A tensor that is not there.
    pub fn missing(&self, name: &str) -> ModelError {
        let architecture = self.architecture;
        let what = format!(
            "the tensor `{name}` is missing; the file is not whole, or not of the architecture `{architecture}`"
        );
        ModelError::bad(&self.source.path(), what)
    }

    fn misshaped(&self, name: &str, found: &Found, expected: &str) -> ModelError {
        let described = self.source.described_in();
        let what = format!(
            "tensor `{name}` has the shape {:?}, but {} asks for {expected}; weights and configuration are not of one model",
            found.shape,
            described.display()
        );
        ModelError::bad(&found.file, what)
    }

    /// A tensor that nobody asked for means that the model is not what its description says.
    pub fn check_all_used(&self) -> Result<(), ModelError> {
        let used = self.used.borrow();
        let superfluous = |name: &str| {
            let known = name == "rope_freqs.weight" || name.ends_with("rotary_emb.inv_freq");
            !known && !used.contains(name)
        };
        let extra = match self.source {
            Source::Gguf(file) => file.names().find(|name| superfluous(name)),
            Source::Folder(folder, _) => folder.names().find(|name| superfluous(name)),
            Source::Synthetic(tensors, _) => tensors.names().find(|name| superfluous(name)),
        };
        match extra {
            None => Ok(()),
            Some(name) => Err(ModelError::unsupported(
                &self.source.path(),
                format!(
                    "the tensor `{name}` is no part of the architecture `{}`; this is another kind of model",
                    self.architecture
                ),
            )),
        }
    }
}

fn bad_size(file: &Path, name: &str) -> ModelError {
    ModelError::bad(file, format!("tensor `{name}` has another size than its shape says"))
}

/// Layers with the same input while they are put side by side.
#[derive(Default)]
pub struct Joined {
    matrices: Vec<Matrix>,
    bias: Vec<f32>,
    has_bias: bool,
}

impl Joined {
    /// Adds a layer.
    pub fn add(
        &mut self,
        tensors: &Tensors<'_>,
        name: &str,
        matrix: Matrix,
        bias: Option<Vec<f32>>,
        quant: Option<GgmlDType>,
    ) -> Result<(), ModelError> {
        self.has_bias |= bias.is_some();
        self.bias.extend(bias.unwrap_or_else(|| vec![0.0; matrix.rows()]));
        self.matrices.push(tensors.quantised(name, matrix, quant)?);
        Ok(())
    }

    /// All of them as one layer.
    pub fn linear(self, tensors: &Tensors<'_>) -> Result<Linear, ModelError> {
        let bias = self.has_bias.then(|| tensors.tensor(self.bias)).transpose()?;
        Ok(Linear::new(self.matrices, bias, tensors.compute)?)
    }
}
