//! Where results go: standard output, or a whole file.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::run::write_atomic;

/// Writes text to standard output; a closed pipe is an error of its own kind, not a panic.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Text from data, fit for a terminal: it must not move the cursor.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Writes text to a file, whole or not at all, or to standard output.
pub fn write(text: &str, file: Option<&Path>) -> Result<()> {
    match file {
        Some(path) => write_atomic(path, text.as_bytes()).with_context(|| path.display().to_string()),
        None => Ok(print(text)?),
    }
}
