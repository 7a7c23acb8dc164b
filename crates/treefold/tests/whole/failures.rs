//! Nodes die and come back, operators misbehave, loops stand still: a call loses only the affected
//! partitions, reports them, and is over by its deadline.

use crate::figures::{Gate, PATIENCE, Trick, Tricks, eventually, figure, total};
use std::sync::Arc;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::{Client, ClusterBuilder, Error, PartitionSet, Reason, Status, Tuning};

/// Long enough for steps that succeed. A step that cannot succeed uses up this time.
const SHORT: Duration = Duration::from_secs(1);

/// Margins for a machine that is busy with other tests: a node that waits until the last moment must still
/// have the time to report.
fn tuning() -> Tuning {
    let margin = treefold_core::time::Duration::from_millis(60);
    Tuning { hop_margin: margin.into(), reply_margin: margin.into(), ..Tuning::default() }
}

fn cluster(nodes: usize, replicas: u32, gate: &Arc<Gate>) -> ClusterBuilder {
    crate::figures::cluster(nodes, replicas, gate).configure(|_, node| node.tuning(tuning()))
}

async fn tricked(client: &Client, partition: u32, trick: Trick) -> treefold::Reply<i64> {
    let tricks = Tricks::at(partition, trick);
    // A panic prints its backtrace, which takes long on a busy machine.
    let deadline = if trick == Trick::Hang { SHORT } else { 10 * SHORT };
    client.call("figures/tricky", &tricks).min_coverage(0.5).deadline(deadline).await.unwrap()
}

#[tokio::test]
async fn panic_error_and_hang_lose_only_their_own_partition() {
    let gate = Arc::<Gate>::default();
    let cluster = cluster(5, 1, &gate).start().await.unwrap();
    let client = cluster.connect().await.unwrap();
    let others: PartitionSet = [0, 1, 2, 4].into_iter().collect();
    type Expected = fn(&Reason) -> bool;
    let reasons: [(Trick, Expected); 3] = [
        (
            Trick::Panic,
            |reason| matches!(reason, Reason::LocalPanicked(text) if &**text == "partition 3 panics as told"),
        ),
        (Trick::Fail, |reason| matches!(reason, Reason::LocalFailed(text) if &**text == "fails as told")),
        (Trick::Hang, |reason| *reason == Reason::Late),
    ];
    for (trick, expected) in reasons {
        let reply = tricked(&client, 3, trick).await;
        assert_eq!(reply.status, Status::Partial, "{trick:?}");
        assert_eq!(reply.contributed, others, "{trick:?}");
        assert_eq!(reply.value, Some(total(5) - figure(3)), "{trick:?}");
        assert!(
            reply.missing.iter().all(|missing| expected(&missing.reason)),
            "{trick:?}: {:?}",
            reply.missing
        );
    }
    gate.open();
}

#[tokio::test]
async fn panic_in_a_future_loses_its_partition() {
    let cluster = cluster(3, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.connect().await.unwrap();
    let reply =
        client.call::<i64>("figures/waiting", &0i64).min_coverage(0.5).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(0));
    assert_eq!(reply.missing.len(), 1);
    assert!(
        matches!(&reply.missing[0].reason, Reason::LocalPanicked(text) if &**text == "zero is no factor")
    );
}

#[tokio::test]
async fn locals_that_never_return_hold_their_threads_but_not_the_node() {
    let gate = Arc::<Gate>::default();
    let tuning = Tuning { stuck_after: treefold_core::time::Duration::from_millis(20).into(), ..tuning() };
    let cluster = cluster(2, 1, &gate)
        .configure(move |_, node| node.processors(1).workers(1).tuning(tuning.clone()))
        .start()
        .await
        .unwrap();
    let client = cluster.connect().await.unwrap();
    let stuck = || async { cluster.nodes()[1].status().await.unwrap().open.jobs_stuck };
    for given_up in 1..=3 {
        // A job that finds the processor taken by the previous one may be rejected at once; then try again.
        eventually("one more job is given up", || async {
            let reply = tricked(&client, 1, Trick::Hang).await;
            assert_eq!(reply.contributed, PartitionSet::from_range(0..1), "{reply:?}");
            stuck().await == given_up
        })
        .await;
    }
    let reply = client.call::<Sum>("figures/sum-pool", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(2))), "the only worker was replaced each time");
    gate.open();
    eventually("the threads have ended", || async { stuck().await == 0 }).await;
}

