//! Text to tokens and back, for the tokenizers of judge models.
//!
//! Invariant: untrusted text never becomes a control token. Only trusted text is searched for special and added tokens;
//! untrusted text is tokenised without them, and what comes out is checked (`untrusted.rs`).
//!
//! ```text
//!  tokenizer.json ─ json ─┐
//!                         ├─▶ parts ──▶ Tokenizer ──▶ ids
//!  GGUF metadata ── gguf ─┘   merges, pre, normalizer untrusted, vocabulary
//! ```

mod gguf;
mod json;
mod merges;
mod normalizer;
mod parts;
mod pre;
mod untrusted;
mod vocabulary;

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokenizers::OffsetReferential;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::tokenizer::OffsetType;

use super::gguf::Metadata;
use super::{ModelError, TokenId};
pub(super) use gguf::of_type;
pub(super) use json::read_json;
use untrusted::{Lost, Plain};
use vocabulary::Vocabulary;

/// The longest text that is tokenised in one piece: far beyond any context, and what keeps the regex engine in bounds.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

/// A span of text, and whether special tokens may be read in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text of the task's author or of the chat template: special tokens in it count.
    Trusted(Cow<'a, str>),
    /// Data, whatever it says.
    Untrusted(Cow<'a, str>),
}

impl Piece<'_> {
    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Self::Trusted(text) | Self::Untrusted(text) => text,
        }
    }
}

/// A model's tokenizer. A clone shares the vocabulary.
#[derive(Clone)]
pub struct Tokenizer {
    path: PathBuf,
    inner: Arc<tokenizers::Tokenizer>,
    start: Plain,
    /// The same without a dummy space before the text; `None` where there is none anyway.
    further: Option<Plain>,
    vocabulary: Arc<Vocabulary>,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    adds_bos: bool,
    ends: Vec<TokenId>,
}

impl Tokenizer {
    /// The tokenizer of a Hugging Face folder: `tokenizer.json` and the settings beside it.
    pub fn from_folder(folder: &Path) -> Result<Self, ModelError> {
        json::read(folder)
    }

    /// The tokenizer of a GGUF file.
    pub fn from_gguf(path: &Path, metadata: &Metadata) -> Result<Self, ModelError> {
        gguf::build(path, metadata)
    }

