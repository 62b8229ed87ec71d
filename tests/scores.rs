//! How likely each score was: in verdicts, by the definition, and the same however it was computed.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use capjudge::answer::CountFrom;
use capjudge::dataset::{Entry, Record};
use capjudge::engine::{Guide, Sampling};
use capjudge::judge::{Desk, Guides, Judge, JudgeError, ModelJudge, Question, Settings};
use capjudge::model::{Model, ModelPrompt, Part, Piece, TokenId};
use capjudge::run::{Setting, judge_record};
use capjudge::task::Task;
use capjudge::verdict::{Distribution, Outcome, Score, Scored, Verdict};
use serde_json::{Value, json};

use crate::models::{all_logits, folder};
use crate::schedule::{Script, Step, model};
use crate::workspace::Workspace;

const PROMPT: &str = "Rate the caption: answer {\"score\": N} only.\n\nCaption: {text}\nScore: ";

fn task(min: u32, max: u32) -> Task {
    let toml = format!(
        "description = \"Short.\"\n[placeholders]\ntext = {{ from = \"caption\" }}\n[answer]\nformat = \"json_score\"\n\
         key = \"score\"\nreason = \"reason\"\nmin = {min}\nmax = {max}\n[[metrics]]\nname = \"expected\"\n\
         about = \"mean\"\nbetter = \"higher\"\nkind = \"mean\"\nof = \"expected\"\n"
    );
    Task::new("short", &toml, PROMPT.to_owned()).unwrap()
}

fn tokens(model: &Model, text: &str) -> Vec<TokenId> {
    model.tokenizer.encode(&[Piece::Trusted(text.into())]).unwrap()
}

/// What a judge is made to answer: one of these strings, with the model's choice at each difference.
#[derive(Debug)]
struct Format {
    steps: Vec<Step>,
}

impl Guides for Format {
    fn guide(
        &self,
        question: &Question<'_>,
        _: &Model,
        _: &ModelPrompt<'_>,
        _: usize,
    ) -> Result<Option<Box<dyn Guide>>, JudgeError> {
        assert_eq!((question.task.name.as_str(), question.events, question.inserted), ("short", 2, 1));
        Ok(Some(Box::new(Script::new(self.steps.clone()))))
    }
}

/// `before`, a digit of the model's choice, `after`.
fn format(model: &Model, before: &str, after: &str) -> Format {
    let digits = (0..5).map(|digit| tokens(model, &digit.to_string())[0]).collect();
    Format {
        steps: vec![Step::Forced(tokens(model, before)), Step::Choice(digits), Step::Forced(tokens(model, after))],
    }
}

fn entry(id: &str, caption: &str) -> Entry {
    let fields = json!({"id": id, "system": "s", "caption": caption, "inserted_index": 1,
        "events": [{"caption": "a"}, {"caption": "b"}]});
    let record = Record::from_fields(fields.as_object().unwrap().clone()).unwrap();
    Entry { line: 1, id: id.to_owned(), system: Some("s".to_owned()), hash: 0, record: Ok(record) }
}

fn judge(name: &str, format: Format, settings: &Settings) -> ModelJudge {
    ModelJudge::open(folder(name).to_str().unwrap(), settings, &mut |_| {}).unwrap().with_guides(Box::new(format))
}

fn verdict(judge: &mut ModelJudge, task: &Task, caption: &str) -> Verdict {
    let setting = Setting { task, count_from: CountFrom::Stated, reason: true, base: Path::new("") };
    let judged = judge_record(&setting, judge, None, entry("r", caption), &AtomicBool::new(false), &mut |_| {});
    judged.unwrap().unwrap().0
}

fn score(verdict: &Verdict) -> (&Score, Distribution) {
    match &verdict.outcome {
        Outcome::Scored(Scored::Score(score)) => (score, score.distribution.clone().expect("a model gave it")),
        outcome => panic!("{outcome:?}"),
    }
}

/// The logits behind a caption's prompt and some of its answer.
fn logits(model: &Model, task: &Task, caption: &str, answer: &[TokenId]) -> Vec<f64> {
    let record = entry("r", caption).record.unwrap();
    let prompt = task.prompt(&record).unwrap();
    let parts = prompt.segments.iter().map(|segment| match segment {
        capjudge::prompt::Segment::Trusted(text) => Part::Text(Piece::Trusted(text.as_ref().into())),
        capjudge::prompt::Segment::Untrusted(text) => Part::Text(Piece::Untrusted(text.as_ref().into())),
        capjudge::prompt::Segment::Frames => unreachable!(),
    });
    let prompt = model.prompt(None, &parts.collect::<Vec<_>>()).unwrap();
    let row = all_logits(&model.engine, &[prompt.tokens.as_slice(), answer].concat()).pop().unwrap();
    let top = row.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f64> = row.iter().map(|logit| f64::from(logit - top).exp()).collect();
    let all: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / all).collect()
}

