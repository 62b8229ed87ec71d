//! A judge model, from files to logits.
//!
//! ```text
//!  a name ──▶ files ─────────▶ weights ──▶ decoder ──▶ logits
//!  locate     gguf, safetensors  weights     decoder ─ linear ─ kernels
//!                └─▶ config (family, rope)      │
//!                └─▶ tokenizer, chat            └─ one for all families
//! ```
//!
//! Invariant: nothing of a file is believed before it is checked, and nothing of it is fetched from anywhere.

pub mod bytes;
pub mod chat;
pub mod config;
pub mod decoder;
pub mod error;
pub mod family;
pub mod gguf;
pub mod linear;
pub mod load;
pub mod locate;
mod mapped;
pub mod quantise;
pub mod read;
pub mod rope;
pub mod safetensors;
pub mod tokenizer;
pub mod weights;

pub use bytes::Bytes;
pub use chat::ChatTemplate;
pub use error::ModelError;
pub use load::{LoadOptions, Model, ModelPrompt, Template};
pub use tokenizer::{Piece, Tokenizer};

/// A token, by its number in the model's vocabulary.
pub type TokenId = u32;
