//! SigLIP's tower: patches with a learned embedding for each place, and plain layers over all patches of a part.

use candle_core::{Result as TensorResult, Tensor};

use crate::kernels::Matrix;
use crate::model::ModelError;
use crate::model::config::Fields;
use crate::model::linear::{Compute, Linear};
use crate::model::vision::Parts;
use crate::model::vision::layers::{self, Activation, Block, LayerNorm};

/// The most layers that are read.
const MOST_LAYERS: usize = 1024;
const PREFIX: &str = "model.vision_model";

/// The tower.
#[derive(Debug)]
pub struct Tower {
    compute: Compute,
    width: usize,
    /// The side of a patch, in pixels.
    patch: usize,
    /// Places a side that there are embeddings for.
    places: usize,
    embed: Linear,
    table: Matrix,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Tower {
    /// The tower of a model.
    pub fn load(parts: &Parts<'_>, config: &Fields<'_>) -> Result<Self, ModelError> {
        let wrong = |what: String| parts.wrong(format!("vision_config: {what}"));
        let Parts { tensors, quant, .. } = *parts;
        let size = |name: &str, default: usize| config.size_or(name, default).map_err(wrong);
        let (width, inner) = (size("hidden_size", 1152)?, size("intermediate_size", 3072)?);
        let (heads, depth) = (size("num_attention_heads", 16)?, size("num_hidden_layers", 12)?);
        let (image, patch) = (size("image_size", 224)?, size("patch_size", 32)?);
        layers::head_dim(width, heads, 1).map_err(wrong)?;
        if size("num_channels", 3)? != 3 {
            return Err(wrong("`num_channels` is not 3".to_owned()));
        }
        if patch == 0 || patch > image || image > 1 << 16 || depth > MOST_LAYERS {
            let what = format!("patch_size {patch}, image_size {image} or num_hidden_layers {depth} cannot be");
            return Err(wrong(what));
        }
        let activation =
            config.text_or("hidden_act", "gelu_pytorch_tanh").and_then(Activation::by_name).map_err(wrong)?;
        let epsilon = config.number_or("layer_norm_eps", 1e-6).map_err(wrong)? as f32;
        if !(epsilon > 0.0 && epsilon < 1.0) {
            return Err(wrong("`layer_norm_eps` is not a small positive number".to_owned()));
        }
        let norm = |name: String| LayerNorm::load(tensors, &name, width, epsilon);
        let block = |index: usize| {
            let name = format!("{PREFIX}.encoder.layers.{index}");
            let qkv = ["q_proj", "k_proj", "v_proj"].map(|part| format!("{name}.self_attn.{part}"));
            let qkv = [(&*qkv[0], width), (&*qkv[1], width), (&*qkv[2], width)];
            Ok::<_, ModelError>(Block {
                attention_norm: norm(format!("{name}.layer_norm1"))?,
                qkv: tensors.side_by_side(&qkv, width, quant)?,
                output: tensors.linear(&format!("{name}.self_attn.out_proj"), width, width, quant)?,
                feed_forward_norm: norm(format!("{name}.layer_norm2"))?,
                up: tensors.linear(&format!("{name}.mlp.fc1"), inner, width, quant)?,
                down: tensors.linear(&format!("{name}.mlp.fc2"), width, inner, quant)?,
                heads,
                activation,
            })
        };
        let embed = format!("{PREFIX}.embeddings.patch_embedding");
        let places = image / patch;
        let table = format!("{PREFIX}.embeddings.position_embedding.weight");
        Ok(Self {
            compute: tensors.compute.clone(),
            width,
            patch,
            places,
            embed: tensors.convolution(&embed, &[width, 3, patch, patch], quant)?,
            table: tensors.matrix(&table, places * places, width)?,
            blocks: (0..depth).map(block).collect::<Result<_, _>>()?,
            norm: norm(format!("{PREFIX}.post_layernorm"))?,
        })
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Patches a side of a part of so many pixels a side.
    pub fn patches(&self, side: usize) -> Result<usize, String> {
        let count = side / self.patch;
        if count == 0 || count > self.places {
            let (most, patch) = (self.places * self.patch, self.patch);
            return Err(format!("parts of {side} pixels a side do not fit a tower for {patch} to {most}"));
        }
        Ok(count)
    }

    /// What leaves the tower for parts `[parts, 3, side, side]`: `[parts, patches, width]`.
    pub fn forward(&self, pixels: &Tensor) -> TensorResult<Tensor> {
        let (parts, colours, height, _) = pixels.dims4()?;
        let (patch, side) = (self.patch, height / self.patch);
        let count = side * side;
        // Pixels beyond the last whole patch are not seen, as by the reference's convolution.
        let x = pixels.narrow(2, 0, side * patch)?.narrow(3, 0, side * patch)?;
        let x = x.reshape((parts, colours, side, patch, side, patch))?.permute([0, 2, 4, 1, 3, 5])?.contiguous()?;
        let x = self.embed.forward(&x.reshape((parts * count, colours * patch * patch))?)?;
        let places = Tensor::from_vec(self.embeddings(side), (1, count, self.width), &self.compute.device)?;
        let mut x =
            x.reshape((parts, count, self.width))?.broadcast_add(&places)?.reshape((parts * count, self.width))?;
        let rows = vec![count; parts];
        for block in &self.blocks {
            x = block.forward(&self.compute, &x, None, &rows)?;
        }
        self.norm.forward(&x, &self.compute)?.reshape((parts, count, self.width))
    }

    /// The embeddings of the places of a part with so many patches a side: those of the square that each lies in. The
    /// places are 0, 1, 2, 3 …, as the checkpoints were trained with and as release 5 of transformers has them again;
    /// 4.57 rounds some of them down by one (0, 0, 1, 2 …).
    fn embeddings(&self, side: usize) -> Vec<f32> {
        let mut out = vec![0.0; side * side * self.width];
        for (at, out) in out.chunks_exact_mut(self.width).enumerate() {
            let place = |at: usize| at * self.places / side;
            self.table.dequantise(place(at / side) * self.places + place(at % side), out);
        }
        out
    }
}
