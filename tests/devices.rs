//! Where a model computes: `--device`, on a machine without a GPU.

use candle_core::quantized::GgmlDType;
use candle_core::{Device, Tensor};
use capjudge::kernels::{Level, Matrix, Precision};
use capjudge::model::device::{DeviceChoice, open};
use capjudge::model::linear::{Compute, Kernels, Linear};
use serde_json::Value;

use crate::models::folder;
use crate::workspace::{Workspace, copy_folder};

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    copy_folder(&folder("llama_a"), &workspace.path("model"));
    workspace
}

const GENERATE: &str = "generate --model model --text hello --max-tokens 8 --json";

#[test]
fn devices_have_names() {
    let known = [
        ("auto", DeviceChoice::Auto),
        ("cpu", DeviceChoice::Cpu),
        ("cuda", DeviceChoice::Cuda(0)),
        ("cuda:0", DeviceChoice::Cuda(0)),
        ("cuda:12", DeviceChoice::Cuda(12)),
        ("metal", DeviceChoice::Metal),
    ];
    for (name, choice) in known {
        assert_eq!(name.parse(), Ok(choice), "{name}");
    }
    let unknown = ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda:a", "cuda:0:1", "cpu:0", "metal:0", " cpu"];
    for name in unknown.iter().chain(&["cuda:99999999999999999999"]) {
        let error = name.parse::<DeviceChoice>().unwrap_err();
        assert!(error.contains("auto, cpu, cuda, cuda:N (N is a number) and metal"), "{name}: {error}");
    }
}

#[test]
fn an_unknown_device_is_refused_with_those_that_there_are() {
    let workspace = workspace();
    let ran = workspace.run(&format!("{GENERATE} --device gpu")).exits(2);
    ran.says("\"gpu\" is no device; there are auto, cpu, cuda, cuda:N (N is a number) and metal");
}

#[test]
fn a_device_that_is_not_compiled_in_is_an_error_that_says_how_to_build_it() {
    let workspace = workspace();
    let missing = [
        ("cuda", "cuda", cfg!(feature = "cuda")),
        ("cuda:1", "cuda", cfg!(feature = "cuda")),
        ("metal", "metal", cfg!(feature = "metal")),
    ];
    for (device, feature, compiled) in missing {
        if compiled {
            continue;
        }
        let ran = workspace.run(&format!("{GENERATE} --device {device}")).exits(2);
        ran.says(&format!("cargo build --release --features {feature}")).says("--device cpu");
    }
}

#[test]
fn the_cpu_by_name_and_by_default_gives_the_same_bytes() {
    let workspace = workspace();
    let generate = |flags: &str| {
        let ran = workspace.run(&format!("{GENERATE} {flags}")).exits(0);
        let mut json: Value = serde_json::from_str(&ran.stdout).unwrap();
        json.as_object_mut().unwrap().remove("timings").unwrap();
        (json.to_string(), ran.stderr)
    };
    let (cpu, said) = generate("--device cpu");
    assert_eq!(said, "");
    // In a build for a GPU `auto` may have one, or says why not.
    if cfg!(not(any(feature = "cuda", feature = "metal"))) {
        assert_eq!(generate("--device auto"), (cpu.clone(), String::new()));
        assert_eq!(generate(""), (cpu, String::new()));
    }
}

#[test]
fn a_run_goes_on_with_the_same_arithmetic_however_it_is_asked_for() {
    let name = |choice| open(choice).unwrap().0.name();
    if cfg!(not(any(feature = "cuda", feature = "metal"))) {
        assert_eq!(name(DeviceChoice::Auto), name(DeviceChoice::Cpu));
    }
    assert_eq!(name(DeviceChoice::Cpu), Compute::cpu().name());
    let others = [Kernels::Candle, Kernels::Own(Level::Portable), Kernels::Own(Level::detect())];
    let mut names: Vec<String> =
        others.map(|kernels| Compute { kernels, ..Compute::cpu() }.name()).into_iter().collect();
    names.dedup();
    assert_eq!(names.len(), if Level::detect() == Level::Portable { 2 } else { 3 }, "{names:?}");
    let coarse = Compute { precision: Precision::Coarse, ..Compute::cpu() };
    assert!(!names.contains(&coarse.name()), "other bits under the same name");
}

#[test]
fn a_judge_that_replays_answers_has_no_device() {
    let workspace = workspace();
    workspace.write("answers.jsonl", "");
    workspace.write_lines("data.jsonl", &[crate::workspace::record("a", "s", "A dog runs")]);
    workspace
        .run("run --task hallucination --data data.jsonl --judge scripted:answers.jsonl --out out --device cpu")
        .exits(2)
        .says("--device is for judges that load a model");
}

/// What GPUs compute with, tried on the CPU: matrices of several types side by side, and inputs that are a part of a
/// larger tensor.
#[test]
fn candles_products_agree_with_the_own_kernels_whatever_the_parts_are() {
    let number = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 504.5 - 1.0;
    let floats: Vec<f32> = (0..4 * 64).map(number).collect();
    let bytes = |floats: &[f32]| floats.iter().flat_map(|float| float.to_le_bytes()).collect::<Vec<u8>>();
    let plain = Matrix::new(GgmlDType::F32, 4, 64, bytes(&floats).into()).unwrap();
    let brain: Vec<u8> = floats.iter().flat_map(|float| half::bf16::from_f32(*float).to_le_bytes()).collect();
    let brain = Matrix::new(GgmlDType::BF16, 4, 64, brain.into()).unwrap();
    let quantised = capjudge::model::quantise::quantise(&plain, GgmlDType::Q8_0).unwrap();
    let parts = || vec![quantised.clone(), plain.clone(), brain.clone()];
    let inputs: Vec<f32> = (0..5 * 64).map(|i| number(i + 7)).collect();
    let inputs = Tensor::from_vec(inputs, (5, 64), &Device::Cpu).unwrap().narrow(0, 2, 3).unwrap();
    let product = |kernels| {
        let compute = Compute { kernels, ..Compute::cpu() };
        Linear::new(parts(), None, &compute).unwrap().forward(&inputs).unwrap().to_vec2::<f32>().unwrap()
    };
    let (own, candle) = (product(Kernels::Own(Level::detect())), product(Kernels::Candle));
    assert_eq!((own.len(), own[0].len()), (3, 12));
    for (own, candle) in own.iter().flatten().zip(candle.iter().flatten()) {
        // Candle rounds the inputs of a quantised matrix to 8 bits.
        assert!((own - candle).abs() < 0.1, "{own} {candle}");
    }
}
