//! Layers that towers are made of, beside linear ones.

use candle_core::{Result as TensorResult, Tensor};
use candle_nn::ops;

use super::attention::self_attention;
use crate::kernels::{ActivateOp, Gate, LayerNormOp};
use crate::model::ModelError;
use crate::model::linear::{Compute, Kernels, Linear, sum};
use crate::model::tensors::Tensors;

/// A norm with mean, deviation, weight and bias.
#[derive(Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f32,
}

impl LayerNorm {
    /// The norm of that name.
    pub fn load(tensors: &Tensors<'_>, name: &str, size: usize, epsilon: f32) -> Result<Self, ModelError> {
        let weight = tensors.required(&format!("{name}.weight"), size)?;
        let bias = tensors.required(&format!("{name}.bias"), size)?;
        Ok(Self { weight, bias, epsilon })
    }

    /// The rows, normed.
    pub fn forward(&self, x: &Tensor, compute: &Compute) -> TensorResult<Tensor> {
        let epsilon = self.epsilon;
        match compute.kernels {
            Kernels::Own(level) => x.apply_op3_no_bwd(&self.weight, &self.bias, &LayerNormOp { epsilon, level }),
            Kernels::Candle => ops::layer_norm(&x.contiguous()?, &self.weight, &self.bias, epsilon),
        }
    }
}

/// What stands between two linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// With the error function.
    Gelu,
    /// The same by a hyperbolic tangent.
    GeluTanh,
    /// The same by a sigmoid.
    QuickGelu,
    /// `x · sigmoid(x)`.
    Silu,
}

impl Activation {
    /// By the name that `hidden_act` has for it.
    pub fn by_name(name: &str) -> Result<Self, String> {
        match name {
            "gelu" => Ok(Self::Gelu),
            "gelu_pytorch_tanh" | "gelu_new" => Ok(Self::GeluTanh),
            "quick_gelu" => Ok(Self::QuickGelu),
            "silu" | "swish" => Ok(Self::Silu),
            other => Err(format!(
                "the tower's activation `{}` is not supported; supported are gelu, gelu_pytorch_tanh, quick_gelu, silu",
                other.escape_debug()
            )),
        }
    }

    /// Of each number.
    pub fn of(self, x: &Tensor, compute: &Compute) -> TensorResult<Tensor> {
        let gate = match self {
            Self::GeluTanh => Some(Gate::GeluTanh),
            Self::Silu => Some(Gate::Silu),
            Self::Gelu | Self::QuickGelu => None,
        };
        if let (Kernels::Own(level), Some(gate)) = (compute.kernels, gate) {
            return x.contiguous()?.apply_op1_no_bwd(&ActivateOp { gate, level });
        }
        match self {
            Self::Gelu => x.gelu_erf(),
            Self::GeluTanh => x.gelu(),
            Self::QuickGelu => x * ops::sigmoid(&(x * 1.702)?)?,
            Self::Silu => x.silu(),
        }
    }
}

/// A plain layer of a tower: attention, then two linear layers with an activation between them.
#[derive(Debug)]
pub struct Block {
    /// The norm before attention.
    pub attention_norm: LayerNorm,
    /// Queries, keys and values.
    pub qkv: Linear,
    /// From heads back to the hidden size.
    pub output: Linear,
    /// The norm before the feed-forward part.
    pub feed_forward_norm: LayerNorm,
    /// The way up.
    pub up: Linear,
    /// The way down.
    pub down: Linear,
    /// Its heads.
    pub heads: usize,
    /// What stands between up and down.
    pub activation: Activation,
}

impl Block {
    /// What leaves it. Rows see their own block of `blocks`; `angles` turn queries and keys, where there are any.
    pub fn forward(
        &self,
        compute: &Compute,
        x: &Tensor,
        angles: Option<&(Tensor, Tensor)>,
        blocks: &[usize],
    ) -> TensorResult<Tensor> {
        let qkv = self.qkv.forward(&self.attention_norm.forward(x, compute)?)?;
        let found = self_attention(compute, &qkv, self.heads, angles, blocks)?;
        let x = sum(x, &self.output.forward(&found)?, compute)?;
        let inner = self.up.forward(&self.feed_forward_norm.forward(&x, compute)?)?;
        sum(&x, &self.down.forward(&self.activation.of(&inner, compute)?)?, compute)
    }
}

/// Numbers of a head of a tower; they have to be a multiple of `multiple`.
pub fn head_dim(hidden: usize, heads: usize, multiple: usize) -> Result<usize, String> {
    let sane = (1..=LARGEST).contains(&hidden) && heads > 0 && hidden.is_multiple_of(heads.saturating_mul(multiple));
    let error = || format!("{heads} heads cannot share the hidden size {hidden} in multiples of {multiple}");
    sane.then(|| hidden / heads).ok_or_else(error)
}

/// The largest hidden size of a tower.
const LARGEST: usize = 1 << 20;
