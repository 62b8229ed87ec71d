//! How likely each score was, at the place where an answer writes one.
//!
//! The token that writes a score's first digit was chosen from logits; the same logits say how likely the other scores
//! were. A score of several tokens (`10` as `1` and `0`) is followed by the chain rule: its share is that of its first
//! token times that of the next one behind it.
//!
//! Invariant: the shares come from the model's own logits, before temperature, guide or chance, and add up to 1 over the
//! scores that the task allows.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use crate::answer::{CountFrom, Reader};
use crate::engine::text::TextStream;
use crate::engine::{EngineError, Follow, Weigh, Weighed};
use crate::model::TokenId;
use crate::model::tokenizer::Tokenizer;
use crate::task::{AnswerSpec, Task};

/// The least share of a beginning of a longer score that is still followed.
const LEAST: f64 = 1e-6;
/// The most beginnings that are followed at once; the likeliest ones.
const MOST_BRANCHES: usize = 32;

/// A token that writes digits.
#[derive(Debug, Clone)]
struct Number {
    token: TokenId,
    /// Whether nothing stands before the digits.
    bare: bool,
    digits: String,
    /// Whether something stands behind the digits, so that no more of them follow.
    ends: bool,
}

/// The tokens of a model that write digits, looked for when they are first needed.
#[derive(Debug, Clone, Default)]
pub struct Numbers(Arc<OnceLock<Vec<Number>>>);

impl Numbers {
    /// All tokens that write digits, behind nothing but white space, a quotation mark or a bracket.
    fn all(&self, tokenizer: &Tokenizer) -> &[Number] {
        self.0.get_or_init(|| numbers(tokenizer, ""))
    }
}

/// The tokens that write digits behind `lead`.
fn numbers(tokenizer: &Tokenizer, lead: &str) -> Vec<Number> {
    let size = TokenId::try_from(tokenizer.vocab_size()).unwrap_or(TokenId::MAX);
    let number = |token: TokenId| {
        // Only what the model can write: a control token's name is no text.
        let bytes = tokenizer.bytes(token).filter(|_| !tokenizer.is_end(token))?;
        let text = std::str::from_utf8(&bytes).ok()?.strip_prefix(lead)?;
        let start = text.trim_start_matches(surrounds);
        let length = start.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = start.split_at(length);
        let bare = text.len() == start.len() && lead.is_empty();
        (length > 0).then(|| Number { token, bare, digits: digits.to_owned(), ends: !rest.is_empty() })
    };
    (0..size).filter_map(number).collect()
}

/// What may stand between a colon and a score.
fn surrounds(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '[')
}

/// Weighs the scores of one answer.
pub struct Scale<'t> {
    reader: Reader<'t>,
    stream: TextStream,
    /// Bytes of the answer so far.
    length: usize,
    scores: RangeInclusive<u32>,
    tokenizer: &'t Tokenizer,
    numbers: Numbers,
}

impl std::fmt::Debug for Scale<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scale").field("length", &self.length).field("scores", &self.scores).finish_non_exhaustive()
    }
}

impl<'t> Scale<'t> {
    /// For an answer to a task with scores, which begins with what the prompt opened; `None` for other tasks.
    pub fn new(task: &'t Task, opening: &str, tokenizer: &'t Tokenizer, numbers: &Numbers) -> Option<Self> {
        let AnswerSpec::JsonScore(spec) = &task.spec.answer else { return None };
        let mut reader = Reader::new(&task.format, CountFrom::Stated, Vec::<&str>::new());
        reader.push(opening, &mut |_| {});
        let (scores, numbers) = (spec.min..=spec.max, numbers.clone());
        Some(Self { reader, stream: TextStream::default(), length: opening.len(), scores, tokenizer, numbers })
    }

    /// Takes the text of a token; gives where in it the first digit of a score stands, if it does.
    fn read(&mut self, text: &str) -> Option<usize> {
        let mut place = None;
        for (at, c) in text.char_indices() {
            if place.is_none() && c.is_ascii_digit() && self.reader.expects_score() {
                place = Some(at);
            }
            self.reader.push(&text[at..at + c.len_utf8()], &mut |_| {});
        }
        place
    }

