//! A `counts` format, prepared for reading: which heading or metric a line starts with.

use std::sync::Arc;

use crate::answer::Section;
use crate::answer::labels::LabelWords;
use crate::answer::markup::{FirstLetters, Name, trim_emphasis_start};
use crate::answer::number::{Range, read_lone_number, read_number};
use crate::answer::statement::{BEFORE, Separator, find_name, value_at_start, value_behind};
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
        let metrics = spec.counts.iter().map(|count| Metric {
            name: Name::new(&count.name),
            shared_name: count.name.as_str().into(),
            label: count.label.as_deref().and_then(|label| labels.position(label)),
            spec: count.clone(),
        });
        let metrics: Vec<Metric> = metrics.collect();
        // A metric may also start with a word before its name, or with the marks of a JSON key.
        let metric_letters = FirstLetters::of(metrics.iter().map(|metric| &metric.name))
            .with_words(&BEFORE)
            .with_words(&["\"", "'", "{"]);
        let heading_letters = FirstLetters::of(headings.iter().map(|(name, _)| name));
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
            if let Some(content) = after.strip_prefix([':', '：']) {
                let content = trim_emphasis_start(content);
                // `Extracted events: 3` counts them; it does not list them.
                let counts = *section != Section::Final && read_lone_number(content, Range::Count).is_ok();
                return (!counts).then_some((*section, content));
            }
            // `FINAL METRICS - HALLUCINATION_COUNT: 1`
            let content = trim_emphasis_start(after.strip_prefix(['-', '–', '—'])?);
            self.metric(content).is_some().then_some((*section, content))
        })
    }

    /// The metric that a line states, and the text of its value.
    pub(super) fn metric<'t>(&self, words: &'t str) -> Option<(usize, &'t str)> {
        if words.starts_with(|c: char| c.is_ascii()) && !self.metric_letters.may_start(words) {
            return None;
        }
        self.metrics.iter().enumerate().find_map(|(index, metric)| {
            value_at_start(&metric.name, words, Separator::Optional).map(|value| (index, value))
        })
    }

    /// Where the next metric is stated in the middle of a text, and which: one pass up to the first.
    pub(super) fn find_metric(&self, text: &str) -> Option<(usize, usize)> {
        let mut inside_word = false;
        for (at, c) in text.char_indices() {
            if !inside_word {
                // `"NAME": 3`: the quotation mark belongs to the name.
                let at = at - usize::from(text[..at].ends_with('"'));
                let stated = |metric: &Metric| {
                    metric.name.starts_with(c) && value_behind(&metric.name, &text[at..], Separator::Needed).is_some()
                };
                if let Some(index) = self.metrics.iter().position(stated) {
                    return Some((at, index));
                }
            }
            inside_word = c.is_alphanumeric() || c == '_';
        }
        None
    }

    /// Every metric with a number that a text states, wherever it stands: what a caption could make a judge repeat.
    pub(super) fn statements(&self, text: &str) -> Vec<(usize, u32)> {
        let mut statements = Vec::new();
        for (index, metric) in self.metrics.iter().enumerate() {
            for at in find_name(&metric.name, text) {
                let line = text[at..].lines().next().unwrap_or_default();
                let value = value_behind(&metric.name, line, Separator::Optional);
                if let Some(Ok(number)) = value.map(|value| read_number(value, Range::Count)) {
                    statements.push((index, number));
                }
            }
        }
        statements
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
