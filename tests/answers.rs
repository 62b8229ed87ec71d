//! The corpus of labelled answers, and that no way of cutting an answer changes its reading.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use capjudge::answer::{CountFrom, Event, Finish, Reader, Reading, Values};
use capjudge::task::Catalog;
use proptest::prelude::*;
use serde_json::Value;

struct Case {
    class: String,
    name: String,
    task: String,
    answer: String,
    finish: Finish,
    inputs: Vec<String>,
    expect: Value,
}

/// Made once: the properties below ask for them thousands of times.
fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::built_in().unwrap())
}

fn corpus() -> &'static [Case] {
    static CORPUS: OnceLock<Vec<Case>> = OnceLock::new();
    CORPUS.get_or_init(read_corpus)
}

fn read_corpus() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/answers");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut cases = Vec::new();
    for path in paths {
        let class = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{class}: {error}: {line}"));
            let text = |key: &str| case[key].as_str().unwrap_or_else(|| panic!("{class}: no {key}: {line}")).to_owned();
            cases.push(Case {
                class: class.clone(),
                name: text("name"),
                task: text("task"),
                answer: text("answer"),
                finish: match case["finish"].as_str() {
                    Some("length") => Finish::Length,
                    _ => Finish::Stop,
                },
                inputs: case["inputs"].as_array().into_iter().flatten().map(|i| i.as_str().unwrap().into()).collect(),
                expect: case["expect"].clone(),
            });
        }
    }
    cases
}

/// Reads an answer in the given pieces; the events, in order, and the reading.
fn read(case: &Case, pieces: &[&str]) -> (Vec<Event>, Reading) {
    let task = catalog().get(&case.task).unwrap();
    let mut events = Vec::new();
    let mut reader = Reader::new(&task.format, CountFrom::Stated, case.inputs.iter().map(String::as_str));
    for piece in pieces {
        reader.push(piece, &mut |event| events.push(event));
    }
    let reading = reader.finish(case.finish, &mut |event| events.push(event));
    (events, reading)
}

/// The reading in the corpus's own words.
fn describe(reading: &Reading) -> Value {
    match &reading.values {
        Ok(Values::Counts(counts)) => {
            serde_json::json!({"counts": counts, "events": reading.listed_events, "agree": reading.agree})
        }
        Ok(Values::Score { score, .. }) => serde_json::json!({"score": score}),
        Err(unscored) => serde_json::json!({"unscored": unscored.reason}),
    }
}

#[test]
fn every_answer_of_the_corpus_reads_as_labelled() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "only {} answers", corpus.len());
    let mut wrong = Vec::new();
    for case in corpus {
        let found = describe(&read(case, &[&case.answer]).1);
        let expect = case.expect.as_object().unwrap();
        if expect.is_empty() || expect.iter().any(|(key, value)| found.get(key) != Some(value)) {
            wrong.push(format!("{}/{}: expected {}, read {found}", case.class, case.name, case.expect));
        }
    }
    assert!(wrong.is_empty(), "{} of {} answers read wrongly:\n{}", wrong.len(), corpus.len(), wrong.join("\n"));
}

