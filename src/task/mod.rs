//! What a judge is asked to do: a prompt template and a declaration beside it.
//!
//! Invariant: a [`Task`] that exists is consistent. Every placeholder is in the template, every metric reads a value
//! that the answer gives, and nothing later has to check it again.

mod catalog;
mod layout;
mod spec;

pub use catalog::{Catalog, CatalogError, Origin};
pub use layout::{Layout, Line, Part, Slot, has_labels};
pub use spec::{
    AnswerSpec, Better, CountSpec, CountsSpec, Formula, Frames, LayoutSpec, MetricSpec, Only, Over, Placeholder, Rule,
    ScoreSpec, Sections, Source, TaskSpec,
};

use thiserror::Error;

use crate::answer::Format;
use crate::dataset::Record;
use crate::media::Sampler;
use crate::prompt::{Prompt, Template, TemplateError, value_of};

/// A summary counts every score from the lowest to the highest.
const MOST_SCORES: u32 = 1_000;

/// What a judge is asked to do: prompt, answer format, metrics.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its name, which is its files' name.
    pub name: String,
    /// What its TOML declares.
    pub spec: TaskSpec,
    /// Its prompt.
    pub template: Template,
    /// Its answer format, ready to read with.
    pub format: Format,
}

/// What can be wrong with a task.
#[derive(Debug, Error)]
pub enum TaskError {
    /// The TOML does not parse, or says something unknown.
    #[error("{0}")]
    Toml(String),
    /// Template and placeholders do not fit.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The declaration contradicts itself.
    #[error("{0}")]
    Inconsistent(String),
}

/// A record lacks what a placeholder needs.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("field `{field}` is missing, and the task `{task}` needs it for {{{placeholder}}}")]
pub struct MissingField {
    /// The record's field.
    pub field: String,
    /// The task.
    pub task: String,
    /// The placeholder without a value.
    pub placeholder: String,
}

impl Task {
    /// Builds a task from its declaration and its template.
    pub fn new(name: &str, toml_text: &str, template: String) -> Result<Self, TaskError> {
        let spec: TaskSpec = toml::from_str(toml_text).map_err(|error| TaskError::Toml(error.to_string()))?;
        reject_unknown_metric_keys(toml_text)?;
        Self::from_spec(name, spec, template)
    }

    /// Builds a task from a parsed declaration, as a run folder keeps it.
    pub fn from_spec(name: &str, spec: TaskSpec, template: String) -> Result<Self, TaskError> {
        let anchor = spec.frames.as_ref().map(|frames| frames.before.as_str());
        let template = Template::new(template, spec.placeholders.keys().map(String::as_str), anchor)?;
        check(&spec).map_err(TaskError::Inconsistent)?;
        let format = Format::new(&spec.answer);
        if let AnswerSpec::Counts(counts) = &spec.answer
            && counts.layout.is_some()
        {
            let layout = Layout::of(counts).map_err(TaskError::Inconsistent)?;
            layout.check(counts, &format).map_err(TaskError::Inconsistent)?;
        }
        Ok(Self { name: name.to_owned(), spec, template, format })
    }

    /// Which frames are shown unless the user says otherwise, if the task has a word on it.
    pub fn sampler(&self) -> Option<Sampler> {
        // One that cannot be read is refused when the task is loaded.
        self.spec.frames.as_ref()?.sample.as_deref()?.parse().ok()
    }

    /// Whether the judge has to see frames.
    pub fn sees_frames(&self) -> bool {
        self.spec.frames.is_some()
    }

    /// The prompt for one record.
    pub fn prompt<'a>(&'a self, record: &'a Record) -> Result<Prompt<'a>, MissingField> {
        self.template.render(|name| {
            // A slot exists only for a declared placeholder: `Template::new` was given exactly these names.
            let placeholder = &self.spec.placeholders[name];
            value_of(placeholder, record).ok_or_else(|| MissingField {
                field: placeholder.from.field().to_owned(),
                task: self.name.clone(),
                placeholder: name.to_owned(),
            })
        })
    }

    /// The placeholder that shows the caption type, if there is one: it knows the allowed names.
    pub fn caption_type_placeholder(&self) -> Option<&Placeholder> {
        self.spec.placeholders.values().find(|placeholder| placeholder.from == Source::CaptionType)
    }
}

