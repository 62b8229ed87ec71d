//! Reads `counts` answers: sections, listed events, labels, metrics.
//!
//! Invariant: all decisions are made on whole lines, so pieces of any size give the same reading; and an early end is
//! only taken when the judge's own labels confirm the numbers.

mod format;
mod outcome;

pub use format::CountsFormat;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::labels::{Decision, Label};
use super::markup::{Lead, is_fence, lead, quotation_after, trim_emphasis_end};
use super::number::{self, read_number};
use super::{CountFrom, Event, Finish, Reading, Reason, Section, Values, thought};

/// The values of one final section.
#[derive(Debug, Clone, Default)]
struct Finals {
    values: Vec<Option<Stated>>,
}

#[derive(Debug, Clone)]
struct Stated {
    value: Result<u32, Reason>,
    span: Range<usize>,
    contradicted: bool,
}

impl Finals {
    fn state(&mut self, index: usize, value: Result<u32, Reason>, span: Range<usize>) {
        if self.values.len() <= index {
            self.values.resize(index + 1, None);
        }
        let slot = &mut self.values[index];
        match slot {
            Some(stated) if stated.value == value => {}
            Some(stated) => {
                stated.contradicted = true;
                stated.span.end = span.end;
            }
            None => *slot = Some(Stated { value, span, contradicted: false }),
        }
    }

    fn get(&self, index: usize) -> Option<&Stated> {
        self.values.get(index).and_then(Option::as_ref)
    }

    fn is_empty(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// The events that the answer lists.
#[derive(Debug, Clone, Default)]
struct Listed {
    seen: bool,
    numbered: u32,
    bullets: u32,
    none: bool,
}

impl Listed {
    fn count(&self) -> Option<u32> {
        let items = if self.numbered > 0 { self.numbered } else { self.bullets };
        self.seen.then_some(if self.none && items <= 1 { 0 } else { items })
    }
}

/// An event of the labels section.
#[derive(Debug, Clone)]
struct Labelled {
    number: Option<u32>,
    label: Label,
    flag: Option<bool>,
}

/// Reads one `counts` answer.
#[derive(Debug)]
pub struct CountsReader<'a> {
    format: &'a CountsFormat,
    count_from: CountFrom,
    line: String,
    offset: usize,
    thinking: bool,
    blank: bool,
    section: Section,
    listed: Listed,
    labelled: Vec<Labelled>,
    current: Option<usize>,
    finals: Option<Finals>,
    loose: Finals,
    quoted: Finals,
    waiting: Option<(usize, bool, Range<usize>)>,
    in_quotation: bool,
    echo: Option<Range<usize>>,
    done: bool,
}

impl<'a> CountsReader<'a> {
    /// A reader for one answer.
    pub fn new(format: &'a CountsFormat, count_from: CountFrom) -> Self {
        Self {
            format,
            count_from,
            line: String::with_capacity(256),
            offset: 0,
            thinking: false,
            blank: true,
            section: Section::Preamble,
            listed: Listed::default(),
            labelled: Vec::new(),
            current: None,
            finals: None,
            loose: Finals::default(),
            quoted: Finals::default(),
            waiting: None,
            in_quotation: false,
            echo: None,
            done: false,
        }
    }

