//! `treefold push worker`: attaches as one of an application's workers and pushes its result.

use crate::args::At;
use crate::commands::stream::packet_given;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use crate::parse;
use crate::trust::cluster_of_environment;
use bytes::Bytes;
use clap::Args;
use serde::Serialize;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use treefold::push::{PushError, Worker as Pusher};

/// Attach to a node as a worker of an application, push the result of a request, and wait until the request
/// has ended
///
/// The worker tries the nodes in turn, at the start and whenever it loses its connection. It keeps its pushed
/// result until the request has ended, and sends again the parts that it is asked for.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Worker {
    /// Application of the worker
    #[arg(value_name = "APPLICATION")]
    application: String,

    #[command(flatten)]
    at: At,

    /// Number of this worker in the application, from 0
    #[arg(long, value_name = "N")]
    worker: u32,

    /// Number of the request
    #[arg(long, value_name = "N")]
    request: u64,

    /// File with the result [default: standard input]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["packet", "fail"])]
    file: Option<PathBuf>,

    /// Number of lines in a piece; pieces are folded as they arrive [default: one piece]
    #[arg(long, value_name = "LINES", conflicts_with_all = ["packet", "fail"])]
    piece_lines: Option<NonZeroUsize>,

    /// Typed packet to push as the result: JSON of its format and values; repeat it for several pieces
    #[arg(long, value_name = "JSON", conflicts_with = "fail")]
    packet: Vec<String>,

    /// Reason why there will be no result; reported to the master instead of a result
    #[arg(long, value_name = "WHY")]
    fail: Option<String>,

    /// Time to attach, and then again time until the request has ended
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse::duration)]
    timeout: Duration,

    /// Name of the cluster; nodes of another cluster do not answer
    #[arg(long, value_name = "NAME", default_value = "treefold")]
    cluster: String,
}

const EXAMPLES: &str = "\
Exit codes:
  0 the request has ended, 5 no node accepts the worker, 1 it has not ended in time, or the worker was evicted

Examples:
  treefold push worker words --at 127.0.0.1:7700 --worker 3 --request 7 < counts.txt
  treefold push worker hits --at 127.0.0.1:7700 --worker 0 --request 8 \\
      --packet '{\"format\": \"f64 str\", \"values\": [0.9, \"doc 4\"]}'";

/// The result as printed in JSON.
#[derive(Serialize)]
struct Pushed {
    application: String,
    worker: u32,
    request: u64,
    pieces: usize,
    bytes: usize,
}

impl Worker {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let pieces = self.pieces()?;
        let builder = Pusher::builder(&self.application, self.worker)
            .at(self.at.iter())
            .cluster(cluster_of_environment(&self.cluster)?)
            .timeout(self.timeout);
        let worker = builder.attach().await.map_err(failure_of_push)?;
        let pushed = Pushed {
            application: self.application,
            worker: self.worker,
            request: self.request,
            pieces: pieces.len(),
            bytes: pieces.iter().map(Bytes::len).sum(),
        };
        let working = async {
            if let Some(why) = self.fail {
                worker.fail(self.request, why).await?;
            }
            let last = pieces.len().checked_sub(1);
            for (at, piece) in pieces.into_iter().enumerate() {
                if Some(at) == last {
                    worker.push_last(self.request, piece).await?;
                } else {
                    worker.push(self.request, piece).await?;
                }
            }
            worker.idle().await
        };
        match tokio::time::timeout(self.timeout, working).await {
            Ok(Ok(()) | Err(PushError::Over { .. })) => {}
            Ok(Err(error)) => return Err(failure_of_push(error)),
            Err(_) => {
                let problem = format!("request {} has not ended within {:?}", self.request, self.timeout);
                return Err(Failure::failed(format!("{problem}; check that its master has announced it")));
            }
        }
        match format {
            Format::Json => print_json(&pushed),
            Format::Text => print(format_args!(
                "request {} has ended: {} pieces, {} bytes",
                pushed.request, pushed.pieces, pushed.bytes
            )),
        }
        Ok(Verdict::Full)
    }

    /// Returns the pieces to push: at least one, unless there is no result.
    fn pieces(&self) -> Result<Vec<Bytes>, Failure> {
        if self.fail.is_some() {
            return Ok(Vec::new());
        }
        if !self.packet.is_empty() {
            return self.packet.iter().map(|given| packet_given("--packet", given)).collect();
        }
        let mut result = Vec::new();
        match &self.file {
            Some(path) => {
                result = std::fs::read(path)
                    .map_err(|error| Failure::failed(format!("can't read {}: {error}", path.display())))?;
            }
            None => {
                let read = std::io::stdin().read_to_end(&mut result);
                read.map_err(|error| Failure::failed(format!("can't read standard input: {error}")))?;
            }
        }
        let Some(lines) = self.piece_lines else { return Ok(vec![result.into()]) };
        let rows: Vec<&[u8]> = result.split_inclusive(|&byte| byte == b'\n').collect();
        let pieces: Vec<Bytes> = rows.chunks(lines.get()).map(|rows| rows.concat().into()).collect();
        Ok(if pieces.is_empty() { vec![Bytes::new()] } else { pieces })
    }
}

fn failure_of_push(error: PushError) -> Failure {
    match error {
        PushError::Field { .. } => Failure::usage(error.to_string()),
        PushError::Unreachable { .. } => Failure::unreachable(format!(
            "{error}; check the address, or start a node with `treefold node --accept`"
        )),
        PushError::Refused { .. } => Failure::unreachable(error.to_string()),
        error => Failure::failed(error.to_string()),
    }
}
