//! From the tensors of a file to a decoder.
//!
//! Invariant: every tensor of the file is used or known to be superfluous, and each has exactly the shape that the
//! file's own description asks for. Weights stay where they lie in the mapped file unless they must be changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use candle_core::quantized::GgmlDType;
use serde_json::Value;

use super::ModelError;
use super::config::{DecoderConfig, from_gguf, from_json};
use super::decoder::{Decoder, Layer, Norm};
use super::family::Part;
use super::gguf::GgufFile;
use super::linear::{Compute, Embedding, Linear};
use super::read::read_file;
use super::safetensors::SafetensorsFolder;
use super::synthetic::{Shape, Synthetic};
use super::tensors::{Joined, Tensors, row};
use super::vision::{self, Parts, Vision};
use crate::kernels::{Attention, Matrix, Reach};

/// The files that a model is loaded from.
#[derive(Debug)]
pub enum Source {
    /// A GGUF file.
    Gguf(GgufFile),
    /// A Hugging Face folder: its tensors, and its `config.json`.
    Folder(SafetensorsFolder, Value),
    /// A shape: tensors that are drawn, and its `config.json`.
    Synthetic(Synthetic, Value),
}

/// The types that matrices are quantised to when they are loaded; as they are where there is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quant {
    /// Of the decoder's layers.
    pub layers: Option<GgmlDType>,
    /// Of the head.
    pub head: Option<GgmlDType>,
    /// Of the vision tower and what connects it.
    pub tower: Option<GgmlDType>,
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

    /// A shape with random weights.
    pub fn synthetic(shape: &Shape) -> Result<Self, ModelError> {
        let (tensors, config) = Synthetic::new(shape)?;
        Ok(Self::Synthetic(tensors, config))
    }

    /// The files that hold the weights, or say what they are drawn from.
    pub fn weight_files(&self) -> BTreeSet<PathBuf> {
        match self {
            Self::Gguf(file) => BTreeSet::from([file.path().to_owned()]),
            Self::Folder(folder, _) => folder.files(),
            Self::Synthetic(tensors, _) => BTreeSet::from([tensors.recipe()]),
        }
    }

    /// The file or folder that the weights are in, for messages.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Gguf(file) => file.path().to_owned(),
            Self::Folder(folder, _) => folder.path().to_owned(),
            Self::Synthetic(tensors, _) => tensors.path().to_owned(),
        }
    }

    /// The file that describes the model, for messages.
    pub fn described_in(&self) -> PathBuf {
        match self {
            Self::Gguf(file) => file.path().to_owned(),
            Self::Folder(..) | Self::Synthetic(..) => self.path().join("config.json"),
        }
    }

    /// The architecture of what stands around the decoder, if the model sees.
    pub fn architecture(&self) -> Option<&'static vision::Architecture> {
        match self {
            Self::Gguf(_) => None,
            Self::Folder(_, config) | Self::Synthetic(_, config) => {
                vision::architecture(config.get("model_type")?.as_str()?)
            }
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
            Self::Folder(_, config) | Self::Synthetic(_, config) => match self.architecture() {
                Some(architecture) => architecture.decoder(config),
                None => from_json(config),
            },
        };
        config.map_err(|what| ModelError::unsupported(&self.described_in(), what))
    }

    /// Builds the decoder, and the eyes if the model has any.
    pub fn build(
        &self,
        compute: &Compute,
        quant: &Quant,
        frame_pixels: Option<usize>,
    ) -> Result<(Decoder, Option<Box<dyn Vision>>), ModelError> {
        let config = self.config()?;
        let architecture = self.architecture();
        let name = architecture.map_or(config.family.architecture, |architecture| architecture.model_type);
        let tensors = Tensors::new(self, compute, name);
        // The small part first: what is wrong with it is said before the large one is prepared.
        let vision = match (architecture, self) {
            (Some(architecture), Self::Folder(_, json) | Self::Synthetic(_, json)) => {
                let (folder, tensors, hidden, quant) = (&self.path(), &tensors, config.hidden, quant.tower);
                let parts = Parts { config: json, folder, tensors, hidden, quant, frame_pixels };
                Some(architecture.open(&parts)?)
            }
            _ => None,
        };
        let prefix = match architecture {
            Some(_) => tensors.prefix(&vision::DECODERS, "embed_tokens.weight"),
            None => "model.",
        };
        let decoder = Loader { tensors: &tensors, config: &config, quant, prefix }.decoder()?;
        tensors.check_all_used()?;
        Ok((decoder, vision))
    }

    /// Builds the decoder of a model that reads only.
    pub fn decoder(&self, compute: &Compute, layers: Option<GgmlDType>) -> Result<Decoder, ModelError> {
        Ok(self.build(compute, &Quant { layers, ..Quant::default() }, None)?.0)
    }
}

