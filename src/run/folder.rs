//! The folder of a run: what is in it, and that one process at a time writes to it.
//!
//! Invariant: the lock is taken before anything in the folder is read or written, and the system frees it when the
//! process ends, however it ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::atomic::{TEMPORARY, create_folder, write_atomic};
use super::{Fingerprint, Plan, RunError};
use crate::dataset::Survey;
use crate::metrics::Summary;
use crate::task::{Task, TaskSpec};

const LOCK: &str = ".lock";
const RUN_FILE: &str = "run.json";
const SUMMARY: &str = "summary.json";
const SCHEMA_VERSION: u32 = 1;

/// The content of `run.json`: all that a run is made from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    /// The version of this format.
    pub schema_version: u32,
    /// What decides the verdicts.
    pub fingerprint: Fingerprint,
    /// The judge, as it was named.
    pub judge: String,
    /// The data set, as it was named.
    pub data: String,
    /// Records in the data set.
    pub records: u64,
    /// Records of each system.
    pub systems: BTreeMap<String, u64>,
    /// The task's declaration.
    pub declaration: TaskSpec,
    /// The task's prompt template.
    pub template: String,
}

impl RunFile {
    /// What a run is made from.
    pub fn new(plan: &Plan<'_>, fingerprint: Fingerprint, judge: &str, survey: &Survey) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            fingerprint,
            judge: judge.to_owned(),
            data: plan.data.display().to_string(),
            records: survey.records,
            systems: survey.systems.clone(),
            declaration: plan.task.spec.clone(),
            template: plan.task.template.text().to_owned(),
        }
    }

    /// The `run.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(RUN_FILE);
        let corrupt = |what: String| RunError::Corrupt { path: path.clone(), line: None, what };
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => corrupt("not there; name the folder of a run".to_owned()),
            _ => RunError::Io { path: path.clone(), source },
        })?;
        let run_file: Self =
            serde_json::from_str(&text).map_err(|error| corrupt(format!("not a run.json ({error})")))?;
        let Self { schema_version, fingerprint, declaration, template, .. } = &run_file;
        if *schema_version != SCHEMA_VERSION {
            let what = format!("schema_version is {schema_version}; this capjudge reads {SCHEMA_VERSION}");
            return Err(corrupt(what));
        }
        if Fingerprint::prompt(template) != fingerprint.prompt_sha256
            || Fingerprint::declaration(declaration) != fingerprint.declaration_sha256
        {
            return Err(corrupt("its task is not the one that its fingerprint names; it was changed".to_owned()));
        }
        Ok(run_file)
    }

    /// The task of the run, as it was.
    pub fn task(&self, folder: &Path) -> Result<Task, RunError> {
        Task::from_spec(&self.fingerprint.task, self.declaration.clone(), self.template.clone())
            .map_err(|source| RunError::Task { path: folder.join(RUN_FILE), source })
    }
}

/// A run's folder, locked for writing.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// The lock lasts as long as this file is open.
    _lock: File,
}

impl RunFolder {
    /// Opens a new folder, or one whose run has the same fingerprint.
    pub fn open(path: &Path, run_file: &RunFile) -> Result<Self, RunError> {
        let io = |source| RunError::Io { path: path.to_owned(), source };
        create_folder(path).map_err(io)?;
        let lock_path = path.join(LOCK);
        let is_new = !lock_path.exists();
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RunError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let has_run = path.join(RUN_FILE).exists();
        if !has_run && fs::read_dir(path).map_err(io)?.filter_map(Result::ok).any(|entry| !is_ours(&entry.path())) {
            if is_new {
                fs::remove_file(lock_path).map_err(io)?;
            }
            return Err(RunError::NotARun(path.to_owned()));
        }
        let folder = Self { path: path.to_owned(), _lock: lock };
        folder.remove_leftovers().map_err(io)?;
        if has_run {
            let before = RunFile::read(path)?;
            if let Some((field, was, now)) = before.fingerprint.difference(&run_file.fingerprint) {
                return Err(RunError::Changed { path: path.to_owned(), field, was, now });
            }
        } else {
            folder.write(RUN_FILE, run_file)?;
        }
        Ok(folder)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `summary.json`.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), RunError> {
        self.write(SUMMARY, summary)
    }

    fn write<T: Serialize>(&self, name: &str, content: &T) -> Result<(), RunError> {
        let path = self.path.join(name);
        let mut text = serde_json::to_string_pretty(content).map_err(|error| RunError::Corrupt {
            path: path.clone(),
            line: None,
            what: error.to_string(),
        })?;
        text.push('\n');
        write_atomic(&path, text.as_bytes()).map_err(|source| RunError::Io { path, source })
    }

    /// A process that was killed while it wrote a whole file leaves its temporary one behind.
    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if is_temporary(&path) && path.is_file() {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == LOCK) || is_temporary(path)
}

fn is_temporary(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(TEMPORARY))
}
