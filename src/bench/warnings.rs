//! What should be known about numbers before they are believed, and what to do about it.
//!
//! Invariant: a warning says what was seen and names the remedy. Nothing is left out or corrected because of one.

use std::fmt;

use super::machine::Pulse;
use super::result::{Bench, CellResult, Since, Stage};
use super::statistics::median;

/// Fewer samples than this say little about the slowest of a hundred.
const FOR_P99: usize = 100;
/// Spread (the distance between quartiles, over the median) that is no longer quiet.
const NOISY: f64 = 0.1;
/// Change from the first half of the turns to the second.
const DRIFT: f64 = 0.1;
/// Share of the processor that other guests may take.
const STOLEN: f64 = 0.01;

/// A reason for care.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// The program was built without optimisation.
    DebugBuild,
    /// Other programs were running.
    Busy {
        /// Programs that wanted to run.
        load: f64,
        /// Cores.
        cores: usize,
    },
    /// The processor saves power.
    Governor(String),
    /// The processor was too hot.
    Throttled(u64),
    /// Other guests of the host took time, in percent.
    Stolen(f64),
    /// There are too few samples for the last percentile.
    TooFew {
        /// Samples of a cell.
        samples: usize,
        /// Repeats that would be enough.
        repeats: usize,
    },
    /// Times of the same work differ a lot.
    Noisy {
        /// The cell.
        cell: String,
        /// The distance between quartiles, in percent of the median.
        percent: f64,
    },
    /// The machine became slower, or faster, in percent.
    Drift {
        /// The cell.
        cell: String,
        /// Above 0: slower.
        percent: f64,
    },
    /// Answers were no verdicts.
    Unscored {
        /// How many.
        unscored: usize,
        /// Of how many.
        of: usize,
        /// Whether the model's weights are random, so that none could be.
        random: bool,
    },
    /// There is no cold time to load.
    NoColdLoad,
    /// Peaks of memory are those since the start.
    PeakSinceStart,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DebugBuild => {
                write!(f, "this program was built without optimisation and is many times slower than it could be; ")?;
                write!(f, "build it with cargo build --release")
            }
            Self::Busy { load, cores } => {
                write!(f, "the machine was busy before anything was measured: a load of {load:.1} on {cores} cores; ")?;
                write!(f, "stop other programs, or measure when they are done")
            }
            Self::Governor(name) => {
                write!(f, "the processor's speed is governed by `{name}`, which changes while it measures; ")?;
                write!(f, "set it: cpupower frequency-set -g performance")
            }
            Self::Throttled(times) => {
                write!(f, "the processor was slowed down {times} times because it was hot; ")?;
                write!(f, "let it cool, measure with fewer --threads, or see to its cooling")
            }
            Self::Stolen(percent) => {
                write!(f, "other guests of this virtual machine's host took {percent:.1}% of the processor's time; ")?;
                write!(f, "compare only what was measured in turns, or use a machine of its own")
            }
            Self::TooFew { samples, repeats } => {
                write!(f, "{samples} samples of a cell say little about p99, which is near the slowest of them; ")?;
                write!(f, "take --repeats {repeats} for a hundred")
            }
            Self::Noisy { cell, percent } => {
                write!(
                    f,
                    "{cell}: times to a verdict for the same record differ by {percent:.0}% between quartiles; "
                )?;
                write!(f, "take more --repeats, and stop other programs")
            }
            Self::Drift { cell, percent } => {
                let how = if *percent > 0.0 { "slower" } else { "faster" };
                write!(f, "{cell}: the second half of the turns was {:.0}% {how} than the first; ", percent.abs())?;
                write!(f, "take more --warmup, and let the machine settle")
            }
            Self::Unscored { unscored, of, random } => {
                write!(
                    f,
                    "{unscored} of {of} answers were no verdicts; for them, time to verdict is the time to the "
                )?;
                match random {
                    true => write!(f, "end of --max-tokens: a random model never ends by itself"),
                    false => write!(f, "end of the answer; raise --max-tokens if they were cut off"),
                }
            }
            Self::NoColdLoad => {
                write!(f, "the model's files could not be dropped from the kernel's cache: no cold time to load; ")?;
                write!(f, "measure it after a restart")
            }
            Self::PeakSinceStart => {
                write!(f, "peaks of memory are those since the start, so that a cell may show another's; ")?;
                write!(f, "measure cells one by one (/proc/self/clear_refs cannot be written)")
            }
        }
    }
}

