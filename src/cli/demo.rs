//! `capjudge demo`: the shipped clips and captions through the whole program.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args as ClapArgs, Parser};

use super::End;
use super::exit::Usage;
use super::frames::write_sheet;
use super::interrupt::listen_for_interrupt;
use super::look::LookFlags;
use super::model::{GuideFlags, ModelFlags, PaceFlags, open_judge};
use super::output::{print, printable_lines, say, write};
use super::progress::Bar;
use crate::answer::CountFrom;
use crate::dataset::{Limits, Record};
use crate::metrics::Summary;
use crate::model::pocket;
use crate::report::{ReportFormat, printable, ranked, ranking_markdown, ranking_table, render};
use crate::run::{Plan, RunEnd, VERDICTS, run, write_if_other};
use crate::task::Catalog;
use crate::verdict::{Outcome, Score, Scored, Verdict};

const EXAMPLES: &str = "\
Examples:
  capjudge demo                                            the built-in judge, less than a minute
  capjudge demo --judge Qwen/Qwen3-VL-2B-Instruct --out runs/real      a real model on the same clips

Started again, it goes on where it stopped.";

/// Flags of `demo`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where clips, captions, runs and the report are put; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "runs/demo")]
    out: PathBuf,
    /// Who judges: as in `capjudge run`
    #[arg(long, default_value = pocket::NAME)]
    judge: String,
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    model: ModelFlags,
}

/// Flags of `run` that are as if nobody had typed any.
#[derive(Debug, Parser)]
struct Untyped {
    #[command(flatten)]
    look: LookFlags,
}

const DATA: &str = "captions.jsonl";
/// The captions first: a folder that has them is a demo's.
const FILES: [(&str, &[u8]); 9] = embed![
    "models/pocket/demo":
    "captions.jsonl",
    "clip-1.mp4",
    "clip-2.mp4",
    "clip-3.mp4",
    "clip-4.mp4",
    "clip-5.mp4",
    "clip-6.mp4",
    "clip-7.mp4",
    "clip-8.mp4",
];
const TASKS: [&str; 3] = ["hallucination", "omission", "score"];

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        unpack(&self.out)?;
        let records = records()?;
        let (clips, count) = (by_clip(&records), records.len());
        let (videos, out) = (clips.len(), self.out.display());
        say(&format!("{videos} clips and {count} captions of two made-up systems, lantern and sparrow, are in {out}"));
        let interrupt = listen_for_interrupt()?;
        let catalog = Catalog::load(None)?;
        let mut judge = open_judge(&self.judge, &self.model, &GuideFlags::default(), &self.pace, false)?;
        let Untyped { look } = Untyped::parse_from([""]);
        let mut tasks = Vec::new();
        for name in TASKS {
            let task = catalog.get(name)?;
            judge.check(task)?;
            tasks.push(task);
        }
        let mut summary = Summary { schema_version: 1, runs: Vec::new() };
        for task in tasks {
            let name = &task.name;
            let plan = Plan {
                task,
                data: self.out.join(DATA),
                out: self.out.join(name),
                count_from: CountFrom::Stated,
                reason: true,
                retry_unscored: false,
                limits: Limits::default(),
            };
            say(&format!("{name}: {count} captions"));
            let mut player = look.player_for(plan.task, judge.sees_frames())?;
            let mut bar = Bar::new(false);
            let end = run(&plan, judge.as_mut(), player.as_mut(), &interrupt, &mut bar);
            bar.clear();
            match end? {
                RunEnd::Complete(done) => summary.runs.push(done),
                RunEnd::Interrupted { .. } => return Ok(interrupted()),
            }
        }
        let mut player = look.player(catalog.get("score")?.sampler())?;
        for clip in clips.keys() {
            let Some(frames) = player.frames(&[self.out.join(clip)], &interrupt)? else { return Ok(interrupted()) };
            write_sheet(&self.out.join(sheet_name(clip)), &frames)?;
        }
        let scores = scores(&self.out.join("score").join(VERDICTS))?;
        print(&format!("\n{}\n{}", ranking_table(&summary), printable_lines(&told(&records, &scores, &summary))))?;
        let report = self.out.join("report.md");
        write(&self.report(&clips, &scores, &summary), Some(&report))?;
        say(&format!("\nframes, captions, reasons and all numbers: {}", report.display()));
        if self.judge == pocket::NAME {
            let own =
                "capjudge run --task score --data captions.jsonl --judge Qwen/Qwen3-VL-4B-Instruct --out runs/mine";
            say(&format!("your own captions: {own}"));
        }
        let (judged, scored) =
            summary.runs.iter().fold((0, 0), |(judged, scored), run| (judged + run.judged, scored + run.scored));
        if (judged - scored) * 20 > judged {
            say(&format!("capjudge: {} of {judged} verdicts are unscored", judged - scored));
            return Ok(End::TooManyUnscored);
        }
        Ok(End::Done)
    }

    /// What was judged, what was seen and what came out, as Markdown.
    fn report(
        &self,
        clips: &BTreeMap<String, Vec<&Record>>,
        scores: &BTreeMap<String, Score>,
        summary: &Summary,
    ) -> String {
        let mut text = format!("# Captions judged by {}\n\n", self.judge);
        if self.judge == pocket::NAME {
            text.push_str(&format!("Note: {}.\n\n", pocket::REMARK));
        }
        text.push_str(&ranking_markdown(summary));
        text.push_str("\n## Clips\n");
        for (clip, records) in clips {
            text.push_str(&format!("\n### {clip}\n\n![frames of {clip}]({})\n\n", sheet_name(clip)));
            for event in records.first().iter().flat_map(|record| &record.events) {
                text.push_str(&format!("- {}\n", event.caption));
            }
            for record in records {
                let caption = one_line(&record.caption);
                let kind = record.caption_type.as_deref().unwrap_or_default();
                text.push_str(&format!("\n**{}**, {kind}: {caption}  \n", record.system));
                text.push_str(&format!("{}\n", verdict_line(scores.get(&record.id))));
            }
        }
        format!("{text}\n## All numbers\n\n{}", render(summary, ReportFormat::Markdown))
    }
}

