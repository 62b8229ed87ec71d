//! The label of an event: which of the task's words stands in the place of the decision.
//!
//! Invariant: a label is only read where it is a decision. The same word in a description (`supported by a rope`), in a
//! quotation or behind a `not` is no label, and two decisions in one line are none.

use std::sync::Arc;

use aho_corasick::AhoCorasick;

use super::markup::{is_one_of, trim_emphasis_end, trim_emphasis_start};

/// The label words of a task.
#[derive(Debug, Clone)]
pub struct LabelWords {
    names: Vec<Arc<str>>,
    finder: Option<AhoCorasick>,
    flag: Option<(String, AhoCorasick)>,
}

/// What a line says about its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// The label, by its place among the task's labels.
    pub label: Label,
    /// Whether the event has the task's flag.
    pub flag: Option<bool>,
    /// Alternatives stand where a decision should: the template's own words.
    pub echo: bool,
    /// The label stands at the start of the line, so that the line is there for it.
    pub leads: bool,
}

/// A label, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Label {
    /// No label was seen.
    #[default]
    None,
    /// This one.
    Is(usize),
    /// Two labels exclude each other.
    Conflict,
}

/// The label word of a line that has the best claim to be its decision, so far.
#[derive(Debug, Clone, Copy)]
struct Choice {
    rank: u8,
    label: usize,
    start: usize,
    end: usize,
    conflict: bool,
}

/// How many bytes may stand before a label that its line is there for (`Revised verdict: `).
const LEADING: usize = 24;

impl LabelWords {
    /// Prepares a task's labels and flag.
    pub fn new(names: &[String], flag: Option<&str>) -> Self {
        let finder = |words: &[String]| AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok();
        let flag = flag.map(str::to_lowercase);
        Self {
            names: names.iter().map(|name| name.as_str().into()).collect(),
            finder: if names.is_empty() { None } else { finder(names) },
            flag: flag.and_then(|flag| Some((flag.clone(), finder(&[flag])?))),
        }
    }

    /// The name of a label.
    pub fn name(&self, label: usize) -> Arc<str> {
        Arc::clone(&self.names[label])
    }

    /// The place of a label among the task's labels.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|label| label.as_ref() == name)
    }

    /// Reads a line of an event.
    pub fn read(&self, line: &str) -> Decision {
        let Some(finder) = &self.finder else { return Decision::default() };
        let mut choice: Option<Choice> = None;
        let mut previous: Option<(usize, usize)> = None;
        let mut quote = Quotes::default();
        for found in finder.find_iter(line) {
            let (start, end, label) = (found.start(), found.end(), found.pattern().as_usize());
            if !is_word(line, start, end) {
                continue;
            }
            let quoted = quote.open_at(line, start);
            if let Some((label_before, end_before)) = previous
                && label_before != label
                && are_alternatives(&line[end_before..start])
            {
                return Decision { echo: true, ..Decision::default() };
            }
            previous = Some((label, end));
            let before = Before::of(&line[..start]);
            let after = After::of(&line[end..]);
            if quoted || before == Before::Not || after == After::Denied {
                continue;
            }
            let upper = !line[start..end].bytes().any(|byte| byte.is_ascii_lowercase());
            let Some(rank) = rank(before, after, upper) else { continue };
            match &mut choice {
                Some(best) if best.rank < rank => {}
                // Two decisions with two labels are none; but behind a `because` stands justification.
                Some(best) if best.rank == rank => {
                    let justified = !matches!(rank, 0 | 2) && line[best.end..start].contains("because");
                    best.conflict |= best.label != label && !justified;
                }
                _ => choice = Some(Choice { rank, label, start, end, conflict: false }),
            }
        }
        let label = match &choice {
            None => Label::None,
            Some(choice) if choice.conflict => Label::Conflict,
            Some(choice) => Label::Is(choice.label),
        };
        let from = choice.map_or(0, |choice| choice.end);
        let (flag, echo) = self.flag_in(&line[from..]);
        let leads = choice.is_some_and(|choice| choice.start <= LEADING && choice.rank <= 1);
        Decision { label, flag, echo, leads }
    }

    /// Whether the line says that its event has the flag, and whether it only repeats the template's alternatives.
    pub fn flag_in(&self, text: &str) -> (Option<bool>, bool) {
        let Some((word, finder)) = &self.flag else { return (None, false) };
        if !finder.is_match(text) {
            return (None, false);
        }
        let lower = text.to_ascii_lowercase();
        let mut flag = None;
        for (start, _) in lower.match_indices(word.as_str()) {
            let end = start + word.len();
            if !is_word(&lower, start, end) {
                continue;
            }
            let after = trim_emphasis_start(&lower[end..]);
            let before = trim_emphasis_end(&lower[..start]);
            if let Some(answer) = after.strip_prefix([':', '=']) {
                let answer = answer.trim_start_matches(|c: char| !c.is_alphabetic());
                if answer.starts_with("yes") || answer.starts_with("true") {
                    flag = Some(true);
                } else if answer.starts_with("no") || answer.starts_with("false") {
                    flag = Some(false);
                }
                continue;
            }
            let ended = after.is_empty()
                || after.starts_with(['.', ')', ',', ';', ']', '。'])
                || after.starts_with("one")
                || after.starts_with("event");
            if !ended {
                continue;
            }
            let before = before.strip_suffix(" artificially").unwrap_or(before);
            let before = before.strip_suffix(" an").or(before.strip_suffix(" the")).unwrap_or(before);
            let before = trim_emphasis_end(before);
            let alternatives = before.strip_suffix(']').and_then(|inside| inside.rsplit_once('['));
            if alternatives.is_some_and(|(_, inside)| inside.contains('/')) {
                return (None, true);
            }
            let before = before.trim_end_matches([']', ')']);
            let negated = before.ends_with("not") || before.ends_with("n't") || before.ends_with("n’t");
            let stated =
                ["was", "is", "(", "event", "-", "–", "—", ":", "and"].iter().any(|verb| before.ends_with(verb));
            if negated {
                flag = Some(false);
            } else if stated {
                flag = Some(true);
            }
        }
        (flag, false)
    }
}

