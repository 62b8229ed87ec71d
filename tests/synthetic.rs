//! Shapes with random weights: they are what the manifests say, they run, and as files they are the same models.

use capjudge::model::manifest::Manifests;
use capjudge::model::pocket;
use capjudge::model::synthetic::Shape;
use capjudge::model::{LoadOptions, Model, Piece};
use serde_json::Value;

use crate::workspace::Workspace;

/// Parameters of public checkpoints that have no manifest, as their pages on the hub count them.
const TEXT: [(&str, u64); 4] = [
    ("llama-3.2-1b", 1_235_814_400),
    ("qwen2.5-1.5b", 1_543_714_304),
    ("qwen2.5-7b", 7_615_616_512),
    ("smollm2-135m", 134_515_008),
];

fn parameters(name: &str) -> u64 {
    let tensors = Shape::find(name).unwrap().inventory().unwrap();
    tensors.values().map(|shape| shape.iter().product::<usize>() as u64).sum()
}

#[test]
fn every_shape_has_the_parameters_of_its_checkpoint() {
    let manifests = Manifests::load(None).unwrap();
    // The built-in model is itself, and no shape for measuring.
    let public: Vec<_> = manifests.iter().filter(|manifest| manifest.name != pocket::NAME).collect();
    for manifest in &public {
        assert_eq!(parameters(&manifest.name), manifest.parameters.total, "{}", manifest.name);
    }
    for (name, total) in TEXT {
        assert_eq!(parameters(name), total, "{name}");
    }
    assert_eq!(Shape::names().count(), public.len() + TEXT.len(), "a shape is not checked here");
}

fn generate(workspace: &Workspace, model: &str, more: &str) -> Value {
    let command = format!("generate --model {model} --text What? --json --ignore-end --max-tokens 8 {more}");
    serde_json::from_str(&workspace.run(&command).exits(0).stdout).unwrap()
}

#[test]
fn a_folder_of_a_shape_gives_the_same_logits_as_the_shape() {
    let workspace = Workspace::new();
    workspace.run("models synth tiny --out made").exits(0).prints("random parameters");
    workspace.run("models synth tiny --out wide --dtype f32").exits(0);
    workspace.run("models synth tiny --out other --seed 1").exits(0);
    let shape = generate(&workspace, "shape:tiny", "");
    for name in ["made", "wide"] {
        let folder = generate(&workspace, name, "");
        for field in ["prompt_ids", "top", "ids", "text"] {
            assert!(!shape[field].is_null(), "there is no {field} in {shape}");
            assert_eq!(folder[field], shape[field], "{name}: {field}");
        }
    }
    assert_ne!(generate(&workspace, "other", "")["top"], shape["top"], "another seed, the same model");
    workspace.run("models synth tiny --out made").exits(2).says("is there already");
    workspace
        .run("models synth nothing --out new")
        .exits(2)
        .says("there is no shape \"nothing\"; there are llama-3.2-1b");
}

#[test]
fn a_shape_can_be_quantised_and_its_logits_stay_sane() {
    let workspace = Workspace::new();
    for quant in ["", "--quant q8_0", "--quant q4k", "--quant q8_0 --quant-head q8_0 --quant-tower q8_0"] {
        let out = generate(&workspace, "shape:tiny", quant);
        let highest = out["top"][0][1].as_f64().unwrap();
        assert!((2.0..60.0).contains(&highest), "{quant}: {highest}");
    }
}

#[test]
fn prompts_of_a_shape_have_about_as_many_tokens_as_with_a_public_vocabulary() {
    let model = Model::load("shape:tiny", &LoadOptions::default()).unwrap();
    for (name, text, public) in [
        ("hallucination", include_str!("../prompts/hallucination.txt"), PUBLIC[0]),
        ("omission", include_str!("../prompts/omission.txt"), PUBLIC[1]),
        ("score", include_str!("../prompts/score.txt"), PUBLIC[2]),
    ] {
        let tokens = model.tokenizer.encode(&[Piece::Trusted(text.into())]).unwrap().len();
        let ratio = tokens as f64 / public as f64;
        assert!((0.9..1.1).contains(&ratio), "{name}: {tokens} tokens, {public} with Qwen2.5's vocabulary");
    }
}

/// Tokens of the prompts with the vocabulary of Qwen2.5 (`capjudge tokens`).
const PUBLIC: [usize; 3] = [1146, 1273, 859];
