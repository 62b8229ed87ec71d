//! The tower of Qwen3-VL, what merges its rows, and what it tells the decoder's first layers.
//!
//! ```text
//!  patches ─▶ linear + place ─▶ [ norm ─ attention ─ + ─ norm ─ MLP ─ + ] × depth ─▶ merger ─▶ rows
//!                                          └─ behind some layers ─▶ merger ─▶ deep rows
//! ```

use std::collections::BTreeSet;

use candle_core::{Result as TensorResult, Tensor};

use crate::kernels::Matrix;
use crate::model::ModelError;
use crate::model::config::Fields;
use crate::model::linear::{Compute, Linear};
use crate::model::vision::layers::{self, Activation, Block, LayerNorm};
use crate::model::vision::qwen::grid::Grid;
use crate::model::vision::qwen::{Cut, rotary_base};
use crate::model::vision::{Parts, Plan};

/// Of every norm in it.
const EPSILON: f32 = 1e-6;
/// The most layers that are read.
const MOST_LAYERS: usize = 1024;
/// The most places of the table of position embeddings.
const MOST_PLACES: usize = 1 << 24;

/// The tower.
#[derive(Debug)]
pub struct Tower {
    compute: Compute,
    cut: Cut,
    head_dim: usize,
    base: f64,
    embed: Linear,
    /// The embedding of each place of a square of this side.
    places: Matrix,
    side: usize,
    blocks: Vec<Block>,
    merger: Merger,
    /// Layers, by their numbers, and what merges what leaves them.
    deep: Vec<(usize, Merger)>,
}

#[derive(Debug)]
struct Merger {
    norm: LayerNorm,
    /// Whether rows are normed when they are merged already.
    merged_first: bool,
    up: Linear,
    down: Linear,
}

impl Tower {
    /// The tower of a model.
    pub fn load(parts: &Parts<'_>, config: &Fields<'_>, cut: Cut) -> Result<Self, ModelError> {
        let wrong = |what: String| parts.wrong(format!("vision_config: {what}"));
        let Parts { tensors, quant, .. } = *parts;
        let size = |name: &str, default: usize| config.size_or(name, default).map_err(wrong);
        let (hidden, inner) = (size("hidden_size", 1152)?, size("intermediate_size", 4304)?);
        let (heads, depth) = (size("num_heads", 16)?, size("depth", 27)?);
        let (out, places) = (size("out_hidden_size", 3584)?, size("num_position_embeddings", 2304)?);
        let head_dim = layers::head_dim(hidden, heads, 4).map_err(wrong)?;
        let side = places.isqrt();
        if depth > MOST_LAYERS || out != parts.hidden || places > MOST_PLACES || side == 0 {
            let what = format!(
                "depth {depth}, num_position_embeddings {places} or out_hidden_size {out} cannot be; the decoder has {}",
                parts.hidden
            );
            return Err(wrong(what));
        }
        let activation =
            config.text_or("hidden_act", "gelu_pytorch_tanh").and_then(Activation::by_name).map_err(wrong)?;
        let prefix = tensors.prefix(&["model.visual.", "visual."], "patch_embed.proj.weight");
        let norm = |name: String, size: usize| LayerNorm::load(tensors, &name, size, EPSILON);
        let linear = |name: String, outputs, inputs| tensors.linear(&name, outputs, inputs, quant);
        let block = |index: usize| {
            let name = format!("{prefix}blocks.{index}");
            Ok::<_, ModelError>(Block {
                attention_norm: norm(format!("{name}.norm1"), hidden)?,
                qkv: linear(format!("{name}.attn.qkv"), hidden.saturating_mul(3), hidden)?,
                output: linear(format!("{name}.attn.proj"), hidden, hidden)?,
                feed_forward_norm: norm(format!("{name}.norm2"), hidden)?,
                up: linear(format!("{name}.mlp.linear_fc1"), inner, hidden)?,
                down: linear(format!("{name}.mlp.linear_fc2"), hidden, inner)?,
                heads,
                activation,
            })
        };
        let merged = hidden.saturating_mul(cut.merge * cut.merge);
        let merger = |name: String, merged_first: bool| {
            Ok::<_, ModelError>(Merger {
                norm: norm(format!("{name}.norm"), if merged_first { merged } else { hidden })?,
                merged_first,
                up: linear(format!("{name}.linear_fc1"), merged, merged)?,
                down: linear(format!("{name}.linear_fc2"), out, merged)?,
            })
        };
        let layers = config.list_or("deepstack_visual_indexes", &[8, 16, 24]).map_err(wrong)?;
        let once = layers.iter().collect::<BTreeSet<_>>().len() == layers.len();
        if !once || layers.iter().any(|layer| *layer >= depth) {
            return Err(wrong(format!(
                "deepstack_visual_indexes names a layer twice, or layers beyond the tower's {depth}"
            )));
        }
        let mut deep = Vec::new();
        for (index, layer) in layers.iter().enumerate() {
            deep.push((*layer, merger(format!("{prefix}deepstack_merger_list.{index}"), true)?));
        }
        // They speak in the order of the layers, whatever the order of the list.
        deep.sort_by_key(|(layer, _)| *layer);
        let embed = format!("{prefix}patch_embed.proj");
        let shape = [hidden, 3, cut.frames, cut.patch, cut.patch];
        Ok(Self {
            compute: tensors.compute.clone(),
            cut,
            head_dim,
            base: rotary_base(config).map_err(wrong)?,
            embed: tensors.convolution(&embed, &shape, quant)?,
            places: tensors.matrix(&format!("{prefix}pos_embed.weight"), places, hidden)?,
            side,
            blocks: (0..depth).map(block).collect::<Result<_, _>>()?,
            merger: merger(format!("{prefix}merger"), false)?,
            deep,
        })
    }

