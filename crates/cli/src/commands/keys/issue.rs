//! `treefold keys issue`: issues a certificate.

use super::files::{AUTHORITY, authority, file_of, refused, write};
use super::{Folder, Validity};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use treefold::{CallError, Right, Rights};
use treefold_certificates::{Grant, Place, Role, Services};

/// Issue the keys of a node or of a client: a file with its private key, its certificate and the authority's
///
/// The certificate says what its process may do, and nodes check it:
///   call     make calls
///   stream   open streams
///   push     attach as a worker and push results
///   feed     feed mirrors
///   read     read from mirrors
///   operate  push operators and set shares
///   join     be a member, at one of the addresses of --at; only for nodes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, verbatim_doc_comment)]
pub(crate) struct Issue {
    /// Kind of the process: a node listens and may join, a client only connects
    #[arg(value_enum)]
    role: Kind,

    /// Name of the process; its file is NAME.pem in the folder
    #[arg(value_name = "NAME")]
    name: String,

    /// Rights of the process, separated by commas [default: join for a node, call for a client]
    #[arg(long, value_name = "RIGHT", value_delimiter = ',', value_parser = str::parse::<Right>)]
    may: Vec<Right>,

    /// Services for which it may do that, separated by commas; a node may serve no others. To call the mirrors of FEED and its
    /// origin, name FEED and FEED.origin [default: all]
    #[arg(long, value_name = "SERVICE", value_delimiter = ',')]
    services: Vec<String>,

    /// Addresses at which a node may be a member, separated by commas: 10.0.0.7:7700, 10.0.0.7 for any port, or a network,
    /// 10.0.0.0/24
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = str::parse::<Place>)]
    at: Vec<Place>,

    #[command(flatten)]
    validity: Validity,

    #[command(flatten)]
    folder: Folder,

    /// File to write instead
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    Node,
    Client,
}

const EXAMPLES: &str = "\
Examples:
  treefold keys issue node n1 --at 10.0.0.7:7700
  treefold keys issue node spare --at 10.0.0.0/24 --services search,hosts
  treefold keys issue client web --may call --services search
  treefold keys issue client admin --may call,stream,operate --days 30";

impl Issue {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let authority = authority(&self.folder.dir)?;
        if self.name == AUTHORITY || self.name.contains(['/', '\0']) || self.name.starts_with('.') {
            let limit = format!("a file's name without '/', not {AUTHORITY:?}, and not beginning with '.'");
            return Err(Failure::Rejected(CallError::bad_field("name", &self.name, limit)));
        }
        let path = self.out.clone().unwrap_or_else(|| file_of(&self.folder.dir, &self.name));
        if path.exists() {
            return Err(Failure::usage(format!(
                "{} is there already; `treefold keys renew` issues it again, or remove it first",
                path.display()
            )));
        }
        let valid = self.validity.duration();
        let grant = self.grant(authority.cluster());
        let file = authority.issue(&grant, valid).map_err(|error| refused(&error))?;
        write(&path, &file.to_pem())?;
        match format {
            Format::Text => print(format_args!("{}: {grant}", path.display())),
            Format::Json => {
                #[derive(Serialize)]
                struct Issued {
                    file: String,
                    grant: String,
                }
                print_json(&Issued { file: path.display().to_string(), grant: grant.to_string() });
            }
        }
        Ok(Verdict::Full)
    }

    fn grant(self, cluster: &str) -> Grant {
        let (role, default) = match self.role {
            Kind::Node => (Role::Node, Right::Join),
            Kind::Client => (Role::Client, Right::Call),
        };
        let may: Rights = if self.may.is_empty() {
            [default].into_iter().collect()
        } else {
            self.may.into_iter().collect()
        };
        let services = match self.services.is_empty() {
            true => Services::All,
            false => Services::Named(self.services.into_iter().collect()),
        };
        Grant { cluster: cluster.to_owned(), role, name: self.name, may, services, at: self.at }
    }
}