#[track_caller]
fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
    }
}

#[test]
fn a_score_of_one_token_has_the_shares_of_its_digits() {
    for name in ["qwen2_a", "llama_a", "gemma3_a"] {
        let model = model(name);
        let task = task(0, 4);
        let before = "{\"score\": ";
        let mut judge = judge(name, format(&model, before, ", \"reason\": \"ok\"}"), &Settings::default());
        for caption in ["A dog runs", "Two men talk about a red car"] {
            let verdict = verdict(&mut judge, &task, caption);
            let (score, distribution) = score(&verdict);
            let likely = logits(&model, &task, caption, &tokens(&model, before));
            let digits: Vec<f64> = (0..5).map(|digit| likely[tokens(&model, &digit.to_string())[0] as usize]).collect();
            let all: f64 = digits.iter().sum();
            let shares: Vec<f64> = digits.iter().map(|share| share / all).collect();
            close(&distribution.probabilities, &shares);
            close(
                &[distribution.expected, distribution.entropy],
                &[
                    (0..5).map(|score| f64::from(score) * shares[score as usize]).sum(),
                    -shares.iter().map(|share| share * share.ln()).sum::<f64>(),
                ],
            );
            // Greedy choices take the likeliest.
            assert_eq!((score.raw_score, distribution.likeliest), (score.raw_score, score.raw_score), "{name}");
            assert_eq!(score.reason.as_deref(), Some("ok"));
        }
    }
}

#[test]
fn a_score_of_several_tokens_is_followed_by_the_chain_rule() {
    for name in ["qwen2_a", "qwen3_a"] {
        let model = model(name);
        let task = task(0, 12);
        let before = "{\"score\":";
        let mut judge = judge(name, format(&model, before, ", \"reason\": \"ok\"}"), &Settings::default());
        let verdict = verdict(&mut judge, &task, "A dog runs");
        let lead = tokens(&model, before);
        let digit = |digit: usize| tokens(&model, &digit.to_string())[0];
        let first = logits(&model, &task, "A dog runs", &lead);
        let second = logits(&model, &task, "A dog runs", &[lead.as_slice(), &[digit(1)]].concat());
        let any: f64 = (0..10).map(|next| second[digit(next) as usize]).sum();
        let of = |score: usize| match score {
            1 => first[digit(1) as usize] * (1.0 - any),
            10.. => first[digit(1) as usize] * second[digit(score - 10) as usize],
            _ => first[digit(score) as usize],
        };
        let all: f64 = (0..13).map(of).sum();
        let shares: Vec<f64> = (0..13).map(|score| of(score) / all).collect();
        close(&score(&verdict).1.probabilities, &shares);
    }
}

#[test]
fn the_place_of_a_score_is_found_as_the_reader_finds_it() {
    let model = model("qwen2_a");
    let task = task(0, 4);
    let found = |before: &str, after: &str| {
        let mut judge = judge("qwen2_a", format(&model, before, after), &Settings::default());
        verdict(&mut judge, &task, "A dog runs")
    };
    // In strings, lists and other objects; behind a draft; behind a thought.
    for (before, after) in [
        ("{\"score\": \"", "\", \"reason\": \"ok\"}"),
        ("{\"score\": [", "], \"reason\": \"ok\"}"),
        ("```json\n{ \"reason\": \"the \\\"score\\\": 3 is\", \"score\" : ", " }"),
        ("{\"verdict\": {\"reason\": \"ok\", \"score\":", "}}"),
        ("<think>a {\"score\": 1} maybe</think>{\"score\": ", ", \"reason\": \"ok\"}"),
    ] {
        let verdict = found(before, after);
        let (score, distribution) = score(&verdict);
        assert_eq!(distribution.likeliest, score.raw_score, "{before}");
        let likely = logits(&model, &task, "A dog runs", &tokens(&model, before));
        let share = |digit: u32| likely[tokens(&model, &digit.to_string())[0] as usize];
        let expected = share(2) / (0..5).map(share).sum::<f64>();
        close(&distribution.probabilities[2..3], &[expected]);
    }
    // A score that was forced on the model was not its choice, and one on a line of its own has no such place.
    let forced = Format { steps: vec![Step::Forced(tokens(&model, "{\"score\": 3, \"reason\": \"ok\"}"))] };
    let mut judge = judge("qwen2_a", forced, &Settings::default());
    let verdict = verdict(&mut judge, &task, "A dog runs");
    assert!(matches!(verdict.outcome, Outcome::Scored(Scored::Score(Score { distribution: None, .. }))));
    let line = found("Score: ", "\n");
    assert!(matches!(line.outcome, Outcome::Scored(Scored::Score(Score { distribution: None, .. }))), "{line:?}");
}

