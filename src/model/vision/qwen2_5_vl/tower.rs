//! The tower of Qwen2.5-VL and what merges its rows.
//!
//! ```text
//!  patches ─▶ linear ─▶ by windows ─▶ [ norm ─ attention ─ + ─ norm ─ gated ─ + ] × depth ─▶ norm ─ merge ─ MLP ─▶ in order again
//! ```

use candle_core::{Result as TensorResult, Tensor};

use crate::kernels::Gate;
use crate::model::ModelError;
use crate::model::config::{self, Fields};
use crate::model::decoder::Norm;
use crate::model::linear::{Compute, Linear, gated, sum};
use crate::model::vision::attention::self_attention;
use crate::model::vision::layers::{self, Activation};
use crate::model::vision::qwen::grid::Grid;
use crate::model::vision::qwen::{Cut, rotary_base};
use crate::model::vision::{Parts, Plan};

/// Of every norm in it.
const EPSILON: f32 = 1e-6;
/// The most layers that are read.
const MOST_LAYERS: usize = 1024;

/// The tower.
#[derive(Debug)]
pub struct Tower {
    compute: Compute,
    cut: Cut,
    heads: usize,
    head_dim: usize,
    base: f64,
    /// The side of a window, in merged squares.
    window: usize,
    embed: Linear,
    gate: Gate,
    blocks: Vec<Block>,
    norm: Norm,
    up: Linear,
    down: Linear,
}

#[derive(Debug)]
struct Block {
    /// Whether it sees a whole frame, and not windows alone.
    whole: bool,
    attention_norm: Norm,
    qkv: Linear,
    output: Linear,
    feed_forward_norm: Norm,
    gate_up: Linear,
    down: Linear,
}

impl Tower {
    /// The tower of a model.
    pub fn load(parts: &Parts<'_>, config: &Fields<'_>, cut: Cut) -> Result<Self, ModelError> {
        let wrong = |what: String| parts.wrong(format!("vision_config: {what}"));
        let Parts { tensors, quant, .. } = *parts;
        let size = |name: &str, default: usize| config.size_or(name, default).map_err(wrong);
        let (hidden, inner) = (size("hidden_size", 3584)?, size("intermediate_size", 3420)?);
        let (heads, depth) = (size("num_heads", 16)?, size("depth", 32)?);
        let out = size("out_hidden_size", 3584)?;
        let head_dim = layers::head_dim(hidden, heads, 4).map_err(wrong)?;
        if depth > MOST_LAYERS || out != parts.hidden {
            let what = format!("depth {depth} or out_hidden_size {out} cannot be; the decoder has {}", parts.hidden);
            return Err(wrong(what));
        }
        let gate = if config.has("hidden_act") { config::gate(config).map_err(wrong)? } else { Gate::Silu };
        let whole = config.list_or("fullatt_block_indexes", &[7, 15, 23, 31]).map_err(wrong)?;
        // Below the side of a square the reference has no window at all.
        let window = size("window_size", 112)? / cut.merge / cut.patch;
        if window == 0 {
            return Err(wrong("`window_size` is smaller than a merged square".to_owned()));
        }
        let prefix = tensors.prefix(&["model.visual.", "visual."], "patch_embed.proj.weight");
        let norm = |name: String| {
            Ok::<_, ModelError>(Norm { weight: tensors.required(&format!("{name}.weight"), hidden)?, epsilon: EPSILON })
        };
        let linear = |name: String, outputs, inputs| tensors.linear(&name, outputs, inputs, quant);
        let block = |index: usize| {
            let name = format!("{prefix}blocks.{index}");
            let (gate, up) = (format!("{name}.mlp.gate_proj"), format!("{name}.mlp.up_proj"));
            Ok::<_, ModelError>(Block {
                whole: whole.contains(&index),
                attention_norm: norm(format!("{name}.norm1"))?,
                qkv: linear(format!("{name}.attn.qkv"), hidden.saturating_mul(3), hidden)?,
                output: linear(format!("{name}.attn.proj"), hidden, hidden)?,
                feed_forward_norm: norm(format!("{name}.norm2"))?,
                gate_up: tensors.side_by_side(&[(&gate, inner), (&up, inner)], hidden, quant)?,
                down: linear(format!("{name}.mlp.down_proj"), hidden, inner)?,
            })
        };
        let merged = hidden.saturating_mul(cut.merge * cut.merge);
        let embed = format!("{prefix}patch_embed.proj");
        let shape = [hidden, 3, cut.frames, cut.patch, cut.patch];
        Ok(Self {
            compute: tensors.compute.clone(),
            cut,
            heads,
            head_dim,
            base: rotary_base(config).map_err(wrong)?,
            window,
            embed: tensors.convolution(&embed, &shape, quant)?,
            gate,
            blocks: (0..depth).map(block).collect::<Result<_, _>>()?,
            norm: norm(format!("{prefix}merger.ln_q"))?,
            up: linear(format!("{prefix}merger.mlp.0"), merged, merged)?,
            down: linear(format!("{prefix}merger.mlp.2"), out, merged)?,
        })
    }

