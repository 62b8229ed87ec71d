//! From the tensors of a file to a decoder.
//!
//! Invariant: every tensor of the file is used or known to be superfluous, and each has exactly the shape that the
//! file's own description asks for. Weights stay where they lie in the mapped file unless they must be changed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use candle_core::quantized::GgmlDType;
use safetensors::Dtype;
use serde_json::Value;

use super::config::{DecoderConfig, from_gguf, from_json};
use super::decoder::{Decoder, Layer, Norm};
use super::family::Part;
use super::gguf::GgufFile;
use super::linear::{Compute, Embedding, Linear};
use super::quantise::quantise;
use super::read::read_file;
use super::safetensors::SafetensorsFolder;
use super::{Bytes, ModelError};
use crate::kernels::{Attention, Matrix};

/// The files that a model is loaded from.
#[derive(Debug)]
pub enum Source {
    /// A GGUF file.
    Gguf(GgufFile),
    /// A Hugging Face folder: its tensors, and its `config.json`.
    Folder(SafetensorsFolder, Value),
}

/// The largest `config.json` that is read.
const LARGEST_CONFIG: u64 = 16 << 20;

impl Source {
    /// Opens a GGUF file.
    pub fn gguf(path: &Path) -> Result<Self, ModelError> {
        Ok(Self::Gguf(GgufFile::open(path)?))
    }

    /// Opens a Hugging Face folder.
    pub fn folder(folder: &Path) -> Result<Self, ModelError> {
        let path = folder.join("config.json");
        let missing = || ModelError::NotFound(format!("{}: there is no such file", path.display()));
        let bytes = read_file(&path, LARGEST_CONFIG)?.ok_or_else(missing)?;
        let config =
            serde_json::from_slice(&bytes).map_err(|error| ModelError::bad(&path, format!("not JSON ({error})")))?;
        Ok(Self::Folder(SafetensorsFolder::open(folder)?, config))
    }

    /// The files that hold the weights.
    pub fn weight_files(&self) -> BTreeSet<PathBuf> {
        match self {
            Self::Gguf(file) => BTreeSet::from([file.path().to_owned()]),
            Self::Folder(folder, _) => {
                let tensors = folder.names().filter_map(|name| folder.tensor(name));
                tensors.map(|tensor| tensor.file.clone()).collect()
            }
        }
    }

    /// The file or folder that the weights are in, for messages.
    fn path(&self) -> PathBuf {
        match self {
            Self::Gguf(file) => file.path().to_owned(),
            Self::Folder(folder, _) => folder.path().to_owned(),
        }
    }

    /// The file that describes the model, for messages.
    fn described_in(&self) -> PathBuf {
        match self {
            Self::Gguf(file) => file.path().to_owned(),
            Self::Folder(tensors, _) => tensors.path().join("config.json"),
        }
    }

    /// The shape of the decoder.
    pub fn config(&self) -> Result<DecoderConfig, ModelError> {
        let config = match self {
            Self::Gguf(file) => {
                let divisors = file.tensor("rope_freqs.weight").map(|tensor| {
                    let count: usize = tensor.shape.iter().product();
                    let matrix = Matrix::new(tensor.dtype, 1, count, tensor.bytes.clone());
                    matrix.map(|matrix| row(&matrix)).unwrap_or_default()
                });
                from_gguf(file.metadata(), divisors)
            }
            Self::Folder(_, config) => from_json(config),
        };
        config.map_err(|what| ModelError::unsupported(&self.described_in(), what))
    }

    /// Builds the decoder. `quant` changes the type of the layers' matrices; embeddings and head stay as they are.
    pub fn decoder(&self, compute: &Compute, quant: Option<GgmlDType>) -> Result<Decoder, ModelError> {
        let config = self.config()?;
        let loader = Loader { source: self, config: &config, compute, quant, used: RefCell::default() };
        let decoder = loader.decoder()?;
        loader.check_all_used()?;
        Ok(decoder)
    }
}

/// The numbers of a matrix of one row.
fn row(matrix: &Matrix) -> Vec<f32> {
    let mut out = vec![0.0; matrix.columns()];
    matrix.dequantise(0, &mut out);
    out
}

struct Loader<'a> {
    source: &'a Source,
    config: &'a DecoderConfig,
    compute: &'a Compute,
    quant: Option<GgmlDType>,
    used: RefCell<BTreeSet<String>>,
}

