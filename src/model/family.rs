//! The families of language models, and in what they differ from one another.
//!
//! Invariant: all that a family has of its own is in its row here and in the file's configuration. Adding one means
//! a row, a tiny checkpoint in `tests/data/models` and its reference values (`tests/reference/text_models.py`).

/// What a family of models has of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its `model_type` in a Hugging Face `config.json`.
    pub model_type: &'static str,
    /// Its `general.architecture` in a GGUF file.
    pub architecture: &'static str,
    /// Query and key heads are normed.
    pub head_norms: bool,
    /// What attention and feed forward give is normed before it is added.
    pub post_norms: bool,
    /// Norms multiply with one plus the stored weight (in a GGUF file the one is added already).
    pub norms_plus_one: bool,
    /// Embeddings are multiplied with the root of the hidden size.
    pub scaled_embeddings: bool,
    /// GGUF files hold the rows of queries and keys in the order for turning neighbours, not halves.
    pub neighbours_in_gguf: bool,
    /// Whether the head is the embedding table if the configuration does not say.
    pub tied: bool,
}

const PLAIN: Family = Family {
    model_type: "",
    architecture: "",
    head_norms: false,
    post_norms: false,
    norms_plus_one: false,
    scaled_embeddings: false,
    neighbours_in_gguf: false,
    tied: false,
};

/// All families.
pub const FAMILIES: [Family; 4] = [
    Family { model_type: "llama", architecture: "llama", neighbours_in_gguf: true, ..PLAIN },
    Family { model_type: "qwen2", architecture: "qwen2", ..PLAIN },
    Family { model_type: "qwen3", architecture: "qwen3", head_norms: true, ..PLAIN },
    Family {
        model_type: "gemma3_text",
        architecture: "gemma3",
        head_norms: true,
        post_norms: true,
        norms_plus_one: true,
        scaled_embeddings: true,
        tied: true,
        ..PLAIN
    },
];

/// A weight of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The norm before attention.
    AttentionNorm,
    /// Queries.
    Query,
    /// Keys.
    Key,
    /// Values.
    Value,
    /// From heads back to the hidden size.
    Output,
    /// The norm of query heads.
    QueryNorm,
    /// The norm of key heads.
    KeyNorm,
    /// The norm behind attention.
    PostAttentionNorm,
    /// The norm before the feed-forward part.
    FeedForwardNorm,
    /// The gate.
    Gate,
    /// The up projection.
    Up,
    /// The down projection.
    Down,
    /// The norm behind the feed-forward part.
    PostFeedForwardNorm,
}

impl Family {
    /// The name of a layer's weight in a Hugging Face checkpoint, without the layer.
    pub fn hugging_face(&self, part: Part) -> &'static str {
        match part {
            Part::AttentionNorm => "input_layernorm",
            Part::Query => "self_attn.q_proj",
            Part::Key => "self_attn.k_proj",
            Part::Value => "self_attn.v_proj",
            Part::Output => "self_attn.o_proj",
            Part::QueryNorm => "self_attn.q_norm",
            Part::KeyNorm => "self_attn.k_norm",
            // Where there is one norm between attention and feed forward, it has the name of the one behind attention.
            Part::PostAttentionNorm => "post_attention_layernorm",
            Part::FeedForwardNorm if self.post_norms => "pre_feedforward_layernorm",
            Part::FeedForwardNorm => "post_attention_layernorm",
            Part::Gate => "mlp.gate_proj",
            Part::Up => "mlp.up_proj",
            Part::Down => "mlp.down_proj",
            Part::PostFeedForwardNorm => "post_feedforward_layernorm",
        }
    }

    /// The name of a layer's weight in a GGUF file, without the layer.
    pub fn gguf(&self, part: Part) -> &'static str {
        match part {
            Part::AttentionNorm => "attn_norm",
            Part::Query => "attn_q",
            Part::Key => "attn_k",
            Part::Value => "attn_v",
            Part::Output => "attn_output",
            Part::QueryNorm => "attn_q_norm",
            Part::KeyNorm => "attn_k_norm",
            Part::PostAttentionNorm => "post_attention_norm",
            Part::FeedForwardNorm => "ffn_norm",
            Part::Gate => "ffn_gate",
            Part::Up => "ffn_up",
            Part::Down => "ffn_down",
            Part::PostFeedForwardNorm => "post_ffw_norm",
        }
    }
}
