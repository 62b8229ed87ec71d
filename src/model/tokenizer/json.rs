//! The tokenizer of a Hugging Face folder.
//!
//! Invariant: `tokenizer.json` decides how text is cut; the files beside it only say which tokens begin and end texts.
//! What it says about truncation, padding and tokens to put around a text is not followed: prompts are whole, and the
//! chat template writes what stands around them.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokenizers::AddedToken;
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

use super::normalizer;
use super::parts::{MAX_TOKENS, Parts, check_name};
use super::vocabulary::{Kind, Spelling, Vocabulary, byte_name};
use super::{ModelError, TokenId, Tokenizer, guarded};
use crate::model::read::read_file;

const MAX_TOKENIZER_BYTES: u64 = 256 << 20;
const MAX_SETTINGS_BYTES: u64 = 16 << 20;

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    added_tokens: Vec<Added>,
    /// Checked before the library reads it.
    normalizer: Option<Value>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    model: Bpe,
}

#[derive(Deserialize)]
struct Added {
    id: TokenId,
    #[serde(flatten)]
    token: AddedToken,
}

#[derive(Deserialize)]
struct Bpe {
    vocab: Vocab,
    merges: Pairs,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Pairs {
    Pairs(Merges),
    Lines(Vec<String>),
}

/// Only what tells one model type from another.
#[derive(Deserialize)]
struct Probe {
    model: ProbeModel,
}

#[derive(Deserialize)]
struct ProbeModel {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The settings beside `tokenizer.json`; each may be missing.
struct Settings {
    tokenizer: Option<Value>,
    special: Option<Value>,
    generation: Option<Value>,
    model: Option<Value>,
}

/// Reads a folder.
pub fn read(folder: &Path) -> Result<Tokenizer, ModelError> {
    let path = &folder.join("tokenizer.json");
    let bytes = read_file(path, MAX_TOKENIZER_BYTES)?.ok_or_else(|| {
        let what = "not found; a model folder needs it (`tokenizer.model` alone is not enough: save the tokenizer with \
                    transformers' save_pretrained)";
        ModelError::bad(path, what)
    })?;
    let kind = parse::<Probe>(path, &bytes)?.model.kind.unwrap_or_else(|| "BPE".to_owned());
    if kind != "BPE" {
        return Err(ModelError::unsupported(path, format!("the tokenizer's model is {kind}; only BPE is supported")));
    }
    let settings = Settings {
        tokenizer: read_json(&folder.join("tokenizer_config.json"), MAX_SETTINGS_BYTES)?,
        special: read_json(&folder.join("special_tokens_map.json"), MAX_SETTINGS_BYTES)?,
        generation: read_json(&folder.join("generation_config.json"), MAX_SETTINGS_BYTES)?,
        model: read_json(&folder.join("config.json"), MAX_SETTINGS_BYTES)?,
    };
    guarded(path, || parts(path, parse(path, &bytes)?, &settings)?.build(path))
}

fn parts(path: &Path, content: Content, settings: &Settings) -> Result<Parts, ModelError> {
    let bad = |what: String| ModelError::bad(path, what);
    let Bpe { vocab: mut ids, merges, .. } = content.model;
    let affix = [&content.model.continuing_subword_prefix, &content.model.end_of_word_suffix];
    if affix.into_iter().flatten().any(|affix| !affix.is_empty()) {
        let what = "its tokens have a prefix or suffix for parts of words, which is not supported";
        return Err(ModelError::unsupported(path, what));
    }
    let normalizer = normalizer::read(path, content.normalizer)?;
    let spelling = spelling(path, &content.pre_tokenizer, content.decoder.as_ref())?;
    let added = all_added(content.added_tokens, settings);
    for Added { id, token } in &added {
        let known = *ids.entry(token.content.clone()).or_insert(*id);
        if known != *id {
            let name = &token.content;
            return Err(bad(format!("the added token {name:?} has the number {id}, but {known} in the vocabulary")));
        }
    }
    let highest = u64::from(ids.values().copied().max().ok_or_else(|| bad("the vocabulary is empty".into()))?);
    if highest >= MAX_TOKENS {
        return Err(bad(format!("there is a token with the number {highest}; no model has more than {MAX_TOKENS}")));
    }
    let mut names: Vec<Option<Box<str>>> = vec![None; highest as usize + 1];
    let mut kinds = vec![Kind::Text; names.len()];
    for (name, id) in ids.iter() {
        check_name(path, u64::from(*id), name)?;
        if let Some(other) = names[*id as usize].replace(name.as_str().into()) {
            return Err(bad(format!("the tokens {other:?} and {name:?} have the same number {id}")));
        }
        if let Some(byte) = byte_name(name).filter(|_| content.model.byte_fallback) {
            kinds[*id as usize] = Kind::Byte(byte);
        }
    }
    if let Some(id) = content.model.unk_token.as_ref().and_then(|name| ids.get(name.as_str())) {
        kinds[*id as usize] = Kind::Control;
    }
    for Added { id, token } in &added {
        kinds[*id as usize] = if token.special { Kind::Control } else { Kind::Added };
    }
    let merges = match merges {
        Pairs::Pairs(merges) => merges,
        Pairs::Lines(lines) => lines
            .iter()
            .filter(|line| !line.starts_with("#version"))
            .map(|line| match line.split_once(' ') {
                Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
                None => Err(bad(format!("the merge {line:?} is not two tokens with a space between"))),
            })
            .collect::<Result<_, _>>()?,
    };
    let bos = settings.begins(&ids);
    let eos = settings.token("eos_token", &ids);
    let ends = settings.ends().filter(|id| names.get(*id as usize).is_some_and(Option::is_some)).collect();
    Ok(Parts {
        merges,
        unknown: content.model.unk_token,
        fuse_unknown: content.model.fuse_unk,
        byte_fallback: content.model.byte_fallback,
        whole_words: content.model.ignore_merges,
        normalizer,
        pre_tokenizer: content.pre_tokenizer,
        added: added.into_iter().map(|added| added.token).collect(),
        adds_bos: settings.adds_bos().unwrap_or_else(|| puts_first(content.post_processor.as_ref(), bos, &names)),
        bos,
        eos,
        ends,
        vocabulary: Vocabulary::new(spelling, names, kinds),
        ids,
    })
}

/// The added tokens of `tokenizer.json`, and those that `tokenizer_config.json` alone names.
fn all_added(mut added: Vec<Added>, settings: &Settings) -> Vec<Added> {
    let more = settings.tokenizer.as_ref().and_then(|value| value.get("added_tokens_decoder")?.as_object());
    for (id, token) in more.into_iter().flatten() {
        if let (Ok(id), Ok(token)) = (id.parse(), serde_json::from_value::<AddedToken>(token.clone()))
            && added.iter().all(|known| known.token.content != token.content && known.id != id)
        {
            added.push(Added { id, token });
        }
    }
    added.retain(|added| !added.token.content.is_empty());
    added
}

/// How the names spell text, told by the steps that text goes through.
fn spelling(
    path: &Path,
    pre_tokenizer: &Option<PreTokenizerWrapper>,
    decoder: Option<&Value>,
) -> Result<Spelling, ModelError> {
    fn cuts(step: &PreTokenizerWrapper) -> bool {
        match step {
            PreTokenizerWrapper::ByteLevel(_) => true,
            PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().any(cuts),
            _ => false,
        }
    }
    let decodes = decoder.is_some_and(|decoder| steps(decoder).any(|step| step["type"] == "ByteLevel"));
    match pre_tokenizer.as_ref().is_some_and(cuts) {
        true => Ok(Spelling::Bytes),
        false if decodes => {
            Err(ModelError::bad(path, "its decoder is byte-level, but its pre-tokeniser is not; the file is not whole"))
        }
        false => Ok(Spelling::Spaces),
    }
}

/// A step of a decoder or post-processor, or the steps of a sequence.
fn steps(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.get("decoders").or_else(|| value.get("processors")).and_then(Value::as_array);
    std::iter::once(value).chain(list.into_iter().flatten())
}

/// Whether a post-processor puts `bos` before a text.
fn puts_first(post_processor: Option<&Value>, bos: Option<TokenId>, names: &[Option<Box<str>>]) -> bool {
    let bos = bos.and_then(|id| names.get(id as usize)?.as_deref());
    let Some((value, bos)) = post_processor.zip(bos) else { return false };
    let mut templates = steps(value).filter_map(|step| step.get("single")?.as_array()?.first());
    templates.any(|first| first["SpecialToken"]["id"] == bos)
}

impl Settings {
    /// A special token by its key, as text or as an object with `content`.
    fn token(&self, key: &str, ids: &Vocab) -> Option<TokenId> {
        let values = [&self.tokenizer, &self.special].into_iter().flatten().filter_map(|value| value.get(key));
        let mut texts = values.filter_map(|value| value.as_str().or_else(|| value.get("content")?.as_str()));
        texts.find_map(|text| ids.get(text).copied())
    }

