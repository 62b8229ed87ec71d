//! The grammar of a `json_score` answer.

use super::free;
use super::lark::{Lark, any_of, quoted};
use crate::task::ScoreSpec;

/// The grammar, as Lark text.
pub fn grammar(spec: &ScoreSpec) -> String {
    let mut lark = Lark::default();
    let key = |key: &str| serde_json::Value::from(key).to_string();
    let scores = any_of((spec.min..=spec.max).map(|score| score.to_string()));
    let before = quoted(&format!("{{{}: ", key(&spec.key)));
    match &spec.reason {
        Some(reason) => {
            let between = quoted(&format!(", {}: \"", key(reason)));
            lark.define("answer", &format!("{before} {scores} {between} REASON {}", quoted("\"}")));
            lark.define("REASON", &free::json_string());
        }
        None => lark.define("answer", &format!("{before} {scores} {}", quoted("}"))),
    }
    lark.finish()
}
