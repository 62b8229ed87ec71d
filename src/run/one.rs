//! Judges one record: check, prompt, answer, reading, verdict.
//!
//! ```text
//!  Entry ──begin──▶ Question + Asking ──hear──▶ … ──end──▶ Verdict      several of these may be under way at once
//! ```
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
use crate::judge::{Answered, Judge, JudgeError, Question, Said, Sight};
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
    /// Whether a score's reason is waited for.
    pub reason: bool,
    /// The folder that video paths are relative to.
    pub base: &'a Path,
}

/// A record that a judge is being asked about.
#[derive(Debug)]
pub struct Asking<'t> {
    task: &'t Task,
    entry: Entry,
    attempt: u32,
    reader: Reader<'t>,
    frames: Option<FramesSeen>,
    answer: String,
    /// Whether the reader has all it needs.
    done: bool,
    timing: Timing,
    start: Instant,
}

/// What became of a record at first.
#[derive(Debug)]
pub enum Begun<'t> {
    /// A judge has to be asked.
    Ask(Question<'t>, Box<Asking<'t>>),
    /// There is nothing to ask, and the verdict says why.
    Judged(Box<Verdict>, Timing),
    /// The user interrupted it.
    Interrupted,
}

/// Makes a question of a record. `watch` hears what takes its time; `player` gets the frames of the video, and without one
/// nobody looks at it.
pub fn begin<'t>(
    setting: &Setting<'t>,
    player: Option<&mut Player>,
    (number, attempt): (u64, u32),
    entry: Entry,
    interrupt: &AtomicBool,
    watch: &mut dyn FnMut(Said<'_>),
) -> Begun<'t> {
    let start = Instant::now();
    let mut timing = Timing::new(&entry.id, attempt);
    let task = setting.task;
    let player = player.filter(|_| task.sees_frames());
    let mut seen = None;
    let prepared = prepare(setting, &entry, player.is_some());
    let looked = match (player, &prepared) {
        (Some(player), Ok((record, _))) => {
            watch(Said::Looking);
            match look(setting, player, record, interrupt, &mut seen) {
                Ok(None) => return Begun::Interrupted,
                looked => looked,
            }
        }
        _ => Ok(None),
    };
    timing.seconds_for_frames = seen.is_some().then(|| start.elapsed().as_secs_f64());
    match prepared.and_then(|prepared| Ok((prepared, looked?))) {
        Err(unscored) => {
            let verdict = Verdict { attempt, frames: seen, ..Verdict::unanswered(task, &entry, unscored) };
            timing.seconds = start.elapsed().as_secs_f64();
            Begun::Judged(Box::new(verdict), timing)
        }
        Ok(((record, prompt), frames)) => {
            let inputs: Vec<String> = prompt.untrusted().map(str::to_owned).collect();
            let mut reader = Reader::new(&task.format, setting.count_from, inputs);
            if !setting.reason {
                reader = reader.without_reason();
            }
            let sha256 = seen.as_ref().map(|seen| seen.sha256.clone()).unwrap_or_default();
            let question = Question {
                number,
                id: entry.id.clone(),
                task,
                attempt,
                events: record.events.len(),
                inserted: usize::from(record.inserted_index.is_some()),
                prompt: prompt.into_owned(),
                frames: frames.map(|frames| Sight { frames, sha256 }),
            };
            let answer = String::new();
            let asking = Asking { task, entry, attempt, reader, frames: seen, answer, done: false, timing, start };
            Begun::Ask(question, Box::new(asking))
        }
    }
}

impl Asking<'_> {
    /// Hears what the judge says; whether more of it is wanted.
    pub fn hear(&mut self, said: Said<'_>) -> ControlFlow<()> {
        if let Said::Text(piece) = said {
            if self.timing.pieces == 0 {
                self.timing.seconds_to_first = self.start.elapsed().as_secs_f64();
            }
            self.timing.pieces += 1;
            self.answer.push_str(piece);
            self.done = self.reader.push(piece, &mut |_| {});
        }
        if self.done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Whether the answer is all that is needed, however it goes on.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The verdict, and the time it took; an error is one that ends the run.
    pub fn end(self, answered: Result<Answered, JudgeError>) -> Result<(Verdict, Timing), JudgeError> {
        let Self { task, entry, attempt, reader, frames, answer, done, mut timing, start } = self;
        let verdict = match (answered, &entry.record) {
            (Ok(Answered { finish, scores, effort }), Ok(record)) => {
                timing.effort = effort;
                let finish = if done { Finish::Done } else { finish };
                let reading = reader.finish(finish, &mut |_| {});
                Verdict::answered(task, record, answer, finish, reading, &scores)
            }
            (Err(JudgeError::NoAnswer(why)), _) => {
                Verdict::unanswered(task, &entry, Unscored::new(Reason::JudgeFailed, why))
            }
            (Err(error), _) => return Err(error),
            // A broken record is never asked about; this is the same verdict, should that ever change.
            (Ok(_), Err(_)) => {
                Verdict::unanswered(task, &entry, Unscored::new(Reason::InvalidRecord, "the record cannot be read"))
            }
        };
        timing.seconds = start.elapsed().as_secs_f64();
        Ok((Verdict { attempt, frames, ..verdict }, timing))
    }
}

/// The verdict on one record and the time it took; `None` if the user interrupted it. `watch` hears what the judge says.
/// `player` gets the frames of the video; without one, nobody looks at it.
pub fn judge_record(
    setting: &Setting<'_>,
    judge: &mut dyn Judge,
    player: Option<&mut Player>,
    entry: Entry,
    interrupt: &AtomicBool,
    watch: &mut dyn FnMut(Said<'_>),
) -> Result<Option<(Verdict, Timing)>, RunError> {
    let (question, mut asking) = match begin(setting, player, (0, 1), entry, interrupt, watch) {
        Begun::Ask(question, asking) => (question, asking),
        Begun::Judged(verdict, timing) => return Ok(Some((*verdict, timing))),
        Begun::Interrupted => return Ok(None),
    };
    let mut stopped = false;
    let answered = judge.answer(&question, &mut |said| {
        watch(said);
        stopped = interrupt.load(Ordering::Relaxed);
        let heard = asking.hear(said);
        if stopped { ControlFlow::Break(()) } else { heard }
    });
    if stopped && !asking.is_done() && answered.is_ok() {
        return Ok(None);
    }
    Ok(Some(asking.end(answered)?))
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
