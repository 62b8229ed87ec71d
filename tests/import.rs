//! Importers, on small files of every shape and on the public data sets.

use serde_json::{Value, json};

use crate::workspace::{Ran, Workspace, public_data};

fn records(ran: Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const NOAH: &str = "import noah --recipes recipes.json --results results.json --system m";

#[test]
fn noah_joins_recipes_and_results_on_id() {
    let workspace = Workspace::new();
    let recipes = json!([
        {"id": "v1", "sentences": ["A man runs.", " He stops. "], "aug_sentences": ["Event: he runs\n", " "], "insert_event_idx": 1},
        {"id": "v2", "sentences": ["A cat."], "aug_sentences": ["Visual."]},
        {"id": "v3", "sentences": ["Nobody captioned this."], "aug_sentences": ["x"]},
    ]);
    let results = json!([
        {"id": "v2", "caption": " A cat sits. ", "status": "success"},
        {"id": "v1", "caption": "A man runs.", "status": "success"},
        {"id": "v9", "caption": "of no recipe", "status": "success"},
    ]);
    workspace.write("recipes.json", &recipes.to_string());
    workspace.write("results.json", &results.to_string());
    let ran = workspace
        .run(NOAH)
        .exits(0)
        .says("1 record (v3) without a caption: left out; --keep-missing")
        .says("1 caption (v9) for ids that recipes.json does not have: left out");
    let found = records(ran);
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[0],
        json!({"id": "v1", "system": "m", "caption": "A man runs.", "status": "success", "inserted_index": 1,
            "events": [{"caption": "A man runs.", "visual": "Event: he runs"}, {"caption": "He stops."}]})
    );
    assert_eq!(found[1]["caption"], "A cat sits.");
    let kept = records(workspace.run(&format!("{NOAH} --keep-missing --id-prefix m/")).exits(0));
    assert_eq!((&kept[2]["id"], &kept[2]["caption"]), (&json!("m/v3"), &json!("")));
}

#[test]
fn no_field_of_the_source_takes_the_place_of_one_of_ours() {
    let workspace = Workspace::new();
    let recipe = json!({"id": "v1", "sentences": ["A man runs."], "caption": "the ground truth", "system": "nobody",
        "events": [], "video": "gone.mp4", "source_video": "kept", "status": "of the recipe", "duration": 3});
    workspace.write("recipes.json", &json!([recipe]).to_string());
    workspace.write("results.json", &json!([{"id": "v1", "caption": "the system's", "status": "ok"}]).to_string());
    workspace.run(&format!("{NOAH} --out data.jsonl")).exits(0);
    // A key that was there twice would not pass.
    workspace.run("validate data.jsonl --task hallucination").exits(0);
    let wanted = json!({"id": "v1", "system": "m", "caption": "the system's", "events": [{"caption": "A man runs."}],
        "status": "ok", "duration": 3, "source_caption": "the ground truth", "source_system": "nobody",
        "source_events": [], "source_video": "kept", "source_source_video": "gone.mp4",
        "source_status": "of the recipe"});
    assert_eq!(workspace.lines("data.jsonl"), [wanted]);
}

#[test]
fn a_failed_noah_caption_never_becomes_a_perfect_one() {
    let workspace = Workspace::new();
    workspace.write("recipes.json", &json!([{"id": "v1", "sentences": ["A."], "aug_sentences": ["B."]}]).to_string());
    let results = json!([{"id": "v1", "caption": "Error: rate limit", "status": "error"}]);
    workspace.write("results.json", &results.to_string());
    workspace.run(&format!("{NOAH} --out data.jsonl")).exits(0).says("1 caption (v1) with a failure as status");
    assert_eq!(workspace.lines("data.jsonl")[0]["failed_caption"], "Error: rate limit");
    workspace.write("answers.jsonl", "");
    let run = "run --task hallucination --data data.jsonl --judge scripted:answers.jsonl --out out";
    workspace.run(run).exits(3).prints("empty_caption 1");
    assert_eq!(workspace.lines("out/verdicts.jsonl")[0]["outcome"]["reason"], "empty_caption");
}

