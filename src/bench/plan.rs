//! From a sweep to its cells: every combination of what was asked for.
//!
//! Invariant: cells of one model stand together, so that each model is loaded once, and no two cells are the same.

use candle_core::quantized::GgmlDType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::judge::MOST_AT_ONCE;
use crate::model::quantise::{TYPES, by_name, name_of};

/// More cells than anybody waits for.
const MOST_CELLS: usize = 1_000;
/// How a quantisation is named that leaves the weights as they are.
pub const AS_STORED: &str = "none";

/// Why a sweep cannot be measured.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// A number that has to be above 0.
    #[error("--{0} 0: give numbers above 0")]
    Zero(&'static str),
    /// A quantisation that is not there.
    #[error("--quant {name}: there is no such type; there are {AS_STORED}, {known}")]
    Quant {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Too many cells.
    #[error("the sweep has {0} cells, and at most {MOST_CELLS} are measured; sweep over fewer values at a time")]
    TooMany(usize),
    /// A batch of more records than are judged at once.
    #[error("--batch {0}: at most {MOST_AT_ONCE} records are judged at once")]
    Batch(usize),
}

/// What is swept over; each list has at least one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Records that are judged at a time.
    pub batch: Vec<usize>,
    /// Types that layers are quantised to, by name; `none` leaves them as they are.
    pub quant: Vec<String>,
    /// Frames of a video.
    pub frames: Vec<u32>,
    /// Threads of the CPU.
    pub threads: Vec<usize>,
    /// Tokens of an answer.
    pub max_tokens: Vec<usize>,
}

/// One combination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Records that are judged at a time.
    pub batch: usize,
    /// The type that layers are quantised to, or `none`.
    pub quant: String,
    /// Frames of a video; none where the task shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
    /// Threads of the CPU.
    pub threads: usize,
    /// The longest answer, in tokens.
    pub max_tokens: usize,
}

impl Cell {
    /// The type that layers are quantised to.
    pub fn dtype(&self) -> Option<GgmlDType> {
        by_name(&self.quant)
    }

    /// The cell in a few words: those values in which cells of the sweep differ, or all.
    pub fn named(&self, all: &[Cell]) -> String {
        let differs = |index: usize| all.iter().any(|other| other.values()[index] != self.values()[index]);
        let told = self.values().into_iter().enumerate().filter(|(index, _)| all.len() < 2 || differs(*index));
        told.map(|(_, (name, value))| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }

    fn values(&self) -> [(&'static str, String); 5] {
        [
            ("quant", self.quant.clone()),
            ("batch", self.batch.to_string()),
            ("frames", self.frames.map_or("no".to_owned(), |frames| frames.to_string())),
            ("threads", self.threads.to_string()),
            ("max_tokens", self.max_tokens.to_string()),
        ]
    }
}

impl Sweep {
    /// All combinations, those with the same model side by side. Without pictures, frames make no difference.
    pub fn cells(&self, shows_frames: bool) -> Result<Vec<Cell>, PlanError> {
        let zeros = [
            ("batch", self.batch.contains(&0)),
            ("frames", self.frames.contains(&0)),
            ("threads", self.threads.contains(&0)),
            ("max-tokens", self.max_tokens.contains(&0)),
        ];
        if let Some((flag, _)) = zeros.into_iter().find(|(_, zero)| *zero) {
            return Err(PlanError::Zero(flag));
        }
        if let Some(batch) = self.batch.iter().find(|batch| **batch > MOST_AT_ONCE) {
            return Err(PlanError::Batch(*batch));
        }
        let frames: Vec<Option<u32>> = match shows_frames {
            true => self.frames.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        let lists = [self.batch.len(), self.quant.len(), frames.len(), self.threads.len(), self.max_tokens.len()];
        let count = lists.into_iter().fold(1, usize::saturating_mul);
        if count > MOST_CELLS {
            return Err(PlanError::TooMany(count));
        }
        let mut cells = Vec::with_capacity(count);
        for quant in &self.quant {
            let quant = canonical(quant)?;
            for (batch, frames) in self.batch.iter().flat_map(|batch| frames.iter().map(move |frames| (batch, frames)))
            {
                for threads in &self.threads {
                    cells.extend(self.max_tokens.iter().map(|max_tokens| Cell {
                        batch: *batch,
                        quant: quant.clone(),
                        frames: *frames,
                        threads: *threads,
                        max_tokens: *max_tokens,
                    }));
                }
            }
        }
        let mut once: Vec<Cell> = Vec::with_capacity(cells.len());
        for cell in cells {
            if !once.contains(&cell) {
                once.push(cell);
            }
        }
        Ok(once)
    }
}

/// A type's own name: `Q4_K_M` and `q4k` are one.
fn canonical(name: &str) -> Result<String, PlanError> {
    if name == AS_STORED {
        return Ok(name.to_owned());
    }
    let known = || TYPES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let dtype = by_name(name).ok_or_else(|| PlanError::Quant { name: name.to_owned(), known: known() })?;
    Ok(name_of(dtype).to_owned())
}
