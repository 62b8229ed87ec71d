//! Rules about length: the ±n% of a rubric, and requests in words ("20 to 30 words").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Unit, request};

/// A length that a caption was asked to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LengthRule {
    /// What is counted.
    pub unit: Unit,
    /// The fewest allowed.
    pub min: Option<u32>,
    /// The most allowed.
    pub max: Option<u32>,
}

/// Whether `count` is within ±`percent` of `reference`, ends included, in whole numbers.
pub fn within_percent(count: u32, reference: u32, percent: u32) -> bool {
    u64::from(count.abs_diff(reference)) * 100 <= u64::from(reference) * u64::from(percent)
}

impl LengthRule {
    /// Understands a request in English; `None` if it names no length, more than one, only about how much, or anything
    /// else that leaves a doubt.
    pub fn parse(text: &str) -> Option<Self> {
        request::parse(text)
    }

    /// The length of a text in the rule's unit, and whether it keeps the rule.
    pub fn check(&self, text: &str) -> (u32, bool) {
        let count = self.unit.count(text);
        let kept = self.min.is_none_or(|min| count >= min) && self.max.is_none_or(|max| count <= max);
        (count, kept)
    }
}
