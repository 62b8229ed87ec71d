//! The shape of a decoder from a Hugging Face `config.json`.
//!
//! Both spellings of rotary positions are read: `rope_parameters` of newer files, and `rope_theta` with `rope_scaling`
//! (and `rope_local_base_freq`) of older ones.

use serde_json::Value;

use super::{DecoderConfig, Fields, LayerConfig, MOST_LAYERS, check_head};
use crate::kernels::Gate;
use crate::model::family::{FAMILIES, Family};
use crate::model::rope::{Rope, Scaling};
use crate::model::vision::ARCHITECTURES;

/// The shape that a `config.json` describes, or what is wrong with it.
pub fn from_json(config: &Value) -> Result<DecoderConfig, String> {
    let config = Fields(config);
    let model_type = config.text("model_type")?;
    let family = FAMILIES.iter().find(|family| family.model_type == model_type).ok_or_else(|| {
        let seeing = ARCHITECTURES.iter().map(|architecture| architecture.model_type);
        let known: Vec<&str> = FAMILIES.iter().map(|family| family.model_type).chain(seeing).collect();
        format!("model_type `{model_type}` is not supported; supported are {}", known.join(", "))
    })?;
    let hidden = config.size("hidden_size")?;
    let heads = config.size("num_attention_heads")?;
    let head_dim = match config.optional("head_dim") {
        Some(_) => config.size("head_dim")?,
        None => hidden / heads.max(1),
    };
    let head_dim = check_head(head_dim)?;
    let layers = config.size("num_hidden_layers")?;
    if layers > MOST_LAYERS {
        return Err(format!("num_hidden_layers is {layers}; at most {MOST_LAYERS} are read"));
    }
    for unsupported in ["attn_logit_softcapping", "use_bidirectional_attention"] {
        if config.optional(unsupported).is_some_and(|value| value != &Value::Bool(false)) {
            return Err(format!("{unsupported} is set, which is not supported"));
        }
    }
    let windows = windows(&config, family, layers)?;
    let full = rope(&config, "full_attention", head_dim, config.optional("rope_theta"))?;
    let has_local = family.scaled_embeddings;
    let ropes = if has_local {
        vec![full, rope(&config, "sliding_attention", head_dim, config.optional("rope_local_base_freq"))?]
    } else {
        vec![full]
    };
    let scalar = match config.optional("query_pre_attn_scalar") {
        Some(_) => config.number("query_pre_attn_scalar")?,
        None => head_dim as f64,
    };
    let layer =
        |window: &Option<usize>| LayerConfig { window: *window, rope: usize::from(has_local && window.is_some()) };
    DecoderConfig {
        family,
        hidden,
        intermediate: config.size("intermediate_size")?,
        heads,
        kv_heads: match config.optional("num_key_value_heads") {
            Some(_) => config.size("num_key_value_heads")?,
            None => heads,
        },
        head_dim,
        context: config.size("max_position_embeddings")?,
        epsilon: config.number("rms_norm_eps")? as f32,
        gate: gate(&config)?,
        attention_scale: scalar.powf(-0.5) as f32,
        layers: windows.iter().map(layer).collect(),
        ropes,
        embedding_scale: family.scaled_embeddings.then(|| (hidden as f64).sqrt() as f32),
        softcap: config
            .optional("final_logit_softcapping")
            .map(|_| config.number("final_logit_softcapping"))
            .transpose()?,
        vocabulary: config.optional("vocab_size").map(|_| config.size("vocab_size")).transpose()?,
        tied: Some(config.truth("tie_word_embeddings")?.unwrap_or(family.tied)),
    }
    .check()
}

/// The window of each layer.
fn windows(config: &Fields<'_>, family: &Family, layers: usize) -> Result<Vec<Option<usize>>, String> {
    let window = || config.size("sliding_window").map(Some);
    if let Some(types) = config.optional("layer_types") {
        let types = types.as_array().filter(|types| types.len() == layers);
        let types =
            types.ok_or_else(|| format!("layer_types has to be a list with one name for each of {layers} layers"))?;
        return types
            .iter()
            .map(|kind| match kind.as_str() {
                Some("full_attention") => Ok(None),
                Some("sliding_attention") => window(),
                _ => Err(format!("layer_types has {kind}; supported are full_attention and sliding_attention")),
            })
            .collect();
    }
    let sliding: Box<dyn Fn(usize) -> bool> = if family.scaled_embeddings {
        let pattern = ["sliding_window_pattern", "_sliding_window_pattern"];
        let pattern = match pattern.into_iter().find(|name| config.optional(name).is_some()) {
            Some(name) => config.size(name)?.max(1),
            None => 6,
        };
        Box::new(move |layer| !(layer + 1).is_multiple_of(pattern))
    } else if config.truth("use_sliding_window")?.unwrap_or(false) {
        let first = config.size("max_window_layers")?;
        Box::new(move |layer| layer >= first)
    } else {
        Box::new(|_| false)
    };
    (0..layers).map(|layer| if sliding(layer) { window() } else { Ok(None) }).collect()
}

