//! The shapes that have a name: the settings of public checkpoints, without their weights.
//!
//! Invariant: the files in `models/shapes/` hold what the checkpoints' own files hold. What is made up (the tokenizer's
//! words, the weights) is made in code, from a seed.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::inventory::{Inventory, inventory};
use super::vocabulary::Words;
use crate::model::ModelError;

/// What the name of a model begins with where a shape is meant.
pub const PREFIX: &str = "shape:";

const SHAPES: [(&str, &str); 12] = [
    ("llama-3.2-1b", include_str!("../../../models/shapes/llama-3.2-1b.json")),
    ("qwen2.5-1.5b", include_str!("../../../models/shapes/qwen2.5-1.5b.json")),
    ("qwen2.5-7b", include_str!("../../../models/shapes/qwen2.5-7b.json")),
    ("qwen2.5-vl-3b", include_str!("../../../models/shapes/qwen2.5-vl-3b.json")),
    ("qwen2.5-vl-7b", include_str!("../../../models/shapes/qwen2.5-vl-7b.json")),
    ("qwen3-vl-2b", include_str!("../../../models/shapes/qwen3-vl-2b.json")),
    ("qwen3-vl-4b", include_str!("../../../models/shapes/qwen3-vl-4b.json")),
    ("qwen3-vl-8b", include_str!("../../../models/shapes/qwen3-vl-8b.json")),
    ("smollm2-135m", include_str!("../../../models/shapes/smollm2-135m.json")),
    ("smolvlm2-2.2b", include_str!("../../../models/shapes/smolvlm2-2.2b.json")),
    ("smolvlm2-256m", include_str!("../../../models/shapes/smolvlm2-256m.json")),
    ("smolvlm2-500m", include_str!("../../../models/shapes/smolvlm2-500m.json")),
];

/// A shape for tests and for trying things out: no checkpoint has it, so it is not listed.
const TINY: (&str, &str) = ("tiny", include_str!("../../../models/shapes/tiny.json"));

/// The settings of a model.
#[derive(Debug, Clone)]
pub struct Shape {
    name: &'static str,
    content: Content,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tokenizer: Words,
    ordinary_tokens: usize,
    files: Map<String, Value>,
}

/// The type that weights are drawn in.
const STORED: &str = "bfloat16";

impl Shape {
    /// The shape of that name.
    pub fn find(name: &str) -> Result<Self, ModelError> {
        let found = SHAPES.iter().chain([&TINY]).find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((name, text)) = found else {
            let names: Vec<&str> = Self::names().collect();
            let what = format!("there is no shape {:?}; there are {}", name, names.join(", "));
            return Err(ModelError::Option(what));
        };
        let content = serde_json::from_str(text).map_err(|error| {
            // Compiled in and tested, so this is a mistake of this program.
            ModelError::bad(Path::new(&format!("models/shapes/{name}.json")), error.to_string())
        })?;
        Ok(Self { name, content })
    }

    /// The shape that a model's name stands for, if it does: `shape:NAME`.
    pub fn of_model(name: &str) -> Option<Result<Self, ModelError>> {
        name.strip_prefix(PREFIX).map(Self::find)
    }

    /// All names, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHAPES.iter().map(|(name, _)| *name)
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its `config.json`, for weights of a type (`bfloat16` or `float32`).
    pub(super) fn config(&self, stored: &str) -> Value {
        let mut config = self.content.files.get("config.json").cloned().unwrap_or_default();
        config["torch_dtype"] = json!(stored);
        if let Some(text) = config.get_mut("text_config") {
            text["dtype"] = json!(stored);
        }
        config
    }

    /// Whether a model of this shape sees.
    pub fn sees(&self) -> bool {
        self.config(STORED).get("vision_config").is_some()
    }

    /// Every tensor that a checkpoint of this shape has.
    pub fn inventory(&self) -> Result<Inventory, ModelError> {
        let wrong = |what| ModelError::bad(Path::new(&format!("models/shapes/{}.json", self.name)), what);
        inventory(&self.config(STORED)).map_err(wrong)
    }

    /// Writes all files but the weights.
    pub(super) fn write_settings(&self, folder: &Path, stored: &str) -> Result<(), ModelError> {
        let Content { tokenizer, ordinary_tokens, files } = &self.content;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|source| ModelError::io(&path, source))
        };
        for (name, value) in files {
            let value = if name == "config.json" { &self.config(stored) } else { value };
            write(name, format!("{value:#}\n"))?;
        }
        write("tokenizer.json", tokenizer.tokenizer(*ordinary_tokens)?.to_string())?;
        write("tokenizer_config.json", format!("{:#}\n", tokenizer.settings()))?;
        write("chat_template.jinja", tokenizer.template().to_owned())
    }

    pub(super) const STORED: &'static str = STORED;
}
