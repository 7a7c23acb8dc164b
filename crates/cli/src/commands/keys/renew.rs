//! `treefold keys renew`: issues certificates again.

use super::files::{authority, issued_again, process_files, write_all};
use super::{Folder, Validity};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Issue certificates again, with new private keys and a new time of validity
///
/// Copy the files to their processes, which read them again while they run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Renew {
    /// Files to renew [default: those of all processes in the folder]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    validity: Validity,

    #[command(flatten)]
    folder: Folder,
}

const EXAMPLES: &str = "\
Examples:
  treefold keys renew
  treefold keys renew keys/n1.pem --days 90";

impl Renew {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let authority = authority(&self.folder.dir)?;
        let files = if self.files.is_empty() { process_files(&self.folder.dir)? } else { self.files };
        if files.is_empty() {
            return Err(Failure::usage(format!(
                "{} has no files of processes; `treefold keys issue` makes them",
                self.folder.dir.display()
            )));
        }
        let texts = issued_again(&authority, &files, self.validity.duration())?;
        write_all(&files, &texts)?;
        let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        match format {
            Format::Text => print(format_args!(
                "renewed for {} days: {}\nnext: copy the files to their processes, which read them again",
                self.validity.days,
                names.join(" ")
            )),
            Format::Json => {
                #[derive(Serialize)]
                struct Renewed {
                    renewed: Vec<String>,
                }
                print_json(&Renewed { renewed: names });
            }
        }
        Ok(Verdict::Full)
    }
}
