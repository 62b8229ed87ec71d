//! A summary, for people and for programs: one exporter a file.
//!
//! Invariant: every mean stands with its n, its coverage and its interval; no exporter shows a number without them.

mod csv;
mod json;
mod markdown;
mod table;

use clap::ValueEnum;

use crate::metrics::{MetricSummary, RunSummary, Summary, SystemSummary};

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
    grids
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
            let mut row = vec![system_name(system), system.records.to_string(), percent(system.coverage)];
            row.extend(overall(system).map(|metric| cell(metric, system.scored)));
            row
        })
        .collect();
    Grid { title: title(run, ""), header, rows, notes: notes(run) }
}

fn by_caption_type(run: &RunSummary) -> Option<Grid> {
    let name = &run.systems.iter().flat_map(|s| &s.metrics).find(|metric| metric.caption_type.is_some())?.name;
    let typed = |system: &'_ SystemSummary| -> Vec<MetricSummary> {
        system.metrics.iter().filter(|m| &m.name == name && m.caption_type.is_some()).cloned().collect()
    };
    let mut types: Vec<String> =
        run.systems.iter().flat_map(|system| typed(system).into_iter().filter_map(|m| m.caption_type)).collect();
    types.sort();
    types.dedup();
    let mut header = vec!["system".to_owned()];
    header.extend(types.iter().cloned());
    let rows = run
        .systems
        .iter()
        .map(|system| {
            let metrics = typed(system);
            let mut row = vec![system_name(system)];
            row.extend(types.iter().map(|caption_type| {
                let found = metrics.iter().find(|metric| metric.caption_type.as_ref() == Some(caption_type));
                found.map_or("-".to_owned(), |metric| {
                    format!("{} (n {} of {})", cell(metric, metric.n), metric.n, metric.records)
                })
            }));
            row
        })
        .collect();
    Some(Grid { title: title(run, &format!(", {name} by caption type")), header, rows, notes: Vec::new() })
}

fn histogram(run: &RunSummary) -> Option<Grid> {
    let first = run.systems.iter().flat_map(|s| &s.metrics).find(|metric| metric.histogram.is_some())?;
    let values: Vec<String> = first.histogram.as_ref()?.keys().cloned().collect();
    let mut header = vec!["system".to_owned(), "value".to_owned()];
    header.extend(values.iter().cloned());
    let mut rows = Vec::new();
    for system in &run.systems {
        for metric in overall(system) {
            let Some(histogram) = &metric.histogram else { continue };
            let mut row = vec![system_name(system), metric.name.clone()];
            row.extend(values.iter().map(|value| histogram.get(value).copied().unwrap_or(0).to_string()));
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
    let arrow = |metric: &MetricSummary| match metric.better {
        crate::task::Better::Lower => "↓",
        crate::task::Better::Higher => "↑",
    };
    run.systems.first().map(|s| overall(s).map(|m| (m.name.clone(), arrow(m))).collect()).unwrap_or_default()
}

/// `0.250 [0.100, 0.400]`, with its own n where that is not the system's.
fn cell(metric: &MetricSummary, usual_n: u64) -> String {
    let Some(value) = metric.value else { return "-".to_owned() };
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
    if system.system.is_empty() {
        return "(no system)".to_owned();
    }
    // A name comes from the data: it must not move the terminal's cursor.
    system.system.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn percent(share: f64) -> String {
    // Never round up to 100%: that would hide a missing verdict.
    if share >= 1.0 { "100%".to_owned() } else { format!("{:.1}%", (share * 1000.0).floor() / 10.0) }
}