/// How good a claim a word has to be the decision, 0 the best; none at all without a fitting word or mark before it.
fn rank(before: Before, after: After, upper: bool) -> Option<u8> {
    let whole = before == Before::Verb && after == After::Because;
    let ended = after != After::Other;
    match (before, upper) {
        (Before::Other | Before::Not, _) => None,
        (_, true) if whole => Some(0),
        (_, true) if ended => Some(1),
        (_, false) if whole => Some(2),
        (_, false) if ended => Some(3),
        (_, true) => Some(4),
        (_, false) => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Verb,
    Not,
    Punctuation,
    Other,
}

impl Before {
    fn of(text: &str) -> Self {
        let decoration = ['*', '_', '`', '[', '(', '|', '\'', '"', '“', '‘', '<', '✓', '✗'];
        let text = text.trim_end_matches(|c: char| c.is_whitespace() || decoration.contains(&c));
        if is_negated(text) {
            return Before::Not;
        }
        if text.is_empty() || text.ends_with([':', '：', '=', '→', '>', '-', '–', '—', '.', ',', ';']) {
            return Before::Punctuation;
        }
        const VERBS: [&str; 17] = [
            "was", "is", "were", "are", "as", "marked", "labeled", "labelled", "deemed", "considered", "judged",
            "therefore", "thus", "hence", "verdict", "label", "status",
        ];
        let word = text.rsplit(|c: char| !(c.is_alphabetic() || c == '\'' || c == '’')).next().unwrap_or_default();
        if word.is_empty() {
            Before::Punctuation
        } else if is_one_of(word, &VERBS) {
            Before::Verb
        } else {
            Before::Other
        }
    }
}

/// Whether one of the last words before a label, in the same clause, takes it back: `cannot be considered SUPPORTED`.
fn is_negated(before: &str) -> bool {
    const NOT: [&str; 14] = [
        "not", "never", "no", "nothing", "cannot", "neither", "nor", "without", "wasn't", "isn't", "can't", "wasn’t",
        "isn’t", "can’t",
    ];
    // A mark right before the label does not end the clause: `NOT: SUPPORTED`, `not-SUPPORTED`.
    let mut rest = before.trim_end_matches([':', '-', ' ', ',']);
    for _ in 0..7 {
        let is_part = |c: char| c.is_alphabetic() || c == '\'' || c == '’';
        let word_start = rest.trim_end_matches(is_part).len();
        if is_one_of(&rest[word_start..], &NOT) {
            return true;
        }
        let before_word = &rest[..word_start];
        let after_gap = before_word.trim_end_matches([' ', ',', '"', '(', '[', '*', '_']);
        // A dash between spaces, a full stop or the like begins the clause.
        let gap = before_word.len() - after_gap.len();
        if after_gap.is_empty()
            || after_gap.ends_with(['—', '–', '.', ';', ':', '|'])
            || gap > 0 && after_gap.ends_with('-')
        {
            return false;
        }
        rest = after_gap.strip_suffix(|c: char| !is_part(c)).unwrap_or(after_gap);
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Because,
    Punctuation,
    Denied,
    Other,
}

impl After {
    fn of(text: &str) -> Self {
        let text = text.trim_start_matches(|c: char| {
            c.is_whitespace()
                || matches!(c, '*' | '_' | '`' | ']' | ')' | '|' | '\'' | '"' | '”' | '’' | '>' | '✓' | '✗')
        });
        let Some(first) = text.chars().next() else { return After::Punctuation };
        // `SUPPORTED?`, `SUPPORTED: no`
        let answer = text.trim_start_matches([':', ' ', '?', '*']);
        let answer = answer.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if first == '?' || first == ':' && is_one_of(answer, &["no", "false", "not"]) {
            return After::Denied;
        }
        if !first.is_alphanumeric() {
            return After::Punctuation;
        }
        let word = text.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        if is_one_of(word, &["because", "since", "as", "due", "given"]) {
            After::Because
        } else if first.is_ascii() {
            After::Other
        } else {
            After::Punctuation
        }
    }
}

/// Follows the double quotation marks of a line from left to right.
#[derive(Debug, Default)]
struct Quotes {
    at: usize,
    open: bool,
}

impl Quotes {
    fn open_at(&mut self, line: &str, at: usize) -> bool {
        self.open = super::markup::quotation_after(&line[self.at..at], self.open);
        self.at = at;
        // A quotation of the label alone (`was "SUPPORTED"`) is emphasis.
        let before = line[..at].trim_end_matches(['*', '_', '`', '[']);
        self.open && !before.ends_with(['"', '“'])
    }
}

fn is_word(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    let part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    !part(before) && !part(after)
}

/// `SUPPORTED / HALLUCINATED`, `SUPPORTED or HALLUCINATED`: what stands between two alternatives.
fn are_alternatives(between: &str) -> bool {
    let between = between.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '[' | ']'));
    matches!(between, "/" | "|" | "or" | "OR" | "／" | "\\")
}
