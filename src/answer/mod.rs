//! The streaming reader of answers: text in, events out, a reading at the end.
//!
//! Invariant: it never guesses. A reading either holds every number of the task or says why not, and no way of cutting
//! the text into pieces changes it. `docs/answers.md` is the specification of what is read how.

mod counts;
mod labels;
mod markup;
mod number;
mod score;
mod statement;
mod thought;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::task::AnswerSpec;
use counts::{CountsFormat, CountsReader};
use score::{ScoreFormat, ScoreReader};

/// An answer format, prepared for reading.
#[derive(Debug, Clone)]
pub struct Format(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Counts(CountsFormat),
    Score(ScoreFormat),
}

impl Format {
    /// Prepares a task's answer format.
    pub fn new(spec: &AnswerSpec) -> Self {
        Self(match spec {
            AnswerSpec::Counts(spec) => Kind::Counts(CountsFormat::new(spec)),
            AnswerSpec::JsonScore(spec) => Kind::Score(ScoreFormat::new(spec)),
        })
    }
}

/// What the reader sees, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A section begins.
    Section(Section),
    /// An event is listed; they are counted from 1.
    Listed(u32),
    /// An event is labelled: its place among the labelled ones from 1, and the label.
    Label(u32, Arc<str>),
    /// A metric and its value, or what is wrong with the value.
    Metric(Arc<str>, Result<u32, Reason>),
    /// The last needed metric is there: nothing that follows can change the reading.
    Done,
}

/// The parts of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Before the first heading.
    Preamble,
    /// The list of events.
    Events,
    /// A section with nothing to read.
    Other,
    /// A label for each event.
    Labels,
    /// The metrics.
    Final,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The reader had all it needed, and the judge was stopped.
    Done,
    /// The judge ended its answer.
    Stop,
    /// The token limit ended the answer.
    Length,
}

/// Where the counts of a verdict come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum CountFrom {
    /// The counts that the judge states; disagreement with its labels is reported.
    Stated,
    /// The labels that the judge gave its events, counted.
    Labels,
    /// The stated counts, where the labels agree; else unscored.
    Agreeing,
}

/// Why there is no number. `docs/answers.md` explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Nothing was answered.
    EmptyAnswer,
    /// The answer was cut off.
    Truncated,
    /// A needed number is not there.
    MissingMetric,
    /// Words stand in the place of a number.
    NotANumber,
    /// The number is below 0.
    Negative,
    /// The number is not whole.
    Fractional,
    /// The number is outside its range.
    OutOfRange,
    /// More than one number could be meant.
    Ambiguous,
    /// Two statements exclude each other.
    Contradictory,
    /// The template's own words stand where a decision should.
    TemplateEcho,
    /// The only verdict is a quotation of the input.
    OnlyQuoted,
    /// Not every event has a label, and the labels are asked for.
    LabelsIncomplete,
    /// Labels and stated counts differ, and agreement is asked for.
    LabelsDisagree,
    /// A field of the record has a wrong type or value.
    InvalidRecord,
    /// The record lacks a field that the task needs.
    MissingField,
    /// There is no caption.
    EmptyCaption,
    /// The video is not there.
    MissingVideo,
    /// The video cannot be decoded here: its format, a limit, a crash.
    UnreadableVideo,
    /// The video is damaged, and frames of damaged videos are not allowed.
    DamagedVideo,
    /// The judge could not answer.
    JudgeFailed,
}

impl Reason {
    /// Whether another attempt may give a number: not if the record itself is at fault.
    pub fn may_pass(self) -> bool {
        !matches!(self, Reason::InvalidRecord | Reason::MissingField | Reason::EmptyCaption)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Why an answer or a record has no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unscored {
    /// The reason, for machines.
    pub reason: Reason,
    /// The reason, for people.
    pub detail: String,
    /// The bytes of the answer that it is about: start and end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<[usize; 2]>,
}

impl Unscored {
    /// A reason without a place in the answer.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), span: None }
    }

    /// A reason with its place in the answer.
    pub fn at(reason: Reason, detail: impl Into<String>, span: Range<usize>) -> Self {
        Self { reason, detail: detail.into(), span: Some([span.start, span.end]) }
    }
}

/// The numbers of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Counts by name.
    Counts(BTreeMap<String, u32>),
    /// A score as the judge gave it, and its reason.
    Score {
        /// The score.
        score: u32,
        /// The judge's reason.
        reason: Option<String>,
    },
}

/// What an answer says, all told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The numbers, or why there are none.
    pub values: Result<Values, Unscored>,
    /// Where the numbers stand in the answer.
    pub span: Option<[usize; 2]>,
    /// How many events the answer lists; `None` if it has no list.
    pub listed_events: Option<u32>,
    /// The counts by the labels, if every listed event has one.
    pub labelled: Option<BTreeMap<String, u32>>,
    /// Whether the stated counts equal the labelled ones; `None` if that cannot be said.
    pub agree: Option<bool>,
}

/// Reads one answer.
#[derive(Debug)]
pub struct Reader<'a>(Inner<'a>);

#[derive(Debug)]
enum Inner<'a> {
    Counts(CountsReader<'a>),
    Score(ScoreReader<'a>),
}

impl<'a> Reader<'a> {
    /// A reader for one answer. `inputs` are the record's texts that the judge was shown: what stands there word for
    /// word is a quotation.
    pub fn new<T: Into<Cow<'a, str>>>(
        format: &'a Format,
        count_from: CountFrom,
        inputs: impl IntoIterator<Item = T>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        Self(match &format.0 {
            Kind::Counts(format) => Inner::Counts(CountsReader::new(format, count_from, inputs)),
            Kind::Score(format) => Inner::Score(ScoreReader::new(format, inputs)),
        })
    }

    /// The same reader, but one that is done with a score alone where it would wait for its reason.
    pub fn without_reason(mut self) -> Self {
        if let Inner::Score(reader) = &mut self.0 {
            reader.leave_out_reason();
        }
        self
    }

    /// Whether the next character may be the first of a score's value.
    pub fn expects_score(&self) -> bool {
        matches!(&self.0, Inner::Score(reader) if reader.expects_score())
    }

    /// Takes the next piece of the answer. Returns true once the reader is done; later pieces are ignored.
    pub fn push(&mut self, piece: &str, on_event: &mut dyn FnMut(Event)) -> bool {
        match &mut self.0 {
            Inner::Counts(reader) => reader.push(piece, on_event),
            Inner::Score(reader) => reader.push(piece, on_event),
        }
    }

    /// Ends the answer and says what it holds.
    pub fn finish(self, finish: Finish, on_event: &mut dyn FnMut(Event)) -> Reading {
        match self.0 {
            Inner::Counts(reader) => reader.finish(finish, on_event),
            Inner::Score(reader) => reader.finish(finish, on_event),
        }
    }
}
