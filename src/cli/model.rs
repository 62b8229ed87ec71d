//! Flags about a model, the same for every verb that loads one.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args as ClapArgs;

use super::exit::Usage;
use super::output::say;
use super::progress::Waiting;
use crate::engine::Sampling;
use crate::judge::{self, Judge, MOST_AT_ONCE, Settings};
use crate::kernels::{Precision, set_threads};
use crate::model::device::{self, DeviceChoice};
use crate::model::linear::{Compute, Kernels};
use crate::model::quantise::{TYPES, by_name};
use crate::model::weights::Quant;
use crate::model::{LoadOptions, Template, pocket};
use crate::task::{AnswerSpec, Task};

/// How a model is loaded, and how it chooses its words.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Model")]
pub struct ModelFlags {
    /// Where the model computes: auto (a GPU that the program was built for, else the CPU), cpu, cuda, cuda:N or metal
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Quantise the layers of a safetensors model while it is loaded: q8_0, q6k, q5k, q4k, q4_0, …
    #[arg(long, value_name = "TYPE")]
    quant: Option<String>,
    /// Quantise the vision tower too, which otherwise stays as it is
    #[arg(long, value_name = "TYPE")]
    quant_tower: Option<String>,
    /// Quantise the head too, which otherwise stays as it is
    #[arg(long, value_name = "TYPE")]
    quant_head: Option<String>,
    /// Bits that activations have where weights are quantised: 14, which is hardly different from floats, or 8, as other
    /// programs have them, which reads prompts and batches up to twice as fast (CPU). 14 unless said otherwise
    #[arg(long, value_name = "BITS", value_parser = precision)]
    activations: Option<Precision>,
    /// The most pixels of a picture or frame that is shown; fewer are faster (Qwen-VL). As the model's files say otherwise
    #[arg(long, value_name = "N")]
    frame_pixels: Option<usize>,
    /// A chat template (Jinja) instead of the model's own; `none` shows the prompt as it is
    #[arg(long, value_name = "FILE|none")]
    chat_template: Option<PathBuf>,
    /// How freely words are chosen; 0 always takes the likeliest, so that answers can be repeated
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Choose among the likeliest words that together have this share
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Choose among words at least this share as likely as the likeliest
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Where chance begins, at temperatures above 0
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// The longest answer in tokens
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<usize>,
    /// Threads of the CPU; all physical cores unless said otherwise
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Do not guess words from the prompt to check several at once; the answers are the same
    #[arg(long)]
    pub no_speculation: bool,
}

/// Whether answers are kept to the format of their task.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Answers")]
pub struct GuideFlags {
    /// Keep answers to the task's format: only words that the format allows, and the text that it forces is not chosen at
    /// all, so that every answer can be read. So it is for models under 4 billion parameters unless said otherwise
    #[arg(long, conflicts_with = "free")]
    guided: bool,
    /// Let the judge write as it likes. So it is for larger models unless said otherwise
    #[arg(long)]
    free: bool,
}

impl GuideFlags {
    /// What was said, if anything was.
    fn guided(&self) -> Option<bool> {
        (self.guided || self.free).then_some(self.guided)
    }

    /// The flag that was given, if any was: for judges that are no model.
    fn given(&self) -> Option<&'static str> {
        self.guided().map(|guided| if guided { "--guided" } else { "--free" })
    }
}

/// How a judge gets through many records. None of it changes a verdict.
#[derive(Debug, Default, ClapArgs)]
#[command(next_help_heading = "Speed")]
pub struct PaceFlags {
    /// How many records are judged at once; 8 unless said otherwise. More take more memory; the verdicts are the same
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// Read every prompt from its first word, also the rubric and the frames that others have too; the verdicts are the
    /// same
    #[arg(long)]
    no_reuse: bool,
    /// The memory for what was read and seen of the last videos; 1024 unless said otherwise
    #[arg(long, value_name = "MB", conflicts_with = "no_reuse")]
    reuse_memory: Option<u64>,
}

