//! Runs: resume, refuse, retry, exit codes; verdicts with known truth come out as known.

use serde_json::{Value, json};

use crate::workspace::{Ran, Workspace, answer, public_data, record};

const RUN: &str = "run --task hallucination --data data.jsonl --judge scripted:answers.jsonl --out out";

/// Three records by two systems, all answered.
fn three_records() -> Workspace {
    let workspace = Workspace::new();
    workspace.write_lines("data.jsonl", &[record("a", "x", "c"), record("b", "x", "c"), record("c", "y", "c")]);
    let answers = [("a", 0), ("b", 1), ("c", 2)].map(|(id, count)| json!({"id": id, "answer": answer(count)}));
    workspace.write_lines("answers.jsonl", &answers);
    workspace
}

#[test]
fn a_run_writes_verdicts_a_summary_and_a_ranked_table() {
    let workspace = three_records();
    let ran = workspace.run(RUN).exits(0).prints("CHR").says("verdicts and summary are in out");
    let (x, y) = (ran.stdout.find("│ x ").unwrap(), ran.stdout.find("│ y ").unwrap());
    assert!(x < y, "the better system stands first:\n{}", ran.stdout);
    let counts: Vec<Value> = workspace
        .lines("out/verdicts.jsonl")
        .iter()
        .map(|v| v["outcome"]["counts"]["HALLUCINATION_COUNT"].clone())
        .collect();
    assert_eq!(counts, [0, 1, 2]);
    let summary: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let system = &summary["runs"][0]["systems"][0];
    assert_eq!((&system["system"], &system["coverage"]), (&json!("x"), &json!(1.0)));
    assert_eq!((&system["metrics"][0]["value"], &system["metrics"][1]["value"]), (&json!(0.5), &json!(0.25)));
    assert_eq!(workspace.lines("out/timings.jsonl").len(), 3);
}

#[test]
fn the_same_command_judges_nothing_twice() {
    let workspace = three_records();
    workspace.run(RUN).exits(0);
    let before = workspace.read("out/verdicts.jsonl");
    workspace.run(RUN).exits(0).says("3 of 3 records have a verdict already");
    assert_eq!(workspace.read("out/verdicts.jsonl"), before);
}

#[test]
fn a_changed_input_is_refused_by_name() {
    let workspace = three_records();
    workspace.run(RUN).exits(0);
    let verdicts = workspace.read("out/verdicts.jsonl");
    workspace.run(&format!("{RUN} --count-from labels")).exits(2).says("another --count-from (count_from)");
    workspace.run(&RUN.replace("hallucination", "omission")).exits(2).says("another task (task)");
    let answers = workspace.read("answers.jsonl");
    workspace.write("answers.jsonl", &format!("{answers}\n"));
    workspace.run(RUN).exits(2).says("another judge (judge_sha256)");
    workspace.write("answers.jsonl", &answers);
    workspace.write("my/hallucination.txt", "{GROUND_TRUTH_EVENTS}{INFERENCE_CAPTION}{N}");
    let declaration = workspace.run("prompts show hallucination --declaration").stdout;
    workspace.write("my/hallucination.toml", &declaration);
    workspace.run(&format!("{RUN} --prompts my")).exits(2).says("another prompt (prompt_sha256)");
    let prompt = workspace.run("prompts show hallucination").stdout;
    workspace.write("my/hallucination.txt", &prompt);
    workspace.run(&format!("{RUN} --prompts my")).exits(0);
    workspace.write("my/hallucination.toml", &declaration.replace("FINAL DETECTION", "THE END"));
    workspace.run(&format!("{RUN} --prompts my")).exits(2).says("another task declaration (declaration_sha256)");
    let data = workspace.read("data.jsonl");
    workspace.write("data.jsonl", &data.replace("\"c\"", "\"d\""));
    workspace.run(RUN).exits(2).says("another data set (data_sha256)").says("Choose another --out");
    assert_eq!(workspace.read("out/verdicts.jsonl"), verdicts, "a refused run changes nothing");
    let run_file = workspace.read("out/run.json").replace(&format!("\"{}\"", env!("CARGO_PKG_VERSION")), "\"0.0.1\"");
    workspace.write("data.jsonl", &data);
    workspace.write("out/run.json", &run_file);
    workspace.run(RUN).exits(2).says("another version of capjudge (version)");
}

