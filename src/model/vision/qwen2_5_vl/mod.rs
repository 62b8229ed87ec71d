//! Qwen2.5-VL: a tower that looks through windows and, in a few layers, at a whole frame; positions in time, row and
//! column.

mod layout;
mod tower;

use candle_core::{Result as TensorResult, Tensor};
use serde_json::Value;

use super::pixels::Picture;
use super::qwen::{Cut, Defaults, Preparations, markers};
use super::{Markers, Medium, Parts, Plan, Vision};
use crate::model::ModelError;
use crate::model::config::{DecoderConfig, Fields, text_of};
use crate::model::linear::Compute;
use crate::model::rope::Axes;
use tower::Tower;

/// The decoder is Qwen2's, with positions in sections.
pub fn decoder(config: &Value) -> Result<DecoderConfig, String> {
    let defaults = [
        ("hidden_act", "silu".into()),
        ("max_position_embeddings", 32_768.into()),
        ("rms_norm_eps", 1e-5.into()),
        ("rope_theta", 1e6.into()),
    ];
    let (text, sections) = text_of(config, "qwen2", &defaults)?;
    text.turning_by(Axes::Sections(sections.unwrap_or([16, 24, 24])))
}

/// What CLIP was trained with: what is taken from each colour.
pub const MEAN: [f64; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
/// And divided by.
pub const STD: [f64; 3] = [0.268_629_54, 0.261_302_58, 0.275_777_11];

const IMAGES: Defaults =
    Defaults { patch: 14, least: 56 * 56, most: 28 * 28 * 1280, old_names: true, tokens: 0, mean: MEAN, std: STD };
const VIDEOS: Defaults = Defaults {
    patch: 14,
    least: 128 * 28 * 28,
    most: 28 * 28 * 768,
    old_names: true,
    tokens: 128_000,
    mean: MEAN,
    std: STD,
};

/// The eyes of a Qwen2.5-VL.
#[derive(Debug)]
pub struct Qwen25Vl {
    compute: Compute,
    preparations: Preparations,
    /// Positions that a second takes.
    tokens_per_second: f32,
    markers: Markers,
    tower: Tower,
}

/// Opens them.
pub fn open(parts: &Parts<'_>) -> Result<Box<dyn Vision>, ModelError> {
    let wrong = |what: String| parts.wrong(what);
    let vision = Fields(parts.config).object("vision_config").map_err(wrong)?;
    let cut = Cut::new(&vision, 14).map_err(wrong)?;
    let tower = Tower::load(parts, &vision, cut)?;
    let tokens_per_second = vision.number_or("tokens_per_second", 4.0).map_err(wrong)?;
    if !(0.0..=1e6).contains(&tokens_per_second) {
        return Err(
            parts.wrong(format!("vision_config: `tokens_per_second` is {tokens_per_second}, not from 0 to 1000000"))
        );
    }
    Ok(Box::new(Qwen25Vl {
        compute: parts.tensors.compute.clone(),
        preparations: Preparations::new(parts, cut, &IMAGES, &VIDEOS)?,
        tokens_per_second: tokens_per_second as f32,
        markers: markers(&Fields(parts.config), false).map_err(wrong)?,
        tower,
    }))
}

impl Vision for Qwen25Vl {
    fn markers(&self) -> &Markers {
        &self.markers
    }

    fn plan(&self, medium: &Medium<'_>) -> Result<Plan, String> {
        layout::plan(medium, self.preparations.budget(medium), self.preparations.cut(), self.tokens_per_second)
    }

    fn resized(&self, medium: &Medium<'_>, plan: &Plan) -> Vec<Picture> {
        self.preparations.resized(medium, plan)
    }

    fn pixels(&self, medium: &Medium<'_>, resized: &[Picture], plan: &Plan, step: usize) -> TensorResult<Tensor> {
        self.preparations.pixels(&self.compute, medium, resized, plan, step)
    }

    fn look(&self, pixels: &Tensor, plan: &Plan) -> TensorResult<(Tensor, Vec<Tensor>)> {
        Ok((self.tower.forward(pixels, plan)?, Vec::new()))
    }
}
