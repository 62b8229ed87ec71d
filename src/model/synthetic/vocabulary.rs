//! A tokenizer for a shape: byte-level BPE over the built-in prompts and common English words.
//!
//! A public vocabulary has 50,000 to 150,000 words and is somebody's work; what matters for time is how many tokens a
//! prompt has. So the words that prompts and captions are made of get merges, as they have in public vocabularies, and
//! all other numbers get words that no text is cut into, but that an answer of random tokens may have.
//!
//! Invariant: every number below the count of ordinary tokens has a word, and control tokens have the numbers that the
//! shape's `config.json` names.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::tokenizer::OffsetType;
use tokenizers::{OffsetReferential, PreTokenizedString, PreTokenizer, Trainer};

use crate::model::ModelError;

/// What merges are learned from: prompts and captions, whose words are whole ones in public vocabularies too.
const TEXTS: [&str; 4] = [
    include_str!("../../../docs/example/captions.jsonl"),
    include_str!("../../../prompts/hallucination.txt"),
    include_str!("../../../prompts/omission.txt"),
    include_str!("../../../prompts/score.txt"),
];
const WORDS: &str = include_str!("../../../models/shapes/words.txt");
/// A word that comes up less often is cut.
const OFTEN: u64 = 2;
/// Endings that words are learned with; where one is misspelt, its ending is learned nevertheless.
const ENDINGS: [&str; 4] = ["", "s", "ed", "ing"];
/// No more words are learned.
const LEARNED: usize = 12_000;

/// Which control tokens and which chat template a tokenizer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Words {
    /// Qwen2.5 and Qwen2.5-VL.
    #[serde(rename = "qwen2.5")]
    Qwen25,
    /// Qwen3-VL.
    #[serde(rename = "qwen3")]
    Qwen3,
    /// SmolVLM2.
    #[serde(rename = "smolvlm")]
    SmolVlm,
    /// SmolLM2.
    #[serde(rename = "smollm2")]
    SmolLm2,
    /// Llama 3.
    #[serde(rename = "llama3")]
    Llama3,
}

