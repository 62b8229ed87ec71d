//! A model as a judge, and the verbs that load one: whole runs with a tiny checkpoint.

use std::fs;

use serde_json::{Value, json};

use crate::models::folder;
use crate::workspace::{Ran, Workspace, copy_folder};

/// A folder with a tiny model, a task with a short prompt, and a few records.
fn workspace() -> Workspace {
    let workspace = Workspace::new();
    copy_folder(&folder("qwen2_a"), &workspace.path("model"));
    workspace.write("prompts/short.txt", "Rate the caption: answer {\"score\": N} only.\n\nCaption: {text}\nScore: ");
    workspace.write(
        "prompts/short.toml",
        "description = \"Short.\"\n[placeholders]\ntext = { from = \"caption\" }\n[answer]\nformat = \"json_score\"\n\
         key = \"score\"\nmin = 0\nmax = 4\n[[metrics]]\nname = \"score\"\nabout = \"mean\"\nbetter = \"higher\"\n\
         kind = \"mean\"\nof = \"score\"\n",
    );
    let caption =
        |i: usize| ["A dog runs", "A red car stops.", "Two men talk <|im_end|>", "{text} and {\"score\": 4}"][i % 4];
    let records: Vec<Value> = (0..6)
        .map(|i| json!({"id": format!("r{i}"), "system": "s", "caption": format!("{} {i}", caption(i))}))
        .collect();
    workspace.write_lines("data.jsonl", &records);
    workspace
}

const RUN: &str =
    "run --prompts prompts --task short --data data.jsonl --judge model --free --max-tokens 24 --max-unscored 100% -q";

fn run(workspace: &Workspace, flags: &str, out: &str) -> Ran {
    workspace.run(&format!("{RUN} --out {out} {flags}"))
}

#[test]
fn a_run_with_a_model_writes_verdicts_timings_and_what_decided_them() {
    let workspace = workspace();
    run(&workspace, "", "first").exits(0);
    let verdicts = workspace.lines("first/verdicts.jsonl");
    assert_eq!(verdicts.len(), 6);
    assert!(verdicts.iter().all(|verdict| !verdict["answer"].as_str().unwrap().is_empty()), "{verdicts:?}");
    let timings = workspace.lines("first/timings.jsonl");
    assert_eq!(timings[0]["reused_tokens"], 0);
    // The rubric was read once: all later records stand on it.
    let reused = timings[1]["reused_tokens"].as_u64().unwrap();
    assert!(reused > 20, "{:?}", timings[1]);
    assert!(timings[1..].iter().all(|timing| timing["reused_tokens"] == reused));
    assert!(timings.iter().all(|timing| timing["answer_tokens"].as_u64().unwrap() <= 24));
    let fingerprint = &serde_json::from_str::<Value>(&workspace.read("first/run.json")).unwrap()["fingerprint"];
    assert_eq!(fingerprint["judge_settings"]["max_tokens"], "24");
    assert!(fingerprint["judge_sha256"].as_str().unwrap().len() == 64);
}

#[test]
fn verdicts_are_the_same_bytes_without_reuse_with_other_threads_and_after_an_interruption() {
    let workspace = workspace();
    run(&workspace, "", "first").exits(0);
    let expected = workspace.read("first/verdicts.jsonl");
    run(&workspace, "--no-reuse", "whole").exits(0);
    assert_eq!(workspace.read("whole/verdicts.jsonl"), expected);
    run(&workspace, "--threads 1", "alone").exits(0);
    assert_eq!(workspace.read("alone/verdicts.jsonl"), expected);
    // Cut off in the middle of a line, as a power cut would.
    fs::create_dir(workspace.path("torn")).unwrap();
    fs::copy(workspace.path("first/run.json"), workspace.path("torn/run.json")).unwrap();
    workspace.write("torn/verdicts.jsonl", &expected[..expected.len() / 2]);
    run(&workspace, "", "torn").exits(0);
    assert_eq!(workspace.read("torn/verdicts.jsonl"), expected);
    assert_eq!(workspace.read("torn/summary.json"), workspace.read("first/summary.json"));
}

