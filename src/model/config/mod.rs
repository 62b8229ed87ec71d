//! The shape of a decoder, read from a file's own description.
//!
//! Invariant: every number is within sane bounds before anything is built from it, and whatever a description asks for
//! that the decoder does not do is refused by name, not ignored.

mod fields;
mod gguf;
mod json;
mod text;

pub use fields::Fields;
pub use gguf::from_gguf;
pub use json::{from_json, gate};
pub use text::text_of;

use super::family::Family;
use super::rope::Rope;
use crate::kernels::Gate;

/// The shape of a decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// The family.
    pub family: &'static Family,
    /// The hidden size.
    pub hidden: usize,
    /// The size inside the feed-forward part.
    pub intermediate: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub head_dim: usize,
    /// The longest sequence.
    pub context: usize,
    /// Keeps the roots of norms from being 0.
    pub epsilon: f32,
    /// The activation of the gate.
    pub gate: Gate,
    /// What dot products of attention are multiplied with.
    pub attention_scale: f32,
    /// The layers.
    pub layers: Vec<LayerConfig>,
    /// The rotary positions that layers choose from.
    pub ropes: Vec<Rope>,
    /// What embeddings are multiplied with.
    pub embedding_scale: Option<f32>,
    /// Logits are kept between minus and plus this.
    pub softcap: Option<f64>,
    /// Tokens of the embedding table, if the description says.
    pub vocabulary: Option<usize>,
    /// Whether the head is the embedding table; `None` if the tensors that are there decide.
    pub tied: Option<bool>,
}

/// What layers differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerConfig {
    /// How many positions a query sees; all if `None`.
    pub window: Option<usize>,
    /// The rotary positions, by their place in [`DecoderConfig::ropes`].
    pub rope: usize,
}

/// Bounds that no real model comes near, and that keep a lie from costing memory.
const MOST_LAYERS: usize = 1024;
const LARGEST: usize = 1 << 20;
const LONGEST_CONTEXT: usize = 1 << 26;

/// A head's size that rotary positions can be made for.
fn check_head(head_dim: usize) -> Result<usize, String> {
    let sane = head_dim > 0 && head_dim <= LARGEST && head_dim.is_multiple_of(2);
    let error = || format!("the head size is {head_dim}; it has to be an even number from 2 to {LARGEST}");
    sane.then_some(head_dim).ok_or_else(error)
}

impl DecoderConfig {
    /// What is wrong with the numbers.
    fn check(self) -> Result<Self, String> {
        let sizes = [
            ("hidden size", self.hidden, LARGEST),
            ("feed-forward size", self.intermediate, LARGEST),
            ("number of heads", self.heads, LARGEST),
            ("number of key-value heads", self.kv_heads, LARGEST),
            ("context length", self.context, LONGEST_CONTEXT),
            ("number of layers", self.layers.len(), MOST_LAYERS),
        ];
        for (name, size, most) in sizes {
            if size == 0 || size > most {
                return Err(format!("the {name} is {size}; it has to be from 1 to {most}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let Self { heads, kv_heads, .. } = self;
            return Err(format!("{heads} heads cannot share {kv_heads} key-value heads evenly"));
        }
        if self.layers.iter().any(|layer| layer.window == Some(0)) {
            return Err("the sliding window is 0".to_owned());
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0 && self.attention_scale.is_finite() && self.attention_scale > 0.0)
        {
            return Err("the norm's epsilon or the attention's scale is not a small positive number".to_owned());
        }
        if self.softcap.is_some_and(|cap| !(cap.is_finite() && cap > 0.0)) {
            return Err("final_logit_softcapping is not a positive number".to_owned());
        }
        Ok(self)
    }
}
