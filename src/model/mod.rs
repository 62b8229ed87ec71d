//! A judge model, from files to logits.
//!
//! ```text
//!  a name ──▶ files ──▶ weights ──▶ decoder
//!  locate     gguf      weights     decoder ─ linear ─ kernels
//!             safetensors
//!                    ──▶ tokenizer, chat template
//! ```

pub mod bytes;
pub mod chat;
pub mod error;
pub mod gguf;
pub mod locate;
mod mapped;
pub mod safetensors;
pub mod tokenizer;

pub use bytes::Bytes;
pub use chat::ChatTemplate;
pub use error::ModelError;
pub use tokenizer::{Piece, Tokenizer};

/// A token, by its number in the model's vocabulary.
pub type TokenId = u32;
