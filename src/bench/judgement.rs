//! Judges records with a clock beside it.
//!
//! Invariant: the way from a record to its verdict is that of a run: the same prompt, judge, reader and verdict. Only the
//! journal is missing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::BenchError;
use super::plan::Cell;
use super::result::Judgement;
use super::workload::Workload;
use crate::answer::{CountFrom, Finish, Reader};
use crate::dataset::Record;
use crate::judge::{Answered, Effort, Judge, Question, Said};
use crate::media::Frames;
use crate::task::Task;
use crate::verdict::Verdict;

/// What a turn of a cell needs.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// The task.
    pub task: &'a Task,
    /// Records and pictures.
    pub workload: &'a Workload,
    /// The cell.
    pub cell: &'a Cell,
    /// The turn's number.
    pub repeat: usize,
    /// Set when the user wants no more.
    pub interrupt: &'a AtomicBool,
}

/// Judges every record of the workload, `cell.batch` at a time: the one place that knows how. `None` if the user
/// interrupted it.
pub fn judge_all(turn: &Turn<'_>, judge: &mut dyn Judge) -> Result<Option<Vec<Judgement>>, BenchError> {
    // `Sweep::cells` lets no other number through.
    debug_assert_eq!(turn.cell.batch, 1);
    // What is made here and not decoded is no part of a judgement's time.
    let made = turn.cell.frames.and_then(|count| turn.workload.made(count)).map(Arc::new);
    turn.workload.records.iter().map(|record| judge_one(turn, judge, record, made.as_ref())).collect()
}

fn judge_one(
    turn: &Turn<'_>,
    judge: &mut dyn Judge,
    record: &Record,
    made: Option<&Arc<Frames>>,
) -> Result<Option<Judgement>, BenchError> {
    let Turn { task, workload, cell, .. } = *turn;
    let wrong = |what: String| BenchError::Record { id: record.id.clone(), what };
    let start = Instant::now();
    let shown = match (cell.frames, made) {
        (None, _) => None,
        (_, Some(made)) => Some(Arc::clone(made)),
        (Some(count), None) => match workload.decoded(count, turn.interrupt)? {
            None => return Ok(None),
            Some(frames) => Some(frames),
        },
    };
    let frames_seconds = start.elapsed().as_secs_f64();
    let prompt = task.prompt(record).map_err(|missing| wrong(missing.to_string()))?;
    let mut reader = Reader::new(&task.format, CountFrom::Stated, prompt.untrusted().collect());
    let frames = shown.as_ref().map(Arc::as_ref);
    let question = Question { id: &record.id, task: &task.name, attempt: 1, prompt: &prompt, frames };
    let mut answer = String::new();
    let (mut pieces, mut done, mut stopped) = (0, false, false);
    let (mut first_token, mut parse) = (None, 0.0);
    let answered = judge.answer(&question, &mut |said| {
        if let Said::Text(piece) = said {
            first_token.get_or_insert_with(|| start.elapsed().as_secs_f64());
            pieces += 1;
            answer.push_str(piece);
            let reading = Instant::now();
            done = reader.push(piece, &mut |_| {});
            parse += reading.elapsed().as_secs_f64();
        }
        stopped = turn.interrupt.load(Ordering::Relaxed);
        // The judge was opened for the longest answer of all cells.
        if done || stopped || pieces >= cell.max_tokens { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let Answered { finish, effort } = answered?;
    if stopped {
        return Ok(None);
    }
    let finish = match finish {
        _ if done => Finish::Done,
        _ if pieces >= cell.max_tokens => Finish::Length,
        other => other,
    };
    let reading = Instant::now();
    let verdict = Verdict::answered(task, record, answer, finish, reader.finish(finish, &mut |_| {}));
    parse += reading.elapsed().as_secs_f64();
    let verdict_seconds = start.elapsed().as_secs_f64();
    let effort: Effort = effort.ok_or_else(|| wrong("the judge did not tell what the answer took".to_owned()))?;
    Ok(Some(Judgement {
        id: record.id.clone(),
        repeat: turn.repeat,
        frames: (shown.is_some() && made.is_none()).then_some(frames_seconds),
        pixels: shown.is_some().then_some(effort.pixels_seconds),
        tower: shown.is_some().then_some(effort.vision_seconds - effort.pixels_seconds),
        prefill: effort.prompt_seconds,
        first_token: first_token.unwrap_or(verdict_seconds),
        decode: effort.answer_seconds,
        parse,
        verdict: verdict_seconds,
        prompt_tokens: effort.prompt_tokens,
        reused_tokens: effort.reused_tokens,
        answer_tokens: effort.answer_tokens,
        scored: !verdict.is_unscored(),
    }))
}
