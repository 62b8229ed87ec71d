//! `capjudge prompts`: list, show, check.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};

use super::End;
use super::exit::Usage;
use super::output::print;
use crate::dataset::{Limits, RecordReader};
use crate::guide::{Bounds, grammar_text};
use crate::task::{Catalog, Origin};

const EXAMPLES: &str = "\
Examples:
  capjudge prompts list
  capjudge prompts show omission
  capjudge prompts show omission --data captions.jsonl --id clip-7     what the judge is asked
  capjudge prompts show omission --grammar                             what a guided answer keeps to
  capjudge prompts check --prompts my-prompts";

/// Flags of `prompts`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// A folder with tasks of your own (NAME.toml + NAME.txt)
    #[arg(long, value_name = "DIR", global = true)]
    prompts: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The tasks there are
    List,
    /// A task's template, its declaration, or the prompt for a record
    Show {
        /// The task: hallucination, omission, score, or one of --prompts
        task: String,
        /// Show the declaration instead of the template
        #[arg(long, conflicts_with = "data")]
        declaration: bool,
        /// Show the grammar that guided answers keep to
        #[arg(long, conflicts_with_all = ["data", "declaration"])]
        grammar: bool,
        /// Fill the template with a record of this data set
        #[arg(long, value_name = "FILE")]
        data: Option<PathBuf>,
        /// Which record; the first one if not given
        #[arg(long, requires = "data")]
        id: Option<String>,
        /// Show the prompt's segments as JSON: what is trusted, and what is data
        #[arg(long, requires = "data")]
        json: bool,
    },
    /// Check every task: placeholders, answer format, metrics
    Check,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let folder = self.prompts.as_deref();
        match self.verb {
            Verb::List => {
                for (task, origin) in Catalog::load(folder)?.iter() {
                    let from = match origin {
                        Origin::BuiltIn => "built in".to_owned(),
                        Origin::File(path) => path.display().to_string(),
                    };
                    print(&format!("{:<15} {} [{from}]\n", task.name, task.spec.description))?;
                }
                Ok(End::Done)
            }
            Verb::Check => check(Catalog::load_all(folder)),
            Verb::Show { task, declaration, grammar, data, id, json } => {
                let catalog = Catalog::load(folder)?;
                let task = catalog.get(&task)?;
                let text = match data {
                    None if grammar => grammar_text(task, &Bounds::default())?,
                    None if declaration => toml::to_string_pretty(&task.spec)?,
                    None => task.template.text().to_owned(),
                    Some(data) => {
                        let record = find_record(&data, id.as_deref())?;
                        let prompt = task.prompt(&record).map_err(|error| Usage(error.to_string()))?;
                        if json {
                            serde_json::to_string_pretty(&prompt)? + "\n"
                        } else {
                            prompt.to_display("[the video's frames]\n")
                        }
                    }
                };
                print(&text)?;
                Ok(End::Done)
            }
        }
    }
}

fn find_record(data: &std::path::Path, id: Option<&str>) -> Result<crate::dataset::Record> {
    for entry in RecordReader::open(data, Limits::default())? {
        let entry = entry?;
        if id.is_none_or(|id| id == entry.id) {
            return entry.record.map_err(|broken| {
                let list: Vec<String> = broken.problems.iter().map(ToString::to_string).collect();
                Usage(format!("{}:{}: {}", data.display(), entry.line, list.join("; "))).into()
            });
        }
    }
    let which = id.map_or("no record".to_owned(), |id| format!("no record with the id {id:?}"));
    Err(Usage(format!("{}: {which}", data.display())).into())
}

fn check((catalog, errors): (Catalog, Vec<crate::task::CatalogError>)) -> Result<End> {
    let mut problems = errors.len();
    for error in errors {
        print(&format!("problem: {error}\n"))?;
    }
    for (task, _) in catalog.iter() {
        let undeclared: Vec<&str> = task
            .template
            .undeclared()
            .into_iter()
            .filter(|word| !task.spec.literal.iter().any(|l| l == word))
            .collect();
        for word in &undeclared {
            print(&format!(
                "problem: {}: the template has {{{word}}}, which is neither a declared placeholder nor in `literal`\n",
                task.name
            ))?;
        }
        if undeclared.is_empty() {
            print(&format!("ok: {}\n", task.name))?;
        }
        problems += undeclared.len();
    }
    Ok(if problems == 0 { End::Done } else { End::Invalid })
}
