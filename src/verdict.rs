//! The result of judging one record.
//!
//! Invariant: a verdict has no default. It holds the numbers of the task, or the reason why there are none; there is no
//! third state, and nothing can turn the second into the first.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::answer::{Finish, Reading, Reason, Unscored, Values};
use crate::dataset::{Entry, Problem, ProblemKind, Record};
use crate::engine::Weighed;
use crate::length::{LengthRule, Unit, within_percent, words};
use crate::media::{Fault, Frame, FrameIndex, Frames, MediaError};
use crate::prompt::canonical;
use crate::task::{AnswerSpec, Rule, Task};

/// The result of judging one record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The record's id.
    pub id: String,
    /// The system whose caption was judged; empty if the record does not name one.
    pub system: String,
    /// The task.
    pub task: String,
    /// The caption type, by the task's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption_type: Option<String>,
    /// How often this record was judged; a later attempt replaces an earlier one.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// The numbers, or why there are none.
    pub outcome: Outcome,
    /// How many events there are.
    pub events: Events,
    /// The frames that the judge was shown; absent if it was shown none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FramesSeen>,
    /// How the answer ended; absent if the judge was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// The answer, word for word, up to where the judge was stopped; absent if the judge was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The record's `human`, passed through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub human: Option<Value>,
    /// The record's other fields, passed through.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

fn first() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for a reference
fn is_first(attempt: &u32) -> bool {
    *attempt == 1
}

/// The numbers, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// The judge's answer gave every number of the task.
    Scored(Scored),
    /// There is no number, and this is why.
    Unscored(Unscored),
}

/// The numbers of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scored {
    /// Of a `counts` task.
    Counts(Counts),
    /// Of a `json_score` task.
    Score(Score),
}

/// The counts of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// The counts by name.
    pub counts: BTreeMap<String, u32>,
    /// The same by the labels of the answer; absent if not every listed event has a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labelled: Option<BTreeMap<String, u32>>,
    /// Whether stated and labelled counts are the same; absent if that cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agree: Option<bool>,
}

/// The score of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// The score after the task's rules.
    pub score: u32,
    /// The score as the judge gave it.
    pub raw_score: u32,
    /// The judge's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rules that were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleCheck>,
    /// How likely each score was where the judge wrote this one; absent if the judge is no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
}

/// How likely each score was, by the model's own logits; before the task's rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The probability of each score, from the lowest that the task allows to the highest; together 1.
    pub probabilities: Vec<f64>,
    /// Their mean.
    pub expected: f64,
    /// Their entropy, in nats: 0 if only one score was possible.
    pub entropy: f64,
    /// The likeliest score; of equal ones the lowest. `raw_score` may be another one at temperatures above 0.
    pub likeliest: u32,
}

impl Distribution {
    /// What shares of the scores from `min` on say, to six decimals.
    fn new(min: u32, shares: &[f64]) -> Self {
        let round = |number: f64| (number * 1e6).round() / 1e6;
        let scores = || (min..).map(f64::from).zip(shares);
        let entropy: f64 = shares.iter().filter(|share| **share > 0.0).map(|share| -share * share.ln()).sum();
        let likeliest = (min..).zip(shares).fold(
            (min, 0.0),
            |best, (score, share)| {
                if *share > best.1 { (score, *share) } else { best }
            },
        );
        Self {
            probabilities: shares.iter().map(|share| round(*share)).collect(),
            expected: round(scores().map(|(score, share)| score * share).sum()),
            // Rounding can leave a negative zero.
            entropy: round(entropy).abs(),
            likeliest: likeliest.0,
        }
    }
}

/// A rule about length, and whether the caption keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum RuleCheck {
    /// The task's rule: the word count is within ±`percent` of the reference's, or the score is at most `cap`.
    WordCountWithin {
        /// How far the count may be off.
        percent: u32,
        /// The caption's words.
        caption_words: u32,
        /// The reference's words.
        reference_words: u32,
        /// Whether the caption keeps the rule.
        kept: bool,
        /// The highest score for a caption that does not.
        cap: u32,
    },
    /// The record's rule (`length_rule`): reported, without effect on the score.
    Length {
        /// The rule as the record has it.
        text: String,
        /// What is counted; absent, as is all that follows, if the rule was not understood.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<Unit>,
        /// The fewest allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u32>,
        /// The most allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u32>,
        /// The caption's length.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        measured: Option<u32>,
        /// Whether the caption keeps the rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<bool>,
    },
}

