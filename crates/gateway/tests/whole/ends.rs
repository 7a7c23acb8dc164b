//! The end of a gateway: readiness fails first, open calls end, and the rest is cut off.

use crate::world::{Answer, JSON, World, request, rest, send};
use std::time::Duration;
use tokio::net::TcpStream;

const SUM: &str = "/v1/call/sums/sum";

#[tokio::test]
async fn readiness_fails_first_and_open_calls_end() {
    let world = World::usual().await;
    let addr = world.addr();
    let slow = request("POST", &format!("{SUM}?deadline=10s"), &[JSON], br#"{"hold_ms": 700}"#);
    let mut open = send(addr, &slow).await;
    world.until_open(1).await;
    let mut idle = send(addr, &request("GET", "/readyz", &[], b"")).await;
    assert_eq!(Answer::read(&mut idle).await.status, 200);
    let World { node, gateway } = world;
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(20)));
    // Within the notice the gateway is not ready, but still takes calls.
    let unready = async {
        loop {
            let answer = crate::world::ask(addr, "GET", "/readyz", &[], b"").await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    let unready = tokio::time::timeout(crate::world::WITHIN, unready).await.unwrap();
    assert_eq!((unready.status, unready.problem().as_str()), (503, "ending"));
    assert_eq!(crate::world::post(addr, SUM, &[], b"").await.status, 200);
    let answer = Answer::read(&mut open).await;
    assert_eq!((answer.status, answer.json()["value"].as_u64()), (200, Some(6)));
    draining.await.unwrap();
    assert!(rest(&mut idle).await.is_empty(), "idle connections are closed");
    assert!(TcpStream::connect(addr).await.is_err(), "the gateway listens no more");
    assert_eq!(node.status().await.unwrap().counters.calls.cancelled, 0);
}

#[tokio::test]
async fn calls_beyond_the_grace_are_cancelled() {
    let world = World::usual().await;
    let slow = request("POST", &format!("{SUM}?deadline=50s"), &[JSON], br#"{"hold_ms": 40000}"#);
    let mut open = send(world.addr(), &slow).await;
    world.until_open(1).await;
    let World { node, gateway } = world;
    gateway.drain(Duration::from_millis(100)).await;
    assert!(rest(&mut open).await.is_empty());
    let cancelled = async {
        while node.status().await.unwrap().counters.calls.cancelled != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::world::WITHIN, cancelled).await.expect("the call is cancelled");
}

#[tokio::test]
async fn gateway_of_an_ended_node_is_neither_healthy_nor_ready() {
    let world = World::usual().await;
    assert_eq!(world.get("/healthz").await.status, 200);
    world.node.abort();
    for path in ["/healthz", "/readyz"] {
        let answer = world.get(path).await;
        assert_eq!((answer.status, answer.problem().as_str()), (503, "ending"), "{path}");
    }
    assert_eq!(world.sum("", "null").await.problem(), "ending");
}

#[tokio::test]
async fn health_and_readiness_hold_while_calls_queue() {
    let world = World::usual().await;
    // Each call holds all processors of the node, so all but the first one queue.
    let slow = request("POST", &format!("{SUM}?deadline=50s"), &[JSON], br#"{"hold_ms": 40000}"#);
    let mut open = Vec::new();
    for _ in 0..50 {
        open.push(send(world.addr(), &slow).await);
    }
    world.until_open(50).await;
    assert!(world.node.status().await.unwrap().open.jobs_queued > 0);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
}
