//! How fast a judge is: on this machine, with these records.
//!
//! ```text
//!  Sweep ──▶ cells ──▶ turns of cells, round by round ──▶ Bench: every sample ──▶ report
//!  plan                measure ─ judgement, workload       result, statistics     └▶ compare
//!                              └ machine, load                 └▶ warnings
//! ```
//!
//! Invariant: every number that is shown can be computed again from the raw samples beside it, and what made them (machine,
//! model, records) stands in the same file.

mod compare;
mod judgement;
mod load;
mod machine;
mod measure;
mod plan;
pub mod report;
mod result;
mod statistics;
mod warnings;
mod workload;

pub use compare::{Comparison, Difference, compare};
pub use machine::{Machine, peak_memory};
pub use measure::{Measuring, Options, measure};
pub use plan::{Cell, PlanError, Sweep};
pub use result::{Bench, CellResult, JudgeFacts, Judgement, Load, Peak, Plan, Since, Stage, WorkloadFacts};
pub use statistics::{Summary, percentile};
pub use warnings::{Warning, warnings_of};
pub use workload::{Pictures, Workload};

use std::path::PathBuf;

use thiserror::Error;

use crate::dataset::DataError;
use crate::judge::JudgeError;
use crate::media::MediaError;
use crate::model::ModelError;

/// Why nothing can be measured, or compared.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The sweep makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The judge cannot be had, or fails.
    #[error(transparent)]
    Judge(#[from] JudgeError),
    /// The model's files cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The data set cannot be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The video cannot be read.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// A record cannot be judged.
    #[error("record {id}: {what}")]
    Record {
        /// The record's id.
        id: String,
        /// What is wrong.
        what: String,
    },
    /// There is nothing to judge.
    #[error("{0}: there are no records in it")]
    NoRecords(String),
    /// A file of results cannot be used.
    #[error("{path}: {what}")]
    Result {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Two results are not of the same work.
    #[error("A and B cannot be compared: {0}")]
    Incomparable(String),
}