#[test]
fn one_process_at_a_time_writes_to_a_folder() {
    let workspace = three_records();
    let slow: Vec<Value> = ["a", "b", "c"].map(|id| json!({"id": id, "answer": answer(0), "delay_ms": 700})).to_vec();
    workspace.write_lines("answers.jsonl", &slow);
    let mut first = workspace.start(RUN);
    while !workspace.path("out/run.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    workspace.run(RUN).exits(5).says("another capjudge process is writing to this run");
    assert!(first.wait().unwrap().success());
    assert_eq!(workspace.lines("out/verdicts.jsonl").len(), 3);
}

#[test]
fn a_failing_record_is_unscored_and_the_run_goes_on() {
    let workspace = Workspace::new();
    let mut wrong_type = record("type", "x", "c");
    wrong_type["events"] = json!("none");
    workspace.write_lines(
        "data.jsonl",
        &[
            record("good", "x", "c"),
            record("empty", "x", ""),
            wrong_type,
            record("silent", "x", "c"),
            record("cut", "x", "c"),
            record("down", "x", "c"),
            record("last", "x", "c"),
        ],
    );
    workspace.write_lines(
        "answers.jsonl",
        &[
            json!({"id": "good", "answer": answer(1)}),
            json!({"id": "cut", "answer": "EXTRACTED_EVENTS:\n1. A", "finish": "length"}),
            json!({"id": "down", "error": "out of memory"}),
            json!({"id": "last", "answer": answer(0)}),
        ],
    );
    let ran = workspace.run(&format!("{RUN} --max-unscored 80%")).exits(0).prints("2 of 7 ┆    28.5% ┆");
    assert!(ran.stdout.contains("unscored, left out of every mean"), "{}", ran.stdout);
    let reasons: Vec<String> = workspace
        .lines("out/verdicts.jsonl")
        .iter()
        .map(|v| v["outcome"]["reason"].as_str().unwrap_or("scored").to_owned())
        .collect();
    assert_eq!(
        reasons,
        ["scored", "empty_caption", "invalid_record", "judge_failed", "truncated", "judge_failed", "scored"]
    );
    let summary: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let chr = &summary["runs"][0]["systems"][0]["metrics"][0];
    assert_eq!((&chr["value"], &chr["n"], &chr["records"]), (&json!(0.5), &json!(2), &json!(7)));
    workspace.run(RUN).exits(3).says("5 of 7 records are unscored, more than --max-unscored allows");
    workspace.run(&format!("{RUN} --max-unscored 5")).exits(0);
    workspace.run(&format!("{RUN} --max-unscored 4")).exits(3);
    workspace.run(&format!("{RUN} --max-unscored lots")).exits(2).says("neither a share like 5%");
}

#[test]
fn unscored_records_are_judged_again_on_request_only() {
    let workspace = three_records();
    // A real judge may answer otherwise the second time. A scripted one does not, so its file is changed, and the run's
    // note of it too.
    workspace.write_lines(
        "answers.jsonl",
        &[
            json!({"id": "a", "answer": answer(0)}),
            json!({"id": "b", "answer": "no idea"}),
            json!({"id": "c", "answer": answer(2)}),
        ],
    );
    workspace.run(RUN).exits(3);
    workspace.run(RUN).exits(3);
    assert_eq!(workspace.lines("out/verdicts.jsonl").len(), 3);
    let hash = |workspace: &Workspace| capjudge::dataset::sha256_text(&workspace.read("answers.jsonl"));
    let before = hash(&workspace);
    let answers = [("a", 0), ("b", 1), ("c", 2)].map(|(id, count)| json!({"id": id, "answer": answer(count)}));
    workspace.write_lines("answers.jsonl", &answers);
    workspace.write("out/run.json", &workspace.read("out/run.json").replace(&before, &hash(&workspace)));
    workspace.run(&format!("{RUN} --retry-unscored")).exits(0);
    let verdicts = workspace.lines("out/verdicts.jsonl");
    assert_eq!(verdicts.len(), 4, "the first attempt stays in the journal");
    assert_eq!((&verdicts[3]["id"], &verdicts[3]["attempt"]), (&json!("b"), &json!(2)));
    let summary: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    assert_eq!(summary["runs"][0]["judged"], 3, "only the last attempt counts");
    assert_eq!(summary["runs"][0]["scored"], 3);
    workspace.run(&format!("{RUN} --retry-unscored")).exits(0);
    assert_eq!(workspace.lines("out/verdicts.jsonl").len(), 4);
}

#[test]
fn data_that_could_not_be_resumed_is_refused_before_anything_is_judged() {
    let workspace = three_records();
    workspace.write_lines("data.jsonl", &[record("a", "x", "c"), record("a", "y", "c")]);
    workspace.run(RUN).exits(2).says("data.jsonl:2: id \"a\" was used in line 1 already");
    workspace.write("data.jsonl", "{\"id\": \"a\"\n{}\n");
    workspace.run(RUN).exits(2).says("data.jsonl:1: not a JSON object").says("data.jsonl:2: id is missing");
    workspace.write("data.jsonl", "\n");
    workspace.run(RUN).exits(2).says("no records in it");
    assert!(!workspace.path("out").exists(), "nothing was made");
}

#[test]
fn exit_codes_tell_what_to_mend() {
    let workspace = three_records();
    workspace.run(&RUN.replace("data.jsonl", "gone.jsonl")).exits(1).says("gone.jsonl");
    workspace.run(&RUN.replace("hallucination", "nonsense")).exits(2).says("there is no task `nonsense`");
    workspace
        .run(&RUN.replace("scripted:answers.jsonl", "qwen"))
        .exits(4)
        .says("qwen: there is no such file or folder")
        .says("scripted:FILE");
    workspace.run(&RUN.replace("answers.jsonl", "gone.jsonl")).exits(4).says("gone.jsonl");
    workspace.write("broken.jsonl", "{\"id\": \"a\"}\nnot json\n");
    workspace.run(&RUN.replace("answers.jsonl", "broken.jsonl")).exits(4).says("broken.jsonl:2: not a recorded answer");
    workspace.run("run --task hallucination").exits(2);
    workspace.write("full/notes.txt", "mine");
    workspace.run(&RUN.replace("--out out", "--out full")).exits(2).says("is no run");
    workspace.write("file", "x");
    workspace.run(&RUN.replace("--out out", "--out file")).exits(1);
    workspace.run("summarize full").exits(1).says("run.json");
}

#[test]
fn a_torn_last_line_is_repaired_and_said_so() {
    let workspace = three_records();
    workspace.run(RUN).exits(0);
    let whole = workspace.read("out/verdicts.jsonl");
    let second_end = whole.match_indices('\n').nth(1).unwrap().0 + 1;
    for cut in [second_end + 1, second_end + 40, whole.len() - 1] {
        workspace.write("out/verdicts.jsonl", &whole[..cut]);
        workspace.run("summarize out").exits(0).says("1 records have no verdict yet");
        workspace.run(RUN).exits(0).says("cut off a torn last line");
        assert_eq!(workspace.read("out/verdicts.jsonl"), whole);
        assert_eq!(workspace.lines("out/timings.jsonl").len(), 3);
    }
    // A power cut can leave zeros where the line should be.
    workspace.write("out/verdicts.jsonl", &format!("{}{}\n", &whole[..second_end], "\0".repeat(100)));
    workspace.run(RUN).exits(0).says("cut off a torn last line (101 bytes)");
    assert_eq!(workspace.read("out/verdicts.jsonl"), whole);
    // Damage elsewhere is not repaired by guessing.
    workspace.write("out/verdicts.jsonl", &whole.replacen("\"id\"", "\"ix\"", 1));
    workspace.run(RUN).exits(1).says("verdicts.jsonl:1: not a verdict");
}

#[test]
fn data_that_changes_under_a_run_is_not_judged() {
    let workspace = Workspace::new();
    let long = "A dog runs. ".repeat(2_000);
    let ids: Vec<String> = (0..40).map(|index| format!("clip-{index:02}")).collect();
    let slow = |id: &String| json!({"id": id, "answer": answer(0), "delay_ms": 40});
    workspace.write_lines("data.jsonl", &ids.iter().map(|id| record(id, "x", &long)).collect::<Vec<_>>());
    workspace.write_lines("answers.jsonl", &ids.iter().map(slow).collect::<Vec<_>>());
    let data = workspace.read("data.jsonl");
    let child = workspace.start(RUN);
    while std::fs::metadata(workspace.path("out/verdicts.jsonl")).map_or(0, |file| file.len()) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // In place, as an editor might: the run has the file open.
    workspace.write("data.jsonl", &data.replace("clip-39", "clip-00"));
    let ran = crate::workspace::Ran::from(child.wait_with_output().unwrap());
    ran.exits(1).says("the file was changed while it was being judged");
    workspace.write("data.jsonl", &data);
    workspace.run(RUN).exits(0);
    let mut found: Vec<Value> = workspace.lines("out/verdicts.jsonl").iter().map(|v| v["id"].clone()).collect();
    found.dedup();
    assert_eq!(found, ids, "each record once, in order");
}

#[test]
fn a_run_that_something_else_changed_is_refused() {
    let workspace = three_records();
    workspace.run(RUN).exits(0);
    let (verdicts, run_file) = (workspace.read("out/verdicts.jsonl"), workspace.read("out/run.json"));
    workspace.write("out/verdicts.jsonl", &format!("{verdicts}{verdicts}"));
    workspace.run("summarize out").exits(1).says("verdicts.jsonl:4: not a verdict of this run (attempt 1 at \"a\"");
    workspace.run(RUN).exits(1).says("verdicts.jsonl:4");
    workspace.write("out/verdicts.jsonl", &format!("{verdicts}{}", verdicts.replace("\"id\":\"", "\"id\":\"other-")));
    workspace.run("summarize out").exits(1).says("6 records have a verdict, but the data set has 3");
    workspace.write("out/verdicts.jsonl", &verdicts.replace("hallucination\"", "omission\""));
    workspace.run("summarize out").exits(1).says("it is about the task `omission`");
    workspace.write("out/verdicts.jsonl", &verdicts);
    workspace.write("out/run.json", &run_file.replace("\"CHR\"", "\"XYZ\""));
    workspace.run("summarize out").exits(1).says("its task is not the one that its fingerprint names");
    workspace.write("out/run.json", &run_file.replace("\"schema_version\": 1", "\"schema_version\": 99"));
    workspace.run("summarize out").exits(1).says("schema_version is 99");
}

#[test]
fn verdicts_of_a_run_can_be_replayed_and_read_anew() {
    let workspace = three_records();
    // Stated 0, but one label says otherwise.
    let lying = answer(1).replace("HALLUCINATION_COUNT: 1", "HALLUCINATION_COUNT: 0");
    workspace.write_lines(
        "answers.jsonl",
        &[
            json!({"id": "a", "answer": lying}),
            json!({"id": "b", "answer": answer(1)}),
            json!({"id": "c", "answer": answer(2)}),
        ],
    );
    workspace.run(RUN).exits(0).prints("differ from its own labels in 1 of 2 verdicts");
    let replay = "run --task hallucination --data data.jsonl --judge scripted:out/verdicts.jsonl --max-unscored 1";
    workspace.run(&format!("{replay} --out labels --count-from labels")).exits(0);
    let count = |run: &str| workspace.lines(&format!("{run}/verdicts.jsonl"))[0]["outcome"].clone();
    assert_eq!(count("out")["counts"]["HALLUCINATION_COUNT"], 0);
    assert_eq!(count("out")["agree"], false);
    assert_eq!(count("labels")["counts"]["HALLUCINATION_COUNT"], 1);
    workspace.run(&format!("{replay} --out agreeing --count-from agreeing")).exits(0);
    assert_eq!(count("agreeing")["reason"], "labels_disagree");
}

#[test]
fn known_truth_comes_out_as_known() {
    let Some(folder) = public_data() else { return };
    let workspace = Workspace::new();
    let text = std::fs::read_to_string(folder.join("truth.jsonl")).unwrap();
    let truth: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(truth.len(), 100);
    for task in ["hallucination", "omission"] {
        let mut records = Vec::new();
        let mut answers = Vec::new();
        for item in &truth {
            let side = &item[task];
            let mut record = json!({"id": item["id"], "system": item["kind"], "caption": side["caption"],
                "events": side["events"], "human": side["truth"]});
            if !side["inserted_index"].is_null() {
                record["inserted_index"] = side["inserted_index"].clone();
            }
            records.push(record);
            let metrics: Vec<String> = side["truth"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| format!("- **{}:** [{value}]\n", name.to_uppercase()))
                .collect();
            answers.push(json!({"id": item["id"], "answer": format!("### FINAL METRICS\n{}", metrics.concat())}));
        }
        workspace.write_lines("data.jsonl", &records);
        workspace.write_lines("answers.jsonl", &answers);
        let run = format!("run --task {task} --data data.jsonl --judge scripted:answers.jsonl --out {task}");
        workspace.run(&run).exits(0);
        for verdict in workspace.lines(&format!("{task}/verdicts.jsonl")) {
            for (name, value) in verdict["human"].as_object().unwrap() {
                assert_eq!(&verdict["outcome"]["counts"][name.to_uppercase()], value, "{}", verdict["id"]);
            }
        }
    }
}

#[test]
fn the_word_count_rule_caps_and_says_why() {
    let workspace = Workspace::new();
    let judge = |caption: &str, kind: &str, rule: &str| -> Value {
        workspace.write_lines(
            "answers.jsonl",
            &[json!({"id": "caption", "answer": "{\"score\": 3, \"reason\": \"fine\"}"})],
        );
        let output = workspace
            .command("judge --task score --judge scripted:answers.jsonl --json")
            .args(["--caption", caption, "--caption-type", kind, "--length-rule", rule])
            .args(["--reference", "one two three four five six seven eight nine ten"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["outcome"].clone()
    };
    let short = judge("far too short", "brief", "exactly three words");
    assert_eq!((&short["score"], &short["raw_score"]), (&json!(1), &json!(3)));
    assert_eq!(
        short["rules"],
        json!([
            {"rule": "word_count_within", "percent": 10, "caption_words": 3, "reference_words": 10, "kept": false, "cap": 1},
            {"rule": "length", "text": "exactly three words", "unit": "words", "min": 3, "max": 3, "measured": 3, "kept": true},
        ])
    );
    let right = judge("a b c d e f g h i", "detail", "about ten words");
    assert_eq!((&right["score"], &right["rules"][0]["kept"]), (&json!(3), &json!(true)));
    assert_eq!(
        right["rules"][1],
        json!({"rule": "length", "text": "about ten words"}),
        "not understood, so not checked"
    );
    let verse = judge("far too short", "poem", "cannot exceed two words");
    assert_eq!((&verse["score"], &verse["rules"][0]["kept"]), (&json!(3), &json!(false)), "a length rule does not cap");
    assert_eq!(judge("far too short", "theme", "one sentence")["score"], 3);
}

#[test]
fn judge_prints_one_verdict_from_flags() {
    let workspace = Workspace::new();
    workspace.write_lines(
        "answers.jsonl",
        &[json!({"id": "caption", "answer": answer(1)}), json!({"id": "none", "answer": ""})],
    );
    let judge = "judge --task hallucination --judge scripted:answers.jsonl --caption Dogs --event runs --event barks";
    workspace.run(judge).exits(0).prints("HALLUCINATION_COUNT: 1").prints("labels of the answer agree");
    let verdict: Value = serde_json::from_str(&workspace.run(&format!("{judge} --json")).exits(0).stdout).unwrap();
    assert_eq!(verdict["events"], json!({"record": 2, "inserted": false, "listed": 2}));
    workspace.run(&format!("{judge} --id none")).exits(3).prints("unscored (empty_answer)");
    workspace.run(&format!("{judge} --inserted-index 7")).exits(2).says("inserted_index is 7, but there are 2 events");
    workspace
        .run("judge --task omission --judge scripted:answers.jsonl --caption Dogs")
        .exits(3)
        .prints("missing_field");
    let mut child = workspace
        .command("judge --task hallucination --judge scripted:answers.jsonl --record -")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), record("caption", "s", "c").to_string().as_bytes())
        .unwrap();
    assert!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().contains("HALLUCINATION_COUNT: 1"));
}

