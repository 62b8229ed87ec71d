//! `capjudge models`: what is known is counted right, and no file changes without being named.

use std::fs;
use std::path::{Path, PathBuf};

use capjudge::model::locate::Located;
use capjudge::model::manifest::{Manifest, Manifests};
use capjudge::model::{LoadOptions, Model};
use serde_json::{Value, json};

use crate::gguf_bytes::{Gguf, text};
use crate::workspace::{Ran, Workspace, copy_folder};

const NAMES: [&str; 9] = [
    "pocket", "qwen2.5-vl-3b", "qwen2.5-vl-7b", "qwen3-vl-2b", "qwen3-vl-4b", "qwen3-vl-8b", "smolvlm2-2.2b",
    "smolvlm2-256m", "smolvlm2-500m",
];

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models").join(name)
}

/// A workspace with a small model in the folder `judge`, and an empty cache.
fn workspace_with(model: &str) -> Workspace {
    let workspace = Workspace::new();
    copy_folder(&data(model), &workspace.path("judge"));
    workspace
}

/// Runs `models`, in a cache of the workspace's own.
fn models(workspace: &Workspace, words: &str) -> Ran {
    let mut command = workspace.command(&format!("models {words}"));
    Ran::from(command.env("HF_HUB_CACHE", workspace.path("cache")).output().unwrap())
}

fn printed(ran: Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
}