    /// Takes the next piece.
    pub fn push(&mut self, mut piece: &str, on_event: &mut dyn FnMut(Event)) -> bool {
        while !self.done
            && let Some(end) = line_end(piece)
        {
            if self.line.is_empty() {
                self.take_line(&piece[..end], on_event);
            } else {
                self.line.push_str(&piece[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, on_event);
                self.line = line;
                self.line.clear();
            }
            self.offset += 1;
            piece = &piece[end + 1..];
        }
        if !self.done {
            self.line.push_str(piece);
        }
        self.done
    }

    /// Ends the answer.
    pub fn finish(mut self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Reading {
        if !self.done {
            let line = std::mem::take(&mut self.line);
            // The last line of a cut-off answer may be half a number.
            if finish != Finish::Length {
                self.take_line(&line, on_event);
                self.settle_waiting(on_event);
            } else {
                self.offset += line.len();
            }
        }
        let counted = self.labelled_counts();
        let agree = match (&counted, self.chosen()) {
            (Some(counted), Some(finals)) => Some(self.agrees(finals, counted)),
            _ => None,
        };
        let labelled: Option<BTreeMap<String, u32>> =
            counted.map(|counts| self.names().map(str::to_owned).zip(counts).collect());
        let outcome = self.outcome(finish, labelled.as_ref());
        let agree = agree.filter(|_| outcome.is_ok());
        if outcome.is_ok() && !self.done {
            on_event(Event::Done);
        }
        Reading { values: outcome.map(Values::Counts), listed_events: self.listed.count(), labelled, agree }
    }

    fn take_line(&mut self, text: &str, on_event: &mut dyn FnMut(Event)) {
        let start = self.offset;
        self.offset += text.len();
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        let (text, start) = match self.skip_thought(text, start) {
            Some(rest) => rest,
            None => return,
        };
        if text.trim().is_empty() || is_fence(text) {
            return;
        }
        self.blank = false;
        let lead = lead(text);
        let quoted = lead.quoted || self.in_quotation;
        self.in_quotation = quotation_after(text, self.in_quotation);
        let span = start..start + text.len();
        self.words(lead, quoted, span.clone(), on_event);
        if !self.done && self.confirmed() {
            self.done = true;
            on_event(Event::Done);
        }
    }

    /// What is left of a line when thoughts are taken out of it.
    fn skip_thought<'t>(&mut self, text: &'t str, start: usize) -> Option<(&'t str, usize)> {
        if self.blank && !self.thinking && thought::opens(text).is_some() {
            self.thinking = true;
        }
        if self.thinking {
            let end = thought::closes(text)?;
            self.thinking = false;
            return Some((&text[end..], start + end));
        }
        if let Some(rest) = thought::starts_with_close(text) {
            self.forget();
            return Some((rest, start + text.len() - rest.len()));
        }
        Some((text, start))
    }

    /// All before was a thought that the chat template had opened.
    fn forget(&mut self) {
        let offset = self.offset;
        *self = Self { offset, ..Self::new(self.format, self.count_from) };
    }

    fn words(&mut self, lead: Lead<'_>, quoted: bool, span: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        if let Some((section, content)) = self.format.heading(lead.words) {
            self.settle_waiting(on_event);
            if quoted && section != Section::Final {
                return;
            }
            self.enter(section, quoted, on_event);
            if !content.is_empty() {
                self.words(super::markup::lead(content), quoted, span, on_event);
            }
            return;
        }
        if let Some((index, value)) = self.format.metric(lead.words) {
            self.settle_waiting(on_event);
            match read_number(value, number::Range::Count) {
                Err(Reason::MissingMetric) => self.waiting = Some((index, quoted, span)),
                read => {
                    self.state(index, read, quoted, span.clone(), on_event);
                    // `TOTAL_OMISSION_COUNT: 2, INSERTED_OMISSION_COUNT: 1`
                    if let Some((_, next)) = value.split_once([',', ';', '|'])
                        && self.format.metric(next.trim_start()).is_some()
                    {
                        let next = Lead { words: next.trim_start(), ..lead };
                        self.words(next, quoted, span, on_event);
                    }
                }
            }
            return;
        }
        if let Some((index, was_quoted, name_span)) = self.waiting.take() {
            let value = match lead.number {
                Some(number) if lead.words.is_empty() => Ok(number),
                _ => read_number(lead.words, number::Range::Count),
            };
            self.state(index, value, quoted || was_quoted, name_span.start..span.end, on_event);
            return;
        }
        if !quoted {
            self.content(lead, span, on_event);
        }
    }

    fn enter(&mut self, section: Section, quoted: bool, on_event: &mut dyn FnMut(Event)) {
        self.section = section;
        match section {
            Section::Events => {
                self.current = None;
                self.listed = Listed { seen: true, ..Listed::default() };
                self.echo = None;
                self.labelled.clear();
                self.void_finals();
            }
            Section::Labels => {
                self.current = None;
                self.labelled.clear();
                self.void_finals();
            }
            Section::Final if quoted => self.quoted = Finals::default(),
            Section::Final => self.finals = Some(Finals::default()),
            Section::Other | Section::Preamble => {}
        }
        on_event(Event::Section(section));
    }

