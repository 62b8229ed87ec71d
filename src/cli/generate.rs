//! `capjudge generate`: a model's answer to a text, without a task.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Result;
use clap::Args as ClapArgs;
use serde_json::json;

use super::End;
use super::exit::Usage;
use super::frames::name_file;
use super::look::LookFlags;
use super::model::ModelFlags;
use super::output::{print, printable_lines, say, stream};
use super::progress::Waiting;
use crate::engine::{Generated, Generating, Generation, GenerationEnd, Prefix, Sampler, generate, top};
use crate::judge::JudgeError;
use crate::media::{Frames, MediaError, Player};
use crate::model::chat::Kind;
use crate::model::read::read_file;
use crate::model::vision::pixels::View;
use crate::model::vision::{Clip, Medium};
use crate::model::{Model, ModelError, ModelPrompt, Part, Piece, Shown, TokenId};

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
    /// The model: a .gguf file, a folder with config.json, or a repository in the local Hugging Face cache
    #[arg(long)]
    model: String,
    /// What the model is asked
    #[arg(long, required_unless_present_any = ["ids", "ids_file"], allow_hyphen_values = true)]
    text: Option<String>,
    /// A picture to show, before the text; with several, or with {image} in the text, each in its turn
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "ids_file"])]
    image: Vec<PathBuf>,
    /// A video to show, before the text or where the text has {video}: a file or a folder of frames
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "ids_file"])]
    video: Option<PathBuf>,
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
    look: LookFlags,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let load = self.flags.load()?;
        let sampling = self.flags.sampling()?;
        let start = Instant::now();
        let waiting = Waiting::new(&format!("loading {}", self.model), self.json);
        let model = Model::load(&self.model, &load);
        waiting.end();
        let model = model?;
        let load_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let shown = self.shown(&model)?;
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

    /// The frames of pictures and videos.
    fn shown(&self, model: &Model) -> Result<Vec<(Kind, Arc<Frames>)>> {
        let mut wanted: Vec<(Kind, PathBuf, Player)> = Vec::new();
        for path in &self.image {
            wanted.push((Kind::Image, path.clone(), self.look.picture_player()?));
        }
        match (&self.video, self.look.frames_folder()?) {
            (Some(_), Some(_)) => {
                return Err(Usage("--frames DIR and --video FILE are two videos; show one".to_owned()).into());
            }
            (Some(path), None) => wanted.push((Kind::Video, path.clone(), self.look.player(None)?)),
            (None, Some((folder, player))) => wanted.push((Kind::Video, folder, player)),
            (None, None) => {}
        }
        if !wanted.is_empty() && !model.sees() {
            let what = "reads text only and cannot be shown anything; name a vision-language model";
            return Err(ModelError::Option(format!("{}: {what}", self.model)).into());
        }
        let frames = wanted.into_iter().map(|(kind, path, mut player)| {
            let name = path.display().to_string();
            let waiting = Waiting::new(&format!("decoding {name}"), self.json);
            // Nobody sets it: Ctrl-C ends the program, and the worker with it.
            let frames = player.frames(&[path], &AtomicBool::new(false));
            waiting.end();
            let frames = frames.map_err(|error| name_file(error, &name))?;
            let frames = frames.ok_or_else(|| Usage(format!("{name}: interrupted")))?;
            if kind == Kind::Image && frames.total > 1 {
                return Err(
                    Usage(format!("--image {name}: has {} pictures; show it with --video", frames.total)).into()
                );
            }
            match frames.faults.first().filter(|_| !player.look().allow_damaged) {
                Some(fault) => {
                    let what = format!("damaged: {}; --allow-damaged shows it anyway", fault.what);
                    Err(name_file(MediaError::Damaged(what), &name))
                }
                None => Ok((kind, frames)),
            }
        });
        frames.collect()
    }

    fn prompt<'a>(&'a self, model: &Model, shown: &'a [(Kind, Arc<Frames>)]) -> Result<ModelPrompt<'a>> {
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

/// A text with what is shown: where it says so, or else before it.
fn parts<'a>(text: &'a str, shown: &'a [(Kind, Arc<Frames>)]) -> Result<Vec<Part<'a>>> {
    let media = shown.iter().map(|(kind, frames)| match kind {
        Kind::Video => Clip::new(frames).map(Medium::Video),
        Kind::Image => {
            let view = frames
                .frames
                .first()
                .and_then(|frame| View::new(frame.width as usize, frame.height as usize, &frame.rgb));
            view.map(Medium::Image).ok_or_else(|| "the picture has no pixels".to_owned())
        }
    });
    let media = media.collect::<Result<Vec<_>, String>>().map_err(Usage)?;
    let place = |kind: &Kind| if *kind == Kind::Image { "{image}" } else { "{video}" };
    let kinds = [Kind::Image, Kind::Video];
    let count = |kind: &Kind| shown.iter().filter(|(of, _)| of == kind).count();
    let named = |kind: &Kind| text.matches(place(kind)).count();
    let inside = !shown.is_empty() && kinds.iter().any(|kind| named(kind) > 0);
    if let Some(kind) = kinds.iter().find(|kind| inside && named(kind) != count(kind)) {
        let (place, named, count) = (place(kind), named(kind), count(kind));
        return Err(Usage(format!(
            "the text has {place} {named} times, and {count} are shown; name each once, or none"
        ))
        .into());
    }
    let mut parts = Vec::new();
    let mut rest = text;
    let mut media: Vec<(Kind, Medium<'a>)> = shown.iter().map(|(kind, _)| *kind).zip(media).collect();
    while inside && !media.is_empty() {
        let next = kinds.iter().filter_map(|kind| Some((rest.find(place(kind))?, *kind))).min_by_key(|(at, _)| *at);
        let Some((at, kind)) = next else { break };
        let Some(which) = media.iter().position(|(of, _)| *of == kind) else { break };
        parts.push(Part::Text(Piece::Trusted(rest[..at].into())));
        parts.push(Part::Shown(media.remove(which).1));
        rest = &rest[at + place(&kind).len()..];
    }
    parts.extend(media.into_iter().map(|(_, medium)| Part::Shown(medium)));
    parts.push(Part::Text(Piece::Trusted(rest.into())));
    parts.retain(|part| !matches!(part, Part::Text(piece) if piece.text().is_empty()));
    Ok(parts)
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

/// What was shown, for people who compare.
fn told(shown: &Shown<'_>) -> serde_json::Value {
    let Shown { medium, plan, places } = shown;
    json!({
        "kind": if matches!(medium, Medium::Image(_)) { "image" } else { "video" },
        "frames": medium.frames().len(),
        "sizes": plan.sizes,
        "grid": plan.grid,
        "rows": plan.rows(),
        "places": places.iter().map(|place| [place.start, place.end]).collect::<Vec<_>>(),
    })
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

/// The most memory that this process ever had, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
