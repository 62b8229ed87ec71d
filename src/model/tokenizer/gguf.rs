//! The tokenizer in a GGUF file's metadata.
//!
//! Invariant: tokens keep the numbers they have in the file. Where such a file leaves open what the original tokenizer
//! does (merges, words, composition), the Hugging Face tokenizer of the same model decides.

use std::path::Path;

use tokenizers::AddedToken;
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Replace, Sequence};

use super::merges::{Scored, from_scores};
use super::parts::{MAX_TOKENS, Parts, check_name};
use super::vocabulary::{Kind, Spelling, Vocabulary, byte_name};
use super::{Metadata, ModelError, TokenId, Tokenizer, guarded, pre};
use crate::model::gguf::Value;

const TOKENS: &str = "tokenizer.ggml.tokens";

/// `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// The tokenizer.
pub fn build(path: &Path, metadata: &Metadata) -> Result<Tokenizer, ModelError> {
    let bad = |what: String| ModelError::bad(path, what);
    let parts = match text(path, metadata, "tokenizer.ggml.model")? {
        Some("gpt2") => byte_level(path, metadata)?,
        Some("llama") => sentence_piece(path, metadata)?,
        Some(other) => {
            let what = format!("tokenizer.ggml.model is {other:?}; supported are \"gpt2\" and \"llama\"");
            return Err(ModelError::unsupported(path, what));
        }
        None => return Err(bad("no tokenizer in it (tokenizer.ggml.model is missing); is this a text model?".into())),
    };
    guarded(path, || parts.build(path))
}

/// Byte-level BPE with merges in the file.
fn byte_level(path: &Path, metadata: &Metadata) -> Result<Parts, ModelError> {
    let bad = |what: String| ModelError::bad(path, what);
    let names = names(path, metadata)?.to_vec();
    let types = types(path, metadata, names.len())?;
    // Files from before the key existed are of the sort that the default was made for.
    let pre = pre::find(text(path, metadata, "tokenizer.ggml.pre")?.unwrap_or("default"));
    let pre = pre.map_err(|what| ModelError::unsupported(path, what))?;
    let merges =
        metadata.texts("tokenizer.ggml.merges").ok_or_else(|| bad("tokenizer.ggml.merges is missing".into()))?;
    let merges: Merges = merges
        .iter()
        .map(|merge| match merge.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() => Ok((left.to_owned(), right.to_owned())),
            _ => Err(bad(format!("tokenizer.ggml.merges has {merge:?}, which is not two tokens with a space between"))),
        })
        .collect::<Result<_, _>>()?;
    let pre_tokenizer = pre.pre_tokenizer().map_err(|error| bad(format!("the words cannot be cut: {error}")))?;
    Ok(Parts {
        merges,
        unknown: None,
        fuse_unknown: false,
        byte_fallback: false,
        whole_words: pre.whole_words,
        normalizer: pre.normalizer(),
        pre_tokenizer: Some(pre_tokenizer),
        adds_bos: truth(path, metadata, "tokenizer.ggml.add_bos_token")?.unwrap_or(pre.adds_bos),
        ..shared(path, metadata, Spelling::Bytes, names, &types)?
    })
}

/// SentencePiece's BPE: pieces with scores, and bytes for what no piece covers.
fn sentence_piece(path: &Path, metadata: &Metadata) -> Result<Parts, ModelError> {
    let bad = |what: String| ModelError::bad(path, what);
    let names = names(path, metadata)?;
    let types = types(path, metadata, names.len())?;
    let scores = metadata.floats("tokenizer.ggml.scores").filter(|scores| scores.len() == names.len());
    let scores = scores.ok_or_else(|| bad("tokenizer.ggml.scores is missing, or not one for each token".into()))?;
    if let Some((id, score)) = scores.iter().enumerate().find(|(_, score)| !score.is_finite()) {
        let what = format!("tokenizer.ggml.scores has {score} for token {id}, which ranks nothing; convert it again");
        return Err(bad(what));
    }
    // Converters write the spaces of user-defined tokens as spaces; text has none left when it is tokenised.
    let spell = |(name, kind): (&String, &Type)| match kind {
        Type::UserDefined => name.replace(' ', "▁"),
        _ => name.clone(),
    };
    let names: Vec<String> = names.iter().zip(&types).map(spell).collect();
    let parts = shared(path, metadata, Spelling::Spaces, names.clone(), &types)?;
    // User-defined pieces are found before all others. Their scores in the file are a filler.
    let best = scores.iter().copied().fold(0.0, f32::max);
    let pieces = names.iter().zip(&types).zip(scores).filter_map(|((name, kind), score)| match kind {
        Type::Normal => Some(Scored { text: name, score: *score }),
        Type::UserDefined => Some(Scored { text: name, score: best }),
        _ => None,
    });
    let merges = from_scores(pieces, &mergeable(&names, &types));
    let to_space = Replace::new(" ", "▁").map_err(|error| bad(format!("the spaces cannot be spelled: {error}")))?;
    let mut steps: Vec<NormalizerWrapper> = vec![to_space.into()];
    if truth(path, metadata, "tokenizer.ggml.add_space_prefix")?.unwrap_or(true) {
        steps.insert(0, Prepend::new("▁".to_owned()).into());
    }
    let unknown = token_id(path, metadata, "unknown")?.and_then(|id| names.get(id as usize).cloned());
    Ok(Parts {
        merges,
        unknown,
        fuse_unknown: true,
        byte_fallback: true,
        whole_words: false,
        normalizer: Some(Sequence::new(steps).into()),
        pre_tokenizer: None,
        adds_bos: truth(path, metadata, "tokenizer.ggml.add_bos_token")?.unwrap_or(true),
        ..parts
    })
}