/// How many events there are on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Ground-truth events of the record.
    pub record: u32,
    /// Whether one of them was inserted.
    pub inserted: bool,
    /// Events that the answer lists; absent if it has no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<u32>,
}

impl Events {
    fn of(record: &Record) -> Self {
        Self {
            record: u32::try_from(record.events.len()).unwrap_or(u32::MAX),
            inserted: record.inserted_index.is_some(),
            listed: None,
        }
    }
}

/// The frames that stand behind a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FramesSeen {
    /// How many frames the video has.
    pub of: u64,
    /// Those that were taken, in the order in which they were shown.
    pub seen: Vec<FrameSeen>,
    /// SHA-256 over the pixels of all of them.
    pub sha256: String,
    /// What is wrong with the video.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// A frame that stands behind a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameSeen {
    /// Its place in the video.
    pub index: FrameIndex,
    /// When it is shown, in seconds.
    pub time: f64,
}

impl From<&Frames> for FramesSeen {
    fn from(frames: &Frames) -> Self {
        let seen = |frame: &Frame| FrameSeen { index: frame.index, time: frame.time };
        Self {
            of: frames.total,
            seen: frames.frames.iter().map(seen).collect(),
            sha256: frames.sha256(),
            faults: frames.faults.clone(),
        }
    }
}

impl Verdict {
    /// The verdict on a record that the judge answered. `scores` tells how likely others were, at each place of the answer
    /// where a score was written.
    pub fn answered(
        task: &Task,
        record: &Record,
        answer: String,
        finish: Finish,
        reading: Reading,
        scores: &[Weighed],
    ) -> Self {
        let mut events = Events::of(record);
        events.listed = reading.listed_events;
        let outcome = match reading.values {
            Err(unscored) => Outcome::Unscored(unscored),
            Ok(Values::Counts(counts)) => match check_against_record(task, record, &counts, events.listed) {
                Err(detail) => {
                    Outcome::Unscored(Unscored { reason: Reason::Contradictory, detail, span: reading.span })
                }
                Ok(()) => {
                    Outcome::Scored(Scored::Counts(Counts { counts, labelled: reading.labelled, agree: reading.agree }))
                }
            },
            Ok(Values::Score { score, reason }) => {
                let distribution = distribution(task, reading.span, scores);
                Outcome::Scored(Scored::Score(Score { distribution, ..apply_rules(task, record, score, reason) }))
            }
        };
        Self { events, finish: Some(finish), answer: Some(answer), ..Self::about(task, record, outcome) }
    }

    /// The verdict on a record that no answer could be had for. Of a broken record it tells all that could be read, so
    /// that the record lowers the coverage wherever it would have counted: of its caption type, of inserted events.
    pub fn unanswered(task: &Task, entry: &Entry, unscored: Unscored) -> Self {
        let outcome = Outcome::Unscored(unscored);
        match &entry.record {
            Ok(record) => Self::about(task, record, outcome),
            Err(broken) => Self {
                id: entry.id.clone(),
                system: entry.system.clone().unwrap_or_default(),
                ..Self::about(task, &broken.partial, outcome)
            },
        }
    }

    fn about(task: &Task, record: &Record, outcome: Outcome) -> Self {
        Self {
            id: record.id.clone(),
            system: record.system.clone(),
            task: task.name.clone(),
            caption_type: caption_type(task, record).map(str::to_owned),
            attempt: 1,
            outcome,
            events: Events::of(record),
            frames: None,
            finish: None,
            answer: None,
            human: record.human.clone(),
            extra: record.extra.clone(),
        }
    }

    /// Whether there is no number.
    pub fn is_unscored(&self) -> bool {
        matches!(self.outcome, Outcome::Unscored(_))
    }
}

