//! From logits to a token.
//!
//! Invariant: the same logits, settings and seed give the same tokens. The highest logit wins at temperature 0; of
//! equal ones the one with the lowest number.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::EngineError;
use crate::model::TokenId;

/// How tokens are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// 0 takes the highest logit; higher values choose more freely.
    pub temperature: f32,
    /// Only the likeliest tokens that together have this share; 1 for all.
    pub top_p: f32,
    /// Only tokens that are at least this share as likely as the likeliest; 0 for all.
    pub min_p: f32,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, min_p: 0.0, seed: 0 }
    }
}

/// Chooses the tokens of one answer.
#[derive(Debug, Clone)]
pub struct Sampler {
    sampling: Sampling,
    chance: ChaCha8Rng,
}

impl Sampler {
    /// A sampler for the answer of that name: answers do not share their chance, whichever comes first.
    pub fn new(sampling: Sampling, name: &str) -> Self {
        use sha2::{Digest, Sha256};
        let digest = Sha256::new().chain_update(sampling.seed.to_le_bytes()).chain_update(name.as_bytes()).finalize();
        Self { sampling, chance: ChaCha8Rng::from_seed(digest.into()) }
    }

    /// The next token, if nothing is left to chance.
    pub fn certain(&self, logits: &[f32]) -> Option<TokenId> {
        let greedy = self.sampling.temperature <= 0.0;
        highest(logits).filter(|_| greedy).map(|best| best as TokenId)
    }

    /// The next token.
    pub fn sample(&mut self, logits: &[f32]) -> Result<TokenId, EngineError> {
        let best = highest(logits).ok_or(EngineError::NotANumber)?;
        let Sampling { temperature, top_p, min_p, .. } = self.sampling;
        if temperature <= 0.0 {
            return Ok(best as TokenId);
        }
        let top = f64::from(logits[best]);
        let weight = |logit: f32| ((f64::from(logit) - top) / f64::from(temperature)).exp();
        let mut likely: Vec<(usize, f64)> = logits
            .iter()
            .map(|logit| weight(*logit))
            .enumerate()
            .filter(|(_, weight)| *weight > 0.0 && *weight >= f64::from(min_p))
            .collect();
        if top_p < 1.0 {
            likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let all: f64 = likely.iter().map(|(_, weight)| weight).sum();
            let mut share = 0.0;
            let enough = likely.iter().position(|(_, weight)| {
                share += weight / all;
                share >= f64::from(top_p)
            });
            likely.truncate(enough.map_or(likely.len(), |last| last + 1));
        }
        let all: f64 = likely.iter().map(|(_, weight)| weight).sum();
        // 53 random bits make every fraction of a double below 1 equally likely.
        let mut point = (self.chance.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * all;
        for (token, weight) in &likely {
            point -= weight;
            if point < 0.0 {
                return Ok(*token as TokenId);
            }
        }
        // Rounding can leave a trace behind the last one.
        Ok(likely.last().map_or(best, |(token, _)| *token) as TokenId)
    }
}

/// The place of the highest number.
fn highest(logits: &[f32]) -> Option<usize> {
    let mut best = None;
    for (place, logit) in logits.iter().enumerate() {
        if !logit.is_nan() && best.is_none_or(|best: usize| *logit > logits[best]) {
            best = Some(place);
        }
    }
    best
}

/// The `count` highest logits, highest first.
pub fn top(logits: &[f32], count: usize) -> Vec<(TokenId, f32)> {
    let mut all: Vec<(TokenId, f32)> =
        logits.iter().enumerate().map(|(token, logit)| (token as TokenId, *logit)).collect();
    let by_logit = |a: &(TokenId, f32), b: &(TokenId, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if count < all.len() {
        all.select_nth_unstable_by(count, by_logit);
        all.truncate(count);
    }
    all.sort_by(by_logit);
    all
}
