//! `capjudge models`: list, show, verify, synth.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

use super::End;
use super::output::{print, printable_lines, say};
use super::progress::Waiting;
use super::synth::synth;
use crate::model::locate::{Located, cache, locate};
use crate::model::lock::{self, Lock};
use crate::model::manifest::{Manifest, Manifests, Memory, Stored};
use crate::model::verify::{Verified, verify};
use crate::model::{ModelError, pocket};
use crate::run::write_atomic;

const EXAMPLES: &str = "\
Examples:
  capjudge models list                             known models: size, licence, memory, which are here
  capjudge models show qwen3-vl-2b                 its files, which are missing, how to bring it here
  capjudge models verify qwen3-vl-2b               lock its files, or compare them with the lock
  capjudge models verify judge.gguf --lock FILE    a file of your own, its lock kept elsewhere
  capjudge models verify copy --as qwen3-vl-2b     a folder that should be a whole copy of that model
  capjudge models synth qwen3-vl-2b --out DIR      a model of that shape with random weights, for measuring

Nothing is ever downloaded. Exit code 4: files are missing, or are not what lock or manifest say.";

/// Flags of `models`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// A folder with manifests of your own (NAME.toml)
    #[arg(long, value_name = "DIR", global = true)]
    manifests: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The models that are known, and which of them are here
    List,
    /// What is known of a model, where it is, and which of its files are missing
    Show {
        /// A known name, a file, a folder, or `org/name` in the local Hugging Face cache
        #[arg(value_name = "NAME|PATH|ORG/NAME")]
        model: String,
    },
    /// Hash every file that decides a model's answers; lock them the first time, compare them afterwards
    Verify {
        /// A known name, a file, a folder, or `org/name` in the local Hugging Face cache
        #[arg(value_name = "NAME|PATH|ORG/NAME")]
        model: String,
        /// The lock file; beside the model's files unless said otherwise
        #[arg(long, value_name = "FILE")]
        lock: Option<PathBuf>,
        /// The known model that a folder of yours is a copy of
        #[arg(long = "as", value_name = "NAME")]
        known: Option<String>,
    },
    /// Write a model with random weights in the shape of a public one: for measuring, here or with other programs
    Synth {
        /// The shape: qwen2.5-vl-3b, qwen3-vl-2b, smolvlm2-256m, qwen2.5-1.5b, llama-3.2-1b, …
        #[arg(value_name = "SHAPE")]
        shape: String,
        /// The folder to write; it must not be there
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Where chance begins; shape:NAME wherever a model is named has the numbers of seed 0
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// The type of the weights: bf16 or f32, which holds the same numbers
        #[arg(long, value_enum, default_value_t = Dtype::Bf16)]
        dtype: Dtype,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dtype {
    Bf16,
    F32,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let manifests = Manifests::load(self.manifests.as_deref())?;
        match self.verb {
            Verb::List => list(&manifests, self.json),
            Verb::Show { model, .. } => show(&manifests, &model, self.json),
            Verb::Verify { model, lock, known } => check(&manifests, &model, lock, known.as_deref(), self.json),
            Verb::Synth { shape, out, seed, dtype } => {
                let stored = match dtype {
                    Dtype::Bf16 => Stored::Bf16,
                    Dtype::F32 => Stored::F32,
                };
                synth(&shape, &out, seed, stored, self.json)
            }
        }
    }
}

fn list(manifests: &Manifests, as_json: bool) -> Result<End> {
    let here = |manifest: &Manifest| locate(&manifest.repository).ok();
    if as_json {
        let all: Vec<Value> = manifests.iter().map(|manifest| about(manifest, here(manifest).as_ref())).collect();
        print(&format!("{:#}\n", Value::from(all)))?;
        return Ok(End::Done);
    }
    let mut table = Table::new();
    let header = ["name", "repository", "architecture", "parameters", "licence", "bf16", "q4k", "here"];
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for manifest in manifests.iter() {
        let Memory { bf16, q4k, .. } = manifest.memory();
        let here = match here(manifest) {
            _ if manifest.repository == pocket::NAME => "built in",
            None => "no",
            Some(place) if missing(manifest, &place).is_empty() => "yes",
            Some(_) => "in part",
        };
        let row = [
            manifest.name.clone(),
            manifest.repository.clone(),
            manifest.architecture.clone(),
            billions(manifest.parameters.total),
            manifest.licence.clone(),
            gigabytes(bf16),
            gigabytes(q4k),
            here.to_owned(),
        ];
        table.add_row(row.map(|cell| printable_lines(&cell)));
    }
    for index in [3, 5, 6] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let note = "bf16, q4k: memory for the weights; the context comes on top, and what is not quantised stays as stored";
    print(&format!("{table}\n{note}\n"))?;
    Ok(End::Done)
}