#[test]
fn a_count_that_the_record_makes_impossible_is_unscored() {
    let workspace = Workspace::new();
    let ids = ["inserted", "many", "unlisted"];
    workspace.write_lines("data.jsonl", &ids.map(|id| record(id, "s", "c")));
    let metrics = |total: u32, inserted: u32| {
        format!("FINAL METRICS:\n- TOTAL_OMISSION_COUNT: {total}\n- INSERTED_OMISSION_COUNT: {inserted}\n")
    };
    workspace.write_lines(
        "answers.jsonl",
        &[
            json!({"id": "inserted", "answer": metrics(1, 1)}),
            json!({"id": "many", "answer": metrics(3, 0)}),
            // Nothing was looked at, so nothing is missing: no perfect caption.
            json!({"id": "unlisted", "answer": format!("GROUND_TRUTH_EVENTS:\nNone\n\n{}", metrics(0, 0))}),
        ],
    );
    workspace.run(&format!("{RUN} --no-reason")).exits(2).says("--no-reason is for tasks with a score");
    workspace.run(&RUN.replace("hallucination", "omission")).exits(3);
    let reasons: Vec<Value> =
        workspace.lines("out/verdicts.jsonl").iter().map(|v| v["outcome"]["reason"].clone()).collect();
    assert_eq!(reasons, ["contradictory"; 3]);
}

