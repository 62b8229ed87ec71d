//! What stands around the words of a line: bullets, numbers, headings, emphasis, quotation marks.
//!
//! Invariant: nothing here decides anything; it only takes decoration away, so that the readers see words.

/// The decoration before the words of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lead<'a> {
    /// How far the line is indented.
    pub indent: usize,
    /// The line is a block quotation (`>`).
    pub quoted: bool,
    /// A bullet stands before the words.
    pub bullet: bool,
    /// A number stands before the words (`1.`, `1)`, `(1)`).
    pub number: Option<u32>,
    /// The words.
    pub words: &'a str,
}

const BULLETS: [char; 15] = ['-', '*', '+', '•', '·', '●', '▪', '◦', '‣', '–', '—', '○', '■', '➤', '►'];

/// Marks that open a quotation or a parenthesis are no decoration.
const OPENS_QUOTATION: [char; 9] = ['“', '”', '„', '‘', '’', '«', '「', '『', '（'];

/// Takes the decoration off the start of a line.
pub fn lead(line: &str) -> Lead<'_> {
    let indent = line.len() - line.trim_start().len();
    let mut lead = Lead { indent, quoted: false, bullet: false, number: None, words: line };
    loop {
        let words = lead.words.trim_start();
        lead.words = words;
        let Some(first) = words.chars().next() else { return lead };
        let rest = &words[first.len_utf8()..];
        match first {
            '>' => lead.quoted = true,
            c if BULLETS.contains(&c) && rest.starts_with([' ', '\t']) => lead.bullet = true,
            '•' | '●' | '▪' | '‣' => lead.bullet = true,
            '#' | '*' | '_' | '`' | '|' | '~' => {}
            // Emoji and the like.
            c if !c.is_ascii() && !c.is_alphanumeric() && !OPENS_QUOTATION.contains(&c) => {}
            '(' | '[' | '0'..='9' if lead.number.is_none() => match list_number(words) {
                Some((number, after)) => {
                    lead.number = Some(number);
                    lead.words = after;
                    continue;
                }
                None => return lead,
            },
            _ => return lead,
        }
        lead.words = rest;
    }
}

/// `1.`, `1)`, `(1)`, `[1]`, `1:`, `1、`: the number and what follows; not `1.5`, not `[3]` alone.
fn list_number(text: &str) -> Option<(u32, &str)> {
    let close = match text.as_bytes()[0] {
        b'(' => Some(')'),
        b'[' => Some(']'),
        _ => None,
    };
    let digits = if close.is_some() { &text[1..] } else { text };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 || length > 4 {
        return None;
    }
    let number = digits[..length].parse().ok()?;
    let after = &digits[length..];
    match close {
        Some(close) => {
            let after = after.strip_prefix(close)?;
            (!after.trim().is_empty()).then_some((number, after))
        }
        None => {
            let after = after.strip_prefix('\\').unwrap_or(after);
            let after = after.strip_prefix(['.', ')', '、', '）', '．']).or_else(|| {
                let after = after.strip_prefix(':')?;
                after.starts_with(' ').then_some(after)
            })?;
            (!after.starts_with(|c: char| c.is_ascii_digit())).then_some((number, after))
        }
    }
}

/// Whether a line is a code fence and nothing else.
pub fn is_fence(line: &str) -> bool {
    let line = line.trim();
    if !line.starts_with('`') {
        return false;
    }
    let rest = line.trim_start_matches('`');
    line.len() - rest.len() >= 3 && rest.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '+'))
}

/// Whether a word is one of some words, in any case.
pub fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| other.eq_ignore_ascii_case(word))
}

/// Takes emphasis, backticks, table bars and white space off the start.
pub fn trim_emphasis_start(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '|' | '#'))
}

/// Takes emphasis, backticks, table bars and white space off the end.
pub fn trim_emphasis_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '|' | '#'))
}

/// A name that a heading or a metric has, split into words.
#[derive(Debug, Clone)]
pub struct Name {
    words: Vec<String>,
    /// The first letter, where it is ASCII: most texts are ruled out by it.
    first: Option<u8>,
}

