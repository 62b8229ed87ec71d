//! From the parts that every file format holds to a tokenizer.
//!
//! Invariant: what is built here is checked first: every merge makes a token of the vocabulary, every token has one id,
//! and ids are few enough to be kept in a list.

use std::path::Path;
use std::sync::Arc;

use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::normalizers::{NormalizerWrapper, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::pre_tokenizers::sequence::Sequence as PreTokenizers;

use super::untrusted::Plain;
use super::vocabulary::{Kind, Vocabulary};
use super::{ModelError, TokenId, Tokenizer};

/// More tokens than any model has; a file with a higher id is broken.
pub const MAX_TOKENS: u64 = 1 << 22;

/// More bytes than the longest token of any model has. Work on a token may grow with the square of its length.
const MAX_NAME_BYTES: usize = 1024;

/// Control tokens that end an answer, whatever the rest of the file says.
const ENDS: [&str; 5] = ["<|im_end|>", "<end_of_turn>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>"];

/// What a tokenizer is made of.
pub struct Parts {
    pub vocabulary: Vocabulary,
    /// Every name that text can become, with its token.
    pub ids: Vocab,
    pub merges: Merges,
    pub unknown: Option<String>,
    pub fuse_unknown: bool,
    pub byte_fallback: bool,
    pub whole_words: bool,
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
    pub added: Vec<AddedToken>,
    pub bos: Option<TokenId>,
    pub eos: Option<TokenId>,
    pub adds_bos: bool,
    pub ends: Vec<TokenId>,
}

impl Parts {
    /// The tokenizer; `path` is the file that errors name.
    pub fn build(self, path: &Path) -> Result<Tokenizer, ModelError> {
        let failed =
            |error: tokenizers::Error| ModelError::bad(path, format!("the tokenizer cannot be built: {error}"));
        check_merges(&self.merges, &self.ids).map_err(|what| ModelError::bad(path, what))?;
        let mut model = BPE::builder()
            .vocab_and_merges(self.ids, self.merges)
            .fuse_unk(self.fuse_unknown)
            .byte_fallback(self.byte_fallback)
            .ignore_merges(self.whole_words);
        if let Some(unknown) = self.unknown {
            model = model.unk_token(unknown);
        }
        let mut inner = tokenizers::Tokenizer::new(model.build().map_err(failed)?);
        inner.with_normalizer(self.normalizer.clone()).map_err(failed)?;
        inner.with_pre_tokenizer(self.pre_tokenizer.clone());
        inner.add_tokens(self.added).map_err(failed)?;
        let vocabulary = self.vocabulary;
        let mut ends = self.ends;
        ends.extend(ENDS.iter().filter_map(|name| inner.token_to_id(name)).filter(|id| is_control(*id, &vocabulary)));
        ends.extend(self.eos);
        ends.sort_unstable();
        ends.dedup();
        for id in ends.iter().chain(&self.bos) {
            if vocabulary.name(*id).is_none() {
                return Err(ModelError::bad(
                    path,
                    format!("token {id} begins or ends texts, but is not in the vocabulary"),
                ));
            }
        }
        let start = Plain { normalizer: self.normalizer, pre_tokenizer: self.pre_tokenizer };
        let further = without_dummy_space(&start);
        let differ = start.sees("a") != further.sees("a");
        Ok(Tokenizer {
            path: path.to_owned(),
            inner: Arc::new(inner),
            further: differ.then_some(further),
            start,
            vocabulary: Arc::new(vocabulary),
            bos: self.bos,
            eos: self.eos,
            adds_bos: self.adds_bos && self.bos.is_some(),
            ends,
        })
    }
}

/// Refuses a token that is longer than any can be.
pub fn check_name(path: &Path, id: u64, name: &str) -> Result<(), ModelError> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let what = format!(
        "token {id} is {} bytes long; no model has one of more than {MAX_NAME_BYTES}, so the file is damaged",
        name.len()
    );
    Err(ModelError::bad(path, what))
}

fn is_control(id: TokenId, vocabulary: &Vocabulary) -> bool {
    vocabulary.kind(id) == Some(Kind::Control)
}

/// The library trusts merges to be sound, and panics or stops at the first one that is not.
fn check_merges(merges: &Merges, ids: &Vocab) -> Result<(), String> {
    let mut whole = String::new();
    for (left, right) in merges {
        whole.clear();
        whole.push_str(left);
        whole.push_str(right);
        for name in [left, right, &whole] {
            if !ids.contains_key(name.as_str()) {
                return Err(format!("the merge of {left:?} and {right:?} needs the token {name:?}, which is missing"));
            }
        }
    }
    Ok(())
}

/// The same steps without the space that some tokenizers put before a text.
fn without_dummy_space(plain: &Plain) -> Plain {
    Plain {
        normalizer: plain.normalizer.clone().and_then(normalizer_without),
        pre_tokenizer: plain.pre_tokenizer.clone().map(pre_tokenizer_without),
    }
}

fn normalizer_without(normalizer: NormalizerWrapper) -> Option<NormalizerWrapper> {
    match normalizer {
        NormalizerWrapper::Prepend(_) => None,
        NormalizerWrapper::Sequence(steps) => {
            let steps = steps.as_ref().iter().cloned().filter_map(normalizer_without).collect();
            Some(NormalizerWrapper::Sequence(Normalizers::new(steps)))
        }
        other => Some(other),
    }
}

fn pre_tokenizer_without(pre_tokenizer: PreTokenizerWrapper) -> PreTokenizerWrapper {
    match pre_tokenizer {
        PreTokenizerWrapper::Metaspace(mut step) => {
            step.set_prepend_scheme(PrependScheme::Never);
            PreTokenizerWrapper::Metaspace(step)
        }
        PreTokenizerWrapper::ByteLevel(step) => PreTokenizerWrapper::ByteLevel(step.add_prefix_space(false)),
        PreTokenizerWrapper::Sequence(steps) => {
            let steps = steps.as_ref().iter().cloned().map(pre_tokenizer_without).collect();
            PreTokenizerWrapper::Sequence(PreTokenizers::new(steps))
        }
        other => other,
    }
}
