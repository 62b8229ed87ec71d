//! Reads `json_score` answers: one JSON object, as models write it.
//!
//! Invariant: what stands inside a string is never a verdict, and every character is looked at once, in order, so
//! pieces of any size give the same reading.

use std::ops::Range;
use std::sync::Arc;

use super::markup::{Name, is_fence, lead, trim_emphasis_start};
use super::number::{self, read_number};
use super::{Event, Finish, Reading, Reason, Unscored, Values, thought};
use crate::task::ScoreSpec;

/// The deepest nesting that is followed; braces beyond it are text.
const DEEPEST: usize = 64;

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

/// An object with a score.
#[derive(Debug, Clone)]
struct Verdict {
    value: Result<u32, Reason>,
    reason: Option<String>,
    span: Range<usize>,
}

/// Where the reader is.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// In an unquoted value that starts here.
    BareValue(usize),
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
    /// How many lists are open in the value that is being read.
    lists: usize,
    scores: Vec<(Result<u32, Reason>, Range<usize>)>,
    reason: Option<String>,
}

/// Reads one `json_score` answer.
#[derive(Debug)]
pub struct ScoreReader<'a> {
    format: &'a ScoreFormat,
    inputs: Vec<&'a str>,
    text: String,
    at: usize,
    state: State,
    objects: Vec<Open>,
    /// The score of the outermost object that is being read, and how deep inside it stands.
    found: Option<(usize, Verdict)>,
    verdict: Option<Verdict>,
    /// The first verdict that was passed over as a quotation.
    quoted: Option<Range<usize>>,
    /// Where the answer proper starts: behind the thought.
    start: usize,
    /// No object was seen yet, and nothing but fences and white space stands before the one being read.
    clean: bool,
    line_start: usize,
    lines: Vec<(Result<u32, Reason>, Range<usize>)>,
    escaped: bool,
    done: bool,
}

impl<'a> ScoreReader<'a> {
    /// A reader for one answer; `inputs` are the texts that the judge was shown.
    pub fn new(format: &'a ScoreFormat, inputs: Vec<&'a str>) -> Self {
        Self {
            format,
            inputs,
            text: String::with_capacity(256),
            at: 0,
            state: State::Prose,
            objects: Vec::new(),
            found: None,
            verdict: None,
            quoted: None,
            start: 0,
            clean: true,
            line_start: 0,
            lines: Vec::new(),
            escaped: false,
            done: false,
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

    /// Inside a string or a thought only a few characters matter.
    fn skip_ahead(&self, from: usize) -> usize {
        let rest = &self.text.as_bytes()[from..];
        let found = match self.state {
            State::Str { quote: '"', .. } if !self.escaped => memchr::memchr2(b'"', b'\\', rest),
            State::Prose => memchr::memchr3(b'{', b'\n', b'>', rest),
            State::Thought => memchr::memchr(b'>', rest),
            _ => return from,
        };
        from + found.unwrap_or(rest.len())
    }

    fn take(&mut self, c: char, on_event: &mut dyn FnMut(Event)) {
        match self.state.clone() {
            State::Prose => self.prose(c, on_event),
            State::Thought => {
                if c == '>' && ends_thought(&self.text[..=self.at]) {
                    self.state = State::Prose;
                    self.answer_starts();
                }
            }
            State::Key => self.key(c, on_event),
            State::BareKey(start) => match c {
                ':' | '：' => self.keyed(start, self.at, State::Value),
                '}' | ',' | '{' => {
                    self.state = State::Key;
                    self.key(c, on_event);
                }
                _ => {}
            },
            State::Value => self.value(c, on_event),
            State::BareValue(start) => self.bare_value(c, start, on_event),
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
            _ => {
                let line = &self.text[self.line_start..=self.at];
                let first = self.text[self.start..self.line_start].trim().is_empty();
                if first && thought::opens(line).is_some_and(str::is_empty) {
                    self.state = State::Thought;
                } else if thought::starts_with_close(line).is_some_and(str::is_empty) {
                    self.forget();
                }
            }
        }
    }

    /// All before was a thought that the chat template had opened.
    fn forget(&mut self) {
        self.found = None;
        self.verdict = None;
        self.quoted = None;
        self.lines.clear();
        self.answer_starts();
    }

    fn answer_starts(&mut self) {
        self.start = self.at + 1;
        self.line_start = self.start;
        self.clean = true;
    }

    /// A whole line outside of objects: `Score: 3`.
    fn line(&mut self, range: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        let lead = lead(&self.text[range.clone()]);
        let words = lead.words.trim_start_matches(['"', '\'', '“']);
        let Some(after) = self.format.name.strip(words) else { return };
        let after = trim_emphasis_start(after.trim_start_matches(['"', '\'', '”']));
        let Some(value) = after.strip_prefix([':', '：', '=']) else { return };
        if lead.quoted {
            return;
        }
        let value = match read_number(trim_emphasis_start(value), self.format.range()) {
            Err(Reason::MissingMetric) => return,
            value => value,
        };
        on_event(Event::Metric(Arc::clone(&self.format.shared_name), value));
        self.lines.push((value, range));
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
                self.state = State::BareValue(self.at);
                self.bare_value(c, self.at, on_event);
            }
        }
    }

