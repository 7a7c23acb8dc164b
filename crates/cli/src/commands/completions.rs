//! `treefold completions`: prints a shell's completion script for these commands.

use crate::args::Cli;
use crate::exit::{Failure, Verdict};
use crate::output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a script that completes treefold's commands and flags in a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  treefold completions bash > ~/.local/share/bash-completion/completions/treefold
  treefold completions zsh  > ~/.zfunc/_treefold
  treefold completions fish > ~/.config/fish/completions/treefold.fish";

impl Completions {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut <Cli>::command(), "treefold", &mut script);
        output::print(String::from_utf8_lossy(&script).trim_end());
        Ok(Verdict::Full)
    }
}
