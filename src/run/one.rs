//! Judges one record: check, prompt, answer, reading, verdict.
//!
//! Invariant: whatever goes wrong with one record ends in an unscored verdict of that record, not in the end of the
//! run.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{RunError, Timing};
use crate::answer::{CountFrom, Finish, Reader, Reason, Unscored};
use crate::dataset::{Entry, Problem, Record, check};
use crate::judge::{Judge, JudgeError, Question};
use crate::task::Task;
use crate::verdict::{Verdict, problem_to_unscored};

/// How records are judged.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The task.
    pub task: &'a Task,
    /// Where counts come from.
    pub count_from: CountFrom,
    /// The folder that video paths are relative to.
    pub base: &'a Path,
}

/// The verdict on one record and the time it took; `None` if the user interrupted it.
pub fn judge_record(
    setting: &Setting<'_>,
    judge: &mut dyn Judge,
    entry: Entry,
    interrupt: &AtomicBool,
) -> Result<Option<(Verdict, Timing)>, RunError> {
    let start = Instant::now();
    let mut timing = Timing::new(&entry.id);
    let task = setting.task;
    let videos = judge.sees_frames().then_some(setting.base);
    let record = match &entry.record {
        Err(broken) => return Ok(Some((refused(task, broken.problems.first(), entry.clone()), timing))),
        Ok(record) => record,
    };
    if let Some(problem) = check(record, task, videos).first() {
        return Ok(Some((refused(task, Some(problem), entry.clone()), timing)));
    }
    let verdict = match ask(setting, judge, record, interrupt, &mut timing, start) {
        Ok(Some(verdict)) => verdict,
        Ok(None) => return Ok(None),
        Err(JudgeError::NoAnswer(why)) => {
            Verdict::unanswered(task, entry.clone(), Unscored::new(Reason::JudgeFailed, why))
        }
        Err(error) => return Err(error.into()),
    };
    timing.seconds = start.elapsed().as_secs_f64();
    Ok(Some((verdict, timing)))
}

fn refused(task: &Task, problem: Option<&Problem>, entry: Entry) -> Verdict {
    let unscored = match problem {
        Some(problem) => problem_to_unscored(problem),
        None => Unscored::new(Reason::InvalidRecord, "the record cannot be read"),
    };
    Verdict::unanswered(task, entry, unscored)
}

fn ask(
    setting: &Setting<'_>,
    judge: &mut dyn Judge,
    record: &Record,
    interrupt: &AtomicBool,
    timing: &mut Timing,
    start: Instant,
) -> Result<Option<Verdict>, JudgeError> {
    let task = setting.task;
    let prompt = match task.prompt(record) {
        Ok(prompt) => prompt,
        // `check` finds every missing field first; this is the same answer, should the two ever differ.
        Err(missing) => {
            let unscored = Unscored::new(Reason::MissingField, missing.to_string());
            let entry = Entry { line: 0, id: record.id.clone(), system: None, hash: 0, record: Ok(record.clone()) };
            return Ok(Some(Verdict::unanswered(task, entry, unscored)));
        }
    };
    let mut reader = Reader::new(&task.format, setting.count_from, prompt.untrusted().collect());
    let mut answer = String::new();
    let mut done = false;
    let mut stopped = false;
    let question = Question { id: &record.id, task: &task.name, prompt: &prompt };
    let finish = judge.answer(&question, &mut |piece| {
        if timing.pieces == 0 {
            timing.seconds_to_first = start.elapsed().as_secs_f64();
        }
        timing.pieces += 1;
        answer.push_str(piece);
        done = reader.push(piece, &mut |_| {});
        stopped = interrupt.load(Ordering::Relaxed);
        if done || stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if stopped && !done {
        return Ok(None);
    }
    let finish = if done { Finish::Done } else { finish };
    let reading = reader.finish(finish, &mut |_| {});
    Ok(Some(Verdict::answered(task, record, answer, finish, reading)))
}
