//! Everything, as `capjudge schema bench` describes it.

use serde::Serialize;

/// As JSON.
pub fn render(what: &impl Serialize) -> String {
    // There is no map with keys that are not strings, which is all that could fail here.
    serde_json::to_string_pretty(what).unwrap_or_default() + "\n"
}
