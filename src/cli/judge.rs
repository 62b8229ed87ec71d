//! `capjudge judge`: one caption, from flags.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args as ClapArgs;
use serde_json::{Map, Value, json};

use super::End;
use super::exit::Usage;
use super::interrupt::listen_for_interrupt;
use super::look::LookFlags;
use super::model::{GuideFlags, ModelFlags, PaceFlags, check_no_reason, open_judge};
use super::output::{print, printable_lines};
use super::progress::Waiting;
use crate::answer::CountFrom;
use crate::dataset::{Entry, Record};
use crate::judge::Said;
use crate::model::pocket;
use crate::run::{Setting, judge_record};
use crate::task::Catalog;
use crate::verdict::{Distribution, Outcome, RuleCheck, Scored, Verdict};

const EXAMPLES: &str = "\
Examples:
  capjudge judge --task hallucination --judge judge.gguf --caption 'A dog catches a ball.' --event 'A dog runs'
  capjudge judge --task hallucination --judge scripted:answers.jsonl --id clip-7 \\
    --caption 'A dog catches a ball.' --event 'A dog runs' --event 'The dog catches a ball'
  capjudge judge --task score --judge scripted:answers.jsonl --record record.json --json";

/// The largest record that is read: one record, not a data set named by mistake.
const RECORD_BYTES: u64 = 16 << 20;

/// Flags of `judge`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The task: hallucination, omission, score, or one of --prompts
    #[arg(long)]
    task: String,
    /// Who judges: a .gguf file, a model's folder, a repository in the local Hugging Face cache, pocket (built in, a toy), or
    /// scripted:FILE, which replays recorded answers
    #[arg(long, default_value = pocket::NAME)]
    judge: String,
    /// A record as JSON (up to 16 MiB) instead of the flags below; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["caption", "event", "inserted_index", "caption_type",
        "reference", "length_rule", "video", "id", "system"])]
    record: Option<PathBuf>,
    /// The caption
    #[arg(long, required_unless_present = "record", allow_hyphen_values = true)]
    caption: Option<String>,
    /// A ground-truth event; give it once for each
    #[arg(long, allow_hyphen_values = true)]
    event: Vec<String>,
    /// Which event was inserted, counted from 0
    #[arg(long, value_name = "INDEX")]
    inserted_index: Option<u32>,
    /// The kind of caption: brief, detail, poem, narrative, style
    #[arg(long)]
    caption_type: Option<String>,
    /// The reference caption
    #[arg(long, allow_hyphen_values = true)]
    reference: Option<String>,
    /// The length that was asked for, such as '20 to 30 words'
    #[arg(long)]
    length_rule: Option<String>,
    /// The video file, or a folder of frames
    #[arg(long)]
    video: Option<String>,
    /// The record's id
    #[arg(long, default_value = "caption")]
    id: String,
    /// The system whose caption it is
    #[arg(long, default_value = "system")]
    system: String,
    /// A folder with tasks of your own (NAME.toml + NAME.txt)
    #[arg(long, value_name = "DIR")]
    prompts: Option<PathBuf>,
    /// Where counts come from
    #[arg(long, value_enum, default_value_t = CountFrom::Stated)]
    count_from: CountFrom,
    /// End the answer where its score does, without the reason behind it (tasks with a score)
    #[arg(long)]
    no_reason: bool,
    /// Print the verdict as JSON (capjudge schema verdict)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    guide: GuideFlags,
    /// Sample the video although the judge does not look at it
    #[arg(long)]
    with_frames: bool,
    #[command(flatten)]
    look: LookFlags,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let catalog = Catalog::load(self.prompts.as_deref())?;
        let task = catalog.get(&self.task)?;
        check_no_reason(self.no_reason, task)?;
        let mut judge = open_judge(&self.judge, &self.model, &self.guide, &PaceFlags::default(), self.json)?;
        judge.check(task)?;
        let record = self.record()?;
        let base = match &self.record {
            Some(path) => path.parent().unwrap_or(Path::new("")).to_owned(),
            None => PathBuf::new(),
        };
        let entry =
            Entry { line: 1, id: record.id.clone(), system: Some(record.system.clone()), hash: 0, record: Ok(record) };
        let setting = Setting { task, count_from: self.count_from, reason: !self.no_reason, base: &base };
        let mut player = self.look.player_for(task, judge.sees_frames() || self.with_frames)?;
        let interrupt = listen_for_interrupt()?;
        let mut waiting = Waiting::new("asking the judge", self.json);
        let mut pieces = 0;
        let mut watch = |said: Said<'_>| match said {
            Said::Looking => waiting.say("decoding the video"),
            Said::Reading { done, of } => waiting.say(&format!("reading the prompt: {done} of {of} tokens")),
            Said::Text(_) => {
                pieces += 1;
                waiting.say(&format!("answering: {pieces} tokens"));
            }
        };
        let judged = judge_record(&setting, judge.as_mut(), player.as_mut(), entry, &interrupt, &mut watch);
        waiting.end();
        let Some((verdict, _)) = judged? else { return Ok(End::Interrupted) };
        let text = if self.json {
            serde_json::to_string_pretty(&verdict)? + "\n"
        } else {
            printable_lines(&describe(&verdict))
        };
        print(&text)?;
        Ok(if verdict.is_unscored() { End::TooManyUnscored } else { End::Done })
    }

    fn record(&self) -> Result<Record> {
        let fields: Map<String, Value> = match &self.record {
            Some(path) => read_record(path)?,
            None => {
                let events: Vec<Value> = self.event.iter().map(|text| json!({"caption": text})).collect();
                let fields = [
                    ("id", json!(self.id)),
                    ("system", json!(self.system)),
                    ("caption", json!(self.caption)),
                    ("events", json!(events)),
                    ("inserted_index", json!(self.inserted_index)),
                    ("caption_type", json!(self.caption_type)),
                    ("reference", json!(self.reference)),
                    ("length_rule", json!(self.length_rule)),
                    ("video", json!(self.video)),
                ];
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }
        };
        Record::from_fields(fields).map_err(|broken| {
            let list: Vec<String> = broken.problems.iter().map(ToString::to_string).collect();
            Usage(format!("the record is not valid:\n  {}", list.join("\n  "))).into()
        })
    }
}