#[test]
fn likelihoods_are_the_same_bits_at_any_batch_and_however_tokens_are_guessed() {
    /// Asks about some captions, and keeps what it hears.
    struct Captions<'t> {
        task: &'t Task,
        left: Vec<Entry>,
        asked: Vec<Option<Box<capjudge::run::Asking<'t>>>>,
        verdicts: Vec<Option<Verdict>>,
    }

    impl<'t> Desk<'t> for Captions<'t> {
        fn next(&mut self) -> Option<Question<'t>> {
            let entry = self.left.pop()?;
            let setting = Setting { task: self.task, count_from: CountFrom::Stated, reason: true, base: Path::new("") };
            let number = self.asked.len() as u64;
            let none = AtomicBool::new(false);
            let begun = capjudge::run::begin(&setting, None, (number, 1), entry, &none, &mut |_| {});
            let capjudge::run::Begun::Ask(question, asking) = begun else { panic!("{begun:?}") };
            self.asked.push(Some(asking));
            self.verdicts.push(None);
            Some(question)
        }

        fn hear(&mut self, number: u64, said: capjudge::judge::Said<'_>) -> std::ops::ControlFlow<()> {
            self.asked[number as usize].as_mut().unwrap().hear(said)
        }

        fn end(&mut self, number: u64, answered: Result<capjudge::judge::Answered, JudgeError>) {
            let asking = self.asked[number as usize].take().unwrap();
            self.verdicts[number as usize] = Some(asking.end(answered).unwrap().0);
        }
    }

    let model = model("qwen3_a");
    let task = task(0, 12);
    let sampling = Sampling { temperature: 1.2, seed: 4, ..Sampling::default() };
    let all = |batch: usize, speculate: bool, reuse: bool| {
        let settings = Settings { batch, speculate, reuse, sampling, ..Settings::default() };
        let mut judge = judge("qwen3_a", format(&model, "{\"score\": ", ", \"reason\": \"ok\"}"), &settings);
        let left = (0..7).map(|i| entry(&format!("r{i}"), &"A dog runs. ".repeat(i + 1))).collect();
        let mut desk = Captions { task: &task, left, asked: Vec::new(), verdicts: Vec::new() };
        judge.answer_all(&mut desk).unwrap();
        let verdicts: Vec<Value> =
            desk.verdicts.into_iter().map(|verdict| serde_json::to_value(verdict.unwrap()).unwrap()).collect();
        assert!(verdicts.iter().all(|verdict| verdict["outcome"]["distribution"]["entropy"].as_f64().unwrap() > 0.0));
        verdicts
    };
    let expected = all(1, false, false);
    assert_eq!(expected.len(), 7);
    for (batch, speculate, reuse) in [(1, true, true), (2, false, true), (4, true, false), (8, true, true)] {
        assert_eq!(all(batch, speculate, reuse), expected, "batch {batch}, guesses {speculate}, reuse {reuse}");
    }
}

const RUN: &str = "run --prompts prompts --task short --data data.jsonl --judge scripted:answers.jsonl --out out -q";

