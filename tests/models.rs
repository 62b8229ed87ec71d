//! The text families against transformers, on tiny checkpoints with random weights.
//!
//! `tests/reference/text_models.py` made them and their logits with the families' own code.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use candle_core::quantized::GgmlDType;
use capjudge::engine::{Chunk, Engine, Input, Logits, Prefix, Rows, Sequence};
use capjudge::kernels::{Level, Matrix};
use capjudge::model::linear::{Compute, Kernels};
use capjudge::model::quantise::{by_name, name_of, quantise};
use capjudge::model::weights::Source;
use serde_json::Value;

use crate::workspace::{Workspace, copy_folder};

pub const CHECKPOINTS: [&str; 8] =
    ["llama_a", "llama_b", "qwen2_a", "qwen2_b", "qwen3_a", "qwen3_b", "gemma3_a", "gemma3_b"];
const GGUF: [&str; 5] = ["llama_a", "llama_b", "qwen2_a", "qwen3_a", "gemma3_a"];

/// How far a logit may be from the reference's.
const CLOSE: f32 = 1e-3;

pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models").join(name)
}

/// The reference values of a checkpoint.
pub struct Golden {
    pub prompts: Vec<Prompt>,
}

pub struct Prompt {
    pub ids: Vec<u32>,
    pub greedy: Vec<u32>,
    /// Of every position; the shortest prompt has none.
    pub logits: Option<Vec<Vec<f32>>>,
}