fn show(manifests: &Manifests, name: &str, as_json: bool) -> Result<End> {
    let (manifest, place) = resolve(manifests, name);
    let (manifest, place) = match (manifest, place) {
        (None, Err(error)) => return Err(error.into()),
        // What is built in is not brought from anywhere.
        (Some(manifest), Err(error)) if manifest.repository == pocket::NAME => return Err(error.into()),
        (manifest, place) => (manifest, place.ok()),
    };
    if as_json {
        let report = match (manifest, &place) {
            (Some(manifest), place) => about(manifest, place.as_ref()),
            (None, place) => json!({"path": place.as_ref().map(path_of), "lock": place.as_ref().and_then(locked)}),
        };
        print(&format!("{report:#}\n"))?;
        return Ok(End::Done);
    }
    let mut text = manifest.map(described).unwrap_or_else(|| format!("{name}: not among the known models\n"));
    let absent = match (manifest, &place) {
        (Some(manifest), Some(place)) => missing(manifest, place),
        _ => Vec::new(),
    };
    match &place {
        None => text.push_str("  here          no\n"),
        Some(place) => {
            text.push_str(&format!("  here          {}\n", path_of(place)));
            if let (Some(manifest), Located::Folder(_)) = (manifest, place) {
                for file in &manifest.files {
                    let state = if absent.contains(file) { "missing" } else { "there" };
                    text.push_str(&format!("    {state:<7}     {file}\n"));
                }
            }
            let lock = locked(place).unwrap_or_else(|| format!("none yet: capjudge models verify {name}"));
            text.push_str(&format!("  lock          {lock}\n"));
        }
    }
    if let Some(manifest) = manifest.filter(|_| place.is_none() || !absent.is_empty()) {
        text.push_str(&how_to_bring(manifest));
    }
    print(&printable_lines(&text))?;
    Ok(End::Done)
}

fn check(manifests: &Manifests, name: &str, lock: Option<PathBuf>, known: Option<&str>, as_json: bool) -> Result<End> {
    let (found, place) = resolve(manifests, name);
    let manifest = match known {
        None => found,
        Some(known) => Some(manifests.find(known).ok_or_else(|| unknown(manifests, known))?),
    };
    let place = place?;
    let lock_path = lock.unwrap_or_else(|| lock::place(&place));
    let before = Lock::read(&lock_path)?;
    let mut waiting = Waiting::new("hashing the model", as_json);
    let verified = verify(&place, manifest, before.as_ref(), &mut |bytes| waiting.add(bytes));
    waiting.end();
    let Verified { files, problems } = verified?;
    let good = problems.is_empty();
    let now = if files.is_empty() { None } else { Some(Lock::new(&files)?) };
    let state = match (&before, &now) {
        _ if !good => "problems",
        (None, Some(now)) => {
            write_atomic(&lock_path, now.to_text()?.as_bytes()).map_err(|error| {
                anyhow!("{}: {error}; name a place that can be written to with --lock FILE", lock_path.display())
            })?;
            "written"
        }
        _ => "agrees",
    };
    if as_json {
        let report = json!({
            "model": name,
            "known_as": manifest.map(|manifest| &manifest.name),
            "path": path_of(&place),
            "lock": lock_path.display().to_string(),
            "state": state,
            "sha256": now.as_ref().map(|now| now.sha256),
            "files": now.map(|now| now.files).unwrap_or_default(),
            "problems": problems,
        });
        print(&format!("{report:#}\n"))?;
    } else if let Some(now) = now.filter(|_| good) {
        let bytes: u64 = now.files.iter().map(|file| file.size).sum();
        let (count, lock) = (now.files.len(), lock_path.display());
        let told = if state == "written" { "written now" } else { "as it was locked" };
        let text = format!("ok: {count} files, {bytes} bytes, SHA-256 {}\nlock: {lock}, {told}\n", now.sha256);
        print(&printable_lines(&text))?;
    } else {
        for problem in &problems {
            let file = problem.file.as_ref().map(|file| format!("{file}: ")).unwrap_or_default();
            print(&printable_lines(&format!("problem: {file}{}\n", problem.what)))?;
        }
        say(&format!("capjudge: {name}: the files are not what they should be"));
    }
    Ok(if good { End::Done } else { End::WrongFiles })
}

