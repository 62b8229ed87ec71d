//! `capjudge schema`: the formats, for programs.

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum};
use schemars::schema_for;

use super::End;
use super::output::print;

/// Flags of `schema`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  capjudge schema record > record.schema.json")]
pub struct Args {
    /// Which format
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A line of a data set
    Record,
    /// A line of verdicts.jsonl
    Verdict,
    /// summary.json
    Summary,
    /// run.json
    Run,
    /// A task's declaration (its TOML, as JSON)
    Task,
    /// What `bench --format json` writes
    Bench,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let schema = match self.format {
            Format::Record => schema_for!(crate::dataset::Record),
            Format::Verdict => schema_for!(crate::verdict::Verdict),
            Format::Summary => schema_for!(crate::metrics::Summary),
            Format::Run => schema_for!(crate::run::RunFile),
            Format::Task => schema_for!(crate::task::TaskSpec),
            Format::Bench => schema_for!(crate::bench::Bench),
        };
        print(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
        Ok(End::Done)
    }
}