    /// The share of each score, where a token is chosen that begins with `lead`.
    fn shares(&self, lead: &str, logits: &[f32], follow: &mut Follow<'_>) -> Result<Option<Vec<f64>>, EngineError> {
        let mut shares = Shares::new(&self.scores);
        let behind_lead;
        let first = match lead {
            "" => self.numbers.all(self.tokenizer),
            lead => {
                behind_lead = numbers(self.tokenizer, lead);
                &behind_lead
            }
        };
        let likely = softmax(logits);
        for number in first {
            shares.add(&[], "", number, share(&likely, number.token));
        }
        while let Some(branches) = shares.next_branches() {
            let tokens: Vec<Vec<TokenId>> = branches.iter().map(|branch| branch.tokens.clone()).collect();
            for (branch, logits) in branches.iter().zip(follow(&tokens)?) {
                let likely = softmax(&logits);
                let mut more = 0.0;
                for number in self.numbers.all(self.tokenizer).iter().filter(|number| number.bare) {
                    let part = share(&likely, number.token);
                    more += part;
                    shares.add(&branch.tokens, &branch.digits, number, branch.share * part);
                }
                shares.give(&branch.digits, branch.share * (1.0 - more).max(0.0));
            }
        }
        Ok(shares.normalised())
    }
}

impl Weigh for Scale<'_> {
    fn take(
        &mut self,
        token: TokenId,
        logits: Option<&[f32]>,
        follow: &mut Follow<'_>,
    ) -> Result<Option<Weighed>, EngineError> {
        let text = self.stream.push(&self.tokenizer.bytes(token).unwrap_or_default());
        let before = self.length;
        self.length += text.len();
        let (Some(place), Some(logits)) = (self.read(&text), logits) else { return Ok(None) };
        let lead = text[..place].trim_end_matches(surrounds);
        let shares = self.shares(lead, logits, follow)?;
        Ok(shares.map(|shares| Weighed { at: before + place, shares }))
    }
}

/// A beginning of a score that may go on.
#[derive(Debug, Clone)]
struct Branch {
    tokens: Vec<TokenId>,
    digits: String,
    share: f64,
}

/// Shares of scores, as they are added up.
#[derive(Debug)]
struct Shares<'s> {
    scores: &'s RangeInclusive<u32>,
    /// What longer scores begin with.
    beginnings: HashSet<String>,
    sums: Vec<f64>,
    branches: Vec<Branch>,
}

impl<'s> Shares<'s> {
    fn new(scores: &'s RangeInclusive<u32>) -> Self {
        let count = scores.end().saturating_sub(*scores.start()) as usize + 1;
        let beginnings = |score: u32| {
            let written = score.to_string();
            (1..written.len()).map(move |length| written[..length].to_owned()).collect::<Vec<_>>()
        };
        let beginnings = scores.clone().flat_map(beginnings).collect();
        Self { scores, beginnings, sums: vec![0.0; count], branches: Vec::new() }
    }

    /// Adds what a token writes behind other digits.
    fn add(&mut self, tokens: &[TokenId], digits: &str, number: &Number, share: f64) {
        let digits = format!("{digits}{}", number.digits);
        let goes_on = !number.ends && self.beginnings.contains(&digits);
        if goes_on && share >= LEAST {
            self.branches.push(Branch { tokens: [tokens, &[number.token]].concat(), digits, share });
        } else {
            self.give(&digits, share);
        }
    }

    /// Gives a share to the score that is written so, if there is one.
    fn give(&mut self, digits: &str, share: f64) {
        let score = digits.parse::<u32>().ok().filter(|score| self.scores.contains(score));
        if let Some(sum) = score.and_then(|score| self.sums.get_mut((score - self.scores.start()) as usize)) {
            *sum += share;
        }
    }

    /// The beginnings that are to be followed, likeliest first; `None` if there is none.
    fn next_branches(&mut self) -> Option<Vec<Branch>> {
        let mut branches = std::mem::take(&mut self.branches);
        branches.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.tokens.cmp(&b.tokens)));
        let rest = branches.split_off(branches.len().min(MOST_BRANCHES));
        rest.iter().for_each(|branch| self.give(&branch.digits, branch.share));
        (!branches.is_empty()).then_some(branches)
    }

    fn normalised(self) -> Option<Vec<f64>> {
        let all: f64 = self.sums.iter().sum();
        (all > 0.0 && all.is_finite()).then(|| self.sums.iter().map(|sum| sum / all).collect())
    }
}

/// The share of each token; all of it in one fixed order, so that it is the same to the bit wherever it is computed.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|logit| f64::from(logit - top).exp()).collect();
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}

/// The share of a token; 0 for one that the weights do not know.
fn share(likely: &[f64], token: TokenId) -> f64 {
    likely.get(token as usize).copied().unwrap_or(0.0)
}
