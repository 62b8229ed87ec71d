//! A thought before a guided answer: free, up to the tag that closes it.
//!
//! Invariant: no token goes beyond the tag, so that the format starts at a token of its own.

use super::tokens::Tokens;
use crate::model::TokenId;

/// A thought that the prompt has opened.
#[derive(Debug, Clone)]
pub struct Thought {
    tag: String,
    /// The tag as one token, where the vocabulary has it.
    token: Option<TokenId>,
    /// The last bytes of the thought, as many as the tag has.
    end: Vec<u8>,
    /// How many tokens it may still have.
    pub left: usize,
}

impl Thought {
    /// The thought that `opening` (`<think>`, white space aside) began.
    pub fn new(opening: &str, left: usize, tokens: &Tokens) -> Self {
        let name = opening.trim().trim_matches(['<', '>']);
        let tag = format!("</{name}>");
        Self { token: tokens.tokenizer().find(&tag), tag, end: Vec::new(), left }
    }

    /// The tokens that close it.
    pub fn closing(&self, tokens: &Tokens) -> Option<Vec<TokenId>> {
        match self.token {
            Some(token) => Some(vec![token]),
            None => tokens.encode(&self.tag).ok(),
        }
    }

    /// Whether a token may come next.
    pub fn allows(&self, token: TokenId, tokens: &Tokens) -> bool {
        if Some(token) == self.token {
            return true;
        }
        tokens.is_ordinary(token) && self.fits(&tokens.tokenizer().bytes(token).unwrap_or_default())
    }

    /// Whether these bytes do not go beyond the tag.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        // Most tokens cannot complete the tag.
        if !bytes.contains(&b'>') {
            return true;
        }
        let whole = [self.end.as_slice(), bytes].concat();
        let tag = self.tag.as_bytes();
        let found = whole.windows(tag.len()).position(|window| window.eq_ignore_ascii_case(tag));
        found.is_none_or(|at| at + tag.len() == whole.len())
    }

    /// Takes a token; whether it closed the thought.
    pub fn take(&mut self, token: TokenId, bytes: &[u8]) -> bool {
        self.left = self.left.saturating_sub(1);
        if Some(token) == self.token {
            return true;
        }
        self.end.extend_from_slice(bytes);
        let tag = self.tag.as_bytes();
        self.end.drain(..self.end.len().saturating_sub(tag.len()));
        self.end.eq_ignore_ascii_case(tag)
    }
}
