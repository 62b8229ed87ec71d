//! Takes the samples: models one after the other, cells of a model by turns.
//!
//! Invariant: cells of one model take turns (A B C, A B C …), so that a machine that slows down slows all of them. Only
//! one model is in memory at a time: two would compete for it, and the peak of memory would be nobody's.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::BenchError;
use super::judgement::{Turn, judge_all};
use super::load::time_loads;
use super::machine::{Machine, Pulse, forget_peak, peak};
use super::plan::{Cell, Sweep};
use super::result::{Bench, CellResult, JudgeFacts, Judgement, Load, Peak, Plan, SCHEMA_VERSION, Since, WorkloadFacts};
use super::warnings::{warnings_between, warnings_of};
use super::workload::Workload;
use crate::judge::{self, Judge, Settings};
use crate::kernels::set_threads;
use crate::model::LoadOptions;
use crate::model::synthetic::Shape;
use crate::model::weights::Quant;
use crate::run::Fingerprint;
use crate::task::Task;

const ORDER: &str = "cells of one model by turns, models one after the other";

/// What is measured.
#[derive(Debug)]
pub struct Options<'a> {
    /// The judge's name.
    pub judge: &'a str,
    /// How it is loaded, but for the quantisation of layers, which the sweep says.
    pub load: LoadOptions,
    /// The task.
    pub task: &'a Task,
    /// What is judged.
    pub workload: &'a Workload,
    /// What is swept over.
    pub sweep: &'a Sweep,
    /// Whether the beginning that prompts have in common is read once.
    pub reuse: bool,
    /// Turns of each cell that do not count.
    pub warmup: usize,
    /// Turns of each cell that do.
    pub repeats: usize,
    /// How often a model is loaded to time it, beside the cold time.
    pub loads: usize,
}

/// What is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measuring<'a> {
    /// A model is loaded with this quantisation.
    Loading(&'a str),
    /// A turn begins.
    Turn {
        /// Which one, counted from 1 over all cells.
        number: usize,
        /// Of how many.
        of: usize,
        /// Whether it counts.
        counts: bool,
        /// The cell.
        cell: &'a str,
    },
}

