//! Kill the process anywhere, start it again: the same bytes as if nothing had happened.
//!
//! `CAPJUDGE_KILLS=100 cargo nextest run crashes` kills more often (100 is the full test; CI does fewer).

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::workspace::{Workspace, answer, record};

const RECORDS: usize = 3_000;
const RUN: &str =
    "run --task hallucination --data data.jsonl --judge scripted:answers.jsonl --quiet --max-unscored 100%";
const FILES: [&str; 3] = ["run.json", "verdicts.jsonl", "summary.json"];

/// Many records, some of them unscored.
fn many_records() -> Workspace {
    let workspace = Workspace::new();
    let ids: Vec<String> = (0..RECORDS).map(|index| format!("clip-{index}")).collect();
    let systems = ["x", "y", "z"];
    let records: Vec<Value> = ids.iter().enumerate().map(|(i, id)| record(id, systems[i % 3], "A dog runs.")).collect();
    let answers: Vec<Value> = ids
        .iter()
        .enumerate()
        .map(|(i, id)| match i % 10 {
            7 => json!({"id": id, "answer": "I cannot tell."}),
            other => json!({"id": id, "answer": answer(other as u32 % 3)}),
        })
        .collect();
    workspace.write_lines("data.jsonl", &records);
    workspace.write_lines("answers.jsonl", &answers);
    workspace
}

fn same_files(workspace: &Workspace, a: &str, b: &str) {
    for file in FILES {
        let (left, right) = (workspace.read(&format!("{a}/{file}")), workspace.read(&format!("{b}/{file}")));
        assert!(left == right, "{file} differs");
    }
}

#[test]
fn killed_at_random_moments_a_run_ends_with_the_same_bytes() {
    let kills: u32 = std::env::var("CAPJUDGE_KILLS").map_or(12, |text| text.parse().unwrap());
    let workspace = many_records();
    let start = Instant::now();
    workspace.run(&format!("{RUN} --out whole")).exits(0);
    let full = start.elapsed();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let (mut killed, mut round) = (0, 0);
    while killed < kills {
        round += 1;
        assert!(round < 20 * kills, "the run is too fast to be killed");
        let out = format!("out-{round}");
        // Kill, resume, kill again …, until the run gets through; then compare and start with a new folder.
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = (random >> 40) as f64 / (1u64 << 24) as f64;
            let mut child = workspace.start(&format!("{RUN} --out {out}"));
            thread::sleep(full.mul_f64(share * 0.9));
            // Child::kill is SIGKILL: nothing in the process gets to clean up.
            child.kill().unwrap();
            let ended = child.wait().unwrap();
            if ended.code() == Some(0) {
                break;
            }
            assert_eq!(ended.code(), None, "killed, or done: nothing else");
            killed += 1;
            if killed >= kills {
                workspace.run(&format!("{RUN} --out {out}")).exits(0);
                break;
            }
        }
        same_files(&workspace, "whole", &out);
        assert_eq!(workspace.lines(&format!("{out}/timings.jsonl")).len(), RECORDS);
    }
}

/// A retry pass that was killed is finished, not started again.
#[test]
fn a_retry_that_was_cut_off_ends_with_the_same_bytes() {
    let workspace = Workspace::new();
    let ids = ["a", "b", "c", "d", "e"];
    workspace.write_lines("data.jsonl", &ids.map(|id| record(id, "x", "c")));
    workspace.write_lines("answers.jsonl", &ids.map(|id| json!({"id": id, "answer": "no idea"})));
    workspace.run(&format!("{RUN} --out whole")).exits(0);
    workspace.run(&format!("{RUN} --out whole --retry-unscored")).exits(0);
    let whole = workspace.read("whole/verdicts.jsonl");
    assert_eq!(whole.lines().count(), 10);
    for lines in 5..10 {
        let cut: String = whole.split_inclusive('\n').take(lines).collect();
        workspace.write("cut/run.json", &workspace.read("whole/run.json"));
        workspace.write("cut/verdicts.jsonl", &cut);
        workspace.run(&format!("{RUN} --out cut --retry-unscored")).exits(0);
        same_files(&workspace, "whole", "cut");
    }
    workspace.run(&format!("{RUN} --out whole --retry-unscored")).exits(0);
    assert_eq!(workspace.lines("whole/verdicts.jsonl").last().unwrap()["attempt"], 3);
}

#[test]
fn verdicts_cut_at_any_byte_are_completed_to_the_same_bytes() {
    let workspace = Workspace::new();
    let ids = ["a", "b", "c"];
    workspace.write_lines("data.jsonl", &ids.map(|id| record(id, "x", "c")));
    workspace.write_lines("answers.jsonl", &ids.map(|id| json!({"id": id, "answer": answer(1)})));
    workspace.run(&format!("{RUN} --out whole")).exits(0);
    let whole = workspace.read("whole/verdicts.jsonl");
    for name in ["run.json", "timings.jsonl"] {
        workspace.write(&format!("cut/{name}"), &workspace.read(&format!("whole/{name}")));
    }
    let step = if std::env::var_os("CAPJUDGE_KILLS").is_some() { 1 } else { 37 };
    for cut in (0..whole.len()).filter(|cut| whole.is_char_boundary(*cut)).step_by(step) {
        workspace.write("cut/verdicts.jsonl", &whole[..cut]);
        let _ = std::fs::remove_file(workspace.path("cut/summary.json"));
        workspace.run(&format!("{RUN} --out cut")).exits(0);
        same_files(&workspace, "whole", "cut");
    }
}

#[test]
#[cfg(unix)]
fn ctrl_c_stores_what_is_done_and_the_same_command_goes_on() {
    let workspace = Workspace::new();
    let ids: Vec<String> = (0..40).map(|index| index.to_string()).collect();
    workspace.write_lines("data.jsonl", &ids.iter().map(|id| record(id, "x", "c")).collect::<Vec<_>>());
    let slow = |id: &String| json!({"id": id, "answer": answer(1), "delay_ms": 25});
    workspace.write_lines("answers.jsonl", &ids.iter().map(slow).collect::<Vec<_>>());
    workspace.run(&format!("{RUN} --out whole")).exits(0);
    let child = workspace.start(&format!("{RUN} --out out"));
    let path = workspace.path("out/verdicts.jsonl");
    while std::fs::metadata(&path).map_or(0, |file| file.len()) == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("the same command goes on"), "{stderr}");
    let stored = workspace.lines("out/verdicts.jsonl").len();
    assert!((1..40).contains(&stored), "{stored}");
    assert!(stderr.contains(&format!("{stored} of 40 verdicts are stored")), "{stderr}");
    assert!(!workspace.path("out/summary.json").exists());
    workspace.run(&format!("{RUN} --out out")).exits(0);
    same_files(&workspace, "whole", "out");
}
