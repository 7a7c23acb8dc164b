//! Nodes are killed while their long partials arrive in chunks: every answer is exactly the sum of the partials of the
//! partitions that it names.

use crate::figures::PATIENCE;
use std::time::Duration;
use treefold::operators::merge::VectorSum;
use treefold::operators::merging;
use treefold::{Cluster, Partition, Reply, Service, Shape};

const NODES: u32 = 7;
/// 2 MiB: thirty chunks or fewer.
const ENTRIES: usize = 512 << 10;
/// Kills in a usual run. The environment variable [`KILLS_FROM`] sets another number.
const KILLS: u32 = 12;
const KILLS_FROM: &str = "TREEFOLD_TEST_KILLS";
/// The longest time from a call to the kill. An answer takes some milliseconds.
const DELAY_US_MAX: u64 = 12_000;

/// A service with a partition at each node, whose vector has the power of two of its number in each entry.
fn service(at: usize) -> Service {
    let local = |partition: &Partition, (): &()| {
        Ok(VectorSum::new(std::iter::repeat_n(power(partition.id), ENTRIES)))
    };
    Service::new("vectors")
        .total(NODES)
        .partition(at as u32, ())
        .operator("sum", treefold::operators::erased::erase(merging("sum", local)))
}

fn power(partition: u32) -> f32 {
    f32::from(1_u16 << partition)
}

/// Checks that each entry is the sum of the powers of the contributed partitions.
fn check(reply: &Reply<VectorSum>, round: u32) {
    let expected: f32 = reply.contributed.iter().map(power).sum();
    let value = reply.value.as_ref().unwrap_or_else(|| panic!("kill {round}: no value: {reply:?}"));
    assert_eq!(value.len(), ENTRIES, "kill {round}");
    let wrong = value.entries().position(|entry| entry != expected);
    assert_eq!(wrong, None, "kill {round}: not the sum of {}", reply.contributed);
}

#[tokio::test]
async fn answers_are_exact_while_nodes_are_killed_in_mid_stream() {
    let kills = std::env::var(KILLS_FROM).map_or(KILLS, |kills| kills.parse().unwrap());
    let mut cluster = Cluster::embedded(NODES as usize)
        .service(|at| vec![service(at)])
        .processors(1)
        .configure(|_, node| node.workers(1))
        .start()
        .await
        .unwrap();
    // The front is never killed.
    let client = cluster.client(0);
    let call = || {
        let call = client.call::<VectorSum>("vectors/sum", &());
        call.shape(Shape::KAry(NODES - 1)).min_coverage(0.1).deadline(PATIENCE)
    };
    let (mut random, mut partial) = (7_u64, 0);
    for round in 0..kills {
        while {
            let reply = call().await.unwrap();
            check(&reply, round);
            reply.contributed.len() < NODES as usize
        } {}
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (victim, delay_us) =
            (1 + (random >> 33) as usize % (NODES as usize - 1), (random >> 40) % DELAY_US_MAX);
        let (reply, ()) = tokio::join!(async { call().await }, async {
            tokio::time::sleep(Duration::from_micros(delay_us)).await;
            cluster.kill(victim);
        });
        let reply = reply.unwrap();
        check(&reply, round);
        partial += u32::from(reply.contributed.len() < NODES as usize);
        cluster.restart(victim).await.unwrap();
    }
    println!("{partial} of {kills} answers lacked a partition");
}
