//! Models that see: what stands around the one decoder.
//!
//! ```text
//!  Medium ──▶ Plan ─────────────▶ pixels ──▶ tower ──▶ connector ──▶ Visual ──▶ engine
//!  image or   layout: its text,   resized,   patches   fewer rows,   rows in the place
//!  frames     rows, positions     normalised           as wide as    of tokens
//!                                                      the decoder
//! ```
//!
//! | folder | `model_type` |
//! |---|---|
//! | [`smolvlm`] | SmolVLM, SmolVLM2, Idefics3 |
//! | [`qwen2_5_vl`] | Qwen2.5-VL |
//! | [`qwen3_vl`] | Qwen3-VL (dense) |
//!
//! Each has its `layout.rs` (what a picture is in a prompt), its `tower.rs` and what connects it. To add one: copy the
//! nearest folder, give it a row in [`ARCHITECTURES`], and make checkpoints and goldens with
//! `tests/reference/vision_models.py`; `tests/vision.rs` tells when it is right.
//!
//! Invariant: a plan is made of sizes alone. So a prompt that does not fit the context is refused before a pixel of it
//! is touched.

pub mod attention;
pub mod layers;
pub mod pixels;
pub mod qwen;
pub mod qwen2_5_vl;
pub mod qwen3_vl;
pub mod settings;
pub mod smolvlm;

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use candle_core::quantized::GgmlDType;
use candle_core::{Result as TensorResult, Tensor};
use serde_json::Value;

use super::ModelError;
use super::config::DecoderConfig;
use super::rope::Position;
use super::tensors::Tensors;
use crate::engine::Visual;
use crate::media::{Frame, Frames};
use pixels::{Picture, View};

/// What the names of a decoder's tensors begin with in a model that sees, depending on who wrote the file.
pub const DECODERS: [&str; 3] = ["model.language_model.", "model.text_model.", "model."];

/// A kind of model that sees.
#[derive(Debug)]
pub struct Architecture {
    /// Its `model_type` in `config.json`.
    pub model_type: &'static str,
    decoder: fn(&Value) -> Result<DecoderConfig, String>,
    open: Open,
}

/// Builds the eyes of a model.
type Open = fn(&Parts<'_>) -> Result<Box<dyn Vision>, ModelError>;

/// What the eyes of a model are built from.
#[derive(Debug)]
pub struct Parts<'a> {
    /// `config.json`.
    pub config: &'a Value,
    /// The folder of the model.
    pub folder: &'a Path,
    /// The weights.
    pub tensors: &'a Tensors<'a>,
    /// The size of the decoder's rows.
    pub hidden: usize,
    /// The type that matrices are quantised to.
    pub quant: Option<GgmlDType>,
    /// The most pixels of a picture or frame that the user wants to show.
    pub frame_pixels: Option<usize>,
}

impl Parts<'_> {
    /// Something that `config.json` says and that cannot be.
    fn wrong(&self, what: impl Into<String>) -> ModelError {
        ModelError::unsupported(&self.folder.join("config.json"), what)
    }
}

/// All kinds of models that see.
pub const ARCHITECTURES: [Architecture; 4] = [
    Architecture { model_type: "smolvlm", decoder: smolvlm::decoder, open: smolvlm::open },
    Architecture { model_type: "idefics3", decoder: smolvlm::decoder, open: smolvlm::open },
    Architecture { model_type: "qwen2_5_vl", decoder: qwen2_5_vl::decoder, open: qwen2_5_vl::open },
    Architecture { model_type: "qwen3_vl", decoder: qwen3_vl::decoder, open: qwen3_vl::open },
];

/// The kind of that name.
pub fn architecture(model_type: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.model_type == model_type)
}

impl Architecture {
    /// The shape of the decoder.
    pub fn decoder(&self, config: &Value) -> Result<DecoderConfig, String> {
        (self.decoder)(config)
    }

    /// The eyes.
    pub fn open(&self, parts: &Parts<'_>) -> Result<Box<dyn Vision>, ModelError> {
        (self.open)(parts)
    }
}

