//! Reads what stands inside of objects: keys, values, strings and lists, one character at a time.
//!
//! Invariant: a quotation mark ends a string only if what follows fits, so that a score in a string that its own quotation marks
//! broke is not taken for a key's value.

use std::sync::Arc;

use super::{Found, Open, ScoreReader, State, is_quote};
use crate::answer::number::read_number;
use crate::answer::{Event, Reason};

/// The deepest nesting that is followed; braces beyond it are text.
const DEEPEST: usize = 64;
/// The longest key that is taken for one.
const LONGEST_KEY: usize = 64;

impl ScoreReader<'_> {
    pub(super) fn key(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        match c {
            c if is_quote(c) => {
                self.state = State::Str { start: self.at + c.len_utf8(), quote: c, key: true };
            }
            '}' => self.close(on_event),
            '{' => self.nest(),
            c if c.is_alphanumeric() || c == '_' => self.state = State::BareKey(self.at),
            _ => {}
        }
    }

    pub(super) fn bare_key(&mut self, c: char, start: usize, on_event: &mut dyn FnMut(Event)) {
        match c {
            ':' | '：' => {
                if let Some(object) = self.objects.last_mut() {
                    object.bare_keys |= object.keys == 0;
                }
                self.keyed(start, self.at);
            }
            // A comment, or anything else that is no key after all.
            '}' | ',' | '{' | '\n' => {
                self.state = State::Key;
                self.key(c, on_event);
            }
            c if is_quote(c) => self.key(c, on_event),
            _ => {}
        }
    }

    fn nest(&mut self) {
        if self.objects.len() < DEEPEST {
            self.objects.push(Open { start: self.at, ..Open::default() });
        }
        self.state = State::Key;
    }

    pub(super) fn value(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        match c {
            c if is_quote(c) => {
                self.state = State::Str { start: self.at + c.len_utf8(), quote: c, key: false };
            }
            '{' => self.nest(),
            // `{"verdicts": [{"score": 3}]}`: a list is looked into, but a list in the place of the score is its value.
            '[' if !self.is_score_key() => self.lists(1),
            ']' if self.in_list() => {
                self.lists(-1);
                self.state = State::AfterValue;
            }
            c if c.is_whitespace() => {}
            _ => {
                self.state = State::BareValue { start: self.at, list: c == '[' };
                self.bare_value(c, self.at, c == '[', on_event);
            }
        }
    }

    pub(super) fn bare_value(&mut self, c: char, start: usize, list: bool, on_event: &mut dyn FnMut(Event)) {
        // A list in the place of the score is one value: `[3]`, `[2, 3]`.
        let ends = match c {
            '}' => true,
            ',' | '\n' => !list,
            ']' if list => {
                self.state = State::BareValue { start, list: false };
                false
            }
            ']' => self.in_list(),
            _ => false,
        };
        if ends {
            self.valued(start, self.at, false, on_event);
            self.state = State::AfterValue;
            self.after_value(c, on_event);
        }
    }

    fn in_list(&self) -> bool {
        self.objects.last().is_some_and(|object| object.lists > 0)
    }

    fn lists(&mut self, change: isize) {
        if let Some(object) = self.objects.last_mut() {
            object.lists = object.lists.saturating_add_signed(change);
        }
    }

    pub(super) fn is_score_key(&self) -> bool {
        self.objects.last().is_some_and(|object| self.is_score(&object.key))
    }

    fn is_score(&self, key: &str) -> bool {
        key.eq_ignore_ascii_case(&self.format.spec.key)
    }

    pub(super) fn string(&mut self, c: char, start: usize, quote: char, key: bool) {
        if key && (c == '\n' || self.at - start > LONGEST_KEY) {
            // No key: the brace before it was only text.
            self.objects.clear();
            self.state = State::Prose;
            self.line_start = self.at + usize::from(c == '\n');
            self.clean = false;
        } else if self.escaped {
            self.escaped = false;
        } else if c == '\\' {
            self.escaped = true;
        } else if closes(quote, c) {
            self.state = State::MayEnd { start, end: self.at, quote, key, comma: false };
        }
    }

    /// A quotation mark ends a string only if what follows fits: models forget to escape.
    pub(super) fn may_end(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        let State::MayEnd { start, end, quote, key, comma } = self.state else { return };
        match c {
            // The closing fence of an object that lacks its brace stands on a line of its own.
            '`' if self.text[..self.at].ends_with('\n') => self.ends(start, end, c, on_event),
            c if c.is_whitespace() => {}
            ':' | '：' | '=' if key => self.keyed(start, end),
            _ if key => self.reopen(start, quote, key, c),
            '}' => self.ends(start, end, c, on_event),
            ']' if self.in_list() && !comma => self.ends(start, end, c, on_event),
            ',' if !comma => self.state = State::MayEnd { start, end, quote, key, comma: true },
            c if comma && is_quote(c) && self.in_list() => self.ends(start, end, c, on_event),
            c if comma && is_quote(c) => {
                let key_start = self.at + c.len_utf8();
                self.state = State::MayBeKey { start, end, quote, key_start, key_end: None };
            }
            c if comma && c.is_alphabetic() && self.objects.last().is_some_and(|object| object.bare_keys) => {
                self.ends(start, end, c, on_event);
            }
            _ => self.reopen(start, quote, key, c),
        }
    }

    /// `"…", "score": 3` goes on with a key; `"dragon", "castle" and` is still the string.
    pub(super) fn may_be_key(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        let State::MayBeKey { start, end, quote, key_start, key_end } = self.state else { return };
        match (key_end, c) {
            (None, c) if is_quote(c) => {
                self.state = State::MayBeKey { start, end, quote, key_start, key_end: Some(self.at) };
            }
            (None, '\n') => self.reopen(start, quote, false, c),
            (None, _) => {}
            (Some(key_end), ':' | '：') => {
                self.valued(start, end, true, on_event);
                self.keyed(key_start, key_end);
            }
            (Some(_), c) if c.is_whitespace() => {}
            (Some(key_end), c) => {
                self.state = State::MayEnd { start, end: key_end, quote, key: false, comma: false };
                self.may_end(c, on_event);
            }
        }
    }

    /// The string ended; `c` is the first character behind it that is not a comma.
    fn ends(&mut self, start: usize, end: usize, c: char, on_event: &mut dyn FnMut(Event)) {
        self.valued(start, end, true, on_event);
        if matches!(c, '}' | ']' | '`') {
            self.state = State::AfterValue;
            self.after_value(c, on_event);
        } else if self.in_list() {
            self.state = State::Value;
            self.value(c, on_event);
        } else {
            self.state = State::Key;
            self.key(c, on_event);
        }
    }

    /// The quotation mark was part of the string.
    fn reopen(&mut self, start: usize, quote: char, key: bool, c: char) {
        self.state = State::Str { start, quote, key };
        self.string(c, start, quote, key);
    }

    fn keyed(&mut self, start: usize, end: usize) {
        if let Some(object) = self.objects.last_mut() {
            object.key = self.text[start..end].trim().to_owned();
            object.keys += 1;
        }
        self.state = State::Value;
    }

    pub(super) fn valued(&mut self, start: usize, end: usize, string: bool, on_event: &mut dyn FnMut(Event)) {
        let raw = &self.text[start..end];
        let Some(object) = self.objects.last() else { return };
        if self.is_score(&object.key) {
            let value = match read_number(raw, self.format.range()) {
                Err(Reason::MissingMetric) => Err(Reason::NotANumber),
                value => value,
            };
            on_event(Event::Metric(Arc::clone(&self.format.shared_name), value));
            if let Some(object) = self.objects.last_mut() {
                object.scores.push(value);
            }
            if self.score_alone {
                self.settle_early(value, end, on_event);
            }
        } else if string
            && self.format.spec.reason.as_ref().is_some_and(|reason| object.key.eq_ignore_ascii_case(reason))
        {
            let reason = unescape(raw);
            if let Some(object) = self.objects.last_mut() {
                object.reason = Some(reason);
            }
        }
    }

    pub(super) fn after_value(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        match c {
            ',' if self.in_list() => self.state = State::Value,
            ']' => self.lists(-1),
            ',' | ';' | '\n' => self.state = State::Key,
            '}' => self.close(on_event),
            '{' => self.nest(),
            c if is_quote(c) && c != '\'' => self.key(c, on_event),
            _ => {}
        }
    }

    pub(super) fn close(&mut self, on_event: &mut dyn FnMut(Event)) {
        let Some(object) = self.objects.pop() else { return };
        let start = object.start;
        let found = found_in(object, self.at + 1);
        if let Some(outer) = self.objects.last_mut() {
            self.state = State::AfterValue;
            match (&mut outer.nested, found) {
                (Some(before), Some(found)) if before.value != found.value => {
                    before.value = Err(Reason::Contradictory);
                }
                (nested @ None, found) => *nested = found,
                _ => {}
            }
            return;
        }
        self.state = State::Prose;
        self.line_start = self.at + 1;
        self.settle(found, start, on_event);
    }
}

/// The score of a complete object: its own, or that of the object that it wraps.
fn found_in(object: Open, end: usize) -> Option<Found> {
    let Some(value) = object.scores.first().copied() else {
        // Beside other keys, an object without a reason may be about anything (`"rubric": {"score": 4}`).
        return object.nested.filter(|nested| object.keys == 1 || nested.reason.is_some());
    };
    let same = object.scores.iter().all(|other| *other == value);
    let value = if same { value } else { Err(Reason::Contradictory) };
    Some(Found { value, reason: object.reason, span: object.start..end })
}

/// Whether `c` can end a string that `quote` opened.
fn closes(quote: char, c: char) -> bool {
    match quote {
        '“' | '”' => matches!(c, '“' | '”'),
        '‘' | '’' => matches!(c, '‘' | '’'),
        quote => c == quote,
    }
}

/// A string's text without its escapes; what is no valid escape stays as it is.
fn unescape(raw: &str) -> String {
    serde_json::from_str::<String>(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.replace("\\\"", "\""))
}