pub fn golden(name: &str) -> Golden {
    let text = fs::read_to_string(folder(name).join("golden.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let tensors = candle_core::safetensors::load(folder(name).join("golden.safetensors"), &Device::Cpu).unwrap();
    let ids = |value: &Value| value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let prompts = json["prompts"].as_array().unwrap().iter().enumerate().map(|(index, prompt)| Prompt {
        ids: ids(&prompt["ids"]),
        greedy: ids(&prompt["greedy"]),
        logits: tensors.get(&format!("logits.{index}")).map(|logits| logits.to_vec2().unwrap()),
    });
    Golden { prompts: prompts.collect() }
}

pub fn load(source: &Source, compute: &Compute, quant: Option<GgmlDType>) -> Engine {
    Engine::new(Arc::new(source.decoder(compute, quant).unwrap()))
}

pub fn engine(name: &str) -> Engine {
    load(&Source::folder(&folder(name)).unwrap(), &Compute::cpu(), None)
}

pub fn candle() -> Compute {
    Compute::candle(Device::Cpu)
}

fn portable() -> Compute {
    Compute { kernels: Kernels::Own(Level::Portable), ..Compute::cpu() }
}

pub fn step(engine: &Engine, sequence: &mut Sequence, tokens: &[u32], logits: Rows) -> Logits {
    engine.step(&mut [Chunk { sequence, input: Input::Tokens(tokens), logits }]).unwrap()
}

/// The logits of every position, in one step.
pub fn all_logits(engine: &Engine, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut sequence = engine.fork(&Prefix::default(), tokens.len()).unwrap();
    step(engine, &mut sequence, tokens, Rows::All).of(0).to_vec()
}

pub fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.unwrap() as u32
}

pub fn greedy(engine: &Engine, tokens: &[u32], count: usize) -> Vec<u32> {
    let mut sequence = engine.fork(&Prefix::default(), tokens.len() + count).unwrap();
    let mut logits = step(engine, &mut sequence, tokens, Rows::Last).last(0).to_vec();
    let mut out = Vec::new();
    for _ in 0..count {
        let token = argmax(&logits);
        out.push(token);
        logits = step(engine, &mut sequence, &[token], Rows::Last).last(0).to_vec();
    }
    out
}

pub fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    assert_eq!(a.len(), b.len());
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[track_caller]
fn agrees(name: &str, what: &str, engine: &Engine) {
    for (index, prompt) in golden(name).prompts.iter().enumerate() {
        if let Some(logits) = &prompt.logits {
            let distance = distance(&all_logits(engine, &prompt.ids), logits);
            println!("{name} {what} prompt {index}: logits within {distance:.1e}");
            assert!(distance <= CLOSE, "{name} {what} prompt {index}: logits differ by {distance}");
        }
        assert_eq!(greedy(engine, &prompt.ids, 32), prompt.greedy, "{name} {what} prompt {index}");
    }
}

#[test]
fn every_family_gives_the_logits_and_tokens_of_transformers() {
    for name in CHECKPOINTS {
        agrees(name, "safetensors", &engine(name));
    }
}

#[test]
fn gguf_files_give_the_same_as_their_checkpoints() {
    for name in GGUF {
        let source = Source::gguf(&folder("gguf").join(format!("{name}.gguf"))).unwrap();
        agrees(name, "gguf", &load(&source, &Compute::cpu(), None));
    }
}

#[test]
fn the_way_of_other_devices_gives_the_same() {
    for name in CHECKPOINTS {
        let source = Source::folder(&folder(name)).unwrap();
        agrees(name, "candle", &load(&source, &candle(), None));
        agrees(name, "portable kernels", &load(&source, &portable(), None));
    }
}

#[test]
fn quantising_on_load_costs_what_the_type_costs() {
    // Numbers between -1 and 1, so that a step of a type is a known share of a block's range.
    let numbers: Vec<f32> =
        (0..70u32 * 512).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let matrix = Matrix::new(GgmlDType::F32, 70, 512, bytes.into()).unwrap();
    let steps = [
        ("q8_0", 127.0),
        ("q6k", 31.0),
        ("q5k", 15.0),
        ("q5_1", 15.0),
        ("q4k", 7.0),
        ("q4_1", 7.0),
        ("q3k", 3.0),
        ("q2k", 1.5),
    ];
    for (name, steps) in steps {
        let quantised = quantise(&matrix, by_name(name).unwrap()).unwrap();
        assert_eq!(name_of(quantised.dtype()), name);
        let mut row = vec![0.0; 512];
        for (index, numbers) in numbers.chunks(512).enumerate() {
            quantised.dequantise(index, &mut row);
            let worst = row.iter().zip(numbers).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // Half a step, or a whole one at the end of a range that has a number more below 0 than above.
            assert!(worst <= 1.05 / steps, "{name}: {worst}");
        }
    }
    // Rows that do not fill whole blocks of the type.
    let odd = Matrix::new(GgmlDType::F32, 2, 96, vec![0; 2 * 96 * 4].into()).unwrap();
    assert_eq!(quantise(&odd, GgmlDType::Q4K).unwrap().dtype(), GgmlDType::Q8_0);
    let odd = Matrix::new(GgmlDType::F32, 2, 10, vec![0; 2 * 10 * 4].into()).unwrap();
    assert_eq!(quantise(&odd, GgmlDType::Q4K).unwrap().dtype(), GgmlDType::F32);
}

#[test]
fn a_quantised_model_stays_near_itself() {
    let source = Source::folder(&folder("qwen2_b")).unwrap();
    let prompt = &golden("qwen2_b").prompts[0];
    let distances = [GgmlDType::Q8_0, GgmlDType::Q5_1, GgmlDType::Q4_1].map(|quant| {
        let quantised = load(&source, &Compute::cpu(), Some(quant));
        distance(&all_logits(&quantised, &prompt.ids), prompt.logits.as_ref().unwrap())
    });
    println!("q8_0, q5_1, q4_1: logits within {distances:?}");
    // Random weights without any redundancy are the hardest case there is; logits are up to 12 here.
    assert!(distances[0] > 0.0 && distances[0] < 0.6 && distances[0] < distances[1] && distances[1] < distances[2]);
}

#[test]
fn a_description_that_does_not_fit_the_weights_is_refused_by_name() {
    let workspace = Workspace::new();
    let cases: [(&str, Value, &str); 14] = [
        ("hidden_size", 48.into(), "asks for [160, 48]"),
        ("num_hidden_layers", 3.into(), "the tensor `model.layers.2.input_layernorm.weight` is missing"),
        ("num_hidden_layers", 1.into(), "is no part of the architecture `llama`"),
        ("num_hidden_layers", u64::MAX.into(), "num_hidden_layers is"),
        ("num_key_value_heads", 3.into(), "cannot share 3 key-value heads"),
        ("head_dim", 0.into(), "the head size is 0"),
        ("head_dim", (1u64 << 62).into(), "the head size is 4611686018427387904"),
        ("vocab_size", 159.into(), "asks for [159, "),
        ("rope_parameters", "x".into(), "`rope_parameters` is not an object"),
        ("tie_word_embeddings", 1.into(), "`tie_word_embeddings` is neither true nor false"),
        ("rms_norm_eps", 1e300.into(), "not a small positive number"),
        ("model_type", "mamba".into(), "model_type `mamba` is not supported; supported are llama, qwen2"),
        ("hidden_act", "relu".into(), "the activation `relu` is not supported"),
        ("rms_norm_eps", Value::Null, "`rms_norm_eps` is missing"),
    ];
    for (field, value, message) in cases {
        let copy = workspace.path("model");
        copy_folder(&folder("llama_a"), &copy);
        let path = copy.join("config.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        config[field] = value;
        fs::write(&path, config.to_string()).unwrap();
        workspace.run("generate --model model --text hello").exits(4).says(message).says("model");
    }
}
