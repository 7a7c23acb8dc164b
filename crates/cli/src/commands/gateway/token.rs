//! `treefold gateway token`: makes a token, prints it once, and adds its hash to the file.

use crate::commands::keys::write_private;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::PathBuf;
use treefold_gateway::Limits;
use treefold_gateway::tokens::{self, Entry, GatewayRight, ServiceNames};

/// Make a random token for a caller, print it, and add its hash to the file of a gateway
///
/// The token is printed once and stored nowhere: the file has its SHA-256. A running gateway reads its file again when it
/// has changed. To take a token back, remove its entry.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct TokenArgs {
    /// Name of the caller, in messages and in the file
    #[arg(value_name = "NAME")]
    name: String,

    /// File with the tokens; it is made if there is none
    #[arg(long, value_name = "FILE", default_value = "gateway-tokens.toml")]
    file: PathBuf,

    /// Services that the caller may call, separated by commas; * means all
    #[arg(long, value_name = "SERVICE", required = true, value_delimiter = ',')]
    services: Vec<String>,

    /// Rights of the caller: call (the services), read (the state and the counters of the cluster)
    #[arg(long, value_name = "RIGHT", default_value = "call", value_delimiter = ',', value_parser = str::parse::<GatewayRight>)]
    rights: Vec<GatewayRight>,

    /// Most requests of the caller in a second [default: the gateway's limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: Option<u32>,

    /// Most open calls of the caller [default: the gateway's limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    open_calls: Option<u32>,

    /// Most open streams of the caller [default: the gateway's limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    open_streams: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  treefold gateway token dashboard --services search,logs --rights call,read
  treefold gateway token batch --services '*' --requests-per-second 100 --open-calls 16 --file /etc/treefold/tokens.toml";

#[derive(Serialize)]
struct Made<'a> {
    name: &'a str,
    token: &'a str,
    file: String,
}

impl TokenArgs {
    pub(super) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let token = tokens::draw().map_err(Failure::failed)?;
        let services = ServiceNames::new(self.services);
        let entry = Entry {
            requests_per_s: self.requests_per_second,
            calls_open_max: self.open_calls.map(|max| max as usize),
            streams_open_max: self.open_streams.map(|max| max as usize),
            ..Entry::new(self.name.clone(), &token, services, self.rights.into_iter().collect())
        };
        let path = self.file.display();
        let former = match std::fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::failed(format!("can't read {path}: {error}"))),
        };
        let between = if former.is_empty() || former.ends_with("\n\n") { "" } else { "\n" };
        let text = format!("{former}{between}{}", entry.to_toml());
        // The file stays as it was if the gateway would refuse it.
        tokens::parse(&text, Limits::default().tokens_max)
            .map_err(|problem| Failure::usage(format!("{path}: {problem}")))?;
        write_private(&self.file, &text)?;
        match format {
            Format::Text => {
                print(&token);
                crate::tell!("treefold: this is the only time that the token is shown; {path} has its hash");
            }
            Format::Json => print_json(&Made { name: &self.name, token: &token, file: path.to_string() }),
        }
        Ok(Verdict::Full)
    }
}
