//! The tasks there are: the built-in ones, and those of a folder of the user's.
//!
//! Invariant: a folder adds or replaces whole tasks. A broken task in it is an error, not a silent fall back to the
//! built-in one of the same name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::{Task, TaskError};

const BUILT_IN: [(&str, &str, &str); 3] = [
    (
        "hallucination",
        include_str!("../../prompts/hallucination.toml"),
        include_str!("../../prompts/hallucination.txt"),
    ),
    ("omission", include_str!("../../prompts/omission.toml"), include_str!("../../prompts/omission.txt")),
    ("score", include_str!("../../prompts/score.toml"), include_str!("../../prompts/score.txt")),
];

/// Where a task comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Compiled in.
    BuiltIn,
    /// A TOML file of the user's.
    File(PathBuf),
}

/// All tasks, by name.
#[derive(Debug, Clone)]
pub struct Catalog {
    tasks: BTreeMap<String, (Task, Origin)>,
}

/// Why the tasks cannot be had.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// No task has that name.
    #[error("there is no task `{name}`; there are {known}. A task of your own is NAME.toml + NAME.txt in --prompts DIR")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A template without a declaration.
    #[error("{0}: a template without a declaration; write {1} beside it (docs/tasks.md)", path.display(), path.with_extension("toml").display())]
    Lone {
        /// The template.
        path: PathBuf,
    },
    /// A task is broken.
    #[error("{path}: {source}")]
    Task {
        /// Its TOML file.
        path: PathBuf,
        /// What is wrong.
        source: TaskError,
    },
    /// The folder has no task in it.
    #[error("{0}: no task in this folder; a task is NAME.toml + NAME.txt (docs/tasks.md)", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
}

impl Catalog {
    /// The tasks that are compiled in.
    pub fn built_in() -> Result<Self, CatalogError> {
        let tasks = BUILT_IN.iter().map(|(name, toml, text)| match Task::new(name, toml, (*text).to_owned()) {
            Ok(task) => Ok(((*name).to_owned(), (task, Origin::BuiltIn))),
            Err(source) => Err(CatalogError::Task { path: PathBuf::from(format!("prompts/{name}.toml")), source }),
        });
        Ok(Self { tasks: tasks.collect::<Result<_, _>>()? })
    }

    /// The built-in tasks and, if a folder is given, those in it.
    pub fn load(folder: Option<&Path>) -> Result<Self, CatalogError> {
        let mut catalog = Self::built_in()?;
        if let Some(folder) = folder {
            catalog.add_folder(folder)?;
        }
        Ok(catalog)
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), CatalogError> {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(|source| CatalogError::Io { path: folder.to_owned(), source })?;
        paths.sort();
        let mut templates = Vec::new();
        for path in paths.iter().filter(|path| has_extension(path, "toml")) {
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let toml = read(path)?;
            let declared: Option<String> = toml::from_str::<toml::Table>(&toml)
                .ok()
                .and_then(|table| table.get("template")?.as_str().map(str::to_owned));
            let template_path = folder.join(declared.unwrap_or_else(|| format!("{name}.txt")));
            let task = Task::new(name, &toml, read(&template_path)?)
                .map_err(|source| CatalogError::Task { path: path.clone(), source })?;
            templates.push(template_path);
            self.tasks.insert(name.to_owned(), (task, Origin::File(path.clone())));
        }
        if let Some(path) = paths.iter().find(|path| has_extension(path, "txt") && !templates.contains(path)) {
            return Err(CatalogError::Lone { path: path.clone() });
        }
        if templates.is_empty() {
            return Err(CatalogError::Empty { path: folder.to_owned() });
        }
        Ok(())
    }

    /// The task of that name.
    pub fn get(&self, name: &str) -> Result<&Task, CatalogError> {
        self.tasks.get(name).map(|(task, _)| task).ok_or_else(|| CatalogError::Unknown {
            name: name.to_owned(),
            known: self.tasks.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// All tasks and where they come from, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Task, &Origin)> {
        self.tasks.values().map(|(task, origin)| (task, origin))
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn read(path: &Path) -> Result<String, CatalogError> {
    fs::read_to_string(path).map_err(|source| CatalogError::Io { path: path.to_owned(), source })
}