    /// The merged rows of a step's patches, and for each of the decoder's first layers what is added behind it.
    pub fn forward(&self, pixels: &Tensor, plan: &Plan) -> TensorResult<(Tensor, Vec<Tensor>)> {
        let grid = Grid::of_one_step(plan, &self.cut);
        let device = &self.compute.device;
        let angles = grid.angles(self.head_dim, self.base);
        let angles = Tensor::from_vec(angles, (grid.of_step(), self.head_dim / 2), device)?;
        let tables = (angles.cos()?, angles.sin()?);
        let frame = [grid.of_step()];
        let places = Tensor::from_vec(self.stretched(&grid), (grid.of_step(), self.places.columns()), device)?;
        let mut x = (self.embed.forward(pixels)? + places)?;
        let mut deep = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            x = block.forward(&self.compute, &x, Some(&tables), &frame)?;
            for (_, merger) in self.deep.iter().filter(|(layer, _)| *layer == index) {
                deep.push(self.merge(merger, &x)?);
            }
        }
        Ok((self.merge(&self.merger, &x)?, deep))
    }

    fn merge(&self, merger: &Merger, x: &Tensor) -> TensorResult<Tensor> {
        let square = self.cut.merge * self.cut.merge;
        let merged = |x: &Tensor| x.reshape((x.dim(0)? / square, x.dim(1)? * square));
        let x = match merger.merged_first {
            true => merger.norm.forward(&merged(x)?, &self.compute)?,
            false => merged(&merger.norm.forward(x, &self.compute)?)?,
        };
        merger.down.forward(&Activation::Gelu.of(&merger.up.forward(&x)?, &self.compute)?)
    }

    /// The embeddings of places, stretched from their square to the grid: corners stay corners, and what is between is
    /// mixed of its four neighbours.
    fn stretched(&self, grid: &Grid) -> Vec<f32> {
        let width = self.places.columns();
        let along = |count: usize| -> Vec<(usize, usize, f32)> {
            (0..count)
                .map(|at| {
                    let place = at as f32 * (self.side - 1) as f32 / (count - 1).max(1) as f32;
                    let first = place as usize;
                    (first, (first + 1).min(self.side - 1), place - first as f32)
                })
                .collect()
        };
        let (rows, columns) = (along(grid.rows), along(grid.columns));
        let (mut step, mut neighbour) = (vec![0.0; grid.of_step() * width], vec![0.0; width]);
        for ((row, column), out) in grid.places().zip(step.chunks_exact_mut(width.max(1))) {
            let ((top, bottom, down), (left, right, across)) = (rows[row], columns[column]);
            let corners = [
                (top, left, (1.0 - down) * (1.0 - across)),
                (top, right, (1.0 - down) * across),
                (bottom, left, down * (1.0 - across)),
                (bottom, right, down * across),
            ];
            for (row, column, weight) in corners {
                self.places.dequantise(row * self.side + column, &mut neighbour);
                out.iter_mut().zip(&neighbour).for_each(|(out, number)| *out += weight * number);
            }
        }
        step
    }
}
