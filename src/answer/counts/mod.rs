//! Reads `counts` answers: sections, listed events, labels, metrics.
//!
//! Invariant: all decisions are made on whole lines, so pieces of any size give the same reading; and an early end is
//! only taken when the judge's own labels confirm the numbers.

mod finals;
mod format;
mod outcome;

pub use format::CountsFormat;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::labels::{Decision, Label};
use super::markup::{Lead, is_fence, is_one_of, lead, quotation_after, trim_emphasis_end};
use super::number::{self, read_lone_number, read_number, takes_back};
use super::{CountFrom, Event, Finish, Reading, Reason, Section, Values, thought};
use finals::{Chosen, Finals, choose};

/// The events that the answer lists.
#[derive(Debug, Clone, Default)]
struct Listed {
    numbered: u32,
    bullets: u32,
    none: bool,
    /// How far the first item is indented; what is further in belongs to an item.
    indent: Option<usize>,
}

impl Listed {
    fn items(&self) -> u32 {
        if self.numbered > 0 { self.numbered } else { self.bullets }
    }

    /// How many events are listed; unknown without a list, which is not 0.
    fn count(&self) -> Option<u32> {
        match self.items() {
            0 | 1 if self.none => Some(0),
            0 => None,
            items => Some(items),
        }
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
    inputs: Vec<Cow<'a, str>>,
    /// What the inputs state themselves; looked for when the answer states something.
    forged: Option<Vec<(usize, u32)>>,
    line: String,
    offset: usize,
    thinking: bool,
    blank: bool,
    section: Section,
    listed: Listed,
    labelled: Vec<Labelled>,
    by_number: HashMap<u32, usize>,
    current: Option<usize>,
    sections: Vec<Finals>,
    loose: Finals,
    /// A metric whose value may stand on the next line.
    waiting: Option<(usize, bool, Range<usize>)>,
    /// The metric whose value was read last, until a line without one.
    after_value: Option<usize>,
    in_quotation: bool,
    echo: Option<Range<usize>>,
    stated: bool,
    done: bool,
}

impl<'a> CountsReader<'a> {
    /// A reader for one answer; `inputs` are the texts that the judge was shown.
    pub fn new(format: &'a CountsFormat, count_from: CountFrom, inputs: Vec<Cow<'a, str>>) -> Self {
        Self {
            format,
            count_from,
            inputs,
            forged: None,
            line: String::with_capacity(256),
            offset: 0,
            thinking: false,
            blank: true,
            section: Section::Preamble,
            listed: Listed::default(),
            labelled: Vec::new(),
            by_number: HashMap::new(),
            current: None,
            sections: Vec::new(),
            loose: Finals::default(),
            waiting: None,
            after_value: None,
            in_quotation: false,
            echo: None,
            stated: false,
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
            if finish == Finish::Length {
                self.offset += line.len();
            } else {
                self.take_line(&line, on_event);
                self.settle_waiting(on_event);
            }
        }
        let counted = self.labelled_counts();
        // Labels that the input has too confirm nothing.
        let confirming = counted.as_deref().filter(|_| !self.inputs_have_labels());
        let chosen = choose(&self.sections, &self.loose, confirming);
        let (agree, span) = match (chosen, &counted) {
            (Chosen::One(finals), Some(counted)) => {
                let readable = finals.iter().all(|stated| stated.value.is_ok());
                (readable.then(|| finals.equals(counted)), finals.span())
            }
            (Chosen::One(finals), None) => (None, finals.span()),
            _ => (None, None),
        };
        let labelled: Option<BTreeMap<String, u32>> =
            counted.map(|counts| self.names().map(str::to_owned).zip(counts).collect());
        let values = self.outcome(finish, chosen, labelled.as_ref());
        if values.is_ok() && !self.done {
            on_event(Event::Done);
        }
        Reading {
            agree: agree.filter(|_| values.is_ok()),
            values: values.map(Values::Counts),
            span: span.map(|span| [span.start, span.end]),
            listed_events: self.listed.count(),
            labelled,
        }
    }

    fn take_line(&mut self, text: &str, on_event: &mut dyn FnMut(Event)) {
        let start = self.offset;
        self.offset += text.len();
        let text = text.trim_end();
        if text.is_empty() {
            return;
        }
        let Some((text, start)) = self.skip_thought(text, start) else { return };
        if text.trim().is_empty() || is_fence(text) {
            return;
        }
        self.blank = false;
        let lead = lead(text);
        // A new item ends a quotation that was only never closed.
        if self.in_quotation && !lead.quoted && (lead.number.is_some() || event_number(lead.words).is_some()) {
            self.in_quotation = false;
        }
        let quoted = lead.quoted || self.in_quotation;
        self.in_quotation = quotation_after(text, self.in_quotation);
        self.words(lead, quoted, start..start + text.len(), on_event);
        if std::mem::take(&mut self.stated) && self.confirmed() {
            self.done = true;
            on_event(Event::Done);
        }
    }

