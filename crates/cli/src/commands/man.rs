//! `treefold man`: writes the manual pages of all commands, from their help.

use crate::args::Cli;
use crate::exit::{Failure, Verdict};
use clap::{Args, CommandFactory};
use std::fs;
use std::path::PathBuf;

/// Write the manual pages of all commands into a folder
///
/// One page a command: treefold.1, treefold-node.1, treefold-placement-show.1 and so on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManPages {
    /// Folder, which is made if it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  treefold man ~/.local/share/man/man1 && man treefold-node";

impl ManPages {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let written = fs::create_dir_all(&self.dir)
            .and_then(|()| clap_mangen::generate_to(<Cli>::command(), &self.dir));
        written.map_err(|error| {
            Failure::failed(format!("can't write manual pages into {}: {error}", self.dir.display()))
        })?;
        Ok(Verdict::Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let dir = tempfile::tempdir().unwrap();
        ManPages { dir: dir.path().to_owned() }.run().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(read("treefold.1").contains("doctor"), "the first page names the others");
        assert!(read("treefold-node.1").contains("gateway"));
        assert!(read("treefold-placement-show.1").contains("SERVICE"));
        assert!(!dir.path().join("treefold-man.1").exists(), "hidden commands have no page");
    }
}
