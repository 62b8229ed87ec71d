//! A model's vocabulary, as the grammar engine sees it.
//!
//! Invariant: only ordinary tokens stand for text. A control or added token has no bytes here, so that no grammar can
//! ever allow it; the end of an answer is the one exception, and the engine knows it as such.

use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenizerEnv};

use super::GrammarError;
use crate::model::{ModelError, Piece, TokenId, Tokenizer};

/// More bytes than this has no token that a guided answer needs, and the engine's tree has a depth.
const LONGEST_TOKEN: usize = 256;

/// A vocabulary and the way a model would write a text with it.
pub struct Tokens {
    tokenizer: Tokenizer,
    trie: TokTrie,
    /// How many tokens the text before takes in [`Tokens::encode`].
    before: usize,
}

/// Text that only stands before another one: what follows does not start the answer, so it gets no dummy space.
const BEFORE: &str = "x";

impl Tokens {
    /// The vocabulary of a tokenizer.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, GrammarError> {
        let size = u32::try_from(tokenizer.vocab_size()).map_err(|_| GrammarError::Vocabulary)?;
        let bytes = |id: TokenId| {
            let bytes = tokenizer.bytes(id).filter(|_| is_ordinary(tokenizer, id)).unwrap_or_default();
            // 0xff is in no UTF-8, and is the engine's mark of special tokens.
            if bytes.len() > LONGEST_TOKEN || bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
                Vec::new()
            } else {
                bytes
            }
        };
        let words: Vec<Vec<u8>> = (0..size).map(bytes).collect();
        let ends = tokenizer.end_tokens();
        let info = TokRxInfo::new(size, ends.first().copied().unwrap_or(INVALID_TOKEN));
        let mut trie = TokTrie::from(&info, &words);
        if ends.len() > 1 {
            trie = trie.with_eos_tokens(ends);
        }
        let before = tokenizer.encode(&[Piece::Untrusted(BEFORE.into())])?.len();
        Ok(Self { tokenizer: tokenizer.clone(), trie, before })
    }

    /// The tokens of a text in the middle of an answer.
    pub fn encode(&self, text: &str) -> Result<Vec<TokenId>, ModelError> {
        let encode = |piece| {
            let mut ids = self.tokenizer.encode(&[Piece::Untrusted(BEFORE.into()), piece])?;
            ids.drain(..self.before);
            Ok::<_, ModelError>(ids)
        };
        // As the model reads such a text, added white space and all; but never with control in it, nor with a dummy space
        // that some tokenizers put behind what was added.
        let ids = encode(Piece::Trusted(text.into()))?;
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.tokenizer.bytes(*id).unwrap_or_default()).collect();
        if bytes == text.as_bytes() && ids.iter().all(|id| is_ordinary(&self.tokenizer, *id)) {
            return Ok(ids);
        }
        encode(Piece::Untrusted(text.into()))
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether a token is ordinary text.
    pub fn is_ordinary(&self, id: TokenId) -> bool {
        is_ordinary(&self.tokenizer, id)
    }
}

fn is_ordinary(tokenizer: &Tokenizer, id: TokenId) -> bool {
    !tokenizer.is_reserved(id) && !tokenizer.is_end(id)
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        // A text that the tokenizer cannot spell is spelled by its longest tokens: any way is right that gives its bytes.
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            self.encode(text).unwrap_or_else(|_| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }
}
