//! How long a text is, and whether it keeps a rule about that.
//!
//! Invariant: lengths are counted, never estimated, and the same way everywhere (`docs/formats.md` says how). A rule
//! that is not understood is reported as such, not as kept.

mod count;
mod number;
mod request;
mod rule;

pub use count::{Unit, characters, sentences, words};
pub use rule::{LengthRule, within_percent};
