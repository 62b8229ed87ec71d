//! A summary, for people and for programs: one exporter a file.
//!
//! Invariant: every mean stands with its n, its coverage and its interval; no exporter shows a number without them. No
//! name, title or note in a table can move a terminal's cursor, whatever the data says.

mod csv;
mod json;
mod markdown;
mod ranking;
mod table;

pub use ranking::ranked;

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;

use crate::metrics::{MetricSummary, RunSummary, Summary, SystemSummary};
use crate::task::Better;

/// The forms a summary can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A table for the terminal.
    Table,
    /// JSON (capjudge schema summary).
    Json,
    /// One line a number, for spreadsheets.
    Csv,
    /// Tables for a README or a paper.
    Markdown,
}

/// Writes a summary in a form.
pub fn render(summary: &Summary, format: ReportFormat) -> String {
    match format {
        ReportFormat::Table => table::render(summary),
        ReportFormat::Json => json::render(summary),
        ReportFormat::Csv => csv::render(summary),
        ReportFormat::Markdown => markdown::render(summary),
    }
}

/// Which systems do better over all tasks of a summary, as a table for the terminal.
pub fn ranking_table(summary: &Summary) -> String {
    table::write(vec![ranking::grid(summary).printable()])
}

/// The same in Markdown.
pub fn ranking_markdown(summary: &Summary) -> String {
    markdown::write(vec![ranking::grid(summary).printable()])
}

/// Text from data, fit for a terminal: control characters become U+FFFD, except those that are `kept`.
pub(crate) fn printable(text: &str, kept: &[char]) -> String {
    text.chars().map(|c| if c.is_control() && !kept.contains(&c) { '\u{fffd}' } else { c }).collect()
}

