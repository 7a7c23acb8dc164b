//! `treefold node --attach`: a process of a network that `treefold up` starts or waits for.

use crate::exit::Failure;
use crate::parse;
use clap::Args;
use std::time::Duration;
use treefold::NodeBuilder;
use treefold::{CallError, Node};
use treefold_network::launch::command::tie_to_parent;
use treefold_network::launch::{Ending, Post, PostError, Token};

#[derive(Clone, Debug, Args)]
pub(super) struct AttachArgs {
    /// Address of the network's front-end, or of this process's parent in the network (see treefold up)
    #[arg(long, value_name = "ADDR", conflicts_with = "join")]
    pub(super) attach: Option<String>,

    /// Name of this process in the topology: host:number
    #[arg(long = "as", id = "place", value_name = "PROCESS")]
    pub(super) place: Option<String>,

    /// Time that the process continues to run while it can reach neither its parent nor the front-end [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub(super) patience: Option<Duration>,
}

/// Time that a process continues alone, unless a flag or the file says otherwise.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(2);

/// Address to attach to, and the process's name in the topology.
pub(super) struct Attached {
    addr: String,
    place: String,
    patience: Duration,
}

/// Ties this process to its parent process if that one wants it.
pub(super) fn tie() -> Result<(), Failure> {
    tie_to_parent()
        .map_err(|error| Failure::failed(format!("the process that started this one has ended: {error}")))
}

impl Attached {
    /// The settings, if the process attaches.
    pub(super) fn of(
        attach: Option<String>,
        place: Option<String>,
        patience: Option<Duration>,
    ) -> Option<Self> {
        let (addr, place) = attach.zip(place)?;
        Some(Self { addr, place, patience: patience.unwrap_or(PATIENCE_DEFAULT) })
    }

    /// Default address to listen at: one at which the parent can reach this process.
    pub(super) fn listens_at(&self) -> &'static str {
        let host = self.addr.rsplit_once(':').map_or(self.addr.as_str(), |(host, _)| host);
        match host {
            "localhost" | "127.0.0.1" => "127.0.0.1:0",
            "[::1]" => "[::1]:0",
            host if host.starts_with('[') => "[::]:0",
            _ => "0.0.0.0:0",
        }
    }

    pub(super) fn configure(&self, builder: NodeBuilder) -> NodeBuilder {
        builder.attached_to(&self.addr)
    }

    /// Takes part in the network.
    ///
    /// Returns true when the network has ended, and false when this process was stopped.
    pub(super) async fn live(
        &self,
        node: &Node,
        token: Option<Token>,
        stop: impl Future<Output = ()>,
    ) -> Result<bool, Failure> {
        let post = Post::new(&self.addr, &self.place).token(token).patience(self.patience);
        match post.run(node, stop).await {
            Ok(Ending::Ended) => Ok(true),
            Ok(Ending::Orphaned) => {
                Err(Failure::unreachable("the network's front-end can't be reached any more"))
            }
            Ok(Ending::Stopped) => Ok(false),
            Err(error) => Err(failure_of(&error)),
        }
    }
}

fn failure_of(error: &PostError) -> Failure {
    match error {
        PostError::Unreachable { .. } | PostError::Closed => Failure::unreachable(error.to_string()),
        PostError::Token { .. } => Failure::Rejected(CallError::bad_field(
            "token",
            "a different one",
            format_args!("the network's token: {error}"),
        )),
        _ => Failure::failed(error.to_string()),
    }
}
