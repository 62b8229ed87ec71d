//! DREAM-1K: references and their events, and a system's captions, joined on `idx`.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::join::{Join, beside, blank};
use super::source::{Responses, id_text, read_items};
use super::{Import, ImportError, Options};
use crate::dataset::{GroundTruthEvent, Record};

/// Whose captions are judged.
#[derive(Debug, Clone, Copy)]
pub enum Captions<'a> {
    /// A system's, from a file.
    File(&'a Path),
    /// The references themselves: a baseline that should come out nearly perfect.
    References,
}

#[derive(Deserialize)]
struct Item {
    idx: Value,
    messages: Vec<Message>,
    extra_info: ExtraInfo,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct Message {
    content: Vec<Content>,
}

#[derive(Deserialize)]
struct Content {
    reference: Option<String>,
}

#[derive(Deserialize)]
struct ExtraInfo {
    events: Vec<String>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// Joins references and captions.
pub fn dream1k(refs: &Path, captions: Captions<'_>, options: Options<'_>) -> Result<Import, ImportError> {
    let error = |index: usize, what: String| ImportError::Item { path: refs.to_owned(), item: index + 1, what };
    let mut items = Vec::new();
    for (index, item) in read_items::<Item>(refs)?.into_iter().enumerate() {
        let id = id_text(&item.idx).ok_or_else(|| error(index, "idx is neither text nor a number".into()))?;
        items.push((id, record(item).map_err(|what| error(index, what.into()))?));
    }
    let responses = match captions {
        Captions::File(path) => Responses::read(path)?,
        Captions::References => Responses::of(items.iter().map(|(id, record)| (id.clone(), record.reference.clone()))),
    };
    let mut join = Join::new(responses, options);
    for (index, (id, record)) in items.into_iter().enumerate() {
        join.add(&id, record).map_err(|what| error(index, what))?;
    }
    join.finish(refs)
}

fn record(item: Item) -> Result<Record, &'static str> {
    let contents = item.messages.into_iter().flat_map(|message| message.content);
    let reference = contents.filter_map(|content| content.reference).find(|text| !text.trim().is_empty());
    let event = |text: String| GroundTruthEvent { caption: text.trim().to_owned(), visual: None };
    Ok(Record {
        reference: Some(reference.ok_or("no message has a reference")?),
        extra: beside(item.extra_info.other, item.extra),
        ..blank(item.extra_info.events.into_iter().map(event).collect())
    })
}
