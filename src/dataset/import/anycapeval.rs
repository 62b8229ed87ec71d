//! AnyCapEval: references with a caption type and a length rule, and a system's captions, joined on id.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::join::{Join, beside, blank};
use super::source::{Responses, id_text, read_items};
use super::{Import, ImportError, Options};
use crate::dataset::{Record, Video};

#[derive(Deserialize)]
struct Item {
    id: Value,
    video: Option<String>,
    conversations: Vec<Turn>,
    #[serde(default)]
    restriction: Vec<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
struct Turn {
    value: String,
}

/// Joins references and captions. `videos` is the folder with the video files.
pub fn anycapeval(
    refs: &Path,
    responses: &Path,
    options: Options<'_>,
    videos: Option<&Path>,
) -> Result<Import, ImportError> {
    let mut join = Join::new(Responses::read(responses)?, options);
    for (index, item) in read_items::<Item>(refs)?.into_iter().enumerate() {
        let error = |what: String| ImportError::Item { path: refs.to_owned(), item: index + 1, what };
        let id = id_text(&item.id).ok_or_else(|| error("id is neither text nor a number".into()))?;
        let record = record(item, videos).map_err(|what| error(what.into()))?;
        join.add(&id, record).map_err(error)?;
    }
    join.finish(refs)
}

fn record(item: Item, videos: Option<&Path>) -> Result<Record, &'static str> {
    let mut turns = item.conversations.into_iter();
    let (Some(instruction), Some(reference)) = (turns.next(), turns.next()) else {
        return Err("conversations has fewer than two turns; the second one is the reference");
    };
    let mut restriction = item.restriction.into_iter();
    let caption_type = restriction.next().ok_or("restriction is empty; its first entry is the caption type")?;
    Ok(Record {
        // `theme` is the data set's name for what the rubric calls `style`.
        caption_type: Some(if caption_type == "theme" { "style".to_owned() } else { caption_type }),
        reference: Some(reference.value),
        length_rule: restriction.next(),
        video: item.video.map(|name| Video::Path(videos.unwrap_or(Path::new("")).join(name))),
        extra: beside(item.extra, Map::from_iter([("instruction".to_owned(), Value::String(instruction.value))])),
        ..blank(Vec::new())
    })
}
