//! Sums up a run's folder: reads `run.json` and the verdicts as a stream.
//!
//! Invariant: only the last attempt at a record counts, and no record counts twice.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::journal::VERDICTS;
use super::lines::{for_each, scan};
use super::{RunError, RunFile};
use crate::dataset::IdDigest;
use crate::metrics::{Bootstrap, RunSummary, Tally};

/// Sums up the run in a folder. It is complete if `judged` equals `records`.
pub fn summarize(folder: &Path, bootstrap: Bootstrap) -> Result<RunSummary, RunError> {
    let run_file = RunFile::read(folder)?;
    let task = run_file.task(folder)?;
    let path = folder.join(VERDICTS);
    let open = || match File::open(&path) {
        Ok(file) => Ok(BufReader::with_capacity(1 << 18, file)),
        Err(source) => Err(RunError::Io { path: path.clone(), source }),
    };
    let scan = scan(&path, open()?, &task.name)?;
    if scan.judged.len() as u64 > run_file.records {
        let what = format!("{} records have a verdict, but the data set has {}", scan.judged.len(), run_file.records);
        return Err(RunError::Corrupt { path, line: None, what });
    }
    let several_attempts = scan.lines > scan.judged.len() as u64;
    let mut left = scan.lines;
    let mut tally = Tally::new(&task);
    for_each(&path, open()?, |line| {
        // Another process may be appending: what came after the scan is left for the next time.
        if left == 0 {
            return Ok(());
        }
        left -= 1;
        let last = || scan.judged.get(&IdDigest::of(&line.id)).is_some_and(|last| last.attempt() == line.attempt);
        if !several_attempts || last() {
            tally.add(&line.facts()?);
        }
        Ok(())
    })?;
    let (judged, scored) = tally.totals();
    Ok(RunSummary {
        run: None,
        task: task.name.clone(),
        judge: run_file.judge.clone(),
        records: run_file.records,
        judged,
        scored,
        seed: bootstrap.seed,
        resamples: bootstrap.resamples,
        systems: tally.systems(&run_file.systems, bootstrap),
    })
}
