//! What Qwen2.5-VL and Qwen3-VL have in common: pictures cut into a grid of patches, whose neighbours are merged.
//!
//! ```text
//!  frames in steps of two ─▶ patches, in the order of merged squares ─▶ tower ─▶ merger: one row a square
//! ```

pub mod budget;
pub mod grid;
pub mod patches;

use candle_core::{Result as TensorResult, Tensor};

use super::pixels::{Filter, Levels, Picture, resize_all};
use super::settings::{LARGEST_SIDE, Settings};
use super::{Marker, Markers, Medium, Parts, Placeholder, Plan};
use crate::model::ModelError;
use crate::model::config::Fields;
use crate::model::linear::Compute;
use budget::Budget;
use grid::Grid;
use patches::patches;

/// How pictures are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The side of a patch, in pixels.
    pub patch: usize,
    /// The frames of a patch.
    pub frames: usize,
    /// The side of a square that is merged into one row, in patches.
    pub merge: usize,
}

impl Cut {
    /// As the tower is made.
    pub fn new(config: &Fields<'_>, patch: usize) -> Result<Self, String> {
        let cut = Self {
            patch: config.size_or("patch_size", patch)?,
            frames: config.size_or("temporal_patch_size", 2)?,
            merge: config.size_or("spatial_merge_size", 2)?,
        };
        let channels = config.size_or(if config.has("in_chans") { "in_chans" } else { "in_channels" }, 3)?;
        if channels != 3 {
            return Err(format!("vision_config: {channels} colours are not supported; pictures have 3"));
        }
        let sane = |size: usize, most: usize| (1..=most).contains(&size);
        if !(sane(cut.patch, 256) && sane(cut.frames, 64) && sane(cut.merge, 16)) {
            let Self { patch, frames, merge } = cut;
            return Err(format!(
                "vision_config: pictures cannot be cut by patch_size {patch}, temporal_patch_size {frames} and \
                 spatial_merge_size {merge}"
            ));
        }
        Ok(cut)
    }

    /// The side of a merged square, in pixels.
    pub fn square(&self) -> usize {
        self.patch * self.merge
    }

    /// Numbers of a patch.
    pub fn numbers(&self) -> usize {
        3 * self.frames * self.patch * self.patch
    }
}

/// How pictures, or videos, are prepared.
#[derive(Debug)]
struct Preparation {
    budget: Budget,
    filter: Filter,
    levels: Levels,
}

impl Preparation {
    /// By a processor's settings, with the defaults of its class; with no more pixels of a frame than are wanted.
    fn new(settings: &Settings, cut: &Cut, defaults: &Defaults, wanted: Option<usize>) -> Result<Self, ModelError> {
        settings.same("patch_size", defaults.patch, cut.patch)?;
        settings.same("temporal_patch_size", 2, cut.frames)?;
        settings.same("merge_size", 2, cut.merge)?;
        settings.require(&["do_resize"])?;
        let pixels = |old: &str, new: &str, default: usize| {
            let named = if defaults.old_names { settings.count(old, LARGEST_SIDE)? } else { None };
            let named = if named.is_some() { named } else { settings.side("size", new)? };
            Ok::<_, ModelError>(named.unwrap_or(default))
        };
        let budget = Budget {
            least: pixels("min_pixels", "shortest_edge", defaults.least)?,
            most: pixels("max_pixels", "longest_edge", defaults.most)?,
            cap: match settings.flag("cap_pixels_per_frame", false)? {
                true => Some(settings.count("max_video_tokens", LARGEST_SIDE)?.unwrap_or(defaults.tokens)),
                false => None,
            },
            wanted,
        };
        Ok(Self {
            budget,
            filter: settings.filter(Filter::Bicubic)?,
            levels: settings.levels(defaults.mean, defaults.std)?,
        })
    }
}

/// How pictures and videos are prepared.
#[derive(Debug)]
pub struct Preparations {
    cut: Cut,
    images: Preparation,
    videos: Preparation,
}

impl Preparations {
    /// By the settings in a model's folder.
    pub fn new(parts: &Parts<'_>, cut: Cut, images: &Defaults, videos: &Defaults) -> Result<Self, ModelError> {
        let new = |settings: Settings, defaults| Preparation::new(&settings, &cut, defaults, parts.frame_pixels);
        // A budget for a picture is none for a video where all frames share theirs.
        let of_videos = if videos.old_names { Settings::of_videos } else { Settings::of_videos_alone };
        Ok(Self {
            cut,
            images: new(Settings::of_images(parts.folder)?, images)?,
            videos: new(of_videos(parts.folder)?, videos)?,
        })
    }