#[test]
fn summarize_compares_runs_in_every_format() {
    let workspace = three_records();
    workspace.run(RUN).exits(0);
    workspace.run(&RUN.replace("--out out", "--out other")).exits(0);
    workspace.run("summarize out other").exits(0).prints("out: hallucination").prints("other: hallucination");
    let table = workspace.run("summarize out --format csv").exits(0).stdout;
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4, "two systems, two metrics");
    assert_eq!((&rows[0][3], &rows[0][4], &rows[0][9]), ("x", "CHR", "0.5"));
    workspace.run("summarize out --format markdown --out table.md").exits(0);
    assert!(workspace.read("table.md").contains("| system | n | coverage | CHR ↓ | EHR ↓ |"));
    let json: Value = serde_json::from_str(&workspace.run("summarize out --format json").exits(0).stdout).unwrap();
    let stored: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    assert_eq!(json, stored, "the run's own summary is what summarize gives");
    let seeded = |seed: u32| workspace.run(&format!("summarize out --format json --seed {seed}")).exits(0).stdout;
    assert_eq!(seeded(1), seeded(1));
}

#[test]
fn a_systems_name_cannot_move_the_cursor() {
    let workspace = Workspace::new();
    workspace.write_lines("data.jsonl", &[record("a", "evil\u{1b}[2J|x", "c")]);
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": answer(0)})]);
    let table = workspace.run(RUN).exits(0).stdout;
    assert!(table.contains("evil\u{fffd}[2J|x") && !table.contains('\u{1b}'), "{table}");
    workspace.run("summarize out --format markdown").exits(0).prints("[2J\\|x");
    let json: Value = serde_json::from_str(&workspace.run("summarize out --format json").exits(0).stdout).unwrap();
    assert_eq!(json["runs"][0]["systems"][0]["system"], "evil\u{1b}[2J|x", "programs get the name as it is");
}

