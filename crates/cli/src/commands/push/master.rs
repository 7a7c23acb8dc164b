//! `treefold push master`: announces a request.

use crate::args::At;
use crate::commands::call::{missing_line, read_params, verdict_line};
use crate::commands::stream::octets;
use crate::commands::{connect, failure_of};
use crate::exit::{Failure, Verdict};
use crate::output::json::Answer;
use crate::output::packet::payload_line;
use crate::output::style::Style;
use crate::output::{Format, explain, print, print_json};
use crate::parse;
use bytes::Bytes;
use clap::Args;
use std::time::Duration;
use treefold::operators::Packet;
use treefold::{PartitionSet, Raw, Reply};

/// Announce a request to the workers of an application, and print their folded results
///
/// The node at ADDR must accept the application. A text result is printed unchanged; a typed packet is
/// printed on one line.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Master {
    /// Application, and the reduce that folds its results: a ready reduce, or the name that `treefold operator push` prints
    #[arg(value_name = "APPLICATION/REDUCE")]
    kind: String,

    #[command(flatten)]
    at: At,

    /// Number of the request, by which workers push; use each number only once
    #[arg(long, value_name = "N")]
    request: u64,

    /// Expected workers by number, as in 0-7 or 0-3,9
    #[arg(long, value_name = "WORKERS", value_parser = parse::partitions)]
    expect: PartitionSet,

    /// Parameters of the reduce: JSON, @FILE to read them from a file, or - to read standard input; hex:…
    /// passes bytes [default: none]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,

    /// Deadline of the answer, with its unit: 200ms, 1.5s, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::deadline, allow_hyphen_values = true)]
    deadline: Duration,

    /// Minimum coverage: the least share of workers that makes an answer, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse::min_coverage, allow_hyphen_values = true)]
    min_coverage: f64,

    /// Time to wait for a worker that is attached to no node
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse::duration)]
    patience: Duration,

    /// Draw the tree with the times of every node
    #[arg(long)]
    explain: bool,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Exit codes:
  0 full, 3 partial but at or above the minimum coverage, 4 below it, 5 no node reached, 2 rejected

Examples:
  treefold push master words/sum-lines --at 127.0.0.1:7700 --request 7 --expect 0-3
  treefold push master hits/top-k --params '{\"k\": 10}' --at 127.0.0.1:7700 --request 8 --expect 0-3 -o json
  treefold push master hits/$(treefold operator push best.wasm --at 127.0.0.1:7700) --params hex:0a000000 \\
    --at 127.0.0.1:7700 --request 9 --expect 0-3";

impl Master {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let params = match self.params.as_deref() {
            None => Bytes::new(),
            Some(given) => match given.strip_prefix("hex:") {
                Some(digits) => octets("params", digits)?,
                None => read_params(given)?,
            },
        };
        let client = connect(&self.at, false, &self.cluster).await?;
        let announcing = client
            .announce(&self.kind, params, self.request, self.expect)
            .deadline(self.deadline)
            .min_coverage(self.min_coverage)
            .patience(self.patience)
            .explain(self.explain);
        let reply = announcing.await.map_err(failure_of)?;
        match format {
            Format::Json => print_json(&Answer::of_pushed(&reply)),
            Format::Text => render(&reply),
        }
        Ok(Verdict::of(&reply.status))
    }
}

/// Prints only the value to standard output, so that it can be piped.
fn render(reply: &Reply<Raw>) {
    if let Some(Raw(value)) = reply.value.as_ref().filter(|value| !value.0.is_empty()) {
        let is_packet = Packet::read(value).is_ok_and(|packet| !packet.is_empty());
        match std::str::from_utf8(value) {
            Ok(text) if !is_packet => print(text.strip_suffix('\n').unwrap_or(text)),
            _ => print(payload_line(value)),
        }
    }
    let style = Style::of_stderr();
    if let Some(report) = reply.explain() {
        crate::tell!("{}", explain::draw(report, style));
    }
    crate::tell!("{}", verdict_line(reply, style).replace("partitions", "workers"));
    for missing in &reply.missing {
        crate::tell!("{}", style.warning(missing_line(missing).replace("partition", "worker")));
    }
}
