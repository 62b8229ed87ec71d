//! What a task's TOML file may say.
//!
//! These types are the whole vocabulary of a judge: `task/mod.rs` checks what they cannot express, and nothing
//! else in the crate knows the name of a built-in task.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task as its TOML declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// One sentence for `capjudge prompts list`.
    pub description: String,
    /// The template's file name, beside the TOML; `NAME.txt` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The placeholders of the template, without their braces, and what fills each.
    pub placeholders: BTreeMap<String, Placeholder>,
    /// Words in braces that look like placeholders and are text for the judge.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub literal: Vec<String>,
    /// Present if the judge sees frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<Frames>,
    /// How the answer is read.
    pub answer: AnswerSpec,
    /// Arithmetic that the prompt demands and code applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    /// What `summarize` computes; the first one ranks the systems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricSpec>,
}

/// What fills one placeholder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Placeholder {
    /// The part of the record that stands there.
    pub from: Source,
    /// The text for a record that lacks it. Without this text, a record that lacks it is unscored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// The values allowed; any, if empty. Compared without regard to case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Other names for allowed values, and the value each stands for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
}

/// A part of a record that can fill a placeholder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Source {
    /// The caption under judgement.
    Caption,
    /// The reference caption.
    Reference,
    /// The caption type.
    CaptionType,
    /// All ground-truth events, as numbered blocks.
    Events,
    /// The one-based position of the inserted event.
    InsertedPosition,
    /// The inserted event, as a block without its header.
    InsertedEvent,
    /// Any other string or number of the record, by field name (`field:NAME` in the TOML).
    Field(String),
}

impl Source {
    /// The record field that a user has to fill for this source.
    pub fn field(&self) -> &str {
        match self {
            Source::Caption => "caption",
            Source::Reference => "reference",
            Source::CaptionType => "caption_type",
            Source::Events => "events",
            Source::InsertedPosition | Source::InsertedEvent => "inserted_index",
            Source::Field(name) => name,
        }
    }
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Ok(match text.as_str() {
            "caption" => Source::Caption,
            "reference" => Source::Reference,
            "caption_type" => Source::CaptionType,
            "events" => Source::Events,
            "inserted_position" => Source::InsertedPosition,
            "inserted_event" => Source::InsertedEvent,
            other => match other.strip_prefix("field:") {
                Some(name) if !name.is_empty() => Source::Field(name.to_owned()),
                _ => {
                    return Err(format!(
                        "unknown source `{other}`; use caption, reference, caption_type, events, \
                         inserted_position, inserted_event or field:NAME"
                    ));
                }
            },
        })
    }
}

impl From<Source> for String {
    fn from(source: Source) -> String {
        source.to_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::InsertedPosition => f.write_str("inserted_position"),
            Source::InsertedEvent => f.write_str("inserted_event"),
            Source::Field(name) => write!(f, "field:{name}"),
            other => f.write_str(other.field()),
        }
    }
}

/// Where the frames stand in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// The frames stand right before this text, which occurs once in the template.
    pub before: String,
    /// Which frames are shown unless the user says otherwise: `uniform:8`, `midpoint:8`, `fps:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
}

/// How an answer is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "format", rename_all = "snake_case", deny_unknown_fields)]
pub enum AnswerSpec {
    /// Sections with listed events, a label per event, and counts at the end.
    Counts(CountsSpec),
    /// A JSON object with a whole-number score and a reason.
    JsonScore(ScoreSpec),
}

/// The `counts` answer format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountsSpec {
    /// The words that an event can be labelled with.
    #[serde(default)]
    pub labels: Vec<String>,
    /// A word that marks some events (`was an inserted one`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
    /// The headings.
    pub sections: Sections,
    /// The numbers of the final section.
    pub counts: Vec<CountSpec>,
    /// The lines that a guided answer is made of; what is left out is derived from the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Box<LayoutSpec>>,
}