/// One table of a report: systems down, metrics across.
struct Grid {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

/// The tables that both the terminal and Markdown show.
fn grids(summary: &Summary) -> Vec<Grid> {
    let mut grids = Vec::new();
    for run in &summary.runs {
        grids.push(overview(run));
        grids.extend(by_caption_type(run));
        grids.extend(histogram(run));
    }
    grids.into_iter().map(Grid::printable).collect()
}

impl Grid {
    /// All of its text made printable: any of it may come from data.
    fn printable(self) -> Self {
        let all = |texts: Vec<String>| texts.iter().map(|text| printable(text, &[])).collect::<Vec<_>>();
        Self {
            title: printable(&self.title, &[]),
            header: all(self.header),
            rows: self.rows.into_iter().map(all).collect(),
            notes: all(self.notes),
        }
    }
}

fn title(run: &RunSummary, what: &str) -> String {
    let folder = run.run.as_ref().map(|folder| format!("{folder}: ")).unwrap_or_default();
    format!("{folder}{} judged by {}{what}", run.task, run.judge)
}

fn overview(run: &RunSummary) -> Grid {
    let names = metric_names(run);
    let mut header = vec!["system".to_owned(), "n".to_owned(), "coverage".to_owned()];
    header.extend(names.iter().map(|(name, better)| format!("{name} {better}")));
    let rows = run
        .systems
        .iter()
        .map(|system| {
            let n = format!("{} of {}", system.scored, system.records);
            let mut row = vec![system_name(system), n, percent(system.coverage)];
            row.extend(overall(system).map(|metric| cell(metric, system.scored)));
            row
        })
        .collect();
    Grid { title: title(run, ""), header, rows, notes: notes(run) }
}

/// A table for each metric that has caption types.
fn by_caption_type(run: &RunSummary) -> Vec<Grid> {
    let typed = |system: &SystemSummary, name: &str| -> BTreeMap<String, String> {
        let metrics = system.metrics.iter().filter(|metric| metric.name == name);
        metrics.filter_map(|metric| Some((metric.caption_type.clone()?, typed_cell(metric)))).collect()
    };
    let mut grids = Vec::new();
    for (name, _) in metric_names(run) {
        let types: BTreeSet<String> = run.systems.iter().flat_map(|system| typed(system, &name).into_keys()).collect();
        if types.is_empty() {
            continue;
        }
        let mut header = vec!["system".to_owned()];
        header.extend(types.iter().cloned());
        let mut rows = Vec::new();
        for system in &run.systems {
            let cells = typed(system, &name);
            let mut row = vec![system_name(system)];
            row.extend(types.iter().map(|caption_type| cells.get(caption_type).map_or("-", String::as_str).to_owned()));
            rows.push(row);
        }
        grids.push(Grid { title: title(run, &format!(", {name} by caption type")), header, rows, notes: Vec::new() });
    }
    grids
}

/// The columns are the values of all systems: one without an 8 has 0 of them, and hides nobody else's.
fn histogram(run: &RunSummary) -> Option<Grid> {
    let bins = run.systems.iter().flat_map(overall).filter_map(|metric| metric.histogram.as_ref()).flatten();
    let mut values: Vec<f64> = bins.map(|bin| bin.value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.is_empty() {
        return None;
    }
    let mut header = vec!["system".to_owned(), "metric".to_owned()];
    header.extend(values.iter().map(f64::to_string));
    let mut rows = Vec::new();
    for system in &run.systems {
        for metric in overall(system) {
            let Some(histogram) = &metric.histogram else { continue };
            let mut row = vec![system_name(system), metric.name.clone()];
            let count = |value: &f64| histogram.iter().find(|bin| bin.value == *value).map_or(0, |bin| bin.count);
            row.extend(values.iter().map(|value| count(value).to_string()));
            rows.push(row);
        }
    }
    Some(Grid { title: title(run, ", how often each value"), header, rows, notes: Vec::new() })
}

/// The metrics over all caption types.
fn overall(system: &SystemSummary) -> impl Iterator<Item = &MetricSummary> {
    system.metrics.iter().filter(|metric| metric.caption_type.is_none())
}

fn metric_names(run: &RunSummary) -> Vec<(String, &'static str)> {
    run.systems.first().map(|s| overall(s).map(|m| (m.name.clone(), arrow(m))).collect()).unwrap_or_default()
}

fn arrow(metric: &MetricSummary) -> &'static str {
    match metric.better {
        Better::Lower => "↓",
        Better::Higher => "↑",
    }
}

/// A cell of a table without a column for n.
fn typed_cell(metric: &MetricSummary) -> String {
    format!("{} (n {} of {})", cell(metric, metric.n), metric.n, metric.records)
}

/// `0.250 [0.100, 0.400]`, with its own n where that is not the system's.
fn cell(metric: &MetricSummary, usual_n: u64) -> String {
    let Some(value) = metric.value else { return format!("- (n {})", metric.n) };
    let interval = match (metric.low, metric.high) {
        (Some(low), Some(high)) => format!(" [{low:.3}, {high:.3}]"),
        _ => String::new(),
    };
    let n = if metric.n == usual_n { String::new() } else { format!(" (n {})", metric.n) };
    format!("{value:.3}{interval}{n}")
}

fn notes(run: &RunSummary) -> Vec<String> {
    let mut notes = Vec::new();
    if run.judged < run.records {
        notes.push(format!("not complete: {} of {} records have a verdict", run.judged, run.records));
    }
    for system in &run.systems {
        if !system.unscored.is_empty() {
            let reasons: Vec<String> =
                system.unscored.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
            notes.push(format!("{}: unscored, left out of every mean: {}", system_name(system), reasons.join(", ")));
        }
        if let Some(differ) = system.disagreements.filter(|disagreements| disagreements.differ > 0) {
            notes.push(format!(
                "{}: the judge's counts differ from its own labels in {} of {} verdicts",
                system_name(system),
                differ.differ,
                differ.compared
            ));
        }
    }
    notes
}

fn system_name(system: &SystemSummary) -> String {
    if system.system.is_empty() { "(no system)".to_owned() } else { system.system.clone() }
}

fn percent(share: f64) -> String {
    // Never round up to 100%: that would hide a missing verdict.
    if share >= 1.0 { "100%".to_owned() } else { format!("{:.1}%", (share * 1000.0).floor() / 10.0) }
}
