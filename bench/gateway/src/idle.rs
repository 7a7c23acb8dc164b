//! Connections that do nothing: their memory, and the calls of others beside them.

use crate::Problem;
use crate::http::{Connection, post};
use crate::load::{Way, round};
use crate::server::NodeArgs;
use std::time::Duration;
use treefold_bench_down::part::resident_bytes;

/// Clients that call beside the idle connections.
const CLIENTS: usize = 64;

/// Measure the memory of idle connections, and calls beside them
#[derive(Debug, clap::Args)]
pub(crate) struct IdleArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Idle connections
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Seconds of calls
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

impl IdleArgs {
    #[tokio::main]
    pub(crate) async fn run(self) -> Result<(), Problem> {
        let (node, addrs) = self.node.start()?;
        let lasts = Duration::from_secs_f64(self.seconds);
        let alone = round(Way::Gateway(addrs.http), &node, CLIENTS, lasts).await?;
        let before = resident_bytes(node.id())?;
        let mut idle = Vec::new();
        for _ in 0..self.connections {
            idle.push(Connection::open(addrs.http).await?);
        }
        // All are accepted once the last one is answered.
        let request = post("/v1/call/figures/total", "null");
        let last = idle.last_mut().ok_or("there are no connections")?;
        let status = last.ask(&request).await?;
        let after = resident_bytes(node.id())?;
        let beside = round(Way::Gateway(addrs.http), &node, CLIENTS, lasts).await?;
        println!("idle connections              {}", self.connections);
        println!("status of a call on the last  {status}");
        println!("memory before, after          {:.1} MB, {:.1} MB", before as f64 / 1e6, after as f64 / 1e6);
        println!(
            "bytes a connection            {:.0}",
            (after as f64 - before as f64) / self.connections as f64
        );
        for (name, round) in [("without them", alone), ("beside them", beside)] {
            println!(
                "calls of {CLIENTS} clients {name}: {:.0}/s, p50 {:.0} us, p99 {:.0} us, {} errors",
                round.per_s, round.p50_us, round.p99_us, round.errors
            );
        }
        Ok(())
    }
}
