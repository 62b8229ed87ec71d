//! One line a stage, for spreadsheets and data frames.

use csv::WriterBuilder;

use crate::bench::compare::Comparison;
use crate::bench::plan::Cell;
use crate::bench::result::Bench;
use crate::bench::statistics::Summary;
use crate::report::printable;

const CELL: [&str; 5] = ["quant", "batch", "frames", "threads", "max_tokens"];
const NUMBERS: [&str; 9] = ["n", "mean", "min", "p50", "p90", "p99", "max", "low", "high"];
const TOTALS: [&str; 3] = ["judgements_per_hour", "peak_memory_bytes", "joules_per_judgement"];
const COMPARED: [&str; 5] = ["a", "b", "times_as_fast", "low", "high"];

/// A measurement as CSV.
pub fn of_bench(bench: &Bench) -> String {
    let mut lines = vec![header(&["judge", "task"], &[&NUMBERS, &TOTALS])];
    for result in &bench.cells {
        for (stage, summary) in &result.stages {
            let Summary { n, mean, min, p50, p90, p99, max, low, high } = *summary;
            let mut line = vec![bench.judge.name.clone(), bench.workload.task.clone()];
            line.extend(cell(&result.cell));
            line.extend([stage.name().to_owned(), n.to_string()]);
            line.extend([mean, min, p50, p90, p99, max, low, high].map(|number| number.to_string()));
            line.push(result.judgements_per_hour.to_string());
            line.push(result.peak_memory.map_or(String::new(), |peak| peak.bytes.to_string()));
            line.push(result.joules_per_judgement.map_or(String::new(), |joules| joules.to_string()));
            lines.push(line);
        }
    }
    written(&lines)
}

/// A comparison as CSV.
pub fn of_comparison(comparison: &Comparison) -> String {
    let mut lines = vec![header(&[], &[&COMPARED])];
    for difference in &comparison.differences {
        let mut line: Vec<String> = cell(&difference.cell).into();
        line.push(difference.stage.name().to_owned());
        let numbers = [difference.a, difference.b, difference.times_as_fast, difference.low, difference.high];
        line.extend(numbers.map(|number| number.to_string()));
        lines.push(line);
    }
    written(&lines)
}

fn header(first: &[&str], rest: &[&[&str]]) -> Vec<String> {
    let names = first.iter().chain(&CELL).chain(&["stage"]).chain(rest.iter().copied().flatten());
    names.map(|name| (*name).to_owned()).collect()
}

fn cell(cell: &Cell) -> [String; 5] {
    [
        cell.quant.clone(),
        cell.batch.to_string(),
        cell.frames.map_or(String::new(), |frames| frames.to_string()),
        cell.threads.to_string(),
        cell.max_tokens.to_string(),
    ]
}

fn written(lines: &[Vec<String>]) -> String {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    for line in lines {
        // Writing to memory cannot fail, and all lines have as many fields as the header.
        let _ = writer.write_record(line.iter().map(|field| printable(field, &['\n', '\t'])));
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}
