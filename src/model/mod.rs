//! A judge model, from files to logits.
//!
//! ```text
//!  a name ──▶ files ─────────▶ tensors ──▶ decoder ──▶ logits
//!  locate     gguf, safetensors  weights     decoder ─ linear ─ kernels
//!                └─▶ config (family, rope)      │
//!                └─▶ tokenizer, chat, prompt    └─ one for all families; vision stands around it
//! ```
//!
//! Invariant: nothing of a file is believed before it is checked, and nothing of it is fetched from anywhere.

pub mod chat;
pub mod config;
pub mod decoder;
pub mod device;
pub mod error;
pub mod family;
pub mod files;
pub mod gguf;
pub mod linear;
pub mod load;
pub mod locate;
pub mod lock;
pub mod manifest;
mod mapped;
pub mod pocket;
mod prompt;
pub mod quantise;
pub mod read;
pub mod rope;
pub mod safetensors;
pub mod synthetic;
pub mod tensors;
pub mod tokenizer;
pub mod verify;
pub mod vision;
pub mod weights;

pub use crate::kernels::Bytes;
pub use chat::ChatTemplate;
pub use error::ModelError;
pub use load::{LoadOptions, Model, Template};
pub use prompt::{ModelPrompt, Part, Seen, Shown};
pub use tokenizer::{Piece, Tokenizer};

/// A token, by its number in the model's vocabulary.
pub type TokenId = u32;
