//! Reads the value of a metric: one whole number, or what is wrong with it.
//!
//! Invariant: where two people could read two numbers, this reads none. So what follows the number is looked at word
//! by word: a further number is only allowed where it cannot be the value (`2 (events 1 and 3)`, `2 out of 5`).

use super::Reason;
use super::markup::is_one_of;

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

const OPENING: [char; 17] = ['$', '*', '_', '`', '"', '\'', '“', '‘', '”', '’', '(', '[', '{', '<', '|', '「', '\\'];
const CLOSING: [char; 16] = ['$', '*', '_', '`', '"', '\'', '”', '’', '“', '‘', ')', ']', '}', '>', '|', '」'];

/// Words that take back or soften the number before them, or make it a number of something else.
const HEDGES: [&str; 74] = [
    "but", "if", "maybe", "perhaps", "possibly", "probably", "actually", "wait", "correction", "corrected", "revised",
    "recount", "recounted", "otherwise", "minus", "plus", "half", "vs", "versus", "least", "most", "approximately",
    "about", "roughly", "around", "could", "might", "should", "would", "instead", "rather", "capped", "maximum",
    "minimum", "unless", "strict", "lenient", "unsure", "wrong", "incorrect", "tentative", "draft", "placeholder",
    "example", "pending", "default", "unable", "cannot", "guess", "assuming", "instructed", "demands", "tells",
    "unknown", "undetermined", "dozen", "hundred", "thousand", "million", "pair", "pairs", "each", "times", "per",
    "second", "seconds", "kg", "less", "more", "excluding", "including", "before", "after", "below",
];

/// Words that make a count above 0 one of what is in order, and fit a count of 0.
const IN_ORDER: [&str; 12] = [
    "supported", "correct", "match", "matches", "matched", "present", "inferred", "extracted", "true", "none", "all",
    "non",
];

/// The hedges that also count where an event is described: the others are everyday words there.
const STRONG: [&str; 14] = [
    "maybe", "perhaps", "possibly", "probably", "actually", "wait", "correction", "corrected", "revised", "recount",
    "otherwise", "unsure", "could", "might",
];

/// What a `not` in front of makes doubtful; `not supported` and `not mentioned` are what is counted.
const NOT_THIS: [&str; 14] = [
    "sure", "certain", "evaluated", "determined", "determinable", "applicable", "known", "verified", "clear", "final",
    "hallucinated", "omitted", "counted", "including",
];

/// Words that begin a correction of what was said before.
const TAKING_BACK: [&str; 21] = [
    "wait", "actually", "sorry", "oops", "scratch", "correction", "edit", "recount", "recounting", "mistake",
    "apologize", "apologise", "apologies", "meant", "updated", "revised", "however", "adjusted", "penalty",
    "deduction", "caps",
];

/// Whether a line takes back a number that was given before it: such a word, and a number that names no event.
pub fn takes_back(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphabetic());
    words.any(|word| is_one_of(word, &TAKING_BACK)) && has_own_number(line)
}

/// Whether a text has a number, in digits or as a word, that does not name an event.
fn has_own_number(text: &str) -> bool {
    let mut names_event = false;
    let tokens = text.split(|c: char| !(c.is_alphanumeric() || c == '#')).filter(|token| !token.is_empty());
    for token in tokens {
        if token.starts_with(char::is_numeric) || starts_with_number_word(token) {
            if !names_event {
                return true;
            }
        } else {
            names_event =
                token.starts_with('#') || is_one_of(token, &EVENTS) || names_event && is_one_of(token, &["and", "are"]);
        }
    }
    false
}

/// Words that the number of an event may follow.
const EVENTS: [&str; 7] = ["event", "events", "item", "items", "nos", "number", "numbers"];

/// Reads the number at the start of `text`; nothing but white space and decoration is [`Reason::MissingMetric`].
pub fn read_number(text: &str, range: Range) -> Result<u32, Reason> {
    let (number, rest) = number_at_start(text, range)?;
    check_rest(rest, number, range)?;
    Ok(number)
}

/// Reads a text that is a number and nothing else but decoration and a remark in parentheses.
pub fn read_lone_number(text: &str, range: Range) -> Result<u32, Reason> {
    let (number, rest) = number_at_start(text, range)?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '.' || CLOSING.contains(&c));
    if rest.starts_with(char::is_alphabetic) {
        return Err(Reason::NotANumber);
    }
    check_rest(rest, number, range)?;
    Ok(number)
}

/// The number and what follows it, before that is looked at.
fn number_at_start(text: &str, range: Range) -> Result<(u32, &str), Reason> {
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || OPENING.contains(&c));
    // LaTeX: `\boxed{2}`.
    let start = start.strip_prefix("boxed{").unwrap_or(start);
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
    let Some((number, rest)) = digits(start) else {
        return Err(no_digits(start, first, bracketed));
    };
    let rest = match rest.strip_prefix('.').map(|decimals| (decimals, digits(decimals))) {
        Some((_, Some((0, after)))) => after,
        Some((_, Some(_))) => return Err(Reason::Fractional),
        _ => rest,
    };
    if let Range::Score { min, max } = range
        && bracketed
        && number == min
        && after_dash(rest) == Some(max)
    {
        return Err(Reason::TemplateEcho);
    }
    let (min, max) = match range {
        Range::Count => (0, MOST),
        Range::Score { min, max } => (min, max),
    };
    if number < min || number > max {
        return Err(Reason::OutOfRange);
    }
    Ok((number, rest))
}

