//! Models of a known shape with random weights: what a machine can do is measured before anything is downloaded.
//!
//! ```text
//!  models/shapes/NAME.json ─▶ Shape ─▶ a folder of settings ─▶ tokenizer, template, processor: read as any model's
//!                               └────▶ inventory ─▶ numbers ─▶ weights, each made when it is asked for
//! ```
//!
//! Invariant: a shape goes the way of every other model, from the settings in a folder to the logits. Only where a tensor
//! would be read from a file, its numbers are drawn; the same seed and name give the same numbers on every machine.

mod inventory;
mod numbers;
mod shape;
mod vocabulary;
mod weights;
mod write;

pub use numbers::Spread;
pub use shape::{PREFIX, Shape};
pub use weights::Synthetic;
pub use write::{Written, write_folder};
