//! `capjudge generate`: a model's answer to a text, without a task.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args as ClapArgs;
use serde_json::json;

use super::End;
use super::exit::Usage;
use super::model::{ModelFlags, remark};
use super::output::{print, printable_lines, say, stream};
use super::progress::Waiting;
use super::show::{self, ShowFlags, parts, told};
use crate::bench::peak_memory;
use crate::engine::{Generated, Generating, Generation, GenerationEnd, Prefix, Sampler, generate, top};
use crate::judge::JudgeError;
use crate::model::read::read_file;
use crate::model::{Model, ModelError, ModelPrompt, Shown, TokenId, pocket};

const EXAMPLES: &str = "\
Examples:
  capjudge generate --model judge.gguf --text 'Describe a rainy street in one sentence.'
  capjudge generate --model Qwen/Qwen2.5-1.5B-Instruct --quant q8_0 --text 'Hello'    from the local Hugging Face cache
  capjudge generate --model judge.gguf --text 'Hello' --json                   prompt ids, first logits, ids, timings
  capjudge generate --model models/SmolVLM2-500M --image a.png --text 'What is this?'
  capjudge generate --model models/Qwen3-VL-2B --video clip.mp4 --frames 16 --text 'What happens?'
  capjudge generate --model models/Qwen3-VL-2B --frames folder/ --image-fps 2 --text 'What happens?'
  capjudge generate --model models/Qwen3-VL-2B --image a.png --image b.png --text 'Is {image} before {image}?'
  capjudge generate --model base.gguf --chat-template none --text 'Once upon a time'";

/// The largest file of token ids that is read.
const LARGEST_IDS: u64 = 64 << 20;
/// How many logits of the first step are shown.
const TOP: usize = 20;
/// The longest answer, unless the user says otherwise.
const MAX_TOKENS: usize = 512;

