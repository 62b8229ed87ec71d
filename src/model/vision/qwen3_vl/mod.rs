//! Qwen3-VL (dense): a tower with stretched position embeddings, whose middle layers speak to the decoder's first ones.

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

/// The decoder is Qwen3's, with interleaved positions.
pub fn decoder(config: &Value) -> Result<DecoderConfig, String> {
    let defaults = [
        ("head_dim", 128.into()),
        ("hidden_act", "silu".into()),
        ("max_position_embeddings", 128_000.into()),
        ("rms_norm_eps", 1e-6.into()),
        ("rope_theta", 5e5.into()),
    ];
    let (text, sections) = text_of(config, "qwen3", &defaults)?;
    text.turning_by(Axes::Interleaved(sections.unwrap_or([24, 20, 20])))
}

const HALF: [f64; 3] = [0.5; 3];
/// The class of pictures' processor is Qwen2-VL's, whose colours are CLIP's; public checkpoints all name their own.
const IMAGES: Defaults = Defaults {
    patch: 14,
    least: 56 * 56,
    most: 28 * 28 * 1280,
    old_names: true,
    tokens: 0,
    mean: super::qwen2_5_vl::MEAN,
    std: super::qwen2_5_vl::STD,
};
const VIDEOS: Defaults = Defaults {
    patch: 16,
    least: 128 * 32 * 32,
    most: 32 * 32 * 768,
    old_names: false,
    tokens: 768,
    mean: HALF,
    std: HALF,
};

/// The eyes of a Qwen3-VL.
#[derive(Debug)]
pub struct Qwen3Vl {
    compute: Compute,
    preparations: Preparations,
    markers: Markers,
    tower: Tower,
}

/// Opens them.
pub fn open(parts: &Parts<'_>) -> Result<Box<dyn Vision>, ModelError> {
    let wrong = |what: String| parts.wrong(what);
    let vision = Fields(parts.config).object("vision_config").map_err(wrong)?;
    let cut = Cut::new(&vision, 16).map_err(wrong)?;
    Ok(Box::new(Qwen3Vl {
        compute: parts.tensors.compute.clone(),
        tower: Tower::load(parts, &vision, cut)?,
        preparations: Preparations::new(parts, cut, &IMAGES, &VIDEOS)?,
        markers: markers(&Fields(parts.config), true).map_err(wrong)?,
    }))
}

impl Vision for Qwen3Vl {
    fn markers(&self) -> &Markers {
        &self.markers
    }

    fn plan(&self, medium: &Medium<'_>) -> Result<Plan, String> {
        layout::plan(medium, self.preparations.budget(medium), self.preparations.cut())
    }

    fn resized(&self, medium: &Medium<'_>, plan: &Plan) -> Vec<Picture> {
        self.preparations.resized(medium, plan)
    }

    fn pixels(&self, medium: &Medium<'_>, resized: &[Picture], plan: &Plan, step: usize) -> TensorResult<Tensor> {
        self.preparations.pixels(&self.compute, medium, resized, plan, step)
    }

    fn look(&self, pixels: &Tensor, plan: &Plan) -> TensorResult<(Tensor, Vec<Tensor>)> {
        self.tower.forward(pixels, plan)
    }
}
