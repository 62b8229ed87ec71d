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
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};

use super::atomic::sync_folder;
use super::lines::{Judged, Scan, scan};
use super::{RunError, RunFolder};
use crate::dataset::IdDigest;
use crate::judge::Effort;
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
    /// From the record to the last frame of its video, if it was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_for_frames: Option<f64>,
    /// In how many pieces the answer came.
    pub pieces: u64,
    /// What the answer took, if a model gave it.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

impl Timing {
    /// No time yet.
    pub fn new(id: &str, attempt: u32) -> Self {
        Self {
            id: id.to_owned(),
            attempt,
            seconds: 0.0,
            seconds_to_first: 0.0,
            seconds_for_frames: None,
            pieces: 0,
            effort: None,
        }
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
    queue: Option<SyncSender<Lines>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    stored: Arc<AtomicU64>,
}

impl Journal {
    /// Opens the journal of a folder, and says what is in it.
    pub fn open(folder: &RunFolder, task: &str) -> Result<(Self, Before), RunError> {
        let path = folder.path().join(VERDICTS);
        let timings_path = folder.path().join(TIMINGS);
        let io = |source| RunError::Io { path: path.clone(), source };
        let open = |path: &Path| OpenOptions::new().read(true).append(true).create(true).open(path);
        let verdicts = open(&path).map_err(io)?;
        let mut timings = open(&timings_path).map_err(|source| RunError::Io { path: timings_path.clone(), source })?;
        // The files' names have to survive a power cut before a verdict in them can.
        sync_folder(folder.path()).map_err(io)?;
        let Scan { judged, lines, bytes } = scan(&path, BufReader::with_capacity(1 << 18, &verdicts), task)?;
        let length = verdicts.metadata().map_err(io)?.len();
        let repair = (bytes < length).then(|| Repair { path: path.clone(), bytes: length - bytes });
        if repair.is_some() {
            verdicts.set_len(bytes).and_then(|()| verdicts.sync_all()).map_err(io)?;
        }
        keep_lines(&mut timings, lines).map_err(|source| RunError::Io { path: timings_path, source })?;
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
        let lines = Lines {
            verdict: serde_json::to_string(verdict).map_err(json)?,
            timing: serde_json::to_string(timing).map_err(json)?,
            is_new: verdict.attempt == 1,
        };
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(lines).is_ok());
        if sent {
            return Ok(());
        }
        // The writer only goes away when a write failed.
        self.end()?;
        Err(RunError::Io { path: self.path.clone(), source: io::Error::other("the journal is closed") })
    }

    /// Records whose verdict is safely on disk.
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

/// Whatever ends a run early, what was handed to the writer is written.
impl Drop for Journal {
    fn drop(&mut self) {
        // An error here was either reported by `append` or comes after one that ends the run.
        let _ = self.end();
    }
}

/// What the writer writes for one verdict.
#[derive(Debug)]
struct Lines {
    verdict: String,
    timing: String,
    /// The record had no verdict before.
    is_new: bool,
}

/// The writer's loop: takes all that waits, writes it, syncs once, counts it.
fn write_all(queue: &Receiver<Lines>, mut verdicts: File, mut timings: File, stored: &AtomicU64) -> io::Result<()> {
    while let Ok(first) = queue.recv() {
        let mut new_records = 0;
        let (mut verdict_lines, mut timing_lines) = (String::new(), String::new());
        for lines in std::iter::once(first).chain(queue.try_iter().take(QUEUE)) {
            verdict_lines.push_str(&lines.verdict);
            verdict_lines.push('\n');
            timing_lines.push_str(&lines.timing);
            timing_lines.push('\n');
            new_records += u64::from(lines.is_new);
        }
        timings.write_all(timing_lines.as_bytes())?;
        verdicts.write_all(verdict_lines.as_bytes())?;
        verdicts.sync_data()?;
        stored.fetch_add(new_records, Ordering::Release);
    }
    timings.sync_data()
}

/// Cuts a file to its first whole lines: timings of verdicts that were never stored go.
fn keep_lines(file: &mut File, lines: u64) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, &mut *file);
    let mut line = Vec::new();
    let mut good = 0;
    for _ in 0..lines {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            break;
        }
        good += length as u64;
    }
    let length = file.metadata()?.len();
    if good < length { file.set_len(good) } else { Ok(()) }
}
