//! Data to tokens: the model's own way of tokenising, without special and added tokens.
//!
//! Invariant: every token that comes out is an ordinary one and stands for exactly the text it was made of. A vocabulary
//! may hold `<end_of_turn>` as a piece that merges or whole words can reach; such a text is cut inside, until it comes
//! out as ordinary pieces. Where that is not possible there is an error, never a control token.
//!
//! What the model's normaliser does (Unicode composition, `▁` for spaces) is done to data too: that is how the model was
//! trained to see text.

use tokenizers::models::ModelWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::tokenizer::OffsetType;
use tokenizers::{Model, NormalizedString, Normalizer, OffsetReferential, PreTokenizedString, PreTokenizer};

use super::TokenId;
use super::vocabulary::{Kind, Spelling, Vocabulary};

/// A text that the vocabulary cannot spell with ordinary tokens.
#[derive(Debug)]
pub struct Lost;

/// Normaliser and pre-tokeniser.
#[derive(Debug, Clone)]
pub struct Plain {
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
}

impl Plain {
    /// What text looks like when the vocabulary sees it.
    pub fn sees(&self, text: &str) -> Option<String> {
        let words = self.words(self.normalize(text)?)?;
        let words = words.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
        Some(words.into_iter().map(|(word, _, _)| word).collect())
    }

    /// Appends a text's tokens.
    pub fn encode(
        &self,
        text: &str,
        model: &ModelWrapper,
        vocabulary: &Vocabulary,
        ids: &mut Vec<TokenId>,
    ) -> Result<(), Lost> {
        let normalized = self.normalize(text).ok_or(Lost)?;
        let wanted = match vocabulary.spelling() {
            Spelling::Bytes => normalized.get().as_bytes().to_vec(),
            Spelling::Spaces => vocabulary.spelled(normalized.get()),
        };
        let first = ids.len();
        for (word, _, _) in
            self.words(normalized).ok_or(Lost)?.get_splits(OffsetReferential::Normalized, OffsetType::Byte)
        {
            encode_word(word, model, vocabulary, ids)?;
        }
        let got: Vec<u8> = ids[first..].iter().flat_map(|id| vocabulary.bytes(*id).unwrap_or_default()).collect();
        // A dummy space before the text is the pre-tokeniser's own.
        if got == wanted || got.strip_prefix(b" ").is_some_and(|got| got == wanted) { Ok(()) } else { Err(Lost) }
    }

    fn normalize(&self, text: &str) -> Option<NormalizedString> {
        let mut text = NormalizedString::from(text);
        if let Some(normalizer) = &self.normalizer {
            normalizer.normalize(&mut text).ok()?;
        }
        Some(text)
    }

    fn words(&self, text: NormalizedString) -> Option<PreTokenizedString> {
        let mut words = PreTokenizedString::from(text);
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut words).ok()?;
        }
        Some(words)
    }
}

fn encode_word(word: &str, model: &ModelWrapper, vocabulary: &Vocabulary, ids: &mut Vec<TokenId>) -> Result<(), Lost> {
    for token in model.tokenize(word).map_err(|_| Lost)? {
        let (start, end) = token.offsets;
        let made_of = word.as_bytes().get(start..end).unwrap_or_default();
        if stands_for(token.id, made_of, vocabulary) {
            ids.push(token.id);
            continue;
        }
        let text = word.get(start..end).filter(|text| !text.is_empty()).ok_or(Lost)?;
        encode_cut(text, model, vocabulary, ids)?;
    }
    Ok(())
}

/// Whether a token is an ordinary one, made of exactly these bytes.
fn stands_for(id: TokenId, made_of: &[u8], vocabulary: &Vocabulary) -> bool {
    match vocabulary.kind(id) {
        Some(Kind::Byte(byte)) => made_of == [byte],
        Some(_) if vocabulary.is_reserved(id) => false,
        Some(_) => vocabulary.name(id).is_some_and(|name| name.as_bytes() == made_of),
        None => false,
    }
}

/// A text that the vocabulary holds as a control token, or not at all: in two halves, or byte by byte.
fn encode_cut(text: &str, model: &ModelWrapper, vocabulary: &Vocabulary, ids: &mut Vec<TokenId>) -> Result<(), Lost> {
    let middle = text.char_indices().map(|(at, _)| at).nth(text.chars().count() / 2).unwrap_or_default();
    if middle > 0 {
        encode_word(&text[..middle], model, vocabulary, ids)?;
        return encode_word(&text[middle..], model, vocabulary, ids);
    }
    let tokens = vocabulary.byte_tokens().filter(|_| vocabulary.spelling() == Spelling::Spaces);
    let tokens = tokens.ok_or(Lost)?;
    ids.extend(text.bytes().map(|byte| tokens[usize::from(byte)]));
    Ok(())
}