#[test]
fn help_shows_examples_and_completions_know_the_verbs() {
    let workspace = Workspace::new();
    for verb in ["run", "judge", "summarize", "validate", "import", "prompts", "schema", "completions"] {
        workspace.run(&format!("{verb} --help")).exits(0).prints("Example");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        workspace.run(&format!("completions {shell}")).exits(0).prints("summarize");
    }
    workspace.run("--help").exits(0).prints("Exit codes").prints("130");
}

// Output that nobody reads

/// The end of a pipe whose reader has gone.
fn nobody() -> std::process::Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A data set with one good record and two bad ones, and answers that cannot be read.
fn hopeless() -> Workspace {
    let workspace = Workspace::new();
    workspace.write_lines("data.jsonl", &[record("a", "x", "c"), record("b", "x", ""), record("c", "x", "")]);
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": "no idea"})]);
    workspace
}

#[test]
fn a_closed_stderr_keeps_the_exit_code() {
    let workspace = hopeless();
    workspace.write_lines("good.jsonl", &[record("a", "x", "c")]);
    let codes = [("validate good.jsonl", 0), ("validate data.jsonl", 2), ("validate gone.jsonl", 1), (RUN, 3)];
    for (words, code) in codes {
        let output = workspace.command(words).stderr(nobody()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}");
    }
}