impl Words {
    /// The chat template: our wording of the public one.
    pub fn template(self) -> &'static str {
        match self {
            Self::Qwen25 => include_str!("../../../models/shapes/qwen2.5.jinja"),
            Self::Qwen3 => include_str!("../../../models/shapes/qwen3.jinja"),
            Self::SmolVlm => include_str!("../../../models/shapes/smolvlm.jinja"),
            Self::SmolLm2 => include_str!("../../../models/shapes/smollm2.jinja"),
            Self::Llama3 => include_str!("../../../models/shapes/llama3.jinja"),
        }
    }

    /// `tokenizer_config.json`.
    pub fn settings(self) -> Value {
        let (bos, eos, pad) = match self {
            Self::Qwen25 | Self::Qwen3 => (None, "<|im_end|>", "<|endoftext|>"),
            Self::SmolVlm => (Some("<|im_start|>"), "<end_of_utterance>", "<|im_end|>"),
            Self::SmolLm2 => (Some("<|im_start|>"), "<|im_end|>", "<|im_end|>"),
            Self::Llama3 => (Some("<|begin_of_text|>"), "<|eot_id|>", "<|end_of_text|>"),
        };
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos, "pad_token": pad,
            "add_bos_token": false, "clean_up_tokenization_spaces": false,
        })
    }

    /// Control tokens with their numbers, where there are so many ordinary tokens.
    fn control(self, ordinary: usize) -> Vec<(usize, String)> {
        let from = |first: usize, names: &[&str]| -> Vec<(usize, String)> {
            names.iter().enumerate().map(|(index, name)| (first + index, (*name).to_owned())).collect()
        };
        const FIRST: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
        match self {
            Self::Qwen25 | Self::Qwen3 => {
                let seen = ["object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start", "quad_end"];
                let more = ["vision_start", "vision_end", "vision_pad", "image_pad", "video_pad"];
                let names = seen.iter().chain(&more).map(|name| format!("<|{name}|>")).enumerate();
                let behind = ordinary + FIRST.len();
                from(ordinary, &FIRST).into_iter().chain(names.map(|(index, name)| (behind + index, name))).collect()
            }
            Self::SmolLm2 => from(0, &FIRST),
            Self::SmolVlm => {
                let mut all = from(0, &FIRST);
                all.push((ordinary, "<global-img>".to_owned()));
                let parts = (1..=6).flat_map(|row| (1..=6).map(move |column| format!("<row_{row}_col_{column}>")));
                all.extend(parts.enumerate().map(|(index, name)| (ordinary + 1 + index, name)));
                all.extend(from(ordinary + 37, &["<fake_token_around_image>", "<image>"]));
                all.push((ordinary + 127, "<end_of_utterance>".to_owned()));
                all
            }
            Self::Llama3 => {
                let mut all = from(ordinary, &["<|begin_of_text|>", "<|end_of_text|>"]);
                all.extend(from(
                    ordinary + 6,
                    &["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"],
                ));
                all
            }
        }
    }

    /// `tokenizer.json`.
    pub fn tokenizer(self, ordinary: usize) -> Result<Value, ModelError> {
        // The library learns from text that is compiled in: only a mistake here makes it fail.
        let failed = |error: tokenizers::Error| ModelError::Option(format!("internal error: no tokenizer: {error}"));
        let control = self.control(ordinary);
        let (learned, merges) = learn(ordinary.min(LEARNED)).map_err(failed)?;
        let taken: Vec<usize> = control.iter().map(|(id, _)| *id).collect();
        let free = (0..ordinary).filter(|id| !taken.contains(id));
        let known: HashMap<&str, ()> = learned.iter().map(|name| (name.as_str(), ())).collect();
        let others = (0..).map(unused_word).filter(|word| !known.contains_key(word.as_str()));
        let mut vocabulary: Map<String, Value> =
            learned.iter().cloned().chain(others).zip(free).map(|(name, id)| (name, json!(id))).collect();
        vocabulary.extend(control.iter().map(|(id, name)| (name.clone(), json!(id))));
        let added: Vec<Value> = control
            .iter()
            .map(|(id, name)| {
                json!({
                    "id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": false, "special": true,
                })
            })
            .collect();
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
        Ok(json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
            "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
            "model": {
                "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                "vocab": vocabulary, "merges": merges,
            },
        }))
    }
}

/// Words in the order of their numbers, and the merges that make them.
fn learn(most: usize) -> Result<(Vec<String>, Value), tokenizers::Error> {
    let cutter = ByteLevel::new(false, false, true);
    let cut = |text: &str| {
        let mut cut = PreTokenizedString::from(text);
        cutter.pre_tokenize(&mut cut)?;
        let pieces = cut.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Ok(pieces.into_iter().map(|(piece, ..)| piece.to_owned()).collect())
    };
    let mut trainer = BpeTrainer::builder()
        .vocab_size(most)
        .min_frequency(OFTEN)
        .show_progress(false)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    let forms = |word| ENDINGS.iter().flat_map(move |ending| [" ", word, ending]);
    let words: String = WORDS.split_whitespace().flat_map(forms).collect();
    let texts = || TEXTS.into_iter().chain([words.as_str()]);
    // Twice, so that every word of them comes up often enough.
    trainer.feed(texts().chain(texts()), cut)?;
    let mut model = BPE::default();
    trainer.train(&mut model)?;
    let mut learned: Vec<(String, u32)> = model.get_vocab().into_iter().collect();
    learned.sort_by_key(|(_, id)| *id);
    let merges = serde_json::to_value(&model)?["merges"].take();
    Ok((learned.into_iter().map(|(name, _)| name).collect(), merges))
}

/// A word of four letters behind a space, a different one for each number.
fn unused_word(number: usize) -> String {
    let letter = |place: u32| char::from(b'a' + (number / 26usize.pow(place) % 26) as u8);
    // How byte-level vocabularies spell a space.
    ['Ġ', letter(3), letter(2), letter(1), letter(0)].into_iter().collect()
}
