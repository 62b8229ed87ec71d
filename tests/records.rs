//! Data sets: every problem is found, with its place and a remedy; what is written fits the published schemas.

use capjudge::dataset::{Limits, Places, Record, RecordReader, survey};
use serde_json::{Value, json};

use crate::workspace::{Workspace, answer, record};

#[test]
fn validate_prints_every_problem_with_line_field_and_remedy() {
    let workspace = Workspace::new();
    workspace.write(
        "data.jsonl",
        &[
            r#"{"id": "good", "system": "s", "caption": "c", "events": [{"caption": "e"}]}"#,
            r#"{"id": "good", "system": "s", "caption": "c", "events": [{"caption": "e"}]}"#,
            r#"{"id": "empty", "system": "s", "caption": "  ", "events": []}"#,
            "",
            r#"{"id": "types", "system": 7, "caption": "c", "events": "none", "inserted_index": -1, "reference": 3}"#,
            r#"{"system": "s", "caption": "c"}"#,
            r#"{"id": "cut", "system": "#,
            r#"{"id": "index", "system": "s", "caption": "c", "events": [{"caption": "e"}, {"visual": "v"}], "inserted_index": 5}"#,
            r#"["not", "an", "object"]"#,
            r#"{"id": "several", "system": 7, "caption": ""}"#,
            r#"{"id": "blanks", "system": " ", "events": [7, {"caption": "e"}], "inserted_index": 1}"#,
        ]
        .join("\n"),
    );
    let ran = workspace.run("validate data.jsonl --task omission").exits(2);
    let wanted = [
        "data.jsonl:2: id \"good\" was used in line 1 already; make ids unique",
        "data.jsonl:3: caption is empty;",
        "data.jsonl:3: events is missing, and the task `omission` needs it for {GROUND_TRUTH_EVENTS}; add it",
        "data.jsonl:5: system is a number, not a string; write it as a string",
        "data.jsonl:5: events is a string, not a list; write events as",
        "data.jsonl:5: inserted_index is -1, not a whole number from 0;",
        "data.jsonl:5: reference is a number, not a string;",
        "data.jsonl:6: id is missing, empty or not a string; give every record a unique string",
        "data.jsonl:7: not a JSON object (EOF while parsing a value",
        "data.jsonl:8: events[1] is not an event: missing field `caption`",
        "data.jsonl:8: inserted_index is 5, but there are 2 events",
        "data.jsonl:9: not a JSON object (invalid type: sequence",
        "data.jsonl:10: system is a number, not a string;",
        "data.jsonl:10: caption is empty;",
        "data.jsonl:10: events is missing, and the task `omission` needs it",
        "data.jsonl:11: system is empty;",
        "data.jsonl:11: caption is missing;",
        "data.jsonl:11: events[0] is not an event: invalid type",
    ];
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), wanted.len(), "{}", ran.stdout);
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.starts_with(wanted), "{line}\nshould start with\n{wanted}");
    }
    ran.says("7 records, 18 problems");
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let workspace = Workspace::new();
    workspace.write(
        "data.jsonl",
        &[
            r#"{"id": "a", "id": "b", "system": "s", "caption": "c"}"#,
            r#"{"id": "c", "system": "s", "caption": "mine", "split": 1, "caption": "another"}"#,
            r#"{"id": "d", "system": "s", "caption": "c", "nested": {"id": 1}}"#,
        ]
        .join("\n"),
    );
    workspace
        .run("validate data.jsonl")
        .exits(2)
        .prints("data.jsonl:1: key `id` is there twice; keep the one that is meant")
        .prints("data.jsonl:2: key `caption` is there twice;")
        .says("1 records, 2 problems");
    workspace.write("answers.jsonl", "");
    let run = "run --task hallucination --data data.jsonl --judge scripted:answers.jsonl --out out";
    workspace.run(run).exits(2).says("key `caption` is there twice");
}

#[test]
fn a_broken_record_counts_with_its_caption_type_and_its_inserted_event() {
    let workspace = Workspace::new();
    let broken = json!({"id": "a", "system": "s", "caption": "c", "caption_type": "theme", "reference": 3,
        "events": [{"caption": "e"}, {"visual": "v"}], "inserted_index": 1, "human": {"score": 2}, "split": "test"});
    workspace.write_lines("data.jsonl", &[broken]);
    workspace.write("answers.jsonl", "");
    for (task, caption_type) in [("omission", "theme"), ("score", "style")] {
        let run = format!("run --task {task} --data data.jsonl --judge scripted:answers.jsonl --out {task}");
        workspace.run(&run).exits(3);
        let verdict = &workspace.lines(&format!("{task}/verdicts.jsonl"))[0];
        assert_eq!(verdict["outcome"]["reason"], "invalid_record");
        assert_eq!(verdict["caption_type"], caption_type);
        assert_eq!(verdict["events"], json!({"record": 2, "inserted": true}));
        assert_eq!((&verdict["human"]["score"], &verdict["extra"]["split"]), (&json!(2), &json!("test")));
    }
    let summary: Value = serde_json::from_str(&workspace.read("omission/summary.json")).unwrap();
    let ieor = &summary["runs"][0]["systems"][0]["metrics"][2];
    assert_eq!((&ieor["name"], &ieor["records"], &ieor["n"]), (&json!("IEOR"), &json!(1), &json!(0)));
}