#[test]
fn a_closed_stdout_keeps_the_exit_code() {
    let workspace = hopeless();
    for (words, code, said) in [
        (RUN, 3, "3 of 3 records are unscored"),
        ("validate data.jsonl", 2, "3 records, 2 problems"),
        ("validate data.jsonl --json", 2, "3 records, 2 problems"),
        ("summarize out", 0, ""),
        ("schema record", 0, ""),
    ] {
        let output = workspace.command(words).stdout(nobody()).output().unwrap();
        Ran::from(output).exits(code).says(said);
    }
}

#[test]
fn an_error_is_said_once() {
    let workspace = three_records();
    workspace.run(RUN).exits(0);
    for (words, file) in [
        ("validate gone.jsonl", "gone.jsonl"),
        ("summarize out --out gone/table.md", "gone/table.md"),
        ("judge --task hallucination --judge scripted:answers.jsonl --record gone.json", "gone.json"),
    ] {
        let said = workspace.run(words).exits(1).says(&format!("{file}: ")).stderr;
        assert!(said.matches("(os error").count() <= 1 && said.matches(file).count() == 1, "{said}");
    }
}

// Tables

#[test]
fn every_metric_with_caption_types_has_its_table() {
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/example");
    let workspace = Workspace::new();
    let mut command = workspace.command("run --task score --out out --data");
    command.arg(example.join("captions.jsonl")).arg("--judge");
    command.arg(format!("scripted:{}", example.join("answers.jsonl").display()));
    let ran = Ran::from(command.output().unwrap()).exits(0).prints("6 of 6 ┆     100% ┆");
    for name in ["score", "raw_score"] {
        assert_eq!(ran.stdout.matches(&format!(", {name} by caption type")).count(), 1, "{}", ran.stdout);
    }
    workspace.run("summarize out --format markdown").exits(0).prints(", raw_score by caption type");
}

