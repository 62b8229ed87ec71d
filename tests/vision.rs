//! Models that see against transformers, on tiny checkpoints with random weights.
//!
//! `tests/reference/vision_models.py` made them, and what the processors and models of transformers make of pictures,
//! videos and text: pixels, prompt ids, positions, what leaves the tower, logits of every position, greedy tokens.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use candle_core::quantized::GgmlDType;
use candle_core::{DType, Device, Tensor};
use capjudge::engine::{Chunk, Engine, Input, Prefix, Rows, Sequence, Stretch};
use capjudge::kernels::Level;
use capjudge::media::{Frame, FrameIndex, Frames};
use capjudge::model::linear::{Compute, Kernels};
use capjudge::model::vision::pixels::{Picture, View};
use capjudge::model::vision::qwen::budget::Budget;
use capjudge::model::vision::{Clip, Medium};
use capjudge::model::weights::Quant;
use capjudge::model::{LoadOptions, Model, ModelPrompt, Part, Piece, Seen, Shown};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::models::{argmax, candle, folder};
use crate::workspace::{Ran, Workspace, copy_folder};

const CHECKPOINTS: [&str; 7] =
    ["smolvlm_a", "smolvlm_b", "idefics3_a", "qwen2_5_vl_a", "qwen2_5_vl_b", "qwen3_vl_a", "qwen3_vl_b"];

/// How far a logit may be from the reference's.
const CLOSE: f32 = 1e-3;

fn picture(path: &Path) -> Picture {
    let image = image::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).to_rgb8();
    Picture { width: image.width() as usize, height: image.height() as usize, rgb: image.into_raw() }
}

fn media(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vision").join(name)
}

fn numbers<T: serde::de::DeserializeOwned>(value: &Value) -> Vec<T> {
    serde_json::from_value(value.clone()).unwrap()
}

/// An input of a checkpoint, and what the reference makes of it.
pub struct Case {
    pub json: Value,
    tensors: HashMap<String, Tensor>,
    pub columns: Vec<usize>,
    pictures: Vec<Vec<Picture>>,
}

impl Case {
    pub fn name(&self) -> &str {
        self.json["name"].as_str().unwrap()
    }

    fn tensor(&self, kind: &str) -> Option<&Tensor> {
        self.tensors.get(&format!("{kind}.{}", self.name()))
    }

    /// The parts of the message.
    pub fn parts(&self) -> Vec<Part<'_>> {
        let mut pictures = self.pictures.iter();
        let part = |part: &'_ Value| {
            if let Some(text) = part["text"].as_str() {
                return Part::Text(Piece::Trusted(text.to_owned().into()));
            }
            let views: Vec<View<'_>> = pictures.next().unwrap().iter().map(|picture| picture.view().unwrap()).collect();
            if part["image"].is_string() {
                return Part::Shown(Medium::Image(views[0]));
            }
            let fps = part["fps"].as_f64().unwrap();
            let times = numbers::<u64>(&part["indices"]).iter().map(|index| *index as f64 / fps).collect();
            Part::Shown(Medium::Video(Clip::of(views, times, part["duration"].as_f64().unwrap()).unwrap()))
        };
        self.json["parts"].as_array().unwrap().iter().map(part).collect()
    }

    pub fn prompt(&self, model: &Model) -> ModelPrompt<'_> {
        // Parts borrow from the case alone.
        model.prompt(self.json["system"].as_str(), &self.parts()).unwrap()
    }

    pub fn ids(&self) -> Vec<u32> {
        numbers(&self.json["ids"])
    }
}

