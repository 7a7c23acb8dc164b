//! `treefold keys rotate`: replaces the authority while the cluster runs.

use super::files::{authority, authority_path, issued_again, process_files, refused, write, write_all};
use super::{Folder, Validity};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;

/// Replace the authority of a running cluster, in two steps
///
/// The first step makes a new authority and issues all files again. Their processes trust both authorities, and processes
/// that still have an old file accept the new certificates, so the files can be copied in any order. When all processes have
/// them, the second step, --finish, issues all files once more, and their processes trust the new authority alone. Each step
/// also replaces the key of datagrams.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rotate {
    /// Forget the old authority
    #[arg(long)]
    finish: bool,

    #[command(flatten)]
    validity: Validity,

    #[command(flatten)]
    folder: Folder,
}

const EXAMPLES: &str = "\
Examples:
  treefold keys rotate
  treefold keys rotate --finish";

impl Rotate {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let dir = &self.folder.dir;
        let old = authority(dir)?;
        let new = if self.finish { old.finish() } else { old.rotate() };
        let new = new.map_err(|error| refused(&error))?;
        let files = process_files(dir)?;
        // Nothing is written before all is made. Then the authority goes first: files of a lost one could not be renewed.
        let texts = issued_again(&new, &files, self.validity.duration())?;
        write(&authority_path(dir), &new.to_pem())?;
        write_all(&files, &texts)?;
        let (count, names) = (files.len(), files.iter().map(|path| path.display().to_string()).collect());
        match format {
            Format::Text if self.finish => print(format_args!(
                "the old authority is forgotten; {count} files are issued again\nnext: copy the files to their processes"
            )),
            Format::Text => print(format_args!(
                "there are two authorities now; {count} files are issued again\n\
                 next: copy the files to their processes, then run: treefold keys rotate --finish"
            )),
            Format::Json => {
                #[derive(Serialize)]
                struct Rotated {
                    finished: bool,
                    renewed: Vec<String>,
                }
                print_json(&Rotated { finished: self.finish, renewed: names });
            }
        }
        Ok(Verdict::Full)
    }
}
