//! Reads the verdicts of a run back, line by line, without their answers.
//!
//! Invariant: there is one idea of a whole verdict line. What resuming takes for one, summing up takes for one too, and
//! the other way round.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Read};
use std::path::Path;

use serde::Deserialize;

use super::RunError;
use crate::answer::Reason;
use crate::dataset::IdDigest;
use crate::metrics::{Facts, Numbers};
use crate::verdict::Events;

/// The longest line that is read.
const LONGEST: u64 = 256 << 20;

/// A verdict, without its answer.
#[derive(Debug, Deserialize)]
pub struct Line<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    system: Cow<'a, str>,
    #[serde(borrow)]
    pub task: Cow<'a, str>,
    #[serde(borrow, default)]
    caption_type: Option<Cow<'a, str>>,
    #[serde(default = "first_attempt")]
    pub attempt: u32,
    outcome: Outcome,
    events: Events,
}

/// An outcome, flat: `reason` is the judge's words in a scored one and a name in an unscored one.
#[derive(Debug, Deserialize)]
struct Outcome {
    status: Status,
    counts: Option<BTreeMap<String, u32>>,
    agree: Option<bool>,
    score: Option<u32>,
    raw_score: Option<u32>,
    reason: Option<serde_json::Value>,
    distribution: Option<Distribution>,
}

/// What is needed of a distribution.
#[derive(Debug, Deserialize)]
struct Distribution {
    expected: f64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Status {
    Scored,
    Unscored,
}

fn first_attempt() -> u32 {
    1
}

impl Line<'_> {
    /// What the metrics need to know of it.
    pub fn facts(&self) -> Result<Facts<'_>, String> {
        let outcome = &self.outcome;
        let numbers = match (&outcome.status, &outcome.counts, outcome.score, outcome.raw_score) {
            (Status::Scored, Some(counts), None, None) => Ok(Numbers::Counts(counts, outcome.agree)),
            (Status::Scored, None, Some(score), Some(raw_score)) => {
                let expected = outcome.distribution.as_ref().map(|distribution| distribution.expected);
                Ok(Numbers::Score { score, raw_score, expected })
            }
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

/// What is known of a record that was judged, in four bytes: there may be millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged(u32);

impl Judged {
    fn new(attempt: u32, can_retry: bool) -> Self {
        Self(attempt << 1 | u32::from(can_retry))
    }

    /// The latest attempt.
    pub fn attempt(self) -> u32 {
        self.0 >> 1
    }

    /// Whether it gave no number, for a reason that another attempt may not have.
    pub fn can_retry(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What a file of verdicts holds.
#[derive(Debug, Default)]
pub struct Scan {
    /// The records with a verdict, by the digest of their id.
    pub judged: HashMap<IdDigest, Judged>,
    /// Whole lines.
    pub lines: u64,
    /// Bytes of whole lines; what follows is torn.
    pub bytes: u64,
}

/// Reads every verdict of `task`: whole lines only, one for each attempt at a record.
pub fn scan(path: &Path, reader: impl BufRead, task: &str) -> Result<Scan, RunError> {
    let mut scan = Scan::default();
    let (lines, bytes) = for_each(path, reader, |line| {
        if line.task != task {
            return Err(format!("it is about the task `{}`, not `{task}`", line.task));
        }
        let can_retry = line.facts()?.numbers.is_err_and(|reason| reason.may_pass());
        let digest = IdDigest::of(&line.id);
        let before = scan.judged.get(&digest).map_or(0, |judged| judged.attempt());
        if line.attempt <= before || line.attempt > u32::MAX >> 1 {
            return Err(format!("attempt {} at {:?} after attempt {before}", line.attempt, line.id));
        }
        scan.judged.insert(digest, Judged::new(line.attempt, can_retry));
        Ok(())
    })?;
    Ok(Scan { lines, bytes, ..scan })
}

/// Calls `take` with every whole line; gives the number of lines and of their bytes.
pub fn for_each(
    path: &Path,
    mut reader: impl BufRead,
    mut take: impl FnMut(&Line<'_>) -> Result<(), String>,
) -> Result<(u64, u64), RunError> {
    let io = |source| RunError::Io { path: path.to_owned(), source };
    let (mut lines, mut bytes) = (0, 0);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let length = reader.by_ref().take(LONGEST).read_until(b'\n', &mut buffer).map_err(io)?;
        // A torn last line is a verdict that was never stored.
        if !buffer.ends_with(b"\n") {
            return if (length as u64) < LONGEST { Ok((lines, bytes)) } else { Err(corrupt(path, lines, "too long")) };
        }
        match serde_json::from_slice::<Line<'_>>(&buffer) {
            Ok(line) => take(&line).map_err(|what| corrupt(path, lines, &what))?,
            // A power cut can leave a last line that is long enough but not what was written, or zeros where several
            // lines should be that were never synced.
            Err(_) if buffer.contains(&0) || is_at_end(&mut reader).map_err(io)? => return Ok((lines, bytes)),
            Err(error) => return Err(corrupt(path, lines, &error.to_string())),
        }
        lines += 1;
        bytes += length as u64;
    }
}

fn is_at_end(reader: &mut impl BufRead) -> io::Result<bool> {
    reader.fill_buf().map(<[u8]>::is_empty)
}

fn corrupt(path: &Path, lines_before: u64, what: &str) -> RunError {
    let what = format!("not a verdict of this run ({what}); something else changed the file. Judge into another --out");
    RunError::Corrupt { path: path.to_owned(), line: Some(lines_before + 1), what }
}
