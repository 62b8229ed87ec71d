//! `capjudge summarize`: run folders into tables.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::End;
use super::output::{say, write};
use crate::metrics::{Bootstrap, Summary};
use crate::report::{ReportFormat, render};
use crate::run::summarize;

const EXAMPLES: &str = "\
Examples:
  capjudge summarize runs/first
  capjudge summarize runs/model-a runs/model-b --format markdown --out results.md";

/// Flags of `summarize`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run folders
    #[arg(required = true, value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// The form of the summary
    #[arg(long, value_enum, default_value_t = ReportFormat::Table)]
    format: ReportFormat,
    /// The file to write; standard output if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The seed of the bootstrap intervals
    #[arg(long, default_value_t = Bootstrap::default().seed)]
    seed: u64,
    /// How many resamples the intervals come from
    #[arg(long, default_value_t = Bootstrap::default().resamples, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    resamples: u32,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let bootstrap = Bootstrap { seed: self.seed, resamples: self.resamples };
        let mut runs = Vec::new();
        for folder in &self.runs {
            let mut summary = summarize(folder, bootstrap)?;
            if summary.judged < summary.records {
                let (folder, missing) = (folder.display(), summary.records - summary.judged);
                say(&format!("note: {folder} is not complete: {missing} records have no verdict yet"));
            }
            // Lines of several CSV files are often joined.
            if self.runs.len() > 1 || self.format == ReportFormat::Csv {
                summary.run = Some(folder.display().to_string());
            }
            runs.push(summary);
        }
        write(&render(&Summary { schema_version: 1, runs }, self.format), self.out.as_deref())?;
        Ok(End::Done)
    }
}
