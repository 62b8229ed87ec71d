//! Judges records with a clock beside it.
//!
//! Invariant: the way from a record to its verdict is that of a run: the same prompt, judge, reader and verdict. Only the
//! journal is missing.

use std::collections::BTreeMap;
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
use crate::judge::{Answered, Desk, Effort, Judge, JudgeError, Question, Said, Sight};
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
    // What is made here and not decoded is no part of a judgement's time. Every record has a clip of its own.
    let made = |number| turn.cell.frames.and_then(|count| turn.workload.made(count, number)).map(Arc::new);
    let made = (0..turn.workload.records.len() as u32).map(made).collect();
    judge.set_batch(turn.cell.batch);
    let mut desk = BenchDesk { turn, made, next: 0, asked: BTreeMap::new(), judged: BTreeMap::new(), end: End::Open };
    judge.answer_all(&mut desk)?;
    match desk.end {
        End::Failed(error) => Err(error),
        End::Interrupted => Ok(None),
        End::Open => Ok(Some(desk.judged.into_values().collect())),
    }
}

/// Hands out the records of a turn.
struct BenchDesk<'a> {
    turn: &'a Turn<'a>,
    /// The clip of each record, where clips are made.
    made: Vec<Option<Arc<Frames>>>,
    next: usize,
    asked: BTreeMap<u64, Asked<'a>>,
    judged: BTreeMap<u64, Judgement>,
    end: End,
}

/// Why no more is handed out.
enum End {
    /// There may be more.
    Open,
    /// The user wants no more.
    Interrupted,
    /// It cannot go on.
    Failed(BenchError),
}

/// A judgement under way.
struct Asked<'a> {
    record: &'a Record,
    reader: Reader<'a>,
    start: Instant,
    /// The time to decode its frames, if they were.
    frames: Option<f64>,
    /// Whether it was shown any.
    shown: bool,
    answer: String,
    pieces: usize,
    done: bool,
    first_token: Option<f64>,
    parse: f64,
}

fn wrong(record: &Record, what: impl ToString) -> BenchError {
    BenchError::Record { id: record.id.clone(), what: what.to_string() }
}

impl<'a> BenchDesk<'a> {
    fn try_next(&mut self) -> Result<Option<Question<'a>>, BenchError> {
        let Turn { task, workload, cell, .. } = *self.turn;
        let Some(record) = workload.records.get(self.next) else { return Ok(None) };
        let (number, made) = (self.next as u64, self.made[self.next].take());
        self.next += 1;
        let start = Instant::now();
        let (shown, frames) = match (cell.frames, made) {
            (None, _) => (None, None),
            (_, Some(made)) => (Some(made), None),
            (Some(count), None) => match workload.decoded(count, self.turn.interrupt)? {
                None => {
                    self.end = End::Interrupted;
                    return Ok(None);
                }
                frames => (frames, Some(start.elapsed().as_secs_f64())),
            },
        };
        let prompt = task.prompt(record).map_err(|missing| wrong(record, missing))?;
        let inputs: Vec<String> = prompt.untrusted().map(str::to_owned).collect();
        let asked = Asked {
            record,
            reader: Reader::new(&task.format, CountFrom::Stated, inputs),
            start,
            frames,
            shown: shown.is_some(),
            answer: String::new(),
            pieces: 0,
            done: false,
            first_token: None,
            parse: 0.0,
        };
        self.asked.insert(number, asked);
        Ok(Some(Question {
            number,
            id: record.id.clone(),
            task,
            attempt: 1,
            prompt,
            events: record.events.len(),
            inserted: usize::from(record.inserted_index.is_some()),
            frames: shown.map(|frames| Sight { sha256: frames.sha256(), frames }),
        }))
    }
}

impl<'a> Desk<'a> for BenchDesk<'a> {
    fn next(&mut self) -> Option<Question<'a>> {
        if !matches!(self.end, End::Open) {
            return None;
        }
        self.try_next().unwrap_or_else(|error| {
            self.end = End::Failed(error);
            None
        })
    }

    fn hear(&mut self, number: u64, said: Said<'_>) -> ControlFlow<()> {
        let Some(asked) = self.asked.get_mut(&number) else { return ControlFlow::Break(()) };
        if let Said::Text(piece) = said {
            asked.first_token.get_or_insert_with(|| asked.start.elapsed().as_secs_f64());
            asked.pieces += 1;
            asked.answer.push_str(piece);
            let reading = Instant::now();
            asked.done = asked.reader.push(piece, &mut |_| {});
            asked.parse += reading.elapsed().as_secs_f64();
        }
        if self.turn.interrupt.load(Ordering::Relaxed) {
            self.end = End::Interrupted;
        }
        // The judge was opened for the longest answer of all cells.
        let enough = asked.done || asked.pieces >= self.turn.cell.max_tokens;
        if enough || !matches!(self.end, End::Open) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn end(&mut self, number: u64, answered: Result<Answered, JudgeError>) {
        let Some(asked) = self.asked.remove(&number) else { return };
        if !matches!(self.end, End::Open) {
            return;
        }
        match asked.judgement(self.turn, answered) {
            Ok(judgement) => {
                self.judged.insert(number, judgement);
            }
            Err(error) => self.end = End::Failed(error),
        }
    }
}

impl Asked<'_> {
    fn judgement(self, turn: &Turn<'_>, answered: Result<Answered, JudgeError>) -> Result<Judgement, BenchError> {
        let Answered { finish, scores, effort } = answered?;
        let finish = match finish {
            _ if self.done => Finish::Done,
            _ if self.pieces >= turn.cell.max_tokens => Finish::Length,
            other => other,
        };
        let reading = Instant::now();
        let read = self.reader.finish(finish, &mut |_| {});
        let verdict = Verdict::answered(turn.task, self.record, self.answer, finish, read, &scores);
        let parse = self.parse + reading.elapsed().as_secs_f64();
        let verdict_seconds = self.start.elapsed().as_secs_f64();
        let untold = || wrong(self.record, "the judge did not tell what the answer took");
        let effort: Effort = effort.ok_or_else(untold)?;
        Ok(Judgement {
            id: self.record.id.clone(),
            repeat: turn.repeat,
            frames: self.frames,
            pixels: self.shown.then_some(effort.pixels_seconds),
            tower: self.shown.then_some(effort.vision_seconds - effort.pixels_seconds),
            prefill: effort.prompt_seconds,
            first_token: self.first_token.unwrap_or(verdict_seconds),
            decode: effort.answer_seconds,
            parse,
            verdict: verdict_seconds,
            prompt_tokens: effort.prompt_tokens,
            reused_tokens: effort.reused_tokens,
            answer_tokens: effort.answer_tokens,
            scored: !verdict.is_unscored(),
        })
    }
}