/// The fields of a record in a file, or in standard input.
fn read_record(path: &Path) -> Result<Map<String, Value>> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let mut bytes = Vec::new();
    // One byte past the limit tells too large; a file's own size would not, where the file is a pipe or a device.
    let read = if is_stdin {
        io::stdin().lock().take(RECORD_BYTES + 1).read_to_end(&mut bytes)
    } else {
        File::open(path).and_then(|file| file.take(RECORD_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| anyhow!("{name}: {error}"))?;
    if bytes.len() as u64 > RECORD_BYTES {
        let limit = RECORD_BYTES >> 20;
        let what = format!("{name}: larger than {limit} MiB, the limit of a record; capjudge run judges a data set");
        return Err(Usage(what).into());
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(text).map_err(|error| Usage(format!("{name}: not a record ({error})")).into())
}

/// The verdict in a few lines.
fn describe(verdict: &Verdict) -> String {
    match &verdict.outcome {
        Outcome::Unscored(unscored) => format!("unscored ({}): {}\n", unscored.reason, unscored.detail),
        Outcome::Scored(Scored::Counts(counts)) => {
            let mut text: String = counts.counts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            text.push_str(match counts.agree {
                Some(true) => "the labels of the answer agree\n",
                Some(false) => "the labels of the answer say something else (see --json)\n",
                None => "the answer's labels are not complete enough to compare\n",
            });
            text
        }
        Outcome::Scored(Scored::Score(score)) => {
            let mut text = format!("score: {}\n", score.score);
            if score.score != score.raw_score {
                text.push_str(&format!("the judge gave {}\n", score.raw_score));
            }
            text.extend(score.rules.iter().map(describe_rule));
            text.extend(score.distribution.iter().map(|distribution| {
                let Distribution { expected, entropy, .. } = distribution;
                format!("expected by the model's probabilities: {expected:.2} (entropy {entropy:.2})\n")
            }));
            text.extend(score.reason.iter().map(|reason| format!("reason: {reason}\n")));
            text
        }
    }
}

fn describe_rule(rule: &RuleCheck) -> String {
    let kept = |kept: &bool| if *kept { "kept" } else { "broken" };
    match rule {
        RuleCheck::WordCountWithin { percent, caption_words, reference_words, kept: ok, cap } => format!(
            "word count within ±{percent}% of the reference: {} ({caption_words} words against {reference_words}{})\n",
            kept(ok),
            if *ok { String::new() } else { format!("; at most {cap}") }
        ),
        RuleCheck::Length { text, measured: Some(measured), kept: Some(ok), .. } => {
            format!("length rule {text:?}: {} ({measured})\n", kept(ok))
        }
        RuleCheck::Length { text, .. } => format!("length rule {text:?}: not understood, not checked\n"),
    }
}
