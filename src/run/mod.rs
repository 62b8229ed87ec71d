//! A judging run: records in, verdicts out, in a folder that survives anything.
//!
//! Invariant: kill the process at any moment and start the same command again, and the folder ends up with the same
//! bytes as if nothing had happened. Verdicts are written in a fixed order, each once: that of the data, or, where a judge
//! looks at videos, that of the data with the records of one video together.

mod atomic;
mod desk;
mod fingerprint;
mod folder;
mod journal;
mod lines;
mod one;
mod order;
mod summary;

pub use atomic::{write_atomic, write_if_other};
pub use fingerprint::Fingerprint;
pub use folder::{RunFile, RunFolder};
pub use journal::{Before, Journal, Repair, Timing, VERDICTS};
pub use lines::Judged;
pub use one::{Asking, Begun, Setting, begin, judge_record};
pub use summary::summarize;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use thiserror::Error;

use crate::answer::CountFrom;
use crate::dataset::{DataError, Limits, Places, survey};
use crate::judge::{Judge, JudgeError, Said};
use crate::media::Player;
use crate::metrics::{Bootstrap, RunSummary, Summary};
use crate::task::{Task, TaskError};
use desk::RunDesk;
use order::Records;

/// What a run is asked to do.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The task.
    pub task: &'a Task,
    /// The data set.
    pub data: PathBuf,
    /// The run's folder.
    pub out: PathBuf,
    /// Where counts come from.
    pub count_from: CountFrom,
    /// Whether a score's reason is waited for; without it, an answer ends where its score does.
    pub reason: bool,
    /// Judge unscored records again.
    pub retry_unscored: bool,
    /// Limits on the data set.
    pub limits: Limits,
}

/// Told how a run is getting on.
pub trait Progress {
    /// So many records of the data set were looked at before the judging.
    fn surveyed(&mut self, records: u64);
    /// The judging begins: records in all, those that have a verdict, and those that are judged again.
    fn started(&mut self, records: u64, before: u64, again: u64);
    /// So many records have a verdict that is safely stored, and so many of those of this session are unscored.
    fn stored(&mut self, verdicts: u64, unscored: u64);
    /// The judge reads a prompt, or gives a piece of an answer.
    fn said(&mut self, said: Said<'_>);
    /// Something the user should know.
    fn note(&mut self, text: &str);
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEnd {
    /// Every record has a verdict.
    Complete(RunSummary),
    /// The user stopped it; the same command goes on.
    Interrupted {
        /// Verdicts that are stored.
        stored: u64,
        /// Records in all.
        records: u64,
    },
}

/// Why a run cannot go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// The data set cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The data set has no records.
    #[error("{0}: no records in it; a data set is JSON Lines, one record a line (capjudge schema record)")]
    NoRecords(PathBuf),
    /// The data set was changed while it was judged.
    #[error(
        "{0}: the file was changed while it was being judged; the verdicts may not fit it. Judge it again into another folder"
    )]
    DataChanged(PathBuf),
    /// The judge's files cannot be used.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The task of a run folder cannot be used.
    #[error("{path}: {source}")]
    Task {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: TaskError,
    },
    /// A file of the run cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file of the run is not what it should be.
    #[error("{path}{}: {what}", line.map_or(String::new(), |line| format!(":{line}")))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, where there is one.
        line: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// The folder belongs to a run with other inputs.
    #[error(
        "{path} holds a run with another {field}: it was {was}, it is now {now}. Choose another --out, or go back to \
         what it was"
    )]
    Changed {
        /// The run's folder.
        path: PathBuf,
        /// What changed.
        field: String,
        /// What it was.
        was: String,
        /// What it is now.
        now: String,
    },
    /// The folder holds something else.
    #[error("{0}: the folder is not empty and is no run (it has no run.json); choose another --out")]
    NotARun(PathBuf),
    /// Another process writes to the folder.
    #[error("{0}: another capjudge process is writing to this run; wait for it, or choose another --out")]
    InUse(PathBuf),
}

/// Judges every record of a data set that has no verdict yet. `player` gets the frames for tasks that show some; without
/// one, nobody looks at videos.
pub fn run(
    plan: &Plan<'_>,
    judge: &mut dyn Judge,
    player: Option<&mut Player>,
    interrupt: &AtomicBool,
    progress: &mut dyn Progress,
) -> Result<RunEnd, RunError> {
    // Who looks at videos is asked about one after the other, whatever the order of the data.
    let sees = plan.task.sees_frames() && judge.sees_frames();
    let places = if sees { Places::Note } else { Places::Skip };
    let survey = survey(&plan.data, plan.limits, places, |records| progress.surveyed(records))?;
    if survey.records == 0 {
        return Err(RunError::NoRecords(plan.data.clone()));
    }
    let identity = judge.identity();
    let look = player.as_deref().filter(|_| plan.task.sees_frames()).map(Player::look);
    let fingerprint = Fingerprint::new(plan, &survey.sha256, &identity, look);
    let run_file = RunFile::new(plan, fingerprint, &identity.name, &survey);
    let folder = RunFolder::open(&plan.out, &run_file)?;
    let (journal, before) = Journal::open(&folder, &plan.task.name)?;
    if let Some(repair) = &before.repair {
        progress.note(&repair.to_string());
    }
    let pass = Pass::new(&before, plan.retry_unscored);
    progress.started(survey.records, before.judged.len() as u64, pass.again);

    let base = plan.data.parent().unwrap_or(Path::new(""));
    let setting = Setting { task: plan.task, count_from: plan.count_from, reason: plan.reason, base };
    let records = Records::open(&plan.data, plan.limits, &survey)?;
    let mut desk = RunDesk::new(setting, records, (&before, &pass), player, interrupt, progress, journal);
    judge.answer_all(&mut desk)?;
    let (stored, interrupted) = desk.close()?;
    if interrupted {
        return Ok(RunEnd::Interrupted { stored, records: survey.records });
    }
    let summary = summarize(folder.path(), Bootstrap::default())?;
    let file = Summary { schema_version: 1, runs: vec![summary.clone()] };
    folder.write_summary(&file)?;
    Ok(RunEnd::Complete(summary))
}

/// Which attempt at a record this session makes.
///
/// Retries come in passes: all unscored records get their next attempt, then all of those that are still unscored. A
/// pass that was interrupted is finished before another one begins, so that it ends with the same verdicts.
struct Pass {
    retry: bool,
    attempt: u32,
    again: u64,
}

impl Pass {
    fn new(before: &Before, retry: bool) -> Self {
        let unscored = || before.judged.values().filter(|judged| judged.can_retry());
        let latest = before.judged.values().map(|judged| judged.attempt()).max().unwrap_or(1);
        let unfinished = unscored().any(|judged| judged.attempt() < latest);
        let attempt = if unfinished { latest } else { latest + 1 };
        let again = if retry { unscored().filter(|judged| judged.attempt() < attempt).count() } else { 0 };
        Self { retry, attempt, again: again as u64 }
    }

    fn attempt(&self, judged: Option<Judged>) -> Option<u32> {
        match judged {
            None => Some(1),
            Some(judged) => {
                (self.retry && judged.can_retry() && judged.attempt() < self.attempt).then_some(self.attempt)
            }
        }
    }
}
