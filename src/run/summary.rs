//! Sums up a run's folder: reads `run.json` and the verdicts as a stream.
//!
//! Invariant: only the last attempt at a record counts, and no list of records is kept to know which that is, except of
//! those that were judged more than once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use super::journal::VERDICTS;
use super::{RunError, RunFile};
use crate::answer::Reason;
use crate::dataset::IdDigest;
use crate::metrics::{Bootstrap, Facts, Numbers, RunSummary, Tally};
use crate::verdict::Events;

/// What a run still lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incomplete {
    /// Records without a verdict.
    pub records: u64,
}

/// Sums up the run in a folder; also says what it lacks, if it is not complete.
pub fn summarize(folder: &Path, bootstrap: Bootstrap) -> Result<(RunSummary, Option<Incomplete>), RunError> {
    let run_file = RunFile::read(folder)?;
    let task = run_file.task(folder)?;
    let mut latest: HashMap<IdDigest, u32> = HashMap::new();
    for_each_verdict(folder, |line| {
        if line.attempt > 1 {
            latest.insert(IdDigest::of(&line.id), line.attempt);
        }
        Ok(())
    })?;
    let mut tally = Tally::new(&task);
    for_each_verdict(folder, |line| {
        let replaced =
            !latest.is_empty() && latest.get(&IdDigest::of(&line.id)).is_some_and(|last| line.attempt < *last);
        if !replaced {
            tally.add(&line.facts()?);
        }
        Ok(())
    })?;
    let (judged, scored) = tally.totals();
    let summary = RunSummary {
        run: None,
        task: task.name.clone(),
        judge: run_file.judge.clone(),
        records: run_file.records,
        judged,
        scored,
        seed: bootstrap.seed,
        resamples: bootstrap.resamples,
        systems: tally.systems(&run_file.systems, bootstrap),
    };
    let missing = run_file.records.saturating_sub(judged);
    Ok((summary, (missing > 0).then_some(Incomplete { records: missing })))
}

/// A verdict, without its answer.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    system: Cow<'a, str>,
    #[serde(borrow, default)]
    caption_type: Option<Cow<'a, str>>,
    #[serde(default = "one")]
    attempt: u32,
    outcome: Numbered,
    events: Events,
}

/// An outcome, flat: `reason` is the judge's words in a scored one and a name in an unscored one.
#[derive(Deserialize)]
struct Numbered {
    status: Status,
    counts: Option<BTreeMap<String, u32>>,
    agree: Option<bool>,
    score: Option<u32>,
    raw_score: Option<u32>,
    reason: Option<serde_json::Value>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Status {
    Scored,
    Unscored,
}

fn one() -> u32 {
    1
}

impl Line<'_> {
    fn facts(&self) -> Result<Facts<'_>, String> {
        let outcome = &self.outcome;
        let numbers = match (&outcome.status, &outcome.counts, outcome.score, outcome.raw_score) {
            (Status::Scored, Some(counts), None, None) => Ok(Numbers::Counts(counts, outcome.agree)),
            (Status::Scored, None, Some(score), Some(raw_score)) => Ok(Numbers::Score { score, raw_score }),
            (Status::Unscored, ..) => {
                let reason = outcome.reason.clone().unwrap_or_default();
                Err(serde_json::from_value::<Reason>(reason).map_err(|error| error.to_string())?)
            }
            (Status::Scored, ..) => return Err("a scored verdict without its numbers".to_owned()),
        };
        let caption_type = self.caption_type.as_deref();
        Ok(Facts { system: &self.system, caption_type, events: self.events, numbers })
    }
}

/// Calls `take` with every whole line of the verdicts.
fn for_each_verdict(folder: &Path, mut take: impl FnMut(Line<'_>) -> Result<(), String>) -> Result<(), RunError> {
    let path = folder.join(VERDICTS);
    let io = |source| RunError::Io { path: path.clone(), source };
    let mut reader = BufReader::with_capacity(1 << 18, File::open(&path).map_err(io)?);
    let mut buffer = Vec::new();
    for number in 1.. {
        buffer.clear();
        reader.read_until(b'\n', &mut buffer).map_err(io)?;
        // A torn last line is a verdict that was never stored.
        if !buffer.ends_with(b"\n") {
            break;
        }
        let result = serde_json::from_slice(&buffer).map_err(|error| error.to_string()).and_then(&mut take);
        if let Err(what) = result {
            if reader.fill_buf().map_err(io)?.is_empty() {
                break;
            }
            return Err(RunError::Corrupt { path, line: Some(number), what: format!("not a verdict ({what})") });
        }
    }
    Ok(())
}
