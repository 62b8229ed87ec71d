//! A judge model, from files to logits.
//!
//! ```text
//!  a name ──▶ files ──▶ weights ──▶ decoder
//!  locate     gguf      weights     decoder ─ linear ─ kernels
//!             safetensors
//!                    ──▶ tokenizer, chat template
//! ```

pub mod bytes;
pub mod error;
pub mod gguf;
pub mod locate;
mod mapped;
pub mod safetensors;

pub use bytes::Bytes;
pub use error::ModelError;

/// A token, by its number in the model's vocabulary.
pub type TokenId = u32;
