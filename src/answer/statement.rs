//! `NAME: value`: whether a text states a metric, and where the text of its value is.

use super::markup::{Name, is_one_of, trim_emphasis_start};

/// Words that may stand before a metric's name.
pub const BEFORE: [&str; 9] = ["final", "total", "overall", "the", "corrected", "correct", "revised", "updated", "my"];

/// What may stand between a name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// `NAME 3` will do.
    Optional,
    /// `:`, `=` or `is` has to be there: the name is an everyday word.
    Needed,
}

/// The text of the value, if `words` start with the name (perhaps after `Final` and the like) and a separator.
pub fn value_at_start<'t>(name: &Name, words: &'t str, separator: Separator) -> Option<&'t str> {
    let mut words = words;
    for _ in 0..3 {
        if let Some(value) = value_behind(name, words, separator) {
            return Some(value);
        }
        let end = words.find(|c: char| !c.is_alphabetic())?;
        if !is_one_of(&words[..end], &BEFORE) {
            return None;
        }
        words = trim_emphasis_start(&words[end..]);
    }
    None
}

/// The text of the value, if `words` start with the name and a separator.
pub fn value_behind<'t>(name: &Name, words: &'t str, separator: Separator) -> Option<&'t str> {
    let words = words.trim_start_matches(['{', ' ']);
    match words.strip_prefix(['"', '“', '\'']) {
        // Quotation marks around the name alone are a JSON key; around more than that, a quotation.
        Some(inside) => value_text(name.strip(inside)?.strip_prefix(['"', '”', '\''])?, separator),
        None => value_text(name.strip(words)?, separator),
    }
}

/// The text of a value, behind its separator; `None` if this is prose.
fn value_text(after: &str, separator: Separator) -> Option<&str> {
    if let Some(cell) = after.trim_start_matches(['*', '_', '`', ' ', '\t']).strip_prefix('|') {
        return Some(cell);
    }
    let trimmed = trim_emphasis_start(after);
    if trimmed.is_empty() {
        return (separator == Separator::Optional).then_some("");
    }
    // `NAME (out of 5 events): 2`
    let aside = trimmed.strip_prefix('(').and_then(|inside| inside.split_once(')')).map(|(_, behind)| behind);
    let aside = aside.map(trim_emphasis_start).filter(|behind| behind.starts_with([':', '：', '=']));
    let trimmed = aside.unwrap_or(trimmed);
    let trimmed = match trimmed.get(..3) {
        Some(is) if is.eq_ignore_ascii_case("is ") || is.eq_ignore_ascii_case("is:") => {
            let value = trimmed[2..].trim_start();
            return Some(value.strip_prefix([':', '：']).unwrap_or(value));
        }
        _ => trimmed,
    };
    if let Some(value) = trimmed.strip_prefix([':', '：', '=', '→']) {
        let value = trim_emphasis_start(value);
        return Some(value.strip_prefix(['=', ':']).unwrap_or(value));
    }
    for dash in ['-', '–', '—'] {
        if let Some(value) = trimmed.strip_prefix(dash) {
            // `NAME - 3` is a separator; `NAME -3` may be a negative number, and is read as one.
            let spaced = value.starts_with([' ', '\t']);
            return if spaced { Some(value) } else { (separator == Separator::Optional).then_some(trimmed) };
        }
    }
    if separator == Separator::Needed {
        return None;
    }
    let is_value = trimmed.starts_with(|c: char| c.is_numeric() || c == '[' || c == '(');
    (is_value && trimmed.len() < after.len()).then_some(trimmed)
}

/// The places in a text where the name stands as a word of its own, in order.
pub fn find_name(name: &Name, text: &str) -> impl Iterator<Item = usize> {
    let mut inside_word = false;
    text.char_indices().filter_map(move |(at, c)| {
        let starts = !inside_word && name.starts_with(c) && name.strip(&text[at..]).is_some();
        inside_word = c.is_alphanumeric() || c == '_';
        starts.then_some(at)
    })
}
