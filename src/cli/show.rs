//! Flags about what is shown to a model beside a text.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;
use clap::Args as ClapArgs;
use serde_json::json;

use super::exit::Usage;
use super::frames::name_file;
use super::look::LookFlags;
use super::progress::Waiting;
use crate::media::{Frames, MediaError, Player};
use crate::model::chat::Kind;
use crate::model::vision::pixels::View;
use crate::model::vision::{Clip, Medium};
use crate::model::{self, Model, ModelError, Part, Piece};

/// Pictures, a video, and how it is looked at.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Shown")]
pub struct ShowFlags {
    /// A picture to show, before the text; with several, or with {image} in the text, each in its turn
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "ids_file"])]
    image: Vec<PathBuf>,
    /// A video to show, before the text or where the text has {video}: a file or a folder of frames
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "ids_file"])]
    video: Option<PathBuf>,
    #[command(flatten)]
    look: LookFlags,
}

/// What is shown: as what, and its frames.
pub type Shown = (Kind, Arc<Frames>);

impl ShowFlags {
    /// The frames of pictures and videos, decoded. `name` is the model's.
    pub fn frames(&self, model: &Model, name: &str, quiet: bool) -> Result<Vec<Shown>> {
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
            return Err(ModelError::Option(format!("{name}: {what}")).into());
        }
        let frames = wanted.into_iter().map(|(kind, path, mut player)| {
            let name = path.display().to_string();
            let waiting = Waiting::new(&format!("decoding {name}"), quiet);
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
}

/// A text with what is shown: where it says so, or else before it.
pub fn parts<'a>(text: &'a str, shown: &'a [Shown]) -> Result<Vec<Part<'a>>> {
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

/// What was shown, for people who compare.
pub fn told(shown: &model::Shown<'_>) -> serde_json::Value {
    let model::Shown { medium, plan, places } = shown;
    json!({
        "kind": if matches!(medium, Medium::Image(_)) { "image" } else { "video" },
        "frames": medium.frames().len(),
        "sizes": plan.sizes,
        "grid": plan.grid,
        "rows": plan.rows(),
        "places": places.iter().map(|place| [place.start, place.end]).collect::<Vec<_>>(),
    })
}
