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
    #[error(
        "there is no task `{name}`; there are {known}. A task of your own is NAME.toml + NAME.txt in --prompts DIR"
    )]
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
    /// A declaration without its template.
    #[error("{path}: its template {template} cannot be read: {source}")]
    Template {
        /// The declaration.
        path: PathBuf,
        /// The template.
        template: PathBuf,
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

    /// The built-in tasks and, if a folder is given, those in it; or the first thing that is wrong.
    pub fn load(folder: Option<&Path>) -> Result<Self, CatalogError> {
        let (catalog, errors) = Self::load_all(folder);
        errors.into_iter().next().map_or(Ok(catalog), Err)
    }

    /// The tasks that can be had, and all that is wrong with the others.
    pub fn load_all(folder: Option<&Path>) -> (Self, Vec<CatalogError>) {
        let (mut catalog, mut errors) = match Self::built_in() {
            Ok(catalog) => (catalog, Vec::new()),
            Err(error) => (Self { tasks: BTreeMap::new() }, vec![error]),
        };
        if let Some(folder) = folder {
            errors.extend(catalog.add_folder(folder));
        }
        (catalog, errors)
    }

    fn add_folder(&mut self, folder: &Path) -> Vec<CatalogError> {
        let listed = fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>());
        let mut paths = match listed {
            Ok(paths) => paths,
            Err(source) => return vec![CatalogError::Io { path: folder.to_owned(), source }],
        };
        paths.sort();
        let mut errors = Vec::new();
        let mut templates = Vec::new();
        for path in paths.iter().filter(|path| has_extension(path, "toml")) {
            match read_task(path) {
                Ok((task, template)) => {
                    templates.push(template);
                    self.tasks.insert(task.name.clone(), (task, Origin::File(path.clone())));
                }
                Err(error) => {
                    templates.push(path.with_extension("txt"));
                    errors.push(error);
                }
            }
        }
        let lone = paths.iter().filter(|path| has_extension(path, "txt") && !templates.contains(path));
        errors.extend(lone.map(|path| CatalogError::Lone { path: path.clone() }));
        if templates.is_empty() && errors.is_empty() {
            errors.push(CatalogError::Empty { path: folder.to_owned() });
        }
        errors
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

/// Reads a task from its TOML file; also gives the path of its template.
fn read_task(path: &Path) -> Result<(Task, PathBuf), CatalogError> {
    let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let toml = read(path)?;
    let declared = toml::from_str::<toml::Table>(&toml).ok();
    let declared = declared.as_ref().and_then(|table| table.get("template")?.as_str());
    let template = path.with_file_name(declared.map_or_else(|| format!("{name}.txt"), str::to_owned));
    let text = fs::read_to_string(&template).map_err(|source| CatalogError::Template {
        path: path.to_owned(),
        template: template.clone(),
        source,
    })?;
    let task = Task::new(name, &toml, text).map_err(|source| CatalogError::Task { path: path.to_owned(), source })?;
    Ok((task, template))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn read(path: &Path) -> Result<String, CatalogError> {
    fs::read_to_string(path).map_err(|source| CatalogError::Io { path: path.to_owned(), source })
}