/// The eyes of a model.
pub trait Vision: Debug + Send + Sync {
    /// What stands for pictures in a prompt.
    fn markers(&self) -> &Markers;

    /// How a medium is laid out in a prompt, or why it cannot be.
    fn plan(&self, medium: &Medium<'_>) -> Result<Plan, String>;

    /// The pictures of a medium, brought to the sizes of its plan.
    fn resized(&self, medium: &Medium<'_>, plan: &Plan) -> Vec<Picture>;

    /// What the tower gets of one step of the plan's grid: that part of the reference processor's `pixel_values`.
    fn pixels(&self, medium: &Medium<'_>, resized: &[Picture], plan: &Plan, step: usize) -> TensorResult<Tensor>;

    /// The decoder's rows of a step, and what is added to them behind its first layers.
    fn look(&self, pixels: &Tensor, plan: &Plan) -> TensorResult<(Tensor, Vec<Tensor>)>;
}

/// How long looking took, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// To bring pixels to the model's size and scale.
    pub pixels: f64,
    /// In tower and connector.
    pub tower: f64,
}

/// What the decoder gets of a medium: a [`Visual`] for each run of the plan. Steps do not see each other in a tower, so
/// they are looked at one by one: that bounds memory, and nobody waits long to stop it. `on` hears the number of each step
/// before it; `None` if it wants no more.
pub fn see(
    vision: &dyn Vision,
    medium: &Medium<'_>,
    plan: &Plan,
    spent: &mut Spent,
    on: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> TensorResult<Option<Vec<Visual>>> {
    let (mut rows, mut deep): (Vec<Tensor>, Vec<Vec<Tensor>>) = Default::default();
    let mut start = Instant::now();
    let resized = vision.resized(medium, plan);
    for step in 0..plan.grid[0] {
        if on(step).is_break() {
            return Ok(None);
        }
        let pixels = vision.pixels(medium, &resized, plan, step)?;
        spent.pixels += start.elapsed().as_secs_f64();
        start = Instant::now();
        let (seen, below) = vision.look(&pixels, plan)?;
        spent.tower += start.elapsed().as_secs_f64();
        start = Instant::now();
        rows.push(seen);
        deep.resize_with(below.len(), Vec::new);
        deep.iter_mut().zip(below).for_each(|(layer, seen)| layer.push(seen));
    }
    let deep = deep.iter().map(|layer| Tensor::cat(layer, 0)).collect::<TensorResult<Vec<_>>>()?;
    plan.visuals(&Tensor::cat(&rows, 0)?, &deep).map(Some)
}

/// What is shown to a model.
#[derive(Debug, Clone)]
pub enum Medium<'a> {
    /// A picture.
    Image(View<'a>),
    /// Frames of a video.
    Video(Clip<'a>),
}

/// Frames of a video.
#[derive(Debug, Clone)]
pub struct Clip<'a> {
    /// The frames, in the order of time; at least one, all of one size.
    frames: Vec<View<'a>>,
    /// When each is shown, in seconds.
    times: Vec<f64>,
    /// How long the video is, in seconds.
    duration: f64,
}

impl<'a> Clip<'a> {
    /// Frames that were taken from a video. Why not, if they cannot be shown.
    pub fn new(frames: &'a Frames) -> Result<Self, String> {
        let view = |frame: &'a Frame| {
            let view = View::new(frame.width as usize, frame.height as usize, &frame.rgb);
            view.ok_or_else(|| format!("frame {} has no pixels", frame.index.0))
        };
        let views = frames.frames.iter().map(view).collect::<Result<Vec<_>, _>>()?;
        // Models count from a video's first frame, whatever time the file gives it.
        let first = frames.frames.iter().find(|frame| frame.index.0 == 0).map_or(0.0, |frame| frame.time);
        let times = frames.frames.iter().map(|frame| (frame.time - first).max(0.0)).collect();
        Self::of(views, times, frames.duration)
    }

    /// Frames with their times.
    pub fn of(frames: Vec<View<'a>>, times: Vec<f64>, duration: f64) -> Result<Self, String> {
        let Some(first) = frames.first() else { return Err("there are no frames to show".to_owned()) };
        let size = (first.width(), first.height());
        if let Some(other) = frames.iter().find(|frame| (frame.width(), frame.height()) != size) {
            let (width, height) = (other.width(), other.height());
            return Err(format!(
                "the frames are not of one size: {} × {} and {width} × {height} pixels; a model sees a video at one size",
                size.0, size.1
            ));
        }
        let sane = |seconds: &f64| seconds.is_finite() && (0.0..=MOST_SECONDS).contains(seconds);
        if times.len() != frames.len() || !times.iter().chain([&duration]).all(sane) {
            return Err(format!("the frames' times are not numbers of seconds from 0 to {MOST_SECONDS}"));
        }
        Ok(Self { frames, times, duration })
    }

    /// The frames.
    pub fn frames(&self) -> &[View<'a>] {
        &self.frames
    }

    /// When each frame is shown, in seconds.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// How long the video is, in seconds.
    pub fn duration(&self) -> f64 {
        self.duration
    }

    /// Frames shown for each second of the video; 24 if it has no length, as the reference assumes.
    pub fn rate(&self) -> f64 {
        if self.duration > 0.0 { self.frames.len() as f64 / self.duration } else { 24.0 }
    }
}

/// The longest video whose time can be a position.
const MOST_SECONDS: f64 = 1e7;

impl<'a> Medium<'a> {
    /// The pictures in it.
    pub fn frames(&self) -> &[View<'a>] {
        match self {
            Self::Image(picture) => std::slice::from_ref(picture),
            Self::Video(clip) => clip.frames(),
        }
    }
}

/// How a medium stands in a prompt, and how its pixels get there.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The text that takes the place of its marker, with a placeholder for each row.
    pub layout: String,
    /// The runs of placeholders in it.
    pub runs: Vec<Run>,
    /// The sizes (width, height) that its pictures are brought to, one after the other.
    pub sizes: Vec<(usize, usize)>,
    /// Steps in time, rows and columns: of patches, or of the parts that a picture is cut into.
    pub grid: [usize; 3],
}

/// A run of placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The position of each row, counted from that of the first.
    pub positions: Vec<Position>,
}