    /// The tokens of a prompt. Trusted pieces side by side are one text; a `bos` is not added.
    pub fn encode(&self, pieces: &[Piece<'_>]) -> Result<Vec<TokenId>, ModelError> {
        guarded(&self.path, || self.encode_pieces(pieces))
    }

    fn encode_pieces(&self, pieces: &[Piece<'_>]) -> Result<Vec<TokenId>, ModelError> {
        let mut ids = Vec::new();
        let mut trusted = String::new();
        let mut at_start = true;
        for piece in pieces.iter().filter(|piece| !piece.text().is_empty()) {
            match piece {
                Piece::Trusted(text) => trusted.push_str(text),
                Piece::Untrusted(text) => {
                    if !trusted.is_empty() {
                        self.encode_trusted(&trusted, at_start, &mut ids)?;
                        trusted.clear();
                        at_start = false;
                    }
                    self.encode_untrusted(text, at_start, &mut ids)?;
                    at_start = false;
                }
            }
        }
        if !trusted.is_empty() {
            self.encode_trusted(&trusted, at_start, &mut ids)?;
        }
        Ok(ids)
    }

    /// The token that stands before every text of this model, if it has one.
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Whether the tokenizer itself puts [`bos`](Self::bos) before plain text. A chat template writes its own.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// Whether a token ends the answer.
    pub fn is_end(&self, id: TokenId) -> bool {
        self.ends.contains(&id)
    }

    /// The tokens that end the answer.
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.ends
    }

    /// One more than the highest token.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The bytes that a token stands for; none for a control token. Only bytes: a token may end inside a character.
    pub fn bytes(&self, id: TokenId) -> Option<Vec<u8>> {
        self.vocabulary.bytes(id)
    }

    /// A token's name in the vocabulary, for display.
    pub fn token(&self, id: TokenId) -> Option<String> {
        self.vocabulary.name(id).map(str::to_owned)
    }

    /// The token with this name.
    pub fn find(&self, name: &str) -> Option<TokenId> {
        self.inner.token_to_id(name)
    }

    /// Whether a token is control, special or added, so that untrusted text must not become it.
    pub fn is_reserved(&self, id: TokenId) -> bool {
        self.vocabulary.is_reserved(id)
    }

    /// How a chat template writes `bos_token` and `eos_token`.
    pub fn special_text(&self) -> SpecialText {
        let text = |id: Option<TokenId>| id.and_then(|id| self.token(id));
        SpecialText { bos: text(self.bos), eos: text(self.eos) }
    }

    fn encode_trusted(&self, text: &str, at_start: bool, ids: &mut Vec<TokenId>) -> Result<(), ModelError> {
        self.check_length(text)?;
        let mut rest = text;
        if let (false, Some(further)) = (at_start, &self.further) {
            // Up to its first added token this text goes on from another, and gets no dummy space.
            let cut = self.first_added(text);
            self.encode_plain(further, &text[..cut], ids)?;
            rest = &text[cut..];
        }
        if !rest.is_empty() {
            let encoding = self.inner.encode_fast(rest, false).map_err(|error| self.failed(&*error))?;
            ids.extend_from_slice(encoding.get_ids());
        }
        Ok(())
    }

    fn encode_untrusted(&self, text: &str, at_start: bool, ids: &mut Vec<TokenId>) -> Result<(), ModelError> {
        self.check_length(text)?;
        let plain = if at_start { &self.start } else { self.further.as_ref().unwrap_or(&self.start) };
        self.encode_plain(plain, text, ids)
    }

    fn encode_plain(&self, plain: &Plain, text: &str, ids: &mut Vec<TokenId>) -> Result<(), ModelError> {
        let encode =
            |text: &str, ids: &mut Vec<TokenId>| plain.encode(text, self.inner.get_model(), &self.vocabulary, ids);
        encode(text, ids).map_err(|Lost| {
            let lost = text.chars().find(|c| encode(c.encode_utf8(&mut [0; 4]), &mut Vec::new()).is_err());
            let lost = lost.map_or("some text".to_owned(), |c| format!("U+{:04X}", u32::from(c)));
            ModelError::Option(format!(
                "the model's vocabulary has no ordinary token for {lost}, so it cannot be shown this text; take it out"
            ))
        })
    }

    /// Where the first added token of a trusted text starts; the text's end if there is none.
    fn first_added(&self, text: &str) -> usize {
        let splits = self.inner.get_added_vocabulary().extract_and_normalize(None::<&NormalizerWrapper>, text);
        splits
            .get_splits(OffsetReferential::Original, OffsetType::Byte)
            .into_iter()
            .find_map(|(_, (start, _), tokens)| tokens.as_ref().map(|_| start))
            .unwrap_or(text.len())
    }

    fn check_length(&self, text: &str) -> Result<(), ModelError> {
        if text.len() <= MAX_TEXT_BYTES {
            return Ok(());
        }
        Err(ModelError::Option(format!(
            "a text of {} bytes is longer than any prompt can be ({MAX_TEXT_BYTES} bytes); shorten it",
            text.len()
        )))
    }

    fn failed(&self, error: &(dyn std::error::Error + Send + Sync)) -> ModelError {
        ModelError::bad(&self.path, format!("the tokenizer cannot read a text: {error}"))
    }
}

/// Runs what calls the tokenizers library, which panics where a file asks for more than it can do: a regular expression
/// such as `(a+)+$` reaches the engine's limit of attempts. This is the last net, behind the checks of what is read; the
/// library's own panic message still goes to standard error.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, ModelError>) -> Result<T, ModelError> {
    // What a panic leaves half done is dropped with the result; a tokenizer itself does not change when it is used.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let what = "the tokenizer failed on this text; if it does on others too, its patterns are damaged: copy or \
                    download the file again";
        Err(ModelError::bad(path, what))
    })
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokenizer of {}, {} tokens", self.path.display(), self.vocab_size())
    }
}

/// The texts of special tokens that chat templates ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpecialText {
    /// `bos_token`.
    pub bos: Option<String>,
    /// `eos_token`.
    pub eos: Option<String>,
}
