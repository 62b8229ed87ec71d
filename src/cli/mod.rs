//! The command line: one file a verb.
//!
//! Invariant: a verb turns flags into library types, calls the library, and prints. What it decides itself is only how
//! things look and which exit code they get.

mod bench;
mod completions;
mod demo;
mod exit;
mod frames;
mod generate;
mod import;
mod interrupt;
mod judge;
mod look;
mod model;
mod models;
mod output;
mod progress;
mod prompts;
mod run;
mod schema;
mod show;
mod summarize;
mod synth;
mod tokens;
mod validate;
mod worker;

pub use exit::{End, exit_code};
pub use output::say;

use anyhow::Result;
use clap::{Parser, Subcommand};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    internal error, or a file cannot be read or written
  2    usage, or invalid data
  3    finished, but more records are unscored than allowed
  4    the judge's files are missing or not what they should be
  5    the run folder is in use
  130  interrupted; the same command goes on";

/// Judges video captions offline: local files in, verdicts that can be trusted out.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: eight shipped clips, two made-up systems, three tasks, the built-in judge
    Demo(demo::Args),
    /// Judge a data set into a run folder; the same command goes on where it stopped
    Run(run::Args),
    /// Judge one caption, given by flags
    Judge(judge::Args),
    /// Compare systems: metrics with coverage and intervals, from one or more run folders
    Summarize(summarize::Args),
    /// Check a data set: every problem, with line, field and remedy
    Validate(validate::Args),
    /// Make a data set of a public benchmark's files and a system's captions
    Import(import::Args),
    /// List, show or check the judge prompts
    Prompts(prompts::Args),
    /// List known models, show what one needs, or prove that its files are what they were
    Models(models::Args),
    /// Show which frames of a video a judge sees: as files, as a contact sheet, as a list
    Frames(frames::Args),
    /// Show how a model's tokenizer reads a text
    Tokens(tokens::Args),
    /// Ask a model something, without a task: its answer, or ids, logits and timings
    Generate(generate::Args),
    /// Measure how fast a judge is, or would be: stages, percentiles, memory; compare two results
    Bench(Box<bench::Args>),
    /// Print the JSON Schema of a format
    Schema(schema::Args),
    /// Print a shell's completion script
    Completions(completions::Args),
    /// Decode a video for another process of this program
    #[command(name = crate::media::worker::VERB, hide = true)]
    Worker,
}

impl Cli {
    /// Does what was asked.
    pub fn run(self) -> Result<End> {
        match self.command {
            Command::Demo(args) => args.run(),
            Command::Run(args) => args.run(),
            Command::Judge(args) => args.run(),
            Command::Summarize(args) => args.run(),
            Command::Validate(args) => args.run(),
            Command::Import(args) => args.run(),
            Command::Prompts(args) => args.run(),
            Command::Models(args) => args.run(),
            Command::Frames(args) => args.run(),
            Command::Tokens(args) => args.run(),
            Command::Generate(args) => args.run(),
            Command::Bench(args) => args.run(),
            Command::Schema(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Worker => worker::run(),
        }
    }
}