#[test]
fn a_histogram_has_every_value_of_every_system_in_the_order_of_numbers() {
    let workspace = three_records();
    let declaration = workspace.run("prompts show hallucination --declaration").stdout;
    let metric = "[[metrics]]\nname = \"counts\"\nbetter = \"lower\"\nkind = \"mean\"\nof = \"HALLUCINATION_COUNT\"\n\
                  histogram = true\nabout = \"how many\"\n";
    workspace.write("my/counted.toml", &format!("{declaration}\n{metric}"));
    workspace.write("my/counted.txt", &workspace.run("prompts show hallucination").stdout);
    let metrics = |count: u32| format!("FINAL METRICS:\n- HALLUCINATION_COUNT: {count}\n");
    let answers = [("a", 2), ("b", 1), ("c", 10)].map(|(id, count)| json!({"id": id, "answer": metrics(count)}));
    workspace.write_lines("answers.jsonl", &answers);
    let ran = workspace.run(&format!("{} --prompts my", RUN.replace("hallucination", "counted"))).exits(0);
    let ran = ran.prints("│ system ┆ metric ┆ 1 ┆ 2 ┆ 10 │").prints("│ x      ┆ counts ┆ 1 ┆ 1 ┆  0 │");
    ran.prints("│ y      ┆ counts ┆ 0 ┆ 0 ┆  1 │");
}

