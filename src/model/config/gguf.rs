//! The shape of a decoder from a GGUF file's metadata.

use super::{DecoderConfig, LayerConfig, MOST_LAYERS, check_head};
use crate::kernels::Gate;
use crate::model::family::FAMILIES;
use crate::model::gguf::{Array, Metadata, Value};
use crate::model::rope::{Rope, Scaling};

/// The window pattern of Gemma 3, where a file does not say: every sixth layer sees all.
const GEMMA3_PATTERN: u64 = 6;
/// The rotary base of Gemma 3's layers with a window, where a file does not say.
const GEMMA3_LOCAL_BASE: f64 = 10_000.0;
/// Gemma 3 27B, known by its layers, scales attention by its hidden size and not by its heads' size.
const GEMMA3_27B_LAYERS: usize = 62;

/// The shape that the metadata describes, or what is wrong with it. `divisors` is the tensor `rope_freqs.weight`.
pub fn from_gguf(metadata: &Metadata, divisors: Option<Vec<f32>>) -> Result<DecoderConfig, String> {
    let name = metadata.text("general.architecture").ok_or("general.architecture is missing")?;
    let family = FAMILIES.iter().find(|family| family.architecture == name).ok_or_else(|| {
        let known: Vec<&str> = FAMILIES.iter().map(|family| family.architecture).collect();
        format!("the architecture `{name}` is not supported; supported are {}", known.join(", "))
    })?;
    let keys = Keys { metadata, architecture: name };
    let hidden = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let head_dim = check_head(keys.size_or("attention.key_length", hidden / heads.max(1))?)?;
    let value_dim = keys.size_or("attention.value_length", head_dim)?;
    if value_dim != head_dim {
        return Err(format!("values of {value_dim} numbers beside keys of {head_dim} are not supported"));
    }
    let turned = keys.size_or("rope.dimension_count", head_dim)?;
    if turned != head_dim {
        return Err(format!("{name}.rope.dimension_count is {turned}; only {head_dim}, the whole head, is supported"));
    }
    keys.refuse_unsupported(family.scaled_embeddings)?;
    let layers = keys.size("block_count")?;
    if layers > MOST_LAYERS {
        return Err(format!("{name}.block_count is {layers}; at most {MOST_LAYERS} are read"));
    }
    let gemma = family.scaled_embeddings;
    let default_base = if gemma { 1e6 } else { 10_000.0 };
    let base = keys.number_or("rope.freq_base", default_base)?;
    if base <= 1.0 {
        return Err(format!("{name}.rope.freq_base is {base}; it has to be above 1"));
    }
    let mut ropes = vec![Rope::new(head_dim, base, &scaling(&keys, head_dim, divisors)?)?];
    if gemma {
        let base = keys.number_or("rope.freq_base_swa", GEMMA3_LOCAL_BASE)?;
        ropes.push(Rope::new(head_dim, base, &Scaling::None)?);
    }
    let windows = if gemma { windows(&keys, layers)? } else { vec![None; layers] };
    let scalar = if gemma && layers == GEMMA3_27B_LAYERS { hidden / heads.max(1) } else { head_dim };
    DecoderConfig {
        family,
        hidden,
        intermediate: keys.size("feed_forward_length")?,
        heads,
        kv_heads: keys.size_or("attention.head_count_kv", heads)?,
        head_dim,
        context: keys.size("context_length")?,
        epsilon: keys.number("attention.layer_norm_rms_epsilon")? as f32,
        gate: if gemma { Gate::GeluTanh } else { Gate::Silu },
        attention_scale: (scalar as f64).powf(-0.5) as f32,
        layers: windows
            .iter()
            .map(|window| LayerConfig { window: *window, rope: usize::from(window.is_some()) })
            .collect(),
        ropes,
        embedding_scale: gemma.then(|| (hidden as f64).sqrt() as f32),
        softcap: keys
            .optional("final_logit_softcapping")
            .map(|_| keys.number("final_logit_softcapping"))
            .transpose()?,
        vocabulary: None,
        tied: None,
    }
    .check()
}

fn windows(keys: &Keys<'_>, layers: usize) -> Result<Vec<Option<usize>>, String> {
    let window = keys.size("attention.sliding_window")?;
    let pattern = match keys.optional("attention.sliding_window_pattern") {
        Some(Value::Array(Array::Bools(sliding))) if sliding.len() == layers => {
            return Ok(sliding.iter().map(|sliding| sliding.then_some(window)).collect());
        }
        Some(Value::Unsigned(pattern)) if *pattern > 0 => *pattern,
        Some(_) => {
            return Err(format!("{} is neither a number nor a list", keys.name("attention.sliding_window_pattern")));
        }
        None => GEMMA3_PATTERN,
    };
    Ok((1..=layers as u64).map(|layer| (!layer.is_multiple_of(pattern)).then_some(window)).collect())
}