    /// The merged rows of a step's patches, in the order of the grid.
    pub fn forward(&self, pixels: &Tensor, plan: &Plan) -> TensorResult<Tensor> {
        let grid = Grid::of_one_step(plan, &self.cut);
        let device = &self.compute.device;
        let (order, windows) = windows(&grid, self.window);
        let square = self.cut.merge * self.cut.merge;
        let patches: Vec<u32> =
            order.iter().flat_map(|at| (0..square).map(move |i| (at * square + i) as u32)).collect();
        let patches = Tensor::new(patches, device)?;
        let angles = grid.angles(self.head_dim, self.base);
        let angles =
            Tensor::from_vec(angles, (grid.of_step(), self.head_dim / 2), device)?.index_select(&patches, 0)?;
        let tables = (angles.cos()?, angles.sin()?);
        let frame = [grid.of_step()];
        let windows: Vec<usize> = windows.iter().map(|squares| squares * square).collect();
        let mut x = self.embed.forward(pixels)?.index_select(&patches, 0)?;
        for block in &self.blocks {
            let rows = if block.whole { &frame[..] } else { &windows };
            x = self.block(block, &x, &tables, rows)?;
        }
        let x = self.norm.forward(&x, &self.compute)?;
        let x = x.reshape((x.dim(0)? / square, x.dim(1)? * square))?;
        let x = self.down.forward(&Activation::Gelu.of(&self.up.forward(&x)?, &self.compute)?)?;
        let mut back = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(place, at)| back[*at] = place as u32);
        x.index_select(&Tensor::new(back, device)?, 0)
    }

    fn block(&self, block: &Block, x: &Tensor, angles: &(Tensor, Tensor), rows: &[usize]) -> TensorResult<Tensor> {
        let qkv = block.qkv.forward(&block.attention_norm.forward(x, &self.compute)?)?;
        let found = self_attention(&self.compute, &qkv, self.heads, Some(angles), rows)?;
        let x = sum(x, &block.output.forward(&found)?, &self.compute)?;
        let inner = block.gate_up.forward(&block.feed_forward_norm.forward(&x, &self.compute)?)?;
        sum(&x, &block.down.forward(&gated(&inner, self.gate, &self.compute)?)?, &self.compute)
    }
}

/// Merged squares of a step in the order of windows, and how many each window has. Windows at the edge are what is left of them.
fn windows(grid: &Grid, side: usize) -> (Vec<usize>, Vec<usize>) {
    let (rows, columns) = grid.squares();
    let (mut order, mut counts) = (Vec::with_capacity(rows * columns), Vec::new());
    for top in (0..rows).step_by(side) {
        for left in (0..columns).step_by(side) {
            let before = order.len();
            for row in top..rows.min(top + side) {
                let first = row * columns;
                order.extend(first + left..first + columns.min(left + side));
            }
            counts.push(order.len() - before);
        }
    }
    (order, counts)
}