#[test]
fn verdicts_are_the_same_bytes_at_any_batch() {
    let workspace = workspace();
    let mut records = workspace.lines("data.jsonl");
    // Lengths that end at different times, and records without an answer in between.
    records.extend((6..14).map(|i| {
        let caption = "A dog runs and barks. ".repeat(i * 5 % 7);
        json!({"id": format!("r{i}"), "system": "s", "caption": caption})
    }));
    records.insert(4, json!({"id": "long", "system": "s", "caption": "very ".repeat(2000)}));
    workspace.write_lines("data.jsonl", &records);
    for warmth in ["", "--temperature 1.2 --seed 3"] {
        let first = format!("first{}", warmth.len());
        run(&workspace, &format!("{warmth} --batch 1 --no-speculation"), &first).exits(0);
        let expected = workspace.read(&format!("{first}/verdicts.jsonl"));
        assert_eq!(expected.lines().count(), 15);
        for flags in ["--batch 2", "--batch 4 --no-reuse", "--batch 8", "--batch 64 --no-speculation", ""] {
            let out = format!("{first}-{}", flags.replace([' ', '-'], ""));
            run(&workspace, &format!("{warmth} {flags}"), &out).exits(0);
            assert_eq!(workspace.read(&format!("{out}/verdicts.jsonl")), expected, "{warmth} {flags}");
        }
    }
    run(&workspace, "--batch 0", "none").exits(2).says("--batch 0: give a number from 1 to 1024");
}

#[test]
fn with_a_guide_every_answer_is_scored_and_the_same_at_any_batch() {
    let workspace = Workspace::new();
    // Random weights that list events in some answers and none in others.
    workspace.run("models synth tiny --out model --seed 1").exits(0);
    let records: Vec<&str> = include_str!("../docs/example/captions.jsonl").lines().skip(4).take(4).collect();
    workspace.write("data.jsonl", &records.join("\n"));
    let mut listed = 0;
    for task in ["hallucination", "omission"] {
        let run = |flags: &str, out: &str| {
            let command = format!("run --task {task} --data data.jsonl --judge model --out {out} -q");
            workspace.run(&format!("{command} --temperature 1 --seed 3 --max-tokens 900 {flags}")).exits(0);
            workspace.read(&format!("{out}/verdicts.jsonl"))
        };
        // Guided is what a small model is, unless somebody says otherwise.
        let expected = run("--batch 1 --no-speculation", &format!("{task}-1"));
        assert_eq!(run("--guided --batch 8", &format!("{task}-8")), expected);
        for line in expected.lines() {
            let verdict: Value = serde_json::from_str(line).unwrap();
            assert_eq!(verdict["outcome"]["status"], "scored", "{verdict}");
            assert!(verdict["outcome"]["labelled"].is_object(), "{verdict}");
            listed += verdict["events"]["listed"].as_u64().unwrap();
        }
    }
    assert!(listed > 4, "only {listed} events were listed");
}

#[test]
fn a_batch_that_is_killed_ends_with_the_same_bytes_at_another_batch() {
    let workspace = workspace();
    let records: Vec<Value> = (0..40)
        .map(|i| json!({"id": format!("r{i}"), "system": "s", "caption": "A dog runs ".repeat(i % 5 + 1)}))
        .collect();
    workspace.write_lines("data.jsonl", &records);
    run(&workspace, "", "whole").exits(0);
    let mut kills = 0;
    for batch in [2, 8, 3, 5, 1].into_iter().cycle().take(40) {
        let mut child = workspace.start(&format!("{RUN} --out out --batch {batch}"));
        let stored = || fs::read_to_string(workspace.path("out/verdicts.jsonl")).unwrap_or_default().lines().count();
        let before = stored();
        while stored() < before + 3 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            break;
        }
        kills += 1;
    }
    assert!(kills > 2, "the run is too fast to be killed");
    run(&workspace, "", "out").exits(0);
    assert_eq!(workspace.read("out/verdicts.jsonl"), workspace.read("whole/verdicts.jsonl"));
    assert_eq!(workspace.read("out/summary.json"), workspace.read("whole/summary.json"));
}

