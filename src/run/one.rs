//! Judges one record: check, prompt, answer, reading, verdict.
//!
//! Invariant: whatever goes wrong with one record ends in an unscored verdict of that record, not in the end of the
//! run.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{RunError, Timing};
use crate::answer::{CountFrom, Finish, Reader, Reason, Unscored};
use crate::dataset::{Entry, Record, check};
use crate::judge::{Answered, Judge, JudgeError, Question, Said};
use crate::media::{Frames, Player};
use crate::prompt::Prompt;
use crate::task::Task;
use crate::verdict::{FramesSeen, Verdict, media_to_unscored, problem_to_unscored};

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

/// The verdict on one record and the time it took; `None` if the user interrupted it. `watch` hears what the judge says.
/// `player` gets the frames of the video; without one, nobody looks at it.
pub fn judge_record(
    setting: &Setting<'_>,
    judge: &mut dyn Judge,
    player: Option<&mut Player>,
    entry: &Entry,
    attempt: u32,
    interrupt: &AtomicBool,
    watch: &mut dyn FnMut(Said<'_>),
) -> Result<Option<(Verdict, Timing)>, RunError> {
    let start = Instant::now();
    let mut timing = Timing::new(&entry.id, attempt);
    let task = setting.task;
    let player = player.filter(|_| task.sees_frames());
    let mut seen = None;
    let prepared = prepare(setting, entry, player.is_some());
    let looked = match (player, &prepared) {
        (Some(player), Ok((record, _))) => {
            watch(Said::Looking);
            match look(setting, player, record, interrupt, &mut seen) {
                Ok(None) => return Ok(None),
                looked => looked,
            }
        }
        _ => Ok(None),
    };
    timing.seconds_for_frames = seen.is_some().then(|| start.elapsed().as_secs_f64());
    let prepared = prepared.and_then(|prepared| Ok((prepared, looked?)));
    let mut verdict = match prepared {
        Err(unscored) => Verdict::unanswered(task, entry, unscored),
        Ok(((record, prompt), frames)) => {
            let mut reader = Reader::new(&task.format, setting.count_from, prompt.untrusted().collect());
            let question =
                Question { id: &entry.id, task: &task.name, attempt, prompt: &prompt, frames: frames.as_deref() };
            let answered = ask(judge, &question, &mut reader, interrupt, watch, &mut timing, start);
            match answered {
                Ok(None) => return Ok(None),
                Ok(Some((answer, finish))) => {
                    let reading = reader.finish(finish, &mut |_| {});
                    Verdict::answered(task, record, answer, finish, reading)
                }
                Err(JudgeError::NoAnswer(why)) => {
                    Verdict::unanswered(task, entry, Unscored::new(Reason::JudgeFailed, why))
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    verdict.attempt = attempt;
    verdict.frames = seen;
    timing.seconds = start.elapsed().as_secs_f64();
    Ok(Some((verdict, timing)))
}

/// The record and its prompt, or why there is nothing to ask.
fn prepare<'a>(
    setting: &Setting<'a>,
    entry: &'a Entry,
    sees_frames: bool,
) -> Result<(&'a Record, Prompt<'a>), Unscored> {
    let record = match &entry.record {
        Ok(record) => record,
        Err(broken) => {
            let unknown = || Unscored::new(Reason::InvalidRecord, "the record cannot be read");
            return Err(broken.problems.first().map_or_else(unknown, problem_to_unscored));
        }
    };
    let videos = sees_frames.then_some(setting.base);
    if let Some(problem) = check(record, setting.task, videos).first() {
        return Err(problem_to_unscored(problem));
    }
    let prompt = setting.task.prompt(record);
    // `check` has found every missing field already; this is the same answer, should the two ever differ.
    prompt.map(|prompt| (record, prompt)).map_err(|missing| Unscored::new(Reason::MissingField, missing.to_string()))
}

/// The frames of a record's video, or why they cannot be shown; `None` if the user interrupted it. What came of it goes
/// to `seen` either way.
fn look(
    setting: &Setting<'_>,
    player: &mut Player,
    record: &Record,
    interrupt: &AtomicBool,
    seen: &mut Option<FramesSeen>,
) -> Result<Option<Arc<Frames>>, Unscored> {
    // `check` has found a missing video already.
    let paths = record.video.as_ref().map(|video| video.paths(setting.base)).unwrap_or_default();
    let frames = player.frames(&paths, interrupt).map_err(|error| {
        let mut unscored = media_to_unscored(&error);
        unscored.detail = own_paths(unscored.detail, record, &paths);
        unscored
    })?;
    let Some(frames) = frames else { return Ok(None) };
    let shown = seen.insert(FramesSeen::from(frames.as_ref()));
    for fault in &mut shown.faults {
        fault.what = own_paths(std::mem::take(&mut fault.what), record, &paths);
    }
    match shown.faults.first() {
        Some(fault) if !player.look().allow_damaged => {
            let more = shown.faults.len() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let what = format!("the video is damaged: {}{more}; --allow-damaged shows its frames anyway", fault.what);
            Err(Unscored::new(Reason::DamagedVideo, what))
        }
        _ if frames.frames.is_empty() => {
            Err(Unscored::new(Reason::DamagedVideo, "the video: none of the wanted frames could be decoded"))
        }
        _ => Ok(Some(frames)),
    }
}

/// A text with the paths as the record has them, so that it does not depend on where the data set is.
fn own_paths(text: String, record: &Record, paths: &[PathBuf]) -> String {
    let own = record.video.as_ref().map(|video| video.paths(Path::new(""))).unwrap_or_default();
    let pairs = paths.iter().zip(own).filter(|(path, own)| *path != own);
    pairs.fold(text, |text, (path, own)| text.replace(&path.display().to_string(), &own.display().to_string()))
}

/// Asks the judge; `None` if the user interrupted it before the reader was done.
fn ask(
    judge: &mut dyn Judge,
    question: &Question<'_>,
    reader: &mut Reader<'_>,
    interrupt: &AtomicBool,
    watch: &mut dyn FnMut(Said<'_>),
    timing: &mut Timing,
    start: Instant,
) -> Result<Option<(String, Finish)>, JudgeError> {
    let mut answer = String::new();
    let (mut done, mut stopped) = (false, false);
    let Answered { finish, effort } = judge.answer(question, &mut |said| {
        watch(said);
        if let Said::Text(piece) = said {
            if timing.pieces == 0 {
                timing.seconds_to_first = start.elapsed().as_secs_f64();
            }
            timing.pieces += 1;
            answer.push_str(piece);
            done = reader.push(piece, &mut |_| {});
        }
        stopped = interrupt.load(Ordering::Relaxed);
        if done || stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if stopped && !done {
        return Ok(None);
    }
    timing.effort = effort;
    Ok(Some((answer, if done { Finish::Done } else { finish })))
}