    /// What is left of a line when thoughts are taken out of it.
    fn skip_thought<'t>(&mut self, text: &'t str, start: usize) -> Option<(&'t str, usize)> {
        if self.blank && !self.thinking && thought::opens(text) {
            self.thinking = true;
        }
        if self.thinking {
            let end = thought::closes(text)?;
            self.thinking = false;
            return Some((&text[end..], start + end));
        }
        match thought::closes(text) {
            // A tag that stands in the input may be quoted from there.
            Some(end) if !self.inputs.iter().any(|input| thought::closes(input).is_some()) => {
                self.forget();
                Some((&text[end..], start + end))
            }
            _ => Some((text, start)),
        }
    }

    /// All before was a thought that the chat template had opened.
    fn forget(&mut self) {
        let (offset, inputs) = (self.offset, std::mem::take(&mut self.inputs));
        *self = Self { offset, ..Self::new(self.format, self.count_from, inputs) };
    }

    /// Reads a line: headings and metrics at its start, one after the other, then what is left.
    fn words(&mut self, mut lead: Lead<'_>, quoted: bool, span: Range<usize>, on_event: &mut dyn FnMut(Event)) {
        loop {
            if let Some((section, content)) = self.format.heading(lead.words) {
                self.settle_waiting(on_event);
                if quoted && section != Section::Final {
                    return;
                }
                self.enter(section, on_event);
                if content.is_empty() {
                    return;
                }
                lead = super::markup::lead(content);
                continue;
            }
            let Some((index, value)) = self.format.metric(lead.words) else { break };
            self.settle_waiting(on_event);
            // `TOTAL_OMISSION_COUNT: 2, INSERTED_OMISSION_COUNT: 1`
            let next = self.format.find_metric(value).map_or(value.len(), |(at, _)| at);
            match read_number(&value[..next], number::Range::Count) {
                Err(Reason::MissingMetric) => self.waiting = Some((index, quoted, span.clone())),
                read => self.state(index, read, quoted, span.clone(), on_event),
            }
            if next == value.len() {
                return;
            }
            lead.words = &value[next..];
        }
        if let Some((index, was_quoted, name_span)) = self.waiting.take() {
            let value = match lead.number {
                Some(number) if lead.words.is_empty() => Ok(number),
                Some(_) => Err(Reason::NotANumber),
                None => read_lone_number(lead.words, number::Range::Count),
            };
            self.state(index, value, quoted || was_quoted, name_span.start..span.end, on_event);
        } else if !quoted {
            self.goes_on(lead, span.clone());
            self.content(lead, span, on_event);
        }
    }

    /// A bare number or an `or` right behind a value: a list, or a choice.
    fn goes_on(&mut self, lead: Lead<'_>, span: Range<usize>) {
        let Some(index) = self.after_value.take() else { return };
        let bare = lead.words.is_empty() || lead.number.is_none();
        let number = lead.number.filter(|_| lead.words.is_empty()).is_some()
            || bare && read_lone_number(lead.words, number::Range::Count).is_ok();
        if number || lead.words.get(..3).is_some_and(|or| or.eq_ignore_ascii_case("or ")) {
            self.finals().state(index, Err(Reason::Ambiguous), false, span);
        }
    }

    fn enter(&mut self, section: Section, on_event: &mut dyn FnMut(Event)) {
        self.section = section;
        match section {
            Section::Events => {
                self.listed = Listed::default();
                self.echo = None;
                self.forget_labels();
                self.void_finals();
            }
            Section::Labels => {
                self.forget_labels();
                self.void_finals();
            }
            Section::Final => {
                if self.sections.last().is_none_or(|finals| !finals.is_empty()) {
                    self.sections.push(Finals::default());
                }
            }
            Section::Other | Section::Preamble => {}
        }
        on_event(Event::Section(section));
    }

    fn forget_labels(&mut self) {
        self.labelled.clear();
        self.by_number.clear();
        self.current = None;
    }

    /// What looked like a verdict was a draft or a quotation: the answer goes on.
    fn void_finals(&mut self) {
        self.sections.clear();
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
        let quoted = quoted || value.is_ok_and(|number| self.is_forged(index, number));
        self.finals().state(index, value, quoted, span);
        self.stated = true;
        self.after_value = Some(index);
        on_event(Event::Metric(Arc::clone(&self.format.metrics[index].shared_name), value));
    }

    /// Where statements go: the open final section, or those without a heading.
    fn finals(&mut self) -> &mut Finals {
        match self.sections.last_mut() {
            Some(finals) if self.section == Section::Final => finals,
            _ => &mut self.loose,
        }
    }

    /// Whether an input states the same: then the answer may only quote it.
    fn is_forged(&mut self, index: usize, number: u32) -> bool {
        let forged = self
            .forged
            .get_or_insert_with(|| self.inputs.iter().flat_map(|input| self.format.statements(input)).collect());
        forged.contains(&(index, number))
    }

