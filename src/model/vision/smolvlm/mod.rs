//! SmolVLM, SmolVLM2 and Idefics3: SigLIP's tower over square parts, a shuffle of pixels into channels, and a Llama.
//!
//! A picture is cut into parts with the whole of it behind them; a frame of a video is one part.

mod connector;
mod layout;
mod parts;
mod tower;
mod words;

use candle_core::{Result as TensorResult, Tensor};
use serde_json::Value;

use super::pixels::Picture;
use super::settings::Settings;
use super::{Markers, Medium, Parts, Plan, Vision};
use crate::model::ModelError;
use crate::model::config::{DecoderConfig, Fields, text_of};
use crate::model::linear::Compute;
use connector::Connector;
use parts::Preparation;
use tower::Tower;

/// The decoder is a Llama.
pub fn decoder(config: &Value) -> Result<DecoderConfig, String> {
    let defaults =
        [("hidden_act", "silu".into()), ("max_position_embeddings", 2048.into()), ("rms_norm_eps", 1e-6.into())];
    let (text, _) = text_of(config, "llama", &defaults)?;
    Ok(text)
}

/// The eyes of a SmolVLM.
#[derive(Debug)]
pub struct SmolVlm {
    compute: Compute,
    images: Preparation,
    /// `None` for Idefics3, which has no processor for videos: frames are pictures that are not cut.
    videos: Option<Preparation>,
    markers: Markers,
    tower: Tower,
    connector: Connector,
}

/// Opens them.
pub fn open(parts: &Parts<'_>) -> Result<Box<dyn Vision>, ModelError> {
    let wrong = |what: String| parts.wrong(what);
    let config = Fields(parts.config);
    if parts.frame_pixels.is_some() {
        let what =
            "--frame-pixels is for models that see pictures at their own size (Qwen-VL); this one brings all to one";
        return Err(ModelError::Option(what.to_owned()));
    }
    let vision = config.object("vision_config").map_err(wrong)?;
    let tower = Tower::load(parts, &vision)?;
    let idefics = config.text_or("model_type", "smolvlm").map_err(wrong)? == "idefics3";
    let images = Preparation::of_images(&Settings::of_images(parts.folder)?)?;
    let videos = match idefics {
        true => None,
        false => Some(Preparation::of_videos(&Settings::of_videos(parts.folder)?)?),
    };
    let sides = [Some(&images), videos.as_ref()].into_iter().flatten().map(Preparation::side);
    let wrong_side = |what: String| {
        parts.wrong(format!("{what}; `max_image_size` of the processor's settings does not fit this tower"))
    };
    let connector = Connector::load(parts, tower.width())?;
    let processor = Settings::of_processor(parts.folder)?;
    for side in sides {
        let rows = tower.patches(side).and_then(|patches| connector.rows(patches)).map_err(wrong_side)?;
        processor.same("image_seq_len", rows, rows)?;
    }
    Ok(Box::new(SmolVlm {
        compute: parts.tensors.compute.clone(),
        markers: layout::markers(&config, videos.is_some()).map_err(wrong)?,
        images,
        videos,
        tower,
        connector,
    }))
}

impl SmolVlm {
    fn preparation(&self, medium: &Medium<'_>) -> &Preparation {
        match medium {
            Medium::Image(_) => &self.images,
            Medium::Video(_) => self.videos.as_ref().unwrap_or(&self.images),
        }
    }
}

impl Vision for SmolVlm {
    fn markers(&self) -> &Markers {
        &self.markers
    }

    fn plan(&self, medium: &Medium<'_>) -> Result<Plan, String> {
        let preparation = self.preparation(medium);
        let patches = self.tower.patches(preparation.side())?;
        layout::plan(medium, preparation, self.connector.rows(patches)?, self.videos.is_some())
    }

    fn resized(&self, medium: &Medium<'_>, plan: &Plan) -> Vec<Picture> {
        self.preparation(medium).resized(medium, plan)
    }

    fn pixels(&self, medium: &Medium<'_>, resized: &[Picture], plan: &Plan, step: usize) -> TensorResult<Tensor> {
        let preparation = self.preparation(medium);
        let side = preparation.side();
        Tensor::from_vec(preparation.pixels(resized, plan, step), (1, 3, side, side), &self.compute.device)
    }

    fn look(&self, pixels: &Tensor, _: &Plan) -> TensorResult<(Tensor, Vec<Tensor>)> {
        Ok((self.connector.forward(&self.tower.forward(pixels)?)?, Vec::new()))
    }
}