/// Those that the machine's counters tell, from before and after.
pub fn warnings_between(before: &Pulse, after: &Pulse) -> Vec<Warning> {
    let mut all = Vec::new();
    if let (Some(before), Some(after)) = (before.throttled, after.throttled)
        && after > before
    {
        all.push(Warning::Throttled(after - before));
    }
    if let (Some((stolen, total)), Some((stolen_now, total_now))) = (before.stolen, after.stolen) {
        let share = stolen_now.saturating_sub(stolen) as f64 / total_now.saturating_sub(total).max(1) as f64;
        all.extend((share > STOLEN).then_some(Warning::Stolen(share * 100.0)));
    }
    all
}

/// Those that a result tells by itself.
pub fn warnings_of(bench: &Bench) -> Vec<Warning> {
    let mut all = Vec::new();
    let machine = &bench.machine;
    if cfg!(debug_assertions) {
        all.push(Warning::DebugBuild);
    }
    let cores = machine.logical_cores;
    // One core's worth of other work in four is felt.
    let busy = machine.load_average.filter(|load| *load > 0.25 * cores as f64);
    all.extend(busy.map(|load| Warning::Busy { load, cores }));
    let slow = machine.governor.clone().filter(|name| name != "performance");
    all.extend(slow.map(Warning::Governor));
    let fewest = bench.cells.iter().map(|cell| cell.samples.len()).min().unwrap_or(0);
    if fewest < FOR_P99 {
        let repeats = FOR_P99.div_ceil(bench.workload.records.max(1));
        all.push(Warning::TooFew { samples: fewest, repeats });
    }
    let cells: Vec<_> = bench.cells.iter().map(|result| result.cell.clone()).collect();
    for result in &bench.cells {
        let cell = result.cell.named(&cells);
        all.extend(noise(result).map(|percent| Warning::Noisy { cell: cell.clone(), percent }));
        all.extend(drift(result).map(|percent| Warning::Drift { cell: cell.clone(), percent }));
    }
    let samples = || bench.cells.iter().flat_map(|result| &result.samples);
    let (unscored, of) = (samples().filter(|sample| !sample.scored).count(), samples().count());
    if unscored > 0 {
        all.push(Warning::Unscored { unscored, of, random: bench.judge.random });
    }
    if !bench.judge.random && bench.loads.iter().any(|load| load.cold_seconds.is_none()) {
        all.push(Warning::NoColdLoad);
    }
    let since_start = |result: &CellResult| result.peak_memory.is_some_and(|peak| peak.since == Since::Start);
    if bench.cells.len() > 1 && bench.cells.iter().any(since_start) {
        all.push(Warning::PeakSinceStart);
    }
    all
}

/// Times to a verdict as shares of the median of their own record: records may differ, repeats should not.
fn relative(result: &CellResult) -> Vec<f64> {
    let of = |id: &str| {
        let mut values: Vec<f64> = result
            .samples
            .iter()
            .filter(|sample| sample.id == id)
            .filter_map(|sample| Stage::Verdict.of(sample))
            .collect();
        median(&mut values)
    };
    result.samples.iter().map(|sample| sample.verdict / of(&sample.id).max(f64::MIN_POSITIVE)).collect()
}

fn noise(result: &CellResult) -> Option<f64> {
    let times = relative(result);
    let at = |percent| super::percentile(&times, percent);
    let spread = at(75.0)? - at(25.0)?;
    (times.len() >= 4 && spread > NOISY).then_some(spread * 100.0)
}

fn drift(result: &CellResult) -> Option<f64> {
    let mut times = relative(result);
    if times.len() < 6 {
        return None;
    }
    let (first, second) = times.split_at_mut(result.samples.len() / 2);
    let change = median(second) / median(first) - 1.0;
    (change.abs() > DRIFT).then_some(change * 100.0)
}
