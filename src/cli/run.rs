//! `capjudge run`: a data set into a run folder.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::End;
use super::interrupt::listen_for_interrupt;
use super::look::LookFlags;
use super::model::{GuideFlags, ModelFlags, PaceFlags, check_no_reason, open_judge};
use super::output::{print, say};
use super::progress::Bar;
use crate::answer::CountFrom;
use crate::dataset::Limits;
use crate::metrics::Summary;
use crate::model::pocket;
use crate::report::{ReportFormat, render};
use crate::run::{Plan, RunEnd, run};
use crate::task::Catalog;

const EXAMPLES: &str = "\
Examples:
  Judge a data set with a model on this machine:
    capjudge run --task hallucination --data captions.jsonl --judge qwen2.5-1.5b-instruct-q4_k_m.gguf --out runs/first
    capjudge run --task omission --data captions.jsonl --judge Qwen/Qwen2.5-7B-Instruct --quant q8_0 --out runs/second
  Judge it with recorded answers:
    capjudge run --task hallucination --data captions.jsonl --judge scripted:answers.jsonl --out runs/first
  Go on after Ctrl-C, a crash or a power cut: the same command again.
  Judge once more what came out unscored:
    capjudge run … --out runs/first --retry-unscored
  Read the answers of an old run anew, by their labels:
    capjudge run … --judge scripted:runs/first/verdicts.jsonl --count-from labels --out runs/by-labels";

/// Flags of `run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The task: hallucination, omission, score, or one of --prompts
    #[arg(long)]
    task: String,
    /// The data set, JSON Lines (capjudge schema record)
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Who judges: a .gguf file, a model's folder, a repository in the local Hugging Face cache, pocket (built in, a toy), or
    /// scripted:FILE, which replays recorded answers
    #[arg(long, default_value = pocket::NAME)]
    judge: String,
    /// The run's folder; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A folder with tasks of your own (NAME.toml + NAME.txt); they add to or replace the built-in ones
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
    /// Where counts come from
    #[arg(long, value_enum, default_value_t = CountFrom::Stated)]
    count_from: CountFrom,
    /// Judge records again that came out unscored
    #[arg(long)]
    retry_unscored: bool,
    /// How many records may be unscored: a share (5%) or a number; more give exit code 3
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    max_unscored: Allowed,
    /// The longest line of the data set that is read
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().line_bytes)]
    max_line_bytes: usize,
    /// End an answer where its score does, without the reason behind it (tasks with a score)
    #[arg(long)]
    no_reason: bool,
    /// No progress, no table
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    guide: GuideFlags,
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    model: ModelFlags,
    /// Sample each record's video although the judge does not look at it: damaged videos come out unscored, and verdicts
    /// name their frames
    #[arg(long)]
    with_frames: bool,
    #[command(flatten)]
    look: LookFlags,
}

/// How many records may be unscored.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Allowed {
    Percent(f64),
    Records(u64),
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = || format!("{text:?} is neither a share like 5% nor a number of records");
        match text.strip_suffix('%') {
            Some(number) => match number.trim().parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Allowed::Percent(percent)),
                _ => Err(error()),
            },
            None => text.parse().map(Allowed::Records).map_err(|_| error()),
        }
    }
}

impl Allowed {
    fn exceeded(self, unscored: u64, records: u64) -> bool {
        match self {
            Allowed::Percent(percent) => unscored as f64 * 100.0 > percent * records as f64,
            Allowed::Records(allowed) => unscored > allowed,
        }
    }
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let catalog = Catalog::load(self.prompts.as_deref())?;
        let plan = Plan {
            task: catalog.get(&self.task)?,
            data: self.data,
            out: self.out,
            count_from: self.count_from,
            reason: !self.no_reason,
            retry_unscored: self.retry_unscored,
            limits: Limits { line_bytes: self.max_line_bytes },
        };
        check_no_reason(self.no_reason, plan.task)?;
        // Before a model is loaded, which can take its time.
        let interrupt = listen_for_interrupt()?;
        let mut judge = open_judge(&self.judge, &self.model, &self.guide, &self.pace, self.quiet)?;
        judge.check(plan.task)?;
        let looks = judge.sees_frames() || self.with_frames;
        let mut player = self.look.player_for(plan.task, looks)?;
        let mut bar = Bar::new(self.quiet);
        let end = run(&plan, judge.as_mut(), player.as_mut(), &interrupt, &mut bar);
        bar.clear();
        let summary = match end? {
            RunEnd::Complete(summary) => summary,
            RunEnd::Interrupted { stored, records } => {
                say(&format!(
                    "interrupted: {stored} of {records} verdicts are stored; the same command goes on from there"
                ));
                return Ok(End::Interrupted);
            }
        };
        let unscored = summary.judged - summary.scored;
        let records = summary.records;
        if !self.quiet {
            print(&render(&Summary { schema_version: 1, runs: vec![summary] }, ReportFormat::Table))?;
            say(&format!("verdicts and summary are in {}", plan.out.display()));
        }
        if self.max_unscored.exceeded(unscored, records) {
            say(&format!(
                "capjudge: {unscored} of {records} records are unscored, more than --max-unscored allows; \
                 verdicts.jsonl has the reason of each"
            ));
            return Ok(End::TooManyUnscored);
        }
        Ok(End::Done)
    }
}
