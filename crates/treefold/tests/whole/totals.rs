//! A service's total: if a node is gone, no answer without its partitions claims to be full.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::operators::merging;
use treefold::{Client, Node, NodeBuilder, Partition, Reply, Service, StartError, Status};

const PATIENCE: Duration = Duration::from_secs(20);

/// A service whose partitions hold their own numbers.
fn figures(partitions: Range<u32>, total: Option<u32>) -> Service {
    let sum =
        merging("sum", |partition: &Partition, (): &()| Ok(Sum(i64::from(*partition.data_as::<u32>()?))));
    let service = Service::new("figures").aggregation("sum", sum);
    let service = partitions.fold(service, |service, id| service.partition(id, id));
    total.into_iter().fold(service, Service::total)
}

fn node(
    partitions: Range<u32>,
    total: Option<u32>,
    seeds: impl IntoIterator<Item = SocketAddr>,
) -> NodeBuilder {
    Node::builder().service(figures(partitions, total)).join(seeds)
}

async fn sum(client: &Client) -> Reply<Sum> {
    client.call::<Sum>("figures/sum", &()).deadline(Duration::from_secs(5)).await.unwrap()
}

/// Waits until `other` is out of `node`'s sight.
async fn loses(node: &Node, other: &Node) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while node.members().contains(&other.id()) {
        assert!(tokio::time::Instant::now() < until, "{} is still in sight", other.addr());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn guessed_total_does_not_shrink_when_a_node_dies() {
    let first = node(0..4, None, None).start().await.unwrap();
    let second = node(4..8, None, [first.addr()]).start().await.unwrap();
    assert!(first.members_at_least(2, PATIENCE).await && second.members_at_least(2, PATIENCE).await);
    let direct = Client::builder().at([first.addr()]).direct(true).connect().await.unwrap();
    let full = sum(&first.client()).await;
    assert_eq!((full.status, full.value, full.total_is_guess), (Status::Full, Some(Sum(28)), true));
    second.abort();
    loses(&first, &second).await;
    for (way, client) in [("in process", first.client()), ("direct", direct)] {
        let reply = sum(&client).await;
        assert_eq!(
            (reply.status.clone(), reply.value, reply.asked.len()),
            (Status::Insufficient, None, 8),
            "{way}"
        );
        assert!(reply.total_is_guess, "{way}");
        let half = client.call::<Sum>("figures/sum", &()).min_coverage(0.5).await.unwrap();
        assert_eq!((half.status, half.value), (Status::Partial, Some(Sum(6))), "{way}");
    }
    // A newcomer learns the total from the survivor's card, once that card contains it.
    let newcomer = node(0..0, None, [first.addr()]).start().await.unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let client = newcomer.client();
        let reply = client.call::<Sum>("figures/sum", &()).min_coverage(0.1).await;
        if reply.is_ok_and(|reply| reply.asked.len() == 8) {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "the newcomer does not know all 8 partitions");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_declared_total_is_no_guess_and_holds_when_a_node_dies() {
    let first = node(0..4, Some(8), None).start().await.unwrap();
    let second = node(4..8, None, [first.addr()]).start().await.unwrap();
    assert!(first.members_at_least(2, PATIENCE).await);
    let full = sum(&first.client()).await;
    assert_eq!((full.status, full.value, full.total_is_guess), (Status::Full, Some(Sum(28)), false));
    second.abort();
    loses(&first, &second).await;
    let reply = sum(&first.client()).await;
    assert_eq!((reply.status.clone(), reply.asked.len()), (Status::Insufficient, 8));
    assert!(!reply.total_is_guess);
}

#[tokio::test]
async fn a_node_whose_total_differs_is_refused_by_name_when_it_starts() {
    let first = node(0..4, Some(8), None).start().await.unwrap();
    for (partitions, total, claim) in [(4..8, Some(16), "16 (declared)"), (4..12, None, "12 (a guess)")] {
        let refused = node(partitions, total, [first.addr()]).start().await.unwrap_err();
        assert!(matches!(&refused, StartError::Total { service, .. } if service == "figures"), "{refused}");
        let said = refused.to_string();
        assert!(said.contains(claim) && said.contains("8 (declared)"), "{said}");
    }
    assert_eq!(first.members().len(), 1, "the refused node was never in sight");
}

#[tokio::test]
async fn members_refuse_partitions_of_a_node_with_another_total() {
    // The stranger has no seeds, so it learns of the others at the same time as they learn of it: when a node
    // without a total of its own, which no seed can refuse, joins by both.
    let first = node(0..4, Some(8), None).start().await.unwrap();
    let second = node(4..8, Some(8), [first.addr()]).start().await.unwrap();
    let third = node(0..8, Some(8), [first.addr()]).start().await.unwrap();
    let stranger = node(0..2, Some(2), None).start().await.unwrap();
    let bridge = Node::builder().join([first.addr(), stranger.addr()]).start().await.unwrap();
    for node in [&first, &second, &third, &stranger, &bridge] {
        assert!(node.members_at_least(5, PATIENCE).await);
    }
    for node in [&first, &second, &third, &stranger] {
        let status = node.status().await.unwrap();
        let [total] = &status.totals[..] else { panic!("one service: {:?}", status.totals) };
        assert_eq!((total.agreed.total, total.agreed.declared), (8, true), "at {}", node.addr());
        let refused: Vec<_> =
            total.refused.iter().map(|refused| (refused.node, refused.claim.total)).collect();
        assert_eq!(refused, [(stranger.id(), 2)], "at {}", node.addr());
        let reply = sum(&node.client()).await;
        assert_eq!((reply.status, reply.value), (Status::Full, Some(Sum(28))), "at {}", node.addr());
    }
}