/// The first problem of a record, as the reason of an unscored verdict.
pub fn problem_to_unscored(problem: &Problem) -> Unscored {
    let reason = match problem.kind {
        ProblemKind::InvalidRecord => Reason::InvalidRecord,
        ProblemKind::MissingField => Reason::MissingField,
        ProblemKind::EmptyCaption => Reason::EmptyCaption,
        ProblemKind::MissingVideo => Reason::MissingVideo,
    };
    Unscored::new(reason, problem.to_string())
}

/// Why a video that gives no frames leaves its record without a number.
pub fn media_to_unscored(error: &MediaError) -> Unscored {
    let reason = match error {
        MediaError::Io { .. } => Reason::MissingVideo,
        MediaError::Damaged(_) => Reason::DamagedVideo,
        MediaError::Unsupported(_) | MediaError::Limit(_) | MediaError::Crashed(_) | MediaError::Usage(_) => {
            Reason::UnreadableVideo
        }
    };
    Unscored::new(reason, format!("the video: {error}"))
}

fn caption_type<'a>(task: &'a Task, record: &'a Record) -> Option<&'a str> {
    let given = record.caption_type.as_deref().filter(|text| !text.trim().is_empty())?;
    let known = task.caption_type_placeholder().and_then(|placeholder| canonical(placeholder, given));
    Some(known.unwrap_or(given))
}

/// What the answer alone cannot know: counts that the record makes impossible, and a list without any of its events.
fn check_against_record(
    task: &Task,
    record: &Record,
    counts: &BTreeMap<String, u32>,
    listed: Option<u32>,
) -> Result<(), String> {
    let AnswerSpec::Counts(spec) = &task.spec.answer else { return Ok(()) };
    let (events, inserted) = (record.events.len(), usize::from(record.inserted_index.is_some()));
    if spec.lists_record_events() && listed == Some(0) && events > 0 {
        return Err(format!("the answer lists no event, but the record has {events} ground-truth events"));
    }
    for count in &spec.counts {
        let (name, value) = (&count.name, counts.get(&count.name).copied().unwrap_or(0));
        for bound in &count.at_most {
            let (limit, what) = match bound.as_str() {
                "record_events" => (events, "ground-truth"),
                "inserted_events" => (inserted, "inserted"),
                _ => continue,
            };
            if value as usize > limit {
                return Err(format!("{name} is {value}, but the record has {limit} {what} events"));
            }
        }
    }
    Ok(())
}

/// The distribution at the place of the score that counts: the last one in the object that was read.
fn distribution(task: &Task, span: Option<[usize; 2]>, scores: &[Weighed]) -> Option<Distribution> {
    let (AnswerSpec::JsonScore(spec), Some([start, end])) = (&task.spec.answer, span) else { return None };
    let weighed = scores.iter().rfind(|weighed| (start..end).contains(&weighed.at))?;
    Some(Distribution::new(spec.min, &weighed.shares))
}

fn apply_rules(task: &Task, record: &Record, raw_score: u32, reason: Option<String>) -> Score {
    let mut score = raw_score;
    let mut rules = Vec::new();
    let count = |text: &str| u32::try_from(words(text)).unwrap_or(u32::MAX);
    for rule in &task.spec.rules {
        let Rule::WordCountWithin { percent, caption_types, cap } = rule;
        let applies = caption_types.is_empty()
            || caption_type(task, record).is_some_and(|name| caption_types.iter().any(|wanted| wanted == name));
        let reference = record.reference.as_deref().filter(|text| applies && !text.trim().is_empty());
        let Some(reference) = reference else { continue };
        let (caption_words, reference_words) = (count(&record.caption), count(reference));
        let kept = within_percent(caption_words, reference_words, *percent);
        if !kept {
            score = score.min(*cap);
        }
        rules.push(RuleCheck::WordCountWithin { percent: *percent, caption_words, reference_words, kept, cap: *cap });
    }
    if let Some(text) = record.length_rule.clone() {
        let rule = LengthRule::parse(&text);
        let checked = rule.map(|rule| rule.check(&record.caption));
        rules.push(RuleCheck::Length {
            text,
            unit: rule.map(|rule| rule.unit),
            min: rule.and_then(|rule| rule.min),
            max: rule.and_then(|rule| rule.max),
            measured: checked.map(|(measured, _)| measured),
            kept: checked.map(|(_, kept)| kept),
        });
    }
    Score { score, raw_score, reason, rules, distribution: None }
}