#[test]
fn answers_cut_after_every_character_give_the_same_events() {
    for case in corpus() {
        let whole = read(case, &[&case.answer]);
        let mut bytes = [0; 4];
        let letters: Vec<String> = case.answer.chars().map(|c| c.encode_utf8(&mut bytes).to_owned()).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(whole, read(case, &letters), "{}/{}", case.class, case.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn every_split_of_an_answer_gives_the_same_events(pick in any::<prop::sample::Index>(), seed in any::<u64>()) {
            let case = pick.get(corpus());
        let mut pieces = Vec::new();
        let mut rest = case.answer.as_str();
        let mut state = seed | 1;
        while !rest.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut length = ((state >> 40) as usize % 24).min(rest.len());
            while !rest.is_char_boundary(length) {
                length += 1;
            }
            pieces.push(&rest[..length]);
            rest = &rest[length..];
        }
        prop_assert_eq!(read(case, &[&case.answer]), read(case, &pieces));
    }

    /// Text made of what answers are made of, in any order: nothing panics, and no split changes the reading.
    #[test]
    fn no_text_breaks_the_reader(
        parts in prop::collection::vec(prop::sample::select(FRAGMENTS.to_vec()), 0..40),
        noise in ".{0,40}",
        task in prop::sample::select(vec!["hallucination", "omission", "score"]),
        length in any::<bool>(),
    ) {
            let answer = format!("{}{noise}{}", parts[..parts.len() / 2].concat(), parts[parts.len() / 2..].concat());
        let finish = if length { Finish::Length } else { Finish::Stop };
        let case = Case {
            class: String::new(), name: String::new(), task: task.into(), answer: answer.clone(), finish,
            inputs: vec![noise.clone()], expect: Value::Null,
        };
        let mut bytes = [0; 4];
        let letters: Vec<String> = answer.chars().map(|c| c.encode_utf8(&mut bytes).to_owned()).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        let whole = read(&case, &[&answer]);
        prop_assert_eq!(&whole, &read(&case, &letters));
        if let Err(unscored) = &whole.1.values && let Some([start, end]) = unscored.span {
            prop_assert!(answer.get(start..end).is_some(), "span {start}..{end} is not in the answer");
        }
    }
}

/// Each of these once took time that grew with the square of its length, or all of the stack.
#[test]
fn long_answers_are_read_in_one_go() {
    let many = |part: &str| part.repeat(400_000 / part.len());
    let counts = [
        many("FINAL METRICS: "),
        many("HALLUCINATION_COUNT: 1, "),
        many("HALLUCINATION_COUNT: x, "),
        many("\n- HALLUCINATION_COUNT: 1"),
        format!("EVENT-BY-EVENT REASONING:\n{}", many("- was SUPPORTED because\n")),
        format!("EVENT-BY-EVENT REASONING:\n{}", many("This was [ / ] inserted ")),
        (0..40_000).map(|event| format!("Event #{event}: SUPPORTED\n")).collect(),
        format!("FINAL METRICS:\n{}", many("so HALLUCINATION_COUNT: 2. ")),
        many("</think>"),
    ];
    let scores = [
        format!("{{\"score\": [{}", many("1,")),
        format!("{}{}", many("\n"), many(">")),
        format!("{}{}", many(" "), many(">")),
        format!("{{a: \"{}", many("\", b")),
        many("{\"score\": 3} "),
        many("{"),
        many("<think>"),
        many("score: 3 \"score\""),
    ];
    let both = counts.iter().map(|answer| ("omission", answer)).chain(counts.iter().map(|a| ("hallucination", a)));
    for (task, answer) in both.chain(scores.iter().map(|answer| ("score", answer))) {
        let inputs = vec!["HALLUCINATION_COUNT: 7 {\"score\": 3}".to_owned()];
        let (class, name, expect) = (String::new(), String::new(), Value::Null);
        let case =
            Case { class, name, task: task.into(), answer: answer.clone(), finish: Finish::Stop, inputs, expect };
        read(&case, &[answer]);
    }
}

const FRAGMENTS: [&str; 40] = [
    "\n",
    "\r\n",
    " ",
    "EXTRACTED_EVENTS:",
    "GROUND_TRUTH_EVENTS:\n",
    "EVENT-BY-EVENT REASONING:",
    "FINAL METRICS:\n",
    "- HALLUCINATION_COUNT: ",
    "TOTAL_OMISSION_COUNT",
    "INSERTED_OMISSION_COUNT = ",
    "1. ",
    "2) ",
    "• Event #1 – ",
    "was SUPPORTED because ",
    "was HALLUCINATED",
    " was OMITTED because",
    "was not an inserted one.",
    "3",
    "[2]",
    "-1",
    "2.5",
    "**",
    "\"",
    "“",
    "”",
    "{",
    "}",
    "\"score\": ",
    "'score': ",
    "\"reason\": \"",
    "\\",
    ",",
    "[0-4]",
    "<think>",
    "</think>",
    "```json\n",
    "> ",
    "：",
    "Score: 3\n",
    "é漢🎬",
];
