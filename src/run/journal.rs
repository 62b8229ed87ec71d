//! The verdicts of a run on disk: append-only, one line each, synced before it counts.
//!
//! Invariant: `stored` counts only verdicts that would survive a power cut. Writing and syncing happen in a thread of
//! their own: while one sync is under way, finished verdicts queue up and share the next one, so a fast judge is not
//! held up by the disk and a slow one has every verdict synced at once.
//!
//! Timings stand in a file of their own, because they differ from run to run and verdicts must not.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use super::{RunError, RunFolder};
use crate::dataset::IdDigest;
use crate::verdict::Verdict;

/// The verdicts' file name.
pub const VERDICTS: &str = "verdicts.jsonl";
const TIMINGS: &str = "timings.jsonl";

/// How many verdicts may wait for the disk.
const QUEUE: usize = 256;

/// How long one verdict took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The record's id.
    pub id: String,
    /// Which attempt it was.
    pub attempt: u32,
    /// From the record to the verdict.
    pub seconds: f64,
    /// From the record to the first piece of the answer.
    pub seconds_to_first: f64,
    /// In how many pieces the answer came.
    pub pieces: u64,
}

impl Timing {
    /// No time yet.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), attempt: 1, seconds: 0.0, seconds_to_first: 0.0, pieces: 0 }
    }
}

/// What is known of a record that was judged before, in four bytes: there may be millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged(u32);

impl Judged {
    fn new(attempt: u32, unscored: bool) -> Self {
        Self(attempt << 1 | u32::from(unscored))
    }

    /// The latest attempt.
    pub fn attempt(self) -> u32 {
        self.0 >> 1
    }

    /// Whether it gave no number.
    pub fn is_unscored(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A torn last line that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The file.
    pub path: PathBuf,
    /// How much was cut off.
    pub bytes: u64,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes } = self;
        write!(f, "{}: cut off a torn last line ({bytes} bytes); its record is judged again", path.display())
    }
}

/// What an earlier session left in the journal.
#[derive(Debug)]
pub struct Before {
    /// The records with a verdict, by the digest of their id.
    pub judged: HashMap<IdDigest, Judged>,
    /// What had to be repaired.
    pub repair: Option<Repair>,
}

/// Appends verdicts to a run's folder.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    queue: Option<SyncSender<(String, String)>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    stored: Arc<AtomicU64>,
}

impl Journal {
    /// Opens the journal of a folder, and says what is in it.
    pub fn open(folder: &RunFolder) -> Result<(Self, Before), RunError> {
        let path = folder.path().join(VERDICTS);
        let io = |source| RunError::Io { path: path.clone(), source };
        let open = |name: &str| OpenOptions::new().read(true).append(true).create(true).open(folder.path().join(name));
        let mut verdicts = open(VERDICTS).map_err(io)?;
        let mut timings = open(TIMINGS).map_err(io)?;
        let (judged, lines, good) = scan(&path, &mut verdicts)?;
        let length = verdicts.metadata().map_err(io)?.len();
        let repair = (good < length).then(|| Repair { path: path.clone(), bytes: length - good });
        if repair.is_some() {
            verdicts.set_len(good).and_then(|()| verdicts.sync_all()).map_err(io)?;
        }
        keep_lines(&mut timings, lines).map_err(io)?;
        let stored = Arc::new(AtomicU64::new(judged.len() as u64));
        let (queue, receiver) = sync_channel(QUEUE);
        let counter = Arc::clone(&stored);
        let writer = thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_all(&receiver, verdicts, timings, &counter))
            .map_err(io)?;
        let journal = Self { path, queue: Some(queue), writer: Some(writer), stored };
        Ok((journal, Before { judged, repair }))
    }

    /// Hands a verdict to the writer.
    pub fn append(&mut self, verdict: &Verdict, timing: &Timing) -> Result<(), RunError> {
        let json = |error: serde_json::Error| RunError::Corrupt {
            path: self.path.clone(),
            line: None,
            what: error.to_string(),
        };
        let lines = (serde_json::to_string(verdict).map_err(json)?, serde_json::to_string(timing).map_err(json)?);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(lines).is_ok());
        // The writer only goes away when a write failed; closing gives the error.
        if sent { Ok(()) } else { self.end() }
    }

    /// Verdicts that are safely on disk.
    pub fn stored(&self) -> u64 {
        self.stored.load(Ordering::Acquire)
    }

    /// Waits until every verdict is on disk.
    pub fn close(mut self) -> Result<u64, RunError> {
        self.end()?;
        Ok(self.stored())
    }

    fn end(&mut self) -> Result<(), RunError> {
        self.queue = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let result = writer.join().unwrap_or_else(|_| Err(io::Error::other("the journal's writer stopped")));
        result.map_err(|source| RunError::Io { path: self.path.clone(), source })
    }
}