/// Measures. `None` if the user interrupted it.
pub fn measure(
    options: &Options<'_>,
    interrupt: &AtomicBool,
    on: &mut dyn FnMut(Measuring<'_>),
) -> Result<Option<Bench>, BenchError> {
    let Options { task, workload, .. } = *options;
    let cells = options.sweep.cells(task.sees_frames())?;
    let (machine, before) = (Machine::here(), Pulse::now());
    let (mut loads, mut results): (Vec<Load>, Vec<CellResult>) = Default::default();
    let mut facts = None;
    for group in cells.chunk_by(|a, b| a.quant == b.quant) {
        let Some(first) = group.first() else { continue };
        on(Measuring::Loading(&first.quant));
        let load = LoadOptions { quant: Quant { layers: first.dtype(), ..options.load.quant }, ..options.load.clone() };
        let mut times = time_loads(options.judge, &first.quant, &load, options.loads)?;
        let max_tokens = group.iter().map(|cell| cell.max_tokens).max().unwrap_or(1);
        // What is kept of a video would make the next turn cheaper than a first judgement is.
        let settings = Settings { load, max_tokens, reuse: options.reuse, kept_bytes: 0, ..Settings::default() };
        let mut judge = judge::open(options.judge, &settings, &mut |_| {})?;
        judge.check(task)?;
        let identity = judge.identity();
        facts.get_or_insert_with(|| JudgeFacts {
            name: identity.name,
            sha256: identity.sha256,
            arithmetic: settings.load.compute.name(),
            random: Shape::of_model(options.judge).is_some(),
        });
        let turns = Turns { options, cells: &cells, group, done: results.len(), interrupt };
        let Some((first_verdict, of_group)) = turns.take(judge.as_mut(), on)? else { return Ok(None) };
        times.first_verdict_seconds = first_verdict;
        loads.push(times);
        results.extend(of_group);
    }
    // A sweep has at least one cell.
    let Some(judge) = facts else { return Ok(None) };
    let plan = Plan { warmup: options.warmup, repeats: options.repeats, order: ORDER.to_owned() };
    let workload = WorkloadFacts {
        task: task.name.clone(),
        prompt_sha256: Fingerprint::prompt(task.template.text()),
        data: workload.data.clone(),
        data_sha256: workload.data_sha256.clone(),
        records: workload.records.len(),
        pictures: workload.shown.clone(),
        reuse: options.reuse,
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let mut bench = Bench {
        schema_version: SCHEMA_VERSION,
        version,
        machine,
        judge,
        workload,
        plan,
        loads,
        cells: results,
        warnings: Vec::new(),
    };
    let warnings = warnings_of(&bench).into_iter().chain(warnings_between(&before, &Pulse::now()));
    bench.warnings = warnings.map(|warning| warning.to_string()).collect();
    Ok(Some(bench))
}

/// The turns of the cells of one model.
struct Turns<'a> {
    options: &'a Options<'a>,
    /// All cells of the sweep.
    cells: &'a [Cell],
    /// Those of the model.
    group: &'a [Cell],
    /// Cells of the models before it.
    done: usize,
    interrupt: &'a AtomicBool,
}

/// What turns of a cell gave so far.
#[derive(Default)]
struct Taken {
    samples: Vec<Judgement>,
    seconds: f64,
    joules: Option<f64>,
    peak: Option<Peak>,
}

impl Turns<'_> {
    /// The seconds to the first verdict, and the results of the cells.
    fn take(
        &self,
        judge: &mut dyn Judge,
        on: &mut dyn FnMut(Measuring<'_>),
    ) -> Result<Option<(f64, Vec<CellResult>)>, BenchError> {
        let Options { task, workload, warmup, repeats, .. } = *self.options;
        let (rounds, of) = (warmup + repeats, (warmup + repeats) * self.cells.len());
        let mut number = self.done * rounds;
        let mut first_verdict = None;
        let mut taken: Vec<Taken> = self.group.iter().map(|_| Taken::default()).collect();
        for round in 0..rounds {
            for (cell, taken) in self.group.iter().zip(&mut taken) {
                number += 1;
                let counts = round >= warmup;
                on(Measuring::Turn { number, of, counts, cell: &cell.named(self.cells) });
                set_threads(cell.threads);
                let since = if forget_peak() { Since::Cell } else { Since::Start };
                let (before, start) = (Pulse::now(), Instant::now());
                let repeat = (round + 1).saturating_sub(warmup);
                let turn = Turn { task, workload, cell, repeat, interrupt: self.interrupt };
                let Some(samples) = judge_all(&turn, judge)? else { return Ok(None) };
                first_verdict.get_or_insert_with(|| samples.first().map_or(0.0, |sample| sample.verdict));
                if counts {
                    taken.seconds += start.elapsed().as_secs_f64();
                    let joules = Pulse::now().joules_since(&before);
                    taken.joules = joules.map(|joules| joules + taken.joules.unwrap_or(0.0));
                    taken.peak = [taken.peak, peak(since)].into_iter().flatten().max_by_key(|peak| peak.bytes);
                    taken.samples.extend(samples);
                }
            }
        }
        let results = self.group.iter().zip(taken).map(|(cell, taken)| taken.result(cell)).collect();
        Ok(Some((first_verdict.unwrap_or(0.0), results)))
    }
}

impl Taken {
    fn result(self, cell: &Cell) -> CellResult {
        let count = self.samples.len() as f64;
        CellResult {
            cell: cell.clone(),
            stages: CellResult::summaries(&self.samples),
            judgements_per_hour: if self.seconds > 0.0 { count * 3600.0 / self.seconds } else { 0.0 },
            peak_memory: self.peak,
            joules_per_judgement: self.joules.map(|joules| joules / count.max(1.0)),
            samples: self.samples,
        }
    }
}
