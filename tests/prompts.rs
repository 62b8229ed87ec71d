//! Prompts are byte-exact, rendering is one pass, and tasks are data.

use capjudge::dataset::{Record, sha256_text};
use capjudge::prompt::{Segment, ground_truth_block};
use capjudge::task::{Catalog, Task};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::workspace::{Workspace, record};

fn parse(value: Value) -> Record {
    Record::from_fields(value.as_object().unwrap().clone()).unwrap()
}

#[test]
fn the_three_prompts_are_byte_exact() {
    let known = [
        ("hallucination", "fe3dae3a3af8ed1c9d9fc7d1e6aa28609aabb5c55dc937dddb81fb1d154dbb2c"),
        ("omission", "8632edf0af838183dcd5f79d614c121d367fe9108089352acb5744fb6ceafd04"),
        ("score", "5cc8f66d4b57571abbd8ebb5bb464d30ee35ddfd8fb42d470430dcf648d22844"),
    ];
    let catalog = Catalog::built_in().unwrap();
    for (name, sha256) in known {
        assert_eq!(sha256_text(catalog.get(name).unwrap().template.text()), sha256, "{name}");
    }
}

#[test]
fn every_byte_of_a_template_that_is_no_placeholder_is_in_the_prompt() {
    let catalog = Catalog::built_in().unwrap();
    let record = parse(json!({
        "id": "1", "system": "s", "caption": "CAPTION", "events": [{"caption": "EVENT"}], "inserted_index": 0,
        "caption_type": "theme", "reference": "REFERENCE",
    }));
    let block = ground_truth_block(&record.events);
    for (name, fills) in [
        ("hallucination", vec![("{GROUND_TRUTH_EVENTS}", block.as_str()), ("{INFERENCE_CAPTION}", "CAPTION")]),
        (
            "omission",
            vec![
                ("{GROUND_TRUTH_EVENTS}", block.as_str()),
                ("{INFERENCE_CAPTION}", "CAPTION"),
                ("{INSERT_POSITION}", "1"),
                ("{INSERTED_EVENT}", "Ground Truth Caption: EVENT"),
            ],
        ),
        ("score", vec![("{caption_type}", "style"), ("{output}", "CAPTION"), ("{reference}", "REFERENCE")]),
    ] {
        let task = catalog.get(name).unwrap();
        let mut wanted = task.template.text().to_owned();
        for (placeholder, value) in fills {
            wanted = wanted.replace(placeholder, value);
        }
        assert_eq!(task.prompt(&record).unwrap().to_display(""), wanted, "{name}");
    }
}

#[test]
fn frames_stand_once_right_before_the_part_that_belongs_to_the_sample() {
    let catalog = Catalog::built_in().unwrap();
    let record = parse(json!({
        "id": "1", "system": "s", "caption": "c", "caption_type": "brief", "reference": "r",
    }));
    let prompt = catalog.get("score").unwrap().prompt(&record).unwrap();
    let at = prompt.segments.iter().position(|segment| *segment == Segment::Frames).unwrap();
    assert_eq!(prompt.segments.iter().filter(|segment| **segment == Segment::Frames).count(), 1);
    assert_eq!(at, 1, "the rubric before the frames is one segment, the same for every record");
    let Segment::Trusted(after) = &prompt.segments[at + 1] else { panic!("{:?}", prompt.segments[at + 1]) };
    assert!(after.starts_with("### **Input:**"));
}

#[test]
fn ground_truth_events_render_as_numbered_blocks() {
    let record = parse(json!({"id": "1", "system": "s", "caption": "c", "events": [
        {"caption": "A man runs.", "visual": "Event: he runs\n\t• fast"}, {"caption": "He stops."},
    ]}));
    assert_eq!(
        ground_truth_block(&record.events),
        "Ground Truth Event #1:\nGround Truth Caption: A man runs.\n\nSupporting Visual Description:\nEvent: he runs\n\t• \
         fast\n\nGround Truth Event #2:\nGround Truth Caption: He stops."
    );
}

#[test]
fn an_omission_prompt_without_an_inserted_event_says_so() {
    let catalog = Catalog::built_in().unwrap();
    let without = parse(json!({"id": "1", "system": "s", "caption": "c", "events": [{"caption": "e"}]}));
    let text = catalog.get("omission").unwrap().prompt(&without).unwrap().to_display("");
    assert!(text.contains("(at position none):\n\"No event was inserted into this video"), "{text}");
    let with = parse(json!({"id": "1", "system": "s", "caption": "c", "inserted_index": 1,
        "events": [{"caption": "e"}, {"caption": "f", "visual": "v"}]}));
    let text = catalog.get("omission").unwrap().prompt(&with).unwrap().to_display("");
    let block = "(at position 2):\n\"Ground Truth Caption: f\n\nSupporting Visual Description:\nv\"\n";
    assert!(text.contains(block), "{text}");
}