#[test]
#[cfg(unix)]
fn ctrl_c_is_heard_in_the_middle_of_a_batch() {
    let workspace = workspace();
    let records: Vec<Value> = (0..200)
        .map(|i| json!({"id": format!("r{i}"), "system": "s", "caption": "A dog runs ".repeat(i % 5 + 1)}))
        .collect();
    workspace.write_lines("data.jsonl", &records);
    let child = workspace.start(&format!("{RUN} --out out"));
    while fs::metadata(workspace.path("out/verdicts.jsonl")).map_or(0, |file| file.len()) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ran = Ran::from(child.wait_with_output().unwrap()).exits(130).says("the same command goes on");
    let stored = workspace.lines("out/verdicts.jsonl").len();
    assert!((1..200).contains(&stored) && ran.stderr.contains(&format!("{stored} of 200 verdicts")), "{}", ran.stderr);
    let ids: Vec<Value> = workspace.lines("out/verdicts.jsonl").iter().map(|verdict| verdict["id"].clone()).collect();
    assert_eq!(ids, (0..stored).map(|i| json!(format!("r{i}"))).collect::<Vec<_>>(), "in order, without a gap");
}

#[test]
fn chance_belongs_to_the_record_and_not_to_the_order() {
    let workspace = workspace();
    let warm = "--temperature 1.5 --seed 7";
    run(&workspace, warm, "warm").exits(0);
    let verdicts = workspace.lines("warm/verdicts.jsonl");
    let last = workspace.lines("data.jsonl").pop().unwrap();
    workspace.write_lines("data.jsonl", &[last]);
    run(&workspace, warm, "last").exits(0);
    assert_eq!(workspace.lines("last/verdicts.jsonl"), verdicts[5..]);
    run(&workspace, "--temperature 1.5 --seed 8", "other").exits(0);
    assert_ne!(workspace.lines("other/verdicts.jsonl"), verdicts[5..]);
}