/// Flags of `generate`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The model: a .gguf file, a folder with config.json, a repository in the local Hugging Face cache, or
    /// pocket (built in, a toy)
    #[arg(long, default_value = pocket::NAME)]
    model: String,
    /// What the model is asked
    #[arg(long, required_unless_present_any = ["ids", "ids_file"], allow_hyphen_values = true)]
    text: Option<String>,
    /// A system message
    #[arg(long, allow_hyphen_values = true)]
    system: Option<String>,
    /// Token ids as the prompt, with commas between them: no chat template, nothing added
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with_all = ["text", "system", "chat_template"])]
    ids: Vec<TokenId>,
    /// The same from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "system", "chat_template", "ids"])]
    ids_file: Option<PathBuf>,
    /// Go on behind end tokens
    #[arg(long)]
    ignore_end: bool,
    /// Print prompt ids, the 20 highest logits of the first step, the answer's ids and text, and timings
    #[arg(long)]
    json: bool,
    /// For measuring: prepare the pixels of what is shown N times, print the seconds of each time, and stop
    #[arg(long, value_name = "N", requires = "json", hide_short_help = true)]
    only_pixels: Option<usize>,
    #[command(flatten)]
    flags: ModelFlags,
    #[command(flatten)]
    show: ShowFlags,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let load = self.flags.load()?;
        let sampling = self.flags.sampling()?;
        let start = Instant::now();
        remark(&self.model);
        let waiting = Waiting::new(&format!("loading {}", self.model), self.json);
        let model = Model::load(&self.model, &load);
        waiting.end();
        let model = model?;
        let load_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let shown = self.show.frames(&model, &self.model, self.json)?;
        let frames_seconds = start.elapsed().as_secs_f64();
        let prompt = self.prompt(&model, &shown)?;
        if let Some(times) = self.only_pixels {
            return only_pixels(&model, &prompt, times);
        }
        let mut waiting = Waiting::new("looking at the pictures", self.json || prompt.shown.is_empty());
        let seen = model.see(&prompt, &mut |done, of| {
            waiting.say(&format!("looking at the pictures: {done} of {of} parts"));
            ControlFlow::Continue(())
        });
        waiting.end();
        let seen = seen?.unwrap_or_default();
        let mut text = String::new();
        let mut first = Vec::new();
        let what = Generation {
            prefix: &Prefix::default(),
            prompt: &prompt.stretches(&seen, 0),
            max_tokens: self.flags.max_tokens.unwrap_or(MAX_TOKENS),
            ignore_end: self.ignore_end,
            speculate: !self.flags.no_speculation,
        };
        let mut sampler = Sampler::new(sampling, "");
        let mut waiting = Waiting::new("reading the prompt", self.json);
        let mut listening = Ok(true);
        let out = generate(&model.engine, &model.tokenizer, &what, &mut sampler, &mut |event| {
            match event {
                Generating::Reading { done, of } => waiting.say(&format!("reading the prompt: {done} of {of} tokens")),
                Generating::First(logits) => {
                    waiting.end();
                    first = top(logits, TOP);
                }
                Generating::Token(_, piece) | Generating::Rest(piece) => {
                    text.push_str(piece);
                    if !self.json {
                        listening = stream(&printable_lines(piece));
                    }
                }
            }
            if matches!(listening, Ok(true)) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        waiting.end();
        listening?;
        let out = out.map_err(JudgeError::Engine)?;
        if self.json {
            let mut report = report(&self.model, &prompt, &first, &out, &text, load_seconds);
            if !prompt.shown.is_empty() {
                report["shown"] = prompt.shown.iter().map(told).collect();
                report["timings"]["frames_seconds"] = frames_seconds.into();
                report["timings"]["pixels_seconds"] = seen.spent.pixels.into();
                report["timings"]["tower_seconds"] = seen.spent.tower.into();
            }
            print(&format!("{report}\n"))?;
        } else {
            print("\n")?;
            let rate = |tokens: usize, seconds: f64| tokens as f64 / seconds.max(1e-9);
            let (read, written) = (prompt.tokens.len(), out.tokens.len());
            say(&format!(
                "{read} tokens read, {:.1} a second; {written} written, {:.1} a second{}",
                rate(read, out.prompt_seconds),
                rate(written, out.decode_seconds),
                if out.end == GenerationEnd::Limit {
                    "; cut off at the limit (--max-tokens, or the model's context)"
                } else {
                    ""
                }
            ));
        }
        Ok(End::Done)
    }

    fn prompt<'a>(&'a self, model: &Model, shown: &'a [show::Shown]) -> Result<ModelPrompt<'a>> {
        let mut ids = self.ids.clone();
        if let Some(path) = &self.ids_file {
            let bytes = read_file(path, LARGEST_IDS)?;
            let bytes = bytes.ok_or_else(|| Usage(format!("{}: there is no such file", path.display())))?;
            let text = String::from_utf8_lossy(&bytes);
            let numbers = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
            ids = numbers
                .map(|word| word.parse().map_err(|_| Usage(format!("{}: {word:?} is no token id", path.display()))))
                .collect::<Result<_, _>>()?;
        }
        let Some(text) = &self.text else {
            return match ids.iter().find(|id| **id as usize >= model.engine.vocabulary()) {
                Some(id) => {
                    Err(Usage(format!("token {id} is not among the model's {}", model.engine.vocabulary())).into())
                }
                None if ids.is_empty() => Err(Usage("there are no token ids; give at least one".to_owned()).into()),
                None => Ok(ModelPrompt::of_tokens(ids)),
            };
        };
        if !model.has_template() && self.flags.chat_template_is_own() {
            let what = "the model has no chat template; give one with --chat-template FILE, or show the text as it is \
                        with --chat-template none";
            return Err(ModelError::Option(format!("{}: {what}", self.model)).into());
        }
        let prompt = model.prompt(self.system.as_deref(), &parts(text, shown)?)?;
        if prompt.tokens.is_empty() {
            return Err(Usage("the prompt is empty; give a --text".to_owned()).into());
        }
        Ok(prompt)
    }
}

/// Prepares pixels, and prints for how long.
fn only_pixels(model: &Model, prompt: &ModelPrompt<'_>, times: usize) -> Result<End> {
    let mut seconds = Vec::new();
    for _ in 0..times {
        let mut total = 0.0;
        for Shown { medium, plan, .. } in &prompt.shown {
            let Some(vision) = &model.vision else { break };
            let start = Instant::now();
            let resized = vision.resized(medium, plan);
            for step in 0..plan.grid[0] {
                vision.pixels(medium, &resized, plan, step).map_err(ModelError::from)?;
            }
            total += start.elapsed().as_secs_f64();
        }
        seconds.push(total);
    }
    let shown: Vec<serde_json::Value> = prompt.shown.iter().map(told).collect();
    let timings = json!({ "pixels_seconds": seconds, "peak_memory_bytes": peak_memory() });
    print(&format!("{}\n", json!({ "shown": shown, "timings": timings })))?;
    Ok(End::Done)
}

fn report(
    model: &str,
    prompt: &ModelPrompt<'_>,
    first: &[(TokenId, f32)],
    out: &Generated,
    text: &str,
    load_seconds: f64,
) -> serde_json::Value {
    json!({
        "model": model,
        "prompt_ids": prompt.tokens,
        "top": first,
        "ids": out.tokens,
        "text": text,
        "finish": match out.end {
            GenerationEnd::Limit => "length",
            GenerationEnd::Token | GenerationEnd::Stopped => "stop",
        },
        "timings": {
            "load_seconds": load_seconds,
            "prompt_tokens": prompt.tokens.len(),
            "prompt_seconds": out.prompt_seconds,
            "decode_tokens": out.tokens.len(),
            "decode_seconds": out.decode_seconds,
            "peak_memory_bytes": peak_memory(),
        },
    })
}
