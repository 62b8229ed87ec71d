//! Models that see, by the verbs that load one: `generate` against the reference, whole runs over videos, and what is
//! refused and why.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::models::folder;
use crate::vision::cases;
use crate::workspace::{Ran, Workspace, copy_folder};

fn media(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Runs `generate` with a text that has spaces in it.
fn generate(workspace: &Workspace, model: &str, flags: &[&str], text: &str) -> Ran {
    let model = folder(model);
    let mut command = workspace.command("generate --json --no-frame-cache --max-tokens 32 --ignore-end");
    command.arg("--model").arg(model).args(flags).arg("--text").arg(text);
    Ran::from(command.output().unwrap())
}

fn json(ran: Ran) -> Value {
    serde_json::from_str(&ran.exits(0).stdout).unwrap()
}

#[test]
fn generate_prints_the_ids_logits_and_tokens_of_the_reference() {
    let workspace = Workspace::new();
    let (a, b) = (media("vision/image_a.png"), media("vision/image_b.png"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    for model in ["smolvlm_a", "idefics3_a", "qwen2_5_vl_b", "qwen3_vl_a"] {
        for case in cases(model) {
            let texts: Vec<&str> =
                case.json["parts"].as_array().unwrap().iter().filter_map(|part| part["text"].as_str()).collect();
            let found = match case.name() {
                "image" => generate(&workspace, model, &["--image", a], texts[0]),
                "images" => {
                    let text = format!("{{image}}{}{{image}}{}", texts[0], texts[1]);
                    generate(&workspace, model, &["--image", a, "--image", b], &text)
                }
                "text" => generate(&workspace, model, &[], texts[0]),
                _ => continue,
            };
            let found = json(found);
            assert_eq!(found["prompt_ids"], case.json["ids"], "{model} {}", case.name());
            assert_eq!(found["ids"], case.json["greedy"], "{model} {}", case.name());
            assert_eq!(found["top"].as_array().unwrap().len(), 20);
            assert_eq!(found["top"][0][0], case.json["greedy"][0]);
            if case.name() == "images" {
                assert_eq!(found["shown"].as_array().unwrap().len(), 2);
                assert!(found["timings"]["tower_seconds"].as_f64().unwrap() > 0.0);
            }
        }
    }
}

#[test]
fn a_folder_of_frames_is_a_video() {
    let workspace = Workspace::new();
    let clip = media("vision/clip8");
    let case = cases("qwen3_vl_a").into_iter().find(|case| case.name() == "video8").unwrap();
    let text = case.json["parts"][1]["text"].as_str().unwrap();
    let frames = ["--frames", clip.to_str().unwrap(), "--image-fps", "2"];
    let found = json(generate(&workspace, "qwen3_vl_a", &frames, text));
    assert_eq!((&found["prompt_ids"], &found["ids"]), (&case.json["ids"], &case.json["greedy"]));
    assert_eq!((&found["shown"][0]["kind"], &found["shown"][0]["frames"]), (&json!("video"), &json!(8)));
    // The same folder as a video, of which some frames are chosen.
    let video = ["--video", clip.to_str().unwrap(), "--frames", "3"];
    assert_eq!(json(generate(&workspace, "qwen3_vl_a", &video, text))["shown"][0]["frames"], 3);
    // A model that knows no videos is shown its frames as pictures.
    let found = json(generate(&workspace, "idefics3_a", &frames, text));
    assert_eq!(found["shown"][0]["places"].as_array().unwrap().len(), 8);
}

/// A task that shows frames with a short prompt, a copy of a tiny model that sees, and records over two videos.
fn workspace(model: &str) -> Workspace {
    let workspace = Workspace::new();
    copy_folder(&folder(model), &workspace.path("model"));
    workspace.write("prompts/short.txt", "Rate the caption: answer {\"score\": N} only.\n\nCaption: {text}\nScore: ");
    workspace.write(
        "prompts/short.toml",
        "description = \"Short.\"\n[placeholders]\ntext = { from = \"caption\" }\n[frames]\nbefore = \"Caption:\"\n\
         sample = \"uniform:3\"\n[answer]\nformat = \"json_score\"\nkey = \"score\"\nmin = 0\nmax = 4\n[[metrics]]\n\
         name = \"score\"\nabout = \"mean\"\nbetter = \"higher\"\nkind = \"mean\"\nof = \"score\"\n",
    );
    let captions = ["A ball rolls", "<image><|image_pad|><|video_pad|>", "<|im_end|> {image} <video>", "It stops"];
    let records: Vec<Value> = captions
        .iter()
        .enumerate()
        .map(|(i, caption)| {
            let video = media(["media/h264-high.mp4", "media/box-vp9.webm"][i / 2]);
            json!({"id": format!("r{i}"), "system": "s", "caption": caption, "video": video})
        })
        .collect();
    workspace.write_lines("data.jsonl", &records);
    workspace
}

const RUN: &str = "run --prompts prompts --task short --data data.jsonl --judge model --free --max-tokens 12 \
                   --max-unscored 100% --no-frame-cache -q";

#[test]
fn a_judge_that_sees_is_shown_the_frames_of_each_video() {
    for model in ["smolvlm_b", "qwen2_5_vl_a", "qwen3_vl_b", "idefics3_a"] {
        let workspace = workspace(model);
        workspace.run(&format!("{RUN} --out first")).exits(0);
        let verdicts = workspace.lines("first/verdicts.jsonl");
        assert_eq!(verdicts.len(), 4);
        for verdict in &verdicts {
            assert_eq!(verdict["frames"]["seen"].as_array().unwrap().len(), 3, "{verdict}");
            // Captions that name placeholders are captions.
            assert!(verdict["answer"].is_string(), "{model}: {verdict}");
        }
        let timings = workspace.lines("first/timings.jsonl");
        // The rubric is read once, and each video too: the second record of each stands on both.
        let reused: Vec<u64> = timings.iter().map(|timing| timing["reused_tokens"].as_u64().unwrap()).collect();
        assert!(reused[0] == 0 && reused[2] > 10, "{reused:?}");
        assert!(reused[1] > reused[2] && reused[3] > reused[2], "{reused:?}");
        let looked: Vec<bool> = timings.iter().map(|timing| timing["vision_seconds"].is_number()).collect();
        assert_eq!(looked, [true, false, true, false]);
        // The same bytes without a shared beginning, and on one thread.
        workspace.run(&format!("{RUN} --out whole --no-reuse --threads 1")).exits(0);
        assert_eq!(workspace.read("whole/verdicts.jsonl"), workspace.read("first/verdicts.jsonl"), "{model}");
        let timings = workspace.lines("whole/timings.jsonl");
        assert!(timings.iter().all(|timing| timing["vision_seconds"].as_f64().unwrap() > 0.0));
    }
}

/// Five systems' captions of two videos, as data sets have them: sorted by system.
fn sorted_by_system(model: &str) -> Workspace {
    let workspace = workspace(model);
    let record = |system: usize, video: usize| {
        let path = media(["media/h264-high.mp4", "media/box-vp9.webm"][video]);
        let caption = ["A ball rolls", "It stops and goes on", "Two boxes"][(system + video) % 3];
        json!({"id": format!("{system}-{video}"), "system": format!("s{system}"), "caption": caption, "video": path})
    };
    let mut records: Vec<Value> = (0..5).flat_map(|system| [record(system, 0), record(system, 1)]).collect();
    // One that has no frames to show, and one that is no valid record, between them.
    records.insert(3, json!({"id": "gone", "system": "s1", "caption": "A", "video": "gone.mp4"}));
    records.insert(6, json!({"id": "none", "system": "s2", "caption": "A"}));
    workspace.write_lines("data.jsonl", &records);
    workspace
}

fn ids(workspace: &Workspace, out: &str) -> Vec<String> {
    workspace.lines(out).iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_records_of_a_video_are_judged_one_after_another() {
    let workspace = sorted_by_system("qwen2_5_vl_a");
    workspace.run(&format!("{RUN} --out first")).exits(0);
    let order = ["0-0", "1-0", "2-0", "3-0", "4-0", "0-1", "1-1", "2-1", "3-1", "4-1", "gone", "none"];
    assert_eq!(ids(&workspace, "first/verdicts.jsonl"), order);
    assert_eq!(ids(&workspace, "first/timings.jsonl"), order);
    let looked = |out: &str| {
        let timings = workspace.lines(out);
        timings.iter().filter(|timing| timing["vision_seconds"].is_number()).count()
    };
    assert_eq!(looked("first/timings.jsonl"), 2, "each video once");
    // The same order and bytes without reuse, with nothing kept, at every batch, and with guesses or not.
    for (out, flags) in [
        ("a", "--no-reuse"),
        ("b", "--reuse-memory 0"),
        ("c", "--batch 1"),
        ("d", "--batch 2 --no-speculation"),
        ("e", "--batch 4 --threads 1"),
        ("f", "--batch 8 --no-reuse --no-speculation"),
        ("g", "--batch 3 --reuse-memory 0"),
        ("h", "--batch 1 --reuse-memory 0"),
    ] {
        workspace.run(&format!("{RUN} --out {out} {flags}")).exits(0);
        let name = format!("{out}/verdicts.jsonl");
        assert_eq!(workspace.read(&name), workspace.read("first/verdicts.jsonl"), "{flags}");
        let summary = format!("{out}/summary.json");
        assert_eq!(workspace.read(&summary), workspace.read("first/summary.json"), "{flags}");
    }
    // Without reuse each record is looked at. With nothing kept, those share what is under way at the same time.
    assert_eq!(looked("a/timings.jsonl"), 10);
    assert_eq!(looked("c/timings.jsonl"), 2);
    assert!((2..10).contains(&looked("b/timings.jsonl")));
    assert_eq!(looked("h/timings.jsonl"), 10);
    // Recorded answers need no videos, and keep the order of the data.
    let scripted = RUN.replace("--judge model --free --max-tokens 12", "--judge scripted:first/verdicts.jsonl");
    workspace.run(&format!("{} --out again", scripted.replace("--no-frame-cache", ""))).exits(0);
    assert_eq!(ids(&workspace, "again/verdicts.jsonl")[..4], ["0-0", "0-1", "1-0", "gone"]);
}

#[test]
fn a_run_by_videos_goes_on_where_it_was_cut_and_notices_changed_data() {
    let workspace = sorted_by_system("smolvlm_b");
    workspace.run(&format!("{RUN} --out whole")).exits(0);
    let whole = workspace.read("whole/verdicts.jsonl");
    for lines in [0, 1, 4, 7, 11] {
        let cut: String = whole.split_inclusive('\n').take(lines).collect();
        let torn = whole.lines().nth(lines).unwrap();
        workspace.write("cut/run.json", &workspace.read("whole/run.json"));
        workspace.write("cut/verdicts.jsonl", &format!("{cut}{}", &torn[..torn.len() / 2]));
        workspace.run(&format!("{RUN} --out cut --batch {}", lines + 1)).exits(0);
        assert_eq!(workspace.read("cut/verdicts.jsonl"), whole, "cut behind {lines}");
        assert_eq!(workspace.read("cut/summary.json"), workspace.read("whole/summary.json"));
    }
    // What came out unscored is tried again in the same order, whatever the batch.
    for (out, batch) in [("cut", 1), ("whole", 8)] {
        workspace.run(&format!("{RUN} --out {out} --batch {batch} --retry-unscored")).exits(0);
    }
    assert!(workspace.lines("whole/verdicts.jsonl").len() > 12);
    assert_eq!(workspace.read("cut/verdicts.jsonl"), workspace.read("whole/verdicts.jsonl"));
    let data = workspace.read("data.jsonl");
    workspace.write("data.jsonl", &data.replacen("Two boxes", "Two foxes", 1));
    workspace.run(&format!("{RUN} --out whole")).exits(2).says("another data set (data_sha256)");
}

#[test]
fn what_is_kept_of_one_video_is_never_used_for_another() {
    for model in ["smolvlm_b", "qwen3_vl_b", "qwen2_5_vl_b"] {
        let workspace = workspace(model);
        // The same bytes in two shapes: a digest of pixels alone could not tell them apart.
        for (folder, width, height) in [("wide", 64, 32), ("high", 32, 64)] {
            for frame in 0..3u8 {
                let path = workspace.write(&format!("{folder}/{frame}.png"), "");
                image::RgbImage::from_pixel(width, height, image::Rgb([40 * frame; 3])).save(path).unwrap();
            }
        }
        let record = |i: usize| {
            let video = ["wide", "high"][i % 2];
            json!({"id": format!("r{i}"), "system": "s", "caption": "A box", "video": video})
        };
        workspace.write_lines("data.jsonl", &(0..4).map(record).collect::<Vec<_>>());
        workspace.run(&format!("{RUN} --out kept")).exits(0);
        workspace.run(&format!("{RUN} --out whole --no-reuse --batch 1")).exits(0);
        assert_eq!(workspace.read("kept/verdicts.jsonl"), workspace.read("whole/verdicts.jsonl"), "{model}");
        let verdicts = workspace.lines("kept/verdicts.jsonl");
        assert_eq!(verdicts[0]["frames"]["sha256"], verdicts[2]["frames"]["sha256"]);
        let looked = workspace.lines("kept/timings.jsonl");
        assert_eq!(looked.iter().filter(|timing| timing["vision_seconds"].is_number()).count(), 2, "{model}");
    }
}

#[test]
fn data_that_changes_while_it_is_judged_by_videos_ends_the_run() {
    let workspace = sorted_by_system("qwen3_vl_a");
    let some = workspace.read("data.jsonl");
    // Enough to be under way for a while.
    let more: String = (0..40).map(|i| some.replace("\"id\":\"", &format!("\"id\":\"{i}-"))).collect();
    workspace.write("data.jsonl", &more);
    let run = workspace.start(&format!("{RUN} --out out"));
    while fs::read_to_string(workspace.path("out/verdicts.jsonl")).unwrap_or_default().lines().count() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    workspace.write("data.jsonl", &more.replace("Two boxes", "Two foxes"));
    Ran::from(run.wait_with_output().unwrap()).exits(1).says("the file was changed while it was being judged");
    let judged = workspace.lines("out/verdicts.jsonl").len();
    assert!(judged < 40 * 12, "{judged}");
}

#[test]
fn what_is_shown_decides_the_answer() {
    // On random weights a score means nothing, but other frames have to give other logits.
    let workspace = Workspace::new();
    let top = |clip: &str| {
        let clip = media(clip);
        let found = generate(&workspace, "qwen2_5_vl_a", &["--frames", clip.to_str().unwrap()], "What happens?");
        json(found)["top"].clone()
    };
    assert_ne!(top("vision/clip8"), top("vision/clip5"));
}

#[test]
fn settings_of_the_eyes_are_part_of_a_run() {
    let workspace = workspace("qwen2_5_vl_a");
    workspace.run(&format!("{RUN} --out first")).exits(0);
    workspace.run(&format!("{RUN} --out first --frame-pixels 400")).exits(2).says("(frame_pixels)");
    workspace.run(&format!("{RUN} --out first --quant-tower q8_0")).exits(2).says("(quant_tower)");
    let path = workspace.path("model/processor_config.json");
    let text = fs::read_to_string(&path).unwrap().replacen("0.5", "0.25", 1) + " ";
    fs::write(&path, text).unwrap();
    workspace.run(&format!("{RUN} --out first")).exits(2).says("another judge (judge_sha256)");
}

#[test]
fn fewer_pixels_are_fewer_rows() {
    let workspace = Workspace::new();
    let image = media("vision/image_a.png");
    let rows = |flags: &[&str]| {
        let flags = [&["--image", image.to_str().unwrap()], flags].concat();
        json(generate(&workspace, "qwen3_vl_a", &flags, "What?"))["shown"][0]["rows"].as_u64().unwrap()
    };
    let (own, few) = (rows(&[]), rows(&["--frame-pixels", "600"]));
    assert!(few < own, "{few} and {own}");
    generate(&workspace, "smolvlm_a", &["--frame-pixels", "600"], "What?")
        .exits(2)
        .says("--frame-pixels is for models");
    generate(&workspace, "llama_a", &["--frame-pixels", "600"], "What?").exits(2).says("this one reads text only");
    generate(&workspace, "qwen3_vl_a", &["--frame-pixels", "0"], "What?").exits(2).says("--frame-pixels 0");
}

/// A PNG that claims a size, with no pixels behind it.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    header.extend([8, 2, 0, 0, 0]);
    let crc = header.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    });
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
    bytes.extend(header);
    bytes.extend((!crc).to_be_bytes());
    bytes.extend(b"\0\0\x10\0IDAT");
    bytes.extend([0; 64]);
    bytes
}

#[test]
fn pictures_that_cannot_be_shown_are_refused_with_the_limit_or_the_remedy() {
    let workspace = Workspace::new();
    let show = |flags: &[&str], text: &str| generate(&workspace, "qwen2_5_vl_a", flags, text);
    for (name, bytes, message) in [
        ("huge.png", png_of(65_000, 65_000), "--max-pixels"),
        ("none.png", png_of(0, 0), "none.png"),
        ("cut.png", fs::read(media("vision/image_a.png")).unwrap()[..400].to_vec(), "cut.png"),
        ("text.png", b"this is no picture".to_vec(), "text.png"),
    ] {
        let path = workspace.path(name);
        fs::write(&path, bytes).unwrap();
        show(&["--image", path.to_str().unwrap()], "What?").exits(2).says(message);
    }
    show(&["--image", "missing.png"], "What?").exits(1).says("missing.png");
    // One side more than 200 times the other.
    image::RgbImage::new(201 * 8, 8).save(workspace.path("line.png")).unwrap();
    let line = workspace.path("line.png");
    show(&["--image", line.to_str().unwrap()], "What?").exits(2).says("more than 200 times the other");
    // Frames of two sizes.
    fs::create_dir(workspace.path("mixed")).unwrap();
    fs::copy(media("vision/image_a.png"), workspace.path("mixed/1.png")).unwrap();
    fs::copy(media("vision/image_b.png"), workspace.path("mixed/2.png")).unwrap();
    let mixed = workspace.path("mixed");
    show(&["--frames", mixed.to_str().unwrap()], "What?").exits(2).says("not of one size");
    // A placeholder in the text stands for no picture.
    show(&[], "What is <|image_pad|>?").exits(2).says("stands for a picture, where no picture is");
    let image = media("vision/image_a.png");
    show(&["--image", image.to_str().unwrap()], "And <|video_pad|>?").exits(2).says("where no picture is");
    generate(&workspace, "qwen2_a", &["--image", image.to_str().unwrap()], "What?")
        .exits(2)
        .says("name a vision-language model");
    // Words that name pictures name each once, and a picture is one.
    show(&["--image", image.to_str().unwrap()], "Is {image} like {image}?").exits(2).says("has {image} 2 times, and 1");
    show(&["--image", image.to_str().unwrap()], "Is it in {video}?").exits(2).says("{image} 0 times, and 1");
    let clip = media("vision/clip8");
    show(&["--image", clip.to_str().unwrap()], "What?").exits(2).says("has 8 pictures; show it with --video");
    let system = ["--image", image.to_str().unwrap(), "--system", "See <|image_pad|>"];
    show(&system, "What?").exits(2).says("the system message has <|image_pad|>");
    image::RgbImage::new(70_000, 400).save(workspace.path("wide.png")).unwrap();
    let wide = workspace.path("wide.png");
    show(&["--image", wide.to_str().unwrap()], "What?").exits(2).says("no side may be longer than 65535");
    let both = ["--video", clip.to_str().unwrap(), "--frames", clip.to_str().unwrap()];
    show(&both, "What?").exits(2).says("are two videos");
}

#[test]
fn more_frames_than_the_context_holds_are_refused_before_any_is_looked_at() {
    let workspace = workspace("qwen3_vl_b");
    edit(&workspace, "config.json", |config| config["text_config"]["max_position_embeddings"] = 60.into());
    let clip = media("vision/clip8");
    let mut command = workspace.command("generate --model model --no-frame-cache --text What? --frames");
    Ran::from(command.arg(&clip).output().unwrap()).exits(2).says("show fewer frames (--frames N)");
    // In a run it is the record that is not scored, and not the end.
    workspace.run(&format!("{RUN} --out first")).exits(0);
    for verdict in workspace.lines("first/verdicts.jsonl") {
        assert_eq!(verdict["outcome"]["reason"], "judge_failed", "{verdict}");
    }
}

/// Changes a JSON file of the model.
fn edit(workspace: &Workspace, name: &str, change: impl Fn(&mut Value)) {
    let path = workspace.path("model").join(name);
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, value.to_string()).unwrap();
}

