//! Treefold with the same partials: a program that its user would write.
//!
//! `treefold bench call` measures the sum with the released program; this has the texts too.

use crate::Problem;
use crate::measure::{Caller, DEADLINE, Plan, measure};
use crate::work::{self, Expected, K, Kind, Row};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::runtime::Builder;
use treefold::operators::merge::{Sum, TopK, TotalF64};
use treefold::operators::merging;
use treefold::{Client, Node, Partition, Placement, Service, Shape};
use treefold_bench_down::part::{self, Part};

/// A row with an order: by score, then by text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Scored(TotalF64, String);

/// The service, without partitions. Its operators run inline, as handlers of gRPC do, because they cost less than a hand-over to
/// a worker.
fn service(total: u32) -> Service {
    let int = merging("int", |partition: &Partition, _: &()| Ok(Sum(i64::from(partition.id))));
    let topk = merging("topk", |partition: &Partition, _: &()| {
        let rows = partition.data_as::<Vec<Row>>()?;
        let scored = rows.iter().map(|(score, text)| Scored(TotalF64(*score), text.clone()));
        Ok(TopK::of(K as u32, scored))
    });
    Service::new("peers")
        .aggregation("int", int.placed(Placement::Inline))
        .aggregation("topk", topk.placed(Placement::Inline))
        .total(total)
}

/// Starts the nodes and measures.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(plan: &Plan, shape: Shape) -> Result<(), Problem> {
    let cluster = format!("peers-{}", std::process::id());
    let (mut nodes, mut first) = (Vec::new(), None);
    for partition in 0..plan.nodes {
        let mut words =
            vec!["treefold-node".to_owned(), partition.to_string(), plan.nodes.to_string(), cluster.clone()];
        words.extend(first.clone());
        let (node, addr) = Part::start(&words)?;
        nodes.push(node);
        first.get_or_insert(serde_json::from_value::<String>(addr)?);
    }
    let client = Client::builder().at(first).direct(true).cluster(cluster).service(service(plan.nodes));
    let caller = Direct { client: client.connect().await?, shape, expected: Expected::of(plan.nodes) };
    measure(("treefold", shape.to_string()), plan, Arc::new(caller), &nodes).await
}

/// The caller.
struct Direct {
    client: Client,
    shape: Shape,
    expected: Expected,
}

impl Caller for Direct {
    async fn call(&self, kind: Kind) -> Result<(), Problem> {
        match kind {
            Kind::Int => {
                let call = self.client.call::<Sum>("peers/int", &()).shape(self.shape).deadline(DEADLINE);
                self.expected.check_sum(call.await?.into_value()?.0)
            }
            Kind::Topk => {
                let call = self.client.call::<TopK<Scored>>("peers/topk", &());
                let best = call.shape(self.shape).deadline(DEADLINE).await?.into_value()?;
                let rows = best.items().iter().map(|Scored(score, text)| (score.0, text.as_bytes()));
                self.expected.check_rows(rows)
            }
        }
    }
}

/// Runs a node until the caller ends.
pub(crate) fn serve(
    partition: u32,
    total: u32,
    cluster: String,
    join: Option<String>,
) -> Result<(), Problem> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let service = service(total).partition(partition, work::rows(partition));
        let builder = Node::builder().listen("127.0.0.1:0").join(join).cluster(cluster);
        let node = builder.workers(1).processors(1).service(service).start().await?;
        let addr = node.addr().to_string();
        tokio::task::spawn_blocking(move || part::serve(&addr, part::unknown)).await?
    })
}
