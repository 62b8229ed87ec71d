//! `capjudge import`: public files become a data set.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};

use super::End;
use super::exit::Usage;
use super::output::{say, write};
use crate::dataset::import::{Captions, Import, Missing, Options, anycapeval, dream1k, noah};

const EXAMPLES: &str = "\
Examples:
  capjudge import noah --recipes recipes.json --results results.json --system my-model --out captions.jsonl
  capjudge import anycapeval --refs refs.jsonl --responses responses.jsonl --system my-model --videos videos/ \\
    --out captions.jsonl
  capjudge import dream1k --refs DREAM-1k.jsonl --responses responses.jsonl --system my-model > captions.jsonl";

/// Flags of `import`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// NOAH: recipes [{id, sentences, aug_sentences, insert_event_idx?}] and results [{id, caption, status}]
    Noah {
        /// The recipes: the ground-truth events of each video
        #[arg(long, value_name = "FILE")]
        recipes: PathBuf,
        /// The system's captions
        #[arg(long, value_name = "FILE")]
        results: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// AnyCapEval: references with type and length rule, and responses [{id, response}]
    Anycapeval {
        /// The references
        #[arg(long, value_name = "FILE")]
        refs: PathBuf,
        /// The system's captions
        #[arg(long, value_name = "FILE")]
        responses: PathBuf,
        /// The folder with the videos, as seen from the data set that is written
        #[arg(long, value_name = "DIR")]
        videos: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// DREAM-1K: references with events, and responses [{idx, prediction}]
    Dream1k {
        /// The references
        #[arg(long, value_name = "FILE")]
        refs: PathBuf,
        /// The system's captions
        #[arg(long, value_name = "FILE", required_unless_present = "reference_as_caption")]
        responses: Option<PathBuf>,
        /// Judge the references themselves, as a baseline
        #[arg(long, conflicts_with = "responses")]
        reference_as_caption: bool,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, ClapArgs)]
struct Common {
    /// The name of the system whose captions they are
    #[arg(long, value_name = "NAME")]
    system: String,
    /// Stands before every id, so that files of several systems can be joined
    #[arg(long, value_name = "TEXT", default_value = "")]
    id_prefix: String,
    /// Keep what has no caption, as records that come out unscored
    #[arg(long)]
    keep_missing: bool,
    /// The data set to write; standard output if not given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Common {
    fn options(&self) -> Result<Options<'_>, Usage> {
        if self.system.trim().is_empty() {
            return Err(Usage("--system is empty; name the system whose captions these are".to_owned()));
        }
        let missing = if self.keep_missing { Missing::Keep } else { Missing::Skip };
        Ok(Options { system: &self.system, id_prefix: &self.id_prefix, missing })
    }
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let (import, common) = match self.format {
            Format::Noah { recipes, results, common } => (noah(&recipes, &results, common.options()?)?, common),
            Format::Anycapeval { refs, responses, videos, common } => {
                (anycapeval(&refs, &responses, common.options()?, videos.as_deref())?, common)
            }
            Format::Dream1k { refs, responses, common, .. } => {
                let captions = responses.as_deref().map_or(Captions::References, Captions::File);
                (dream1k(&refs, captions, common.options()?)?, common)
            }
        };
        let Import { records, notes } = import;
        let mut text = String::new();
        for record in &records {
            text.push_str(&serde_json::to_string(record)?);
            text.push('\n');
        }
        write(&text, common.out.as_deref())?;
        for note in notes {
            say(&format!("note: {note}"));
        }
        say(&format!("{} records of {}", records.len(), common.system));
        Ok(End::Done)
    }
}
