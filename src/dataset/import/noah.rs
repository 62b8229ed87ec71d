//! NOAH: recipes (ground-truth events, one of them perhaps inserted) and a system's captions, joined on id.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::join::{Join, blank};
use super::source::{Responses, id_text, read_items};
use super::{Import, ImportError, Options};
use crate::dataset::{GroundTruthEvent, Record};

#[derive(Deserialize)]
struct Recipe {
    id: Value,
    sentences: Vec<String>,
    #[serde(default)]
    aug_sentences: Vec<Option<String>>,
    insert_event_idx: Option<usize>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// Joins recipes and captions.
pub fn noah(recipes: &Path, results: &Path, options: Options<'_>) -> Result<Import, ImportError> {
    let mut join = Join::new(Responses::read(results)?, options);
    for (index, recipe) in read_items::<Recipe>(recipes)?.into_iter().enumerate() {
        let error = |what: String| ImportError::Item { path: recipes.to_owned(), item: index + 1, what };
        let id = id_text(&recipe.id).ok_or_else(|| error("id is neither text nor a number".into()))?;
        let record = record(recipe).map_err(|what| error(format!("{id}: {what}")))?;
        join.add(&id, record).map_err(error)?;
    }
    join.finish(recipes)
}

fn record(recipe: Recipe) -> Result<Record, String> {
    let count = recipe.sentences.len();
    let visuals = recipe.aug_sentences.len();
    if visuals != 0 && visuals != count {
        return Err(format!("{count} sentences, but {visuals} aug_sentences; they belong together one to one"));
    }
    if let Some(index) = recipe.insert_event_idx.filter(|index| *index >= count) {
        return Err(format!("insert_event_idx is {index}, but there are {count} sentences"));
    }
    let mut visuals = recipe.aug_sentences.into_iter();
    let events = recipe.sentences.iter().map(|sentence| GroundTruthEvent {
        caption: sentence.trim().to_owned(),
        visual: visuals.next().flatten().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()),
    });
    let events = events.collect();
    Ok(Record { inserted_index: recipe.insert_event_idx, extra: recipe.extra, ..blank(events) })
}
