//! Exit codes: one place that knows them all.

use std::process::ExitCode;

use crate::bench::BenchError;
use crate::dataset::DataError;
use crate::dataset::import::ImportError;
use crate::engine::EngineError;
use crate::judge::JudgeError;
use crate::media::MediaError;
use crate::model::ModelError;
use crate::run::RunError;
use crate::task::CatalogError;

/// How a verb ended, when nothing broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All is well.
    Done,
    /// The data is not valid.
    Invalid,
    /// More records are unscored than allowed.
    TooManyUnscored,
    /// The files of a model are not what they should be.
    WrongFiles,
    /// The user stopped it.
    Interrupted,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        ExitCode::from(match end {
            End::Done => 0,
            End::Invalid => 2,
            End::TooManyUnscored => 3,
            End::WrongFiles => 4,
            End::Interrupted => 130,
        })
    }
}

/// The exit code of an error: 2 what the user can mend in the input, 4 the judge's files, 5 a folder in use, 1 the rest.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<RunError>() {
        return match error {
            RunError::Data(error) => data(error),
            RunError::NoRecords(_) | RunError::Changed { .. } | RunError::NotARun(_) | RunError::Task { .. } => 2,
            RunError::Judge(error) => judge(error),
            RunError::InUse(_) => 5,
            RunError::DataChanged(_) | RunError::Io { .. } | RunError::Corrupt { .. } => 1,
        };
    }
    if let Some(error) = error.downcast_ref::<BenchError>() {
        return match error {
            BenchError::Judge(error) => judge(error),
            BenchError::Model(error) => model(error),
            BenchError::Data(error) => data(error),
            BenchError::Media(error) => media(error),
            BenchError::Plan(_) | BenchError::Record { .. } | BenchError::NoRecords(_) => 2,
            BenchError::Result { .. } | BenchError::Incomparable(_) => 2,
        };
    }
    if let Some(error) = error.downcast_ref::<DataError>() {
        return data(error);
    }
    if let Some(error) = error.downcast_ref::<JudgeError>() {
        return judge(error);
    }
    if let Some(error) = error.downcast_ref::<ModelError>() {
        return model(error);
    }
    if let Some(error) = error.downcast_ref::<MediaError>() {
        return media(error);
    }
    if let Some(error) = error.downcast_ref::<CatalogError>() {
        return if matches!(error, CatalogError::Io { .. }) { 1 } else { 2 };
    }
    if let Some(error) = error.downcast_ref::<ImportError>() {
        return if matches!(error, ImportError::Io { .. }) { 1 } else { 2 };
    }
    if let Some(error) = error.downcast_ref::<Usage>() {
        let Usage(_) = error;
        return 2;
    }
    1
}

fn data(error: &DataError) -> u8 {
    if matches!(error, DataError::Io { .. }) { 1 } else { 2 }
}

fn judge(error: &JudgeError) -> u8 {
    match error {
        JudgeError::Unfit(_) => 2,
        JudgeError::Model(error) => model(error),
        JudgeError::Engine(EngineError::Context { .. }) => 2,
        JudgeError::Engine(EngineError::NotANumber) => 4,
        JudgeError::Io { .. } | JudgeError::BadFile { .. } => 4,
        JudgeError::Engine(_) | JudgeError::NoAnswer(_) => 1,
    }
}

fn media(error: &MediaError) -> u8 {
    match error {
        MediaError::Io { .. } | MediaError::Crashed(_) => 1,
        MediaError::Unsupported(_) | MediaError::Damaged(_) | MediaError::Limit(_) | MediaError::Usage(_) => 2,
    }
}

fn model(error: &ModelError) -> u8 {
    match error {
        ModelError::Option(_) => 2,
        ModelError::Tensor(_) => 1,
        _ => 4,
    }
}

/// Flags that do not fit together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);