fn interrupted() -> End {
    say("interrupted: what is judged is stored; the same command goes on from there");
    End::Interrupted
}

fn named(path: &Path, error: &dyn Display) -> anyhow::Error {
    anyhow!("{}: {error}", path.display())
}

/// Puts the clips and captions into a folder that is empty or holds them already: nobody's files are overwritten.
fn unpack(folder: &Path) -> Result<()> {
    let unusable = |path: &Path, error| anyhow!("{}: {error}; choose another --out", path.display());
    fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| unusable(folder, error))?;
    let is_demo =
        FILES.first().is_some_and(|(name, bytes)| fs::read(folder.join(name)).is_ok_and(|there| there == *bytes));
    if !is_demo && entries.next().is_some() {
        let what = format!(
            "{}: the folder is not empty and holds no demo of this version; choose another --out",
            folder.display()
        );
        return Err(Usage(what).into());
    }
    for (name, bytes) in FILES {
        let path = folder.join(name);
        write_if_other(&path, bytes).map_err(|error| unusable(&path, error))?;
    }
    Ok(())
}

/// The captions, as they were compiled in.
fn records() -> Result<Vec<Record>> {
    let lines =
        FILES.iter().filter(|(name, _)| *name == DATA).flat_map(|(_, bytes)| bytes.split(|byte| *byte == b'\n'));
    let records = lines.filter(|line| !line.is_empty()).map(|line| {
        let broken = |what: String| anyhow!("{DATA}: {what}");
        Record::from_fields(serde_json::from_slice(line)?).map_err(|record| broken(format!("{:?}", record.problems)))
    });
    records.collect()
}

/// The records of each clip, by the clip's file.
fn by_clip(records: &[Record]) -> BTreeMap<String, Vec<&Record>> {
    let mut clips: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records {
        clips.entry(clip_of(record)).or_default().push(record);
    }
    clips
}

fn clip_of(record: &Record) -> String {
    let paths = record.video.iter().flat_map(|video| video.paths(Path::new("")));
    paths.map(|path| path.display().to_string()).collect()
}

/// The scores of a run, by record. What is unscored is not among them.
fn scores(verdicts: &Path) -> Result<BTreeMap<String, Score>> {
    let text = fs::read_to_string(verdicts).map_err(|error| named(verdicts, &error))?;
    let mut scores = BTreeMap::new();
    for line in text.lines() {
        let Verdict { id, outcome, .. } = serde_json::from_str(line).map_err(|error| named(verdicts, &error))?;
        if let Outcome::Scored(Scored::Score(score)) = outcome {
            scores.insert(id, score);
        }
    }
    Ok(scores)
}

/// The file of a clip's frames.
fn sheet_name(clip: &str) -> String {
    format!("{clip}.frames.png")
}

/// The lowest and the highest score of each system, with the judge's reason.
fn told(records: &[Record], scores: &BTreeMap<String, Score>, summary: &Summary) -> String {
    let mut text = String::new();
    for (_, system) in ranked(summary) {
        let mut scored: Vec<(&Record, &Score)> = records
            .iter()
            .filter(|record| record.system == system)
            .filter_map(|record| Some((record, scores.get(&record.id)?)))
            .collect();
        scored.sort_by_key(|(_, score)| score.score);
        let (lowest, highest) = (scored.first(), scored.last().filter(|_| scored.len() > 1));
        for (record, score) in highest.into_iter().chain(lowest) {
            let caption = one_line(&record.caption);
            let clip = clip_of(record);
            text.push_str(&format!("{system} on {clip}: “{caption}”\n  {}\n", verdict_line(Some(score))));
        }
    }
    text
}

/// Text of data or of a judge that cannot pass for a line of its own.
fn one_line(text: &str) -> String {
    printable(&text.replace('\n', " / "), &[])
}

fn verdict_line(score: Option<&Score>) -> String {
    match score {
        None => "unscored".to_owned(),
        Some(Score { score, reason, .. }) => {
            format!("score {score} of 4: {}", one_line(reason.as_deref().unwrap_or("no reason given")))
        }
    }
}
