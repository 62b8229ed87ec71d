//! Reads `json_score` answers: one JSON object, as models write it.
//!
//! Invariant: what stands inside a string is never a verdict, and every character is looked at once, in order, so
//! pieces of any size give the same reading.

mod object;
mod outcome;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use super::markup::{Name, is_fence, lead};
use super::number::{self, read_lone_number, read_number, takes_back};
use super::statement::{Separator, find_name, value_at_start, value_behind};
use super::{Event, Reason, thought};
use crate::task::ScoreSpec;

/// A `json_score` format, prepared for reading.
#[derive(Debug, Clone)]
pub struct ScoreFormat {
    spec: ScoreSpec,
    name: Name,
    shared_name: Arc<str>,
}

impl ScoreFormat {
    /// Prepares a task's format.
    pub fn new(spec: &ScoreSpec) -> Self {
        Self { spec: spec.clone(), name: Name::new(&spec.key), shared_name: spec.key.as_str().into() }
    }

    fn range(&self) -> number::Range {
        number::Range::Score { min: self.spec.min, max: self.spec.max }
    }
}

/// A score that the answer gives, in an object or on a line of its own.
#[derive(Debug, Clone)]
struct Found {
    value: Result<u32, Reason>,
    reason: Option<String>,
    span: Range<usize>,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Outside of any object.
    Prose,
    /// Inside a thought.
    Thought,
    /// In an object, before a key.
    Key,
    /// In an unquoted key that starts here.
    BareKey(usize),
    /// Behind a colon, before the value.
    Value,
    /// In an unquoted value that starts here; inside a list that it is, or not.
    BareValue { start: usize, list: bool },
    /// In a string that starts here.
    Str { start: usize, quote: char, key: bool },
    /// Behind a quotation mark that may end the string: the next character tells.
    MayEnd { start: usize, end: usize, quote: char, key: bool, comma: bool },
    /// Behind a quotation mark, a comma and another quotation mark: a key, or words that the string goes on with.
    MayBeKey { start: usize, end: usize, quote: char, key_start: usize, key_end: Option<usize> },
    /// Behind a value.
    AfterValue,
}

/// An object that is being read.
#[derive(Debug, Clone, Default)]
struct Open {
    start: usize,
    key: String,
    keys: usize,
    /// Its first key has no quotation marks, so the others need none.
    bare_keys: bool,
    /// How many lists are open in the value that is being read.
    lists: usize,
    scores: Vec<Result<u32, Reason>>,
    reason: Option<String>,
    /// What an object in the place of one of its values gave.
    nested: Option<Found>,
}

/// Reads one `json_score` answer.
#[derive(Debug)]
pub struct ScoreReader<'a> {
    format: &'a ScoreFormat,
    inputs: Vec<Cow<'a, str>>,
    /// The inputs as quotations are compared with them; made when a verdict is there to compare.
    squeezed: OnceCell<Vec<String>>,
    /// Whether the inputs have scores of their own; looked for once.
    forged: OnceCell<bool>,
    text: String,
    at: usize,
    state: State,
    objects: Vec<Open>,
    /// Scores in outermost objects, in order.
    found: Vec<Found>,
    /// Scores on lines of their own.
    lines: Vec<Found>,
    /// A line that only names the score: the next one may hold it.
    waiting: bool,
    /// Words behind the last score take it back.
    taken_back: bool,
    /// Where the answer proper starts: behind the thought.
    start: usize,
    /// No object was seen yet, and nothing but fences and white space stands before the one being read.
    clean: bool,
    line_start: usize,
    /// Where the last outermost object ended.
    object_end: usize,
    escaped: bool,
    /// Whether a score is enough.
    score_alone: bool,
    done: bool,
}

impl<'a> ScoreReader<'a> {
    /// A reader for one answer; `inputs` are the texts that the judge was shown.
    pub fn new(format: &'a ScoreFormat, inputs: Vec<Cow<'a, str>>) -> Self {
        Self {
            format,
            inputs,
            squeezed: OnceCell::new(),
            forged: OnceCell::new(),
            text: String::with_capacity(256),
            at: 0,
            state: State::Prose,
            objects: Vec::new(),
            found: Vec::new(),
            lines: Vec::new(),
            waiting: false,
            taken_back: false,
            start: 0,
            clean: true,
            line_start: 0,
            object_end: 0,
            escaped: false,
            score_alone: false,
            done: false,
        }
    }

    /// Is done with a score where it would wait for its reason.
    pub fn leave_out_reason(&mut self) {
        self.score_alone = true;
    }

