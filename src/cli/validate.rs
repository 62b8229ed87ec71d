//! `capjudge validate`: every problem of a data set, not only the first.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args as ClapArgs;
use serde_json::json;

use super::End;
use super::output::{print, printable_lines, say};
use crate::dataset::{DataError, Entry, Limits, Problem, RecordReader, SeenIds, check, empty_caption};
use crate::task::{Catalog, Task};

const EXAMPLES: &str = "\
Examples:
  capjudge validate captions.jsonl --task omission
  capjudge validate captions.jsonl --task score --json | jq .field";

/// Flags of `validate`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The data set, JSON Lines
    data: PathBuf,
    /// The task: hallucination, omission, score, or one of --prompts; give it once for each whose needs are checked
    #[arg(long)]
    task: Vec<String>,
    /// A folder with tasks of your own (NAME.toml + NAME.txt)
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
    /// The longest line of the data set that is read
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().line_bytes)]
    max_line_bytes: usize,
    /// Print a JSON object for each problem
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let catalog = Catalog::load(self.prompts.as_deref())?;
        let tasks = self.task.iter().map(|name| catalog.get(name)).collect::<Result<Vec<&Task>, _>>()?;
        let folder = self.data.parent().unwrap_or(Path::new(""));
        let mut printer = Printer { path: &self.data, json: self.json, problems: 0 };
        if is_gzip(&self.data) {
            printer.line_problem(1, "compressed with gzip; unpack it first (gunzip)")?;
            return Ok(End::Invalid);
        }
        let mut ids = SeenIds::default();
        let mut records: u64 = 0;
        for entry in RecordReader::open(&self.data, Limits { line_bytes: self.max_line_bytes })? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(DataError::Line { line, what, .. }) => {
                    printer.line_problem(line, &what)?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            records += 1;
            if let Some(first) = ids.note(&entry.id, entry.line) {
                let what = format!("{:?} was used in line {first} already", entry.id);
                printer.problem(&entry, "id", &what, "make ids unique (import has --id-prefix)")?;
            }
            for problem in problems(&entry, &tasks, folder) {
                printer.problem(&entry, &problem.field, &problem.what, &problem.remedy)?;
            }
            if let Some(missing) = unneeded_video(&entry, &tasks, folder) {
                let (path, line, missing) = (self.data.display(), entry.line, missing.display());
                let warning = format!("{path}:{line}: warning: video names {missing}, which does not exist");
                say(&format!("{warning}; no task here shows frames, so it is not needed"));
            }
        }
        let problems = printer.problems;
        if records == 0 && problems == 0 {
            printer.line_problem(1, "no records; a data set has one JSON object a line")?;
            return Ok(End::Invalid);
        }
        say(&format!("{}: {records} records, {problems} problems", self.data.display()));
        Ok(if problems == 0 { End::Done } else { End::Invalid })
    }
}

/// Whether a file starts as gzip does. A pipe is not looked into: what is read from it is gone.
fn is_gzip(path: &Path) -> bool {
    let mut start = [0; 2];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok())
        && start == [0x1f, 0x8b]
}

/// All problems of a record: those of its fields, and what the tasks miss in the fields that have none yet.
fn problems(entry: &Entry, tasks: &[&Task], folder: &Path) -> Vec<Problem> {
    let (record, mut all) = match &entry.record {
        Ok(record) => (record, Vec::new()),
        Err(broken) => (&*broken.partial, broken.problems.clone()),
    };
    let known: HashSet<String> = all.iter().map(|problem| problem.field.clone()).collect();
    let mut missed: Vec<Problem> = tasks.iter().flat_map(|task| check(record, task, Some(folder))).collect();
    if tasks.is_empty() {
        missed.extend(empty_caption(record));
    }
    for problem in missed {
        if !known.contains(&problem.field) && !all.contains(&problem) {
            all.push(problem);
        }
    }
    all
}

/// A video that is named and not there, though no task needs it.
fn unneeded_video(entry: &Entry, tasks: &[&Task], folder: &Path) -> Option<PathBuf> {
    let record = entry.record.as_ref().ok()?;
    let needed = tasks.iter().any(|task| task.sees_frames());
    record.video.as_ref().filter(|_| !needed)?.paths(folder).into_iter().find(|path| !path.exists())
}

struct Printer<'a> {
    path: &'a Path,
    json: bool,
    problems: u64,
}

impl Printer<'_> {
    fn problem(&mut self, entry: &Entry, field: &str, what: &str, remedy: &str) -> Result<()> {
        self.problems += 1;
        let (path, line) = (self.path.display(), entry.line);
        if self.json {
            let file = path.to_string();
            let problem =
                json!({"file": file, "line": line, "id": entry.id, "field": field, "what": what, "remedy": remedy});
            print(&format!("{problem}\n"))
        } else {
            print(&printable_lines(&format!("{path}:{line}: {field} {what}; {remedy}\n")))
        }
    }

    fn line_problem(&mut self, line: u64, what: &str) -> Result<()> {
        self.problems += 1;
        let path = self.path.display();
        if self.json {
            print(&format!("{}\n", json!({"file": path.to_string(), "line": line, "what": what})))
        } else {
            print(&printable_lines(&format!("{path}:{line}: {what}\n")))
        }
    }
}
