//! `treefold top`: shows live what the hosts of a cluster are doing.
//!
//! The parts are independent of each other, so that each can be tested alone:
//!
//! ```text
//!   source ──Look──▶ ┌───────┐ ──▶ view ──▶ screen            live.rs runs the loop
//!   keys ───Action─▶ │ model │ ──▶ record (‑o json)           once.rs runs it once
//!          ◀─Wishes─ └───────┘
//! ```
//!
//! - [`source`]: gives looks at the cluster, from calls of `hosts/now` or from a stream ([`streamed`]).
//! - [`model`]: a plain value with the last look, the history and the selection. It has no clock and no
//!   terminal.
//! - [`keys`]: the keys and their actions. [`slowest`]: a tree's slowest subtrees, from the times it
//!   reported.
//! - [`view`]: draws a model at any size. [`record`]: a look as JSON.

mod keys;
mod live;
mod model;
mod once;
mod record;
mod slowest;
mod source;
mod streamed;
mod view;

use super::connect;
use super::front_end::beside;
use crate::args::At;
use crate::exit::{Failure, Verdict};
use crate::output::Format;
use crate::parse;
use clap::{Args, ValueEnum};
use model::{Model, Sort};
use source::{CallSource, Watching, Wishes};
use std::io::IsTerminal;
use std::time::Duration;
use streamed::StreamSource;
use tokio::sync::watch;
use treefold::{CallError, Client};

/// Shortest time between two looks: hosts give the same sample within it.
const INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Watch the hosts of a cluster: processors, memory, network, processes, and the tree that reports them
///
/// Every host that runs a node with `--serve hosts:…` measures itself. The samples are folded up a tree, so
/// that one answer of a few kilobytes covers all hosts: totals, the worst hosts by name, the missing hosts
/// with reasons, and the slowest branches of the tree. A host measures itself only while a command watches
/// it.
///
/// Keys: q quit, p pause, c m n sort by processors, memory, network, ↑ ↓ choose a host and see its own
/// processes, + - change the interval, h help. With --once or -o json one look is printed and the command
/// ends.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    at: At,

    /// Time between two looks, with its unit: from 200ms to 1m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, allow_hyphen_values = true)]
    interval: Duration,

    /// Source of looks: a stream to which hosts send, or calls; if no stream can be opened, calls are used
    #[arg(long, value_name = "WAY", value_enum, default_value_t)]
    by: By,

    /// Time that a look waits for slow hosts, with its unit; later hosts are missing from it
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse::deadline, allow_hyphen_values = true)]
    deadline: Duration,

    /// Order of the lists
    #[arg(long, value_name = "BY", value_enum, default_value_t)]
    sort: Sort,

    /// Number of entries in each list, up to 64
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=i64::from(treefold_hosts::TOP_MAX)))]
    top: u32,

    /// Print one frame and exit, without taking the terminal over
    #[arg(long)]
    once: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

/// Source of looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
enum By {
    #[default]
    Stream,
    Call,
}

const EXAMPLES: &str = "\
With --once a frame has the size of the terminal, or else of COLUMNS and LINES, or else 80 by 24. Exit codes
are those of a call: 0 if every host is in it, 3 if some are missing.

Examples:
  treefold top --at 127.0.0.1:7700
  treefold top --at 127.0.0.1:7700 --sort memory --interval 5s
  treefold top --at 127.0.0.1:7700 --once
  treefold top --at 127.0.0.1:7700 --by call --once
  treefold top --at 127.0.0.1:7700 -o json | jq '.value.hosts_by_cpu.items[0].host.name'";

impl Top {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let once = self.once || format == Format::Json;
        if !once && !std::io::stdout().is_terminal() {
            return Err(Failure::usage(
                "standard output is not a terminal; print one frame with --once, or one record with -o json",
            ));
        }
        let client = connect(&self.at, false, &self.cluster).await?;
        let asked = client.front().map_or_else(|| self.at.join(","), |addr| addr.to_string());
        let model = Model::new(asked, self.sort, self.interval, self.top);
        let (wishes, wished) = watch::channel::<Wishes>(model.wishes());
        let stream = self.stream_source(&client, &wished).await;
        let source = Watching::new(stream, CallSource::new(client, self.deadline, wished));
        if once { once::run(source, model, format).await } else { live::run(source, model, &wishes).await }
    }
}

impl Top {
    /// Opens a stream source, if it is wanted and this process can be a front-end.
    async fn stream_source(&self, front: &Client, wishes: &watch::Receiver<Wishes>) -> Option<StreamSource> {
        if self.by == By::Call {
            return None;
        }
        match beside(front, &self.at, &self.cluster).await {
            Ok(direct) => Some(StreamSource::new(front.clone(), direct, self.deadline, wishes.clone())),
            Err(failure) => {
                say_by_calls(&failure);
                None
            }
        }
    }
}

/// Reports that calls are used instead of a stream, and why.
///
/// Called before the terminal is taken over.
fn say_by_calls(failure: &Failure) {
    crate::tell!("treefold: no stream can be opened, so hosts are asked by calls: {failure}");
}

/// Parses a time between two looks.
fn interval(text: &str) -> Result<Duration, CallError> {
    parse::duration(text).ok().filter(|interval| (INTERVAL_MIN..=INTERVAL_MAX).contains(interval)).ok_or_else(
        || {
            CallError::bad_field(
                "interval",
                text,
                format_args!("{INTERVAL_MIN:?} to {INTERVAL_MAX:?}, with its unit, as in 500ms, 1s, 1m"),
            )
        },
    )
}

impl ValueEnum for Sort {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Cpu, Self::Memory, Self::Network]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()))
    }
}