impl Name {
    /// Splits a name at everything that is not a letter or a digit.
    pub fn new(name: &str) -> Self {
        let words: Vec<String> =
            name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
        let first = words.first().and_then(|word| word.bytes().next()).filter(u8::is_ascii);
        Self { words, first }
    }

    /// Whether the name can start with this character.
    pub fn starts_with(&self, c: char) -> bool {
        let first = self.words.first().and_then(|word| word.chars().next());
        first.is_some_and(|first| c == first || c.to_lowercase().eq(std::iter::once(first)))
    }

    /// What follows the name, if `text` starts with it: any case; `_`, `-`, `\_`, spaces or emphasis between its words.
    pub fn strip<'t>(&self, text: &'t str) -> Option<&'t str> {
        if self.first.is_some() && text.bytes().next().map(|byte| byte.to_ascii_lowercase()) != self.first {
            return None;
        }
        let mut rest = text;
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                let after = rest.trim_start_matches([' ', '_', '-', '\\', '*', '‑', '–', '\u{a0}']);
                if after.len() == rest.len() {
                    return None;
                }
                rest = after;
            }
            rest = strip_word(rest, word)?;
        }
        let goes_on = rest.trim_start_matches(['_', '\\']).starts_with(char::is_alphanumeric);
        (!self.words.is_empty() && !goes_on).then_some(rest)
    }
}

/// What follows `word`, which is in lower case, at the start of `text`, in any case.
fn strip_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    if word.is_ascii() {
        let found = text.get(..word.len())?;
        return found.eq_ignore_ascii_case(word).then(|| &text[word.len()..]);
    }
    let mut rest = text;
    for wanted in word.chars() {
        let found = rest.chars().next()?;
        if !found.to_lowercase().eq(std::iter::once(wanted)) {
            return None;
        }
        rest = &rest[found.len_utf8()..];
    }
    Some(rest)
}

/// Whether a quotation is open at the end of a line, given whether one was open at its start.
///
/// A double quote after a digit (`12"`) is an inch sign unless a quotation is open.
pub fn quotation_after(line: &str, mut open: bool) -> bool {
    // Typographic quotation marks are three bytes, of which E2 is the first.
    for at in memchr::memchr2_iter(b'"', 0xe2, line.as_bytes()) {
        match line.as_bytes()[at..] {
            [b'"', ..] if open => open = false,
            [b'"', ..] => open = !line[..at].ends_with(|c: char| c.is_ascii_digit()),
            // `“` opens in English and closes in German („…“).
            [0xe2, 0x80, 0x9c, ..] => open = !open,
            [0xe2, 0x80, 0x9d, ..] => open = false,
            [0xe2, 0x80, 0x9e, ..] => open = true,
            _ => {}
        }
    }
    open
}

/// The letters that any of some names start with, to rule most lines out at a glance.
#[derive(Debug, Clone, Default)]
pub struct FirstLetters {
    ascii: u128,
    other: bool,
}

impl FirstLetters {
    /// The first letters of `names`, in both cases.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n Name>) -> Self {
        let mut letters = Self::default();
        for first in names.into_iter().filter_map(|name| name.words.first()?.chars().next()) {
            match u8::try_from(first) {
                Ok(byte) if byte.is_ascii() => {
                    letters.ascii |= 1 << byte.to_ascii_lowercase() | 1 << byte.to_ascii_uppercase();
                }
                _ => letters.other = true,
            }
        }
        letters
    }

    /// Adds the first letters of words.
    pub fn with_words(mut self, words: &[&str]) -> Self {
        for byte in words.iter().filter_map(|word| word.bytes().next()).filter(u8::is_ascii) {
            self.ascii |= 1 << byte.to_ascii_lowercase() | 1 << byte.to_ascii_uppercase();
        }
        self
    }

    /// Whether a name may stand at the start of `text`.
    pub fn may_start(&self, text: &str) -> bool {
        match text.as_bytes().first() {
            Some(byte) if byte.is_ascii() => self.ascii >> byte & 1 == 1,
            Some(_) => self.other,
            None => false,
        }
    }
}
