//! Joins a data set with a system's captions, and accounts for all that does not fit.
//!
//! Invariant: no name is there twice in a record that leaves here, so what is written is what is read back.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::source::Responses;
use super::{Import, ImportError, Missing, Options};
use crate::dataset::Record;

/// Statuses that mean that the caption is there.
const GOOD: [&str; 9] = ["ok", "success", "succeeded", "done", "completed", "complete", "finished", "true", "200"];

/// A join under way.
#[derive(Debug)]
pub struct Join<'a> {
    options: Options<'a>,
    responses: Responses,
    records: Vec<Record>,
    seen: HashSet<String>,
    absent: Vec<String>,
    failed: Vec<String>,
}

/// A caption as it goes into a record.
#[derive(Debug, Default)]
struct Caption {
    text: String,
    extra: Map<String, Value>,
}

impl<'a> Join<'a> {
    /// Joins with these captions.
    pub fn new(responses: Responses, options: Options<'a>) -> Self {
        Self { options, responses, records: Vec::new(), seen: HashSet::new(), absent: Vec::new(), failed: Vec::new() }
    }

    /// Adds an item of the data set, as a record without caption, id and system, which are added here. An error says
    /// what is wrong with the item.
    pub fn add(&mut self, id: &str, mut record: Record) -> Result<(), String> {
        if !self.seen.insert(id.to_owned()) {
            return Err(format!("id {id} is there twice; keep one item for each id"));
        }
        let Some(caption) = self.caption(id) else { return Ok(()) };
        record.id = format!("{}{id}", self.options.id_prefix);
        record.system = self.options.system.to_owned();
        record.caption = caption.text;
        record.extra = beside(record.extra, caption.extra);
        self.records.push(record);
        Ok(())
    }

    fn caption(&mut self, id: &str) -> Option<Caption> {
        let Some(response) = self.responses.take(id) else {
            self.absent.push(id.to_owned());
            return (self.options.missing == Missing::Keep).then(Caption::default);
        };
        let mut caption = Caption { text: response.caption.unwrap_or_default().trim().to_owned(), extra: Map::new() };
        let Some(status) = response.status else { return Some(caption) };
        let good = GOOD.contains(&status.to_lowercase().as_str());
        caption.extra.insert("status".to_owned(), Value::String(status));
        if !good {
            self.failed.push(id.to_owned());
            // What a failed request left behind is kept, but not judged as if it were a caption.
            let text = std::mem::take(&mut caption.text);
            if !text.is_empty() {
                caption.extra.insert("failed_caption".to_owned(), Value::String(text));
            }
        }
        Some(caption)
    }

    /// The records, and notes on all that did not fit. `refs` is the data set's file.
    pub fn finish(self, refs: &Path) -> Result<Import, ImportError> {
        if self.records.is_empty() {
            let what = format!("{}: none of its ids has a caption in the other file", refs.display());
            return Err(ImportError::Nothing(what));
        }
        let mut notes = Vec::new();
        if !self.absent.is_empty() {
            let done = match self.options.missing {
                Missing::Skip => "left out; --keep-missing keeps them, as records that come out unscored",
                Missing::Keep => "kept without one, so they come out unscored",
            };
            notes.push(format!("{} without a caption: {done}", some_of("record", &self.absent)));
        }
        if !self.failed.is_empty() {
            let which = some_of("caption", &self.failed);
            notes.push(format!("{which} with a failure as status: kept without a caption, so they come out unscored"));
        }
        let left = self.responses.left();
        if !left.is_empty() {
            notes.push(format!(
                "{} for ids that {} does not have: left out",
                some_of("caption", &left),
                refs.display()
            ));
        }
        Ok(Import { records: self.records, notes })
    }
}

/// `1 caption (a)`, `5 captions (a, b, c, …)`.
fn some_of(what: &str, ids: &[String]) -> String {
    let shown = ids.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let more = if ids.len() > 3 { ", …" } else { "" };
    let plural = if ids.len() == 1 { "" } else { "s" };
    format!("{} {what}{plural} ({shown}{more})", ids.len())
}

/// The source's fields beside ours. Where a field of the source has the name of one of ours or of a record's own, it
/// becomes `source_NAME`: under its own name, the source's `caption` would be judged as the system's.
pub fn beside(source: Map<String, Value>, ours: Map<String, Value>) -> Map<String, Value> {
    let is_taken = |name: &str| Record::FIELDS.contains(&name) || ours.contains_key(name);
    let (taken, mut all): (Map<_, _>, Map<_, _>) = source.into_iter().partition(|(name, _)| is_taken(name));
    all.extend(ours);
    for (name, value) in taken {
        let mut free = format!("source_{name}");
        while all.contains_key(&free) {
            free.insert_str(0, "source_");
        }
        all.insert(free, value);
    }
    all
}

/// A record with nothing in it yet but the given events.
pub fn blank(events: Vec<crate::dataset::GroundTruthEvent>) -> Record {
    Record {
        id: String::new(),
        system: String::new(),
        caption: String::new(),
        events,
        inserted_index: None,
        caption_type: None,
        reference: None,
        length_rule: None,
        video: None,
        human: None,
        extra: Map::new(),
    }
}
