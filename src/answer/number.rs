//! Reads the value of a metric: one whole number, or what is wrong with it.
//!
//! Invariant: where two people could read two numbers, this reads none.

use super::Reason;

/// The largest count that is taken for one.
const MOST: u32 = 9_999;

/// What numbers are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// A count of events; `3 out of 5` is 3.
    Count,
    /// A score; `3/4` is 3 where 4 is the highest.
    Score {
        /// The lowest.
        min: u32,
        /// The highest.
        max: u32,
    },
}

const OPENING: [char; 16] = ['*', '_', '`', '"', '\'', '“', '‘', '”', '’', '(', '[', '{', '<', '|', '「', '\\'];
const CLOSING: [char; 15] = ['*', '_', '`', '"', '\'', '”', '’', '“', '‘', ')', ']', '}', '>', '|', '」'];

/// Reads the number at the start of `text`; nothing but white space and decoration is [`Reason::MissingMetric`].
pub fn read_number(text: &str, range: Range) -> Result<u32, Reason> {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || OPENING.contains(&c));
    let bracketed = text[..text.len() - start.len()].contains(['[', '<', '{']);
    let bound = text.trim_start_matches(|c: char| c.is_whitespace() || c != '<' && OPENING.contains(&c));
    if bound.strip_prefix(['<', '>']).is_some_and(|after| digit(after.trim_start_matches(['=', ' '])).is_some()) {
        return Err(Reason::Ambiguous);
    }
    let Some(first) = start.chars().next() else {
        let empty = text.trim().is_empty() || text.trim().chars().all(|c| matches!(c, '*' | '_' | '`' | '|'));
        return Err(if empty { Reason::MissingMetric } else { Reason::NotANumber });
    };
    if matches!(first, '-' | '−' | '–') {
        let after = start[first.len_utf8()..].trim_start();
        return Err(if digit(after).is_some() { Reason::Negative } else { Reason::NotANumber });
    }
    let (number, rest) = match digits(start) {
        Some(found) => found,
        None => return Err(no_digits(start, first, bracketed)),
    };
    let rest = match rest.strip_prefix('.') {
        Some(decimals) => match digits(decimals) {
            Some((0, after)) => after,
            Some(_) => return Err(Reason::Fractional),
            None => rest,
        },
        None => rest,
    };
    let max = match range {
        Range::Count => MOST,
        Range::Score { max, .. } => max,
    };
    if let Range::Score { min, max } = range
        && bracketed
        && number == min
        && after_dash(rest).is_some_and(|(to, _)| to == max)
    {
        return Err(Reason::TemplateEcho);
    }
    follows(rest, range)?;
    if number > max || matches!(range, Range::Score { min, .. } if number < min) {
        return Err(Reason::OutOfRange);
    }
    Ok(number)
}

fn no_digits(start: &str, first: char, bracketed: bool) -> Reason {
    let has_digit = start.chars().any(|c| digit(c.encode_utf8(&mut [0; 4])).is_some());
    if matches!(first, '~' | '≈' | '≥' | '≤' | '+' | '±' | '=') && has_digit {
        return Reason::Ambiguous;
    }
    if bracketed && first.is_alphabetic() && start.contains([']', '>', '}']) && start.contains(' ') {
        return Reason::TemplateEcho;
    }
    let first_word = start.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_lowercase();
    let hedges = ["about", "around", "approximately", "approx", "roughly", "maybe", "perhaps", "possibly", "probably"];
    let bounds = ["at", "up", "more", "less", "fewer", "between", "over", "under", "almost", "nearly"];
    if has_digit && (hedges.contains(&first_word.as_str()) || bounds.contains(&first_word.as_str())) {
        return Reason::Ambiguous;
    }
    Reason::NotANumber
}

/// Checks what follows the number: is it still one number?
fn follows(rest: &str, range: Range) -> Result<(), Reason> {
    if rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '+' | '?' | '^')) {
        return Err(Reason::Ambiguous);
    }
    if rest.strip_prefix([',', '.']).is_some_and(|after| digit(after).is_some()) {
        return Err(Reason::Ambiguous);
    }
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || CLOSING.contains(&c));
    if after_dash(rest).is_some() || rest.starts_with(['+', '?', '%', '±', '=', '×', '~']) {
        return Err(Reason::Ambiguous);
    }
    if let Some(below) = rest.strip_prefix('/').or_else(|| rest.strip_prefix('／')) {
        return scale(below, range, Reason::Ambiguous);
    }
    let words = rest.trim_start_matches([',', ';', '(', ' ']);
    let second = words.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let after_word = words[second.len()..].trim_start();
    match second.to_lowercase().as_str() {
        "maybe" | "perhaps" | "possibly" | "probably" => Err(Reason::Ambiguous),
        "or" | "to" | "and" | "through" if digit(after_word).is_some() || number_word(after_word) => {
            Err(Reason::Ambiguous)
        }
        "or" => Err(Reason::Ambiguous),
        "out" if let Some(of) = after_word.strip_prefix("of") => out_of(of, range),
        "of" => out_of(after_word, range),
        _ => Ok(()),
    }
}

fn out_of(below: &str, range: Range) -> Result<(), Reason> {
    match range {
        Range::Count => Ok(()),
        Range::Score { .. } => scale(below, range, Reason::Ambiguous),
    }
}

fn scale(below: &str, range: Range, otherwise: Reason) -> Result<(), Reason> {
    let below = below.trim_start_matches(|c: char| c.is_whitespace() || OPENING.contains(&c));
    match (range, digits(below)) {
        (Range::Score { max, .. }, Some((number, _))) if number == max => Ok(()),
        _ => Err(otherwise),
    }
}

/// `-4`, `– 4`: the number behind a dash.
fn after_dash(text: &str) -> Option<(u32, &str)> {
    digits(text.trim_start().strip_prefix(['-', '–', '—', '~', '−'])?.trim_start())
}

fn number_word(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_lowercase();
    matches!(word.as_str(), "one" | "two" | "three" | "four" | "five" | "six" | "seven" | "eight" | "nine" | "ten")
}

fn digit(text: &str) -> Option<u32> {
    match text.chars().next()? {
        c @ '0'..='9' => c.to_digit(10),
        c @ '０'..='９' => Some(u32::from(c) - u32::from('０')),
        _ => None,
    }
}

/// The digits at the start, as a number that saturates, and what follows.
fn digits(text: &str) -> Option<(u32, &str)> {
    let mut number: Option<u32> = None;
    let mut rest = text;
    while let Some(value) = digit(rest) {
        number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(value));
        let length = rest.chars().next().map_or(0, char::len_utf8);
        rest = &rest[length..];
    }
    number.map(|number| (number, rest))
}
