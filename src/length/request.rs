//! Reads a request for a length in English.
//!
//! Invariant: a rule comes out only if every word that could change it was understood. A caption that is measured by a
//! wrong rule is worse than one that is not measured, so this knows a few phrases and takes nothing else for granted.

use super::number::{Amount, amounts};
use super::{LengthRule, Unit};

/// What the words around a number make of it.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    /// Nothing was said: just "50 words".
    Unsaid,
    Exactly,
    AtMost,
    AtLeast,
    Below,
    Above,
    Between,
}

/// Phrases that set a bound directly before the number.
const PHRASES: [(Bound, &[&str]); 6] = [
    (Bound::Exactly, &["exactly", "precisely"]),
    (
        Bound::AtMost,
        &["at most", "at the most", "up to", "within", "<=", "≤", "less than or equal to", "fewer than or equal to"],
    ),
    (Bound::AtLeast, &["at least", "at the least", ">=", "≥", "more than or equal to", "greater than or equal to"]),
    (Bound::Below, &["less than", "fewer than", "shorter than", "under", "below", "<"]),
    (
        Bound::Above,
        &["more than", "greater than", "longer than", "over", "above", ">", "exceed", "exceeds", "exceeding"],
    ),
    (Bound::Between, &["between", "from"]),
];

/// Words and marks that leave the meaning of a number alone.
const FILLERS: &str = "\
    , . : ; a an the this it its be is are of in with to do does has have contain contains containing use using \
    write need needs must should shall will please generated caption caption's captions description summary text \
    answer response length";

/// What may stand between "maximum" and its number: "maximum length should be 30 words".
const NOUN_LINKS: &str = ". : of length is be should must";

const NEGATIONS: &str = "not no never without cannot can't don't doesn't shouldn't mustn't won't nor isn't";

/// What may stand between a negation and the phrase it turns round: "should not be less than".
const NEGATION_LINKS: &str = "be have contain use write go going any";

/// Words that, anywhere else in the request, may soften, lift or change the rule.
const DOUBTS: &str = "\
    can could may might if unless except ideally preferably possible possibly try optional approx approximate \
    approximately roughly guideline limit max maximum min minimum least exceed exceeds exceeding more less fewer \
    longer shorter hundred thousand million dozen half avoid reject rejected penalize penalized forbidden wrong";

/// What a unit can be called without another count: "four short lines".
const ADJECTIVES: &str = "short long brief concise simple clear complete full total";

/// Words behind the unit that leave the rule alone: "50 words in total".
const TRAILERS: &str = ", long in length total the caption description please";

/// The rule that a request states, if it surely states one.
pub(super) fn parse(text: &str) -> Option<LengthRule> {
    let text = text.to_lowercase().replace('’', "'");
    let tokens = tokens(&text);
    let mut units = tokens.iter().enumerate().filter_map(|(at, token)| Some((at, unit(token)?)));
    let (at, unit) = units.next()?;
    if units.next().is_some() {
        return None;
    }
    let amounts = amounts(&tokens);
    let (first, last) = (amounts.first()?, amounts.last()?);
    // "single words" asks for a kind of words, "a single word" for one.
    if last.end > at || tokens[last.start] == "single" && tokens[at].ends_with('s') {
        return None;
    }
    let before = before(&tokens[..first.start])?;
    let after = after(&tokens[last.end..at], &tokens[at + 1..])?;
    let (min, max) = match (amounts.as_slice(), before, after) {
        ([amount], Bound::Unsaid, bound) | ([amount], bound, Bound::Unsaid) => limits(bound, amount.value)?,
        ([from, to], Bound::Unsaid | Bound::Between, Bound::Unsaid) => range(&tokens, from, to, before)?,
        _ => return None,
    };
    Some(LengthRule { unit, min, max })
}