/// Text made of what could confuse a template: placeholders, braces, quotes, control characters, special tokens.
fn nasty_text() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        prop::sample::select(vec![
            "{reference}",
            "{output}",
            "{caption_type}",
            "{GROUND_TRUTH_EVENTS}",
            "{INFERENCE_CAPTION}",
            "{N}",
            "{",
            "}",
            "{{",
            "}}",
            "\"",
            "'",
            "\\",
            "\n",
            "\r\n",
            "\t",
            "\0",
            "\u{1b}[2J",
            "\u{202e}",
            "<|im_end|>",
            "<image>",
            "$1",
            "%s",
            "{INSERTED_EVENT}",
            "### **Input:**",
            "漢",
            "🎬",
            "é",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        ".{1,12}",
    ];
    prop::collection::vec(parts, 1..10).prop_map(|parts| parts.concat())
}

/// Cuts the template by plain search, and asserts that the prompt has these segments and no others: the task's text
/// trusted, each value as given here where its placeholder stood, the frames at their anchor.
fn check_places(task: &Task, record: &Record, values: &[(&str, Segment<'_>)]) {
    let text = task.template.text();
    let anchor = task.spec.frames.as_ref().map(|frames| text.find(&frames.before).unwrap());
    let mut cuts: Vec<(usize, usize, Segment<'_>)> = anchor.map(|at| (at, at, Segment::Frames)).into_iter().collect();
    for (name, value) in values {
        let slot = format!("{{{name}}}");
        cuts.extend(text.match_indices(&slot).map(|(at, _)| (at, at + slot.len(), value.clone())));
    }
    cuts.sort_by_key(|(start, end, _)| (*start, *end));
    let mut wanted = Vec::new();
    let mut from = 0;
    for (start, end, segment) in cuts {
        wanted.extend((from < start).then(|| trusted(&text[from..start])));
        wanted.push(segment);
        from = end;
    }
    wanted.extend((from < text.len()).then(|| trusted(&text[from..])));
    assert_eq!(task.prompt(record).unwrap().segments, wanted, "{}", task.name);
}

fn trusted(text: &str) -> Segment<'_> {
    Segment::Trusted(text.into())
}

fn untrusted(text: &str) -> Segment<'_> {
    Segment::Untrusted(text.into())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_value_appears_unchanged_exactly_where_its_placeholder_stood(
        caption in nasty_text(), reference in nasty_text(), event in nasty_text(), visual in nasty_text(),
        is_inserted in any::<bool>(),
    ) {
        thread_local! { static CATALOG: Catalog = Catalog::built_in().unwrap(); }
        CATALOG.with(|catalog| {
            // A blank reference counts as none, and so would a blank event.
            let (reference, event, visual) = (format!("r{reference}"), format!("e{event}"), format!("v{visual}"));
            let mut value = json!({"id": "1", "system": "s", "caption": caption, "reference": reference,
                "caption_type": "Poem", "events": [{"caption": "first"}, {"caption": event, "visual": visual}]});
            if is_inserted {
                value["inserted_index"] = json!(1);
            }
            let record = parse(value);
            let inserted = format!("Ground Truth Caption: {event}\n\nSupporting Visual Description:\n{visual}");
            let events = format!(
                "Ground Truth Event #1:\nGround Truth Caption: first\n\nGround Truth Event #2:\n{inserted}");
            check_places(catalog.get("score").unwrap(), &record, &[
                ("output", untrusted(&caption)), ("reference", untrusted(&reference)),
                ("caption_type", trusted("poem")),
            ]);
            check_places(catalog.get("hallucination").unwrap(), &record, &[
                ("GROUND_TRUTH_EVENTS", untrusted(&events)), ("INFERENCE_CAPTION", untrusted(&caption)),
            ]);
            let (position, inserted) = if is_inserted {
                (untrusted("2"), untrusted(&inserted))
            } else {
                let none = "No event was inserted into this video: INSERTED_OMISSION_COUNT is 0.";
                (trusted("none"), trusted(none))
            };
            check_places(catalog.get("omission").unwrap(), &record, &[
                ("GROUND_TRUTH_EVENTS", untrusted(&events)), ("INFERENCE_CAPTION", untrusted(&caption)),
                ("INSERT_POSITION", position), ("INSERTED_EVENT", inserted),
            ]);
        });
    }
}

const COUNT_TASK: &str = r#"
description = "Counts errors of colour."
[placeholders]
CAPTION = { from = "caption" }
LANGUAGE = { from = "field:language", absent = "English" }
[answer]
format = "counts"
labels = ["RIGHT", "WRONG"]
[answer.sections]
events = ["COLOURS"]
labels = ["REVIEW"]
final = ["RESULT"]
[[answer.counts]]
name = "COLOUR_ERRORS"
label = "WRONG"
at_most = ["listed_events"]
[[metrics]]
name = "errors"
about = "mean number of wrong colours"
better = "lower"
kind = "mean"
of = "COLOUR_ERRORS"
"#;

const SCORE_TASK: &str = r#"
description = "Rates fluency from 1 to 10."
[placeholders]
text = { from = "caption" }
[answer]
format = "json_score"
key = "fluency"
min = 1
max = 10
[[metrics]]
name = "fluency"
about = "mean fluency"
better = "higher"
kind = "mean"
of = "score"
"#;

fn with_user_tasks() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("my/colours.toml", COUNT_TASK);
    workspace.write("my/colours.txt", "Which colours are wrong? ({LANGUAGE})\n{CAPTION}\n");
    workspace.write("my/fluency.toml", SCORE_TASK);
    workspace.write("my/fluency.txt", "Rate it: {text}\nAnswer {\"fluency\": 1-10}.");
    workspace.write_lines("data.jsonl", &[record("a", "s", "A red ball. A blue car.")]);
    workspace
}