#[tokio::test]
async fn killed_node_loses_its_partition_until_restart() {
    let mut cluster = cluster(5, 1, &Arc::default()).start().await.unwrap();
    let client = Client::connect(cluster.nodes()[0].addr()).await.unwrap();
    let first_life = cluster.nodes()[3].id();
    cluster.kill(3);
    assert!(!cluster.nodes()[3].is_running());
    let reply = client.call::<Sum>("figures/sum", &()).min_coverage(0.5).deadline(SHORT).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(5) - figure(3))), "{reply:?}");
    assert_eq!(reply.missing[0].partitions, PartitionSet::from_range(3..4));

    cluster.restart(3).await.unwrap();
    let second_life = cluster.nodes()[3].id();
    assert_eq!(first_life.addr, second_life.addr);
    assert_ne!(first_life.generation, second_life.generation);
    eventually("the partition is asked again", || async {
        let reply = client.call::<Sum>("figures/sum", &()).min_coverage(0.0).deadline(SHORT).await.unwrap();
        reply.value == Some(Sum(total(5)))
    })
    .await;
}

#[tokio::test]
async fn with_replicas_a_killed_node_loses_no_partition() {
    let cluster = cluster(5, 2, &Arc::default()).start().await.unwrap();
    let client = Client::connect(cluster.nodes()[0].addr()).await.unwrap();
    for dead in [2, 4] {
        cluster.kill(dead);
        for _ in 0..10 {
            let reply = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
            assert_eq!(reply.value, Some(Sum(total(5))), "without {dead}: {reply:?}");
        }
    }
}

#[tokio::test]
async fn stalled_node_is_late_and_then_contributes_again() {
    let cluster = cluster(4, 1, &Arc::default()).start().await.unwrap();
    let client = Client::connect(cluster.nodes()[0].addr()).await.unwrap();
    cluster.nodes()[2].stall(true);
    let reply = client.call::<Sum>("figures/sum", &()).min_coverage(0.5).deadline(SHORT).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(4) - figure(2))), "{reply:?}");
    cluster.nodes()[2].stall(false);
    eventually("it contributes again", || async {
        let reply = client.call::<Sum>("figures/sum", &()).min_coverage(0.0).deadline(SHORT).await.unwrap();
        reply.status == Status::Full
    })
    .await;
}

#[tokio::test]
async fn stalled_or_dead_front_is_an_error_of_the_call() {
    let mut cluster = cluster(2, 1, &Arc::default()).start().await.unwrap();
    let client = Client::connect(cluster.nodes()[1].addr()).await.unwrap();
    cluster.nodes()[1].stall(true);
    let call = || client.call::<Sum>("figures/sum", &()).deadline(Duration::from_millis(10)).into_future();
    assert!(matches!(call().await.unwrap_err(), Error::FrontSilent { .. }));

    let open = tokio::spawn(client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).into_future());
    tokio::task::yield_now().await;
    cluster.kill(1);
    let lost = open.await.unwrap().unwrap_err();
    assert!(matches!(lost, Error::Lost | Error::Connect { .. }), "{lost}");
    eventually("the client has noticed", || async { client.front().is_none() }).await;
    assert!(matches!(call().await.unwrap_err(), Error::Connect { .. }), "no node is left");

    cluster.restart(1).await.unwrap();
    let reply = client.call::<Sum>("figures/sum", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(2))), "the connection was made again");
}

#[tokio::test]
async fn a_node_s_own_clients_learn_of_its_end() {
    let cluster = cluster(2, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.client(1);
    cluster.kill(1);
    assert!(matches!(client.call::<Sum>("figures/sum", &()).await.unwrap_err(), Error::Closed));
    assert!(matches!(client.status().await.unwrap_err(), Error::Closed));
}

#[tokio::test]
async fn leaving_node_finishes_open_work() {
    let gate = Arc::<Gate>::default();
    let cluster = crate::figures::cluster(1, 1, &gate).start().await.unwrap();
    let alone = crate::figures::service([0], 1, &gate);
    let node = treefold::Node::builder().service(alone).start().await.unwrap();
    let client = Client::connect(node.addr()).await.unwrap();
    let hang = Tricks::at(0, Trick::Hang);
    let open = tokio::spawn(client.call::<i64>("figures/tricky", &hang).deadline(PATIENCE).into_future());
    eventually("the local runs", || async { node.status().await.unwrap().open.jobs_running == 1 }).await;
    let leaving = tokio::spawn(node.shutdown(PATIENCE));
    tokio::time::sleep(Duration::from_millis(20)).await;
    gate.open();
    assert_eq!(open.await.unwrap().unwrap().value, Some(figure(0)));
    leaving.await.unwrap();
    drop(cluster);
}

#[tokio::test]
async fn slow_node_still_answers() {
    let cluster = cluster(3, 1, &Arc::default()).start().await.unwrap();
    let client = cluster.connect().await.unwrap();
    cluster.nodes()[1].slow(50.0);
    let reply = client.call::<Sum>("figures/sum-pool", &()).deadline(PATIENCE).await.unwrap();
    assert_eq!(reply.value, Some(Sum(total(3))));
}
