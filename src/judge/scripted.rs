//! A judge that replays recorded answers, in pieces, for tests, dry runs and reading old answers anew.
//!
//! Its file is JSON Lines: `id`, `answer`, and optionally `task`, `finish` (`stop` or `length`), `error`, `delay_ms`. A
//! run's own `verdicts.jsonl` is such a file. Only an index of the lines is kept in memory.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::{Answered, Identity, Judge, JudgeError, Question, Said};
use crate::answer::Finish;
use crate::dataset::{HashingReader, IdDigest};

/// Replays recorded answers.
#[derive(Debug)]
pub struct ScriptedJudge {
    identity: Identity,
    path: PathBuf,
    file: BufReader<File>,
    /// Where each answer's line starts.
    index: HashMap<IdDigest, u64>,
    line: Vec<u8>,
    /// Size and time of the file when it was indexed and hashed.
    seen: (u64, Option<SystemTime>),
}

/// The longest line of a file of recorded answers.
const LONGEST: u64 = 64 << 20;

/// What of a line is needed to find it again.
#[derive(Deserialize)]
struct Key {
    id: Id,
    task: Option<String>,
    /// Not needed to find the line, but what is wrong with it should be said at once.
    #[serde(rename = "finish")]
    _finish: Option<Finish>,
}

/// As in a data set, a whole number is read as its digits.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Number(serde_json::Number),
}

/// What of a line is replayed.
#[derive(Deserialize)]
struct Recorded {
    answer: Option<String>,
    error: Option<String>,
    finish: Option<Finish>,
    #[serde(default)]
    delay_ms: u64,
}

impl ScriptedJudge {
    /// Indexes a file of recorded answers.
    pub fn open(name: &str, path: &Path) -> Result<Self, JudgeError> {
        let io = |source| JudgeError::Io { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(io)?;
        let seen = stamp(&file).map_err(io)?;
        let mut reader = BufReader::with_capacity(1 << 18, HashingReader::new(&mut file));
        let mut index = HashMap::new();
        let mut line = Vec::new();
        let mut offset = 0;
        for number in 1.. {
            line.clear();
            let length = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(io)?;
            if length == 0 {
                break;
            }
            let bad = |what: String| JudgeError::BadFile { path: path.to_owned(), line: number, what };
            if length as u64 == LONGEST {
                return Err(bad(format!("longer than {LONGEST} bytes")));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
                let key: Key = serde_json::from_slice(text).map_err(|error| {
                    bad(format!("not a recorded answer ({error}); write {{\"id\": …, \"answer\": …}}"))
                })?;
                // A later line for the same question replaces an earlier one, as in a run's verdicts.
                let id = match key.id {
                    Id::Text(text) => text,
                    Id::Number(number) => number.to_string(),
                };
                index.insert(digest(key.task.as_deref(), &id), offset);
            }
            offset += length as u64;
        }
        let sha256 = reader.into_inner().finish();
        let identity = Identity { name: name.to_owned(), sha256, settings: BTreeMap::new() };
        file.rewind().map_err(io)?;
        Ok(Self { identity, path: path.to_owned(), file: BufReader::new(file), index, line, seen })
    }

    fn recorded(&mut self, question: &Question<'_>) -> Result<Recorded, JudgeError> {
        let found = self
            .index
            .get(&digest(Some(&question.task.name), &question.id))
            .or_else(|| self.index.get(&digest(None, &question.id)));
        let Some(&offset) = found else {
            return Err(JudgeError::NoAnswer(format!("{} has no answer for this record", self.path.display())));
        };
        let io = |source| JudgeError::Io { path: self.path.clone(), source };
        if stamp(self.file.get_ref()).map_err(io)? != self.seen {
            let error = io::Error::other("the file was changed while it was being replayed");
            return Err(io(error));
        }
        self.line.clear();
        // Data sets and their answers are mostly in the same order: then this only moves inside the buffer.
        let position = self.file.stream_position().map_err(io)?;
        let forward = i64::try_from(offset).unwrap_or(i64::MAX) - i64::try_from(position).unwrap_or(0);
        self.file.seek_relative(forward).map_err(io)?;
        self.file.read_until(b'\n', &mut self.line).map_err(io)?;
        let text = self.line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.line);
        serde_json::from_slice(text).map_err(|error| JudgeError::NoAnswer(error.to_string()))
    }
}

impl Judge for ScriptedJudge {
    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn sees_frames(&self) -> bool {
        false
    }

    fn answer(
        &mut self,
        question: &Question<'_>,
        on: &mut dyn FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<Answered, JudgeError> {
        let recorded = self.recorded(question)?;
        if recorded.delay_ms > 0 {
            thread::sleep(Duration::from_millis(recorded.delay_ms));
        }
        let Some(answer) = recorded.answer else {
            let error = recorded.error.unwrap_or_else(|| "the recorded line has no answer".to_owned());
            return Err(JudgeError::NoAnswer(error));
        };
        for piece in pieces(&answer) {
            if on(Said::Text(piece)).is_break() {
                return Ok(Answered { finish: Finish::Stop, scores: Vec::new(), effort: None });
            }
        }
        let finish = match recorded.finish {
            Some(Finish::Length) => Finish::Length,
            _ => Finish::Stop,
        };
        Ok(Answered { finish, scores: Vec::new(), effort: None })
    }
}

/// What tells that a file is still the one that was hashed.
fn stamp(file: &File) -> io::Result<(u64, Option<SystemTime>)> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), metadata.modified().ok()))
}

/// The key of a recorded answer: with its task, if the line names one.
fn digest(task: Option<&str>, id: &str) -> IdDigest {
    IdDigest::of(&format!("{}\0{id}", task.unwrap_or_default()))
}

/// Cuts an answer into pieces of one to about a dozen bytes, the sizes that tokens have.
fn pieces(answer: &str) -> impl Iterator<Item = &str> {
    let mut rest = answer;
    let mut size = 0;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        size = (size + 5) % 13;
        let mut end = (size + 1).min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}
