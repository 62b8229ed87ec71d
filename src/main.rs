//! Parse, dispatch, exit code.

use std::process::ExitCode;

use capjudge::cli::{Cli, exit_code};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.run() {
        Ok(end) => end.into(),
        Err(error) => {
            // `{:#}` also shows the cause: the file, the field, what the system said.
            let code = exit_code(&error);
            if code != 0 {
                eprintln!("capjudge: {error:#}");
            }
            ExitCode::from(code)
        }
    }
}