/// The writer's loop: takes all that waits, writes it, syncs once, counts it.
fn write_all(
    queue: &Receiver<(String, String)>,
    mut verdicts: File,
    mut timings: File,
    stored: &AtomicU64,
) -> io::Result<()> {
    while let Ok(first) = queue.recv() {
        let mut count = 0;
        let (mut verdict_lines, mut timing_lines) = (String::new(), String::new());
        for (verdict, timing) in std::iter::once(first).chain(queue.try_iter().take(QUEUE)) {
            verdict_lines.push_str(&verdict);
            verdict_lines.push('\n');
            timing_lines.push_str(&timing);
            timing_lines.push('\n');
            count += 1;
        }
        timings.write_all(timing_lines.as_bytes())?;
        verdicts.write_all(verdict_lines.as_bytes())?;
        verdicts.sync_data()?;
        stored.fetch_add(count, Ordering::Release);
    }
    timings.sync_data()
}

/// What a resumed run has to know of a verdict.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    #[serde(default = "one")]
    attempt: u32,
    #[serde(borrow)]
    outcome: Status<'a>,
}

#[derive(Deserialize)]
struct Status<'a> {
    status: &'a str,
}

fn one() -> u32 {
    1
}

/// Reads the verdicts that are there: what was judged, how many lines, and how many bytes of them are whole.
fn scan(path: &Path, file: &mut File) -> Result<(HashMap<IdDigest, Judged>, u64, u64), RunError> {
    let io = |source| RunError::Io { path: path.to_owned(), source };
    let mut judged: HashMap<IdDigest, Judged> = HashMap::new();
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    let (mut lines, mut good) = (0, 0);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(io)?;
        if !line.ends_with(b"\n") {
            return Ok((judged, lines, good));
        }
        match serde_json::from_slice::<Line<'_>>(&line) {
            Ok(verdict) => {
                let unscored = verdict.outcome.status == "unscored";
                judged.insert(IdDigest::of(&verdict.id), Judged::new(verdict.attempt, unscored));
            }
            // A power cut can leave a last line that is long enough but not what was written.
            Err(_) if reader.fill_buf().map_err(io)?.is_empty() => return Ok((judged, lines, good)),
            Err(error) => {
                return Err(RunError::Corrupt {
                    path: path.to_owned(),
                    line: Some(lines + 1),
                    what: format!(
                        "not a verdict ({error}); the file was changed by something else. Judge again into another --out"
                    ),
                });
            }
        }
        lines += 1;
        good += length as u64;
    }
}

/// Cuts a file to its first lines: timings of verdicts that were never stored go.
fn keep_lines(file: &mut File, lines: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(1 << 18, &mut *file);
    let mut good = 0;
    for _ in 0..lines {
        let length = reader.skip_until(b'\n')?;
        if length == 0 {
            break;
        }
        good += length as u64;
    }
    let length = file.metadata()?.len();
    if good < length { file.set_len(good) } else { Ok(()) }
}
