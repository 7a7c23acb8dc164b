//! `treefold keys init`: makes the authority of a cluster.

use super::Folder;
use super::files::{authority_path, refused, write};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::fs;
use treefold_certificates::Authority;

/// Make the authority of a cluster, which issues the certificates of its processes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// Name of the cluster
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,

    #[command(flatten)]
    folder: Folder,
}

const EXAMPLES: &str = "\
Examples:
  treefold keys init --cluster prod
  treefold keys init --cluster staging --dir staging-keys";

impl Init {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let dir = &self.folder.dir;
        let path = authority_path(dir);
        if path.exists() {
            return Err(Failure::usage(format!(
                "{} is there already; `treefold keys rotate` replaces it while the cluster runs",
                path.display()
            )));
        }
        let authority = Authority::new(&self.cluster).map_err(|error| refused(&error))?;
        fs::create_dir_all(dir)
            .map_err(|error| Failure::failed(format!("can't make the folder {}: {error}", dir.display())))?;
        write(&path, &authority.to_pem())?;
        match format {
            Format::Text => print(format_args!(
                "made the authority of the cluster {:?} in {}; keep it on this machine\n\
                 next: treefold keys issue node NAME --at ADDRESS",
                self.cluster,
                path.display()
            )),
            Format::Json => {
                #[derive(Serialize)]
                struct Made {
                    cluster: String,
                    file: String,
                }
                print_json(&Made { cluster: self.cluster, file: path.display().to_string() });
            }
        }
        Ok(Verdict::Full)
    }
}
