//! Partitions that are placed while nodes run: added and dropped by hand, and shared among nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::operators::merging;
use treefold::placement::{PlacementAsk, PlacementTuning};
use treefold::{Client, Error, Node, NodeBuilder, Partition, Reply, Service, StartError, Status, Tuning};

const PARTITIONS: u32 = 24;
const WHOLE: i64 = (PARTITIONS as i64 - 1) * PARTITIONS as i64 / 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// A service whose partitions hold their own numbers.
fn figures() -> Service {
    let sum =
        merging("sum", |partition: &Partition, (): &()| Ok(Sum(i64::from(*partition.data_as::<u32>()?))));
    Service::new("figures").aggregation("sum", sum).total(PARTITIONS)
}

fn quick() -> Tuning {
    let placement = PlacementTuning {
        settle: Duration::from_millis(300),
        replace_after: Duration::from_secs(2),
        leave_after: Duration::from_secs(1),
    };
    Tuning { placement, ..Tuning::LAN }
}

fn node(service: Service, seeds: impl IntoIterator<Item = SocketAddr>) -> NodeBuilder {
    Node::builder().service(service).tuning(quick()).join(seeds)
}

async fn sum(client: &Client) -> Reply<Sum> {
    client.call::<Sum>("figures/sum", &()).deadline(Duration::from_secs(5)).await.unwrap()
}

/// Waits until each partition has as many holders among the nodes, and none of the nodes has anything left to do.
async fn settled(nodes: &[&Node], replicas: usize) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let mut held = 0;
        let mut is_calm = true;
        for node in nodes {
            let report = node.client().placement().await.unwrap();
            is_calm &= report.is_calm;
            held += report.services[0].held.len();
        }
        if is_calm && held == replicas * PARTITIONS as usize {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{held} partitions are held");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the node has heard of all partitions: each node hears of the others' by itself.
async fn until_full(node: &Node) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while sum(&node.client()).await.status != Status::Full {
        assert!(tokio::time::Instant::now() < until);
    }
}

/// Calls until it is stopped. Returns the number of calls, and those without all partitions.
fn calling(client: Client) -> (Arc<AtomicBool>, tokio::task::JoinHandle<(u32, Vec<String>)>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let calls = tokio::spawn(async move {
        let (mut calls, mut wrong) = (0, Vec::new());
        while !stopped.load(Ordering::Relaxed) {
            let reply = sum(&client).await;
            calls += 1;
            if (reply.status.clone(), reply.value) != (Status::Full, Some(Sum(WHOLE))) {
                wrong.push(format!("{:?} {:?}", reply.status, reply.missing));
            }
        }
        (calls, wrong)
    });
    (stop, calls)
}

#[tokio::test]
async fn partitions_are_added_and_dropped_by_hand() {
    let first = node(figures().partition(0, 0_u32), []).start().await.unwrap();
    let second = node(figures().partition(1, 1_u32), [first.addr()]).start().await.unwrap();
    for id in 2..PARTITIONS {
        let node = if id % 2 == 0 { &first } else { &second };
        node.add_partition("figures", id, id).await.unwrap();
    }
    for node in [&second, &first] {
        until_full(node).await;
        assert_eq!(sum(&node.client()).await.value, Some(Sum(WHOLE)));
    }
    // New data replaces the old.
    first.add_partition("figures", 0, 100_u32).await.unwrap();
    assert_eq!(sum(&first.client()).await.value, Some(Sum(WHOLE + 100)));
    second.drop_partition("figures", 1).await.unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    while sum(&first.client()).await.status == Status::Full {
        assert!(tokio::time::Instant::now() < until);
    }
    let refused = second.drop_partition("figures", 1).await.unwrap_err().to_string();
    assert!(refused.contains("does not hold partition 1"), "{refused}");
    let refused = second.add_partition("figures", PARTITIONS, 1_u32).await.unwrap_err().to_string();
    assert!(refused.contains("24 partitions"), "{refused}");
    let refused = second.add_partition("nothing", 0, 1_u32).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Placement { problem } if problem.contains("it has: figures")),
        "{refused}"
    );
}

fn shared() -> Service {
    figures().placed(2, Ok::<u32, String>)
}

