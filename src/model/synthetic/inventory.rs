//! Which tensors a checkpoint has, by its `config.json`: names and shapes as the public files have them.
//!
//! Invariant: exactly the tensors that loading asks for. A missing or superfluous one is refused when the shape is
//! loaded, and the counts are those of `models/*.toml`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::config::{DecoderConfig, Fields, from_json};
use crate::model::family::Part;
use crate::model::vision;

/// The shapes of tensors, by name.
pub type Inventory = BTreeMap<String, Vec<usize>>;

/// The tensors of a checkpoint.
pub fn inventory(config: &Value) -> Result<Inventory, String> {
    let mut list = List::default();
    let fields = Fields(config);
    let kind = fields.text("model_type")?;
    match vision::architecture(kind) {
        None => list.decoder(&from_json(config)?, "model."),
        Some(architecture) => {
            let decoder = architecture.decoder(config)?;
            let tower = fields.object("vision_config")?;
            match kind {
                "smolvlm" => {
                    list.siglip(&tower, fields.size("scale_factor")?, decoder.hidden)?;
                    list.decoder(&decoder, "model.text_model.");
                }
                "qwen2_5_vl" => {
                    list.qwen2_5_vl(&tower)?;
                    list.decoder(&decoder, "model.");
                }
                "qwen3_vl" => {
                    list.qwen3_vl(&tower)?;
                    list.decoder(&decoder, "model.language_model.");
                }
                other => return Err(format!("no shape of the architecture `{other}` is known")),
            }
        }
    }
    Ok(list.0)
}

#[derive(Default)]
struct List(Inventory);

impl List {
    fn add(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.0.insert(name.into(), shape.to_vec());
    }

    /// A linear layer with a bias.
    fn linear(&mut self, name: &str, outputs: usize, inputs: usize) {
        self.add(format!("{name}.weight"), &[outputs, inputs]);
        self.add(format!("{name}.bias"), &[outputs]);
    }

    /// A norm with a bias.
    fn layer_norm(&mut self, name: &str, size: usize) {
        self.add(format!("{name}.weight"), &[size]);
        self.add(format!("{name}.bias"), &[size]);
    }

    fn decoder(&mut self, config: &DecoderConfig, prefix: &str) {
        let DecoderConfig { family, hidden, intermediate, heads, kv_heads, head_dim, .. } = *config;
        let vocabulary = config.vocabulary.unwrap_or(0);
        self.add(format!("{prefix}embed_tokens.weight"), &[vocabulary, hidden]);
        self.add(format!("{prefix}norm.weight"), &[hidden]);
        if config.tied != Some(true) {
            self.add("lm_head.weight", &[vocabulary, hidden]);
        }
        let biased = family.model_type == "qwen2";
        let matrices = [
            (Part::Query, heads * head_dim, hidden, biased),
            (Part::Key, kv_heads * head_dim, hidden, biased),
            (Part::Value, kv_heads * head_dim, hidden, biased),
            (Part::Output, hidden, heads * head_dim, false),
            (Part::Gate, intermediate, hidden, false),
            (Part::Up, intermediate, hidden, false),
            (Part::Down, hidden, intermediate, false),
        ];
        let norms = [
            (Part::AttentionNorm, hidden, true),
            (Part::FeedForwardNorm, hidden, true),
            (Part::QueryNorm, head_dim, family.head_norms),
            (Part::KeyNorm, head_dim, family.head_norms),
            (Part::PostAttentionNorm, hidden, family.post_norms),
            (Part::PostFeedForwardNorm, hidden, family.post_norms),
        ];
        for layer in 0..config.layers.len() {
            let name = |part: Part| format!("{prefix}layers.{layer}.{}", family.hugging_face(part));
            for (part, outputs, inputs, bias) in matrices {
                self.add(format!("{}.weight", name(part)), &[outputs, inputs]);
                if bias {
                    self.add(format!("{}.bias", name(part)), &[outputs]);
                }
            }
            for (part, size, _) in norms.into_iter().filter(|(.., there)| *there) {
                self.add(format!("{}.weight", name(part)), &[size]);
            }
        }
    }