#[test]
fn a_description_of_eyes_that_cannot_be_is_refused_by_name() {
    type Change = fn(&mut Value);
    let cases: [(&str, &str, Change, &str); 37] = [
        (
            "qwen2_5_vl_a",
            "config.json",
            |c| c["vision_config"]["tokens_per_second"] = (1u64 << 31).into(),
            "`tokens_per_second`",
        ),
        (
            "qwen2_5_vl_a",
            "config.json",
            |c| c["vision_config"]["tokens_per_second"] = (-3).into(),
            "`tokens_per_second`",
        ),
        (
            "qwen2_5_vl_b",
            "preprocessor_config.json",
            |c| {
                c["size"] = json!({});
                c["min_pixels"] = Value::Null
            },
            "`size` has no",
        ),
        (
            "qwen3_vl_b",
            "video_preprocessor_config.json",
            |c| c["size"] = json!({"height": 9, "width": 9}),
            "`size` has no",
        ),
        (
            "qwen3_vl_b",
            "preprocessor_config.json",
            |c| c["size"]["longest_edge"] = 0.into(),
            "`size.longest_edge` is 0",
        ),
        ("qwen3_vl_b", "preprocessor_config.json", |c| c["image_mean"] = Value::Null, "`image_mean` is null"),
        (
            "qwen3_vl_b",
            "preprocessor_config.json",
            |c| c["image_std"] = json!([0.0, 1.0, 1.0]),
            "`image_mean` with `image_std`",
        ),
        (
            "qwen3_vl_b",
            "preprocessor_config.json",
            |c| c["image_mean"] = json!([1e308, 0.5, 0.5]),
            "`image_mean` with `image_std`",
        ),
        (
            "qwen3_vl_a",
            "config.json",
            |c| c["vision_config"]["deepstack_visual_indexes"] = json!([0, 0]),
            "a layer twice",
        ),
        (
            "qwen3_vl_a",
            "config.json",
            |c| c["vision_config"]["rope_parameters"] = json!({"rope_type": "linear"}),
            "`rope_type`",
        ),
        (
            "smolvlm_b",
            "preprocessor_config.json",
            |c| c["max_image_size"] = json!({}),
            "`max_image_size` has no `longest_edge`",
        ),
        ("smolvlm_b", "config.json", |c| c["vision_config"]["layer_norm_eps"] = 1e300.into(), "`layer_norm_eps`"),
        ("idefics3_a", "config.json", |c| c["tie_word_embeddings"] = true.into(), "is another table than"),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["hidden_size"] = 64.into(), "asks for [64, "),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["num_heads"] = 7.into(), "7 heads cannot share"),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["num_heads"] = 0.into(), "0 heads cannot share"),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["depth"] = 99.into(), "is missing"),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["depth"] = 1.into(), "is no part of the architecture"),
        (
            "qwen2_5_vl_a",
            "config.json",
            |c| c["vision_config"]["depth"] = (1u64 << 60).into(),
            "depth 1152921504606846976",
        ),
        (
            "qwen2_5_vl_a",
            "config.json",
            |c| c["vision_config"]["patch_size"] = 0.into(),
            "pictures cannot be cut by patch_size 0",
        ),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["window_size"] = 1.into(), "`window_size`"),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"]["out_hidden_size"] = 8.into(), "out_hidden_size 8"),
        ("qwen2_5_vl_a", "config.json", |c| c["vision_config"] = "x".into(), "`vision_config` is not an object"),
        ("qwen2_5_vl_a", "config.json", |c| c["image_token_id"] = 5.into(), "is token 5 for config.json"),
        (
            "qwen3_vl_a",
            "config.json",
            |c| c["vision_config"]["deepstack_visual_indexes"] = json!([40]),
            "or layers beyond",
        ),
        ("qwen3_vl_a", "config.json", |c| c["vision_config"]["num_position_embeddings"] = 7.into(), "asks for [7, "),
        ("qwen3_vl_a", "config.json", |c| c["vision_config"]["hidden_act"] = "relu".into(), "`relu` is not supported"),
        (
            "qwen3_vl_b",
            "config.json",
            |c| c["text_config"]["rope_scaling"]["mrope_section"] = json!([1, 1, 1]),
            "is 3 pairs in all",
        ),
        (
            "qwen3_vl_b",
            "config.json",
            |c| c["text_config"]["rope_scaling"]["mrope_section"] = json!([1, 1]),
            "`mrope_section` is not three",
        ),
        (
            "qwen3_vl_b",
            "preprocessor_config.json",
            |c| c["patch_size"] = 9.into(),
            "`patch_size` is 9, but config.json says",
        ),
        (
            "qwen3_vl_b",
            "preprocessor_config.json",
            |c| c["image_mean"] = json!([0.5]),
            "`image_mean` is not a list of three",
        ),
        ("qwen3_vl_b", "preprocessor_config.json", |c| c["do_resize"] = false.into(), "`do_resize` is false"),
        ("qwen3_vl_b", "preprocessor_config.json", |c| c["resample"] = 0.into(), "`resample` is 0"),
        ("smolvlm_b", "config.json", |c| c["scale_factor"] = 5.into(), "asks for"),
        (
            "smolvlm_b",
            "config.json",
            |c| c["vision_config"]["image_size"] = (1u64 << 40).into(),
            "image_size 1099511627776",
        ),
        (
            "smolvlm_b",
            "preprocessor_config.json",
            |c| c["max_image_size"] = json!({"longest_edge": 1}),
            "do not fit a tower",
        ),
        ("smolvlm_b", "processor_config.json", |c| c["image_seq_len"] = 1000.into(), "`image_seq_len` is 1000"),
    ];
    for (model, file, change, message) in cases {
        let workspace = workspace(model);
        edit(&workspace, file, change);
        workspace.run("generate --model model --text hello").exits(4).says(message);
    }
}