#[tokio::test]
async fn nodes_share_partitions_while_they_join_are_drained_and_die() {
    let first = node(shared(), []).start().await.unwrap();
    let second = node(shared(), [first.addr()]).start().await.unwrap();
    let third = node(shared(), [first.addr()]).start().await.unwrap();
    settled(&[&first, &second, &third], 2).await;
    let (stop, calls) = calling(first.client());

    let fourth = node(shared(), [second.addr()]).start().await.unwrap();
    settled(&[&first, &second, &third, &fourth], 2).await;
    let share = fourth.client().placement().await.unwrap().services[0].held.len();
    assert!(share > 0, "the newcomer has a share");

    let drained = Client::builder().at([third.addr()]).connect().await.unwrap();
    let report = drained.place(PlacementAsk::Drain(true)).await.unwrap();
    assert!(report.draining);
    settled(&[&first, &second, &third, &fourth], 2).await;
    assert!(drained.placement().await.unwrap().services[0].held.is_empty());
    third.shutdown(Duration::from_secs(5)).await;
    stop.store(true, Ordering::Relaxed);
    let (count, wrong) = calls.await.unwrap();
    assert_eq!(wrong, Vec::<String>::new(), "of {count} calls");

    second.abort();
    settled(&[&first, &fourth], 2).await;
    assert_eq!(sum(&fourth.client()).await.value, Some(Sum(WHOLE)));
}

#[tokio::test]
async fn failing_and_panicking_loaders_are_reported_and_tried_again() {
    let loads = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&loads);
    let service = figures().placed(1, move |partition| {
        let load = counted.fetch_add(1, Ordering::Relaxed);
        match (partition, load) {
            (3, ..12) => Err("the store does not answer"),
            (4, ..12) => panic!("no memory"),
            _ => Ok(partition),
        }
    });
    let node = node(service, []).start().await.unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    let failures = loop {
        let report = node.client().placement().await.unwrap();
        if report.services[0].failures.len() == 2 {
            break report.services[0].failures.clone();
        }
        assert!(tokio::time::Instant::now() < until);
    };
    assert_eq!(&*failures[0].reason, "the store does not answer");
    assert_eq!(&*failures[1].reason, "the loader has panicked: no memory");
    settled(&[&node], 1).await;
    assert_eq!(sum(&node.client()).await.value, Some(Sum(WHOLE)));
}

#[tokio::test]
async fn data_that_is_refused_replaces_nothing() {
    let node = node(figures().placed(1, Ok::<u32, String>), []).start().await.unwrap();
    settled(&[&node], 1).await;
    let refused = node.add_partition("figures", 3, 1_000_u32).await.unwrap_err();
    assert!(refused.to_string().contains("not placed by hand"), "{refused}");
    assert_eq!(sum(&node.client()).await.value, Some(Sum(WHOLE)));
}

#[tokio::test]
async fn more_partitions_than_a_card_may_hold_are_refused_at_the_start() {
    let many = |number: u32| Service::new(format!("s{number}")).total(1 << 14).placed(1, Ok::<u32, String>);
    let builder = (0..65).fold(Node::builder(), |builder, number| builder.service(many(number)));
    let refused = builder.start().await.unwrap_err();
    assert!(matches!(refused, StartError::Card(_)), "{refused}");
}

#[tokio::test]
async fn services_that_cannot_be_placed_are_refused_by_name() {
    let undeclared = figures().guess_total().placed(2, Ok::<u32, String>);
    let many = figures().total(1 << 15).placed(2, Ok::<u32, String>);
    let copies = figures().placed(17, Ok::<u32, String>);
    let by_hand = figures().partition(0, 0_u32).placed(1, Ok::<u32, String>);
    let cases = [(undeclared, "total"), (many, "16384"), (copies, "1 to 16"), (by_hand, "by hand")];
    for (service, word) in cases {
        let refused = node(service, []).start().await.unwrap_err();
        assert!(
            matches!(refused, StartError::Service { .. }) && refused.to_string().contains(word),
            "{refused}"
        );
    }
    let relay = node(shared(), []).relay().start().await.unwrap_err();
    assert!(matches!(relay, StartError::RelayHolds { .. }), "{relay}");
}
