//! The decoder's part of the `config.json` of a model that sees.
//!
//! Newer files have it under `text_config`, older ones of Qwen beside everything else. What decides the head's weights
//! (`tie_word_embeddings`) is said outside, and inside only where it is not.

use serde_json::{Map, Value};

use super::{DecoderConfig, Fields, from_json};
use crate::model::rope::{Axes, Rope};

/// The decoder that the text part describes, read as one of the family `family`; and its `mrope_section`, if there is
/// one. `defaults` are those of the architecture, for fields that are not there.
pub fn text_of(
    config: &Value,
    family: &str,
    defaults: &[(&str, Value)],
) -> Result<(DecoderConfig, Option<[usize; 3]>), String> {
    let whole = Fields(config);
    let part = if whole.has("text_config") { whole.object("text_config")? } else { whole };
    let mut text: Map<String, Value> = part.0.as_object().cloned().unwrap_or_default();
    text.insert("model_type".to_owned(), family.into());
    if let Some(tied) = whole.truth("tie_word_embeddings")? {
        text.insert("tie_word_embeddings".to_owned(), tied.into());
    }
    for (name, value) in defaults {
        if text.get(*name).is_none_or(Value::is_null) {
            text.insert((*name).to_owned(), value.clone());
        }
    }
    let mut sections = None;
    for name in ["rope_parameters", "rope_scaling"] {
        let Some(rope) = text.get_mut(name).and_then(Value::as_object_mut) else { continue };
        if let Some(list) = rope.remove("mrope_section").filter(|list| !list.is_null()) {
            sections = sections.or(Some(three(&list).ok_or(format!("{name}: `mrope_section` is not three numbers"))?));
        }
        // Sections of a head are no scaling, though older files name them as one.
        for kind in ["rope_type", "type"] {
            if rope.get(kind).is_some_and(|kind| kind == "mrope") {
                rope.insert(kind.to_owned(), "default".into());
            }
        }
    }
    let inside = |what: String| if whole.has("text_config") { format!("text_config: {what}") } else { what };
    Ok((from_json(&Value::Object(text)).map_err(inside)?, sections))
}

fn three(list: &Value) -> Option<[usize; 3]> {
    let numbers: Option<Vec<usize>> =
        list.as_array()?.iter().map(|number| usize::try_from(number.as_u64()?).ok()).collect();
    numbers?.try_into().ok()
}

impl DecoderConfig {
    /// The same, with heads that turn by time, row and column.
    pub fn turning_by(self, axes: Axes) -> Result<Self, String> {
        let ropes = self.ropes.into_iter().map(|rope: Rope| rope.by(axes)).collect::<Result<_, _>>()?;
        Ok(Self { ropes, ..self })
    }
}