#[test]
fn no_text_from_data_reaches_a_table_with_control_characters() {
    let workspace = Workspace::new();
    let mut evil = record("a", "e\u{1b}[2J\r\n|x", "c");
    evil["caption_type"] = json!("brief");
    evil["reference"] = json!("c");
    workspace.write_lines("data.jsonl", &[evil]);
    workspace
        .write_lines("an\u{7}swers.jsonl", &[json!({"id": "a", "answer": "{\"score\": 3, \"reason\": \"fine\"}"})]);
    let run = RUN.replace("hallucination", "score").replace("answers", "an\u{7}swers");
    let table = workspace.run(&run).exits(0).prints("e\u{fffd}[2J\u{fffd}\u{fffd}|x").prints("an\u{fffd}swers").stdout;
    let markdown = workspace.run("summarize out --format markdown").exits(0).prints("an\u{fffd}swers").stdout;
    let csv = workspace.run("summarize out --format csv").exits(0).prints("\"e\u{fffd}[2J\u{fffd}\n|x\"").stdout;
    for text in [table, markdown, csv] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    }
}

// Input that is not what it should be

#[test]
fn a_record_may_have_a_byte_order_mark_and_16_mib() {
    let workspace = Workspace::new();
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": answer(1)})]);
    let judge = "judge --task hallucination --judge scripted:answers.jsonl --record record.json";
    let text = record("a", "s", "c").to_string();
    workspace.write("record.json", &format!("\u{feff}{text}"));
    workspace.run(judge).exits(0).prints("HALLUCINATION_COUNT: 1");
    let path = workspace.write("record.json", &(text.clone() + &" ".repeat((16 << 20) - text.len())));
    workspace.run(judge).exits(0);
    workspace.write("record.json", &(text.clone() + &" ".repeat((16 << 20) + 1 - text.len())));
    workspace.run(judge).exits(2).says("record.json: larger than 16 MiB");
    let mut from_stdin = workspace.command(&judge.replace("record.json", "-"));
    let output = from_stdin.stdin(std::fs::File::open(path).unwrap()).output().unwrap();
    Ran::from(output).exits(2).says("standard input: larger than 16 MiB");
}

#[test]
fn validate_knows_a_compressed_file() {
    let workspace = Workspace::new();
    std::fs::write(workspace.path("data.jsonl.gz"), b"\x1f\x8b\x08\0\0").unwrap();
    workspace.run("validate data.jsonl.gz").exits(2).prints("data.jsonl.gz:1: compressed with gzip");
}
