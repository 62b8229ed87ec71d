//! Known models: what a public checkpoint is, which files it has, how much memory it needs.
//!
//! Invariant: sizes are computed from counted parameters, never written down. A manifest with an unknown key, a count
//! that does not add up or a file name that is a path is refused, whether it is compiled in or the user's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::{Hash, is_plain};
use super::locate::is_repository;
use super::read::read_file;
use super::{ModelError, pocket};

const BUILT_IN: [(&str, &str); 9] = [
    (pocket::NAME, pocket::MANIFEST),
    ("qwen2.5-vl-3b", include_str!("../../models/qwen2.5-vl-3b.toml")),
    ("qwen2.5-vl-7b", include_str!("../../models/qwen2.5-vl-7b.toml")),
    ("qwen3-vl-2b", include_str!("../../models/qwen3-vl-2b.toml")),
    ("qwen3-vl-4b", include_str!("../../models/qwen3-vl-4b.toml")),
    ("qwen3-vl-8b", include_str!("../../models/qwen3-vl-8b.toml")),
    ("smolvlm2-2.2b", include_str!("../../models/smolvlm2-2.2b.toml")),
    ("smolvlm2-256m", include_str!("../../models/smolvlm2-256m.toml")),
    ("smolvlm2-500m", include_str!("../../models/smolvlm2-500m.toml")),
];

/// The largest manifest that is read.
const LARGEST: u64 = 1 << 20;

/// What is known about a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What it is called here: the name of its file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// Its repository, `org/name`, or `pocket`, which has none.
    pub repository: String,
    /// The `model_type` of its `config.json`.
    pub architecture: String,
    /// The licence of its weights.
    pub licence: String,
    /// Tokens that it was made for.
    pub context: u64,
    /// The type of its weights in the files.
    pub stored: Stored,
    /// Files that must be there, by name.
    pub files: Vec<String>,
    /// The SHA-256 of files, where somebody vouches for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sha256: BTreeMap<String, Hash>,
    /// What decides how much a token takes of the memory.
    pub decoder: Decoder,
    /// How many numbers it has.
    pub parameters: Parameters,
}

/// A type that weights are stored in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// 32 bits.
    F32,
    /// 16 bits, half precision.
    F16,
    /// 16 bits, with the range of 32.
    Bf16,
}

/// The sizes of keys and values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// Layers.
    pub layers: u64,
    /// Heads of keys, and of values.
    pub kv_heads: u64,
    /// Numbers of a head.
    pub head_dim: u64,
}

/// Parameters, by what becomes of them when a model is quantised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// All.
    pub total: u64,
    /// Matrices of the decoder's layers with rows of whole blocks of 256.
    pub layers: u64,
    /// Matrices of the decoder's layers with other rows: the `k` types cannot hold them, so they become `q8_0`.
    pub layers_q8_0: u64,
    /// Norms and biases of the decoder.
    pub vectors: u64,
    /// The table of embeddings.
    pub embeddings: u64,
    /// The head; 0 if it is the table of embeddings.
    pub head: u64,
    /// The vision tower and what connects it.
    pub vision: u64,
}

/// Bytes that the weights take in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// As 32-bit numbers.
    pub f32: u64,
    /// As 16-bit numbers, of either kind.
    pub bf16: u64,
    /// With `--quant q8_0`.
    pub q8_0: u64,
    /// With `--quant q4k`.
    pub q4k: u64,
    /// What each token in the context takes besides: keys and values, as 32-bit numbers.
    pub token: u64,
}

