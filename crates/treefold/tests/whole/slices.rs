//! Sliced calls over real sockets: bulky partials are cut by key, folded side by side, and joined.

use std::collections::BTreeMap;
use std::time::Duration;
use treefold::operators::merge::{GroupCount, Sum, VectorSum};
use treefold::operators::merging;
use treefold::{Aggregation, CallError, Client, Cluster, Error, OperatorError, Partition, Service, Status};

const PATIENCE: Duration = Duration::from_secs(20);
const MEMBERS: u32 = 4;
/// Each vector has two megabytes: more than may be sent without an offer, and sent in chunks.
const ENTRIES: u32 = 1 << 19;

fn entry(partition: u32, at: u32) -> f32 {
    ((partition + 1) * (at % 1_000)) as f32
}

/// An aggregation whose split returns fewer slices than requested.
struct Miscounting;

impl Aggregation for Miscounting {
    type Params = ();
    type Partial = u64;

    fn local(&self, _: &Partition, (): &()) -> Result<u64, OperatorError> {
        Ok(1)
    }

    fn reduce(&self, a: u64, b: u64, (): &()) -> Result<u64, OperatorError> {
        Ok(a + b)
    }

    fn is_sliceable(&self) -> bool {
        true
    }

    fn split(&self, partial: u64, slices: u32, (): &()) -> Result<Vec<u64>, OperatorError> {
        assert!(slices != 5, "five are too many");
        Ok(vec![partial])
    }
}

fn service(at: usize) -> Vec<Service> {
    let vectors = merging("vectors", |partition: &Partition, (): &()| {
        Ok(VectorSum::new((0..ENTRIES).map(|at| entry(partition.id, at))))
    });
    let words = merging("words", |partition: &Partition, (): &()| {
        let mut counts = GroupCount::default();
        (0..5_000_u32)
            .try_for_each(|word| counts.add(format!("word-{word}"), u64::from(partition.id + word)))?;
        Ok(counts)
    });
    let total = merging("total", |partition: &Partition, (): &()| Ok(Sum(partition.id.into())));
    let bulk = Service::new("bulk")
        .aggregation("vectors", vectors)
        .aggregation("words", words)
        .aggregation("total", total)
        .aggregation("miscounting", Miscounting)
        .total(MEMBERS);
    let at = u32::try_from(at).unwrap();
    vec![if at < MEMBERS { bulk.partition(at, ()) } else { bulk }]
}

/// Four members of a rack, and two relays.
async fn cluster() -> Cluster {
    Cluster::embedded(6)
        .service(service)
        .configure(|at, node| {
            let node = node.rack("r0");
            if at < MEMBERS as usize { node } else { node.relay() }
        })
        .start()
        .await
        .unwrap()
}

async fn vectors(client: &Client, slices: u32) -> treefold::Reply<VectorSum> {
    let call = client.call::<VectorSum>("bulk/vectors", &()).slices(slices).deadline(PATIENCE);
    call.explain(true).await.unwrap()
}

#[tokio::test]
async fn joined_slices_equal_the_unsliced_result() {
    let cluster = cluster().await;
    let relays = [cluster.nodes()[4].id(), cluster.nodes()[5].id()];
    for client in [cluster.client(0), cluster.connect().await.unwrap()] {
        for slices in [1, 2, 7, 16] {
            let reply = vectors(&client, slices).await;
            assert_eq!(
                (reply.status.clone(), reply.contributed.len()),
                (Status::Full, 4),
                "{:?}",
                reply.missing
            );
            let sum = reply.value.as_ref().unwrap();
            assert_eq!(sum.len(), ENTRIES as usize);
            let wanted = |at| (0..MEMBERS).map(|partition| entry(partition, at)).sum::<f32>();
            assert!(sum.entries().zip(0..).all(|(entry, at)| entry == wanted(at)), "{slices} slices");
            if slices == 16 {
                let roots: Vec<_> = reply.explain().unwrap().children.iter().map(|tree| tree.node).collect();
                assert_eq!(roots.len(), 16);
                assert!(
                    relays.iter().all(|relay| roots.contains(relay)),
                    "both relays have a part: {roots:?}"
                );
            }
        }
        let words = client.call::<GroupCount<String>>("bulk/words", &()).slices(5).deadline(PATIENCE);
        let counts = words.await.unwrap().value.unwrap().into_groups();
        let wanted: BTreeMap<String, u64> =
            (0..5_000).map(|word| (format!("word-{word}"), u64::from(4 * word + 6_u32))).collect();
        assert_eq!(counts, wanted);
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn dead_relay_loses_no_partition_of_a_sliced_call() {
    let cluster = cluster().await;
    let client = cluster.client(0);
    let call = tokio::spawn(async move { vectors(&client, 8).await });
    tokio::time::sleep(Duration::from_millis(5)).await;
    cluster.kill(4);
    let reply = call.await.unwrap();
    assert_eq!((reply.status, reply.contributed.len()), (Status::Full, 4), "{:?}", reply.missing);
    cluster.shutdown().await;
}

#[tokio::test]
async fn unsliceable_aggregation_is_refused() {
    let cluster = cluster().await;
    let client = cluster.client(1);
    let refused = async |aggregation: &str, slices| {
        let call = client.call_raw(&format!("bulk/{aggregation}"), bytes::Bytes::new()).slices(slices);
        match call.deadline(PATIENCE).await {
            Err(Error::Rejected(error @ CallError::BadField { .. })) => error.to_string(),
            Ok(reply) => format!("{:?}", reply.missing),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(refused("total", 2).await.contains("slices"), "a sum has no keys");
    assert!(refused("vectors", 0).await.contains("1 to 256"));
    assert!(refused("vectors", 257).await.contains("1 to 256"));
    assert!(refused("miscounting", 3).await.contains("split made 1 slices of 3"));
    assert!(
        refused("miscounting", 5).await.contains("five are too many"),
        "a panic is an error of that partition"
    );
    let direct = cluster.connect_direct().await.unwrap();
    let alone = direct.call::<VectorSum>("bulk/vectors", &()).slices(2).deadline(PATIENCE).await;
    assert!(
        alone.unwrap_err().to_string().contains("cannot join slices"),
        "this front lacks the aggregation"
    );
    cluster.shutdown().await;
}