#[test]
fn noah_files_that_do_not_fit_are_refused_by_name() {
    let workspace = Workspace::new();
    workspace.write("results.json", &json!([{"id": "v1", "caption": "c", "status": "success"}]).to_string());
    for (recipe, complaint) in [
        (json!({"id": "v1", "sentences": ["a"], "aug_sentences": ["b", "c"]}), "1 sentences, but 2 aug_sentences"),
        (json!({"id": "v1", "sentences": ["a"], "insert_event_idx": 4}), "insert_event_idx is 4, but there are 1"),
        (json!({"id": "v1"}), "recipes.json, item 1: missing field `sentences`"),
        (json!({"id": "other", "sentences": ["a"]}), "none of its ids has a caption"),
    ] {
        workspace.write("recipes.json", &json!([recipe]).to_string());
        workspace.run(NOAH).exits(2).says(complaint);
    }
    let twice = json!([{"id": "v1", "sentences": ["a"]}, {"id": "v1", "sentences": ["b"]}]);
    workspace.write("recipes.json", &twice.to_string());
    workspace.run(NOAH).exits(2).says("recipes.json, item 2: id v1 is there twice; keep one item for each id");
    let twice = json!([{"id": "v1", "caption": "c"}, {"id": "v1", "caption": "d"}]);
    workspace.write("results.json", &twice.to_string());
    workspace.run(NOAH).exits(2).says("results.json, item 2: id v1 is there twice");
    workspace.write("results.json", "{not json");
    workspace.run(NOAH).exits(2).says("results.json, item 1: not JSON");
    std::fs::write(workspace.path("results.json"), b"[\n{\"id\": \"v1\", \"caption\": \"caf\xe9\"}]").unwrap();
    workspace.run(NOAH).exits(2).says("results.json:2: not UTF-8; save the file as UTF-8");
    workspace.run(&NOAH.replace("results.json", "gone.json")).exits(1).says("gone.json: No such file");
}

#[test]
fn anycapeval_takes_a_string_or_a_list_of_one() {
    let workspace = Workspace::new();
    let item = |id: u32, kind: &str| {
        json!({"id": id, "video": format!("{id}.mp4"), "restriction": [kind, "needs to be one sentence."], "width": 640,
            "conversations": [{"from": "human", "value": "Describe."}, {"from": "gpt", "value": "A reference."}]})
    };
    workspace.write_lines("refs.jsonl", &[item(1, "brief"), item(2, "theme"), item(3, "poem")]);
    workspace.write_lines(
        "responses.jsonl",
        &[
            json!({"id": 1, "response": "one"}),
            json!({"id": "2", "response": ["two"]}),
            json!({"id": 3, "response": []}),
        ],
    );
    let command = "import anycapeval --refs refs.jsonl --responses responses.jsonl --system m --videos clips";
    let found = records(workspace.run(command).exits(0));
    let wanted = json!({"id": "1", "system": "m", "caption": "one", "caption_type": "brief", "reference": "A reference.",
        "length_rule": "needs to be one sentence.", "video": "clips/1.mp4", "instruction": "Describe.", "width": 640});
    assert_eq!(found[0], wanted);
    assert_eq!((&found[1]["caption"], &found[1]["caption_type"]), (&json!("two"), &json!("style")));
    assert_eq!(found[2]["caption"], "");
    workspace.write_lines("responses.jsonl", &[json!({"id": 1, "response": ["one", "two"]})]);
    workspace.run(command).exits(2).says("the caption is a list of 2 items");
    workspace.write_lines("responses.jsonl", &[json!({"id": 1, "response": "one"})]);
    workspace.write_lines("refs.jsonl", &[item(1, "brief"), item(1, "poem")]);
    workspace.run(command).exits(2).says("refs.jsonl, item 2: id 1 is there twice");
}

#[test]
fn dream1k_keeps_what_it_does_not_know() {
    let workspace = Workspace::new();
    let item = json!({"idx": 7, "vid": 7, "task": "video/caption", "dataset": "DREAM/youtube",
        "messages": [{"content": [{"reference": "A dog runs."}]}],
        "extra_info": {"events": ["A dog runs. "], "n_shots": 1, "vid": "inner"}});
    let command = "import dream1k --refs refs.jsonl --reference-as-caption --system r";
    workspace.write_lines("refs.jsonl", std::slice::from_ref(&item));
    let wanted = json!({"id": "7", "system": "r", "caption": "A dog runs.", "reference": "A dog runs.",
        "events": [{"caption": "A dog runs."}], "vid": 7, "task": "video/caption", "dataset": "DREAM/youtube",
        "n_shots": 1, "source_vid": "inner"});
    assert_eq!(records(workspace.run(command).exits(0)), [wanted]);
    workspace.write_lines("refs.jsonl", &[item.clone(), item]);
    workspace.run(command).exits(2).says("refs.jsonl, item 2: id 7 is there twice");
}