    /// SigLIP's tower and SmolVLM's connector.
    fn siglip(&mut self, config: &Fields<'_>, scale: usize, out: usize) -> Result<(), String> {
        let (width, inner) = (config.size("hidden_size")?, config.size("intermediate_size")?);
        let (side, patch) = (config.size("image_size")?, config.size("patch_size")?);
        let tower = "model.vision_model";
        self.add(format!("{tower}.embeddings.patch_embedding.weight"), &[width, 3, patch, patch]);
        self.add(format!("{tower}.embeddings.patch_embedding.bias"), &[width]);
        self.add(format!("{tower}.embeddings.position_embedding.weight"), &[(side / patch).pow(2), width]);
        for layer in 0..config.size("num_hidden_layers")? {
            let name = format!("{tower}.encoder.layers.{layer}");
            for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                self.linear(&format!("{name}.self_attn.{part}"), width, width);
            }
            self.layer_norm(&format!("{name}.layer_norm1"), width);
            self.layer_norm(&format!("{name}.layer_norm2"), width);
            self.linear(&format!("{name}.mlp.fc1"), inner, width);
            self.linear(&format!("{name}.mlp.fc2"), width, inner);
        }
        self.layer_norm(&format!("{tower}.post_layernorm"), width);
        self.add("model.connector.modality_projection.proj.weight", &[out, width * scale * scale]);
        Ok(())
    }

    fn qwen2_5_vl(&mut self, config: &Fields<'_>) -> Result<(), String> {
        let (width, inner) = (config.size("hidden_size")?, config.size("intermediate_size")?);
        let merged = width * config.size("spatial_merge_size")?.pow(2);
        let patch = config.size("patch_size")?;
        let patches = [width, 3, config.size("temporal_patch_size")?, patch, patch];
        self.add("visual.patch_embed.proj.weight", &patches);
        for layer in 0..config.size("depth")? {
            let name = format!("visual.blocks.{layer}");
            self.add(format!("{name}.norm1.weight"), &[width]);
            self.add(format!("{name}.norm2.weight"), &[width]);
            self.linear(&format!("{name}.attn.qkv"), 3 * width, width);
            self.linear(&format!("{name}.attn.proj"), width, width);
            self.linear(&format!("{name}.mlp.gate_proj"), inner, width);
            self.linear(&format!("{name}.mlp.up_proj"), inner, width);
            self.linear(&format!("{name}.mlp.down_proj"), width, inner);
        }
        self.add("visual.merger.ln_q.weight", &[width]);
        self.linear("visual.merger.mlp.0", merged, merged);
        self.linear("visual.merger.mlp.2", config.size("out_hidden_size")?, merged);
        Ok(())
    }

    fn qwen3_vl(&mut self, config: &Fields<'_>) -> Result<(), String> {
        let (width, inner) = (config.size("hidden_size")?, config.size("intermediate_size")?);
        let merged = width * config.size("spatial_merge_size")?.pow(2);
        let patch = config.size("patch_size")?;
        let out = config.size("out_hidden_size")?;
        let tower = "model.visual";
        let patches = [width, 3, config.size("temporal_patch_size")?, patch, patch];
        self.add(format!("{tower}.patch_embed.proj.weight"), &patches);
        self.add(format!("{tower}.patch_embed.proj.bias"), &[width]);
        self.add(format!("{tower}.pos_embed.weight"), &[config.size("num_position_embeddings")?, width]);
        for layer in 0..config.size("depth")? {
            let name = format!("{tower}.blocks.{layer}");
            self.layer_norm(&format!("{name}.norm1"), width);
            self.layer_norm(&format!("{name}.norm2"), width);
            self.linear(&format!("{name}.attn.qkv"), 3 * width, width);
            self.linear(&format!("{name}.attn.proj"), width, width);
            self.linear(&format!("{name}.mlp.linear_fc1"), inner, width);
            self.linear(&format!("{name}.mlp.linear_fc2"), width, inner);
        }
        let deep = config.list_or("deepstack_visual_indexes", &[])?.len();
        let mergers = (0..deep).map(|index| (format!("{tower}.deepstack_merger_list.{index}"), merged));
        for (name, normed) in mergers.chain([(format!("{tower}.merger"), width)]) {
            self.layer_norm(&format!("{name}.norm"), normed);
            self.linear(&format!("{name}.linear_fc1"), merged, merged);
            self.linear(&format!("{name}.linear_fc2"), out, merged);
        }
        Ok(())
    }
}