    /// What looked like a verdict was a draft or a quotation: the answer goes on.
    fn void_finals(&mut self) {
        self.finals = None;
        self.loose = Finals::default();
    }

    fn state(
        &mut self,
        index: usize,
        value: Result<u32, Reason>,
        quoted: bool,
        span: Range<usize>,
        on_event: &mut dyn FnMut(Event),
    ) {
        let finals = match (&mut self.finals, quoted) {
            (_, true) => &mut self.quoted,
            (Some(finals), false) if self.section == Section::Final => finals,
            _ => &mut self.loose,
        };
        finals.state(index, value, span);
        on_event(Event::Metric(Arc::clone(&self.format.metrics[index].shared_name), value));
    }

    /// A metric's name without a value on its line or the next one.
    fn settle_waiting(&mut self, on_event: &mut dyn FnMut(Event)) {
        if let Some((index, quoted, span)) = self.waiting.take() {
            self.state(index, Err(Reason::MissingMetric), quoted, span, on_event);
        }
    }

    fn content(&mut self, lead: Lead<'_>, span: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        let named = event_number(lead.words);
        match self.section {
            Section::Labels => self.label_line(lead, named, span, on_event),
            Section::Events if self.decides(lead, named) => self.label_line(lead, named, span, on_event),
            Section::Events => self.list_line(lead, named, span, on_event),
            Section::Preamble | Section::Other | Section::Final => {
                if self.decides(lead, named) {
                    self.void_finals();
                    self.section = Section::Labels;
                    self.label_line(lead, named, span, on_event);
                } else if let Some(current) = self.current {
                    // The rest of an event whose justification quotes a heading.
                    let event = &mut self.labelled[current];
                    event.flag = event.flag.or_else(|| self.format.labels.flag_in(lead.words).0);
                }
            }
        }
    }

    /// Whether a line outside the labels section is `Event #1 … was LABEL …` all the same.
    fn decides(&self, lead: Lead<'_>, named: Option<u32>) -> bool {
        named.is_some() && {
            let decision = self.format.labels.read(lead.words);
            decision.echo || decision.label != Label::None
        }
    }

    fn list_line(&mut self, lead: Lead<'_>, named: Option<u32>, span: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        let words = trim_emphasis_end(lead.words);
        if is_none(words) {
            self.listed.none = true;
        }
        if lead.number.is_some() || named.is_some() {
            self.listed.numbered += 1;
            if is_placeholder(words) {
                self.echo.get_or_insert(span);
            }
            on_event(Event::Listed(self.listed.numbered));
        } else if lead.bullet {
            self.listed.bullets += 1;
            if self.listed.numbered == 0 {
                on_event(Event::Listed(self.listed.bullets));
            }
        }
    }

    fn label_line(&mut self, lead: Lead<'_>, named: Option<u32>, span: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        let decision = self.format.labels.read(lead.words);
        if decision.echo {
            self.echo.get_or_insert(span);
            return;
        }
        let number = named.or(lead.number);
        let only_bullets = self.labelled.iter().all(|event| event.number.is_none());
        if number.is_some() {
            self.open(number);
        } else if lead.bullet && only_bullets && decision.label != Label::None {
            self.open(None);
        }
        let Some(current) = self.current else { return };
        let event = &mut self.labelled[current];
        let Decision { label, flag, .. } = decision;
        let opened_here = number.is_some();
        match (event.label, label) {
            (Label::None, found) => {
                event.label = found;
                if let Label::Is(label) = found {
                    let place = u32::try_from(current + 1).unwrap_or(u32::MAX);
                    on_event(Event::Label(place, self.format.labels.name(label)));
                }
            }
            // The same event again, with another label.
            (Label::Is(before), Label::Is(now)) if opened_here && before != now => event.label = Label::Conflict,
            (_, Label::Conflict) if opened_here => event.label = Label::Conflict,
            _ => {}
        }
        event.flag = event.flag.or(flag);
    }