#[test]
fn public_noah_recipes_import_and_render() {
    let Some(folder) = public_data() else { return };
    let workspace = Workspace::new();
    let recipes = folder.join("noah_recipes.json");
    let source: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&recipes).unwrap()).unwrap();
    let results: Vec<Value> =
        source.iter().map(|recipe| json!({"id": recipe["id"], "caption": "A caption.", "status": "success"})).collect();
    workspace.write("results.json", &json!(results).to_string());
    let import =
        format!("import noah --recipes {} --results results.json --system m --out data.jsonl", recipes.display());
    workspace.run(&import).exits(0).says("60 records of m");
    workspace.run("validate data.jsonl --task hallucination --task omission").exits(0);
    let records = workspace.lines("data.jsonl");
    assert_eq!(records.len(), 60);
    for (recipe, record) in source.iter().zip(&records) {
        // The block as the benchmark's description has it, built here from the recipe itself.
        let pairs = recipe["sentences"].as_array().unwrap().iter().zip(recipe["aug_sentences"].as_array().unwrap());
        let blocks: Vec<String> = pairs
            .enumerate()
            .map(|(index, (sentence, visual))| {
                format!(
                    "Ground Truth Event #{}:\nGround Truth Caption: {}\n\nSupporting Visual Description:\n{}",
                    index + 1,
                    sentence.as_str().unwrap().trim(),
                    visual.as_str().unwrap().trim()
                )
            })
            .collect();
        let id = record["id"].as_str().unwrap();
        let shown = workspace.run(&format!("prompts show hallucination --data data.jsonl --id {id} --json")).exits(0);
        let segments: Vec<Value> = serde_json::from_str(&shown.stdout).unwrap();
        assert!(segments.contains(&json!({"untrusted": blocks.join("\n\n")})), "{id}");
    }
}

#[test]
fn public_anycapeval_references_import() {
    let Some(folder) = public_data() else { return };
    let workspace = Workspace::new();
    let refs = folder.join("anycapeval_style.jsonl");
    let source: Vec<Value> =
        std::fs::read_to_string(&refs).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let responses: Vec<Value> = source.iter().map(|item| json!({"id": item["id"], "response": ["A dog."]})).collect();
    workspace.write_lines("responses.jsonl", &responses);
    let import =
        format!("import anycapeval --refs {} --responses responses.jsonl --system m --out data.jsonl", refs.display());
    workspace.run(&import).exits(0).says("80 records of m");
    let records = workspace.lines("data.jsonl");
    for (item, record) in source.iter().zip(&records) {
        assert_eq!(record["id"], item["id"].to_string());
        assert_eq!(record["reference"], item["conversations"][1]["value"]);
        assert_eq!(record["length_rule"], item["restriction"][1]);
        let kind = item["restriction"][0].as_str().unwrap();
        assert_eq!(record["caption_type"], if kind == "theme" { "style" } else { kind });
    }
    // Nothing but the videos is missing.
    let ran = workspace.run("validate data.jsonl --task score").exits(2);
    assert_eq!(ran.stdout.lines().count(), 80);
    assert!(ran.stdout.lines().all(|line| line.contains("video names")));
}

#[test]
fn public_dream1k_references_import() {
    let Some(folder) = public_data() else { return };
    let workspace = Workspace::new();
    let refs = folder.join("dream1k.jsonl");
    let import =
        format!("import dream1k --refs {} --reference-as-caption --system reference --out data.jsonl", refs.display());
    workspace.run(&import).exits(0).says("200 records of reference");
    workspace.run("validate data.jsonl --task hallucination --task omission").exits(0);
    for (line, record) in std::fs::read_to_string(&refs).unwrap().lines().zip(workspace.lines("data.jsonl")) {
        let item: Value = serde_json::from_str(line).unwrap();
        let events: Vec<&str> =
            record["events"].as_array().unwrap().iter().map(|e| e["caption"].as_str().unwrap()).collect();
        let wanted: Vec<&str> =
            item["extra_info"]["events"].as_array().unwrap().iter().map(|e| e.as_str().unwrap().trim()).collect();
        assert_eq!(events, wanted);
        assert_eq!(record["reference"], item["messages"][1]["content"][0]["reference"]);
    }
    workspace.write_lines("responses.jsonl", &[json!({"idx": 806, "prediction": "Someone brushes their teeth."})]);
    let import = format!("import dream1k --refs {} --responses responses.jsonl --system m", refs.display());
    let found = records(workspace.run(&import).exits(0).says("199 records"));
    assert_eq!((found.len(), &found[0]["caption"]), (1, &json!("Someone brushes their teeth.")));
}
