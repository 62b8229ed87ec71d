//! What a run comes to: the type of `summary.json`, and of `summarize --format json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::Better;

/// One or several runs, summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// The version of this format.
    pub schema_version: u32,
    /// The runs, in the order they were named.
    pub runs: Vec<RunSummary>,
}

/// One run, summed up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSummary {
    /// The run's folder, where several runs are summed up together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The task.
    pub task: String,
    /// The judge.
    pub judge: String,
    /// Records of the data set.
    pub records: u64,
    /// Records with a verdict.
    pub judged: u64,
    /// Verdicts with numbers.
    pub scored: u64,
    /// The seed of the intervals.
    pub seed: u64,
    /// How many resamples the intervals come from.
    pub resamples: u32,
    /// The systems, best first by the task's first metric.
    pub systems: Vec<SystemSummary>,
}

/// One system in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemSummary {
    /// The system.
    pub system: String,
    /// Its records in the data set.
    pub records: u64,
    /// Those with a verdict.
    pub judged: u64,
    /// Those with numbers.
    pub scored: u64,
    /// scored / records.
    pub coverage: f64,
    /// How many are unscored, by reason.
    pub unscored: BTreeMap<String, u64>,
    /// How often the judge's labels could be compared with its counts, and differed; absent for scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disagreements: Option<Disagreements>,
    /// The metrics of the task.
    pub metrics: Vec<MetricSummary>,
}

/// Labels against stated counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disagreements {
    /// Scored verdicts whose labels are complete.
    pub compared: u64,
    /// Those whose labels differ from the stated counts.
    pub differ: u64,
}

/// One number with all that is needed to trust it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSummary {
    /// Its name.
    pub name: String,
    /// Which way is better.
    pub better: Better,
    /// The caption type it is about; all of them, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_type: Option<String>,
    /// Records that it is about.
    pub records: u64,
    /// Values that went into it.
    pub n: u64,
    /// n / records.
    pub coverage: f64,
    /// The mean; null without values.
    pub value: Option<f64>,
    /// The lower end of the 95% interval.
    pub low: Option<f64>,
    /// The upper end of the 95% interval.
    pub high: Option<f64>,
    /// How often each value occurs, ascending; on a scale of up to 101 scores, also those that do not occur.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<Bin>>,
}

/// One value of a histogram. A list of these keeps the order of numbers, which names in an object (1, 10, 2) would not.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bin {
    /// The value.
    pub value: f64,
    /// How often it occurs.
    pub count: u64,
}

/// part / whole, and 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