/// Changes a byte in the middle of a file.
fn spoil(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn all_manifests_of_the_folder_are_compiled_in_and_whole() {
    let manifests = Manifests::load(None).unwrap();
    let compiled: Vec<&str> = manifests.iter().map(|manifest| manifest.name.as_str()).collect();
    assert_eq!(compiled, NAMES);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let mut files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    files.sort();
    assert_eq!(files, NAMES);
    for manifest in manifests.iter() {
        assert!(manifest.files.contains(&"config.json".to_owned()), "{}", manifest.name);
        // Nobody here can vouch for the hashes of others.
        assert_eq!(
            manifest.sha256.len(),
            if manifest.name == "pocket" { manifest.files.len() } else { 0 },
            "{}",
            manifest.name
        );
    }
    let three = manifests.find("qwen/qwen2.5-vl-3b-instruct@main").unwrap();
    assert!(three.licence.contains("non-commercial"), "{}", three.licence);
}

#[test]
fn memory_is_what_the_types_take() {
    let manifests = Manifests::load(None).unwrap();
    // The file of Qwen3-VL-2B has 4,255,064,064 bytes of tensors in bf16; its norms are kept in f32.
    let two = manifests.find("qwen3-vl-2b").unwrap().memory();
    assert_eq!(two.bf16, 4_255_064_064 + 2 * 123_904);
    assert_eq!(two.q4k, 1_409_286_144 / 256 * 144 + 2 * (311_164_928 + 406_957_056) + 4 * 123_904);
    assert_eq!(two.token, 2 * 28 * 8 * 128 * 4);
    // Rows of 576 numbers fill no block of 256: they become q8_0. What is not quantised stays in f32, as it is stored.
    let small = manifests.find("smolvlm2-256m").unwrap().memory();
    assert_eq!(small.f32, 4 * 256_484_928);
    let outside = 4 * (28_385_280 + 28_385_280 + 93_510_912 + 35_136);
    assert_eq!(small.q4k, 26_542_080 / 256 * 144 + 79_626_240 / 32 * 34 + outside);
    assert_eq!(small.q8_0, (26_542_080 + 79_626_240) / 32 * 34 + outside);
}

#[test]
fn a_manifest_that_cannot_be_right_is_refused() {
    let good = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/qwen3-vl-2b.toml")).unwrap();
    Manifest::parse("good", &good).unwrap();
    let hash = "0".repeat(63);
    let cases = [
        (good.replace("context =", "contxt ="), "unknown field `contxt`"),
        (good.replace("vision =", "sight ="), "unknown field `sight`"),
        (good.replace("total = 2", "total = 3"), "parameters: the parts make 2127532032, but total is 3127532032"),
        (good.replace("layers = 28", "layers = 0"), "decoder: layers, kv_heads and head_dim"),
        (good.replace("Qwen/", "../"), "repository: `../Qwen3-VL-2B-Instruct` is not of the form `org/name`"),
        (good.replace("\"config.json\"", "\"../config.json\""), "files: `../config.json` is not the name of a file"),
        (good.replace("\"bf16\"", "\"int8\""), "unknown variant `int8`"),
        (format!("{good}[sha256]\n\"config.json\" = \"{hash}\"\n"), "is not a SHA-256: 64 hexadecimal digits"),
        (format!("{good}[sha256]\n\"x.json\" = \"0{hash}\"\n"), "sha256: `x.json` is not among `files`"),
        ("=".to_owned(), "TOML parse error"),
    ];
    for (text, wanted) in cases {
        let message = Manifest::parse("bad", &text).unwrap_err();
        assert!(message.contains(wanted), "{message}\nshould say\n{wanted}");
    }
}

#[test]
fn the_list_has_all_and_says_which_are_here() {
    let workspace = Workspace::new();
    let ran = models(&workspace, "list").exits(0);
    for name in NAMES {
        assert!(ran.stdout.contains(name), "{name} is not in\n{}", ran.stdout);
    }
    let ran = ran.prints("Qwen/Qwen2.5-VL-3B-Instruct").prints("Qwen Research, non-commercial").prints("2.13 B");
    let here = ran.stdout.lines().filter(|line| line.contains("yes") || line.contains("in part"));
    assert_eq!(here.filter(|line| !line.contains("pocket")).count(), 0, "{}", ran.stdout);
    workspace.write("cache/models--Qwen--Qwen3-VL-2B-Instruct/refs/main", COMMIT);
    let snapshot = format!("cache/models--Qwen--Qwen3-VL-2B-Instruct/snapshots/{COMMIT}");
    workspace.write(&format!("{snapshot}/config.json"), "{}");
    models(&workspace, "list").exits(0).prints("in part");
    let listed = printed(models(&workspace, "list --json").exits(0));
    assert_eq!(listed.as_array().unwrap().len(), NAMES.len());
    let two = &listed[3];
    assert_eq!(two["name"], "qwen3-vl-2b");
    assert!(two["path"].as_str().unwrap().ends_with(COMMIT));
    assert!(two["missing"].as_array().unwrap().contains(&json!("model.safetensors")));
    assert_eq!(listed[1]["path"], Value::Null);
}

#[test]
fn a_model_that_is_not_here_is_shown_with_the_way_to_bring_it() {
    let workspace = Workspace::new();
    models(&workspace, "show SmolVLM2-500m")
        .exits(0)
        .prints("HuggingFaceTB/SmolVLM2-500M-Video-Instruct")
        .prints("507482304")
        .prints("here          no")
        .prints("hf download HuggingFaceTB/SmolVLM2-500M-Video-Instruct")
        .prints("models--HuggingFaceTB--SmolVLM2-500M-Video-Instruct")
        .prints(&workspace.path("cache").display().to_string());
    let shown = printed(models(&workspace, "show Qwen/Qwen3-VL-8B-Instruct --json").exits(0));
    assert_eq!(shown["parameters"]["total"], 8_767_123_696_u64);
    assert_eq!(shown["memory"]["bf16"], 2 * 8_767_123_696_u64 + 2 * 308_224);
}

#[test]
fn what_nobody_knows_says_what_there_is() {
    let workspace = Workspace::new();
    for verb in ["show", "verify"] {
        models(&workspace, &format!("{verb} gpt")).exits(4).says("there is no such file or folder").says("qwen3-vl-2b");
        models(&workspace, &format!("{verb} org/gpt")).exits(4).says("models--org--gpt").says("smolvlm2-500m");
    }
    models(&workspace, "verify qwen3-vl-2b").exits(4).says("models--Qwen--Qwen3-VL-2B-Instruct");
    let workspace = workspace_with("llama_a");
    models(&workspace, "verify judge --as gpt").exits(4).says("--as gpt: there is no such known model");
}

#[test]
fn a_model_is_locked_once_and_then_compared() {
    let workspace = workspace_with("qwen2_b");
    models(&workspace, "verify judge").exits(0).prints("ok: 6 files").prints("written now");
    let lock: Value = serde_json::from_str(&workspace.read("judge/capjudge.lock")).unwrap();
    let names: Vec<&str> =
        lock["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    let wanted = [
        "config.json",
        "generation_config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    assert_eq!(names, wanted);
    let before = workspace.read("judge/capjudge.lock");
    models(&workspace, "verify judge").exits(0).prints("as it was locked");
    assert_eq!(workspace.read("judge/capjudge.lock"), before);
    models(&workspace, "show judge").exits(0).prints("not among the known models").prints("capjudge.lock");

    // What was locked is what a run writes down.
    let model = Model::load(&workspace.path("judge").display().to_string(), &LoadOptions::default()).unwrap();
    let mut bytes = 0;
    assert_eq!(lock["sha256"], model.sha256(&mut |count| bytes += count).unwrap());
    let sizes = lock["files"].as_array().unwrap().iter().map(|file| file["size"].as_u64().unwrap());
    assert_eq!(bytes, sizes.sum::<u64>());
}

#[test]
fn every_file_that_differs_is_named() {
    let workspace = workspace_with("qwen2_b");
    models(&workspace, "verify judge").exits(0);
    spoil(&workspace.path("judge/model-00002-of-00002.safetensors"));
    fs::remove_file(workspace.path("judge/generation_config.json")).unwrap();
    workspace.write("judge/chat_template.jinja", "{{ messages }}");
    workspace.write("judge/README.md", "is read by nobody");
    let before = workspace.read("judge/capjudge.lock");
    let ran = models(&workspace, "verify judge").exits(4);
    let ran = ran.prints("problem: generation_config.json: is not there, and the lock has it");
    let ran = ran.prints("problem: model-00002-of-00002.safetensors: it has 23472 bytes");
    let ran = ran.prints("problem: chat_template.jinja: was not there when the model was locked");
    assert_eq!(ran.stdout.lines().count(), 3, "{}", ran.stdout);
    assert_eq!(workspace.read("judge/capjudge.lock"), before, "a lock changes only by the user's hand");
    let report = printed(models(&workspace, "verify judge --json").exits(4));
    let kinds: Vec<&str> = report["problems"].as_array().unwrap().iter().map(|p| p["kind"].as_str().unwrap()).collect();
    assert_eq!((report["state"].as_str().unwrap(), kinds), ("problems", vec!["missing", "changed", "extra"]));
}

#[test]
fn weights_that_take_the_place_of_others_are_named() {
    let workspace = workspace_with("qwen2_b");
    models(&workspace, "verify judge").exits(0);
    fs::copy(data("qwen2_a/model.safetensors"), workspace.path("judge/model.safetensors")).unwrap();
    models(&workspace, "verify judge")
        .exits(4)
        .prints("problem: model-00001-of-00002.safetensors: is there, but no longer read")
        .prints("problem: model.safetensors: was not there when the model was locked");
}

#[test]
fn a_missing_shard_and_a_cut_file_are_found_before_anything_is_locked() {
    let workspace = workspace_with("qwen2_b");
    let shard = workspace.path("judge/model-00001-of-00002.safetensors");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, &whole[..whole.len() - 7]).unwrap();
    models(&workspace, "verify judge").exits(4).prints("problem: model-00001-of-00002.safetensors: ").prints("cut off");
    fs::remove_file(&shard).unwrap();
    models(&workspace, "verify judge").exits(4).prints("names the shard `model-00001-of-00002.safetensors`");
    assert!(!workspace.path("judge/capjudge.lock").exists());

    let file = Gguf::new().key("general.architecture", 8, text("llama")).tensor("half", &[4], 1, &[1; 8]).bytes();
    fs::write(workspace.path("judge.gguf"), &file[..file.len() - 1]).unwrap();
    models(&workspace, "verify judge.gguf").exits(4).prints("problem: judge.gguf: ");
    fs::write(workspace.path("judge.gguf"), &file).unwrap();
    models(&workspace, "verify judge.gguf").exits(0).prints("judge.gguf.capjudge.lock, written now");
    // A GGUF file may be renamed, and not changed.
    fs::rename(workspace.path("judge.gguf"), workspace.path("other.gguf")).unwrap();
    models(&workspace, "verify other.gguf --lock judge.gguf.capjudge.lock").exits(0).prints("as it was locked");
    fs::write(workspace.path("other.gguf"), [&file[..file.len() - 1], &[9]].concat()).unwrap();
    models(&workspace, "verify other.gguf --lock judge.gguf.capjudge.lock").exits(4).prints("problem: other.gguf: ");
}

#[test]
fn a_copy_of_a_known_model_must_have_its_files() {
    let workspace = workspace_with("qwen2_b");
    models(&workspace, "verify judge --as smolvlm2-2.2b")
        .exits(4)
        .prints("problem: preprocessor_config.json: is not there, and the manifest has it")
        .prints("problem: processor_config.json: ");
    assert!(!workspace.path("judge/capjudge.lock").exists());

    // A manifest of the user's own, with a hash that somebody vouches for.
    let built_in = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/qwen3-vl-2b.toml")).unwrap();
    let files = built_in.find("files = [").unwrap()..built_in.find("[decoder]").unwrap();
    let with_hash = |hash: &str| {
        let mut text = built_in.clone();
        text.replace_range(files.clone(), "files = [\"config.json\"]\n\n");
        workspace.write("mine/tiny.toml", &format!("{text}\n[sha256]\n\"config.json\" = \"{hash}\"\n"));
    };
    with_hash(&"0".repeat(64));
    models(&workspace, "list --manifests mine").exits(0).prints("tiny").prints("smolvlm2-500m");
    let report = printed(models(&workspace, "verify judge --manifests mine --as tiny --json").exits(4));
    assert_eq!(report["problems"][0]["file"], "config.json");
    assert_eq!(report["problems"][0]["kind"], "changed");
    let right = report["files"][0]["sha256"].as_str().unwrap();
    with_hash(right);
    models(&workspace, "verify judge --manifests mine --as tiny").exits(0).prints("written now");
    workspace.write("mine/broken.toml", "licence = 3");
    models(&workspace, "list --manifests mine").exits(4).says("broken.toml: ");
    fs::create_dir(workspace.path("empty")).unwrap();
    models(&workspace, "list --manifests empty").exits(4).says("no manifest in this folder");
}

#[test]
fn a_lock_that_cannot_be_right_is_refused() {
    let workspace = workspace_with("llama_a");
    models(&workspace, "verify judge --lock judge.lock").exits(0);
    assert!(!workspace.path("judge/capjudge.lock").exists());
    let good = workspace.read("judge.lock");
    let cases = [
        ("not JSON".to_owned(), "is not a lock of capjudge: not JSON"),
        (good[..good.len() / 2].to_owned(), "is not a lock of capjudge: not JSON"),
        ("[]".to_owned(), "it has no version"),
        (good.replace("\"version\": 1", "\"version\": 2"), "is of version 2, and this program knows 1"),
        (good.replace("\"config.json\"", "\"../config.json\""), "`../config.json` is not the name of a file"),
        (good.replace("\"config.json\"", "\"/etc/passwd\""), "`/etc/passwd` is not the name of a file"),
        (good.replace("\"config.json\"", "\"zonfig.json\""), "not sorted by name"),
        (good.replace("\"config.json\"", "\"aonfig.json\""), "its digest is not that of its files"),
        (good.replace("\"size\"", "\"length\""), "unknown field `length`"),
    ];
    for (text, wanted) in cases {
        workspace.write("judge.lock", &text);
        models(&workspace, "verify judge --lock judge.lock").exits(4).says("judge.lock: ").says(wanted);
        assert_eq!(workspace.read("judge.lock"), text, "it is left as it is");
    }
    models(&workspace, "verify judge --lock .").exits(4).says("is a folder");
    models(&workspace, "verify judge --lock none/judge.lock").exits(1).says("with --lock FILE");
}

#[cfg(unix)]
#[test]
fn a_repository_in_the_cache_is_verified_through_its_links() {
    use std::os::unix::fs::symlink;
    let workspace = Workspace::new();
    let folder = "cache/models--org--judge";
    workspace.write(&format!("{folder}/refs/main"), COMMIT);
    copy_folder(&data("llama_a"), &workspace.path(&format!("{folder}/blobs")));
    let snapshot = workspace.path(&format!("{folder}/snapshots/{COMMIT}"));
    fs::create_dir_all(&snapshot).unwrap();
    let names =
        ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"];
    for name in names {
        symlink(Path::new("../../blobs").join(name), snapshot.join(name)).unwrap();
    }
    models(&workspace, "verify org/judge").exits(0).prints("ok: 5 files").prints("written now");
    models(&workspace, "verify org/judge@main").exits(0).prints("as it was locked");
    spoil(&workspace.path(&format!("{folder}/blobs/model.safetensors")));
    models(&workspace, "verify org/judge").exits(4).prints("problem: model.safetensors: it has ");
    // Somebody copied the snapshot and forgot the blobs.
    fs::remove_file(workspace.path(&format!("{folder}/blobs/model.safetensors"))).unwrap();
    let ran = models(&workspace, "verify org/judge").exits(4);
    let ran =
        ran.prints("problem: model.safetensors: is a link to a file that is missing; copy the cache folder whole");
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    fs::remove_dir_all(workspace.path(&format!("{folder}/blobs"))).unwrap();
    models(&workspace, "verify org/judge").exits(4).prints("problem: config.json: is a link to a file that is missing");
    let path = snapshot.display().to_string();
    let refused = Model::load(&path, &LoadOptions::default()).unwrap_err().to_string();
    assert!(refused.contains("config.json: is a link to a file that is missing"), "{refused}");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_is_not_waited_for() {
    let workspace = workspace_with("llama_a");
    let pipe = workspace.path("judge/preprocessor_config.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    models(&workspace, "verify judge").exits(4).says("preprocessor_config.json: is not a regular file");
    fs::remove_file(&pipe).unwrap();
    fs::create_dir(&pipe).unwrap();
    models(&workspace, "verify judge").exits(4).says("preprocessor_config.json: is not a regular file");
}

#[cfg(unix)]
#[test]
fn a_snapshot_tells_which_known_model_it_is() {
    let workspace = Workspace::new();
    let snapshot = format!("cache/models--Qwen--Qwen3-VL-2B-Instruct/snapshots/{COMMIT}");
    copy_folder(&data("llama_a"), &workspace.path(&snapshot));
    let report = printed(models(&workspace, &format!("verify {snapshot} --json")).exits(4));
    assert_eq!(report["known_as"], "qwen3-vl-2b");
    assert!(report["problems"].as_array().unwrap().iter().any(|p| p["file"] == "video_preprocessor_config.json"));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written_to_asks_for_a_place() {
    use std::os::unix::fs::PermissionsExt;
    let workspace = workspace_with("llama_a");
    let folder = workspace.path("judge");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write anywhere.
    let bound = fs::write(folder.join("probe"), "").is_err();
    let ran = models(&workspace, "verify judge");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    match bound {
        true => drop(ran.exits(1).says("name a place that can be written to with --lock FILE")),
        false => drop(ran.exits(0)),
    }
}

#[test]
fn locks_stand_beside_what_they_lock() {
    let place = |located| capjudge::model::lock::place(&located);
    assert_eq!(place(Located::Folder("a/b".into())), Path::new("a/b/capjudge.lock"));
    assert_eq!(place(Located::Gguf("a/b.gguf".into())), Path::new("a/b.gguf.capjudge.lock"));
}