/// A task with a reason, and answers that were recorded.
fn recorded(answers: &[Value]) -> Workspace {
    let workspace = Workspace::new();
    workspace.write("prompts/short.txt", PROMPT);
    workspace.write(
        "prompts/short.toml",
        "description = \"Short.\"\n[placeholders]\ntext = { from = \"caption\" }\n[answer]\nformat = \"json_score\"\n\
         key = \"score\"\nreason = \"reason\"\nmin = 0\nmax = 4\n[[metrics]]\nname = \"score\"\nabout = \"mean\"\n\
         better = \"higher\"\nkind = \"mean\"\nof = \"score\"\n",
    );
    let ids: Vec<String> = (0..answers.len()).map(|i| i.to_string()).collect();
    let captions = ids.iter().map(|id| json!({"id": id, "system": "s", "caption": "It says {\"score\": 4}."}));
    let plain = json!({"id": "plain", "system": "s", "caption": "A dog."});
    workspace.write_lines("data.jsonl", &captions.chain([plain]).collect::<Vec<_>>());
    let lines = ids.iter().zip(answers).map(|(id, answer)| json!({"id": id, "answer": answer}));
    let last = json!({"id": "plain", "answer": "{\"score\": 3, \"reason\": \"a long one\"}"});
    workspace.write_lines("answers.jsonl", &lines.chain([last]).collect::<Vec<_>>());
    workspace
}

#[test]
fn without_a_reason_an_answer_ends_at_its_score() {
    let workspace = recorded(&[
        json!("{\"score\": 4, \"reason\": \"quoted, perhaps\"}"),
        json!("It is good: {\"score\": 2, \"reason\": \"late\"}"),
        json!("{\"score\": 9, \"reason\": \"too much\"}"),
    ]);
    workspace.run(&format!("{RUN} --no-reason --max-unscored 50%")).exits(0);
    let verdicts = workspace.lines("out/verdicts.jsonl");
    let plain = &verdicts[3];
    assert_eq!((&plain["finish"], &plain["outcome"]["score"]), (&json!("done"), &json!(3)));
    assert!(plain["outcome"].get("reason").is_none(), "{plain}");
    assert!(!plain["answer"].as_str().unwrap().contains("long"), "{plain}");
    assert!(plain["outcome"].get("distribution").is_none(), "recorded answers have no logits");
    // What may be quoted from the caption is read to its end, as ever; so is what does not begin with its score.
    assert_eq!(verdicts[0]["outcome"]["reason"], "quoted, perhaps");
    assert_eq!(verdicts[1]["outcome"]["score"], 2);
    assert_eq!(verdicts[2]["outcome"]["reason"], "out_of_range");
    // It decides verdicts, so a run keeps to it.
    workspace.run(&format!("{RUN} --max-unscored 50%")).exits(2).says("setting of the judge (reason)");
    let judged = workspace
        .run("judge --prompts prompts --task short --judge scripted:answers.jsonl --id plain --caption Dog --no-reason")
        .exits(0);
    assert!(!judged.stdout.contains("long"), "{}", judged.stdout);
}

#[test]
fn the_expected_score_is_a_value_that_metrics_can_be_made_of() {
    let workspace = Workspace::new();
    let verdicts = [json!([0.25, 0.0, 0.0, 0.75, 0.0]), json!([0.0, 0.5, 0.5, 0.0, 0.0])];
    let expected = [2.25, 1.5];
    let task = task(0, 4);
    let lines: Vec<Value> = verdicts
        .iter()
        .zip(expected)
        .enumerate()
        .map(|(i, (shares, expected))| {
            json!({"id": i.to_string(), "system": "s", "task": "short", "events": {"record": 0, "inserted": false},
                "outcome": {"status": "scored", "score": 3, "raw_score": 3, "distribution":
                    {"probabilities": shares, "expected": expected, "entropy": 0.5, "likeliest": 3}}})
        })
        .chain([json!({"id": "none", "system": "s", "task": "short", "events": {"record": 0, "inserted": false},
            "outcome": {"status": "scored", "score": 3, "raw_score": 3}})])
        .collect();
    // A verdict is read back as it was written.
    let read: Verdict = serde_json::from_value(lines[0].clone()).unwrap();
    assert_eq!(score(&read).1.expected, 2.25);
    let mut tally = capjudge::metrics::Tally::new(&task);
    let mut add = |expected: Option<f64>| {
        tally.add(&capjudge::metrics::Facts {
            system: "s",
            caption_type: None,
            events: read.events,
            numbers: Ok(capjudge::metrics::Numbers::Score { score: 3, raw_score: 3, expected }),
        });
    };
    expected.iter().for_each(|expected| add(Some(*expected)));
    add(None);
    let systems = tally.systems(&Default::default(), capjudge::metrics::Bootstrap::default());
    let metric = &systems[0].metrics[0];
    assert_eq!((metric.value, metric.n, metric.records), (Some(1.875), 2, 3));
    drop(workspace);
}