#[test]
fn a_blank_field_is_as_good_as_none_and_a_wrong_one_is_not() {
    let workspace = Workspace::new();
    workspace.write(
        "my/tone.toml",
        r#"
        description = "Rates the tone."
        [placeholders]
        text = { from = "caption" }
        tone = { from = "field:tone", absent = "any", values = ["warm", "cold"] }
        style = { from = "reference" }
        [answer]
        format = "json_score"
        key = "score"
        min = 0
        max = 1
        "#,
    );
    workspace.write("my/tone.txt", "{tone} {style}: {text}");
    let line = |id: &str, tone: &str, reference: &str| json!({"id": id, "system": "s", "caption": "c", "tone": tone, "reference": reference});
    let lines =
        [line("blank", " ", "r"), line("known", "WARM", "r"), line("other", "hot", "r"), line("none", "", "\t")];
    workspace.write_lines("data.jsonl", &lines);
    let ran = workspace.run("validate data.jsonl --prompts my --task tone").exits(2);
    let wanted = [
        "data.jsonl:3: tone is \"hot\", which the task `tone` does not know; use one of warm, cold",
        "data.jsonl:4: reference is empty, and the task `tone` needs it for {style}; fill it in",
    ];
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), wanted);
    for (id, prompt) in [("blank", "any r: c"), ("known", "warm r: c")] {
        let shown = workspace.run(&format!("prompts show tone --prompts my --data data.jsonl --id {id}")).exits(0);
        assert_eq!(shown.stdout, prompt);
    }
}

#[test]
fn a_survey_and_a_reading_agree_on_every_line_until_the_file_changes() {
    let workspace = Workspace::new();
    let hashes = |path: &std::path::Path| -> Vec<u64> {
        RecordReader::open(path, Limits::default()).unwrap().map(|entry| entry.unwrap().hash).collect()
    };
    let path = workspace.write_lines("data.jsonl", &[record("a", "s", "c"), record("b", "s", "c")]);
    let before = survey(&path, Limits::default(), Places::Skip, |_| {}).unwrap().line_hashes;
    assert_eq!(hashes(&path), before);
    workspace.write_lines("data.jsonl", &[record("a", "s", "c"), record("b", "s", "d")]);
    let after = hashes(&path);
    assert_eq!(after[0], before[0]);
    assert_ne!(after[1], before[1]);
}

#[test]
fn validate_finds_missing_videos_and_unknown_caption_types() {
    let workspace = Workspace::new();
    workspace.write("videos/here.mp4", "");
    let base = |id: &str| json!({"id": id, "system": "s", "caption": "c", "reference": "r", "caption_type": "brief"});
    let with = |id: &str, field: &str, value: Value| {
        let mut record = base(id);
        record[field] = value;
        record
    };
    workspace.write_lines(
        "data.jsonl",
        &[
            base("none"),
            with("here", "video", json!("videos/here.mp4")),
            with("gone", "video", json!("videos/gone.mp4")),
            with("list", "video", json!(["videos/2.png", "videos/here.mp4", "videos/3.png"])),
            with("kind", "caption_type", json!("haiku")),
        ],
    );
    let ran = workspace
        .run("validate data.jsonl --task score")
        .exits(2)
        .prints("data.jsonl:1: video is missing, and the task `score` shows frames")
        .prints("data.jsonl:3: video names videos/gone.mp4, which does not exist")
        .prints("data.jsonl:4: video names videos/2.png, which does not exist")
        .prints("data.jsonl:4: video names videos/3.png, which does not exist")
        .prints("data.jsonl:5: caption_type is \"haiku\"")
        .prints("use one of brief, detail, poem, narrative, style, theme");
    assert!(!ran.stdout.contains("data.jsonl:2:"), "{}", ran.stdout);
    // For a task that shows no frames a missing video is worth a word, not a failure.
    workspace.write_lines(
        "text.jsonl",
        &[json!({"id": "1", "system": "s", "caption": "c", "events": [{"caption": "e"}],
        "video": "gone.mp4"})],
    );
    workspace.run("validate text.jsonl --task hallucination").exits(0).says("warning: video names gone.mp4");
}

#[test]
fn validate_speaks_json_and_knows_good_data() {
    let workspace = Workspace::new();
    workspace.write_lines("data.jsonl", &[record("a", "s", "c"), record("b", "s", "")]);
    let ran = workspace.run("validate data.jsonl --task hallucination --json").exits(2);
    let problem: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!((&problem["line"], &problem["id"], &problem["field"]), (&json!(2), &json!("b"), &json!("caption")));
    workspace.write_lines("good.jsonl", &[record("a", "s", "c")]);
    workspace.run("validate good.jsonl --task hallucination --task omission").exits(0).says("1 records, 0 problems");
    workspace.write("empty.jsonl", "\n\n");
    workspace.run("validate empty.jsonl").exits(2).prints("no records");
    workspace.run("validate nowhere.jsonl").exits(1).says("nowhere.jsonl: No such file");
    workspace.run("validate .").exits(1).says("is a folder");
}

