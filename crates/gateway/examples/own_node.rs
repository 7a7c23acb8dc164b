//! A node of one's own as it runs in production: seeds, a zone, a token, a gateway with probes and metrics, and an end in order.
//!
//! ```text
//! TREEFOLD_TOKEN=secret cargo run -p treefold-gateway --example own_node -- 127.0.0.1:7800 127.0.0.1:8080
//! TREEFOLD_TOKEN=secret cargo run -p treefold-gateway --example own_node -- 127.0.0.1:7801 127.0.0.1:8081 127.0.0.1:7800
//! curl -s -X POST http://127.0.0.1:8080/v1/call/logs/lines
//! ```

use std::error::Error;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use treefold::operators::merge::Count;
use treefold::operators::merging;
use treefold::{ClusterOptions, Node, Partition, Service, Token};
use treefold_gateway::{Gateway, GatewayOptions};

/// Time that open work has to end. The service manager must wait longer before it kills the process.
const GRACE: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(gateway)) = (arguments.next(), arguments.next()) else {
        return Err("usage: own_node LISTEN GATEWAY [SEED]...".into());
    };
    // Before anything else, so that a signal during the start ends the program too.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);

    let lines = merging("lines", |partition: &Partition, (): &()| {
        Ok(Count(partition.data_as::<Vec<String>>()?.len() as u64))
    });
    let data: Vec<String> = std::fs::read_to_string("/etc/services")?.lines().map(str::to_owned).collect();
    // Every node holds the one partition, so each is a replica of the others.
    let service = Service::new("logs").aggregation("lines", lines).total(1).partition(0, data);
    let token =
        Token::new(std::env::var("TREEFOLD_TOKEN")?).ok_or("TREEFOLD_TOKEN is not a token of one line")?;
    let node = Node::builder()
        .listen(listen)
        .join(arguments)
        .zone(std::env::var("ZONE").unwrap_or_default())
        .cluster(ClusterOptions::new("own").token(token))
        .service(service)
        .start()
        .await?;
    // Only now, because `/readyz` says that the node has its partitions.
    let gateway = Gateway::start(node.client(), GatewayOptions::new(gateway.parse()?)).await?;
    println!("listening on {}, gateway at {}", node.addr(), gateway.url());

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    // The node takes the gateway's calls until the last one has ended.
    gateway.drain(GRACE).await;
    node.shutdown(GRACE).await;
    Ok(())
}