/// Words, numbers (with their commas and points) and comparison signs; any other mark is a token of its own.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '<' | '>' | '=' => rest.find(|c| !matches!(c, '<' | '>' | '=')).unwrap_or(rest.len()),
            _ => word_length(rest).max(c.len_utf8()),
        };
        let token = rest[..length].trim_matches(['\'', '"', '“', '”', '(', ')']);
        if !token.is_empty() {
            tokens.push(token);
        }
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The bytes of the word or number that a text begins with.
fn word_length(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    let mut digit = false;
    while let Some((at, c)) = chars.next() {
        let inside = matches!(c, ',' | '.') && digit && chars.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        if !(c.is_alphanumeric() || c == '\'' || inside) {
            return at;
        }
        digit = c.is_ascii_digit();
    }
    text.len()
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

/// The bound that the words before the first number set.
///
/// All of them must be known, since "avoid captions of" turns every bound round; only "exactly" carries its meaning
/// through other words, so there it is enough that none is doubtful.
fn before(tokens: &[&str]) -> Option<Bound> {
    let (bound, rest) = phrase(tokens).unwrap_or((Bound::Unsaid, tokens));
    let (bound, rest) = match (bound, before_negation(rest)) {
        (_, None) => (bound, rest),
        // "Need not exceed" forbids nothing.
        (_, Some([.., "need" | "needs"])) => return None,
        (Bound::Below, Some(rest)) => (Bound::AtLeast, rest),
        (Bound::Above, Some(rest)) => (Bound::AtMost, rest),
        _ => return None,
    };
    // Not "with": the video may be the one with two characters.
    let rest = match rest {
        ["describe" | "summarize", "the" | "this", "image" | "video" | "scene", "in" | "using", rest @ ..] => rest,
        _ => rest,
    };
    let is_filler = |token: &&str| among(FILLERS, token);
    let known = match bound {
        Bound::Exactly => rest.last().is_none_or(is_filler) && !rest.iter().any(|token| is_doubtful(token)),
        _ => rest.iter().all(is_filler),
    };
    known.then_some(bound)
}

/// The bound of the phrase directly before a number, and what stands before the phrase.
fn phrase<'a>(tokens: &'a [&'a str]) -> Option<(Bound, &'a [&'a str])> {
    let noun = match trim_end(tokens, NOUN_LINKS) {
        [rest @ .., "max" | "maximum"] => Some((Bound::AtMost, rest)),
        [rest @ .., "min" | "minimum"] => Some((Bound::AtLeast, rest)),
        _ => None,
    };
    let mut phrases = PHRASES.iter().flat_map(|(bound, phrases)| phrases.iter().map(|phrase| (*bound, *phrase)));
    noun.or_else(|| {
        phrases.find_map(|(bound, phrase)| {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            Some((bound, tokens.strip_suffix(phrase.as_slice())?))
        })
    })
}

/// What stands before a negation at the end, if there is one: "should not be" leaves "should".
fn before_negation<'a>(tokens: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let (last, rest) = trim_end(tokens, NEGATION_LINKS).split_last()?;
    let rest = among(NEGATIONS, last).then_some(rest)?;
    // "Can not" is "cannot".
    Some(rest.strip_suffix(&["can"]).or_else(|| rest.strip_suffix(&["may"])).unwrap_or(rest))
}

/// Whether a list of words, parted by spaces, has this one.
fn among(words: &str, token: &str) -> bool {
    words.split(' ').any(|word| word == token)
}

fn trim_end<'a>(mut tokens: &'a [&'a str], words: &str) -> &'a [&'a str] {
    while let [rest @ .., last] = tokens
        && among(words, last)
    {
        tokens = rest;
    }
    tokens
}

fn is_doubtful(token: &str) -> bool {
    among(NEGATIONS, token) || among(DOUBTS, token) || token.chars().any(char::is_numeric)
}

/// The bound that the words behind the last number set: up to the unit, and behind it to the end of the sentence.
fn after(between: &[&str], behind: &[&str]) -> Option<Bound> {
    let end = behind.iter().position(|token| matches!(*token, "." | ";" | "!" | "?")).unwrap_or(behind.len());
    let (sentence, others) = behind.split_at(end);
    if others.iter().any(|token| is_doubtful(token)) {
        return None;
    }
    let between = match between {
        ["-"] => &[],
        [word] if among(ADJECTIVES, word) => &[],
        other => other,
    };
    let said = between.iter().chain(sentence.iter().filter(|token| !among(TRAILERS, token)));
    match said.copied().collect::<Vec<_>>().join(" ").as_str() {
        "" => Some(Bound::Unsaid),
        "or less" | "or fewer" | "or shorter" | "max" | "maximum" | "at most" | "at maximum" => Some(Bound::AtMost),
        "or more" | "or longer" | "min" | "minimum" | "at least" | "at minimum" => Some(Bound::AtLeast),
        _ => None,
    }
}

type Limits = (Option<u32>, Option<u32>);

/// The fewest and the most that a bound allows; `None` if it does not go with one number, or nothing can keep it.
fn limits(bound: Bound, value: u32) -> Option<Limits> {
    Some(match bound {
        Bound::Unsaid | Bound::Exactly => (Some(value), Some(value)),
        Bound::AtMost => (None, Some(value)),
        Bound::AtLeast => (Some(value), None),
        Bound::Below => (None, Some(value.checked_sub(1)?)),
        Bound::Above => (Some(value.checked_add(1)?), None),
        Bound::Between => return None,
    })
}

/// The limits of "20 to 30"; "and" joins two numbers only behind "between" ("one hundred and fifty" is one).
fn range(tokens: &[&str], from: &Amount, to: &Amount, before: Bound) -> Option<Limits> {
    let joined = match &tokens[from.end..to.start] {
        ["to" | "through" | "-" | "–" | "—"] => true,
        ["and"] => before == Bound::Between,
        _ => false,
    };
    // "One to two hundred" may begin at a hundred.
    let unclear = from.value < 10 && tokens[to.start..to.end].contains(&"hundred");
    (joined && !unclear && from.value <= to.value).then_some((Some(from.value), Some(to.value)))
}
