//! How byte-level vocabularies cut text into words, by the name that GGUF files give it (`tokenizer.ggml.pre`).
//!
//! Invariant: a name is known only if its words were compared with the reference's; an unknown name is refused, since
//! the wrong words give other tokens and nothing else would tell.

use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// Words as GPT-2 cuts them.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Up to three digits a word.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// One digit a word.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// As Qwen2, with combining marks as part of words.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A known way to cut text.
pub struct Pre {
    names: &'static [&'static str],
    /// Each cuts the words of the one before it.
    patterns: &'static [&'static str],
    composes: bool,
    /// Whether a word that is in the vocabulary is one token, whatever the merges say.
    pub whole_words: bool,
    /// Whether `bos` stands before plain text, where the file does not say.
    pub adds_bos: bool,
}

const KNOWN: &[Pre] = &[
    Pre {
        names: &["llama-bpe", "llama3", "llama-v3"],
        patterns: &[LLAMA3],
        composes: false,
        whole_words: true,
        adds_bos: true,
    },
    Pre {
        names: &["qwen2", "deepseek-r1-qwen"],
        patterns: &[QWEN2],
        composes: true,
        whole_words: false,
        adds_bos: false,
    },
    Pre { names: &["qwen35"], patterns: &[QWEN35], composes: true, whole_words: false, adds_bos: false },
    Pre {
        names: &["smollm", "starcoder", "refact"],
        patterns: &[r"\p{N}", GPT2],
        composes: false,
        whole_words: false,
        adds_bos: false,
    },
    Pre { names: &["gpt-2", "mpt"], patterns: &[GPT2], composes: false, whole_words: false, adds_bos: false },
    Pre {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        composes: false,
        whole_words: false,
        adds_bos: false,
    },
];

/// The way with this name, or a sentence that lists the known ones.
pub fn find(name: &str) -> Result<&'static Pre, String> {
    KNOWN.iter().find(|pre| pre.names.contains(&name)).ok_or_else(|| {
        let names: Vec<&str> = KNOWN.iter().flat_map(|pre| pre.names).copied().collect();
        format!("tokenizer.ggml.pre is {name:?}, which is not known; known are {}", names.join(", "))
    })
}

impl Pre {
    /// What is done to text before it is cut.
    pub fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.composes.then(|| NFC.into())
    }

    /// The cuts, and the spelling of bytes.
    pub fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper, tokenizers::Error> {
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for pattern in self.patterns {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            steps.push(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());
        Ok(Sequence::new(steps).into())
    }
}