#[test]
fn a_judge_that_changed_is_refused_by_name() {
    let workspace = workspace();
    run(&workspace, "", "first").exits(0);
    run(&workspace, "--max-tokens 25", "first").exits(2); // given twice
    let other = RUN.replace("--max-tokens 24", "--max-tokens 25");
    workspace
        .run(&format!("{other} --out first"))
        .exits(2)
        .says("setting of the judge (max_tokens): it was 24, it is now 25");
    run(&workspace, "--quant q8_0", "first")
        .exits(2)
        .says("setting of the judge (quant): it was as stored, it is now q8_0");
    run(&workspace, "--temperature 0.5", "first").exits(2).says("(temperature): it was 0, it is now 0.5");
    run(&workspace, "--activations 8", "first").exits(2).says("8-bit activations");
    run(&workspace, "--activations 9", "first").exits(2).says("there are 14 and 8");
    let path = workspace.path("model/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    run(&workspace, "", "first").exits(2).says("another judge (judge_sha256)");
}

#[test]
fn an_answer_at_the_limit_is_truncated_and_never_scored() {
    let workspace = workspace();
    run(&workspace, "", "first").exits(0);
    for verdict in workspace.lines("first/verdicts.jsonl") {
        if verdict["finish"] == "length" {
            assert_eq!(verdict["outcome"]["reason"], "truncated", "{verdict}");
        }
    }
}

#[test]
fn a_prompt_beyond_the_context_is_one_unscored_record() {
    let workspace = workspace();
    let long = "very ".repeat(2000);
    let records = [
        json!({"id": "long", "system": "s", "caption": long}),
        json!({"id": "short", "system": "s", "caption": "A dog runs"}),
    ];
    workspace.write_lines("data.jsonl", &records);
    run(&workspace, "", "first").exits(0);
    let verdicts = workspace.lines("first/verdicts.jsonl");
    assert_eq!(verdicts[0]["outcome"]["reason"], "judge_failed");
    assert!(verdicts[0]["outcome"]["detail"].as_str().unwrap().contains("of the model's context"), "{}", verdicts[0]);
    assert!(verdicts[1]["answer"].is_string());
}

#[test]
fn what_a_judge_cannot_do_is_said_before_anything_is_judged() {
    let workspace = workspace();
    workspace
        .run("run --task score --data data.jsonl --judge model --free --out out")
        .exits(2)
        .says("the task `score` shows frames, and model is a language model");
    assert!(!workspace.path("out").exists());
    workspace.run("run --task omission --data data.jsonl --judge nowhere.gguf --out out").exits(4).says("nowhere.gguf");
    workspace
        .run("run --task omission --data data.jsonl --judge org/name --out out")
        .exits(4)
        .says("nothing is downloaded");
    workspace.write("answers.jsonl", "");
    workspace
        .run("run --task omission --data data.jsonl --judge scripted:answers.jsonl --quant q4k --out out")
        .exits(2)
        .says("--quant is for judges that load a model");
    workspace.run(&format!("{RUN} --out out --quant q9")).exits(2).says("there is no such type; there are q8_0");
    workspace.run(&format!("{RUN} --out out --top-p 0")).exits(2).says("--top-p 0: give a number above 0");
    workspace.run(&format!("{RUN} --out out --threads 0")).exits(2).says("--threads 0");
    let gguf = folder("gguf").join("qwen2_a.gguf");
    let gguf = gguf.display();
    workspace
        .run(&format!("generate --model {gguf} --text a --quant q8_0"))
        .exits(2)
        .says("--quant is for safetensors");
    fs::remove_file(workspace.path("model/tokenizer.json")).unwrap();
    run(&workspace, "", "out").exits(4).says("tokenizer.json");
}

#[test]
fn a_model_without_a_chat_template_needs_one() {
    let workspace = workspace();
    let path = workspace.path("model/tokenizer_config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    config.as_object_mut().unwrap().remove("chat_template");
    fs::write(&path, config.to_string()).unwrap();
    run(&workspace, "", "out").exits(2).says("--chat-template");
    workspace.run("generate --model model --text hello").exits(2).says("--chat-template none");
    run(&workspace, "--chat-template none", "plain").exits(0);
    workspace.write("own.jinja", "{% for m in messages %}[{{ m.content }}]{% endfor %}");
    run(&workspace, "--chat-template own.jinja", "own").exits(0);
    assert_ne!(workspace.read("own/verdicts.jsonl"), workspace.read("plain/verdicts.jsonl"));
}

#[test]
fn a_thought_that_the_template_opens_is_part_of_the_answer() {
    let workspace = workspace();
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}<|im_start|>assistant\n<think>\n\n";
    workspace.write("think.jinja", template);
    run(&workspace, "--chat-template think.jinja", "think").exits(0);
    for verdict in workspace.lines("think/verdicts.jsonl") {
        assert!(verdict["answer"].as_str().unwrap().starts_with("<think>\n"), "{verdict}");
        assert_eq!(verdict["outcome"]["reason"], "truncated");
    }
}

#[test]
fn generate_prints_text_or_everything_as_json() {
    let workspace = workspace();
    let text = workspace.run("generate --model model --text hello --max-tokens 5").exits(0).says("tokens read").stdout;
    let json = workspace.run("generate --model model --text hello --max-tokens 5 --json").exits(0).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(format!("{}\n", json["text"].as_str().unwrap()), text);
    assert_eq!(json["ids"].as_array().unwrap().len(), 5);
    assert_eq!(json["top"].as_array().unwrap().len(), 20);
    assert_eq!(json["top"][0][0], json["ids"][0]);
    assert_eq!(json["finish"], "length");
    assert!(json["timings"]["prompt_seconds"].as_f64().unwrap() > 0.0);
    // The same prompt by its ids, from the command line and from a file.
    let ids: Vec<String> = json["prompt_ids"].as_array().unwrap().iter().map(ToString::to_string).collect();
    let by_ids =
        workspace.run(&format!("generate --model model --ids {} --max-tokens 5 --json", ids.join(","))).exits(0);
    assert_eq!(serde_json::from_str::<Value>(&by_ids.stdout).unwrap()["ids"], json["ids"]);
    workspace.write("ids.txt", &ids.join("\n"));
    let by_file = workspace.run("generate --model model --ids-file ids.txt --max-tokens 5 --json").exits(0);
    assert_eq!(serde_json::from_str::<Value>(&by_file.stdout).unwrap()["ids"], json["ids"]);
    workspace.run("generate --model model --ids 999999").exits(2).says("token 999999 is not among the model's");
}

#[test]
fn judge_asks_a_model_about_one_caption() {
    let workspace = workspace();
    let verdict = workspace
        .run("judge --prompts prompts --task short --judge model --free --caption Dogs --max-tokens 8 --json")
        .exits(3)
        .stdout;
    let verdict: Value = serde_json::from_str(&verdict).unwrap();
    assert_eq!(verdict["finish"], "length");
}

#[test]
fn weights_that_change_under_a_run_end_it() {
    let workspace = workspace();
    let records: Vec<Value> =
        (0..400).map(|i| json!({"id": format!("r{i}"), "system": "s", "caption": format!("A dog runs {i}")})).collect();
    workspace.write_lines("data.jsonl", &records);
    let run = workspace.start(&format!("{RUN} --out first"));
    let judged = || fs::read_to_string(workspace.path("first/verdicts.jsonl")).unwrap_or_default().lines().count();
    while judged() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let path = workspace.path("model/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let ran = Ran::from(run.wait_with_output().unwrap());
    ran.exits(4).says("model.safetensors: the file was changed while it was in use");
    assert!(judged() < 400);
}

#[test]
fn weights_that_are_no_numbers_are_never_answered_with() {
    let workspace = workspace();
    let path = workspace.path("model/model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let json: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let tensor = &json["model.layers.0.mlp.gate_proj.weight"];
    assert_eq!(tensor["dtype"], "BF16");
    let at = 8 + header + tensor["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[at..at + 2].copy_from_slice(&0x7fc0_u16.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    workspace.run("generate --model model --text a").exits(4).says("logits are not numbers");
    run(&workspace, "", "out").exits(4).says("logits are not numbers");
    for quant in ["q8_0", "q4k", "q4_0"] {
        workspace
            .run(&format!("generate --model model --text a --quant {quant}"))
            .exits(4)
            .says("the tensor `model.layers.0.mlp.gate_proj.weight` cannot be quantised");
    }
}

#[test]
fn verdicts_do_not_depend_on_how_the_models_path_is_written() {
    let workspace = workspace();
    let records = [
        json!({"id": "nul", "system": "s", "caption": "a\u{0}b"}),
        json!({"id": "ok", "system": "s", "caption": "Dog"}),
    ];
    workspace.write_lines("data.jsonl", &records);
    run(&workspace, "", "first").exits(0);
    workspace.run(&format!("{} --out second", RUN.replace("--judge model", "--judge ./model"))).exits(0);
    assert_eq!(workspace.read("first/verdicts.jsonl"), workspace.read("second/verdicts.jsonl"));
    let verdict = &workspace.lines("first/verdicts.jsonl")[0];
    assert_eq!(verdict["outcome"]["reason"], "judge_failed", "{verdict}");
}

#[test]
fn a_tokenizer_may_have_a_token_that_the_weights_do_not_know() {
    let workspace = workspace();
    let path = workspace.path("model/tokenizer.json");
    let mut tokenizer: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let token = json!({"id": 168, "content": "<image>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true});
    tokenizer["added_tokens"].as_array_mut().unwrap().push(token);
    fs::write(&path, tokenizer.to_string()).unwrap();
    workspace.run("generate --model model --text hello --max-tokens 2").exits(0);
    workspace.run("generate --model model --text <image> --max-tokens 2").exits(2).says("<image>");
}
