//! The decoder that all language models here are: one shape, many configurations.
//!
//! ```text
//!  tokens ─▶ embedding ─▶ [ norm ─ attention ─(norm)─ + ─ norm ─ feed forward ─(norm)─ + ] × layers ─▶ norm ─▶ head ─▶ logits
//! ```
//!
//! Invariant: it holds no state of any sequence. Where keys and values are kept, and whose rows stand beside whose, is
//! the engine's business; here every row is on its own except in [`Attend`].

use candle_core::{DType, Result, Tensor};
use candle_nn::ops::rms_norm;

use super::linear::{Compute, Embedding, Kernels, Linear, gated, sum, turned};
use super::rope::{Position, Rope};
use crate::kernels::{Attention, Gate, RmsNormOp};

/// Keeps keys and values, and lets queries meet them.
pub trait Attend {
    /// Stores the keys and values of all rows for a layer, and gives what their queries find. All are `[rows, heads,
    /// head_dim]`.
    fn attend(&mut self, layer: usize, kind: &Attention, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor>;
}

/// A decoder with its weights.
#[derive(Debug)]
pub struct Decoder {
    /// Where it computes.
    pub compute: Compute,
    /// Embeddings of tokens.
    pub embedding: Embedding,
    /// The layers.
    pub layers: Vec<Layer>,
    /// The norm before the head.
    pub norm: Norm,
    /// The head.
    pub head: Linear,
    /// Logits are kept between minus and plus this.
    pub softcap: Option<f64>,
    /// The kinds of rotary positions that layers choose from.
    pub ropes: Vec<Rope>,
    /// The longest sequence that the model was made for.
    pub context: usize,
}

/// A layer of a decoder.
#[derive(Debug)]
pub struct Layer {
    /// The norm before attention.
    pub attention_norm: Norm,
    /// Queries, keys and values.
    pub qkv: Linear,
    /// The norm of each query head.
    pub q_norm: Option<Norm>,
    /// The norm of each key head.
    pub k_norm: Option<Norm>,
    /// From heads back to the hidden size.
    pub output: Linear,
    /// The norm behind attention.
    pub post_attention_norm: Option<Norm>,
    /// The norm before the feed-forward part.
    pub feed_forward_norm: Norm,
    /// The gate and the up projection.
    pub gate_up: Linear,
    /// The down projection.
    pub down: Linear,
    /// The norm behind the feed-forward part.
    pub post_feed_forward_norm: Option<Norm>,
    /// Its attention.
    pub attention: Attention,
    /// Its rotary positions, by their place in [`Decoder::ropes`].
    pub rope: usize,
    /// The activation of the gate.
    pub gate: Gate,
}

/// A root-mean-square norm.
#[derive(Debug)]
pub struct Norm {
    /// What normed numbers are multiplied with.
    pub weight: Tensor,
    /// Keeps the root from being 0.
    pub epsilon: f32,
}

impl Norm {
    /// The rows, normed.
    pub fn forward(&self, x: &Tensor, compute: &Compute) -> Result<Tensor> {
        match compute.kernels {
            Kernels::Own(level) => x.apply_op2_no_bwd(&self.weight, &RmsNormOp { epsilon: self.epsilon, level }),
            Kernels::Candle => rms_norm(&x.contiguous()?, &self.weight, self.epsilon),
        }
    }
}

impl Decoder {
    /// What leaves the last layer for rows of embeddings at the given positions. `deep` is added to what leaves the
    /// first layers, one tensor of all rows a layer.
    pub fn forward(
        &self,
        embeddings: Tensor,
        positions: &[Position],
        deep: &[Tensor],
        cache: &mut dyn Attend,
    ) -> Result<Tensor> {
        let tables = self.ropes.iter().map(|rope| rope.tables(positions, &self.compute.device));
        let tables = tables.collect::<Result<Vec<_>>>()?;
        let mut x = embeddings.to_dtype(DType::F32)?;
        for (index, layer) in self.layers.iter().enumerate() {
            x = layer.forward(index, &x, &tables[layer.rope], cache, &self.compute)?;
            if let Some(deep) = deep.get(index) {
                x = sum(&x, deep, &self.compute)?;
            }
        }
        Ok(x)
    }

    /// How many numbers it has, without the head, which most often is the embeddings once more.
    pub fn parameters(&self) -> u64 {
        let layer = |layer: &Layer| {
            [&layer.qkv, &layer.output, &layer.gate_up, &layer.down].into_iter().map(Linear::parameters).sum::<u64>()
        };
        self.embedding.parameters() + self.layers.iter().map(layer).sum::<u64>()
    }

    /// The logits of rows that left the last layer.
    pub fn logits(&self, rows: &Tensor) -> Result<Tensor> {
        let logits = self.head.forward(&self.norm.forward(rows, &self.compute)?)?;
        match self.softcap {
            Some(cap) => (logits / cap)?.tanh()? * cap,
            None => Ok(logits),
        }
    }
}

impl Layer {
    fn forward(
        &self,
        index: usize,
        x: &Tensor,
        angles: &(Tensor, Tensor),
        cache: &mut dyn Attend,
        compute: &Compute,
    ) -> Result<Tensor> {
        let Attention { heads, kv_heads, head_dim, .. } = self.attention;
        let rows = x.dim(0)?;
        let qkv = self.qkv.forward(&self.attention_norm.forward(x, compute)?)?;
        let qkv = qkv.reshape((rows, heads + 2 * kv_heads, head_dim))?;
        let placed = |first: usize, count: usize, norm: &Option<Norm>| {
            turned(&normed(qkv.narrow(1, first, count)?, norm, compute)?, angles, compute)
        };
        let q = placed(0, heads, &self.q_norm)?;
        let k = placed(heads, kv_heads, &self.k_norm)?;
        let v = qkv.narrow(1, heads + kv_heads, kv_heads)?;
        let found = cache.attend(index, &self.attention, &q, &k, &v)?.reshape((rows, heads * head_dim))?;
        let x = sum(x, &normed(self.output.forward(&found)?, &self.post_attention_norm, compute)?, compute)?;
        let inner = self.gate_up.forward(&self.feed_forward_norm.forward(&x, compute)?)?;
        let out = self.down.forward(&gated(&inner, self.gate, compute)?)?;
        sum(&x, &normed(out, &self.post_feed_forward_norm, compute)?, compute)
    }
}

fn normed(x: Tensor, norm: &Option<Norm>, compute: &Compute) -> Result<Tensor> {
    match norm {
        Some(norm) => norm.forward(&x, compute),
        None => Ok(x),
    }
}
