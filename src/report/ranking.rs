//! Systems over several tasks: who does better, and by which numbers.

use std::collections::BTreeSet;

use super::{Grid, arrow, cell, overall, percent, system_name};
use crate::metrics::{RunSummary, Summary, SystemSummary};
use crate::task::Better;

/// The systems of all runs with their places, best first: those with the lowest mean place by the first metric of each
/// run. Systems that are equally good share a place, and one without a number comes behind all that have one.
pub fn ranked(summary: &Summary) -> Vec<(usize, String)> {
    let names: BTreeSet<&str> = summary.runs.iter().flat_map(|run| &run.systems).map(|s| s.system.as_str()).collect();
    let sum = |name: &str| summary.runs.iter().map(|run| better_ones(run, name)).sum::<usize>();
    let mut sums: Vec<(usize, String)> = names.into_iter().map(|name| (sum(name), name.to_owned())).collect();
    sums.sort();
    let place = |sum: usize| 1 + sums.iter().filter(|(other, _)| *other < sum).count();
    sums.iter().map(|(sum, name)| (place(*sum), name.clone())).collect()
}

/// How many systems of a run are better than this one by its first metric.
fn better_ones(run: &RunSummary, name: &str) -> usize {
    let value = |system: &SystemSummary| {
        let metric = overall(system).next()?;
        let value = metric.value?;
        Some(if metric.better == Better::Higher { value } else { -value })
    };
    let own = find(run, name).and_then(value).unwrap_or(f64::NEG_INFINITY);
    run.systems.iter().filter_map(value).filter(|other| *other > own).count()
}

fn find<'a>(run: &'a RunSummary, name: &str) -> Option<&'a SystemSummary> {
    run.systems.iter().find(|system| system.system == name)
}

/// Metrics down, systems across, the best first.
pub(super) fn grid(summary: &Summary) -> Grid {
    let places = ranked(summary);
    let mut header = vec!["task".to_owned(), "metric".to_owned()];
    let mut rows = Vec::new();
    for (place, name) in &places {
        let system = summary.runs.iter().find_map(|run| find(run, name));
        header.push(format!("{place}. {}", system.map(system_name).unwrap_or_default()));
    }
    for run in &summary.runs {
        let systems: Vec<Option<&SystemSummary>> = places.iter().map(|(_, name)| find(run, name)).collect();
        let row = |name: String, of: &dyn Fn(&SystemSummary) -> Option<String>| {
            let cells = systems.iter().map(|system| system.and_then(of).unwrap_or_else(|| "-".to_owned()));
            [run.task.clone(), name].into_iter().chain(cells).collect()
        };
        for metric in run.systems.first().into_iter().flat_map(overall) {
            rows.push(row(format!("{} {}", metric.name, arrow(metric)), &|system| {
                let same = overall(system).find(|other| other.name == metric.name)?;
                Some(cell(same, system.scored))
            }));
        }
        rows.push(row("n, coverage".to_owned(), &|system| {
            Some(format!("{} of {}, {}", system.scored, system.records, percent(system.coverage)))
        }));
    }
    Grid { title: "systems, best first by their mean place over the tasks".to_owned(), header, rows, notes: Vec::new() }
}