fn check(spec: &TaskSpec) -> Result<(), String> {
    if let Some(sample) = spec.frames.as_ref().and_then(|frames| frames.sample.as_deref()) {
        sample.parse::<Sampler>().map_err(|error| format!("[frames] sample: {error}"))?;
    }
    let values: Vec<&str> = match &spec.answer {
        AnswerSpec::Counts(counts) => {
            check_counts(counts)?;
            if !spec.rules.is_empty() {
                return Err("`rules` apply to scores; this task's answer has counts".to_owned());
            }
            counts.counts.iter().map(|count| count.name.as_str()).collect()
        }
        AnswerSpec::JsonScore(score) => {
            if score.min >= score.max {
                return Err(format!("answer.min ({}) has to be below answer.max ({})", score.min, score.max));
            }
            if score.max - score.min > MOST_SCORES {
                return Err(format!("answer.min to answer.max is more than {MOST_SCORES} steps"));
            }
            if score.key.trim().is_empty() {
                return Err("answer.key is empty".to_owned());
            }
            vec!["score", "raw_score", "expected"]
        }
    };
    for metric in &spec.metrics {
        for value in metric.formula.reads() {
            if !values.contains(&value) {
                return Err(format!(
                    "metric `{}` reads `{value}`, which the answer does not give; it gives {}",
                    metric.name,
                    values.join(", ")
                ));
            }
        }
    }
    for (name, placeholder) in &spec.placeholders {
        if let Some((alias, value)) = placeholder.aliases.iter().find(|(_, value)| !placeholder.values.contains(value))
        {
            return Err(format!("placeholder {name}: alias `{alias}` stands for `{value}`, which is not in `values`"));
        }
    }
    Ok(())
}

fn check_counts(counts: &CountsSpec) -> Result<(), String> {
    if counts.counts.is_empty() {
        return Err("answer.counts is empty: name at least one count".to_owned());
    }
    if counts.sections.last.is_empty() {
        return Err("answer.sections.final is empty: name the heading of the final section".to_owned());
    }
    for (index, count) in counts.counts.iter().enumerate() {
        let name = &count.name;
        if !name.chars().any(char::is_alphanumeric) {
            return Err(format!("answer.counts: {name:?} is not a name"));
        }
        if counts.counts[..index].iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
            return Err(format!("answer.counts: `{name}` is there twice"));
        }
        if let Some(label) = &count.label
            && !counts.labels.contains(label)
        {
            return Err(format!("count `{name}` counts label `{label}`, which is not in answer.labels"));
        }
        if count.flagged && counts.flag.is_none() {
            return Err(format!("count `{name}` is flagged, but answer.flag is not set"));
        }
        for bound in &count.at_most {
            let earlier = counts.counts[..index].iter().any(|other| &other.name == bound);
            let known = ["listed_events", "record_events", "inserted_events"];
            if !earlier && !known.contains(&bound.as_str()) {
                let known = known.join(", ");
                return Err(format!(
                    "count `{name}`: at_most `{bound}` is neither one of {known} nor an earlier count"
                ));
            }
        }
    }
    Ok(())
}

/// `serde(flatten)` lets unknown keys pass, so a misspelt key of a metric is caught here.
fn reject_unknown_metric_keys(toml_text: &str) -> Result<(), TaskError> {
    let table: toml::Table = toml::from_str(toml_text).map_err(|error| TaskError::Toml(error.to_string()))?;
    let metrics = table.get("metrics").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for metric in metrics.iter().filter_map(toml::Value::as_table) {
        let allowed: &[&str] = match metric.get("kind").and_then(toml::Value::as_str) {
            Some("share_above_zero") => &["of", "only"],
            Some("mean_ratio") => &["of", "over", "set_aside"],
            _ => &["of", "by_caption_type", "histogram"],
        };
        let common = ["name", "about", "better", "kind"];
        if let Some(key) = metric.keys().find(|key| !common.contains(&key.as_str()) && !allowed.contains(&key.as_str()))
        {
            return Err(TaskError::Toml(format!("unknown key `{key}` in a metric; known: {}", allowed.join(", "))));
        }
    }
    Ok(())
}
