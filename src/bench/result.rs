//! What was measured: the file that `bench --out` writes, `bench compare` reads and `capjudge schema bench` describes.
//!
//! Invariant: all samples are in it, one for each judgement, in the order in which they were taken.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::plan::Cell;
use super::statistics::Summary;

/// The version of this format.
pub const SCHEMA_VERSION: u32 = 1;

/// A whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bench {
    /// 1.
    pub schema_version: u32,
    /// The version of capjudge.
    pub version: String,
    /// The machine, before anything was measured.
    pub machine: Machine,
    /// The judge.
    pub judge: JudgeFacts,
    /// What was judged.
    pub workload: WorkloadFacts,
    /// How it was measured.
    pub plan: Plan,
    /// Times to load the model, one entry for each quantisation.
    pub loads: Vec<Load>,
    /// What was measured in each cell of the sweep.
    pub cells: Vec<CellResult>,
    /// What should be known about these numbers.
    pub warnings: Vec<String>,
}

/// Which judge it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgeFacts {
    /// Its name, as it was given.
    pub name: String,
    /// SHA-256 over the files that decide its answers, as in `run.json`.
    pub sha256: String,
    /// Where and with which kernels it computes.
    pub arithmetic: String,
    /// Whether its weights are random: then no answer is a verdict, and speed is all that it tells.
    pub random: bool,
}

/// What was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadFacts {
    /// The task.
    pub task: String,
    /// SHA-256 of its prompt.
    pub prompt_sha256: String,
    /// The data set; `built in` if none was given.
    pub data: String,
    /// SHA-256 of the data set.
    pub data_sha256: String,
    /// Records that were judged in each turn.
    pub records: usize,
    /// What was shown: `none`, `synthetic WIDTHxHEIGHT`, or a video.
    pub pictures: String,
    /// Whether the beginning that prompts have in common was read once.
    pub reuse: bool,
}

/// How it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Turns of each cell that do not count.
    pub warmup: usize,
    /// Turns of each cell that do.
    pub repeats: usize,
    /// How cells took turns.
    pub order: String,
}

/// Times to load a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// The quantisation.
    pub quant: String,
    /// Seconds, after the kernel was asked to forget the model's files; absent where it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_seconds: Option<f64>,
    /// Seconds, each time after that.
    pub warm_seconds: Vec<f64>,
    /// What the times mean.
    pub note: String,
    /// Seconds from a loaded model to its first verdict: it reads the rubric, and what is mapped and was never touched.
    pub first_verdict_seconds: f64,
}

/// What was measured in a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellResult {
    /// Its settings.
    pub cell: Cell,
    /// Every judgement.
    pub samples: Vec<Judgement>,
    /// Percentiles of the samples by stage: seconds, but tokens a second for `prefill_rate` and `decode_rate`.
    pub stages: BTreeMap<Stage, Summary>,
    /// Records that would be judged in an hour, one turn after the other.
    pub judgements_per_hour: f64,
    /// The most memory that the process had; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<Peak>,
    /// Energy of the processor packages for one judgement, all other programs included; absent where the system does not
    /// tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules_per_judgement: Option<f64>,
}

/// The most memory that the process had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// Bytes in memory at the same time, pages of mapped files included.
    pub bytes: u64,
    /// Since when.
    pub since: Since,
}

/// Since when a peak is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The turns of this cell alone.
    Cell,
    /// The start of the program, so that cells before it count too.
    Start,
}

/// One judgement. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The record.
    pub id: String,
    /// The turn, counted from 1.
    pub repeat: usize,
    /// To decode the video; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<f64>,
    /// To bring pixels to the model's size and scale; absent without pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pixels: Option<f64>,
    /// In the vision tower and what connects it; absent without pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tower: Option<f64>,
    /// To read the prompt.
    pub prefill: f64,
    /// From the start, with all of the above, to the first token.
    pub first_token: f64,
    /// From the first token to the last.
    pub decode: f64,
    /// In the answer's reader, which works while tokens come.
    pub parse: f64,
    /// From the start to the verdict.
    pub verdict: f64,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that were read before.
    pub reused_tokens: u64,
    /// Tokens of the answer.
    pub answer_tokens: u64,
    /// Whether the answer was a verdict.
    pub scored: bool,
}

/// A stage of a judgement, or a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Decoding the video.
    Frames,
    /// Preparing pixels.
    Pixels,
    /// The vision tower.
    Tower,
    /// Reading the prompt.
    Prefill,
    /// To the first token.
    FirstToken,
    /// Writing the answer.
    Decode,
    /// Reading the answer.
    Parse,
    /// To the verdict.
    Verdict,
    /// Tokens of the prompt a second, without those that were read before.
    PrefillRate,
    /// Tokens of the answer a second, behind the first.
    DecodeRate,
}

impl Stage {
    /// All, in the order of a judgement.
    pub const ALL: [Self; 10] = [
        Self::Frames,
        Self::Pixels,
        Self::Tower,
        Self::Prefill,
        Self::FirstToken,
        Self::Decode,
        Self::Parse,
        Self::Verdict,
        Self::PrefillRate,
        Self::DecodeRate,
    ];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frames => "frame decode",
            Self::Pixels => "preprocessing",
            Self::Tower => "vision encode",
            Self::Prefill => "prefill",
            Self::FirstToken => "time to first token",
            Self::Decode => "decode",
            Self::Parse => "parse",
            Self::Verdict => "time to verdict",
            Self::PrefillRate => "prefill, tokens/s",
            Self::DecodeRate => "decode, tokens/s",
        }
    }

    /// Whether more is better.
    pub fn is_rate(self) -> bool {
        matches!(self, Self::PrefillRate | Self::DecodeRate)
    }

    /// The value of a judgement, if it has one.
    pub fn of(self, sample: &Judgement) -> Option<f64> {
        let rate = |tokens: u64, seconds: f64| (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds);
        match self {
            Self::Frames => sample.frames,
            Self::Pixels => sample.pixels,
            Self::Tower => sample.tower,
            Self::Prefill => Some(sample.prefill),
            Self::FirstToken => Some(sample.first_token),
            Self::Decode => Some(sample.decode),
            Self::Parse => Some(sample.parse),
            Self::Verdict => Some(sample.verdict),
            Self::PrefillRate => rate(sample.prompt_tokens.saturating_sub(sample.reused_tokens), sample.prefill),
            Self::DecodeRate => rate(sample.answer_tokens.saturating_sub(1), sample.decode),
        }
    }
}

impl CellResult {
    /// The values of a stage, in the order in which they were taken.
    pub fn values(&self, stage: Stage) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| stage.of(sample)).collect()
    }

    /// The percentiles of all stages that were measured.
    pub fn summaries(samples: &[Judgement]) -> BTreeMap<Stage, Summary> {
        let values = |stage: Stage| samples.iter().filter_map(|sample| stage.of(sample)).collect::<Vec<f64>>();
        Stage::ALL.into_iter().filter_map(|stage| Some((stage, Summary::of(&values(stage), stage.name())?))).collect()
    }
}
