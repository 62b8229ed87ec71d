//! Where results go: standard output, or a whole file; and where remarks go.
//!
//! Invariant: a reader that has gone away changes nothing but what it reads. The verb goes on to its own exit code.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, anyhow};

use crate::report::printable;
use crate::run::write_atomic;

/// Writes text to standard output. A closed pipe is no failure: nobody is listening.
pub fn print(text: &str) -> Result<()> {
    stream(text).map(|_| ())
}

/// Writes text to standard output, and tells whether anybody is listening.
pub fn stream(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow!("standard output: {error}")),
    }
}

/// Writes a line to standard error, if anybody is listening. It may quote data, so it is made fit for a terminal.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Text of several lines from data, fit for a terminal.
pub fn printable_lines(text: &str) -> String {
    printable(text, &['\n'])
}

/// Writes text to a file, whole or not at all, or to standard output.
pub fn write(text: &str, file: Option<&Path>) -> Result<()> {
    match file {
        Some(path) => write_atomic(path, text.as_bytes()).map_err(|error| anyhow!("{}: {error}", path.display())),
        None => print(text),
    }
}