impl Plan {
    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.runs.iter().map(|run| run.positions.len()).sum()
    }

    /// All rows, cut into the plan's runs. `deep` is what is added to them behind the decoder's first layers.
    fn visuals(&self, rows: &Tensor, deep: &[Tensor]) -> TensorResult<Vec<Visual>> {
        let mut start = 0;
        let visual = |run: &Run| {
            let part = |all: &Tensor| all.narrow(0, start, run.positions.len());
            let deep = deep.iter().map(part).collect::<TensorResult<_>>()?;
            let visual = Visual::new(part(rows)?, deep, run.positions.clone());
            start += run.positions.len();
            visual
        };
        self.runs.iter().map(visual).collect()
    }
}

/// The most rows that one medium may have: far more than any context holds, and few enough to count.
pub const MOST_ROWS: usize = 1 << 20;

/// Refuses a plan with more rows than could ever be shown.
fn check_rows(rows: usize) -> Result<(), String> {
    if rows == 0 || rows > MOST_ROWS {
        return Err(format!(
            "the pictures would take {rows} places in the prompt, more than any model has; show fewer"
        ));
    }
    Ok(())
}

/// What stands for pictures in a model's prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    /// For a picture.
    pub image: Marker,
    /// For a video; `None` if frames are shown as pictures.
    pub video: Option<Marker>,
    /// A chat template that takes the place of the model's own where there is a video.
    pub video_template: Option<&'static str>,
}

impl Markers {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Marker> {
        [Some(&self.image), self.video.as_ref()].into_iter().flatten()
    }
}

/// What stands for one medium.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// What a chat template writes; the plan's layout takes its place.
    pub written: String,
    /// What stands around the layout where there is no chat template.
    pub around: (&'static str, &'static str),
    /// The placeholder of a row.
    pub placeholder: Placeholder,
}

/// A token that stands for a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// As text.
    pub text: &'static str,
    /// As a token, by `config.json`.
    pub token: u32,
}
