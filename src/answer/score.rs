//! Reads `json_score` answers: one JSON object, as models write it.
//!
//! Invariant: what stands inside a string is never a verdict, and every character is looked at once, in order, so
//! pieces of any size give the same reading.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use super::markup::{Name, is_fence, lead};
use super::number::{self, read_lone_number, read_number, takes_back};
use super::statement::{Separator, find_name, value_at_start, value_behind};
use super::{Event, Finish, Reading, Reason, Unscored, Values, thought};
use crate::task::ScoreSpec;

/// The deepest nesting that is followed; braces beyond it are text.
const DEEPEST: usize = 64;
/// The longest key that is taken for one.
const LONGEST_KEY: usize = 64;
/// How many scores of an answer are kept; the last ones count.
const FOUND_KEPT: usize = 64;

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

    fn key(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
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

    fn bare_key(&mut self, c: char, start: usize, on_event: &mut dyn FnMut(Event)) {
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

    fn value(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
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

    fn bare_value(&mut self, c: char, start: usize, list: bool, on_event: &mut dyn FnMut(Event)) {
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

    fn is_score_key(&self) -> bool {
        self.objects.last().is_some_and(|object| self.is_score(&object.key))
    }

    fn is_score(&self, key: &str) -> bool {
        key.eq_ignore_ascii_case(&self.format.spec.key)
    }

    fn string(&mut self, c: char, start: usize, quote: char, key: bool) {
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
    fn may_end(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
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
    fn may_be_key(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
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

    fn valued(&mut self, start: usize, end: usize, string: bool, on_event: &mut dyn FnMut(Event)) {
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

    /// Where no reason is wanted, the first score of an object that opens the answer is all there is to wait for. One
    /// that may be quoted from the input is read on like any other.
    fn settle_early(&mut self, value: Result<u32, Reason>, end: usize, on_event: &mut dyn FnMut(Event)) {
        let [object] = self.objects.as_slice() else { return };
        let found = Found { value, reason: None, span: object.start..end };
        if !self.clean || value.is_err() || object.scores.len() > 1 || self.is_quotation(&found) {
            return;
        }
        self.found.push(found);
        self.done = true;
        on_event(Event::Done);
    }

    fn after_value(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
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

    fn close(&mut self, on_event: &mut dyn FnMut(Event)) {
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

    /// The outermost object, which started at `start`, is complete.
    fn settle(&mut self, found: Option<Found>, start: usize, on_event: &mut dyn FnMut(Event)) {
        // Its score alone was enough.
        if self.done {
            return;
        }
        let first = std::mem::replace(&mut self.clean, false);
        let between = self.text[self.object_end..start].trim();
        // `[{…}, {…}]`, `either {…} or {…}`: alternatives, not a draft and its revision.
        let alternative = matches!(between, "," | "or" | "/" | "and") && !self.found.is_empty();
        self.object_end = self.at + 1;
        let Some(mut found) = found else { return };
        self.taken_back = false;
        if alternative && self.found.last().is_some_and(|before| before.value != found.value) {
            found.value = Err(Reason::Contradictory);
        }
        let complete =
            found.value.is_ok() && (found.reason.is_some() || self.score_alone || self.format.spec.reason.is_none());
        self.done = first && complete && !self.is_quotation(&found);
        if self.found.len() == FOUND_KEPT {
            self.found.remove(0);
        }
        self.found.push(found);
        if self.done {
            on_event(Event::Done);
        }
    }

    /// Whether an object may be a quotation: it stands in an input, white space and the kind of quotation marks aside;
    /// or an input has scores of its own, and the object has no reason, or one that stands in the input.
    fn is_quotation(&self, found: &Found) -> bool {
        if self.inputs.is_empty() {
            return false;
        }
        let words = squeeze(&self.text[found.span.clone()]);
        let reason = found.reason.as_deref().map(squeeze).unwrap_or_default();
        let forged = self.inputs_have_scores();
        let squeezed = self.squeezed.get_or_init(|| self.inputs.iter().map(|input| squeeze(input)).collect());
        squeezed.iter().any(|input| input.contains(&words) || forged && input.contains(&reason))
    }

    /// Whether an input gives scores of its own, in any form: then a score without a reason may be quoted from there,
    /// whichever number it is.
    fn inputs_have_scores(&self) -> bool {
        let name = &self.format.name;
        let gives = |input: &str| {
            find_name(name, input).any(|at| {
                let at = at - usize::from(input[..at].ends_with('"'));
                let line = input[at..].lines().next().unwrap_or_default();
                value_behind(name, line, Separator::Needed).is_some_and(|stated| {
                    read_number(stated, self.format.range()).is_ok()
                        || stated.trim_start().starts_with(|c: char| c.is_ascii_digit())
                })
            })
        };
        *self.forged.get_or_init(|| self.inputs.iter().any(|input| gives(input)))
    }

    /// Ends the answer.
    pub fn finish(mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Reading {
        let found = self.outcome(finish, on_event);
        if found.is_ok() && !self.done {
            on_event(Event::Done);
        }
        let span = found.as_ref().ok().map(|found| [found.span.start, found.span.end]);
        let values = found.and_then(|found| match found.value {
            Ok(_) if self.taken_back && !self.done => {
                Err(Unscored::at(Reason::Contradictory, "words behind the score take it back", found.span))
            }
            Ok(score) => Ok(Values::Score { score, reason: found.reason }),
            Err(reason) => Err(Unscored::at(reason, self.explain(reason), found.span)),
        });
        Reading { values, span, listed_events: None, labelled: None, agree: None }
    }

    fn outcome(&mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Result<Found, Unscored> {
        if !self.done {
            self.end(finish, on_event)?;
        }
        let mut quoted = None;
        // The last verdict that is no quotation counts.
        while let Some(found) = self.found.pop() {
            if self.done || !self.is_quotation(&found) {
                return self.agreeing(found);
            }
            quoted.get_or_insert(found.span);
        }
        let forged = self.inputs_have_scores();
        let (in_input, own): (Vec<Found>, Vec<Found>) =
            std::mem::take(&mut self.lines).into_iter().partition(|_| forged);
        if let Some(first) = own.first().cloned() {
            let same = own.iter().all(|other| other.value == first.value);
            return if same { Ok(first) } else { Ok(Found { value: Err(Reason::Contradictory), ..first }) };
        }
        if let Some(span) = quoted.or(in_input.into_iter().next().map(|found| found.span)) {
            return Err(Unscored::at(Reason::OnlyQuoted, self.explain(Reason::OnlyQuoted), span));
        }
        let all = self.start..self.text.len();
        if self.text[self.start..].lines().all(|line| line.trim().is_empty() || is_fence(line)) {
            return Err(Unscored::at(Reason::EmptyAnswer, "the answer is empty", all));
        }
        let detail = format!("the answer has no `{}`", self.format.spec.key);
        Err(Unscored::at(Reason::MissingMetric, detail, all))
    }

    /// An object's score counts, unless a line behind it says something else.
    fn agreeing(&self, found: Found) -> Result<Found, Unscored> {
        let differs = |line: &&Found| {
            let behind = line.span.start >= found.span.end;
            behind && line.value.is_ok() && line.value != found.value
        };
        let differing = self.lines.iter().find(differs).filter(|_| found.value.is_ok() && !self.inputs_have_scores());
        match differing {
            Some(_) => Ok(Found { value: Err(Reason::Contradictory), ..found }),
            None => Ok(found),
        }
    }

    /// The end of an answer that did not end by itself.
    fn end(&mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Result<(), Unscored> {
        let end = self.text.len();
        let truncated = |detail: &str| Err(Unscored::at(Reason::Truncated, detail, end..end));
        if finish == Finish::Length {
            return truncated("the token limit ended the answer before the verdict was complete");
        }
        match self.state {
            State::Thought => return truncated("the answer ends inside a thought"),
            State::Str { .. } => return truncated("the answer ends inside a string"),
            State::MayEnd { start, end, key: false, .. } | State::MayBeKey { start, end, .. } => {
                self.valued(start, end, true, on_event);
            }
            State::BareValue { start, .. } => self.valued(start, end, false, on_event),
            State::Value if self.is_score_key() => self.valued(end, end, false, on_event),
            State::Prose => self.line(self.line_start..end, on_event),
            _ => {}
        }
        self.at = end.saturating_sub(1);
        while !self.objects.is_empty() {
            self.close(on_event);
        }
        Ok(())
    }

    fn explain(&self, reason: Reason) -> String {
        let ScoreSpec { key, min, max, .. } = &self.format.spec;
        match reason {
            Reason::OutOfRange => format!("`{key}` is outside {min} to {max}"),
            Reason::Contradictory => format!("`{key}` is given more than once with different values"),
            Reason::TemplateEcho => format!("`{key}` repeats the template"),
            Reason::OnlyQuoted => "the only verdict stands in the input".to_owned(),
            _ => format!("the value of `{key}` cannot be read as one whole number"),
        }
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

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '”' | '‘' | '’')
}

/// Whether `c` can end a string that `quote` opened.
fn closes(quote: char, c: char) -> bool {
    match quote {
        '“' | '”' => matches!(c, '“' | '”'),
        '‘' | '’' => matches!(c, '‘' | '’'),
        quote => c == quote,
    }
}

/// Whether a text is nothing but fences and white space.
fn is_bare(text: &str) -> bool {
    text.lines().all(|line| is_fence(line) || line.chars().all(|c| c.is_whitespace() || c == '\u{feff}'))
}

/// A text without white space and escapes, and with one kind of quotation marks.
fn squeeze(text: &str) -> String {
    let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '\\');
    kept.map(|c| if is_quote(c) { '"' } else { c }).collect()
}

/// A string's text without its escapes; what is no valid escape stays as it is.
fn unescape(raw: &str) -> String {
    serde_json::from_str::<String>(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.replace("\\\"", "\""))
}