fn scaling(keys: &Keys<'_>, head_dim: usize, divisors: Option<Vec<f32>>) -> Result<Scaling, String> {
    if let Some(divisors) = divisors {
        let sane = divisors.len() == head_dim / 2 && divisors.iter().all(|divisor| *divisor > 0.0);
        let error = || format!("rope_freqs.weight has to hold {} positive numbers", head_dim / 2);
        return sane.then_some(Scaling::Divisors(divisors)).ok_or_else(error);
    }
    let factor = || keys.number("rope.scaling.factor");
    let kind = keys.name("rope.scaling.type");
    if keys.metadata.get(&kind).is_some_and(|value| !matches!(value, Value::Text(_))) {
        return Err(format!("{kind} is not a text"));
    }
    match keys.metadata.text(&kind) {
        None | Some("none") => match keys.optional("rope.scale_linear") {
            Some(_) => Ok(Scaling::Linear { factor: keys.number("rope.scale_linear")? }),
            None => Ok(Scaling::None),
        },
        Some("linear") => Ok(Scaling::Linear { factor: factor()? }),
        Some("yarn") => Ok(Scaling::Yarn {
            factor: factor()?,
            original: keys.number("rope.scaling.original_context_length")?,
            beta_fast: keys.number_or("rope.scaling.yarn_beta_fast", 32.0)?,
            beta_slow: keys.number_or("rope.scaling.yarn_beta_slow", 1.0)?,
            magnitude: None,
            truncate: true,
        }),
        Some(other) => Err(format!("rotary scaling `{other}` is not supported; supported are none, linear, yarn")),
    }
}

/// The keys of an architecture.
struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

/// Keys that ask for something the decoder does not do, and the value at which they ask for nothing.
const UNSUPPORTED: [(&str, f64); 11] = [
    ("expert_count", 0.0),
    ("attention.clamp_kqv", 0.0),
    ("attention.max_alibi_bias", 0.0),
    ("attention.scale", 0.0),
    ("attn_logit_softcapping", 0.0),
    ("logit_scale", 0.0),
    ("rope.scaling.attn_factor", 1.0),
    ("rope.scaling.yarn_attn_factor", 1.0),
    ("rope.scaling.yarn_ext_factor", 1.0),
    ("rope.scaling.yarn_log_multiplier", 0.0),
    ("use_parallel_residual", 0.0),
];

impl<'a> Keys<'a> {
    /// Refuses what would otherwise be ignored. Only Gemma has windows in its files' own way.
    fn refuse_unsupported(&self, has_windows: bool) -> Result<(), String> {
        let windows = (!has_windows).then_some(("attention.sliding_window", 0.0));
        for (key, nothing) in UNSUPPORTED.into_iter().chain(windows) {
            let name = self.name(key);
            let asks = |value: &Value| match value {
                Value::Bool(truth) => *truth,
                _ => self.metadata.float(&name) != Some(nothing),
            };
            if self.metadata.get(&name).is_some_and(asks) {
                return Err(format!("{name} is set, which is not supported; use another file of this model"));
            }
        }
        let causal = self.name("attention.causal");
        if self.metadata.get(&causal).is_some_and(|value| *value != Value::Bool(true)) {
            return Err(format!("{causal} is not true; only models that read from left to right are supported"));
        }
        Ok(())
    }

    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn optional(&self, key: &str) -> Option<&'a Value> {
        self.metadata.get(&self.name(key))
    }

    fn size(&self, key: &str) -> Result<usize, String> {
        let name = self.name(key);
        if self.metadata.get(&name).is_none() {
            return Err(format!("{name} is missing"));
        }
        // Some files have a number for each layer; it is the same one in the families here.
        if let Some(numbers) = self.metadata.integers(&name) {
            let first = numbers.first().and_then(|number| usize::try_from(*number).ok());
            let same = numbers.iter().all(|number| Some(number) == numbers.first());
            return first
                .filter(|_| same)
                .ok_or_else(|| format!("{name} differs between layers, which is not supported"));
        }
        let number = self.metadata.unsigned(&name).and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| format!("{name} is not a whole number"))
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize, String> {
        self.optional(key).map_or(Ok(default), |_| self.size(key))
    }

    fn number(&self, key: &str) -> Result<f64, String> {
        let name = self.name(key);
        let number = self.metadata.float(&name).filter(|number| number.is_finite());
        number.ok_or_else(|| format!("{name} is missing or not a number"))
    }

    fn number_or(&self, key: &str, default: f64) -> Result<f64, String> {
        self.optional(key).map_or(Ok(default), |_| self.number(key))
    }
}