#[test]
fn a_byte_order_mark_crlf_and_whole_number_ids_are_fine() {
    let workspace = Workspace::new();
    let text = "\u{feff}{\"id\": 348, \"system\": \"s\", \"caption\": \"c\"}\r\n\r\n{\"id\": \"b\", \"system\": \"s\", \"caption\": \"c\"}";
    let path = workspace.write("data.jsonl", text);
    let ids: Vec<(u64, String)> = RecordReader::open(&path, Limits::default())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.line, entry.record.unwrap().id))
        .collect();
    assert_eq!(ids, [(1, "348".to_owned()), (3, "b".to_owned())]);
}

#[test]
fn a_line_over_the_limit_is_refused_and_the_rest_is_read() {
    let workspace = Workspace::new();
    let long = record("long", "s", &"x".repeat(5_000));
    workspace.write_lines("data.jsonl", &[record("a", "s", "c"), long, record("b", "s", "c")]);
    workspace
        .run("validate data.jsonl --max-line-bytes 1000")
        .exits(2)
        .prints("data.jsonl:2: longer than 1000 bytes; raise --max-line-bytes")
        .says("2 records, 1 problems");
    workspace.run(&format!("validate data.jsonl --max-line-bytes {}", usize::MAX)).exits(0).says("3 records");
    std::fs::write(workspace.path("latin.jsonl"), b"{\"id\": \"a\", \"caption\": \"caf\xe9\"}\n").unwrap();
    workspace.run("validate latin.jsonl").exits(2).prints("latin.jsonl:1: not UTF-8 at byte 27");
}

#[test]
fn unknown_fields_and_human_labels_pass_through_to_the_verdict() {
    let workspace = Workspace::new();
    let mut with_more = record("a", "s", "c");
    with_more["human"] = json!({"HALLUCINATION_COUNT": 1});
    with_more["split"] = json!("test");
    with_more["nested"] = json!({"k": [1, 2.5, null]});
    workspace.write_lines("data.jsonl", &[with_more]);
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": answer(1)})]);
    workspace.run("run --task hallucination --data data.jsonl --judge scripted:answers.jsonl --out out").exits(0);
    let verdict = &workspace.lines("out/verdicts.jsonl")[0];
    assert_eq!(verdict["human"], json!({"HALLUCINATION_COUNT": 1}));
    assert_eq!(verdict["extra"], json!({"split": "test", "nested": {"k": [1, 2.5, null]}}));
}

#[test]
fn what_a_run_writes_fits_the_published_schemas() {
    let workspace = Workspace::new();
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/example");
    let (data, answers) = (example.join("captions.jsonl"), example.join("answers.jsonl"));
    let validator = |format: &str| {
        let schema = workspace.run(&format!("schema {format}")).exits(0).stdout;
        jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap()
    };
    let fits = |validator: &jsonschema::Validator, value: &Value| {
        let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{value}\n{}", errors.join("\n"));
    };
    let (records, verdicts, summary, run) =
        (validator("record"), validator("verdict"), validator("summary"), validator("run"));
    for line in std::fs::read_to_string(&data).unwrap().lines() {
        fits(&records, &serde_json::from_str(line).unwrap());
    }
    for task in ["hallucination", "omission", "score"] {
        let (data, answers) = (data.display(), answers.display());
        workspace.run(&format!("run --task {task} --data {data} --judge scripted:{answers} --out {task}")).exits(0);
        workspace.lines(&format!("{task}/verdicts.jsonl")).iter().for_each(|verdict| fits(&verdicts, verdict));
        fits(&summary, &serde_json::from_str(&workspace.read(&format!("{task}/summary.json"))).unwrap());
        fits(&run, &serde_json::from_str(&workspace.read(&format!("{task}/run.json"))).unwrap());
    }
    // An id may be a whole number, as the reader takes it, and nothing else.
    for (id, valid) in [(json!("348"), true), (json!(348), true), (json!(3.5), false), (json!(null), false)] {
        assert_eq!(records.is_valid(&json!({"id": id, "system": "s", "caption": "c"})), valid, "{id}");
    }
    // And the schemas refuse what is wrong: a verdict has no third state.
    let mut verdict = workspace.lines("score/verdicts.jsonl")[0].clone();
    verdict["outcome"] = json!({"status": "scored"});
    assert!(!verdicts.is_valid(&verdict));
}

#[test]
fn the_names_that_extra_must_not_have_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(&Workspace::new().run("schema record").exits(0).stdout).unwrap();
    let mut names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let mut fields = Record::FIELDS;
    names.sort();
    fields.sort();
    assert_eq!(names, fields);
}
