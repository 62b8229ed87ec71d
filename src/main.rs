//! Parse, dispatch, exit code.

use std::process::ExitCode;

use capjudge::cli::{Cli, exit_code, say};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.run() {
        Ok(end) => end.into(),
        Err(error) => {
            // Not `{:#}`: every error tells its own cause already.
            say(&format!("capjudge: {error}"));
            ExitCode::from(exit_code(&error))
        }
    }
}