    fn of(&self, medium: &Medium<'_>) -> &Preparation {
        match medium {
            Medium::Image(_) => &self.images,
            Medium::Video(_) => &self.videos,
        }
    }

    /// How pictures are cut.
    pub fn cut(&self) -> &Cut {
        &self.cut
    }

    /// The numbers of pixels that a medium may have.
    pub fn budget(&self, medium: &Medium<'_>) -> &Budget {
        &self.of(medium).budget
    }

    /// The frames of a medium at the size of its plan.
    pub fn resized(&self, medium: &Medium<'_>, plan: &Plan) -> Vec<Picture> {
        let (width, height) = plan.sizes.first().copied().unwrap_or_default();
        resize_all(medium.frames(), width, height, self.of(medium).filter)
    }

    /// The patches of a step.
    pub fn pixels(
        &self,
        compute: &Compute,
        medium: &Medium<'_>,
        resized: &[Picture],
        plan: &Plan,
        step: usize,
    ) -> TensorResult<Tensor> {
        let grid = Grid::of(plan, &self.cut);
        let frames = &resized[resized.len().min(step * self.cut.frames)..];
        let numbers = patches(frames, &grid, &self.cut, &self.of(medium).levels);
        Tensor::from_vec(numbers, (grid.of_step(), self.cut.numbers()), &compute.device)
    }
}

/// What a processor's class does where its settings do not say.
#[derive(Debug)]
pub struct Defaults {
    /// The side of a patch.
    pub patch: usize,
    /// The fewest pixels.
    pub least: usize,
    /// The most.
    pub most: usize,
    /// Whether `min_pixels` and `max_pixels` go before `size`; the class of Qwen3-VL's videos does not know them.
    pub old_names: bool,
    /// Tokens of a frame, or of a video, where a cap is asked for.
    pub tokens: usize,
    /// What is taken from each colour.
    pub mean: [f64; 3],
    /// What the rest is divided by.
    pub std: [f64; 3],
}

const START: &str = "<|vision_start|>";
const END: &str = "<|vision_end|>";
const IMAGE: &str = "<|image_pad|>";
const VIDEO: &str = "<|video_pad|>";

/// What stands for pictures in the prompts of both. In Qwen3-VL's, each step of a video has a start and an end of its own.
pub fn markers(config: &Fields<'_>, steps_apart: bool) -> Result<Markers, String> {
    let placeholder = |text: &'static str, field: &str, default: usize| {
        let token = u32::try_from(config.size_or(field, default)?);
        Ok::<_, String>(Placeholder { text, token: token.map_err(|_| format!("`{field}` is no token"))? })
    };
    let (image, video) =
        (placeholder(IMAGE, "image_token_id", 151_655)?, placeholder(VIDEO, "video_token_id", 151_656)?);
    let image = Marker { written: IMAGE.to_owned(), around: (START, END), placeholder: image };
    let video = match steps_apart {
        true => Marker { written: format!("{START}{VIDEO}{END}"), around: ("", ""), placeholder: video },
        false => Marker { written: VIDEO.to_owned(), around: (START, END), placeholder: video },
    };
    Ok(Markers { image, video: Some(video), video_template: None })
}

/// A step of a video as Qwen3-VL writes it: its time, and its rows between start and end.
pub fn timed_step(seconds: f64, rows: usize) -> String {
    format!("<{seconds:.1} seconds>{START}{}{END}", VIDEO.repeat(rows))
}

/// The placeholders of a medium in one piece.
pub fn plain(medium: &Medium<'_>, rows: usize) -> String {
    match medium {
        Medium::Image(_) => IMAGE.repeat(rows),
        Medium::Video(_) => VIDEO.repeat(rows),
    }
}

/// The base of the speeds at which the heads of a tower turn.
pub fn rotary_base(config: &Fields<'_>) -> Result<f64, String> {
    let base = match config.optional("rope_parameters").map(Fields) {
        Some(parameters) => {
            let kind = parameters.text_or("rope_type", "axial")?;
            if kind != "axial" && kind != "default" {
                return Err(format!("rope_parameters: `rope_type` {kind:?} is not supported in a tower; axial is"));
            }
            parameters.number_or("rope_theta", 10_000.0)?
        }
        None => 10_000.0,
    };
    if base > 1.0 { Ok(base) } else { Err(format!("the rotary base {base} is not above 1")) }
}