struct Loader<'a> {
    tensors: &'a Tensors<'a>,
    config: &'a DecoderConfig,
    quant: &'a Quant,
    /// What the names of the decoder's tensors begin with in a Hugging Face folder.
    prefix: &'a str,
}

impl Loader<'_> {
    fn decoder(&self) -> Result<Decoder, ModelError> {
        let Self { tensors, config, prefix, .. } = self;
        let (embedding, norm, head) = match tensors.source {
            Source::Gguf(_) => ("token_embd.weight".to_owned(), "output_norm".to_owned(), "output"),
            Source::Folder(..) | Source::Synthetic(..) => {
                (format!("{prefix}embed_tokens.weight"), format!("{prefix}norm"), "lm_head")
            }
        };
        // A GGUF file does not say how many rows the table has.
        let rows = config.vocabulary.map_or_else(|| tensors.rows(&embedding), Ok)?;
        let table = tensors.matrix(&embedding, rows, config.hidden)?;
        let head_weight = format!("{head}.weight");
        let has_head = tensors.has(&head_weight);
        let head_weights = match config.tied {
            // A checkpoint may hold the table a second time under the head's name. Where it holds another one, releases of
            // transformers disagree which is meant.
            Some(true) if has_head => {
                let second = tensors.matrix(&head_weight, rows, config.hidden)?;
                if second.dtype() != table.dtype() || second.bytes()[..] != table.bytes()[..] {
                    let what = format!(
                        "`tie_word_embeddings` is true, but `{head_weight}` is another table than `{embedding}`"
                    );
                    let remedy = "set it to false if the head is meant";
                    return Err(ModelError::bad(&tensors.source.path(), format!("{what}; {remedy}")));
                }
                table.clone()
            }
            Some(true) => table.clone(),
            None if !has_head => table.clone(),
            _ => tensors.matrix(&head_weight, rows, config.hidden)?,
        };
        let head_weights = tensors.quantised(head, head_weights, self.quant.head)?;
        let head_bias = tensors.vector(&format!("{head}.bias"), rows)?.map(|bias| tensors.tensor(bias)).transpose()?;
        let layers = (0..config.layers.len()).map(|index| self.layer(index)).collect::<Result<_, _>>()?;
        Ok(Decoder {
            compute: tensors.compute.clone(),
            layers,
            norm: self.norm(&format!("{norm}.weight"), config.hidden)?,
            head: Linear::new(vec![head_weights], head_bias, tensors.compute)?,
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
        let reach = kind.window.map_or(Reach::Before, Reach::Window);
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
            attention: Attention { heads, kv_heads, head_dim, scale: self.config.attention_scale, reach },
            rope: kind.rope,
            gate: self.config.gate,
        })
    }

    /// The name of a layer's weight, without its ending.
    fn name(&self, index: usize, part: Part) -> String {
        match self.tensors.source {
            Source::Gguf(_) => format!("blk.{index}.{}", self.config.family.gguf(part)),
            Source::Folder(..) | Source::Synthetic(..) => {
                let (prefix, part) = (self.prefix, self.config.family.hugging_face(part));
                format!("{prefix}layers.{index}.{part}")
            }
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
        let mut joined = Joined::default();
        for (part, outputs) in parts {
            let name = self.name(index, *part);
            let mut matrix = self.tensors.matrix(&format!("{name}.weight"), *outputs, inputs)?;
            let mut bias = self.tensors.vector(&format!("{name}.bias"), *outputs)?;
            let neighbours = self.config.family.neighbours_in_gguf && matches!(self.tensors.source, Source::Gguf(_));
            if neighbours && matches!(part, Part::Query | Part::Key) {
                matrix = matrix.reordered(neighbour);
                bias = bias.map(|bias| (0..*outputs).map(|row| bias[neighbour(row)]).collect());
            }
            joined.add(self.tensors, &name, matrix, bias, self.quant.layers)?;
        }
        joined.linear(self.tensors)
    }

    fn norm(&self, name: &str, size: usize) -> Result<Norm, ModelError> {
        let mut weight = self.tensors.vector(name, size)?.ok_or_else(|| self.tensors.missing(name))?;
        if self.config.family.norms_plus_one && !matches!(self.tensors.source, Source::Gguf(_)) {
            weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(Norm { weight: self.tensors.tensor(weight)?, epsilon: self.config.epsilon })
    }
}