    /// Whether the next character may be the first of a score's value: all that stands of it is what may surround one.
    pub fn expects_score(&self) -> bool {
        let only_around = |start: usize| self.text[start..].chars().all(|c| c == '[' || c.is_whitespace());
        self.is_score_key()
            && match self.state {
                State::Value => true,
                State::BareValue { start, .. } | State::Str { start, key: false, .. } => only_around(start),
                _ => false,
            }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str, on_event: &mut dyn FnMut(Event)) -> bool {
        if self.done {
            return true;
        }
        let mut start = self.text.len();
        self.text.push_str(piece);
        while !self.done && start < self.text.len() {
            start = self.skip_ahead(start);
            let Some(c) = self.text[start..].chars().next() else { break };
            self.at = start;
            self.take(c, on_event);
            start += c.len_utf8();
        }
        self.done
    }

    /// Where only a few characters matter, the others are skipped.
    fn skip_ahead(&self, from: usize) -> usize {
        let rest = &self.text.as_bytes()[from..];
        let found = match self.state {
            State::Str { quote: '"', key: false, .. } if !self.escaped => memchr::memchr2(b'"', b'\\', rest),
            State::Prose => memchr::memchr3(b'{', b'\n', b'>', rest),
            State::Thought => memchr::memchr(b'>', rest),
            _ => return from,
        };
        from + found.unwrap_or(rest.len())
    }

    fn take(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        match self.state {
            State::Prose => self.prose(c, on_event),
            State::Thought => {
                if thought::ends_with_close(&self.text[..=self.at]) {
                    self.state = State::Prose;
                    self.answer_starts();
                }
            }
            State::Key => self.key(c, on_event),
            State::BareKey(start) => self.bare_key(c, start, on_event),
            State::Value => self.value(c, on_event),
            State::BareValue { start, list } => self.bare_value(c, start, list, on_event),
            State::Str { start, quote, key } => self.string(c, start, quote, key),
            State::MayEnd { .. } => self.may_end(c, on_event),
            State::MayBeKey { .. } => self.may_be_key(c, on_event),
            State::AfterValue => self.after_value(c, on_event),
        }
    }

    fn prose(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        match c {
            '{' => {
                self.clean = self.clean && is_bare(&self.text[self.start..self.at]);
                self.objects.push(Open { start: self.at, ..Open::default() });
                self.state = State::Key;
            }
            '\n' => {
                let line = self.line_start..self.at;
                self.line_start = self.at + 1;
                self.line(line, on_event);
            }
            _ => self.tag(),
        }
    }

    /// Behind a `>`: did a thought begin or end?
    fn tag(&mut self) {
        let text = &self.text[..=self.at];
        if let Some(tag) = thought::ends_with_open(text)
            && self.clean
        {
            // Looked at once: after anything else no thought can begin.
            self.clean = self.text[self.start..tag].trim().is_empty();
            if self.clean {
                self.state = State::Thought;
            }
        } else if thought::ends_with_close(text) && !self.inputs.iter().any(|input| thought::closes(input).is_some()) {
            // All before was a thought that the chat template had opened.
            self.found.clear();
            self.lines.clear();
            self.waiting = false;
            self.answer_starts();
        }
    }

    fn answer_starts(&mut self) {
        self.start = self.at + 1;
        self.line_start = self.start;
        self.object_end = self.start;
        self.clean = true;
    }

    /// A whole line outside of objects: `Score: 3`.
    fn line(&mut self, range: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        let line = &self.text[range.clone()];
        if line.trim().is_empty() || is_fence(line) {
            return;
        }
        let lead = lead(line);
        let name = &self.format.name;
        let mut value = value_at_start(name, lead.words, Separator::Needed);
        // What is left of an object that its own quotation marks broke: `…", "score": 1}`.
        if value.is_none() && line.contains('"') {
            let place = find_name(name, line).find(|at| line[..*at].ends_with('"'));
            value = place.and_then(|at| value_behind(name, &line[at - 1..], Separator::Needed));
        }
        let read = match value {
            Some(value) => read_number(value, self.format.range()),
            None if self.waiting => read_lone_number(lead.words, self.format.range()),
            None => {
                // `However, the rule caps it at 1.` behind a score.
                self.taken_back |= !(self.found.is_empty() && self.lines.is_empty()) && takes_back(line);
                return;
            }
        };
        self.waiting = value.is_some() && read == Err(Reason::MissingMetric);
        if !self.waiting && !lead.quoted {
            on_event(Event::Metric(Arc::clone(&self.format.shared_name), read));
            self.lines.push(Found { value: read, reason: None, span: range });
        }
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’')
}

/// Whether a text is nothing but fences and white space.
fn is_bare(text: &str) -> bool {
    text.lines().all(|line| is_fence(line) || line.chars().all(|c| c.is_whitespace() || c == '\u{feff}'))
}
