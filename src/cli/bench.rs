//! `capjudge bench`: how fast a judge is, and whether another one is faster.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow};
use clap::{Args as ClapArgs, Subcommand};

use super::End;
use super::exit::Usage;
use super::interrupt::listen_for_interrupt;
use super::model::{open_device, precision, remark};
use super::output::{say, write};
use super::progress::Waiting;
use crate::bench::report::{BenchFormat, render, render_comparison};
use crate::bench::{Bench, BenchError, Measuring, Options, Pictures, Sweep, Workload, compare, measure};
use crate::judge;
use crate::kernels::{Precision, threads};
use crate::model::device::DeviceChoice;
use crate::model::load::sees;
use crate::model::quantise::by_name;
use crate::model::weights::Quant;
use crate::model::{LoadOptions, Template, pocket};
use crate::task::Catalog;

const EXAMPLES: &str = "\
Examples:
  Before anything is downloaded: how fast would this machine be? Weights are random, nothing else is needed.
    capjudge bench --shape qwen2.5-vl-3b --quant q4k --frames 8
  A model that is here, with its own records, all samples kept:
    capjudge bench --judge judge.gguf --task hallucination --data captions.jsonl --records 8 --format json --out a.json
  A sweep: every combination, by turns.
    capjudge bench --shape smolvlm2-500m --quant none,q8_0 --frames 4,8,16 --threads 1,2
  With a real video, decoded for each judgement:
    capjudge bench --judge Qwen/Qwen3-VL-2B-Instruct --task score --video clip.mp4
  Is it faster now?
    capjudge bench compare a.json b.json";

/// The largest file of results that is read.
const LARGEST_RESULT: u64 = 1 << 30;
/// The longest side of made frames.
const LONGEST_SIDE: u32 = 8192;
/// Records of the built-in data set, unless somebody wants more.
const BUILT_IN_RECORDS: usize = 3;

/// Flags of `bench`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Tell from two results (--format json) whether B is faster than A, with 95% intervals
    Compare {
        /// The result to compare with
        #[arg(value_name = "A.json")]
        a: PathBuf,
        /// The result in question
        #[arg(value_name = "B.json")]
        b: PathBuf,
        /// How it is shown
        #[arg(long, value_enum, default_value_t = BenchFormat::Table)]
        format: BenchFormat,
        /// A file instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
struct Measure {
    /// The judge: a .gguf file, a model's folder, a repository in the local Hugging Face cache, or shape:NAME; pocket (built
    /// in, a toy) unless said otherwise
    #[arg(long, conflicts_with = "shape")]
    judge: Option<String>,
    /// A judge with random weights in the shape of a public model: qwen2.5-vl-3b, qwen3-vl-2b, smolvlm2-500m, …
    #[arg(long, value_name = "NAME")]
    shape: Option<String>,
    /// The task; score if the judge sees, else hallucination
    #[arg(long)]
    task: Option<String>,
    /// A folder with tasks of your own (NAME.toml + NAME.txt)
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
    /// The data set; a small one is built in
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How many of its records are judged in a turn: all of yours, 3 of the built-in ones
    #[arg(long, value_name = "N")]
    records: Option<usize>,
    /// A video to decode and show with every record, instead of frames that are made
    #[arg(long, value_name = "FILE", conflicts_with = "frame_size")]
    video: Option<PathBuf>,
    /// The size of frames that are made
    #[arg(long, value_name = "WxH", default_value = "448x448")]
    frame_size: FrameSize,
    /// Turns of each cell that do not count
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: usize,
    /// Turns of each cell that do
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// How often the model is loaded to time it, beside the cold time; 0 times no load but the cold one
    #[arg(long, value_name = "N", default_value_t = 1)]
    loads: usize,
    /// Read every prompt from its first word, also the rubric that all have in common
    #[arg(long)]
    no_reuse: bool,
    /// Records that are judged at a time
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1", help_heading = "Sweep")]
    batch: Vec<usize>,
    /// Types that the layers are quantised to; none leaves them as they are
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', default_value = "none", help_heading = "Sweep")]
    quant: Vec<String>,
    /// Frames of a video
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "8", help_heading = "Sweep")]
    frames: Vec<u32>,
    /// Threads of the CPU; one for each physical core unless said otherwise
    #[arg(long, value_name = "N,…", value_delimiter = ',', help_heading = "Sweep")]
    threads: Vec<usize>,
    /// The longest answer in tokens
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64", help_heading = "Sweep")]
    max_tokens: Vec<usize>,
    /// Where the model computes: auto, cpu, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE", help_heading = "Model")]
    device: Option<DeviceChoice>,
    /// Bits of activations where weights are quantised: 14 or 8 (CPU)
    #[arg(long, value_name = "BITS", value_parser = precision, help_heading = "Model")]
    activations: Option<Precision>,
    /// Quantise the vision tower too
    #[arg(long, value_name = "TYPE", help_heading = "Model")]
    quant_tower: Option<String>,
    /// Quantise the head too
    #[arg(long, value_name = "TYPE", help_heading = "Model")]
    quant_head: Option<String>,
    /// The most pixels of a frame that is shown (Qwen-VL)
    #[arg(long, value_name = "N", help_heading = "Model")]
    frame_pixels: Option<usize>,
    /// How results are shown
    #[arg(long, value_enum, default_value_t = BenchFormat::Table)]
    format: BenchFormat,
    /// A file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Width and height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FrameSize(u32, u32);

