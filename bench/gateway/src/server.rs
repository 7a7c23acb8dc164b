//! The servers: a node with a gateway, and an echo.

use crate::Problem;
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::operators::merging;
use treefold::{Cluster, Partition, Service};
use treefold_bench_down::part::{self, Part};
use treefold_gateway::{Gateway, GatewayOptions};

/// Calls that may be open at a time: all clients are one tenant.
const CALLS_OPEN_MAX: usize = 16_384;
/// No rate is to be reached.
const REQUESTS_PER_S: u32 = 1_000_000;

/// Idle connections are to stay.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// The addresses of a server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Addrs {
    /// For HTTP.
    pub(crate) http: SocketAddr,
    /// For native clients.
    pub(crate) native: Option<SocketAddr>,
}

/// The flags of the process with the node.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct NodeArgs {
    /// Nodes of the cluster, all in the server's process
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Partitions of each node
    #[arg(long, default_value_t = 4)]
    partitions: u32,
}

impl NodeArgs {
    /// Starts this program as the node.
    pub(crate) fn start(self) -> Result<(Part, Addrs), Problem> {
        let words = format!("node --nodes {} --partitions {}", self.nodes, self.partitions);
        start(&words)
    }

    #[tokio::main(flavor = "current_thread")]
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let Self { nodes, partitions } = self;
        let total = partitions * u32::try_from(nodes)?;
        let figures = move |node: usize| {
            let sum = merging("total", |partition: &Partition, _: &()| Ok(Sum(*partition.data_as::<i64>()?)));
            let own = (0..partitions).map(|at| at * total / partitions + node as u32);
            let service = Service::new("figures").aggregation("total", sum).total(total);
            vec![own.fold(service, |service, id| service.partition(id, i64::from(id)))]
        };
        let cluster = Cluster::embedded(nodes).service(figures).start().await?;
        let mut options = GatewayOptions::new("127.0.0.1:0".parse()?);
        options.limits.calls_open_max = CALLS_OPEN_MAX;
        options.limits.requests_per_s = REQUESTS_PER_S;
        options.limits.connections_max = CALLS_OPEN_MAX;
        options.limits.head_within = IDLE_MAX;
        let gateway = Gateway::start(cluster.client(0), options).await?;
        let addrs = Addrs { http: gateway.addr(), native: Some(cluster.nodes()[0].addr()) };
        tokio::task::spawn_blocking(move || part::serve(&addrs, part::unknown)).await?
    }
}

/// Starts this program as the echo.
pub(crate) fn start_echo() -> Result<(Part, Addrs), Problem> {
    start("echo")
}

/// Answers bodies with themselves.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn echo() -> Result<(), Problem> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let addrs = Addrs { http: listener.local_addr()?, native: None };
    let router = Router::new().route("/echo", post(|body: Bytes| async { body }));
    tokio::spawn(async { axum::serve(listener, router).await });
    tokio::task::spawn_blocking(move || part::serve(&addrs, part::unknown)).await?
}

fn start(words: &str) -> Result<(Part, Addrs), Problem> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let (part, ready) = Part::start(&words)?;
    Ok((part, serde_json::from_value(ready)?))
}
