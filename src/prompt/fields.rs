//! The parts of a record as prompt values.
//!
//! Invariant: a value is either the task author's words or the record's, never a mixture. The blocks of ground-truth
//! events carry a few headings of ours, but count as the record's words as a whole, which is the safe side.

use std::borrow::Cow;
use std::fmt::Write;

use crate::dataset::{GroundTruthEvent, Record};
use crate::task::{Placeholder, Source};

/// What fills a placeholder, and whose words it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// The task author's words.
    FromTask(Cow<'a, str>),
    /// The record's words.
    FromRecord(Cow<'a, str>),
}

/// The value of a placeholder for a record; `None` if the record lacks it and the task has no text for that case. A
/// blank text is as good as none, save that a caption is never replaced: it is what is judged.
pub fn value_of<'a>(placeholder: &'a Placeholder, record: &'a Record) -> Option<Value<'a>> {
    let text = raw_text(&placeholder.from, record)
        .filter(|text| placeholder.from == Source::Caption || !text.trim().is_empty());
    match text {
        Some(text) => Some(match canonical(placeholder, &text) {
            Some(name) => Value::FromTask(Cow::Borrowed(name)),
            None => Value::FromRecord(text),
        }),
        None => placeholder.absent.as_deref().map(|text| Value::FromTask(Cow::Borrowed(text))),
    }
}

/// The allowed value that `text` names, directly or by an alias.
pub fn canonical<'a>(placeholder: &'a Placeholder, text: &str) -> Option<&'a str> {
    let text = text.trim();
    let alias = placeholder.aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(text));
    let wanted = alias.map_or(text, |(_, value)| value);
    placeholder.values.iter().find(|value| value.eq_ignore_ascii_case(wanted)).map(String::as_str)
}

/// What the record has for a source, blank or not.
pub(crate) fn raw_text<'a>(source: &Source, record: &'a Record) -> Option<Cow<'a, str>> {
    match source {
        Source::Caption => Some(Cow::Borrowed(record.caption.as_str())),
        Source::Reference => record.reference.as_deref().map(Cow::Borrowed),
        Source::CaptionType => record.caption_type.as_deref().map(Cow::Borrowed),
        Source::Events => (!record.events.is_empty()).then(|| Cow::Owned(ground_truth_block(&record.events))),
        Source::InsertedPosition => record.inserted_index.map(|index| Cow::Owned((index + 1).to_string())),
        Source::InsertedEvent => record.inserted_event().map(|event| Cow::Owned(event_block(event))),
        Source::Field(name) => match record.extra.get(name) {
            Some(serde_json::Value::String(text)) => Some(Cow::Borrowed(text.as_str())),
            Some(serde_json::Value::Number(number)) => Some(Cow::Owned(number.to_string())),
            _ => None,
        },
    }
}

/// All events as numbered blocks, a blank line between them.
pub fn ground_truth_block(events: &[GroundTruthEvent]) -> String {
    let mut block = String::new();
    for (index, event) in events.iter().enumerate() {
        let gap = if index == 0 { "" } else { "\n\n" };
        let _ = write!(block, "{gap}Ground Truth Event #{}:\n{}", index + 1, event_block(event));
    }
    block
}

/// One event: its caption and, where there is one, its visual description.
pub fn event_block(event: &GroundTruthEvent) -> String {
    match &event.visual {
        Some(visual) => {
            format!("Ground Truth Caption: {}\n\nSupporting Visual Description:\n{visual}", event.caption)
        }
        None => format!("Ground Truth Caption: {}", event.caption),
    }
}