/// A tensor as it lies in a file.
struct Found {
    dtype: GgmlDType,
    shape: Vec<usize>,
    bytes: Bytes,
    file: PathBuf,
}

impl Loader<'_> {
    fn decoder(&self) -> Result<Decoder, ModelError> {
        let config = self.config;
        let (embedding, norm, head) = match self.source {
            Source::Gguf(_) => ("token_embd.weight", "output_norm", "output"),
            Source::Folder(..) => ("model.embed_tokens.weight", "model.norm", "lm_head"),
        };
        let table = self.table(embedding)?;
        let head_weight = format!("{head}.weight");
        let has_head = self.find(&head_weight)?.is_some();
        let head_weights = match config.tied {
            Some(true) => table.clone(),
            None if !has_head => table.clone(),
            _ => self.matrix(&head_weight, table.rows(), config.hidden)?,
        };
        let head_bias =
            self.vector(&format!("{head}.bias"), table.rows())?.map(|bias| self.tensor(bias)).transpose()?;
        let layers = (0..config.layers.len()).map(|index| self.layer(index)).collect::<Result<_, _>>()?;
        Ok(Decoder {
            compute: self.compute.clone(),
            layers,
            norm: self.norm(&format!("{norm}.weight"), config.hidden)?,
            head: Linear::new(vec![head_weights], head_bias, self.compute)?,
            embedding: Embedding::new(table, config.embedding_scale),
            softcap: config.softcap,
            ropes: config.ropes.clone(),
            context: config.context,
        })
    }

    fn layer(&self, index: usize) -> Result<Layer, ModelError> {
        let DecoderConfig { family, hidden, intermediate, heads, kv_heads, head_dim, .. } = *self.config;
        let norm = |part: Part, size: usize| self.norm(&format!("{}.weight", self.name(index, part)), size);
        let optional = |wanted: bool, part: Part, size: usize| wanted.then(|| norm(part, size)).transpose();
        let linear = |parts: &[(Part, usize)], inputs: usize| self.linear(index, parts, inputs);
        let kind = &self.config.layers[index];
        Ok(Layer {
            attention_norm: norm(Part::AttentionNorm, hidden)?,
            qkv: linear(
                &[
                    (Part::Query, heads * head_dim),
                    (Part::Key, kv_heads * head_dim),
                    (Part::Value, kv_heads * head_dim),
                ],
                hidden,
            )?,
            q_norm: optional(family.head_norms, Part::QueryNorm, head_dim)?,
            k_norm: optional(family.head_norms, Part::KeyNorm, head_dim)?,
            output: linear(&[(Part::Output, hidden)], heads * head_dim)?,
            post_attention_norm: optional(family.post_norms, Part::PostAttentionNorm, hidden)?,
            feed_forward_norm: norm(Part::FeedForwardNorm, hidden)?,
            gate_up: linear(&[(Part::Gate, intermediate), (Part::Up, intermediate)], hidden)?,
            down: linear(&[(Part::Down, hidden)], intermediate)?,
            post_feed_forward_norm: optional(family.post_norms, Part::PostFeedForwardNorm, hidden)?,
            attention: Attention { heads, kv_heads, head_dim, scale: self.config.attention_scale, window: kind.window },
            rope: kind.rope,
            gate: self.config.gate,
        })
    }

    /// The name of a layer's weight, without its ending.
    fn name(&self, index: usize, part: Part) -> String {
        match self.source {
            Source::Gguf(_) => format!("blk.{index}.{}", self.config.family.gguf(part)),
            Source::Folder(..) => format!("model.layers.{index}.{}", self.config.family.hugging_face(part)),
        }
    }

    /// Layers with the same input, side by side.
    fn linear(&self, index: usize, parts: &[(Part, usize)], inputs: usize) -> Result<Linear, ModelError> {
        let head_dim = self.config.head_dim;
        // Where the row of a head lies in a file that turns neighbours: pairs that stand half a head apart here stand
        // side by side there.
        let neighbour = |row: usize| {
            let (head, place) = (row / head_dim, row % head_dim);
            head * head_dim + place % (head_dim / 2) * 2 + place / (head_dim / 2)
        };
        let mut matrices = Vec::new();
        let mut bias = Vec::new();
        let mut has_bias = false;
        for (part, outputs) in parts {
            let name = self.name(index, *part);
            let mut matrix = self.matrix(&format!("{name}.weight"), *outputs, inputs)?;
            let stored = self.vector(&format!("{name}.bias"), *outputs)?;
            has_bias |= stored.is_some();
            let mut stored = stored.unwrap_or_else(|| vec![0.0; *outputs]);
            let neighbours = self.config.family.neighbours_in_gguf && matches!(self.source, Source::Gguf(_));
            if neighbours && matches!(part, Part::Query | Part::Key) {
                matrix = matrix.reordered(neighbour);
                stored = (0..*outputs).map(|row| stored[neighbour(row)]).collect();
            }
            if let Some(dtype) = self.quant {
                matrix = quantise(&matrix, dtype).map_err(|error| {
                    let what = format!("the tensor `{name}.weight` cannot be quantised: {error}; the file is damaged");
                    ModelError::bad(&self.source.path(), what)
                })?;
            }
            matrices.push(matrix);
            bias.extend(stored);
        }
        let bias = has_bias.then(|| self.tensor(bias)).transpose()?;
        Ok(Linear::new(matrices, bias, self.compute)?)
    }

    fn norm(&self, name: &str, size: usize) -> Result<Norm, ModelError> {
        let mut weight = self.vector(name, size)?.ok_or_else(|| self.missing(name))?;
        if self.config.family.norms_plus_one && matches!(self.source, Source::Folder(..)) {
            weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(Norm { weight: self.tensor(weight)?, epsilon: self.config.epsilon })
    }

    fn tensor(&self, numbers: Vec<f32>) -> Result<Tensor, ModelError> {
        let count = numbers.len();
        Ok(Tensor::from_vec(numbers, count, &self.compute.device)?)
    }

    /// The table of embeddings. A GGUF file does not say how many rows it has.
    fn table(&self, name: &str) -> Result<Matrix, ModelError> {
        let found = self.find(name)?.ok_or_else(|| self.missing(name))?;
        let [rows, _] = *found.shape else { return Err(self.misshaped(name, &found, "two dimensions")) };
        self.matrix(name, self.config.vocabulary.unwrap_or(rows), self.config.hidden)
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ModelError> {
        let found = self.find(name)?.ok_or_else(|| self.missing(name))?;
        if found.shape != [rows, columns] {
            return Err(self.misshaped(name, &found, &format!("[{rows}, {columns}]")));
        }
        let Found { dtype, bytes, file, .. } = found;
        Matrix::new(dtype, rows, columns, bytes)
            .ok_or_else(|| ModelError::bad(&file, format!("tensor `{name}` has another size than its shape says")))
    }

    /// A vector, where the file has it.
    fn vector(&self, name: &str, size: usize) -> Result<Option<Vec<f32>>, ModelError> {
        let Some(found) = self.find(name)? else { return Ok(None) };
        if found.shape != [size] {
            return Err(self.misshaped(name, &found, &format!("[{size}]")));
        }
        let matrix = Matrix::new(found.dtype, 1, size, found.bytes);
        let bad = || ModelError::bad(&found.file, format!("tensor `{name}` has another size than its shape says"));
        Ok(Some(row(&matrix.ok_or_else(bad)?)))
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
        };
        if found.is_some() {
            self.used.borrow_mut().insert(name.to_owned());
        }
        Ok(found)
    }

    fn missing(&self, name: &str) -> ModelError {
        let what = format!(
            "the tensor `{name}` is missing; the file is not whole, or not of the architecture `{}`",
            self.config.family.architecture
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
    fn check_all_used(&self) -> Result<(), ModelError> {
        let used = self.used.borrow();
        let superfluous = |name: &str| {
            let known = name == "rope_freqs.weight" || name.ends_with("rotary_emb.inv_freq");
            !known && !used.contains(name)
        };
        let extra = match self.source {
            Source::Gguf(file) => file.names().find(|name| superfluous(name)),
            Source::Folder(folder, _) => folder.names().find(|name| superfluous(name)),
        };
        match extra {
            None => Ok(()),
            Some(name) => Err(ModelError::unsupported(
                &self.source.path(),
                format!(
                    "the tensor `{name}` is no part of the architecture `{}`; this is another kind of model",
                    self.config.family.architecture
                ),
            )),
        }
    }
}
