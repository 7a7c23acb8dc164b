//! Networks that block UDP and let TCP pass: members stay members, and say so.
//!
//! A node announces the address of a door that forwards TCP to it, and at which nothing takes datagrams.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use treefold::operators::merge::Sum;
use treefold::operators::merging;
use treefold::{Node, Partition, Service, Status};

const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for SWIM to expel a member that answers nothing, several times.
const WATCHED_FOR: Duration = Duration::from_secs(8);

/// Forwards TCP from 127.0.0.2 to the same port of 127.0.0.1. Returns both addresses.
async fn door() -> (SocketAddr, SocketAddr) {
    let door = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let outside = door.local_addr().unwrap();
    let inside = SocketAddr::from(([127, 0, 0, 1], outside.port()));
    tokio::spawn(async move {
        while let Ok((mut from, _)) = door.accept().await {
            tokio::spawn(async move {
                if let Ok(mut to) = TcpStream::connect(inside).await {
                    _ = from.set_nodelay(true).and_then(|()| to.set_nodelay(true));
                    _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                }
            });
        }
    });
    (outside, inside)
}

/// A node that holds partition `id`, behind a door or not.
async fn node(id: u32, has_door: bool, seed: Option<SocketAddr>) -> Node {
    let sum =
        merging("sum", |partition: &Partition, (): &()| Ok(Sum(i64::from(*partition.data_as::<u32>()?))));
    let service = Service::new("figures").aggregation("sum", sum).total(3).partition(id, id);
    let mut builder = Node::builder().service(service).join(seed);
    if has_door {
        let (outside, inside) = door().await;
        builder = builder.listen(inside).advertise(outside);
    }
    builder.start().await.unwrap()
}

/// Starts three nodes, of which these have no UDP, and watches that none is expelled. Returns those that say that no member
/// reaches them by UDP.
async fn watch(doors: [bool; 3]) -> Vec<usize> {
    let first = node(0, doors[0], None).await;
    let second = node(1, doors[1], Some(first.addr())).await;
    let third = node(2, doors[2], Some(first.addr())).await;
    let nodes = [first, second, third];
    for node in &nodes {
        assert!(node.members_at_least(3, PATIENCE).await);
    }
    let until = tokio::time::Instant::now() + WATCHED_FOR;
    while tokio::time::Instant::now() < until {
        for (at, node) in nodes.iter().enumerate() {
            assert_eq!(node.members().len(), 3, "as node {at} sees it");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for node in &nodes {
        let reply = node.client().call::<Sum>("figures/sum", &()).await.unwrap();
        assert_eq!((reply.status, reply.value), (Status::Full, Some(Sum(3))));
    }
    let mut unreached = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        if node.status().await.unwrap().unreached_by_udp {
            unreached.push(at);
        }
    }
    unreached
}

#[tokio::test]
async fn members_stay_members_when_no_datagram_arrives() {
    assert_eq!(watch([true, true, true]).await, [0, 1, 2]);
}

#[tokio::test]
async fn member_that_datagrams_do_not_reach_stays_a_member() {
    assert_eq!(watch([false, true, false]).await, [1]);
}

#[tokio::test]
async fn members_that_datagrams_reach_use_them() {
    assert!(watch([false, false, false]).await.is_empty());
}
