//! What else could have stood at a place of an answer, and how likely it was.
//!
//! Invariant: whoever weighs only listens. No token of an answer depends on it.

use super::EngineError;
use crate::model::TokenId;

/// The logits behind each of several continuations of the answer so far.
pub type Follow<'a> = dyn FnMut(&[Vec<TokenId>]) -> Result<Vec<Vec<f32>>, EngineError> + 'a;

/// Listens to one answer token by token.
pub trait Weigh: std::fmt::Debug {
    /// Hears the next token, before it stands in the answer, and the logits that it was chosen from; `None` if a guide
    /// forced it. `follow` computes what would come behind other tokens in its place.
    fn take(
        &mut self,
        token: TokenId,
        logits: Option<&[f32]>,
        follow: &mut Follow<'_>,
    ) -> Result<Option<Weighed>, EngineError>;
}

/// How likely the values were that could have stood at a place.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighed {
    /// The place: bytes of the answer before it.
    pub at: usize,
    /// The share of each value, in order; together 1.
    pub shares: Vec<f64>,
}