impl Manifest {
    /// Reads a manifest and checks it; or what is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let manifest: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let manifest = Self { name: name.to_owned(), ..manifest };
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if !is_repository(&self.repository) && self.repository != pocket::NAME {
            return Err(format!("repository: `{}` is not of the form `org/name`", self.repository.escape_debug()));
        }
        if let Some(name) = self.files.iter().find(|name| !is_plain(name)) {
            return Err(format!("files: `{}` is not the name of a file in the model's folder", name.escape_debug()));
        }
        if let Some(name) = self.sha256.keys().find(|name| !self.files.contains(name)) {
            return Err(format!("sha256: `{}` is not among `files`; add it there", name.escape_debug()));
        }
        let Parameters { total, layers, layers_q8_0, vectors, embeddings, head, vision } = self.parameters;
        let parts = [layers, layers_q8_0, vectors, embeddings, head, vision];
        let sum = parts.into_iter().try_fold(0, u64::checked_add);
        // More would overflow, in bytes; the largest models have a few trillion.
        if total > 1 << 50 || sum != Some(total) {
            return Err(format!("parameters: the parts make {}, but total is {total}", sum.unwrap_or(u64::MAX)));
        }
        let Decoder { layers, kv_heads, head_dim } = self.decoder;
        if [layers, kv_heads, head_dim].iter().any(|number| !(1..1 << 16).contains(number)) {
            return Err("decoder: layers, kv_heads and head_dim are numbers from 1 to 65535".to_owned());
        }
        Ok(())
    }

    /// How much memory the weights need. `models/README.md` explains the formula.
    pub fn memory(&self) -> Memory {
        let Parameters { layers, layers_q8_0, vectors, embeddings, head, vision, .. } = self.parameters;
        let Decoder { layers: deep, kv_heads, head_dim } = self.decoder;
        let matrices = layers + layers_q8_0;
        let outside = embeddings + head + vision;
        let stored = if self.stored == Stored::F32 { 4 } else { 2 };
        let q8_0 = |numbers: u64| numbers / 32 * 34;
        let q4k = |numbers: u64| numbers / 256 * 144;
        Memory {
            f32: 4 * (matrices + outside + vectors),
            bf16: 2 * (matrices + outside) + 4 * vectors,
            q8_0: q8_0(matrices) + stored * outside + 4 * vectors,
            q4k: q4k(layers) + q8_0(layers_q8_0) + stored * outside + 4 * vectors,
            token: 2 * deep * kv_heads * head_dim * 4,
        }
    }
}

/// All manifests, by name.
#[derive(Debug, Clone)]
pub struct Manifests(BTreeMap<String, Manifest>);

impl Manifests {
    /// Those that are compiled in and, if a folder is given, those in it. One of the same name takes the other's place.
    pub fn load(folder: Option<&Path>) -> Result<Self, ModelError> {
        let mut manifests = Self(BTreeMap::new());
        for (name, text) in BUILT_IN {
            manifests.add(Path::new(&format!("models/{name}.toml")), name, text)?;
        }
        if let Some(folder) = folder {
            manifests.add_folder(folder)?;
        }
        Ok(manifests)
    }

    fn add(&mut self, path: &Path, name: &str, text: &str) -> Result<(), ModelError> {
        let manifest = Manifest::parse(name, text).map_err(|what| ModelError::bad(path, what))?;
        self.0.insert(name.to_owned(), manifest);
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), ModelError> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut paths: Vec<_> =
            entries.map_err(|source| ModelError::io(folder, source))?.iter().map(fs::DirEntry::path).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        if paths.is_empty() {
            let what = format!("{}: no manifest in this folder; a manifest is NAME.toml", folder.display());
            return Err(ModelError::NotFound(format!("{what} (models/README.md)")));
        }
        for path in paths {
            let name = path.file_stem().and_then(|stem| stem.to_str());
            let name = name.ok_or_else(|| ModelError::bad(&path, "its name is not UTF-8; rename it"))?;
            let bytes = read_file(&path, LARGEST)?.unwrap_or_default();
            let text = String::from_utf8(bytes).map_err(|_| ModelError::bad(&path, "not UTF-8 text"))?;
            self.add(&path, name, &text)?;
        }
        Ok(())
    }

    /// The manifest of a name, or of a repository, with or without a revision. Letter case does not matter.
    pub fn find(&self, name: &str) -> Option<&Manifest> {
        let repository = name.split_once('@').map_or(name, |(repository, _)| repository);
        self.iter()
            .find(|manifest| manifest.name.eq_ignore_ascii_case(name))
            .or_else(|| self.iter().find(|manifest| manifest.repository.eq_ignore_ascii_case(repository)))
    }

    /// The manifest of a folder in a Hugging Face cache, whose path tells the repository.
    pub fn find_snapshot(&self, folder: &Path) -> Option<&Manifest> {
        let folder = folder.canonicalize().ok()?;
        let snapshots = folder.parent().filter(|parent| parent.ends_with("snapshots"))?;
        let repository = snapshots.parent()?.file_name()?.to_str()?.strip_prefix("models--")?;
        self.find(&repository.replacen("--", "/", 1))
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Manifest> {
        self.0.values()
    }

    /// All names, for messages.
    pub fn names(&self) -> String {
        self.0.keys().cloned().collect::<Vec<_>>().join(", ")
    }
}