/// What stands in the place of a number that is none.
fn no_digits(start: &str, first: char, bracketed: bool) -> Reason {
    // Only the first words can be about the number.
    let near: String = start.chars().take(60).collect();
    let has_digit = near.contains(|c: char| c.is_numeric());
    if matches!(first, '~' | '≈' | '≥' | '≤' | '+' | '±' | '=') && has_digit {
        return Reason::Ambiguous;
    }
    if bracketed && first.is_alphabetic() && near.contains(' ') {
        return Reason::TemplateEcho;
    }
    let first_word = near.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let bounds = ["at", "up", "more", "less", "fewer", "between", "over", "under", "almost", "nearly", "approx"];
    let hedged = is_one_of(first_word, &HEDGES) || is_one_of(first_word, &bounds);
    if has_digit && hedged { Reason::Ambiguous } else { Reason::NotANumber }
}

/// Checks what follows the number: is it still the only one?
fn check_rest(rest: &str, number: u32, range: Range) -> Result<(), Reason> {
    // A token of the chat template ends an answer.
    let rest = rest.split("</s>").next().unwrap_or_default();
    let is_mark = |c: char| ('\u{300}'..='\u{36f}').contains(&c);
    let directly = |c: char| c.is_ascii_alphanumeric() || c.is_numeric() || matches!(c, '．' | '·' | '⁄') || is_mark(c);
    if rest.starts_with(directly)
        || rest.strip_prefix(['.', ',']).is_some_and(|after| after.starts_with(char::is_numeric))
    {
        return Err(Reason::Ambiguous);
    }
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || CLOSING.contains(&c));
    match rest.strip_prefix(['/', '／']) {
        Some(below) => {
            let below = below.trim_start_matches(|c: char| c.is_whitespace() || OPENING.contains(&c));
            match (range, digits(below)) {
                (Range::Score { max, .. }, Some((found, after))) if found == max && !is_fraction(after) => {
                    check_remark(after, number, range)
                }
                _ => Err(Reason::Ambiguous),
            }
        }
        None => check_remark(rest, number, range),
    }
}

fn is_fraction(after: &str) -> bool {
    after.strip_prefix(['.', ',']).is_some_and(|decimals| decimals.starts_with(char::is_numeric))
}

/// Checks a remark behind the number, word by word.
fn check_remark(remark: &str, value: u32, range: Range) -> Result<(), Reason> {
    let mut rest = remark;
    // Whether a number here names an event: `events 1, 2 and 5`, `#3`.
    let mut names_event = false;
    let mut word_before = "";
    let mut in_parentheses = false;
    // Behind the number of an event stand words about it.
    let mut describes_event = false;
    while let Some(c) = rest.chars().next() {
        if c.is_alphabetic() {
            let end = rest.find(|c: char| !(c.is_alphabetic() || c == '\'' || c == '’')).unwrap_or(rest.len());
            let word = &rest[..end];
            let first = word_before.is_empty() && rest.len() == remark.trim_start().len();
            check_word(word, &rest[end..], first, describes_event)?;
            let is = |names: &[&str]| is_one_of(word, names);
            let negated = word_before.eq_ignore_ascii_case("not");
            if range == Range::Count && value > 0 && is(&IN_ORDER) && !negated {
                return Err(Reason::Ambiguous);
            }
            // `0 (all 5 events are supported)`
            names_event = is(&EVENTS) || names_event && is(&["and", "are", "namely"]) || value == 0 && is(&["all"]);
            word_before = word;
            rest = &rest[end..];
            continue;
        }
        if c.is_numeric() {
            let (number, after) = digits(rest).ok_or(Reason::Ambiguous)?;
            let whole = word_before.eq_ignore_ascii_case("of");
            let fits = match range {
                Range::Count => number >= value,
                Range::Score { max, .. } => number == max,
            };
            let same = number == value && in_parentheses;
            if is_fraction(after) || !(names_event || same || whole && fits) {
                return Err(Reason::Ambiguous);
            }
            describes_event |= names_event;
            word_before = "number";
            rest = after;
            continue;
        }
        match c {
            '→' | '⇒' | '➔' | '=' | '+' | '±' | '×' | '~' | '?' | '%' | '/' => return Err(Reason::Ambiguous),
            '-' if rest.starts_with("->") => return Err(Reason::Ambiguous),
            '#' => names_event = true,
            ';' | '.' => (names_event, describes_event) = (false, false),
            '(' | '[' | '（' => in_parentheses = true,
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    Ok(())
}

/// Refuses words that take the number back; `or` and `to` only where another number follows or nothing stands before.
fn check_word(word: &str, after: &str, first: bool, describes_event: bool) -> Result<(), Reason> {
    let is = |other: &str| word.eq_ignore_ascii_case(other);
    let joins = is("or") || is("to") || is("through");
    let next = after.trim_start();
    let number_follows = next.starts_with(char::is_numeric) || starts_with_number_word(next);
    let hedges: &[&str] = if describes_event { &STRONG } else { &HEDGES };
    if is_one_of(word, hedges) || joins && number_follows || is("or") && first {
        return Err(Reason::Ambiguous);
    }
    let next_word = next.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    if is("not") && is_one_of(next_word, &NOT_THIS) {
        return Err(Reason::Ambiguous);
    }
    if is("and") && (number_follows && first || next.starts_with("a half")) {
        return Err(Reason::Ambiguous);
    }
    Ok(())
}

fn starts_with_number_word(text: &str) -> bool {
    const WORDS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let word = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    is_one_of(word, &WORDS)
}

/// `-4`, `– 4`: the number behind a dash.
fn after_dash(text: &str) -> Option<u32> {
    let after = text.trim_start().strip_prefix(['-', '–', '—', '~', '−'])?;
    digits(after.trim_start()).map(|(number, _)| number)
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
