//! A whole model from its name: weights, tokenizer, chat template, and the hash of all that decides its answers.

use std::collections::BTreeSet;
use std::fs;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use sha2::Digest;
use tempfile::TempDir;

use super::files::{Hash, hash, settings, whole};
use super::linear::Compute;
use super::locate::{Located, locate};
use super::read::read_file;
use super::synthetic::Shape;
use super::vision::{Marker, Vision};
use super::weights::{Quant, Source};
use super::{ChatTemplate, ModelError, Piece, Tokenizer, device};
use crate::engine::Engine;

/// How a model is loaded.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Where and how it computes.
    pub compute: Compute,
    /// The types that matrices are quantised to.
    pub quant: Quant,
    /// The most pixels of a picture or frame that is shown; as the model's processor does if `None`.
    pub frame_pixels: Option<usize>,
    /// The chat template.
    pub template: Template,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { compute: Compute::cpu(), quant: Quant::default(), frame_pixels: None, template: Template::Own }
    }
}

/// Which chat template is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// The one that comes with the model.
    Own,
    /// None: the prompt is shown as it is.
    None,
    /// One from a file.
    File(PathBuf),
}

/// A model, ready to answer.
#[derive(Debug)]
pub struct Model {
    /// Runs it.
    pub engine: Engine,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its eyes, if it has any.
    pub vision: Option<Box<dyn Vision>>,
    pub(super) template: Option<ChatTemplate>,
    /// What its architecture has instead where there is a video, unless somebody named another one.
    pub(super) video_template: Option<ChatTemplate>,
    /// The files that decide its answers, and what tells that they are still the ones that were loaded.
    files: Vec<(PathBuf, Stamp)>,
    /// Keeps the settings of a shape on the disk for as long as it is in use.
    _scratch: Option<Arc<TempDir>>,
    options: LoadOptions,
}

/// The files of a model: a shape, a file or a folder.
fn open(name: &str) -> Result<Source, ModelError> {
    if let Some(shape) = Shape::of_model(name) {
        return Source::synthetic(&shape?);
    }
    match locate(name)? {
        Located::Gguf(path) => Source::gguf(&path),
        Located::Folder(folder) => Source::folder(&folder),
    }
}

/// The files that decide a model's answers.
fn files_of(source: &Source) -> Result<BTreeSet<PathBuf>, ModelError> {
    let settings = match source {
        Source::Gguf(_) => Default::default(),
        Source::Folder(..) | Source::Synthetic(..) => settings(&source.path())?,
    };
    Ok(settings.into_iter().chain(source.weight_files()).collect())
}

/// How a model reads and writes.
struct Words {
    tokenizer: Tokenizer,
    /// The template that comes with it; what is wrong with it matters only to those who use it.
    template: Result<Option<ChatTemplate>, ModelError>,
}

impl Words {
    fn of(source: &Source) -> Result<Self, ModelError> {
        let path = source.path();
        let (tokenizer, template) = match source {
            Source::Gguf(file) => {
                let tokenizer = Tokenizer::from_gguf(&path, file.metadata())?;
                let template = ChatTemplate::from_gguf(&path, file.metadata(), tokenizer.special_text());
                (tokenizer, template)
            }
            Source::Folder(..) | Source::Synthetic(..) => {
                let tokenizer = Tokenizer::from_folder(&path)?;
                let template = ChatTemplate::from_folder(&path, tokenizer.special_text());
                (tokenizer, template)
            }
        };
        Ok(Self { tokenizer, template })
    }
}

/// Whether the model of that name sees, without loading it.
pub fn sees(name: &str) -> Result<bool, ModelError> {
    if let Some(shape) = Shape::of_model(name) {
        return Ok(shape?.sees());
    }
    match locate(name)? {
        Located::Gguf(_) => Ok(false),
        Located::Folder(folder) => Ok(Source::folder(&folder)?.architecture().is_some()),
    }
}

/// Tokens that a tokenizer may have more than the weights.
const SUPERFLUOUS_TOKENS: usize = 64;

/// The largest chat template file that is read.
const LARGEST_TEMPLATE: u64 = 1 << 20;