    /// Whether an input has labelled events, as an answer has.
    fn inputs_have_labels(&self) -> bool {
        let labelled = |line: &str| {
            let lead = lead(line);
            event_number(lead.words).is_some() && self.format.labels.read(lead.words).label != Label::None
        };
        self.inputs.iter().any(|input| input.lines().any(labelled))
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
                    // Behind the metrics it is a breakdown of them.
                    if self.section != Section::Final {
                        self.section = Section::Labels;
                    }
                    self.label_line(lead, named, span, on_event);
                    return;
                }
                self.correction(lead.words, span);
                if let Some(current) = self.current {
                    // The rest of an event whose justification quotes a heading.
                    let event = &mut self.labelled[current];
                    event.flag = event.flag.or_else(|| self.format.labels.flag_in(lead.words).0);
                }
            }
        }
    }

    /// `Wait, recounting: HALLUCINATION_COUNT is 3.` behind another number: nobody can say which one is meant.
    fn correction(&mut self, words: &str, span: Range<usize>) {
        if self.finals().is_empty() {
            return;
        }
        if takes_back(words) {
            self.finals().contradict(span.clone());
        }
        let mut rest = words;
        let mut in_quotes = false;
        while let Some((at, index)) = self.format.find_metric(rest) {
            in_quotes = quotation_after(&rest[..at], in_quotes);
            let Some((_, value)) = self.format.metric(&rest[at..]) else { return };
            // Only the sentence counts: what follows it may be about anything.
            let sentence = value.split_inclusive(['.', ',', ';']).next().unwrap_or_default();
            if let Ok(number) = read_number(sentence, number::Range::Count)
                && !in_quotes
                && !self.is_forged(index, number)
                && self.finals().get(index).is_some()
            {
                self.finals().state(index, Ok(number), false, span.clone());
            }
            rest = value;
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
        let is_item = lead.number.is_some() || named.is_some() || lead.bullet;
        if is_item && lead.indent > *self.listed.indent.get_or_insert(lead.indent) + 1 {
            return;
        }
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
        if number.is_some() {
            self.open(number);
        } else if lead.bullet && self.by_number.is_empty() && decision.label != Label::None {
            self.open(None);
        }
        let Some(current) = self.current else { return };
        let event = &mut self.labelled[current];
        let Decision { label, flag, leads, .. } = decision;
        // The same event again, or a line of its own for the label.
        let decides = number.is_some() || leads;
        match (event.label, label) {
            (Label::None, found) => {
                event.label = found;
                if let Label::Is(label) = found {
                    let place = u32::try_from(current + 1).unwrap_or(u32::MAX);
                    on_event(Event::Label(place, self.format.labels.name(label)));
                }
            }
            (Label::Is(before), Label::Is(now)) if decides && before != now => event.label = Label::Conflict,
            (_, Label::Conflict) if decides => event.label = Label::Conflict,
            _ => {}
        }
        event.flag = event.flag.or(flag);
    }

    fn open(&mut self, number: Option<u32>) {
        let next = self.labelled.len();
        let place = number.map_or(next, |number| *self.by_number.entry(number).or_insert(next));
        if place == next {
            self.labelled.push(Labelled { number, label: Label::None, flag: None });
        }
        self.current = Some(place);
    }

    /// The counts by the labels, in the order of the metrics, if every listed event has one.
    fn labelled_counts(&self) -> Option<Vec<u32>> {
        let listed = self.listed.count()?;
        let fits = |event: &Labelled| event.number.is_none_or(|number| (1..=listed).contains(&number));
        if listed as usize != self.labelled.len() || !self.labelled.iter().all(fits) {
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

    /// Whether the last needed metric is there and the labels say the same.
    fn confirmed(&self) -> bool {
        let Some(finals) = self.sections.last() else { return false };
        self.section == Section::Final
            && self.waiting.is_none()
            && self.echo.is_none()
            && !finals.is_quoted()
            && (0..self.format.metrics.len()).all(|index| finals.get(index).is_some())
            && self.labelled_counts().is_some_and(|counts| finals.equals(&counts))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.format.metrics.iter().map(|metric| metric.spec.name.as_str())
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
    if !matches!(words.chars().find(|c| c.is_alphanumeric()), Some('n' | 'N' | 'e' | 'E')) {
        return false;
    }
    let words = words.trim_matches(|c: char| !c.is_alphanumeric());
    let starts = |with: &str| words.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    let whole = ["none", "n/a", "na", "nothing", "empty", "none found", "none extracted", "none identified"];
    is_one_of(words, &whole)
        || ["no event", "no concrete event", "no extracted event", "none ("].iter().any(|none| starts(none))
}

/// `[Extracted event 1]`: the template's own words.
fn is_placeholder(words: &str) -> bool {
    let Some(inside) = words.strip_prefix('[').and_then(|words| words.strip_suffix(']')) else { return false };
    inside.to_ascii_lowercase().contains("event") && inside.ends_with(|c: char| c.is_ascii_digit())
}