/// The rotary positions of a kind of layer; `base` is the speed in older files.
fn rope(config: &Fields<'_>, kind: &str, head_dim: usize, base: Option<&Value>) -> Result<Rope, String> {
    let local = kind == "sliding_attention";
    for name in ["rope_parameters", "rope_scaling"] {
        if config.optional(name).is_some_and(|value| !value.is_object()) {
            return Err(format!("`{name}` is not an object"));
        }
    }
    let parameters = config.optional("rope_parameters");
    let of_kind = parameters.and_then(|parameters| parameters.get(kind)).filter(|value| value.is_object());
    // Older files scale layers that see all positions only.
    let older = config.optional("rope_scaling").filter(|_| !local);
    let fields = of_kind.or(parameters.filter(|_| !local)).or(older);
    let default = if local {
        10_000.0
    } else if config.text("model_type")? == "gemma3_text" {
        1e6
    } else {
        10_000.0
    };
    let stated = fields.and_then(|fields| fields.get("rope_theta")).or(base);
    let base = match stated {
        Some(value) => value.as_f64().filter(|base| *base > 1.0).ok_or("the rotary base is not a number above 1")?,
        None => default,
    };
    for fields in [Some(config.0), fields].into_iter().flatten() {
        if Fields(fields).optional("partial_rotary_factor").is_some_and(|share| share.as_f64() != Some(1.0)) {
            return Err("partial_rotary_factor is set, which is not supported".to_owned());
        }
    }
    let scaling = match fields {
        Some(fields) => scaling(&Fields(fields), config)?,
        None => Scaling::None,
    };
    Rope::new(head_dim, base, &scaling)
}

fn scaling(fields: &Fields<'_>, config: &Fields<'_>) -> Result<Scaling, String> {
    let name = match fields.optional("rope_type").or(fields.optional("type")) {
        Some(name) => name.as_str().ok_or("the type of rotary scaling (`rope_type`) is not a text")?,
        None => "default",
    };
    let number = |name: &str, default: f64| fields.optional(name).map_or(Ok(default), |_| fields.number(name));
    let original = || match fields.optional("original_max_position_embeddings") {
        Some(_) => fields.number("original_max_position_embeddings"),
        None => config.number("max_position_embeddings"),
    };
    Ok(match name {
        "default" => Scaling::None,
        "linear" => Scaling::Linear { factor: fields.number("factor")? },
        "llama3" => Scaling::Llama3 {
            factor: fields.number("factor")?,
            low: fields.number("low_freq_factor")?,
            high: fields.number("high_freq_factor")?,
            original: original()?,
        },
        "yarn" => {
            for unsupported in ["mscale", "mscale_all_dim"] {
                if fields.optional(unsupported).is_some() {
                    return Err(format!("rotary scaling with {unsupported} is not supported"));
                }
            }
            Scaling::Yarn {
                factor: fields.number("factor")?,
                original: original()?,
                beta_fast: number("beta_fast", 32.0)?,
                beta_slow: number("beta_slow", 1.0)?,
                magnitude: fields
                    .optional("attention_factor")
                    .map(|_| fields.number("attention_factor"))
                    .transpose()?,
                truncate: fields.truth("truncate")?.unwrap_or(true),
            }
        }
        other => {
            return Err(format!(
                "rotary scaling `{other}` is not supported; supported are default, linear, llama3, yarn"
            ));
        }
    })
}

/// The activation of a gate.
pub fn gate(config: &Fields<'_>) -> Result<Gate, String> {
    let name = ["hidden_activation", "hidden_act"].into_iter().find_map(|name| config.optional(name));
    match name.and_then(Value::as_str) {
        Some("silu" | "swish") => Ok(Gate::Silu),
        Some("gelu_pytorch_tanh") => Ok(Gate::GeluTanh),
        other => Err(format!(
            "the activation `{}` is not supported; supported are silu and gelu_pytorch_tanh",
            other.unwrap_or("(none given)")
        )),
    }
}
