//! A node whose locals run in two processes of their own, so that a crash costs a partition and not the node.
//!
//! ```text
//! cargo run --example isolated            # starts a node, and asks partition 1 to abort
//! cargo run --example isolated -- node    # starts a node, and prints its address
//! ```

use std::time::Duration;
use treefold::operators::merge::Concatenate;
use treefold::operators::merging;
use treefold::{ClusterOptions, Limits, Node, OperatorError, Partition, Raw, Service};

type Told = Concatenate<u32, String>;

/// Small, so that tests reach it.
const PARTIAL_BYTES_MAX: usize = 1 << 20;

/// Does what it is told, and returns the number of its process.
fn obey(partition: &Partition, order: &str) -> Result<Told, OperatorError> {
    match order {
        "abort" => std::process::abort(),
        "loop" => loop {
            std::hint::spin_loop();
        },
        "exit" => std::process::exit(3),
        "panic" => panic!("as told"),
        "fail" => return Err(OperatorError::new("as told")),
        _ => {}
    }
    Ok(Told::of(1 << 20, [(partition.id, std::process::id().to_string())])?)
}

/// Returns as many bytes as it is told.
struct Bytes;

impl treefold::Aggregation for Bytes {
    type Params = u64;
    type Partial = Raw;

    fn local(&self, _: &Partition, bytes: &u64) -> Result<Raw, OperatorError> {
        Ok(Raw(vec![7; *bytes as usize].into()))
    }

    fn reduce(&self, a: Raw, b: Raw, _: &u64) -> Result<Raw, OperatorError> {
        Ok(Raw([a.0, b.0].concat().into()))
    }
}

fn service() -> Service {
    let orders = merging("obey", |partition: &Partition, order: &String| obey(partition, order));
    let service = Service::new("orders").aggregation("obey", orders).aggregation("bytes", Bytes).total(2);
    service.partition(0, ()).partition(1, ()).isolated(2)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = Limits { payload_bytes_max: PARTIAL_BYTES_MAX, ..Limits::default() };
    let options = ClusterOptions::default().limits(limits);
    // In a process for locals, this is where the program stays.
    let node = Node::builder().listen("127.0.0.1:0").cluster(options).service(service()).start().await?;
    println!("listening on {}", node.addr());
    if std::env::args().nth(1).as_deref() == Some("node") {
        std::future::pending::<()>().await;
    }
    let client = node.client();
    let call = client.call::<Told>("orders/obey", &"report".to_owned()).deadline(Duration::from_secs(10));
    let reply = call.params_for(1, &"abort".to_owned()).min_coverage(0.5).await?;
    for missing in &reply.missing {
        println!("partition {} is missing: {}", missing.partitions, missing.reason);
    }
    let reply =
        client.call::<Told>("orders/obey", &"report".to_owned()).deadline(Duration::from_secs(10)).await?;
    println!("{} of {} partitions", reply.contributed.len(), reply.asked.len());
    node.leave().await;
    Ok(())
}