    /// `bos`. The model's own number counts only where no tokenizer settings say otherwise.
    fn begins(&self, ids: &Vocab) -> Option<TokenId> {
        let found = self.token("bos_token", ids);
        if found.is_some() || self.tokenizer.is_some() || self.special.is_some() {
            return found;
        }
        let numbers = [&self.generation, &self.model].into_iter().flatten();
        numbers.filter_map(|value| value.get("bos_token_id")?.as_u64()).find_map(|id| TokenId::try_from(id).ok())
    }

    fn adds_bos(&self) -> Option<bool> {
        self.tokenizer.as_ref()?.get("add_bos_token")?.as_bool()
    }

    /// `eos_token_id` of the model and of generation: a number or a list.
    fn ends(&self) -> impl Iterator<Item = TokenId> {
        let text_model = self.model.as_ref().and_then(|value| value.get("text_config"));
        let values = [self.generation.as_ref(), self.model.as_ref(), text_model].into_iter().flatten();
        values.filter_map(|value| value.get("eos_token_id")).flat_map(|value| {
            let list = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            list.iter().filter_map(|id| TokenId::try_from(id.as_u64()?).ok())
        })
    }
}

/// A JSON file of settings; `None` if there is none.
pub(in crate::model) fn read_json(path: &Path, limit: u64) -> Result<Option<Value>, ModelError> {
    read_file(path, limit)?.map(|bytes| parse(path, &bytes)).transpose()
}

fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, ModelError> {
    let what = |error| format!("not as it should be: {error}; is the file whole?");
    serde_json::from_slice(bytes).map_err(|error| ModelError::bad(path, what(error)))
}
