//! Two measurements of the same work, cell by cell and stage by stage.
//!
//! Invariant: a difference is claimed only where the 95% interval of the ratio does not contain 1. What was not the same
//! work is not compared.

use schemars::JsonSchema;
use serde::Serialize;

use super::BenchError;
use super::plan::Cell;
use super::result::{Bench, Stage};
use super::statistics::ratio;

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// 1.
    pub schema_version: u32,
    /// Every stage of every cell that both have.
    pub differences: Vec<Difference>,
    /// What should be known about it.
    pub notes: Vec<String>,
}

/// A stage of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// The cell.
    pub cell: Cell,
    /// The stage.
    pub stage: Stage,
    /// The median in A: seconds, or tokens a second.
    pub a: f64,
    /// The median in B.
    pub b: f64,
    /// How many times as fast B is as A.
    pub times_as_fast: f64,
    /// Where the 95% interval of that begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// All of it in a sentence.
    pub sentence: String,
}

/// Compares B with A.
pub fn compare(a: &Bench, b: &Bench) -> Result<Comparison, BenchError> {
    let works = [&a.workload, &b.workload];
    let [of_a, of_b] = works;
    let must_agree = [
        ("the task", &of_a.task, &of_b.task),
        ("the prompt", &of_a.prompt_sha256, &of_b.prompt_sha256),
        ("the data set", &of_a.data_sha256, &of_b.data_sha256),
        ("the number of records", &of_a.records.to_string(), &of_b.records.to_string()),
        ("what is shown", &of_a.pictures, &of_b.pictures),
    ];
    if let Some((what, one, other)) = must_agree.into_iter().find(|(_, one, other)| one != other) {
        return Err(BenchError::Incomparable(format!("{what} is another ({one} and {other}); measure the same work")));
    }
    let mut notes = Vec::new();
    if !a.machine.is_like(&b.machine) {
        notes.push("A and B are of different machines: the ratios tell of both machine and program".to_owned());
    }
    if a.judge.sha256 != b.judge.sha256 {
        let (one, other) = (&a.judge.name, &b.judge.name);
        notes.push(format!("A and B are of different models ({one} and {other}): they do not do the same work"));
    }
    if of_a.reuse != of_b.reuse {
        notes.push("the beginning that prompts have in common is read once in one of A and B alone".to_owned());
    }
    for (name, bench) in [("A", a), ("B", b)] {
        notes.extend(bench.warnings.iter().map(|warning| format!("{name}: {warning}")));
    }
    let all: Vec<Cell> = a.cells.iter().map(|result| result.cell.clone()).collect();
    let mut differences = Vec::new();
    for one in &a.cells {
        let Some(other) = b.cells.iter().find(|other| other.cell == one.cell) else {
            notes.push(format!("only A has the cell {}", one.cell.named(&all)));
            continue;
        };
        for stage in Stage::ALL {
            let name = format!("{} {}", one.cell.named(&[]), stage.name());
            let (values_a, values_b) = (one.values(stage), other.values(stage));
            // Less time, or more of a rate, is faster.
            let found = match stage.is_rate() {
                true => ratio(&values_b, &values_a, &name),
                false => ratio(&values_a, &values_b, &name),
            };
            let (Some((times, low, high)), Some(a), Some(b)) =
                (found, one.stages.get(&stage), other.stages.get(&stage))
            else {
                continue;
            };
            let place = if all.len() > 1 { format!("{}: ", one.cell.named(&all)) } else { String::new() };
            differences.push(Difference {
                cell: one.cell.clone(),
                stage,
                a: a.p50,
                b: b.p50,
                times_as_fast: times,
                low,
                high,
                sentence: format!("{place}{}", sentence(stage, times, low, high)),
            });
        }
    }
    for other in &b.cells {
        if !all.contains(&other.cell) {
            notes.push(format!("only B has the cell {}", other.cell.named(&all)));
        }
    }
    if differences.is_empty() {
        return Err(BenchError::Incomparable("they have no cell in common; sweep over the same values".to_owned()));
    }
    Ok(Comparison { schema_version: 1, differences, notes })
}

/// A ratio in plain words.
fn sentence(stage: Stage, times: f64, low: f64, high: f64) -> String {
    let what = match stage {
        Stage::Frames => "in decoding frames",
        Stage::Pixels => "in preparing pixels",
        Stage::Tower => "in the vision tower",
        Stage::Prefill | Stage::PrefillRate => "in reading the prompt",
        Stage::FirstToken => "to the first token",
        Stage::Decode | Stage::DecodeRate => "in writing the answer",
        Stage::Parse => "in reading the answer",
        Stage::Verdict => "to a verdict",
    };
    let rate = if stage.is_rate() { ", in tokens a second" } else { "" };
    if low > 1.0 {
        format!("B is {times:.2} times as fast as A {what}{rate} (95% interval {low:.2} to {high:.2})")
    } else if high < 1.0 {
        let (slower, low, high) = (1.0 / times, 1.0 / high, 1.0 / low);
        format!("B takes {slower:.2} times as long as A {what}{rate} (95% interval {low:.2} to {high:.2})")
    } else {
        format!(
            "no difference can be told {what}{rate}: B is {times:.2} times as fast (95% interval {low:.2} to {high:.2}); \
             take more repeats"
        )
    }
}
