//! `treefold man`: writes the manual pages of all commands, from their help.

use crate::args::Cli;
use crate::exit::{Failure, Verdict};
use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
        let failed = |error: io::Error| {
            Failure::failed(format!("can't write manual pages into {}: {error}", self.dir.display()))
        };
        fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut all = <Cli>::command().disable_help_subcommand(true);
        all.build();
        write(&all, "treefold", &self.dir).map_err(failed)?;
        Ok(Verdict::Full)
    }
}

/// Writes the page of a command, and those of the commands below it.
fn write(command: &Command, name: &str, dir: &Path) -> io::Result<()> {
    let page = command.clone().name(name.to_owned()).display_name(name.to_owned());
    let mut bytes = Vec::new();
    Man::new(page).render(&mut bytes)?;
    fs::write(dir.join(format!("{name}.1")), bytes)?;
    command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
        .try_for_each(|below| write(below, &format!("{name}-{}", below.get_name()), dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_flags() {
        let dir = tempfile::tempdir().unwrap();
        ManPages { dir: dir.path().to_owned() }.run().unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(read("treefold.1").contains("treefold\\-doctor(1)"), "the first page names the others");
        assert!(read("treefold-node.1").contains("\\-\\-gateway\\-tls\\-cert"));
        assert!(read("treefold-placement-show.1").contains("SERVICE"));
        assert!(!dir.path().join("treefold-man.1").exists(), "hidden commands have no page");
    }
}
