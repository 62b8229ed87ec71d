//! Videos from the command line: the frames of both decoders, damage, limits, the cache, verdicts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::workspace::{Ran, Workspace};

const CLIPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/media");

/// So much less of box-late.mp4 lacks its last frames.
const CUT: usize = 300;

/// The committed clips that both decoders know.
const BOTH: [&str; 12] = [
    "box-cut.mp4",
    "box-fragments.mp4",
    "box-fragments-sound.mp4",
    "box-live.mkv",
    "box-late.mkv",
    "box-late.mp4",
    "box-uneven.mov",
    "box-vp9.webm",
    "box-av1.mp4",
    "box-hevc.mp4",
    "h264-high.mp4",
    "h264-mbaff.mp4",
];

fn clip(name: &str) -> PathBuf {
    Path::new(CLIPS).join(name)
}

fn frames(workspace: &Workspace, path: &Path, flags: &str) -> Ran {
    let mut command = workspace.command(&format!("frames --no-frame-cache {flags}"));
    Ran::from(command.arg(path).output().unwrap())
}

fn listed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {:?} {}", ran.stdout, ran.stderr))
}

fn has_ffmpeg() -> bool {
    let there = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !there {
        eprintln!("ffmpeg is not installed: not compared with it");
    }
    there
}

/// A clip with the bytes at a place replaced, in the workspace.
fn damaged(workspace: &Workspace, name: &str, at: usize, with: &[u8]) -> PathBuf {
    let mut bytes = fs::read(clip(name)).unwrap();
    bytes[at..at + with.len()].copy_from_slice(with);
    let path = workspace.path(&format!("damaged-{name}"));
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn both_decoders_give_the_same_bytes_at_the_same_times() {
    if !has_ffmpeg() {
        return;
    }
    let workspace = Workspace::new();
    for name in BOTH {
        let ask = |decoder: &str| {
            let ran = frames(&workspace, &clip(name), &format!("--frames 40 --json --decoder {decoder}")).exits(0);
            listed(&ran)
        };
        let (ours, theirs) = (ask("builtin"), ask("ffmpeg"));
        assert_eq!(ours["total"], theirs["total"], "{name}");
        assert_eq!(ours["frames"].as_array().unwrap().len(), 40);
        for (a, b) in ours["frames"].as_array().unwrap().iter().zip(theirs["frames"].as_array().unwrap()) {
            assert_eq!((&a["index"], &a["sha256"], &a["width"]), (&b["index"], &b["sha256"], &b["width"]), "{name}");
            let (a, b) = (a["time"].as_f64().unwrap(), b["time"].as_f64().unwrap());
            assert!((a - b).abs() < 1e-6, "{name}: {a} and {b}");
        }
    }
}

#[test]
fn frames_do_not_depend_on_threads_or_on_what_else_is_asked_for() {
    let workspace = Workspace::new();
    for name in BOTH {
        let all = listed(&frames(&workspace, &clip(name), "--frames 64 --json --decoder builtin").exits(0));
        let hash = |index: &Value| {
            let found = all["frames"].as_array().unwrap().iter().find(|frame| frame["index"] == *index);
            found.unwrap_or_else(|| panic!("{name}: no frame {index}"))["sha256"].clone()
        };
        for flags in ["--frames 2 --decode-threads 1", "--frames 3 --decode-threads 3", "--sample midpoint --frames 1"]
        {
            let some = listed(&frames(&workspace, &clip(name), &format!("{flags} --json --decoder builtin")).exits(0));
            for frame in some["frames"].as_array().unwrap() {
                assert_eq!(frame["sha256"], hash(&frame["index"]), "{name} {flags}");
            }
        }
    }
}

#[test]
fn a_list_a_folder_and_a_sheet_are_written() {
    let workspace = Workspace::new();
    let path = clip("h264-high.mp4");
    frames(&workspace, &path, "--frames 3").exits(0).prints("#0 ").prints("0.000 s");
    frames(&workspace, &path, "--frames 3 --out sheet.png").exits(0).says("3 frames are in sheet.png");
    let sheet = image::open(workspace.path("sheet.png")).unwrap();
    assert!(sheet.width() > sheet.height(), "three in a row");
    let ran = frames(&workspace, &path, "--frames 3 --out some/where --json").exits(0);
    let report = listed(&ran);
    let mut files: Vec<_> =
        fs::read_dir(workspace.path("some/where")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 3);
    // What was written is what was listed: a folder of frames is a video too.
    let again = listed(&frames(&workspace, &workspace.path("some/where"), "--frames 3 --json").exits(0));
    let hashes = |report: &Value| -> Vec<Value> {
        report["frames"].as_array().unwrap().iter().map(|frame| frame["sha256"].clone()).collect()
    };
    assert_eq!(hashes(&report), hashes(&again));
}

#[test]
fn a_cut_file_gives_the_frames_that_are_there_and_says_so() {
    let workspace = Workspace::new();
    let bytes = fs::read(clip("box-late.mp4")).unwrap();
    let path = workspace.path("cut.mp4");
    fs::write(&path, &bytes[..bytes.len() - CUT]).unwrap();
    let whole = listed(&frames(&workspace, &clip("box-late.mp4"), "--frames 64 --json").exits(0));
    let ran = frames(&workspace, &path, "--frames 64 --json").exits(2).says("the file is cut off");
    let report = listed(&ran);
    assert!(report["total"].as_u64() < whole["total"].as_u64());
    for frame in report["frames"].as_array().unwrap() {
        let same = |other: &&Value| other["index"] == frame["index"];
        let sound = whole["frames"].as_array().unwrap().iter().find(same).unwrap();
        assert_eq!(frame["sha256"], sound["sha256"], "a frame that is there is the right one");
    }
    frames(&workspace, &path, "--frames 2 --json --allow-damaged").exits(0).says("the file is cut off");
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let workspace = Workspace::new();
    workspace.write("text.mp4", "this is no video");
    workspace.write("empty.mp4", "");
    let missing = workspace.path("missing.mp4");
    frames(&workspace, &missing, "").exits(1).says("missing.mp4");
    frames(&workspace, &workspace.path("text.mp4"), "--decoder builtin").exits(2).says("text.mp4");
    frames(&workspace, &workspace.path("empty.mp4"), "--decoder builtin").exits(2).says("empty.mp4");
    let path = clip("h264-high.mp4");
    frames(&workspace, &path, "--decode-threads 18446744073709551615").exits(2).says("--decode-threads");
    frames(&workspace, &path, "--fps 1e300").exits(2).says("at most 1000000");
    frames(&workspace, &path, "--frames 100000 --max-decode-memory 100").exits(2).says("--max-decode-memory");
    frames(&workspace, &path, "--max-seconds 18446744073709551615").exits(0);
    let copy = workspace.path("copy.png");
    fs::copy(&path, &copy).unwrap();
    frames(&workspace, &copy, "--out copy.png").exits(2).says("the video itself");
    frames(&workspace, &path, "--frames 0").exits(2).says("--frames 0");
    frames(&workspace, &path, "--fps 0").exits(2).says("--fps 0");
    frames(&workspace, &path, "--sample model").exits(2).says("--sample-model DIR");
    frames(&workspace, &path, "--sample uniform --fps 2").exits(2).says("--fps goes with --sample fps");
    frames(&workspace, &path, "--max-pixels 100").exits(2).says("--max-pixels");
    frames(&workspace, &path, "--max-video-frames 3").exits(2).says("--max-video-frames");
    frames(&workspace, &path, "--max-decoded 1 --frames 8").exits(2).says("--max-decoded");
    frames(&workspace, &path, "--max-video-bytes 10").exits(2).says("--max-video-bytes");
    let unknown = frames(&workspace, &clip("h264-444.mp4"), "--decoder builtin").exits(2);
    assert!(unknown.stderr.contains("--decoder ffmpeg"), "{}", unknown.stderr);
}

#[test]
fn without_ffmpeg_the_built_in_decoder_does_and_the_rest_is_said() {
    let workspace = Workspace::new();
    let ask = |name: &str, flags: &str| {
        let mut command = workspace.command(&format!("frames --no-frame-cache {flags}"));
        Ran::from(command.arg(clip(name)).env("PATH", "").output().unwrap())
    };
    ask("h264-high.mp4", "").exits(0);
    ask("h264-high.mp4", "--decoder ffmpeg").exits(2).says("no program `ffmpeg`");
    ask("h264-444.mp4", "").exits(2).says("not installed");
}

/// A worker that is not done in time, or needs too much, is ended with all that it started.
#[test]
fn limits_of_time_and_memory_hold() {
    let workspace = Workspace::new();
    let path = clip("h264-high.mp4");
    let start = Instant::now();
    frames(&workspace, &path, "--max-seconds 0").exits(2).says("--max-seconds");
    frames(&workspace, &path, "--max-decode-memory 1").exits(2).says("--max-decode-memory");
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// Two `tables` of an MP4 file that claim what is not there.
#[test]
fn a_header_that_claims_too_much_is_refused_at_once() {
    let workspace = Workspace::new();
    let bytes = fs::read(clip("h264-high.mp4")).unwrap();
    let find = |name: &[u8]| bytes.windows(4).position(|window| window == name).unwrap();
    // A million samples of one size, without a table; stsz: version and flags, size, count.
    let stsz = find(b"stsz") + 8;
    let path = damaged(&workspace, "h264-high.mp4", stsz, &[0, 0, 0, 1, 0, 0x10, 0, 0]);
    let start = Instant::now();
    let ran = frames(&workspace, &path, "--decoder builtin");
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    let path = damaged(&workspace, "h264-high.mp4", stsz, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
    frames(&workspace, &path, "--decoder builtin").exits(2);
    // A picture of 65,535 × 65,535: in the sample entry, width and height stand 24 bytes behind its name.
    let entry = find(b"stsd") + 16 + 4 + 24;
    let path = damaged(&workspace, "h264-high.mp4", entry, &[0xff; 4]);
    frames(&workspace, &path, "--decoder builtin").exits(2).says("65535 × 65535").says("--max-pixels");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn whatever_is_flipped_the_main_process_stands() {
    let workspace = Workspace::new();
    for name in ["h264-high.mp4", "box-hevc.mp4", "box-vp9.webm", "box-av1.mp4"] {
        let length = fs::metadata(clip(name)).unwrap().len() as usize;
        for part in 1..12 {
            let path = damaged(&workspace, name, length * part / 12, &[0xa5, 0x5a, 0xff]);
            let ran = frames(&workspace, &path, "--frames 64 --json --decoder builtin --max-seconds 20");
            assert!(matches!(ran.code, Some(0..=2)), "{name} {part}: {:?} {}", ran.code, ran.stderr);
        }
    }
}

#[test]
fn frames_are_kept_and_a_broken_entry_is_none() {
    let workspace = Workspace::new();
    let ask = |flags: &str| {
        let mut command = workspace.command(&format!("frames --json --frames 3 --frame-cache kept {flags}"));
        Ran::from(command.arg(clip("h264-high.mp4")).output().unwrap()).exits(0).stdout
    };
    let entries = || -> Vec<PathBuf> {
        let files = fs::read_dir(workspace.path("kept")).unwrap();
        files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "frames")).collect()
    };
    let first = ask("");
    let [entry] = &entries()[..] else { panic!("one entry") };
    let bytes = fs::read(entry).unwrap();
    // It is read, and not decoded again: a worker would not get that far.
    assert_eq!(ask("--max-seconds 0"), first);
    // Another sampler is another entry, and limits are not passed by.
    ask("--sample midpoint");
    assert_eq!(entries().len(), 2);
    let mut command = workspace.command("frames --json --frames 3 --frame-cache kept --max-pixels 100");
    Ran::from(command.arg(clip("h264-high.mp4")).output().unwrap()).exits(2);
    // Damage anywhere is found, and mended.
    for at in [0, 9, 40, 90, 120, bytes.len() / 2, bytes.len() - 20] {
        let mut broken = bytes.clone();
        broken[at] ^= 0x55;
        fs::write(entry, &broken).unwrap();
        assert_eq!(ask(""), first, "byte {at}");
    }
    fs::write(entry, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(ask(""), first);
    // A bound of nothing keeps nothing.
    ask("--frame-cache-size 0 --sample fps --fps 1");
    assert_eq!(entries().len(), 0);
}

#[test]
fn several_processes_share_a_cache() {
    let workspace = Workspace::new();
    let start = |sampler: &str| {
        let words = format!("frames --json --frame-cache shared --frame-cache-size 1 --sample {sampler}");
        let mut command = workspace.command(&words);
        command.arg(clip("h264-high.mp4")).stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let samplers = ["uniform", "uniform", "midpoint", "midpoint", "fps", "uniform"];
    let running: Vec<_> = samplers.iter().map(|sampler| start(sampler)).collect();
    let printed: Vec<_> = running.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    assert!(printed.iter().all(|output| output.status.success()));
    assert_eq!(printed[0].stdout, printed[1].stdout);
    assert_eq!(printed[2].stdout, printed[3].stdout);
    assert_eq!(printed[0].stdout, printed[5].stdout);
    let left = fs::read_dir(workspace.path("shared")).unwrap().map(|file| file.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| !name.to_string_lossy().ends_with(".frames")).collect();
    assert!(left.is_empty(), "nothing half done is left: {left:?}");
}

/// A clip whose boxes of that name are called something else.
fn without(workspace: &Workspace, name: &str, boxes: &[&[u8; 4]]) -> PathBuf {
    let mut bytes = fs::read(clip(name)).unwrap();
    for name in boxes {
        let at = bytes.windows(4).position(|window| window == *name).unwrap();
        bytes[at..at + 4].copy_from_slice(b"free");
    }
    let path = workspace.path(&format!("without-{name}"));
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_file_without_delays_is_shown_in_the_order_of_its_stream() {
    let workspace = Workspace::new();
    for name in ["h264-high.mp4", "box-hevc.mp4"] {
        let hashes = |path: &Path| -> Vec<Value> {
            let report = listed(&frames(&workspace, path, "--frames 64 --json --decoder builtin").exits(0));
            report["frames"].as_array().unwrap().iter().map(|frame| frame["sha256"].clone()).collect()
        };
        assert_eq!(hashes(&without(&workspace, name, &[b"ctts", b"edts"])), hashes(&clip(name)), "{name}");
    }
}

#[test]
fn times_that_contradict_the_stream_are_damage() {
    let workspace = Workspace::new();
    let bytes = fs::read(clip("h264-high.mp4")).unwrap();
    let ctts = bytes.windows(4).position(|window| window == b"ctts").unwrap();
    // Version and flags, number of entries, then a count and a delay each: the delay of the third.
    let path = damaged(&workspace, "h264-high.mp4", ctts + 12 + 2 * 8 + 4, &[0, 0, 0x40, 0]);
    frames(&workspace, &path, "--decoder builtin").exits(2).says("contradict their order");
    // A table that says that it is empty, and is not.
    let path = damaged(&workspace, "h264-high.mp4", ctts + 8, &[0, 0, 0, 0]);
    frames(&workspace, &path, "--decoder builtin").exits(2).says("claims 0 entries");
}

#[test]
#[cfg(unix)]
fn a_name_that_is_no_text_is_a_name() {
    use std::os::unix::ffi::OsStringExt;
    let workspace = Workspace::new();
    let name = std::ffi::OsString::from_vec(b"bad\xff.mp4".to_vec());
    let path = workspace.path("x").with_file_name(name);
    fs::copy(clip("h264-high.mp4"), &path).unwrap();
    for cache in ["--no-frame-cache", "--frame-cache kept", "--frame-cache kept"] {
        let mut command = workspace.command(&format!("frames --json {cache}"));
        Ran::from(command.arg(&path).output().unwrap()).exits(0);
    }
    let ran = frames(&workspace, &path.with_file_name("bad-too.mp4"), "");
    ran.exits(1).says("bad-too.mp4");
}

#[test]
#[cfg(unix)]
fn an_interrupted_worker_is_ended_and_cleaned_up() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("scratch")).unwrap();
    // A pipe that nobody writes to is no file; a folder with a huge number of frames to pick takes its time.
    for image in 0..40 {
        fs::create_dir_all(workspace.path("many")).unwrap();
        let picture = image::RgbImage::from_fn(700, 700, |x, y| image::Rgb([x as u8, y as u8, image]));
        picture.save(workspace.path(&format!("many/{image}.png"))).unwrap();
    }
    let mut command = workspace.command("frames --no-frame-cache --frames 40 --decode-threads 1");
    command.arg(workspace.path("many")).env("TMPDIR", workspace.path("scratch"));
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while fs::read_dir(workspace.path("scratch")).unwrap().next().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the worker did not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    // Done before the signal came, or interrupted: nothing is left behind either way.
    assert!(matches!(status.code(), Some(130 | 0)), "{status}");
    assert!(fs::read_dir(workspace.path("scratch")).unwrap().next().is_none());
}

fn score_record(id: &str, video: &Path) -> Value {
    json!({"id": id, "system": "x", "caption": "A ball rolls over the grass and stops.", "caption_type": "poem",
        "reference": "A ball rolls and stops.", "video": video})
}

const RUN: &str = "run --task score --data data.jsonl --judge scripted:answers.jsonl --no-frame-cache --with-frames";

#[test]
fn verdicts_name_their_frames_and_damaged_videos_are_unscored() {
    let workspace = Workspace::new();
    let bytes = fs::read(clip("box-late.mp4")).unwrap();
    fs::write(workspace.path("cut.mp4"), &bytes[..bytes.len() - CUT]).unwrap();
    workspace.write("text.mp4", "this is no video");
    let videos = [clip("h264-high.mp4"), "cut.mp4".into(), "text.mp4".into(), "missing.mp4".into(), clip("images")];
    let records: Vec<Value> = (0..).zip(&videos).map(|(i, video)| score_record(&format!("r{i}"), video)).collect();
    workspace.write_lines("data.jsonl", &records);
    let answers = (0..5).map(|i| json!({"id": format!("r{i}"), "answer": "{\"score\": 3, \"reason\": \"fine\"}"}));
    workspace.write_lines("answers.jsonl", &answers.collect::<Vec<_>>());
    let mut command = workspace.command(&format!("{RUN} --out out --max-unscored 100%"));
    Ran::from(command.env("PATH", "").output().unwrap()).exits(0);
    let verdicts = workspace.lines("out/verdicts.jsonl");
    let reasons: Vec<&Value> = verdicts.iter().map(|verdict| &verdict["outcome"]["reason"]).collect();
    assert_eq!(
        reasons[..4],
        ["fine", "damaged_video", "unreadable_video", "missing_video"].map(|r| json!(r)).each_ref()
    );
    let seen = &verdicts[0]["frames"];
    assert_eq!(seen["seen"].as_array().unwrap().len(), 8, "the task's own way is uniform:8");
    let listed = listed(&frames(&workspace, &videos[0], "--json").exits(0));
    assert_eq!((&seen["of"], &seen["seen"][7]["index"]), (&listed["total"], &listed["frames"][7]["index"]));
    assert_eq!(seen["seen"][7]["time"], listed["frames"][7]["time"]);
    assert!(verdicts[1]["frames"]["faults"][0]["what"].as_str().unwrap().contains("cut off"));
    assert!(verdicts[2].get("frames").is_none());

    // What a verdict says does not depend on where the data set is, seen from here.
    fs::create_dir(workspace.path("elsewhere")).unwrap();
    let mut command = workspace.command(&format!(
        "{} --max-unscored 100%",
        RUN.replace("--data ", "--data ../").replace("scripted:", "scripted:../")
    ));
    command.args(["--out", "../again"]).current_dir(workspace.path("elsewhere")).env("PATH", "");
    Ran::from(command.output().unwrap()).exits(0);
    assert_eq!(workspace.read("again/verdicts.jsonl"), workspace.read("out/verdicts.jsonl"));

    // Other frames are another run.
    workspace.run(&format!("{RUN} --out out --frames 4")).exits(2).says("setting of the frames (sample)");
    workspace.run(&format!("{RUN} --out out --allow-damaged")).exits(2).says("setting of the frames (allow_damaged)");
    workspace.run(&format!("{RUN} --out shown --allow-damaged --max-unscored 100%")).exits(0);
    let verdict = &workspace.lines("shown/verdicts.jsonl")[1];
    assert_eq!(verdict["outcome"]["score"], 3);
    assert!(!verdict["frames"]["faults"].as_array().unwrap().is_empty());
    // Nobody looks: nothing is decoded, and nothing said of frames.
    workspace.run(&format!("{} --out blind", RUN.replace(" --with-frames", ""))).exits(0);
    assert!(workspace.lines("blind/verdicts.jsonl").iter().all(|verdict| verdict.get("frames").is_none()));
}

#[test]
fn a_tasks_own_way_to_choose_frames_is_checked_when_it_is_loaded_and_used() {
    let workspace = Workspace::new();
    let declaration = workspace.run("prompts show score --declaration").stdout;
    workspace.write("my/score.txt", &workspace.run("prompts show score").stdout);
    workspace.write("my/score.toml", &declaration.replace("uniform:8", "sometimes"));
    workspace.run("prompts check --prompts my").exits(2).prints("[frames] sample");
    workspace.write("my/score.toml", &declaration.replace("uniform:8", "midpoint:3"));
    workspace.write_lines("data.jsonl", &[score_record("a", &clip("box-hevc.mp4"))]);
    workspace.write_lines("answers.jsonl", &[json!({"id": "a", "answer": "{\"score\": 2, \"reason\": \"short\"}"})]);
    workspace.run(&format!("{RUN} --prompts my --out out")).exits(0);
    let run: Value = serde_json::from_str(&workspace.read("out/run.json")).unwrap();
    assert_eq!(run["fingerprint"]["frame_settings"]["sample"], "midpoint:3");
    assert_eq!(workspace.lines("out/verdicts.jsonl")[0]["frames"]["seen"].as_array().unwrap().len(), 3);
}

#[test]
fn a_run_with_frames_gives_the_same_bytes_again() {
    let workspace = Workspace::new();
    workspace.write_lines(
        "data.jsonl",
        &[score_record("a", &clip("box-hevc.mp4")), score_record("b", &clip("box-vp9.webm"))],
    );
    let answers = ["a", "b"].map(|id| json!({"id": id, "answer": "{\"score\": 2, \"reason\": \"short\"}"}));
    workspace.write_lines("answers.jsonl", &answers);
    workspace.run(&format!("{RUN} --out first --decode-threads 1")).exits(0);
    workspace.run(&format!("{RUN} --out second --decode-threads 2")).exits(0);
    assert_eq!(workspace.read("first/verdicts.jsonl"), workspace.read("second/verdicts.jsonl"));
    assert_eq!(workspace.read("first/run.json"), workspace.read("second/run.json"));
}
