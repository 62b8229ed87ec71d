//! The text families against transformers, on tiny checkpoints with random weights.
//!
//! `tests/reference/text_models.py` made them and their logits with the families' own code.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use candle_core::quantized::GgmlDType;
use capjudge::engine::{Chunk, Engine, Input, Logits, Prefix, Rows, Sequence};
use capjudge::kernels::Level;
use capjudge::model::linear::{Compute, Kernels};
use capjudge::model::weights::Source;
use serde_json::Value;

const CHECKPOINTS: [&str; 8] =
    ["llama_a", "llama_b", "qwen2_a", "qwen2_b", "qwen3_a", "qwen3_b", "gemma3_a", "gemma3_b"];
const GGUF: [&str; 5] = ["llama_a", "llama_b", "qwen2_a", "qwen3_a", "gemma3_a"];

/// How far a logit may be from the reference's.
const CLOSE: f32 = 1e-3;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models").join(name)
}

/// The reference values of a checkpoint.
struct Golden {
    prompts: Vec<Prompt>,
}

struct Prompt {
    ids: Vec<u32>,
    greedy: Vec<u32>,
    /// Of every position; the shortest prompt has none.
    logits: Option<Vec<Vec<f32>>>,
}

fn golden(name: &str) -> Golden {
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

fn load(source: &Source, compute: &Compute, quant: Option<GgmlDType>) -> Engine {
    Engine::new(Arc::new(source.decoder(compute, quant).unwrap()))
}

fn engine(name: &str) -> Engine {
    load(&Source::folder(&folder(name)).unwrap(), &Compute::cpu(), None)
}

fn candle() -> Compute {
    Compute { device: Device::Cpu, kernels: Kernels::Candle }
}

fn portable() -> Compute {
    Compute { device: Device::Cpu, kernels: Kernels::Own(Level::Portable) }
}

fn step(engine: &Engine, sequence: &mut Sequence, tokens: &[u32], logits: Rows) -> Logits {
    engine.step(&mut [Chunk { sequence, input: Input::Tokens(tokens), logits }]).unwrap()
}

/// The logits of every position, in one step.
fn all_logits(engine: &Engine, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut sequence = engine.fork(&Prefix::default(), tokens.len()).unwrap();
    step(engine, &mut sequence, tokens, Rows::All).of(0).to_vec()
}

fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.unwrap() as u32
}

fn greedy(engine: &Engine, tokens: &[u32], count: usize) -> Vec<u32> {
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

fn distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
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