    fn open(&mut self, number: Option<u32>) {
        let known = self.labelled.iter().position(|event| number.is_some() && event.number == number);
        self.current = Some(known.unwrap_or_else(|| {
            self.labelled.push(Labelled { number, label: Label::None, flag: None });
            self.labelled.len() - 1
        }));
    }

    /// The counts by the labels, in the order of the metrics, if every listed event has one.
    fn labelled_counts(&self) -> Option<Vec<u32>> {
        if self.listed.count()? as usize != self.labelled.len() {
            return None;
        }
        let mut counts = Vec::with_capacity(self.format.metrics.len());
        for metric in &self.format.metrics {
            let label = metric.label?;
            let mut count = 0;
            for event in &self.labelled {
                match event.label {
                    Label::Is(found) if found == label => {
                        count += u32::from(!metric.spec.flagged || event.flag?);
                    }
                    Label::Is(_) => {}
                    Label::None | Label::Conflict => return None,
                }
            }
            counts.push(count);
        }
        Some(counts)
    }

    /// The final section that counts.
    fn chosen(&self) -> Option<&Finals> {
        let headed = self.finals.as_ref().filter(|finals| !finals.is_empty());
        headed.or(Some(&self.loose).filter(|loose| !loose.is_empty() && self.finals.is_none())).or_else(|| {
            let confirmed = self.labelled_counts().is_some_and(|labelled| self.agrees(&self.quoted, &labelled));
            Some(&self.quoted).filter(|quoted| !quoted.is_empty() && confirmed)
        })
    }

    fn agrees(&self, finals: &Finals, labelled: &[u32]) -> bool {
        labelled.iter().enumerate().all(|(index, count)| {
            finals.get(index).is_some_and(|stated| !stated.contradicted && stated.value == Ok(*count))
        })
    }

    /// Whether the last needed metric is there and the labels say the same.
    fn confirmed(&self) -> bool {
        self.section == Section::Final
            && self.waiting.is_none()
            && self.echo.is_none()
            && self.finals.as_ref().is_some_and(|finals| {
                let all = (0..self.format.metrics.len()).all(|index| finals.get(index).is_some());
                all && self.labelled_counts().is_some_and(|labelled| self.agrees(finals, &labelled))
            })
    }
}

/// Where the first line of a piece ends.
fn line_end(piece: &str) -> Option<usize> {
    // Most pieces are tokens of a few bytes, too short for a vectorised search to pay.
    if piece.len() < 16 {
        return piece.bytes().position(|byte| byte == b'\n');
    }
    memchr::memchr(b'\n', piece.as_bytes())
}

/// The number of `Event #1`, `Event 1:`, `**Event 1**`.
fn event_number(words: &str) -> Option<u32> {
    let after = words.get(..5).filter(|event| event.eq_ignore_ascii_case("event")).map(|_| &words[5..])?;
    let after = after.trim_start_matches([' ', '#', '*', '_', '\\', '(', '[', '№']);
    let length = after.bytes().take_while(u8::is_ascii_digit).count();
    let goes_on = after[length..].starts_with(char::is_alphanumeric);
    (!goes_on).then(|| after[..length].parse().ok()).flatten()
}

/// `None`, `N/A`, `No events …`: nothing is listed.
fn is_none(words: &str) -> bool {
    let words = words.trim_matches(|c: char| !c.is_alphanumeric());
    let starts = |with: &str| words.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    ["none", "n/a", "na", "nothing", "empty"].iter().any(|none| words.eq_ignore_ascii_case(none))
        || ["no event", "no concrete event", "no extracted event", "none "].iter().any(|none| starts(none))
}

/// `[Extracted event 1]`: the template's own words.
fn is_placeholder(words: &str) -> bool {
    let Some(inside) = words.strip_prefix('[').and_then(|words| words.strip_suffix(']')) else { return false };
    inside.to_ascii_lowercase().contains("event") && inside.ends_with(|c: char| c.is_ascii_digit())
}