impl FromStr for FrameSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        let sane = |side: u32| (1..=LONGEST_SIDE).contains(&side);
        match sides {
            Some((width, height)) if sane(width) && sane(height) => Ok(Self(width, height)),
            _ => Err(format!("give width and height from 1 to {LONGEST_SIDE}, such as 448x448")),
        }
    }
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        match self.verb {
            None => self.measure.run(),
            Some(Verb::Compare { a, b, format, out }) => {
                let comparison = compare(&read(&a)?, &read(&b)?)?;
                write(&render_comparison(&comparison, format), out.as_deref())?;
                Ok(End::Done)
            }
        }
    }
}

impl Measure {
    fn run(self) -> Result<End> {
        let name = match (&self.judge, &self.shape) {
            (Some(judge), _) => judge.clone(),
            (None, Some(shape)) => format!("{}{shape}", crate::model::synthetic::PREFIX),
            (None, None) => pocket::NAME.to_owned(),
        };
        if judge::scripted(&name).is_some() {
            return Err(Usage(format!("{name} replays answers: there is nothing to measure; name a model")).into());
        }
        if self.repeats == 0 {
            return Err(Usage("--repeats 0: at least one turn has to count".to_owned()).into());
        }
        let catalog = Catalog::load(self.prompts.as_deref())?;
        let sees = sees(&name)?;
        let task = catalog.get(self.task.as_deref().unwrap_or(if sees { "score" } else { "hallucination" }))?;
        if task.sees_frames() && !sees {
            let what = format!("the task {} shows frames, and {name} cannot see; take --task hallucination", task.name);
            return Err(Usage(what).into());
        }
        if self.video.is_some() && !task.sees_frames() {
            return Err(Usage(format!("--video: the task {} shows no frames", task.name)).into());
        }
        let FrameSize(width, height) = self.frame_size;
        let pictures = self.video.clone().map_or(Pictures::Synthetic(width, height), Pictures::Video);
        let records = self.records.or(self.data.is_none().then_some(BUILT_IN_RECORDS));
        let workload = Workload::new(task, self.data.as_deref(), records, pictures)?;
        let cores = threads();
        if let Some(many) = self.threads.iter().find(|threads| **threads > cores) {
            return Err(Usage(format!("--threads {many}: no more than the {cores} physical cores are used")).into());
        }
        let sweep = Sweep {
            batch: self.batch.clone(),
            quant: self.quant.clone(),
            frames: self.frames.clone(),
            threads: if self.threads.is_empty() { vec![cores] } else { self.threads.clone() },
            max_tokens: self.max_tokens.clone(),
        };
        // What is wrong with the sweep is said before anything is loaded.
        sweep.cells(task.sees_frames()).map_err(BenchError::from)?;
        let options = Options {
            judge: &name,
            load: self.load()?,
            task,
            workload: &workload,
            sweep: &sweep,
            reuse: !self.no_reuse,
            warmup: self.warmup,
            repeats: self.repeats,
            loads: self.loads,
        };
        let interrupt = listen_for_interrupt()?;
        remark(&name);
        let mut waiting = Waiting::new("beginning", self.quiet);
        let measured = measure(&options, &interrupt, &mut |now| {
            waiting.say(&match now {
                Measuring::Loading(quant) => format!("loading {name}, quant {quant}"),
                Measuring::Turn { number, of, counts, cell } => {
                    let what = if counts { "" } else { ", warming up" };
                    format!("turn {number} of {of}{what}: {cell}")
                }
            });
        });
        waiting.end();
        let Some(bench) = measured? else {
            say("interrupted: nothing was written");
            return Ok(End::Interrupted);
        };
        write(&render(&bench, self.format), self.out.as_deref())?;
        if self.format != BenchFormat::Table || self.out.is_some() {
            bench.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
        }
        Ok(End::Done)
    }

    fn load(&self) -> Result<LoadOptions> {
        let quant = |flag: &str, name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => by_name(name).map(Some).ok_or_else(|| Usage(format!("{flag} {name}: there is no such type"))),
        };
        let quant = Quant {
            layers: None,
            head: quant("--quant-head", &self.quant_head)?,
            tower: quant("--quant-tower", &self.quant_tower)?,
        };
        let compute = open_device(self.device, self.activations)?;
        Ok(LoadOptions { compute, quant, frame_pixels: self.frame_pixels, template: Template::Own })
    }
}

/// A file of results.
fn read(path: &Path) -> Result<Bench> {
    let size = fs::metadata(path).map_err(|error| anyhow!("{}: {error}", path.display()))?.len();
    let wrong = |what: String| BenchError::Result { path: path.to_owned(), what };
    if size > LARGEST_RESULT {
        return Err(wrong("is larger than any result; name a file of capjudge bench --format json".to_owned()).into());
    }
    let text = fs::read(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let bench: Bench = serde_json::from_slice(&text)
        .map_err(|error| wrong(format!("is no result of capjudge bench --format json ({error})")))?;
    if bench.schema_version != 1 {
        return Err(wrong(format!("has the format {}; this version reads 1", bench.schema_version)).into());
    }
    Ok(bench)
}
