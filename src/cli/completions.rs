//! `capjudge completions`: a script for the shell.

use anyhow::Result;
use clap::{Args as ClapArgs, CommandFactory};
use clap_complete::Shell;

use super::output::print;
use super::{Cli, End};

const EXAMPLES: &str = "\
Examples:
  capjudge completions bash > ~/.local/share/bash-completion/completions/capjudge
  capjudge completions zsh  > ~/.zfunc/_capjudge
  capjudge completions fish > ~/.config/fish/completions/capjudge.fish";

/// Flags of `completions`.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    /// Runs.
    pub fn run(self) -> Result<End> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "capjudge", &mut script);
        print(&String::from_utf8(script)?)?;
        Ok(End::Done)
    }
}