impl PaceFlags {
    /// The flag that was given, if any was: for judges that are no model.
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.batch.is_some(), "--batch"),
            (self.no_reuse, "--no-reuse"),
            (self.reuse_memory.is_some(), "--reuse-memory"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

impl ModelFlags {
    /// What the flags say, checked.
    pub fn load(&self) -> Result<LoadOptions> {
        let quant = |flag: &str, name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => by_name(name).map(Some).ok_or_else(|| {
                let known: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
                Usage(format!("{flag} {name}: there is no such type; there are {}", known.join(", ")))
            }),
        };
        let quant = Quant {
            layers: quant("--quant", &self.quant)?,
            head: quant("--quant-head", &self.quant_head)?,
            tower: quant("--quant-tower", &self.quant_tower)?,
        };
        let template = match &self.chat_template {
            None => Template::Own,
            Some(path) if path.as_os_str() == "none" => Template::None,
            Some(path) => Template::File(path.clone()),
        };
        match self.threads {
            Some(0) => return Err(Usage("--threads 0: at least one is needed".to_owned()).into()),
            Some(threads) => set_threads(threads),
            None => {}
        }
        let compute = open_device(self.device, self.activations)?;
        if self.frame_pixels == Some(0) {
            return Err(Usage("--frame-pixels 0: a picture needs some".to_owned()).into());
        }
        Ok(LoadOptions { compute, quant, frame_pixels: self.frame_pixels, template })
    }

    /// Whether the model's own chat template is meant.
    pub fn chat_template_is_own(&self) -> bool {
        self.chat_template.is_none()
    }

    /// How words are chosen.
    pub fn sampling(&self) -> Result<Sampling> {
        let sampling = Sampling {
            temperature: self.temperature.unwrap_or(0.0),
            top_p: self.top_p.unwrap_or(1.0),
            min_p: self.min_p.unwrap_or(0.0),
            seed: self.seed.unwrap_or(0),
        };
        let checks = [
            ("--temperature", sampling.temperature, (0.0..=100.0).contains(&sampling.temperature), "from 0 to 100"),
            ("--top-p", sampling.top_p, sampling.top_p > 0.0 && sampling.top_p <= 1.0, "above 0, at most 1"),
            ("--min-p", sampling.min_p, (0.0..=1.0).contains(&sampling.min_p), "from 0 to 1"),
        ];
        match checks.into_iter().find(|(_, _, sane, _)| !sane) {
            Some((flag, value, _, range)) => Err(Usage(format!("{flag} {value}: give a number {range}")).into()),
            None => Ok(sampling),
        }
    }

    /// The flag that was given, if any was: for judges that are no model.
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.device.is_some(), "--device"),
            (self.quant.is_some(), "--quant"),
            (self.quant_tower.is_some(), "--quant-tower"),
            (self.quant_head.is_some(), "--quant-head"),
            (self.activations.is_some(), "--activations"),
            (self.frame_pixels.is_some(), "--frame-pixels"),
            (self.chat_template.is_some(), "--chat-template"),
            (self.temperature.is_some(), "--temperature"),
            (self.top_p.is_some(), "--top-p"),
            (self.min_p.is_some(), "--min-p"),
            (self.seed.is_some(), "--seed"),
            (self.max_tokens.is_some(), "--max-tokens"),
            (self.threads.is_some(), "--threads"),
            (self.no_speculation, "--no-speculation"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }
}

/// Opens the device that a model computes on.
pub fn open_device(device: Option<DeviceChoice>, activations: Option<Precision>) -> Result<Compute> {
    let (mut compute, remark) = device::open(device.unwrap_or_default())?;
    if let Some(remark) = remark {
        say(&remark);
    }
    if let Some(precision) = activations {
        if compute.kernels == Kernels::Candle {
            return Err(Usage("--activations is for the CPU; add --device cpu".to_owned()).into());
        }
        compute.precision = precision;
    }
    Ok(compute)
}

/// The bits that `--activations` names.
pub fn precision(bits: &str) -> Result<Precision, String> {
    match bits {
        "14" => Ok(Precision::Fine),
        "8" => Ok(Precision::Coarse),
        _ => Err("there are 14 and 8".to_owned()),
    }
}

/// An error if an answer of the task has no score to end with.
pub fn check_no_reason(given: bool, task: &Task) -> Result<()> {
    match &task.spec.answer {
        AnswerSpec::Counts(_) if given => {
            let what = format!("--no-reason is for tasks with a score; answers of {} end with their counts", task.name);
            Err(Usage(what).into())
        }
        AnswerSpec::Counts(_) | AnswerSpec::JsonScore(_) => Ok(()),
    }
}

/// Says what the built-in model is, if it is the one.
pub fn remark(name: &str) {
    if name == pocket::NAME {
        say(&format!("note: {}", pocket::REMARK));
    }
}

/// Opens a judge by its name.
pub fn open_judge(
    name: &str,
    flags: &ModelFlags,
    guide: &GuideFlags,
    pace: &PaceFlags,
    quiet: bool,
) -> Result<Box<dyn Judge>> {
    let mut settings = Settings::default();
    if judge::scripted(name).is_some() {
        if let Some(flag) = flags.given().or(guide.given()).or(pace.given()) {
            return Err(Usage(format!("{flag} is for judges that load a model; {name} replays answers")).into());
        }
    } else {
        let bytes = pace.reuse_memory.map(|memory| memory.saturating_mul(1 << 20));
        settings = Settings {
            load: flags.load()?,
            sampling: flags.sampling()?,
            max_tokens: flags.max_tokens.unwrap_or(settings.max_tokens),
            guided: guide.guided(),
            batch: pace.batch.unwrap_or(settings.batch),
            speculate: !flags.no_speculation,
            reuse: !pace.no_reuse,
            kept_bytes: bytes.unwrap_or(settings.kept_bytes),
        };
        if settings.max_tokens == 0 {
            return Err(Usage("--max-tokens 0: an answer needs at least one".to_owned()).into());
        }
        if !(1..=MOST_AT_ONCE).contains(&settings.batch) {
            return Err(Usage(format!("--batch {}: give a number from 1 to {MOST_AT_ONCE}", settings.batch)).into());
        }
    }
    remark(name);
    let mut waiting = Waiting::new(&format!("loading {name}"), quiet);
    let opened = judge::open(name, &settings, &mut |bytes| waiting.add(bytes));
    waiting.end();
    Ok(opened?)
}