impl Model {
    /// Loads a model by path, by repository id, or as a shape with random weights (`shape:NAME`).
    pub fn load(name: &str, options: &LoadOptions) -> Result<Self, ModelError> {
        let source = open(name)?;
        let stamped = files_of(&source)?.into_iter().map(|path| Ok((path.clone(), Stamp::of(&path)?)));
        let files = stamped.collect::<Result<Vec<_>, ModelError>>()?;
        if options.quant != Quant::default() && matches!(source, Source::Gguf(_)) {
            return Err(ModelError::Option(
                "--quant is for safetensors folders; a GGUF file is quantised already, as it is named".to_owned(),
            ));
        }
        let for_eyes =
            [(options.quant.tower.is_some(), "--quant-tower"), (options.frame_pixels.is_some(), "--frame-pixels")];
        if let Some((_, flag)) = for_eyes.into_iter().find(|(given, _)| *given && source.architecture().is_none()) {
            let what = format!("{flag} is for vision-language models; this one reads text only");
            return Err(ModelError::Option(what));
        }
        // A large vocabulary takes as long as small weights.
        let (words, built) = thread::scope(|scope| {
            let words = scope.spawn(|| Words::of(&source));
            let built = source.build(&options.compute, &options.quant, options.frame_pixels);
            (words.join().unwrap_or_else(|panic| resume_unwind(panic)), built)
        });
        let Words { tokenizer, template: own } = words?;
        let template = match &options.template {
            Template::Own => own?,
            Template::None => None,
            Template::File(path) => {
                let text = read_template(path)?;
                Some(ChatTemplate::new(text, path, tokenizer.special_text())?)
            }
        };
        let (decoder, vision) = built.map_err(|error| device::explain(error, &options.compute))?;
        // Some tokenizers have a few tokens that the weights know nothing of (Gemma 3 1B one for images).
        if tokenizer.vocab_size() > decoder.embedding.tokens() + SUPERFLUOUS_TOKENS {
            let (tokens, rows) = (tokenizer.vocab_size(), decoder.embedding.tokens());
            let what = format!("the tokenizer has {tokens} tokens and the weights {rows}; they are not of one model");
            return Err(ModelError::bad(&files[0].0, what));
        }
        let mut video_template = None;
        if let Some(vision) = &vision {
            let (markers, path) = (vision.markers(), source.described_in());
            for marker in markers.all() {
                check_placeholder(&tokenizer, marker, &path)?;
            }
            let own = markers.video_template.filter(|_| options.template == Template::Own);
            let new = |text: &str| ChatTemplate::new(text.to_owned(), &source.path(), tokenizer.special_text());
            video_template = own.map(new).transpose()?;
        }
        let engine = Engine::new(Arc::new(decoder));
        let _scratch = match &source {
            Source::Synthetic(tensors, _) => Some(tensors.folder()),
            Source::Gguf(_) | Source::Folder(..) => None,
        };
        Ok(Self { engine, tokenizer, vision, template, video_template, files, _scratch, options: options.clone() })
    }

    /// Whether prompts go through a chat template.
    pub fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// SHA-256 over all files that decide the model's answers. `on_bytes` is told how many were read.
    pub fn sha256(&self, on_bytes: &mut dyn FnMut(u64)) -> Result<String, ModelError> {
        let files: Vec<PathBuf> = self.files.iter().map(|(path, _)| path.clone()).collect();
        let hashed = hash(&files, on_bytes)?;
        let mut whole = whole(hashed.iter().map(|file| (file.path.file_name().unwrap_or_default(), file.sha256)));
        if let (Template::File(_), Some(template)) = (&self.options.template, &self.template) {
            whole.update(template.source().as_bytes());
        }
        self.check_unchanged()?;
        Ok(Hash::from(whole).to_string())
    }

    /// An error if a file was changed since it was loaded: weights are read where they lie, so answers may be of both.
    pub fn check_unchanged(&self) -> Result<(), ModelError> {
        for (path, stamp) in &self.files {
            if Stamp::of(path)? != *stamp {
                let what = "the file was changed while it was in use; answers may be neither the old nor the new one's. \
                            Run again into another folder";
                return Err(ModelError::bad(path, what));
            }
        }
        Ok(())
    }

    /// How it was loaded.
    pub fn options(&self) -> &LoadOptions {
        &self.options
    }
}

/// That tokenizer and configuration agree on what stands for a row of a picture.
fn check_placeholder(tokenizer: &Tokenizer, marker: &Marker, path: &Path) -> Result<(), ModelError> {
    let (text, token) = (marker.placeholder.text, marker.placeholder.token);
    match tokenizer.find(text) {
        Some(found) if found == token => {
            let read = tokenizer.encode(&[Piece::Trusted(text.into())])?;
            if read == [token] {
                return Ok(());
            }
            let what = format!("the tokenizer reads `{text}`, which stands for a picture, as other tokens: {read:?}");
            Err(ModelError::bad(path, format!("{what}; is its tokenizer.json whole?")))
        }
        Some(found) => {
            let what = format!("`{text}` is token {token} for config.json and {found} for tokenizer.json");
            Err(ModelError::bad(path, format!("{what}; the files are not of one model")))
        }
        None => {
            let what = format!("the tokenizer has no token `{text}`, which stands for a picture; is it this model's?");
            Err(ModelError::bad(path, what))
        }
    }
}

fn read_template(path: &Path) -> Result<String, ModelError> {
    let there = read_file(path, LARGEST_TEMPLATE)?;
    let bytes = there.ok_or_else(|| ModelError::NotFound(format!("{}: there is no such file", path.display())))?;
    String::from_utf8(bytes).map_err(|_| ModelError::bad(path, "not UTF-8 text"))
}

/// What tells that a file is still the one that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    length: u64,
    changed: Option<SystemTime>,
}

impl Stamp {
    fn of(path: &Path) -> Result<Self, ModelError> {
        let about = fs::metadata(path).map_err(|source| ModelError::io(path, source))?;
        Ok(Self { length: about.len(), changed: about.modified().ok() })
    }
}
