//! `treefold node --attach`: a process of a network that `treefold up` starts or waits for.

#[cfg_attr(not(feature = "full"), path = "attached/no_post.rs")]
mod post;

use crate::parse;
use clap::Args;
use std::time::Duration;
use treefold::NodeBuilder;

pub(super) use post::tie;

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
}