#[test]
fn what_a_file_leaves_empty_is_read_as_the_reference_reads_it() {
    // `null` is no, and not the default.
    let workspace = workspace("smolvlm_b");
    let image = media("vision/image_a.png");
    let top = |value: Option<Value>| {
        copy_folder(&folder("smolvlm_b"), &workspace.path("model"));
        if let Some(value) = value {
            edit(&workspace, "preprocessor_config.json", |c| c["do_normalize"] = value.clone());
        }
        let mut command =
            workspace.command("generate --model model --json --no-frame-cache --max-tokens 1 --text hi --image");
        json(Ran::from(command.arg(&image).output().unwrap()))["top"].clone()
    };
    assert_eq!(top(Some(Value::Null)), top(Some(false.into())));
    assert_ne!(top(Some(Value::Null)), top(None));
    // The budget of a picture is none for a video of Qwen3-VL.
    let workspace = self::workspace("qwen3_vl_b");
    fs::remove_file(workspace.path("model/video_preprocessor_config.json")).unwrap();
    workspace.run("generate --model model --text hello").exits(4).says("video_preprocessor_config.json");
}

#[test]
fn a_template_that_cannot_show_a_video_is_refused_before_anything_is_judged() {
    let workspace = workspace("qwen2_5_vl_a");
    let text = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}";
    workspace.write("texts.jinja", text);
    workspace
        .run(&format!("{RUN} --out first --chat-template texts.jinja"))
        .exits(4)
        .says("texts.jinja")
        .says("once each and in order");
    assert!(!workspace.path("first/verdicts.jsonl").exists());
}

#[test]
fn eyes_without_their_files_are_refused_by_name() {
    for file in ["preprocessor_config.json", "tokenizer.json", "config.json", "model.safetensors"] {
        let workspace = workspace("smolvlm_b");
        fs::remove_file(workspace.path("model").join(file)).unwrap();
        workspace.run("generate --model model --text hello").exits(4).says("model");
    }
    let workspace = workspace("smolvlm_b");
    let path = workspace.path("model/model.safetensors");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    workspace.run("generate --model model --text hello").exits(4).says("cut off or damaged");
    // A tensor more, and one of a type that nobody multiplies with.
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let text = String::from_utf8(whole[8..8 + header].to_vec()).unwrap();
    let rename = |from: &str, to: &str, message: &str| {
        assert_eq!(from.len(), to.len());
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        fs::write(&path, [&whole[..8], changed.as_bytes(), &whole[8 + header..]].concat()).unwrap();
        workspace.run("generate --model model --text hello").exits(4).says(message);
    };
    rename(
        "model.vision_model.post_layernorm.bias",
        "model.vision_model.post_layernorm.bios",
        "post_layernorm.bias` is missing",
    );
    rename("\"BF16\"", "\"I16\" ", "has the type I16");
}
