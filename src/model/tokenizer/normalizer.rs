//! What a `tokenizer.json` does to text before it is cut.
//!
//! Invariant: only steps that judge models use are taken, and with arguments that cannot make a text explode. They are
//! checked as JSON, since the library panics on some of them when it reads them.

use std::path::Path;

use serde_json::Value;
use tokenizers::normalizers::NormalizerWrapper;

use super::ModelError;

const SIMPLE: [&str; 7] = ["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents"];
const MAX_STEPS: usize = 16;
/// How many characters may be put in place of one, and how many all replacements together may make of one.
const MAX_CHARACTERS: usize = 16;

/// What was found in the steps so far.
struct Found {
    steps: usize,
    growth: usize,
}

/// The normaliser, if there is one.
pub fn read(path: &Path, value: Option<Value>) -> Result<Option<NormalizerWrapper>, ModelError> {
    let Some(value) = value else { return Ok(None) };
    check(path, &value, &mut Found { steps: 0, growth: 1 })?;
    let read = serde_json::from_value(value);
    read.map(Some).map_err(|error| ModelError::bad(path, format!("its normaliser cannot be read: {error}")))
}

fn check(path: &Path, step: &Value, found: &mut Found) -> Result<(), ModelError> {
    let bad = |what: String| Err(ModelError::bad(path, format!("its normaliser {what}; is the file whole?")));
    found.steps += 1;
    if found.steps > MAX_STEPS {
        return bad(format!("has more than {MAX_STEPS} steps"));
    }
    let Some(kind) = step.get("type").and_then(Value::as_str) else {
        return bad("has a step without a type".to_owned());
    };
    match kind {
        "Sequence" => {
            let Some(steps) = step.get("normalizers").and_then(Value::as_array) else {
                return bad("has a Sequence without normalizers".to_owned());
            };
            steps.iter().try_for_each(|step| check(path, step, found))
        }
        "Replace" => {
            let pattern = |kind: &str| step.get("pattern")?.get(kind)?.as_str();
            let content = step.get("content").and_then(Value::as_str).unwrap_or_default().chars().count();
            let growth = match (pattern("String"), pattern("Regex")) {
                (Some(text), None) if !text.is_empty() => content.div_ceil(text.chars().count()),
                // It may match between any two characters.
                (None, Some(regex)) if !regex.is_empty() => content + 1,
                _ => return bad("replaces nothing: the pattern of Replace is empty".to_owned()),
            };
            found.growth = found.growth.saturating_mul(growth.max(1));
            match content {
                _ if content > MAX_CHARACTERS => {
                    bad(format!("has a Replace with {content} characters; at most {MAX_CHARACTERS} are taken"))
                }
                _ if found.growth > MAX_CHARACTERS + 1 => {
                    bad(format!("replaces one character by more than {MAX_CHARACTERS}, over several steps"))
                }
                _ => Ok(()),
            }
        }
        "Prepend" => match step.get("prepend").and_then(Value::as_str).unwrap_or_default().chars().count() {
            0 => bad("has an empty Prepend".to_owned()),
            count if count > MAX_CHARACTERS => {
                bad(format!("has a Prepend of {count} characters; at most {MAX_CHARACTERS} are taken"))
            }
            _ => Ok(()),
        },
        _ if SIMPLE.contains(&kind) => Ok(()),
        other => {
            let what = format!(
                "its normaliser is {other}, which is not supported; supported are {}, Replace, Prepend and Sequence",
                SIMPLE.join(", ")
            );
            Err(ModelError::unsupported(path, what))
        }
    }
}