#[test]
fn a_users_count_task_runs_without_recompiling() {
    let workspace = with_user_tasks();
    let answer = "COLOURS:\n1. red ball\n2. blue car\nREVIEW:\n1. red ball: RIGHT\n2. blue car: WRONG\nRESULT:\nColour errors: 1\n";
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": answer})]);
    let run = "run --prompts my --task colours --data data.jsonl --judge scripted:answers.jsonl --out out";
    workspace.run(run).exits(0).prints("errors");
    let verdict = &workspace.lines("out/verdicts.jsonl")[0];
    assert_eq!(verdict["outcome"]["counts"], json!({"COLOUR_ERRORS": 1}));
    assert_eq!(verdict["outcome"]["agree"], json!(true));
    assert_eq!(verdict["finish"], "done");
}

#[test]
fn a_users_score_task_runs_without_recompiling() {
    let workspace = with_user_tasks();
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": "Here: {\"fluency\": 7}"})]);
    let run = "run --prompts my --task fluency --data data.jsonl --judge scripted:answers.jsonl --out out";
    workspace.run(run).exits(0);
    assert_eq!(workspace.lines("out/verdicts.jsonl")[0]["outcome"]["score"], 7);
    // The folder is not needed to sum up: a run keeps its task.
    workspace.run("summarize out").exits(0).prints("7.000");
}

#[test]
fn a_task_of_the_same_name_replaces_the_built_in_one() {
    let workspace = Workspace::new();
    workspace.write("my/score.toml", &SCORE_TASK.replace("fluency", "score"));
    workspace.write("my/score.txt", "{text}");
    workspace.run("prompts show score --prompts my").exits(0).prints("{text}");
    workspace.run("prompts list --prompts my").exits(0).prints("hallucination").prints("my/score.toml");
}

#[test]
fn prompts_check_names_every_problem() {
    let workspace = with_user_tasks();
    workspace.run("prompts check").exits(0).prints("ok: omission");
    workspace.run("prompts check --prompts my").exits(0).prints("ok: colours");
    workspace.write("my/colours.txt", "{CAPTON} {LANGUAGE}");
    workspace.write("my/fluency.toml", &SCORE_TASK.replace("better", "beter"));
    workspace.write("my/lonely.txt", "no declaration");
    workspace
        .run("prompts check --prompts my")
        .exits(2)
        .prints("placeholder {CAPTION} is declared, but the template does not contain it")
        .prints("lonely.txt: a template without a declaration")
        .prints("missing field `better`");
    workspace.write("my/colours.txt", "{CAPTION} {LANGUAGE} {CAPTON}");
    workspace.run("prompts check --prompts my").exits(2).prints("colours: the template has {CAPTON}");
}

#[test]
fn show_prints_a_template_byte_for_byte_and_a_record_in_it() {
    let workspace = Workspace::new();
    let shown = workspace.run("prompts show omission").exits(0).stdout;
    assert_eq!(sha256_text(&shown), "8632edf0af838183dcd5f79d614c121d367fe9108089352acb5744fb6ceafd04");
    workspace.write_lines("data.jsonl", &[record("a", "s", "<|im_end|> {N}")]);
    workspace.run("prompts show hallucination --data data.jsonl").exits(0).prints("\"<|im_end|> {N}\"");
    let segments = workspace.run("prompts show hallucination --data data.jsonl --id a --json").exits(0).stdout;
    let segments: Vec<Value> = serde_json::from_str(&segments).unwrap();
    assert!(segments.contains(&json!({"untrusted": "<|im_end|> {N}"})));
    workspace.run("prompts show hallucination --data data.jsonl --id b").exits(2).says("no record with the id \"b\"");
    workspace.run("prompts show nonsense").exits(2).says("there is no task `nonsense`; there are hallucination");
}

#[test]
fn the_examples_of_the_documentation_are_valid_tasks() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tasks.md");
    let text = std::fs::read_to_string(path).unwrap();
    let workspace = Workspace::new();
    for name in ["fluency.txt", "fluency.toml", "colours.txt", "colours.toml"] {
        let (_, after) = text.split_once(&format!("`{name}`:\n\n```")).unwrap_or_else(|| panic!("no {name}"));
        let (block, _) = after.split_once("\n```").unwrap();
        let (_, content) = block.split_once('\n').unwrap();
        workspace.write(&format!("my/{name}"), content);
    }
    workspace.run("prompts check --prompts my").exits(0).prints("ok: colours").prints("ok: fluency");
}
