//! How fast answers are read, in MB/s: `cargo bench --bench reader`.
//!
//! `typical`: the answers of `docs/example`, in the format that the prompts ask for. `corpus`: the short and odd ones of
//! the test corpus, where the fixed cost of a reader shows. Each whole, and in pieces of a token's size, as a judge
//! streams them. Bytes count up to where the reader is done.

use std::fs;
use std::path::Path;

use capjudge::answer::{CountFrom, Finish, Format, Reader};
use capjudge::task::Catalog;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};

fn main() {
    divan::main();
}

/// The answers of a task in the JSON Lines files of a folder.
fn answers(folder: &str, task: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder of the repository") {
        let text = fs::read_to_string(entry.expect("a readable folder").path()).expect("a readable file");
        for line in text.lines() {
            let case: serde_json::Value = serde_json::from_str(line).expect("JSON Lines");
            if case["task"] == task {
                answers.push(case["answer"].as_str().expect("an answer").to_owned());
            }
        }
    }
    answers
}

fn bench(bencher: Bencher, folder: &str, task: &str, piece: usize) {
    let catalog = Catalog::built_in().expect("the built-in tasks are valid");
    let format = &catalog.get(task).expect("a built-in task").format;
    let answers = answers(folder, task);
    let bytes: usize = answers.iter().map(|answer| read(format, answer, piece)).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        for answer in &answers {
            black_box(read(format, answer, piece));
        }
    });
}

/// Reads an answer in pieces until the reader is done; how many bytes that took.
fn read(format: &Format, answer: &str, piece: usize) -> usize {
    let mut reader = Reader::new(format, CountFrom::Stated, Vec::<&str>::new());
    let mut rest = answer;
    while !rest.is_empty() {
        let mut end = piece.min(rest.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let done = reader.push(&rest[..end], &mut |event| {
            black_box(event);
        });
        rest = &rest[end..];
        if done {
            break;
        }
    }
    black_box(reader.finish(Finish::Stop, &mut |_| {}));
    answer.len() - rest.len()
}

const TYPICAL: &str = "docs/example";
const CORPUS: &str = "tests/data/answers";
const TASKS: [&str; 3] = ["hallucination", "omission", "score"];

#[divan::bench(args = TASKS)]
fn typical_in_pieces_of_4_bytes(bencher: Bencher, task: &str) {
    bench(bencher, TYPICAL, task, 4);
}

#[divan::bench(args = TASKS)]
fn typical_whole(bencher: Bencher, task: &str) {
    bench(bencher, TYPICAL, task, usize::MAX);
}

#[divan::bench(args = TASKS)]
fn corpus_in_pieces_of_4_bytes(bencher: Bencher, task: &str) {
    bench(bencher, CORPUS, task, 4);
}

#[divan::bench(args = TASKS)]
fn corpus_whole(bencher: Bencher, task: &str) {
    bench(bencher, CORPUS, task, usize::MAX);
}