    fn bare_value(&mut self, c: char, start: usize, on_event: &mut dyn FnMut(Event)) {
        // A list in the place of the score is one value: `[3]`, `[2, 3]`.
        let text = &self.text[start..self.at];
        let open = text.starts_with('[') && !text.contains(']');
        let ends = match c {
            '}' => true,
            ',' | '\n' => !open,
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
        key.trim().eq_ignore_ascii_case(&self.format.spec.key)
    }

    fn string(&mut self, c: char, start: usize, quote: char, key: bool) {
        if self.escaped {
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
            c if c.is_whitespace() => {}
            ':' | '：' | '=' if key => self.keyed(start, end, State::Value),
            _ if key => self.reopen(start, quote, key, c),
            '}' => self.ends(start, end, c, on_event),
            ']' if self.in_list() && !comma => self.ends(start, end, c, on_event),
            // The closing fence of an object that lacks its brace.
            '`' if self.text[end..self.at].contains('\n') => self.ends(start, end, c, on_event),
            ',' if !comma => self.state = State::MayEnd { start, end, quote, key, comma: true },
            c if comma && is_quote(c) && self.in_list() => self.ends(start, end, c, on_event),
            c if comma && is_quote(c) => {
                let key_start = self.at + c.len_utf8();
                self.state = State::MayBeKey { start, end, quote, key_start, key_end: None };
            }
            c if comma && c.is_alphabetic() && self.has_bare_keys() => self.ends(start, end, c, on_event),
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
                self.keyed(key_start, key_end, State::Value);
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

    /// Unquoted keys are only expected where the object's first key was unquoted.
    fn has_bare_keys(&self) -> bool {
        self.objects
            .last()
            .is_some_and(|object| self.text[object.start + 1..].trim_start().starts_with(char::is_alphabetic))
    }

    /// The quotation mark was part of the string.
    fn reopen(&mut self, start: usize, quote: char, key: bool, c: char) {
        self.state = State::Str { start, quote, key };
        self.string(c, start, quote, key);
    }

    fn keyed(&mut self, start: usize, end: usize, next: State) {
        let key = self.text[start..end].trim().to_owned();
        if let Some(object) = self.objects.last_mut() {
            object.key = key;
        }
        self.state = next;
    }

    fn valued(&mut self, start: usize, end: usize, string: bool, on_event: &mut dyn FnMut(Event)) {
        let raw = &self.text[start..end];
        let spec = &self.format.spec;
        let Some(object) = self.objects.last() else { return };
        if self.is_score(&object.key) {
            let value = match read_number(raw, self.format.range()) {
                Err(Reason::MissingMetric) => Err(Reason::NotANumber),
                value if several(raw) => value.and(Err(Reason::Ambiguous)),
                value => value,
            };
            on_event(Event::Metric(Arc::clone(&self.format.shared_name), value));
            if let Some(object) = self.objects.last_mut() {
                object.scores.push((value, start..end));
            }
        } else if string && spec.reason.as_ref().is_some_and(|reason| object.key.eq_ignore_ascii_case(reason)) {
            let reason = unescape(raw);
            if let Some(object) = self.objects.last_mut() {
                object.reason = Some(reason);
            }
        }
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
        let depth = self.objects.len();
        self.note(object, depth);
        if depth > 0 {
            self.state = State::AfterValue;
            return;
        }
        self.state = State::Prose;
        self.line_start = self.at + 1;
        self.settle(on_event);
    }

    /// Keeps an object's score if it is nearer to the outside than what was found before.
    fn note(&mut self, object: Open, depth: usize) {
        let Some((value, span)) = object.scores.first().cloned() else { return };
        let same = object.scores.iter().all(|(other, _)| *other == value);
        let value = if same { value } else { Err(Reason::Contradictory) };
        // The outermost object itself is what could be a quotation.
        let span = if depth == 0 { object.start..self.at + 1 } else { span };
        let verdict = |value| Verdict { value, reason: object.reason, span };
        match &self.found {
            Some((found, _)) if *found < depth => {}
            Some((found, before)) if *found == depth && before.value != value => {
                self.found = Some((depth, verdict(Err(Reason::Contradictory))));
            }
            _ => self.found = Some((depth, verdict(value))),
        }
    }

    /// The outermost object is complete.
    fn settle(&mut self, on_event: &mut dyn FnMut(Event)) {
        let first = std::mem::replace(&mut self.clean, false);
        let Some((depth, verdict)) = self.found.take() else { return };
        let words = &self.text[verdict.span.clone()];
        if depth == 0 && self.inputs.iter().any(|input| input.contains(words)) {
            self.quoted.get_or_insert(verdict.span);
            return;
        }
        let complete = verdict.value.is_ok() && (verdict.reason.is_some() || self.format.spec.reason.is_none());
        self.done = first && complete;
        self.verdict = Some(verdict);
        if self.done {
            on_event(Event::Done);
        }
    }

    /// Ends the answer.
    pub fn finish(mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Reading {
        let values = self.outcome(finish, on_event);
        if values.is_ok() && !self.done {
            on_event(Event::Done);
        }
        Reading { values, listed_events: None, labelled: None, agree: None }
    }

    fn outcome(&mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Result<Values, Unscored> {
        let end = self.text.len();
        if !self.done {
            let truncated = |detail: &str| Err(Unscored::at(Reason::Truncated, detail, end..end));
            if finish == Finish::Length {
                return truncated("the token limit ended the answer before the verdict was complete");
            }
            match self.state.clone() {
                State::Thought => return truncated("the answer ends inside a thought"),
                State::Str { .. } => return truncated("the answer ends inside a string"),
                State::MayEnd { start, end, key: false, .. } | State::MayBeKey { start, end, .. } => {
                    self.valued(start, end, true, on_event);
                }
                State::BareValue(start) => self.valued(start, end, false, on_event),
                State::Value if self.is_score_key() => self.valued(end, end, false, on_event),
                State::Prose => self.line(self.line_start..end, on_event),
                _ => {}
            }
            self.at = end.saturating_sub(1);
            while let Some(object) = self.objects.pop() {
                let depth = self.objects.len();
                self.note(object, depth);
                if depth == 0 {
                    self.settle(on_event);
                }
            }
        }
        if let Some(verdict) = self.verdict.take() {
            return match verdict.value {
                Ok(score) => Ok(Values::Score { score, reason: verdict.reason }),
                Err(reason) => Err(Unscored::at(reason, self.explain(reason), verdict.span)),
            };
        }
        if let Some((first, span)) = self.lines.first().cloned() {
            let same = self.lines.iter().all(|(other, _)| *other == first);
            return match first {
                Ok(score) if same => Ok(Values::Score { score, reason: None }),
                Err(reason) if same => Err(Unscored::at(reason, self.explain(reason), span)),
                _ => Err(Unscored::at(Reason::Contradictory, self.explain(Reason::Contradictory), span)),
            };
        }
        if let Some(span) = self.quoted.take() {
            return Err(Unscored::at(Reason::OnlyQuoted, self.explain(Reason::OnlyQuoted), span));
        }
        if self.text[self.start..].lines().all(|line| line.trim().is_empty() || is_fence(line)) {
            return Err(Unscored::new(Reason::EmptyAnswer, "the answer is empty"));
        }
        let detail = format!("the answer has no `{}`", self.format.spec.key);
        Err(Unscored::new(Reason::MissingMetric, detail))
    }

    fn explain(&self, reason: Reason) -> String {
        let ScoreSpec { key, min, max, .. } = &self.format.spec;
        match reason {
            Reason::OutOfRange => format!("`{key}` is outside {min} to {max}"),
            Reason::Contradictory => format!("`{key}` is given twice with different values"),
            Reason::TemplateEcho => format!("`{key}` repeats the template"),
            Reason::OnlyQuoted => "the only verdict stands word for word in the input".to_owned(),
            _ => format!("the value of `{key}` cannot be read as one whole number"),
        }
    }
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

/// Whether nothing but fences, an opening bracket and white space stands before an object.
fn is_bare(before: &str) -> bool {
    before
        .lines()
        .all(|line| is_fence(line) || line.chars().all(|c| c.is_whitespace() || matches!(c, '[' | '\u{feff}')))
}

/// Whether a `>` ends a closing tag.
fn ends_thought(text: &str) -> bool {
    text.ends_with("</think>") || text.ends_with("</thinking>")
}

/// `[2, 3]`: a list with more than one value.
fn several(raw: &str) -> bool {
    raw.trim_start().starts_with('[') && raw.contains(',') && !raw.trim_end().ends_with(",]")
}

/// A string's text without its escapes; what is no valid escape stays as it is.
fn unescape(raw: &str) -> String {
    serde_json::from_str::<String>(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.replace("\\\"", "\""))
}
