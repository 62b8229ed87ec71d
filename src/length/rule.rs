//! Rules about length: the ±n% of a rubric, and requests in words ("20 to 30 words").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Unit;

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
    /// Understands a request in English; `None` if it names no length, more than one, or only about how much.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_lowercase().replace(['’', '\''], "");
        let tokens: Vec<&str> = tokens(&text);
        let mut units = tokens.iter().enumerate().filter_map(|(at, token)| Some((at, unit(token)?)));
        let (at, unit) = units.next()?;
        if units.next().is_some() {
            return None;
        }
        // At most one word between the number and the unit: "five short sentences".
        let last = (at.saturating_sub(2)..at).rev().find(|index| number(tokens[*index]).is_some())?;
        let value = number(tokens[last])?;
        let first = last.checked_sub(2).and_then(|index| number(tokens[index]));
        let joined = last > 0 && matches!(tokens[last - 1], "to" | "and" | "-" | "–" | "—" | "through");
        let (min, max) = match first {
            Some(from) if joined && from <= value => (Some(from), Some(value)),
            Some(_) if joined => return None,
            _ => bounds(&tokens[..last].join(" "), &tokens[at + 1..].join(" "), value)?,
        };
        Some(Self { unit, min, max })
    }

    /// The length of a text in the rule's unit, and whether it keeps the rule.
    pub fn check(&self, text: &str) -> (u32, bool) {
        let count = self.unit.count(text);
        let kept = self.min.is_none_or(|min| count >= min) && self.max.is_none_or(|max| count <= max);
        (count, kept)
    }
}

/// Words and numbers of a request; a dash is a token of its own.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '.' | ';' | ':' | '(' | ')' | '"')) {
        let mut rest = word;
        while let Some(at) = rest.find(['-', '–', '—']) {
            let length = rest[at..].chars().next().map_or(1, char::len_utf8);
            tokens.extend([&rest[..at], &rest[at..at + length]]);
            rest = &rest[at + length..];
        }
        tokens.push(rest);
    }
    tokens.retain(|token| !token.is_empty());
    tokens
}

fn unit(token: &str) -> Option<Unit> {
    Some(match token {
        "word" | "words" => Unit::Words,
        "sentence" | "sentences" => Unit::Sentences,
        "character" | "characters" => Unit::Characters,
        "line" | "lines" => Unit::Lines,
        "paragraph" | "paragraphs" => Unit::Paragraphs,
        _ => return None,
    })
}

fn number(token: &str) -> Option<u32> {
    const WORDS: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    const TENS: [(&str, u32); 8] = [
        ("thirty", 30),
        ("forty", 40),
        ("fifty", 50),
        ("sixty", 60),
        ("seventy", 70),
        ("eighty", 80),
        ("ninety", 90),
        ("hundred", 100),
    ];
    let small = WORDS.iter().position(|word| *word == token).and_then(|value| u32::try_from(value).ok());
    let tens = || TENS.iter().find(|(word, _)| *word == token).map(|(_, value)| *value);
    let single = || (token == "single").then_some(1);
    small.or_else(tens).or_else(single).or_else(|| token.parse().ok())
}

/// The bounds that the words around a number set.
fn bounds(before: &str, after: &str, value: u32) -> Option<(Option<u32>, Option<u32>)> {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| before.contains(phrase));
    if says(&["about", "around", "approximately", "roughly", "nearly", "almost"]) {
        return None;
    }
    let most = ["exceed", "at most", "no more than", "not more than", "up to", "within", "maximum", "no longer than"];
    if says(&most) || after.starts_with("or less") || after.starts_with("or fewer") || after.starts_with("max") {
        return Some((None, Some(value)));
    }
    let least = ["at least", "no fewer than", "no less than", "not less than", "not fewer than", "minimum"];
    if says(&least) || after.starts_with("or more") || after.starts_with("min") {
        return Some((Some(value), None));
    }
    if says(&["less than", "fewer than", "under", "below", "shorter than"]) {
        return Some((None, Some(value.saturating_sub(1))));
    }
    if says(&["more than", "over", "above", "longer than"]) {
        return Some((Some(value.saturating_add(1)), None));
    }
    Some((Some(value), Some(value)))
}
