//! `treefold keys`: the certificates of a cluster.
//!
//! - [`init`]: makes the cluster's authority.
//! - [`issue`]: issues a certificate for a node or a client.
//! - [`renew`]: issues certificates again, before they expire.
//! - [`rotate`]: replaces the authority while the cluster runs.
//! - [`show`]: shows the content of files.
//! - [`files`]: the folder of files, and how they are read and written.

mod files;
mod init;
mod issue;
mod renew;
mod rotate;
mod show;

pub(crate) use files::write as write_private;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Make and show the keys of a cluster whose processes recognise each other by certificates
///
/// The keys are in one folder, on a machine of your own. It has the authority's file, which stays there, and a file for each
/// process. Copy that to the process's machine, and name it there with --keys or in TREEFOLD_KEYS. A running process reads
/// its file again when it has changed. docs/security.md describes what the keys defend against.
#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Init(init::Init),
    Issue(issue::Issue),
    Renew(renew::Renew),
    Rotate(rotate::Rotate),
    Show(show::Show),
}

/// The folder with the keys.
#[derive(Debug, Args)]
struct Folder {
    /// Folder with the keys of the cluster
    #[arg(long, value_name = "DIR", default_value = "keys")]
    dir: PathBuf,
}

/// How long certificates are valid.
#[derive(Debug, Args)]
struct Validity {
    /// Days that a certificate is valid; its process warns in its log from 30 days before the end
    #[arg(long, value_name = "N", default_value = "365", value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
}

impl Validity {
    fn duration(&self) -> Duration {
        Duration::from_secs(u64::from(self.days) * 24 * 60 * 60)
    }
}

impl KeysArgs {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Init(init) => init.run(format),
            What::Issue(issue) => issue.run(format),
            What::Renew(renew) => renew.run(format),
            What::Rotate(rotate) => rotate.run(format),
            What::Show(show) => show.run(format),
        }
    }
}
