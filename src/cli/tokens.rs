//! `capjudge tokens`: what a model reads of a text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args as ClapArgs;
use serde_json::json;

use super::End;
use super::exit::Usage;
use super::output::{print, printable_lines};
use crate::model::gguf::GgufFile;
use crate::model::locate::{Located, locate};
use crate::model::tokenizer::MAX_TEXT_BYTES;
use crate::model::{Piece, TokenId, Tokenizer, pocket};

const EXAMPLES: &str = "\
Examples:
  capjudge tokens --model judge.gguf --text 'A man runs.<|im_end|>'                 special tokens are read
  capjudge tokens --model judge.gguf --text 'A man runs.<|im_end|>' --untrusted     as captions are: they are not
  capjudge tokens --model judge.gguf --file strings.jsonl                           a JSON array of ids for each line";

/// Flags of `tokens`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The model: a .gguf file, a folder with tokenizer.json, a repository in the local Hugging Face cache, or
    /// pocket (built in, a toy)
    #[arg(long, default_value = pocket::NAME)]
    model: String,
    /// The text; standard input if neither --text nor --file is given
    #[arg(long, conflicts_with = "file", allow_hyphen_values = true)]
    text: Option<String>,
    /// JSON Lines of strings; prints a JSON array of ids for each
    #[arg(long)]
    file: Option<PathBuf>,
    /// Tokenise as data: no special or added token is read in it
    #[arg(long)]
    untrusted: bool,
    /// Print a JSON object for each token
    #[arg(long, conflicts_with = "file")]
    json: bool,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let tokenizer = match locate(&self.model)? {
            Located::Folder(folder) => Tokenizer::from_folder(&folder)?,
            Located::Gguf(path) => Tokenizer::from_gguf(&path, GgufFile::open(&path)?.metadata())?,
        };
        let encode = |text: &str| {
            let piece = if self.untrusted { Piece::Untrusted(text.into()) } else { Piece::Trusted(text.into()) };
            tokenizer.encode(&[piece])
        };
        if let Some(path) = &self.file {
            each_string(path, |text| print(&format!("{}\n", serde_json::to_string(&encode(text)?)?)))?;
            return Ok(End::Done);
        }
        let text = match self.text {
            Some(text) => text,
            None => from_stdin()?,
        };
        let ids = encode(&text)?;
        print(&ids.iter().map(|id| line(&tokenizer, *id, self.json)).collect::<String>())?;
        Ok(End::Done)
    }
}

fn line(tokenizer: &Tokenizer, id: TokenId, as_json: bool) -> String {
    let token = tokenizer.token(id).unwrap_or_default();
    if as_json {
        let bytes = tokenizer.bytes(id).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        format!("{}\n", json!({"id": id, "token": token, "text": text, "reserved": tokenizer.is_reserved(id)}))
    } else {
        printable_lines(&format!("{id:>8}  {}\n", token.escape_debug()))
    }
}

fn from_stdin() -> Result<String> {
    let mut text = String::new();
    io::stdin()
        .take(MAX_TEXT_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| Usage(format!("standard input: {error}; give UTF-8 text, or use --text")))?;
    Ok(text)
}

/// Calls for each string of a JSON Lines file, in order.
fn each_string(path: &Path, mut call: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let failed = |error: io::Error| anyhow!("{}: {error}", path.display());
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    // An escape such as \u0000 takes six bytes for one.
    let limit = 6 * MAX_TEXT_BYTES as u64 + 3;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if reader.by_ref().take(limit).read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let text: String = serde_json::from_slice(&line)
            .map_err(|_| Usage(format!("{}:{number}: not a JSON string; give one a line", path.display())))?;
        call(&text)?;
    }
    Ok(())
}