/// What both sorts have in common.
fn shared(
    path: &Path,
    metadata: &Metadata,
    spelling: Spelling,
    names: Vec<String>,
    types: &[Type],
) -> Result<Parts, ModelError> {
    let mut ids = Vocab::default();
    let mut added = Vec::new();
    for (id, (name, kind)) in (0..).zip(names.iter().zip(types)) {
        // The first of two tokens with one name is the one that text becomes.
        let first = !ids.contains_key(name.as_str());
        if first && !name.is_empty() {
            ids.insert(name.clone(), id);
            if matches!(kind, Type::Control | Type::UserDefined | Type::Unknown) {
                added.push(AddedToken::from(name.as_str(), *kind != Type::UserDefined).normalized(false));
            }
        }
    }
    let kinds = names.iter().zip(types).map(|(name, kind)| match kind {
        Type::Normal => Kind::Text,
        Type::Byte => byte_name(name).map_or(Kind::Text, Kind::Byte),
        Type::UserDefined => Kind::Added,
        Type::Unknown | Type::Control | Type::Unused => Kind::Control,
    });
    let kinds: Vec<Kind> = kinds.collect();
    let eos = token_id(path, metadata, "eos")?;
    let ends = [eos, token_id(path, metadata, "eot")?, token_id(path, metadata, "eom")?];
    Ok(Parts {
        vocabulary: Vocabulary::new(spelling, names.into_iter().map(|name| Some(name.into())).collect(), kinds),
        ids,
        merges: Merges::new(),
        unknown: None,
        fuse_unknown: false,
        byte_fallback: false,
        whole_words: false,
        normalizer: None,
        pre_tokenizer: None,
        added,
        bos: token_id(path, metadata, "bos")?,
        eos,
        adds_bos: false,
        ends: ends.into_iter().flatten().collect(),
    })
}

/// The pieces that merges may start from and make.
fn mergeable(names: &[String], types: &[Type]) -> Vocab {
    let pieces = (0..).zip(names.iter().zip(types));
    let pieces = pieces.filter(|(_, (_, kind))| matches!(kind, Type::Normal | Type::UserDefined));
    pieces.map(|(id, (name, _))| (name.clone(), id)).collect()
}

fn names<'a>(path: &Path, metadata: &'a Metadata) -> Result<&'a [String], ModelError> {
    let names = metadata.texts(TOKENS).filter(|names| !names.is_empty());
    let names = names.ok_or_else(|| ModelError::bad(path, format!("{TOKENS} is missing or empty")))?;
    if names.len() as u64 > MAX_TOKENS {
        let what = format!("{TOKENS} has {} tokens; no model has more than {MAX_TOKENS}", names.len());
        return Err(ModelError::bad(path, what));
    }
    (0..).zip(names).try_for_each(|(id, name)| check_name(path, id, name))?;
    Ok(names)
}

fn types(path: &Path, metadata: &Metadata, count: usize) -> Result<Vec<Type>, ModelError> {
    let types = metadata.integers("tokenizer.ggml.token_type").filter(|types| types.len() == count);
    // Without them control tokens could not be told from text.
    let missing = || ModelError::bad(path, "tokenizer.ggml.token_type is missing, or not one for each token");
    let types = types.ok_or_else(missing)?.iter().map(|number| match number {
        1 => Ok(Type::Normal),
        2 => Ok(Type::Unknown),
        3 => Ok(Type::Control),
        4 => Ok(Type::UserDefined),
        5 => Ok(Type::Unused),
        6 => Ok(Type::Byte),
        other => Err(ModelError::bad(path, format!("tokenizer.ggml.token_type has {other}; it goes from 1 to 6"))),
    });
    types.collect()
}

/// The token that a key such as `tokenizer.ggml.eos_token_id` names.
fn token_id(path: &Path, metadata: &Metadata, what: &str) -> Result<Option<TokenId>, ModelError> {
    let key = format!("tokenizer.ggml.{what}_token_id");
    // Some files write "none" as -1, or as the highest number.
    if matches!(metadata.get(&key), Some(Value::Signed(-1))) {
        return Ok(None);
    }
    let number = of_type(path, metadata, &key, "a token's number", Metadata::unsigned)?;
    let Some(number) = number.filter(|number| *number != u64::from(u32::MAX)) else { return Ok(None) };
    let id = TokenId::try_from(number)
        .map_err(|_| ModelError::bad(path, format!("{key} is {number}, which is not a token's number")))?;
    let count = metadata.texts(TOKENS).map_or(0, <[String]>::len);
    if id as usize >= count {
        let what = format!("{key} is {id}, which is not in the vocabulary of {count} tokens; convert the model again");
        return Err(ModelError::bad(path, what));
    }
    Ok(Some(id))
}

fn text<'a>(path: &Path, metadata: &'a Metadata, key: &str) -> Result<Option<&'a str>, ModelError> {
    of_type(path, metadata, key, "a text", Metadata::text)
}

fn truth(path: &Path, metadata: &Metadata, key: &str) -> Result<Option<bool>, ModelError> {
    of_type(path, metadata, key, "a truth value", Metadata::bool)
}

/// The value of a key, which may be missing but not of another type: the default would make it another tokenizer.
pub(in crate::model) fn of_type<'a, T>(
    path: &Path,
    metadata: &'a Metadata,
    key: &str,
    wanted: &str,
    get: impl FnOnce(&'a Metadata, &str) -> Option<T>,
) -> Result<Option<T>, ModelError> {
    match (get(metadata, key), metadata.get(key)) {
        (None, Some(value)) => {
            let what = format!("{key} is {}, where {wanted} is expected; convert the model again", value.kind());
            Err(ModelError::bad(path, what))
        }
        (value, _) => Ok(value),
    }
}
