//! Counts words, sentences, lines, paragraphs and characters.
//!
//! Words are counted as `wc -w` counts them, without tokens that have neither letter nor digit, and with every Han
//! character and kana as a word of its own, since those scripts put no spaces between words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a length is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Words.
    Words,
    /// Sentences.
    Sentences,
    /// Characters, without white space.
    Characters,
    /// Lines that are not blank.
    Lines,
    /// Paragraphs: blocks between blank lines.
    Paragraphs,
}

impl Unit {
    /// The length of a text in this unit.
    pub fn count(self, text: &str) -> u32 {
        let count = match self {
            Unit::Words => words(text),
            Unit::Sentences => sentences(text),
            Unit::Characters => characters(text),
            Unit::Lines => text.lines().filter(|line| !line.trim().is_empty()).count(),
            Unit::Paragraphs => paragraphs(text).count(),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// How many words a text has.
pub fn words(text: &str) -> usize {
    let mut count = 0;
    let mut in_word = false;
    for c in text.chars() {
        if is_ideograph(c) {
            count += 1;
            in_word = false;
        } else if c.is_whitespace() || is_cjk_punctuation(c) {
            in_word = false;
        } else if c.is_alphanumeric() && !in_word {
            count += 1;
            in_word = true;
        }
    }
    count
}

/// How many characters a text has, white space left out.
pub fn characters(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// How many sentences a text has. A line break alone does not end one (verse), a blank line does.
pub fn sentences(text: &str) -> usize {
    paragraphs(text).map(|paragraph| sentences_of_paragraph(&paragraph)).sum()
}

fn paragraphs(text: &str) -> impl Iterator<Item = String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match blocks.last_mut() {
            Some(block) if !line.trim().is_empty() => {
                block.push_str(line);
                block.push(' ');
            }
            _ => blocks.push(String::new()),
        }
    }
    blocks.into_iter().filter(|block| !block.trim().is_empty())
}

fn sentences_of_paragraph(text: &str) -> usize {
    let chars: Vec<char> = text.chars().collect();
    let mut count = 0;
    let mut has_word = false;
    let mut word = String::new();
    let mut at = 0;
    // Where the next word begins. It only moves on, so that a long row of marks is not searched again at each of them.
    let mut next_word = 0;
    while at < chars.len() {
        let c = chars[at];
        at += 1;
        if c.is_alphanumeric() {
            has_word = true;
            word.push(c);
            continue;
        }
        let wide = matches!(c, '。' | '！' | '？' | '｡');
        if wide || matches!(c, '.' | '!' | '?' | '…') {
            while at < chars.len() && is_end_mark(chars[at]) {
                at += 1;
            }
            next_word = next_word.max(at);
            while next_word < chars.len() && !chars[next_word].is_alphanumeric() {
                next_word += 1;
            }
            let ends = wide || ends_sentence(c, &word, chars.get(at), chars.get(next_word));
            if ends && has_word {
                count += 1;
                has_word = false;
            }
        }
        word.clear();
    }
    count + usize::from(has_word)
}

fn is_end_mark(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '"' | '\'' | '”' | '’' | ')' | ']' | '」' | '』' | '*')
}

/// Whether the mark `mark` behind `word` ends a sentence; the text goes on with `next`, its next word with `next_word`.
fn ends_sentence(mark: char, word: &str, next: Option<&char>, next_word: Option<&char>) -> bool {
    let Some(next) = next else { return true };
    if !next.is_whitespace() {
        return false;
    }
    if next_word.is_some_and(|c| c.is_lowercase()) {
        return false;
    }
    const TITLES: [&str; 12] = ["mr", "mrs", "ms", "dr", "st", "prof", "jr", "sr", "vs", "mt", "no", "gen"];
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    // `No.` is an abbreviation before a number only.
    let title = TITLES.contains(&word.to_lowercase().as_str())
        && (!word.eq_ignore_ascii_case("no") || next_word.is_some_and(|c| c.is_numeric()));
    mark != '.' || !(initial && word != "I" || title) || next_word.is_none()
}

/// Characters of scripts that put no spaces between words.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9d}'
        | '\u{3100}'..='\u{312f}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}')
        && c.is_alphanumeric()
}

fn is_cjk_punctuation(c: char) -> bool {
    matches!(c, '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{3020}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}')
}
