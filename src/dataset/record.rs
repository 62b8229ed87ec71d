//! One line of a data set.
//!
//! Invariant: parsing a record finds every problem of it, not only the first one, and never fills a hole with a
//! default: what is not there is `None`, and what is there with the wrong type is a problem. What is left of a record
//! with problems is a [`Broken`], which no judge is ever asked about.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check::{Problem, ProblemKind};

/// A caption to judge, and what is known about its video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Names the record; unique in its data set. A whole number is read as its digits.
    #[schemars(extend("type" = ["string", "integer"]))]
    pub id: String,
    /// The system (caption model) whose caption it is.
    pub system: String,
    /// The caption under judgement.
    pub caption: String,
    /// The ground-truth events, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<GroundTruthEvent>,
    /// Which of the events was inserted for the evaluation, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inserted_index: Option<usize>,
    /// The kind of caption that was asked for (`brief`, `detail`, `poem`, `narrative`, `style`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_type: Option<String>,
    /// A caption that is known to be good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The length that the caption was asked to have, in words (`20 to 30 words`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_rule: Option<String>,
    /// The video: a file, a folder of frames, or a list of images; relative to the data file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<Video>,
    /// What people said about the caption; kept for measuring agreement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human: Option<Value>,
    /// All other fields, kept and passed through to the verdict.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Something that happens in the video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroundTruthEvent {
    /// The event in a sentence.
    pub caption: String,
    /// What is to be seen of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visual: Option<String>,
}

/// Where a record's frames come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Video {
    /// A video file or a folder of frames.
    Path(PathBuf),
    /// Images in order.
    Images(Vec<PathBuf>),
}

impl Video {
    /// All paths, as seen from the folder of the data file.
    pub fn paths(&self, base: &Path) -> Vec<PathBuf> {
        match self {
            Video::Path(path) => vec![base.join(path)],
            Video::Images(paths) => paths.iter().map(|path| base.join(path)).collect(),
        }
    }
}

/// A record with problems.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// What could be read of it: a field that is wrong or missing is blank, and so is an event that is none, which keeps
    /// the number of events and the place of the inserted one.
    pub partial: Box<Record>,
    /// All that is wrong with its fields; never empty.
    pub problems: Vec<Problem>,
}

impl Record {
    /// The names of the fields above. No key of `extra` may be one of them: written as JSON, it would be there twice.
    pub const FIELDS: [&str; 10] = [
        "id", "system", "caption", "events", "inserted_index", "caption_type", "reference", "length_rule", "video",
        "human",
    ];

    /// The event that was inserted, if one was.
    pub fn inserted_event(&self) -> Option<&GroundTruthEvent> {
        self.inserted_index.and_then(|index| self.events.get(index))
    }

    /// Reads a record from the fields of a JSON object, or says all that is wrong with them.
    pub fn from_fields(fields: Map<String, Value>) -> Result<Self, Broken> {
        let mut fields = Fields { fields, problems: Vec::new() };
        let id = fields.id();
        let system = fields.text("system");
        let caption = fields.text("caption");
        let events = fields.events();
        let record = Self {
            id,
            system,
            caption,
            inserted_index: fields.index("inserted_index", events.as_ref().map(Vec::len)),
            events: events.unwrap_or_default(),
            caption_type: fields.optional_text("caption_type"),
            reference: fields.optional_text("reference"),
            length_rule: fields.optional_text("length_rule"),
            video: fields.video(),
            human: fields.take("human"),
            extra: fields.fields,
        };
        if fields.problems.is_empty() {
            Ok(record)
        } else {
            Err(Broken { partial: Box::new(record), problems: fields.problems })
        }
    }
}

/// The id among a record's fields, whatever the rest is like.
pub(super) fn id_of(fields: &Map<String, Value>) -> Option<String> {
    match fields.get("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => Some(id.clone()),
        Some(Value::Number(id)) if !id.is_f64() => Some(id.to_string()),
        _ => None,
    }
}

/// Takes typed fields out of an object and notes what does not fit. What does not fit comes out blank, with a problem.
struct Fields {
    fields: Map<String, Value>,
    problems: Vec<Problem>,
}

impl Fields {
    fn wrong(&mut self, field: impl Into<String>, what: impl Into<String>, remedy: &str) {
        self.problems.push(Problem::new(ProblemKind::InvalidRecord, field, what, remedy));
    }

    fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.shift_remove(field).filter(|value| !value.is_null())
    }

    fn id(&mut self) -> String {
        let id = id_of(&self.fields);
        self.fields.shift_remove("id");
        if id.is_none() {
            self.wrong("id", "is missing, empty or not a string", "give every record a unique string as its id");
        }
        id.unwrap_or_default()
    }

    fn text(&mut self, field: &str) -> String {
        match self.take(field) {
            Some(Value::String(text)) if field == "caption" || !text.trim().is_empty() => return text,
            Some(Value::String(_)) => self.wrong(field, "is empty", "fill it in"),
            Some(other) => self.wrong(field, format!("is {}, not a string", kind_of(&other)), "write it as a string"),
            None => self.wrong(field, "is missing", "add it to the record"),
        }
        String::new()
    }

    fn optional_text(&mut self, field: &str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) => Some(text),
            other => {
                let what = format!("is {}, not a string", kind_of(&other));
                self.wrong(field, what, "write it as a string, or leave it out");
                None
            }
        }
    }

    /// As many events as the list has items; `None` if it is no list, so that nobody knows how many there are.
    fn events(&mut self) -> Option<Vec<GroundTruthEvent>> {
        let remedy = "write events as [{\"caption\": \"…\", \"visual\": \"…\"}, …]; visual may be left out";
        let items = match self.take("events") {
            None => return Some(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong("events", format!("is {}, not a list", kind_of(&other)), remedy);
                return None;
            }
        };
        let mut events = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let event = serde_json::from_value::<GroundTruthEvent>(item);
            match &event {
                Ok(event) if event.caption.trim().is_empty() => {
                    self.wrong(format!("events[{index}].caption"), "is empty", "fill it in, or remove the event");
                }
                Ok(_) => {}
                Err(error) => self.wrong(format!("events[{index}]"), format!("is not an event: {error}"), remedy),
            }
            let mut event = event.unwrap_or(GroundTruthEvent { caption: String::new(), visual: None });
            event.visual = event.visual.filter(|visual| !visual.trim().is_empty());
            events.push(event);
        }
        Some(events)
    }

    fn index(&mut self, field: &str, count: Option<usize>) -> Option<usize> {
        let remedy = "it counts the events from 0; leave it out if no event was inserted";
        let value = self.take(field)?;
        let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
        match (index, count) {
            (Some(index), Some(count)) if index >= count => {
                self.wrong(field, format!("is {index}, but there are {count} events"), remedy);
                None
            }
            (Some(index), _) => Some(index),
            (None, _) => {
                self.wrong(field, format!("is {value}, not a whole number from 0"), remedy);
                None
            }
        }
    }

    fn video(&mut self) -> Option<Video> {
        let remedy = "write a path, or a list of image paths, relative to the data file";
        let value = self.take("video")?;
        match serde_json::from_value::<Video>(value) {
            Ok(Video::Images(images)) if images.is_empty() => {
                self.wrong("video", "is an empty list", remedy);
                None
            }
            Ok(video) if video.paths(Path::new("")).iter().any(|path| path.as_os_str().is_empty()) => {
                self.wrong("video", "has an empty path", remedy);
                None
            }
            Ok(video) => Some(video),
            Err(_) => {
                self.wrong("video", "is neither a path nor a list of paths", remedy);
                None
            }
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
