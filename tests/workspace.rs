//! A temporary folder and the capjudge binary, so that a test reads like a sentence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Workspace {
    folder: TempDir,
}

/// What a command printed, and its exit code.
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Workspace {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn write_lines(&self, name: &str, lines: &[Value]) -> PathBuf {
        self.write(name, &lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn lines(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The command, to be run in this folder. Words are split at spaces.
    pub fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capjudge"));
        command.current_dir(self.folder.path()).args(words.split_whitespace()).stdin(Stdio::null());
        // The user's own cache is left alone.
        command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command
    }

    pub fn run(&self, words: &str) -> Ran {
        Ran::from(self.command(words).output().unwrap())
    }

    pub fn start(&self, words: &str) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "not said: {text:?}; stderr:\n{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "not printed: {text:?}; stdout:\n{}", self.stdout);
        self
    }
}

/// Copies the files of a folder.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// A record for the hallucination task.
pub fn record(id: &str, system: &str, caption: &str) -> Value {
    json!({"id": id, "system": system, "caption": caption, "events": [{"caption": "A dog runs"}, {"caption": "It barks"}]})
}

/// A whole, well-formed hallucination answer with two events.
pub fn answer(hallucinated: u32) -> String {
    let label = |event: u32| if event < hallucinated { "HALLUCINATED" } else { "SUPPORTED" };
    format!(
        "EXTRACTED_EVENTS:\n1. A dog runs\n2. It barks\n\nEVENT-BY-EVENT REASONING:\n\
         • Event #1 – This event — a dog runs — was {} because of the ground truth.\n\
         • Event #2 – This event — it barks — was {} because of the ground truth.\n\n\
         FINAL METRICS:\n- HALLUCINATION_COUNT: {hallucinated}\n",
        label(0),
        label(1)
    )
}

/// The folder with the public data sets, if this machine has it (`CAPJUDGE_PUBLIC_DATA`).
pub fn public_data() -> Option<PathBuf> {
    let folder = match std::env::var_os("CAPJUDGE_PUBLIC_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CAPJUDGE_PUBLIC_DATA").is_none(), "{} is not a folder", folder.display());
    eprintln!("not run: the public data sets are not here (set CAPJUDGE_PUBLIC_DATA)");
    None
}