pub fn cases(name: &str) -> Vec<Case> {
    let json: Value = serde_json::from_slice(&fs::read(folder(name).join("golden.json")).unwrap()).unwrap();
    let tensors = candle_core::safetensors::load(folder(name).join("golden.safetensors"), &Device::Cpu).unwrap();
    let columns: Vec<usize> = numbers(&json["columns"]);
    let frames = |part: &Value| -> Option<Vec<Picture>> {
        if let Some(image) = part["image"].as_str() {
            return Some(vec![picture(&media(&format!("{image}.png")))]);
        }
        let count = part["indices"].as_array().map(Vec::len);
        let video = media(part["video"].as_str()?);
        Some((0..count.unwrap()).map(|at| picture(&video.join(format!("{at:03}.png")))).collect())
    };
    let case = |input: &Value| Case {
        json: input.clone(),
        tensors: tensors.clone(),
        columns: columns.clone(),
        pictures: input["parts"].as_array().unwrap().iter().filter_map(frames).collect(),
    };
    json["inputs"].as_array().unwrap().iter().map(case).collect()
}

pub fn open(name: &str, compute: Compute, quant: Quant) -> Model {
    let options = LoadOptions { compute, quant, ..LoadOptions::default() };
    Model::load(folder(name).to_str().unwrap(), &options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn look(model: &Model, prompt: &ModelPrompt<'_>) -> Seen {
    model.see(prompt, &mut |_, _| ControlFlow::Continue(())).unwrap().unwrap()
}

/// Gives a sequence a whole prompt, and the logits of all its positions.
fn read(engine: &Engine, sequence: &mut Sequence, prompt: &[Stretch<'_>], chunk: usize) -> Vec<Vec<f32>> {
    let mut logits = Vec::new();
    for stretch in prompt {
        let start = sequence.next_position();
        for first in (0..stretch.length()).step_by(chunk) {
            let rows = first..stretch.length().min(first + chunk);
            let input = match stretch {
                Stretch::Tokens(tokens) => Input::Tokens(&tokens[rows]),
                Stretch::Visual(visual) => Input::Visual { visual, rows, start },
            };
            let step = engine.step(&mut [Chunk { sequence, input, logits: Rows::All }]).unwrap();
            logits.extend(step.of(0).iter().cloned());
        }
    }
    logits
}

fn all_logits(model: &Model, prompt: &ModelPrompt<'_>, seen: &Seen, chunk: usize) -> Vec<Vec<f32>> {
    let mut sequence = model.engine.fork(&Prefix::default(), prompt.tokens.len()).unwrap();
    read(&model.engine, &mut sequence, &prompt.stretches(seen, 0), chunk)
}

fn greedy(model: &Model, prompt: &ModelPrompt<'_>, seen: &Seen, count: usize) -> Vec<u32> {
    let mut sequence = model.engine.fork(&Prefix::default(), prompt.tokens.len() + count).unwrap();
    let mut last = read(&model.engine, &mut sequence, &prompt.stretches(seen, 0), 64).pop().unwrap();
    let mut out = Vec::new();
    for _ in 0..count {
        out.push(argmax(&last));
        last = read(&model.engine, &mut sequence, &[Stretch::Tokens(&out[out.len() - 1..])], 1).pop().unwrap();
    }
    out
}

fn distance(a: &Tensor, b: &Tensor) -> f32 {
    assert_eq!(a.dims(), b.dims());
    (a - b).unwrap().abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar().unwrap()
}

/// How far the logits of all positions, and all logits of the last, are from the reference's.
fn logits_distance(case: &Case, logits: &[Vec<f32>]) -> f32 {
    let chosen: Vec<f32> = logits.iter().flat_map(|row| case.columns.iter().map(|column| row[*column])).collect();
    let chosen = Tensor::from_vec(chosen, (logits.len(), case.columns.len()), &Device::Cpu).unwrap();
    let last = Tensor::new(logits[logits.len() - 1].as_slice(), &Device::Cpu).unwrap();
    distance(&chosen, case.tensor("logits").unwrap()).max(distance(&last, case.tensor("last").unwrap()))
}

/// The positions that the engine gives the rows of a prompt.
fn positions(prompt: &ModelPrompt<'_>, seen: &Seen) -> [Vec<u32>; 3] {
    let mut found: [Vec<u32>; 3] = Default::default();
    let mut next = 0;
    for stretch in prompt.stretches(seen, 0) {
        let own: Vec<[u32; 3]> = match stretch {
            Stretch::Tokens(tokens) => (0..tokens.len() as u32).map(|at| [at; 3]).collect(),
            Stretch::Visual(visual) => visual.positions().to_vec(),
        };
        for axis in 0..3 {
            found[axis].extend(own.iter().map(|position| next + position[axis]));
        }
        next += own.iter().flatten().max().unwrap() + 1;
    }
    found
}

/// The reference's `pixel_values` of all that a prompt shows.
fn pixels(model: &Model, prompt: &ModelPrompt<'_>) -> Option<Tensor> {
    let vision = model.vision.as_ref()?;
    let mut all = Vec::new();
    for Shown { medium, plan, .. } in &prompt.shown {
        let resized = vision.resized(medium, plan);
        all.extend((0..plan.grid[0]).map(|step| vision.pixels(medium, &resized, plan, step).unwrap()));
    }
    (!all.is_empty()).then(|| Tensor::cat(&all, 0).unwrap())
}

fn sha256(tensor: &Tensor) -> String {
    let floats: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
    let bytes: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn agrees(name: &str, what: &str, model: &Model) {
    for case in cases(name) {
        let at = format!("{name} {what} {}", case.name());
        let prompt = case.prompt(model);
        assert_eq!(prompt.tokens, case.ids(), "{at}: prompt ids");
        let mut row = format!("{at}:");
        if let Some(pixels) = pixels(model, &prompt) {
            let shape: Vec<usize> = numbers(&case.json["pixels_shape"]);
            assert_eq!(pixels.elem_count(), shape.iter().product::<usize>(), "{at}: pixels");
            assert_eq!(sha256(&pixels), case.json["pixels_sha256"], "{at}: pixels are not the reference's, to the bit");
            row += " pixels equal,";
        }
        let seen = look(model, &prompt);
        if case.json["positions"].is_array() {
            let expected: Vec<Vec<u32>> = numbers(&case.json["positions"]);
            assert_eq!(positions(&prompt, &seen).to_vec(), expected, "{at}: positions");
        }
        if let Some(tower) = case.tensor("tower") {
            let rows: Vec<&Tensor> = seen.visuals.iter().map(|(_, visual)| visual.rows()).collect();
            let far = distance(&Tensor::cat(&rows, 0).unwrap(), tower);
            row += &format!(" tower within {far:.1e},");
            assert!(far <= CLOSE, "{at}: what leaves the tower differs by {far}");
            for layer in 0.. {
                let Some(deep) = case.tensors.get(&format!("deep.{}.{layer}", case.name())) else { break };
                let rows: Vec<&Tensor> = seen.visuals.iter().map(|(_, visual)| &visual.deep()[layer]).collect();
                let far = distance(&Tensor::cat(&rows, 0).unwrap(), deep);
                row += &format!(" deep {layer} within {far:.1e},");
                assert!(far <= CLOSE, "{at}: deep features {layer} differ by {far}");
            }
        }
        let far = logits_distance(&case, &all_logits(model, &prompt, &seen, usize::MAX));
        println!("{row} logits within {far:.1e}");
        assert!(far <= CLOSE, "{at}: logits differ by {far}");
        let expected: Vec<u32> = numbers(&case.json["greedy"]);
        assert_eq!(greedy(model, &prompt, &seen, expected.len()), expected, "{at}: greedy tokens");
    }
}

#[test]
fn every_architecture_sees_what_transformers_sees() {
    for name in CHECKPOINTS {
        agrees(name, "own kernels", &open(name, Compute::cpu(), Quant::default()));
    }
}

#[test]
fn the_way_of_other_devices_sees_the_same() {
    for name in CHECKPOINTS {
        agrees(name, "candle", &open(name, candle(), Quant::default()));
    }
}

#[test]
fn portable_kernels_see_the_same() {
    let portable = Compute { kernels: Kernels::Own(Level::Portable), ..Compute::cpu() };
    for name in ["smolvlm_b", "qwen2_5_vl_b", "qwen3_vl_b"] {
        agrees(name, "portable kernels", &open(name, portable.clone(), Quant::default()));
    }
}

#[test]
fn where_two_releases_of_transformers_disagree_the_one_is_followed_that_models_were_trained_with() {
    let mut disagreements = 0;
    for name in CHECKPOINTS {
        let model = open(name, Compute::cpu(), Quant::default());
        for case in cases(name) {
            let other = &case.json["disagreement"];
            let prompt = case.prompt(&model);
            let found = positions(&prompt, &look(&model, &prompt)).to_vec();
            for release in ["positions_5", "positions_4_57"].map(|key| &other[key]).into_iter().filter(|p| p.is_array())
            {
                assert_eq!(found, numbers::<Vec<u32>>(&case.json["positions"]));
                disagreements += usize::from(found != numbers::<Vec<u32>>(release));
            }
            if other["ids_5"].is_array() {
                assert_ne!(prompt.tokens, numbers::<u32>(&other["ids_5"]), "{name} {}", case.name());
                disagreements += 1;
            }
            if other["patch_positions_4_57"].is_array() {
                // That the tower takes 0, 1, 2 … is in its rows; here only that it makes a difference.
                assert_ne!(other["patch_positions_4_57"], other["patch_positions"]);
                disagreements += 1;
            }
        }
    }
    assert!(disagreements >= 15, "{disagreements}");
}

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.iter().map(|logit| logit.to_bits()).collect()).collect()
}

#[test]
fn chunks_prefixes_and_neighbours_change_no_bit_of_what_is_seen() {
    for name in ["smolvlm_a", "qwen2_5_vl_a", "qwen3_vl_a"] {
        let model = open(name, Compute::cpu(), Quant::default());
        let cases = cases(name);
        let case = cases.iter().find(|case| case.name() == "video5").unwrap();
        let prompt = case.prompt(&model);
        let seen = look(&model, &prompt);
        let whole = all_logits(&model, &prompt, &seen, usize::MAX);
        for chunk in [1, 7, 64] {
            assert_eq!(bits(&all_logits(&model, &prompt, &seen, chunk)), bits(&whole), "{name}, chunks of {chunk}");
        }
        // Behind a prefix that ends with the last picture, two sequences at once: one goes on, one says something else.
        let end = seen.visuals.last().unwrap().0.end;
        let stretches = prompt.stretches(&seen, 0);
        let last = stretches.iter().rposition(|stretch| matches!(stretch, Stretch::Visual(_))).unwrap();
        let mut sequence = model.engine.fork(&Prefix::default(), prompt.tokens.len()).unwrap();
        read(&model.engine, &mut sequence, &stretches[..=last], 50);
        let prefix = sequence.freeze();
        let rest = &prompt.tokens[end..];
        let [mut one, mut other] = [(); 2].map(|()| model.engine.fork(&prefix, rest.len()).unwrap());
        let step = model.engine.step(&mut [
            Chunk { sequence: &mut other, input: Input::Tokens(&rest[1..]), logits: Rows::None },
            Chunk { sequence: &mut one, input: Input::Tokens(rest), logits: Rows::All },
        ]);
        assert_eq!(bits(step.unwrap().of(1)), bits(&whole[end..]), "{name}");
        // A picture beside a text in one step.
        let mut alone = model.engine.fork(&Prefix::default(), prompt.tokens.len()).unwrap();
        read(&model.engine, &mut alone, &stretches[..last], 50);
        let mut text = model.engine.fork(&Prefix::default(), 8).unwrap();
        let Stretch::Visual(visual) = stretches[last] else { unreachable!() };
        let input = Input::Visual { visual, rows: 0..visual.length(), start: alone.next_position() };
        let step = model.engine.step(&mut [
            Chunk { sequence: &mut text, input: Input::Tokens(&prompt.tokens[..3]), logits: Rows::All },
            Chunk { sequence: &mut alone, input, logits: Rows::All },
        ]);
        let step = step.unwrap();
        assert_eq!(bits(step.of(1)), bits(&whole[end - visual.length()..end]), "{name}");
        assert_eq!(bits(step.of(0)), bits(&whole[..3]), "{name}");
    }
}

/// A copy of a checkpoint whose 32-bit weights are rounded to bfloat16.
fn in_bfloat16(name: &str, workspace: &Workspace) -> PathBuf {
    let copy = workspace.path(name);
    copy_folder(&folder(name), &copy);
    let path = copy.join("model.safetensors");
    let tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    let rounded: HashMap<String, Tensor> =
        tensors.into_iter().map(|(name, tensor)| (name, tensor.to_dtype(DType::BF16).unwrap())).collect();
    candle_core::safetensors::save(&rounded, path).unwrap();
    copy
}

#[test]
fn bfloat16_and_q8_0_stay_near_float32() {
    let workspace = Workspace::new();
    for name in ["smolvlm_a", "qwen2_5_vl_a", "qwen3_vl_a"] {
        let load = |folder: &Path, quant: Quant| {
            Model::load(folder.to_str().unwrap(), &LoadOptions { quant, ..LoadOptions::default() }).unwrap()
        };
        // The root mean square of all differences, as a share of that of the logits themselves.
        let far = |model: &Model| {
            let (mut apart, mut all) = (0.0, 0.0);
            for case in cases(name) {
                let prompt = case.prompt(model);
                let logits = all_logits(model, &prompt, &look(model, &prompt), usize::MAX);
                let expected = case.tensor("logits").unwrap().to_vec2::<f32>().unwrap();
                for (row, expected) in logits.iter().zip(&expected) {
                    for (column, expected) in case.columns.iter().zip(expected) {
                        apart += f64::from(row[*column] - expected).powi(2);
                        all += f64::from(*expected).powi(2);
                    }
                }
            }
            (apart / all).sqrt()
        };
        let q8_0 = Some(GgmlDType::Q8_0);
        let rounded = far(&load(&in_bfloat16(name, &workspace), Quant::default()));
        let layers = far(&load(&folder(name), Quant { layers: q8_0, ..Quant::default() }));
        let all = far(&load(&folder(name), Quant { layers: q8_0, head: q8_0, tower: q8_0 }));
        println!(
            "{name}: logits {rounded:.4} apart in bfloat16, {layers:.4} with layers in q8_0, {all:.4} with all in it"
        );
        // Random weights without any redundancy are the hardest case there is.
        assert!((1e-4..0.05).contains(&rounded) && (1e-4..0.05).contains(&all) && layers < 0.05, "{name}");
    }
}

/// What `tests/reference/vision_sizes.py` wrote.
fn sizes() -> Value {
    serde_json::from_slice(&fs::read(media("sizes.json")).unwrap()).unwrap()
}

#[test]
fn pictures_and_videos_of_any_size_are_brought_to_that_of_the_reference() {
    let expected = |size: &Value| size.as_array().map(|_| <(usize, usize)>::deserialize(size).unwrap());
    let budget =
        |least: &u64, most: &u64| Budget { least: *least as usize, most: *most as usize, cap: None, wanted: None };
    for row in sizes()["pictures"].as_array().unwrap() {
        let [width, height, square, least, most] = &numbers::<u64>(&row.as_array().unwrap()[..5].into())[..] else {
            panic!("{row}")
        };
        let found = budget(least, most).of_picture(*width as usize, *height as usize, *square as usize);
        assert_eq!(found.ok(), expected(&row[5]), "{row}");
    }
    for row in sizes()["videos"].as_array().unwrap() {
        let [width, height, count, square, least, most] = &numbers::<u64>(&row.as_array().unwrap()[..6].into())[..]
        else {
            panic!("{row}")
        };
        let [width, height, count, square] = [width, height, count, square].map(|number| *number as usize);
        let found = budget(least, most).of_video(width, height, count, square, 2);
        assert_eq!(found.ok(), expected(&row[6]), "{row}");
    }
}

#[test]
fn smolvlm_cuts_pictures_and_counts_frames_as_the_reference() {
    let model = open("smolvlm_a", Compute::cpu(), Quant::default());
    let vision = model.vision.as_ref().unwrap();
    for row in sizes()["cut"].as_array().unwrap() {
        let row: Vec<usize> = numbers(row);
        let rgb = vec![0; row[0] * row[1] * 3];
        let plan = vision.plan(&Medium::Image(View::new(row[0], row[1], &rgb).unwrap())).unwrap();
        assert_eq!(plan.grid, [row[4], row[2], row[3]], "{row:?}");
    }
    let pixel = [0; 3];
    let layout = |count: usize, time: f64, duration: f64| {
        let views = vec![View::new(1, 1, &pixel).unwrap(); count];
        let clip = Clip::of(views, vec![time; count], duration).unwrap();
        vision.plan(&Medium::Video(clip)).unwrap().layout
    };
    let all = sizes();
    for (count, words) in all["numbers"].as_object().unwrap() {
        let text = layout(count.parse().unwrap(), 0.0, 1.0);
        let words = format!("series of {} frames from a 0:00:01 [H:MM:SS]", words.as_str().unwrap());
        assert!(text.contains(&words), "{words}: {}", &text[..120]);
    }
    for row in all["durations"].as_array().unwrap() {
        let text = layout(1, 0.0, row[0].as_f64().unwrap());
        assert!(text.contains(&format!("from a {} [H:MM:SS]", row[1].as_str().unwrap())), "{row}: {text}");
    }
    for row in all["moments"].as_array().unwrap() {
        let text = layout(1, row[0].as_f64().unwrap(), 0.0);
        assert!(text.contains(&format!("\nFrame from {}:<fake", row[1].as_str().unwrap())), "{row}: {text}");
    }
}

#[test]
fn a_video_begins_with_its_first_frame_and_one_frame_is_a_video() {
    let frame =
        |index: u64, time: f64| Frame { index: FrameIndex(index), time, width: 40, height: 30, rgb: vec![9; 3600] };
    let frames = |frames: Vec<Frame>| Frames { frames, total: 60, duration: 2.0, faults: Vec::new() };
    let late = frames(vec![frame(0, 7.5), frame(30, 8.5)]);
    assert_eq!(Clip::new(&late).unwrap().times(), [0.0, 1.0]);
    let one = frames(vec![frame(0, 7.5)]);
    let two = frames(vec![frame(0, 7.5), frame(0, 7.5)]);
    for name in ["qwen2_5_vl_a", "qwen3_vl_a", "smolvlm_a"] {
        let model = open(name, Compute::cpu(), Quant::default());
        let vision = model.vision.as_ref().unwrap();
        let plan = |frames: &Frames| vision.plan(&Medium::Video(Clip::new(frames).unwrap())).unwrap();
        // Qwen's steps have two frames, and one alone stands twice in its step.
        let same = plan(&one).sizes == plan(&two).sizes && plan(&one).rows() == plan(&two).rows();
        assert!(same || name == "smolvlm_a", "{name}");
        assert!(plan(&one).rows() > 0);
    }
    assert!(Clip::new(&frames(Vec::new())).unwrap_err().contains("no frames"));
}

#[test]
fn a_model_that_sees_is_found_in_the_hugging_face_cache() {
    let workspace = Workspace::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    copy_folder(&folder("qwen3_vl_b"), &workspace.path(&format!("hub/models--org--eyes/snapshots/{commit}")));
    workspace.write("hub/models--org--eyes/refs/main", commit);
    let image = media("image_a.png");
    let mut command =
        workspace.command("generate --model org/eyes --max-tokens 1 --no-frame-cache --json --text What?");
    let command = command.env("HF_HOME", workspace.path("")).env_remove("HF_HUB_CACHE").arg("--image").arg(image);
    let found = Ran::from(command.output().unwrap()).exits(0);
    assert!(found.stdout.contains("\"shown\":[{\"kind\":\"image\""), "{}", found.stdout);
}
