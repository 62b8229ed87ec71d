//! Counts verdicts as they come, in any order.

use std::collections::BTreeMap;

use super::facts::{Facts, Numbers, value};
use super::summary::{Bin, Disagreements, MetricSummary, SystemSummary, share};
use super::{Bootstrap, Sample};
use crate::task::{AnswerSpec, Better, Formula, MetricSpec, Task};

/// The longest scale, from its first score to its last, whose scores are listed where they do not occur: a task may
/// declare one that would not fit in memory.
const LISTED_SCALE: u32 = 100;

/// Verdicts of one task, counted by system.
#[derive(Debug, Clone)]
pub struct Tally<'a> {
    task: &'a Task,
    systems: BTreeMap<String, System>,
}

#[derive(Debug, Clone, Default)]
struct System {
    judged: u64,
    scored: u64,
    unscored: BTreeMap<String, u64>,
    compared: u64,
    differ: u64,
    /// For each metric: all caption types together, then each.
    samples: Vec<BTreeMap<Option<String>, Sample>>,
}

impl<'a> Tally<'a> {
    /// Counts verdicts of that task.
    pub fn new(task: &'a Task) -> Self {
        Self { task, systems: BTreeMap::new() }
    }

    /// Counts a verdict.
    pub fn add(&mut self, facts: &Facts<'_>) {
        if !self.systems.contains_key(facts.system) {
            self.systems.insert(facts.system.to_owned(), System::default());
        }
        let Some(system) = self.systems.get_mut(facts.system) else { return };
        system.judged += 1;
        match &facts.numbers {
            Ok(Numbers::Counts(_, agree)) => {
                system.scored += 1;
                system.compared += u64::from(agree.is_some());
                system.differ += u64::from(*agree == Some(false));
            }
            Ok(Numbers::Score { .. }) => system.scored += 1,
            Err(reason) => *system.unscored.entry(reason.to_string()).or_default() += 1,
        }
        system.samples.resize(self.task.spec.metrics.len(), BTreeMap::new());
        for (metric, samples) in self.task.spec.metrics.iter().zip(&mut system.samples) {
            if !facts.belongs(&metric.formula) {
                continue;
            }
            let value = facts.numbers.as_ref().ok().and_then(|numbers| value(&metric.formula, numbers, facts.events));
            let by_type = matches!(metric.formula, Formula::Mean { by_caption_type: true, .. });
            let own_type = facts.caption_type.filter(|_| by_type);
            for group in std::iter::once(None).chain(own_type.map(Some)) {
                let sample = samples.entry(group.map(str::to_owned)).or_default();
                sample.records += 1;
                if let Some(value) = value {
                    sample.add(value);
                }
            }
        }
    }

    /// How many verdicts there are, and how many with numbers.
    pub fn totals(&self) -> (u64, u64) {
        self.systems.values().fold((0, 0), |(judged, scored), system| (judged + system.judged, scored + system.scored))
    }

    /// The systems, best first. `records` are the records of each system in the data set, where that is known.
    pub fn systems(mut self, records: &BTreeMap<String, u64>, bootstrap: Bootstrap) -> Vec<SystemSummary> {
        for system in records.keys() {
            self.systems.entry(system.clone()).or_default();
        }
        let mut systems: Vec<SystemSummary> = self
            .systems
            .iter()
            .map(|(name, system)| {
                let records = records.get(name).copied().unwrap_or(system.judged).max(system.judged);
                self.system(name, system, records, bootstrap)
            })
            .collect();
        // A stable sort: equal systems stay in the order of their names.
        systems.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        systems
    }

    fn system(&self, name: &str, system: &System, records: u64, bootstrap: Bootstrap) -> SystemSummary {
        let mut metrics = Vec::new();
        for (index, spec) in self.task.spec.metrics.iter().enumerate() {
            let none = BTreeMap::new();
            let samples = system.samples.get(index).unwrap_or(&none);
            // Of a record without a verdict it is not known whether it has an inserted event.
            let only_some = matches!(spec.formula, Formula::ShareAboveZero { only: Some(_), .. });
            let pending = if only_some { 0 } else { records - system.judged };
            let whole = samples.get(&None).cloned().unwrap_or_default();
            metrics.push(self.metric(name, spec, None, &whole, whole.records + pending, bootstrap));
            for (group, sample) in samples.iter().filter_map(|(group, sample)| Some((group.as_deref()?, sample))) {
                metrics.push(self.metric(name, spec, Some(group), sample, sample.records, bootstrap));
            }
        }
        let is_counts = matches!(self.task.spec.answer, AnswerSpec::Counts(_));
        SystemSummary {
            system: name.to_owned(),
            records,
            judged: system.judged,
            scored: system.scored,
            coverage: share(system.scored, records),
            unscored: system.unscored.clone(),
            disagreements: is_counts.then_some(Disagreements { compared: system.compared, differ: system.differ }),
            metrics,
        }
    }

    fn metric(
        &self,
        system: &str,
        spec: &MetricSpec,
        group: Option<&str>,
        sample: &Sample,
        records: u64,
        bootstrap: Bootstrap,
    ) -> MetricSummary {
        let interval = bootstrap.interval(sample, &[&self.task.name, system, &spec.name, group.unwrap_or_default()]);
        let histogram = matches!(spec.formula, Formula::Mean { histogram: true, .. });
        MetricSummary {
            name: spec.name.clone(),
            better: spec.better,
            caption_type: group.map(str::to_owned),
            records,
            n: sample.len(),
            coverage: share(sample.len(), records),
            value: sample.mean(),
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
            histogram: histogram.then(|| self.histogram(sample)),
        }
    }

    /// How often each value occurs; for a score, also those that do not.
    fn histogram(&self, sample: &Sample) -> Vec<Bin> {
        let mut bins: Vec<Bin> = sample.iter().map(|(value, count)| Bin { value, count }).collect();
        if let AnswerSpec::JsonScore(spec) = &self.task.spec.answer
            && spec.max.saturating_sub(spec.min) <= LISTED_SCALE
        {
            bins.extend((spec.min..=spec.max).map(|score| Bin { value: f64::from(score), count: 0 }));
            // A stable sort: the count that was taken stands before the 0, and stays.
            bins.sort_by(|a, b| a.value.total_cmp(&b.value));
            bins.dedup_by_key(|bin| bin.value);
        }
        bins
    }
}

/// Smaller is better; without a value, last.
fn rank(system: &SystemSummary) -> f64 {
    match system.metrics.first() {
        Some(MetricSummary { value: Some(value), better: Better::Lower, .. }) => *value,
        Some(MetricSummary { value: Some(value), better: Better::Higher, .. }) => -value,
        _ => f64::INFINITY,
    }
}