/// The lines of a guided `counts` answer, with slots in braces; `task/layout.rs` checks them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LayoutSpec {
    /// A line of the list of events: `{n}. {text}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The text of the section under the first heading of `sections.other`, which is left out without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<String>,
    /// A line of the labels section, with `{n}` and `{label}`, and perhaps `{text}` and `{flag}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// What `{flag}` is for an event with the flag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flagged: Option<String>,
    /// What `{flag}` is for an event without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unflagged: Option<String>,
    /// A line of the final section: `- {name}: {count}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
}

/// The headings of a `counts` answer, by what stands below them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sections {
    /// Headings of the list of events.
    #[serde(default)]
    pub events: Vec<String>,
    /// Headings of sections that hold nothing to read.
    #[serde(default)]
    pub other: Vec<String>,
    /// Headings of the section with a label per event.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Headings of the section with the counts.
    #[serde(rename = "final")]
    pub last: Vec<String>,
}

/// One number of a `counts` answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountSpec {
    /// Its name in the answer.
    pub name: String,
    /// The label whose events it counts, for the cross-check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether only events with the task's flag are counted.
    #[serde(default)]
    pub flagged: bool,
    /// What it cannot exceed: `listed_events`, `record_events`, `inserted_events` or the name of an earlier count.
    #[serde(default)]
    pub at_most: Vec<String>,
}

impl CountsSpec {
    /// Whether answers list the record's own events: a count of listed events is also bounded by how many it has.
    pub fn lists_record_events(&self) -> bool {
        let bounded = |count: &CountSpec, by: &str| count.at_most.iter().any(|bound| bound == by);
        self.counts.iter().any(|count| bounded(count, "listed_events") && bounded(count, "record_events"))
    }
}

/// A part of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Records with an inserted event.
    Inserted,
}

/// The `json_score` answer format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreSpec {
    /// The key of the score.
    pub key: String,
    /// The key of the reason, if the judge gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The lowest score.
    pub min: u32,
    /// The highest score.
    pub max: u32,
}

/// A rule that code applies to a score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// Outside ±`percent` of the reference's word count, the score is at most `cap`.
    WordCountWithin {
        /// How far the caption's word count may be from the reference's.
        percent: u32,
        /// The caption types it holds for; all, if empty.
        #[serde(default)]
        caption_types: Vec<String>,
        /// The highest score for a caption that breaks it.
        cap: u32,
    },
}

/// One number of a summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSpec {
    /// Its name in tables.
    pub name: String,
    /// What it says, in a few words.
    pub about: String,
    /// Which way is better.
    pub better: Better,
    /// How it is computed.
    #[serde(flatten)]
    pub formula: Formula,
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Smaller is better.
    Lower,
    /// Larger is better.
    Higher,
}

/// How a metric is computed from the verdicts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Formula {
    /// The share of verdicts whose count is above 0.
    ShareAboveZero {
        /// The count.
        of: String,
        /// Of which records; all, if not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Only>,
    },
    /// The mean of count / events; 0 where there are no events.
    MeanRatio {
        /// The count.
        of: String,
        /// The events it is divided by.
        over: Over,
        /// A count of inserted events: for a record with an inserted event, that event is taken out of both sides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_aside: Option<String>,
    },
    /// The mean of a count, of `score`, of `raw_score`, or of `expected`: the mean of what a model might have given.
    Mean {
        /// The value.
        of: String,
        /// Also for each caption type.
        #[serde(default)]
        by_caption_type: bool,
        /// Also how often each value occurs.
        #[serde(default)]
        histogram: bool,
    },
}

impl Formula {
    /// Every value of a verdict that the formula reads.
    pub fn reads(&self) -> Vec<&str> {
        match self {
            Formula::ShareAboveZero { of, .. } | Formula::Mean { of, .. } => vec![of],
            Formula::MeanRatio { of, set_aside, .. } => {
                std::iter::once(of.as_str()).chain(set_aside.as_deref()).collect()
            }
        }
    }
}

/// The events that a count is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The events that the answer lists.
    ListedEvents,
    /// The ground-truth events of the record.
    RecordEvents,
}
