//! `capjudge frames`: what a judge sees of a video.

use std::collections::BTreeSet;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args as ClapArgs;
use image::ImageFormat;
use serde_json::json;

use super::End;
use super::exit::Usage;
use super::interrupt::listen_for_interrupt;
use super::look::LookFlags;
use super::output::{print, printable_lines, say};
use super::progress::Waiting;
use crate::media::{Frame, Frames, Sampler, sheet};
use crate::run::write_atomic;

const EXAMPLES: &str = "\
Examples:
  capjudge frames clip.mp4                                       which frames a score judge sees: index, time, size
  capjudge frames clip.mp4 --out sheet.png                       the same as a contact sheet
  capjudge frames clip.mp4 --sample midpoint --frames 16 --out frames/       one file each
  capjudge frames clip.mkv --fps 2 --json                        with the SHA-256 of each frame's RGB bytes
  capjudge frames shot1.png shot2.png --out sheet.png            a list of images; a folder of images works too
  capjudge frames clip.mp4 --sample model --sample-model models/Qwen2.5-VL-3B-Instruct";

/// Flags of `frames`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A video, a folder of images, or images
    #[arg(required = true)]
    video: Vec<PathBuf>,
    /// Where the frames go: a folder (made if it is not there), or a file ending in .png for a contact sheet
    #[arg(long, value_name = "DIR|FILE.png")]
    out: Option<PathBuf>,
    /// Print index, time, size and SHA-256 of each frame, and what is wrong with the video, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    look: LookFlags,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let mut player = self.look.player(None)?;
        if let Some(out) = self.out.as_ref().and_then(|out| fs::canonicalize(out).ok())
            && self.video.iter().any(|video| fs::canonicalize(video).is_ok_and(|video| video == out))
        {
            return Err(Usage(format!("--out {}: that is the video itself", out.display())).into());
        }
        let interrupt = listen_for_interrupt()?;
        let name = self.video.first().map(|path| path.display().to_string()).unwrap_or_default();
        let waiting = Waiting::new(&format!("decoding {name}"), self.json);
        let frames = player.frames(&self.video, &interrupt);
        waiting.end();
        let Some(frames) = frames.map_err(|error| name_file(error, &name))? else {
            return Ok(End::Interrupted);
        };
        if let Some(out) = &self.out {
            write(out, &frames)?;
        }
        if self.json {
            print(&format!("{}\n", report(&self.video, &player.look().sampler, &frames)))?;
        } else {
            print(&printable_lines(&table(&frames)))?;
            if let Some(out) = &self.out {
                say(&format!("{} frames are in {}", frames.frames.len(), out.display()));
            }
        }
        for fault in &frames.faults {
            say(&printable_lines(&format!("capjudge: {name}: damaged: {}", fault.what)));
        }
        Ok(if frames.faults.is_empty() || player.look().allow_damaged { End::Done } else { End::Invalid })
    }
}

/// An error that says which file it is about.
pub(super) fn name_file(error: crate::media::MediaError, name: &str) -> anyhow::Error {
    use crate::media::MediaError as E;
    let about = |what: String| if what.starts_with(name) { what } else { format!("{name}: {what}") };
    match error {
        E::Unsupported(what) => E::Unsupported(about(what)),
        E::Damaged(what) => E::Damaged(about(what)),
        E::Limit(what) => E::Limit(about(what)),
        E::Crashed(what) => E::Crashed(about(what)),
        other => other,
    }
    .into()
}

/// Writes frames as files, or a contact sheet.
fn write(out: &Path, frames: &Frames) -> Result<()> {
    let is_sheet = out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("png")) && !out.is_dir();
    if is_sheet {
        return write_sheet(out, frames);
    }
    fs::create_dir_all(out).map_err(|error| anyhow!("{}: {error}", out.display()))?;
    let mut written = BTreeSet::new();
    for frame in frames.frames.iter().filter(|frame| written.insert(frame.index)) {
        let Frame { index, time, width, height, rgb } = frame;
        let mut png = Cursor::new(Vec::new());
        image::write_buffer_with_format(
            &mut png,
            rgb,
            *width,
            *height,
            image::ExtendedColorType::Rgb8,
            ImageFormat::Png,
        )?;
        save(&out.join(format!("frame-{:06}-{time:.3}s.png", index.0)), png.get_ref())?;
    }
    Ok(())
}

/// Writes a contact sheet.
pub(super) fn write_sheet(out: &Path, frames: &Frames) -> Result<()> {
    let damaged: Vec<_> = frames.faults.iter().flat_map(|fault| fault.frames.iter().copied()).collect();
    let mut png = Cursor::new(Vec::new());
    sheet::sheet(&frames.frames, &damaged).write_to(&mut png, ImageFormat::Png)?;
    save(out, png.get_ref())
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomic(path, bytes).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn table(frames: &Frames) -> String {
    let mut text = format!("{} frames, {:.3} s\n", frames.total, frames.duration);
    for frame in &frames.frames {
        let Frame { index, time, width, height, .. } = frame;
        text.push_str(&format!("#{:<7} {time:>10.3} s  {width} × {height}  {}\n", index.0, frame.sha256()));
    }
    text
}

fn report(video: &[PathBuf], sampler: &Sampler, frames: &Frames) -> serde_json::Value {
    let frame = |frame: &Frame| {
        let Frame { index, time, width, height, .. } = frame;
        json!({"index": index, "time": time, "width": width, "height": height, "sha256": frame.sha256()})
    };
    let list: Vec<_> = frames.frames.iter().map(frame).collect();
    json!({
        "video": video.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "sample": sampler.to_string(),
        "total": frames.total,
        "duration": frames.duration,
        "frames": list,
        "faults": frames.faults,
    })
}
