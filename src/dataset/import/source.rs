//! Reads the files of an import: a JSON list, or JSON Lines.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::ImportError;

/// All items of a file, typed.
pub fn read_items<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, ImportError> {
    let item_error = |item: usize, what: String| ImportError::Item { path: path.to_owned(), item, what };
    let items = read_values(path)?;
    items
        .into_iter()
        .enumerate()
        .map(|(index, item)| serde_json::from_value(item).map_err(|error| item_error(index + 1, error.to_string())))
        .collect()
}

fn read_values(path: &Path) -> Result<Vec<Value>, ImportError> {
    let bytes = fs::read(path).map_err(|source| ImportError::Io { path: path.to_owned(), source })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let ends = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        ImportError::NotUtf8 { path: path.to_owned(), line: ends + 1 }
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let error = |item, error: serde_json::Error| ImportError::Item {
        path: PathBuf::from(path),
        item,
        what: format!("not JSON ({error})"),
    };
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|problem| error(1, problem));
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty()).enumerate();
    lines.map(|(index, line)| serde_json::from_str(line).map_err(|problem| error(index + 1, problem))).collect()
}

/// A caption that a system gave, or failed to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The caption; `None` if the file says that there is none.
    pub caption: Option<String>,
    /// The status, where the file has one.
    pub status: Option<String>,
}

/// The captions of a system by id.
#[derive(Debug)]
pub struct Responses {
    by_id: HashMap<String, Response>,
    order: Vec<String>,
}

const IDS: [&str; 5] = ["id", "idx", "vid", "video_id", "question_id"];
const CAPTIONS: [&str; 7] = ["caption", "response", "prediction", "output", "answer", "text", "pred"];

impl Responses {
    /// Reads `[{id, caption, status}]` in any of its usual spellings.
    pub fn read(path: &Path) -> Result<Self, ImportError> {
        let mut by_id = HashMap::new();
        let mut order = Vec::new();
        for (index, item) in read_items::<Map<String, Value>>(path)?.into_iter().enumerate() {
            let error = |what: String| ImportError::Item { path: path.to_owned(), item: index + 1, what };
            let id = IDS.iter().find_map(|key| item.get(*key).and_then(id_text));
            let id = id.ok_or_else(|| error(format!("no id; looked for {}", IDS.join(", "))))?;
            let caption = CAPTIONS.iter().find_map(|key| item.get(*key));
            let caption = caption.ok_or_else(|| error(format!("no caption; looked for {}", CAPTIONS.join(", "))))?;
            let caption = one_text(caption).map_err(error)?;
            let status = item.get("status").filter(|status| !status.is_null()).map(|status| match status {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            if by_id.insert(id.clone(), Response { caption, status }).is_some() {
                return Err(error(format!("id {id} is there twice; keep one caption for each id")));
            }
            order.push(id);
        }
        Ok(Self { by_id, order })
    }

    /// Captions that are known already.
    pub fn of(captions: impl Iterator<Item = (String, Option<String>)>) -> Self {
        let mut responses = Self { by_id: HashMap::new(), order: Vec::new() };
        for (id, caption) in captions {
            responses.order.push(id.clone());
            responses.by_id.insert(id, Response { caption, status: None });
        }
        responses
    }

    /// The caption for an id; it is taken out.
    pub fn take(&mut self, id: &str) -> Option<Response> {
        self.by_id.remove(id)
    }

    /// The ids that nobody asked for.
    pub fn left(&self) -> Vec<String> {
        self.order.iter().filter(|id| self.by_id.contains_key(*id)).cloned().collect()
    }
}

/// An id as text: a string, or a whole number.
pub fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        _ => None,
    }
}

/// A string, a list of one string, or nothing.
fn one_text(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(items) => match items.as_slice() {
            [] => Ok(None),
            [Value::String(text)] => Ok(Some(text.clone())),
            _ => Err(format!("the caption is a list of {} items; it has to be one string", items.len())),
        },
        _ => Err("the caption is neither a string nor a list of one".to_owned()),
    }
}
