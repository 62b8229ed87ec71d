//! What a task needs of a record, and what is wrong where it is not there.
//!
//! `validate` prints these problems; a run turns the first one of a record into an unscored verdict. Both ask here, so
//! a data set that validates does not come out unscored for its fields.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Record;
use crate::prompt::{Value, raw_text, value_of};
use crate::task::{Source, Task};

/// Something wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of problem it is.
    pub kind: ProblemKind,
    /// The field it is about.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What the user can do.
    pub remedy: String,
}

/// Kinds of problems; each is a reason for an unscored verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// A field has the wrong type or an impossible value.
    InvalidRecord,
    /// The task needs a field that is not there.
    MissingField,
    /// There is no caption to judge.
    EmptyCaption,
    /// The video is not there.
    MissingVideo,
}

impl Problem {
    pub(super) fn new(
        kind: ProblemKind,
        field: impl Into<String>,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { kind, field: field.into(), what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; {}", self.field, self.what, self.remedy)
    }
}

/// What every task needs: a caption.
pub fn empty_caption(record: &Record) -> Option<Problem> {
    let remedy = "an empty caption is not judged; remove the record if the system should not be measured by it";
    let is_empty = record.caption.trim().is_empty();
    is_empty.then(|| Problem::new(ProblemKind::EmptyCaption, "caption", "is empty", remedy))
}

/// All problems of a record for a task. `videos` is the folder that video paths are relative to; `None` if the judge
/// does not look at frames, so that the video need not be there.
pub fn check(record: &Record, task: &Task, videos: Option<&Path>) -> Vec<Problem> {
    let mut problems = Vec::from_iter(empty_caption(record));
    for (name, placeholder) in &task.spec.placeholders {
        if placeholder.from == Source::Caption {
            continue;
        }
        let field = placeholder.from.field();
        match value_of(placeholder, record) {
            None => {
                let blank = raw_text(&placeholder.from, record).is_some();
                let (state, remedy) =
                    if blank { ("is empty", "fill it in") } else { ("is missing", "add it to the record") };
                let what = format!("{state}, and the task `{}` needs it for {{{name}}}", task.name);
                problems.push(Problem::new(ProblemKind::MissingField, field, what, remedy));
            }
            // A value that is allowed comes as the task's own name for it.
            Some(Value::FromRecord(text)) if !placeholder.values.is_empty() => {
                let known = placeholder.values.iter().chain(placeholder.aliases.keys());
                problems.push(Problem::new(
                    ProblemKind::InvalidRecord,
                    field,
                    format!("is {text:?}, which the task `{}` does not know", task.name),
                    format!("use one of {}", known.cloned().collect::<Vec<_>>().join(", ")),
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(base) = videos.filter(|_| task.sees_frames()) {
        problems.extend(missing_videos(record, task, base));
    }
    problems
}

/// A problem for each file of the video that is not there.
fn missing_videos(record: &Record, task: &Task, base: &Path) -> Vec<Problem> {
    let Some(video) = &record.video else {
        return vec![Problem::new(
            ProblemKind::MissingField,
            "video",
            format!("is missing, and the task `{}` shows frames to the judge", task.name),
            "add the path of the video, of a folder of frames, or a list of images",
        )];
    };
    let own = video.paths(Path::new(""));
    let missing = video.paths(base).into_iter().zip(own).filter(|(path, _)| !path.exists());
    let problem = |(_, path): (PathBuf, PathBuf)| {
        Problem::new(
            ProblemKind::MissingVideo,
            "video",
            format!("names {}, which does not exist", path.display()),
            "paths are relative to the data file; correct the path or add the file",
        )
    };
    missing.map(problem).collect()
}
