//! A measurement, or a comparison of two, for people and for programs: one exporter a file.
//!
//! Invariant: no exporter computes; all show the numbers of [`Bench`]. No text of it can move a terminal's cursor.

mod csv;
mod json;
mod markdown;
mod table;

use clap::ValueEnum;

use super::compare::Comparison;
use super::result::{Bench, CellResult, Stage};
use super::statistics::Summary;
use crate::report::printable;

/// The forms that results can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BenchFormat {
    /// Tables for the terminal.
    Table,
    /// JSON with all samples (capjudge schema bench).
    Json,
    /// One line a stage, for spreadsheets.
    Csv,
    /// Tables for a README or a report.
    Markdown,
}

/// Writes a measurement in a form.
pub fn render(bench: &Bench, format: BenchFormat) -> String {
    match format {
        BenchFormat::Table => table::render(&of_bench(bench)),
        BenchFormat::Json => json::render(bench),
        BenchFormat::Csv => csv::of_bench(bench),
        BenchFormat::Markdown => markdown::render(&of_bench(bench)),
    }
}

/// Writes a comparison in a form.
pub fn render_comparison(comparison: &Comparison, format: BenchFormat) -> String {
    match format {
        BenchFormat::Table => table::render(&of_comparison(comparison)),
        BenchFormat::Json => json::render(comparison),
        BenchFormat::Csv => csv::of_comparison(comparison),
        BenchFormat::Markdown => markdown::render(&of_comparison(comparison)),
    }
}

/// What tables show.
struct Document {
    /// Lines before the tables.
    facts: Vec<String>,
    tables: Vec<Grid>,
    /// Lines behind them.
    notes: Vec<String>,
}

