//! A `counts` format, prepared for reading: which heading or metric a line starts with.

use std::sync::Arc;

use crate::answer::Section;
use crate::answer::labels::LabelWords;
use crate::answer::markup::{FirstLetters, Name, trim_emphasis_start};
use crate::task::{CountSpec, CountsSpec};

/// A `counts` format, prepared for reading.
#[derive(Debug, Clone)]
pub struct CountsFormat {
    headings: Vec<(Name, Section)>,
    heading_letters: FirstLetters,
    pub(super) labels: LabelWords,
    pub(super) metrics: Vec<Metric>,
    metric_letters: FirstLetters,
}

#[derive(Debug, Clone)]
pub(super) struct Metric {
    name: Name,
    pub(super) shared_name: Arc<str>,
    pub(super) spec: CountSpec,
    pub(super) label: Option<usize>,
}

impl CountsFormat {
    /// Prepares a task's format.
    pub fn new(spec: &CountsSpec) -> Self {
        let sections = &spec.sections;
        let by_section = [
            (&sections.events, Section::Events),
            (&sections.other, Section::Other),
            (&sections.labels, Section::Labels),
            (&sections.last, Section::Final),
        ];
        let headings: Vec<(Name, Section)> = by_section
            .iter()
            .flat_map(|(names, section)| names.iter().map(|name| (Name::new(name), *section)))
            .collect();
        let labels = LabelWords::new(&spec.labels, spec.flag.as_deref());
        let metrics: Vec<Metric> = spec
            .counts
            .iter()
            .map(|count| Metric {
                name: Name::new(&count.name),
                shared_name: count.name.as_str().into(),
                label: count.label.as_deref().and_then(|label| labels.position(label)),
                spec: count.clone(),
            })
            .collect();
        let heading_letters = FirstLetters::of(headings.iter().map(|(name, _)| name));
        let metric_letters = FirstLetters::of(metrics.iter().map(|metric| &metric.name));
        Self { headings, heading_letters, labels, metrics, metric_letters }
    }

    /// The section that a line opens, and the words behind its heading.
    pub(super) fn heading<'t>(&self, words: &'t str) -> Option<(Section, &'t str)> {
        let words = strip_step(words);
        if !self.heading_letters.may_start(words) {
            return None;
        }
        self.headings.iter().find_map(|(name, section)| {
            let after = trim_emphasis_start(name.strip(words)?);
            let after = match after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
                Some((_, after)) => trim_emphasis_start(after),
                None => after,
            };
            if after.is_empty() {
                return Some((*section, ""));
            }
            after.strip_prefix([':', '：']).map(|content| (*section, trim_emphasis_start(content)))
        })
    }

    /// The metric that a line states, and the text of its value.
    pub(super) fn metric<'t>(&self, words: &'t str) -> Option<(usize, &'t str)> {
        let words = words.trim_start_matches(['{', ' ']);
        let (words, quote) = match words.strip_prefix(['"', '“', '\'']) {
            Some(inside) => (inside, true),
            None => (words, false),
        };
        if !self.metric_letters.may_start(words) {
            return None;
        }
        self.metrics.iter().enumerate().find_map(|(index, metric)| {
            let mut after = metric.name.strip(words)?;
            if quote {
                after = after.strip_prefix(['"', '”', '\''])?;
            }
            value_text(after).map(|value| (index, value))
        })
    }
}

/// Takes `STEP 3 –` and a number off the start of a heading.
fn strip_step(words: &str) -> &str {
    let Some(after) = words.get(..4).filter(|step| step.eq_ignore_ascii_case("step")).map(|_| &words[4..]) else {
        return words;
    };
    after.trim_start_matches(|c: char| {
        c.is_whitespace() || c.is_ascii_digit() || matches!(c, '-' | '–' | '—' | ':' | '.' | '*' | '_')
    })
}

/// The text of a metric's value, behind its separator; `None` if the line is prose.
fn value_text(after: &str) -> Option<&str> {
    if let Some(cell) = after.trim_start_matches(['*', '_', '`', ' ', '\t']).strip_prefix('|') {
        return Some(cell);
    }
    let trimmed = trim_emphasis_start(after);
    if let Some(value) = trimmed.strip_prefix([':', '：', '=', '→']) {
        let value = trim_emphasis_start(value);
        return Some(value.strip_prefix(['=', ':']).unwrap_or(value));
    }
    if trimmed.is_empty() {
        return Some("");
    }
    if let Some(value) = trimmed.strip_prefix("is ").or_else(|| trimmed.strip_prefix("IS ")) {
        return Some(value);
    }
    for dash in ['-', '–', '—'] {
        if let Some(value) = trimmed.strip_prefix(dash) {
            // `NAME - 3` is a separator; `NAME -3` may be a negative number, and is read as one.
            return Some(if value.starts_with([' ', '\t']) { value } else { trimmed });
        }
    }
    let is_value =
        trimmed.starts_with(|c: char| c.is_ascii_digit() || ('０'..='９').contains(&c) || c == '[' || c == '(');
    (is_value && trimmed.len() < after.len()).then_some(trimmed)
}
