//! The summary as JSON, as `capjudge schema summary` describes it.

use crate::metrics::Summary;

/// The summary as JSON.
pub fn render(summary: &Summary) -> String {
    // A summary has no map with keys that are not strings, which is all that could fail here.
    serde_json::to_string_pretty(summary).unwrap_or_default() + "\n"
}