struct Grid {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Document {
    /// All of its text made printable: names of models and files come from users.
    fn printable(self) -> Self {
        let all = |texts: Vec<String>| texts.iter().map(|text| printable(text, &[])).collect::<Vec<_>>();
        let grid = |grid: Grid| Grid {
            title: printable(&grid.title, &[]),
            header: all(grid.header),
            rows: grid.rows.into_iter().map(all).collect(),
        };
        Self { facts: all(self.facts), tables: self.tables.into_iter().map(grid).collect(), notes: all(self.notes) }
    }
}

fn of_bench(bench: &Bench) -> Document {
    let cells: Vec<_> = bench.cells.iter().map(|result| result.cell.clone()).collect();
    let mut tables = Vec::new();
    if bench.cells.len() > 1 {
        tables.push(overview(bench));
    }
    for result in &bench.cells {
        tables.push(stages(result, &result.cell.named(if cells.len() > 1 { &cells } else { &[] })));
    }
    let mut notes =
        vec!["low, high: 95% interval of the median by bootstrap; percentiles as numpy has them".to_owned()];
    notes.extend(bench.warnings.iter().map(|warning| format!("warning: {warning}")));
    Document { facts: facts(bench), tables, notes }.printable()
}

fn facts(bench: &Bench) -> Vec<String> {
    let Bench { machine, judge, workload, plan, .. } = bench;
    let memory = machine.memory_bytes.map(|bytes| format!(", {} of memory", size(bytes))).unwrap_or_default();
    let caches: Vec<String> = machine.caches.iter().map(|(name, size)| format!("{name} {size}")).collect();
    let random = if judge.random { ", random weights" } else { "" };
    let digest: String = judge.sha256.chars().take(12).collect();
    let mut facts = vec![
        format!(
            "{}: {} physical cores, {}{memory}; {}",
            machine.cpu.as_deref().unwrap_or("unknown processor"),
            machine.physical_cores,
            caches.join(", "),
            machine.os
        ),
        format!("{} (SHA-256 {digest}…{random}), {}", judge.name, judge.arithmetic),
        format!(
            "{} of {} records ({}), pictures: {}; {} warm-up and {} counted turns",
            workload.task, workload.records, workload.data, workload.pictures, plan.warmup, plan.repeats
        ),
    ];
    for load in &bench.loads {
        let cold = load.cold_seconds.map(|cold| format!("cold {}, ", seconds(cold))).unwrap_or_default();
        let warm: Vec<String> = load.warm_seconds.iter().copied().map(seconds).collect();
        let warm = if warm.is_empty() { "not timed".to_owned() } else { format!("warm {}", warm.join(", ")) };
        let first = seconds(load.first_verdict_seconds);
        facts.push(format!("load, quant {}: {cold}{warm}; first verdict after {first} ({})", load.quant, load.note));
    }
    facts
}

/// A line for each cell: what people ask first.
fn overview(bench: &Bench) -> Grid {
    let cells: Vec<_> = bench.cells.iter().map(|result| result.cell.clone()).collect();
    let shown = [Stage::Verdict, Stage::FirstToken, Stage::PrefillRate, Stage::DecodeRate];
    let mut header = vec!["cell".to_owned()];
    header.extend(shown.iter().map(|stage| format!("{} p50", stage.name())));
    header.extend(["judgements/h", "peak memory", "J a judgement"].map(str::to_owned));
    let rows = bench.cells.iter().map(|result| {
        let mut row = vec![result.cell.named(&cells)];
        row.extend(
            shown
                .iter()
                .map(|stage| result.stages.get(stage).map_or("-".to_owned(), |summary| value(*stage, summary.p50))),
        );
        row.extend(totals(result));
        row
    });
    Grid { title: "all cells".to_owned(), header, rows: rows.collect() }
}

fn totals(result: &CellResult) -> [String; 3] {
    [
        format!("{:.0}", result.judgements_per_hour),
        result.peak_memory.map_or("-".to_owned(), |peak| size(peak.bytes)),
        result.joules_per_judgement.map_or("-".to_owned(), |joules| format!("{joules:.1}")),
    ]
}

/// A line for each stage of a cell.
fn stages(result: &CellResult, name: &str) -> Grid {
    let header = ["stage", "p50", "p90", "p99", "mean", "low", "high", "n"].map(str::to_owned).to_vec();
    let row = |stage: Stage, summary: &Summary| {
        let Summary { n, mean, p50, p90, p99, low, high, .. } = *summary;
        let mut row = vec![stage.name().to_owned()];
        row.extend([p50, p90, p99, mean, low, high].map(|number| value(stage, number)));
        row.push(n.to_string());
        row
    };
    let rows = Stage::ALL.into_iter().filter_map(|stage| Some(row(stage, result.stages.get(&stage)?))).collect();
    let [hour, peak, joules] = totals(result);
    let tokens = result.samples.last().map_or(String::new(), |sample| {
        format!("; {} tokens read, {} of them before", sample.prompt_tokens, sample.reused_tokens)
    });
    let joules = if joules == "-" { String::new() } else { format!("; {joules} J a judgement") };
    Grid { title: format!("{name}: {hour} judgements/h, peak memory {peak}{joules}{tokens}"), header, rows }
}

fn of_comparison(comparison: &Comparison) -> Document {
    let mut cells: Vec<_> = comparison.differences.iter().map(|difference| difference.cell.clone()).collect();
    cells.dedup();
    let rows = comparison.differences.iter().map(|difference| {
        let mut row = vec![difference.cell.named(&cells), difference.stage.name().to_owned()];
        row.extend([difference.a, difference.b].map(|number| value(difference.stage, number)));
        row.push(format!("{:.2} [{:.2}, {:.2}]", difference.times_as_fast, difference.low, difference.high));
        row
    });
    let header = ["cell", "stage", "A p50", "B p50", "B times as fast"].map(str::to_owned).to_vec();
    let table = Grid { title: "B against A".to_owned(), header, rows: rows.collect() };
    let verdicts = comparison.differences.iter().filter(|difference| difference.stage == Stage::Verdict);
    let facts = verdicts.map(|difference| difference.sentence.clone()).collect();
    let notes = comparison.notes.iter().map(|note| format!("note: {note}")).collect();
    Document { facts, tables: vec![table], notes }.printable()
}

fn value(stage: Stage, number: f64) -> String {
    if stage.is_rate() { format!("{number:.1}") } else { seconds(number) }
}

/// Seconds with a unit that leaves three digits.
fn seconds(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 100.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.1} µs", seconds * 1e6),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}