/// What is known of a model, and where it is. A path that exists wins over a known name.
fn resolve<'a>(manifests: &'a Manifests, name: &str) -> (Option<&'a Manifest>, Result<Located, ModelError>) {
    let manifest = manifests.find(name);
    if Path::new(name).exists() {
        return (manifest.or_else(|| manifests.find_snapshot(Path::new(name))), locate(name));
    }
    match manifest {
        Some(manifest) if manifest.name.eq_ignore_ascii_case(name) => (Some(manifest), locate(&manifest.repository)),
        Some(_) => (manifest, locate(name)),
        None => {
            let with_names = |error: ModelError| match error {
                ModelError::NotFound(what) => {
                    ModelError::NotFound(format!("{what}. Known models: {}", manifests.names()))
                }
                other => other,
            };
            (None, locate(name).map_err(with_names))
        }
    }
}

fn unknown(manifests: &Manifests, name: &str) -> ModelError {
    ModelError::NotFound(format!("--as {name}: there is no such known model; there are {}", manifests.names()))
}

/// All about a known model, for programs.
fn about(manifest: &Manifest, place: Option<&Located>) -> Value {
    let mut report = json!(manifest);
    if let Value::Object(report) = &mut report {
        report.insert("memory".to_owned(), json!(manifest.memory()));
        report.insert("path".to_owned(), json!(place.map(path_of)));
        report.insert("missing".to_owned(), json!(place.map(|place| missing(manifest, place))));
        report.insert("lock".to_owned(), json!(place.and_then(locked)));
    }
    report
}

/// All about a known model, for people.
fn described(manifest: &Manifest) -> String {
    let Manifest { name, repository, architecture, licence, context, parameters, .. } = manifest;
    let Memory { f32, bf16, q8_0, q4k, token } = manifest.memory();
    let sizes = [("f32", f32), ("bf16", bf16), ("q8_0", q8_0), ("q4k", q4k)];
    let sizes: Vec<String> = sizes.map(|(name, bytes)| format!("{name} {}", gigabytes(bytes))).into();
    let stored = json!(manifest.stored);
    format!(
        "{name}\n  repository    {repository}\n  architecture  {architecture}\n  parameters    {} (vision tower {})\n  \
         licence       {licence}\n  context       {context} tokens\n  stored as     {}\n  \
         memory        {}; and {:.1} MB for 1,000 tokens of context\n",
        parameters.total,
        parameters.vision,
        stored.as_str().unwrap_or_default(),
        sizes.join(", "),
        token as f64 / 1e3,
    )
}

/// The files of a manifest that a folder does not have. A GGUF file is whole by itself.
fn missing(manifest: &Manifest, place: &Located) -> Vec<String> {
    let Located::Folder(folder) = place else { return Vec::new() };
    manifest.files.iter().filter(|name| !folder.join(name).exists()).cloned().collect()
}

/// Where the lock of a model is, if it has one in its own place.
fn locked(place: &Located) -> Option<String> {
    Some(lock::place(place)).filter(|lock| lock.exists()).map(|lock| lock.display().to_string())
}

fn path_of(place: &Located) -> String {
    let (Located::Folder(path) | Located::Gguf(path)) = place;
    path.display().to_string()
}

fn how_to_bring(Manifest { name, repository, .. }: &Manifest) -> String {
    let folder = format!("models--{}", repository.replace('/', "--"));
    let cache = cache().map_or_else(|| "the Hugging Face cache".to_owned(), |cache| cache.display().to_string());
    format!(
        "\nNothing is downloaded here. To bring it to this machine:\n  \
         1. where there is a network:  hf download {repository}\n  \
         2. copy the folder {folder} of the cache there, with its blobs and links (rsync -a, tar), into\n     {cache}\n  \
         3. here:  capjudge models verify {name}\n\
         Or hf download {repository} --local-dir DIR, copy DIR, and name it wherever a model is named.\n"
    )
}

fn billions(count: u64) -> String {
    match count {
        0..1_000_000_000 => format!("{:.0} M", count as f64 / 1e6),
        _ => format!("{:.2} B", count as f64 / 1e9),
    }
}

fn gigabytes(bytes: u64) -> String {
    match bytes {
        0..100_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
