//! What keeps an answer to its format while it is written.
//!
//! Invariant: a guide only ever takes choices away. Where the model's own choice is allowed, the answer is the one it
//! would have given without a guide.

use thiserror::Error;

use crate::model::TokenId;

/// A guide cannot go on: a fault of the format or of this program, never of the model.
#[derive(Debug, Error)]
#[error("internal error in the guide of an answer: {0}")]
pub struct GuideError(pub String);

/// Follows one answer token by token, and says what may come next.
pub trait Guide: std::fmt::Debug + Send {
    /// The tokens that come next whatever the model says; empty where there is a choice. They are not taken by this.
    fn forced(&mut self) -> Result<Vec<TokenId>, GuideError>;

    /// Sets the logits of all tokens that may not come next to minus infinity. At least one stays.
    fn restrict(&mut self, logits: &mut [f32]) -> Result<(), GuideError>;

    /// How many of these tokens, from the first on, may come next, one after another. None of them is taken by this.
    fn allowed(&mut self, draft: &[TokenId]) -> Result<usize, GuideError>;

    /// Takes a token: it stands in the answer now.
    fn take(&mut self, token: TokenId) -> Result<(), GuideError>;

    /// Whether the answer is whole, so that nothing but its end may follow.
    fn is_complete(&mut self) -> bool;
}
