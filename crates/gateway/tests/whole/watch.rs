//! Watchers: events of the node's view and of the gateway's calls.

use crate::document::check;
use crate::tokens::{entry, world_of};
use crate::world::{Answer, WITHIN, World, request, send};
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold_gateway::tokens::{GatewayRight, draw};

/// Reads events from a chunked answer.
struct Events(BufReader<TcpStream>);

impl Events {
    async fn open(world: &World) -> Self {
        Self::open_with(world, &[]).await
    }

    async fn open_with(world: &World, headers: &[(&str, &str)]) -> Self {
        let stream = send(world.addr(), &request("GET", "/v1/watch", headers, b"")).await;
        let mut events = Self(BufReader::new(stream));
        let head = events.line().await.unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let mut head = String::new();
        while let Some(line) = events.line().await.filter(|line| !line.is_empty()) {
            head.push_str(&line.to_lowercase());
        }
        assert!(head.contains("content-type: text/event-stream") && head.contains("no-store"), "{head}");
        events
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = timeout(WITHIN, self.0.read_line(&mut line)).await.expect("a line").unwrap_or(0);
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        // Lines between events are the lengths of chunks.
        while let Some(line) = self.line().await {
            if let Some(given) = line.strip_prefix("event: ") {
                given.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
        None
    }
}

#[tokio::test]
async fn history_comes_first_and_then_a_snapshot_a_second() {
    let world = World::usual().await;
    let document = world.get("/v1/openapi.json").await.json();
    let schema = |name: &str| &document["components"]["schemas"][name];
    world.sum("?explain", "null").await;
    world.sum("?min_coverage=0.5", r#"{"fail": [1]}"#).await;
    world.sum("?min_coverage=1", r#"{"fail": [1]}"#).await;
    world.sum("?shape=star", "null").await;
    world.sum("", "\"seven\"").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let mut events = Events::open(&world).await;
    let (name, history) = events.next().await.unwrap();
    check(&document, schema("History"), &history, "history");
    let sum = |figure: &str| -> u64 {
        let seconds = history["seconds"].as_array().unwrap();
        seconds.iter().map(|second| second[figure].as_u64().unwrap()).sum()
    };
    // A call with a wrong option never begins.
    assert_eq!((name.as_str(), sum("calls")), ("history", 4), "{history}");
    assert_eq!((sum("full"), sum("partial"), sum("insufficient"), sum("failed")), (1, 1, 1, 1));
    let (first, second) = (events.next().await.unwrap(), events.next().await.unwrap());
    for (name, snapshot) in [&first, &second] {
        assert_eq!(name, "snapshot");
        check(&document, schema("Snapshot"), snapshot, "snapshot");
        assert_eq!(snapshot["status"]["node"]["addr"], world.node.addr().to_string());
        assert!(snapshot["latest_tree"].as_u64().is_some_and(|call| call >= 1), "{snapshot}");
    }
    let end = |(_, snapshot): &(String, Value)| snapshot["at_ms"].as_u64().unwrap();
    assert_eq!((end(&second) - end(&first)) % 1_000, 0, "snapshots are at the ends of seconds");
}

#[tokio::test]
async fn all_watchers_get_the_same_snapshots_and_a_later_one_the_latest_at_once() {
    let world = World::usual().await;
    let (mut first, mut second) = (Events::open(&world).await, Events::open(&world).await);
    first.next().await.unwrap();
    second.next().await.unwrap();
    let (mut a, mut b) = (first.next().await.unwrap(), second.next().await.unwrap());
    let end = |(_, snapshot): &(String, Value)| snapshot["at_ms"].as_u64().unwrap();
    // The second one may have come in a later second.
    while end(&a) != end(&b) {
        let (older, events) = if end(&a) < end(&b) { (&mut a, &mut first) } else { (&mut b, &mut second) };
        *older = events.next().await.unwrap();
    }
    assert_eq!(a, b);
    let mut late = Events::open(&world).await;
    assert_eq!(late.next().await.unwrap().0, "history");
    assert!(late.next().await.unwrap().1["at_ms"].as_u64() >= a.1["at_ms"].as_u64());
    // When the last watcher has left and a new one comes, events begin anew.
    drop((first, second, late));
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    let mut again = Events::open(&world).await;
    assert_eq!(again.next().await.unwrap().0, "history");
    let (_, snapshot) = again.next().await.unwrap();
    assert!(snapshot["at_ms"].as_u64() > a.1["at_ms"].as_u64(), "no stale snapshot");
}

#[tokio::test]
async fn watchers_are_bounded_and_leave_their_places() {
    let world = World::with_limits(|limits| limits.watchers_max = 1).await;
    let only = Events::open(&world).await;
    let refused = world.get("/v1/watch").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "busy"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("watchers_max"));
    drop(only);
    let again = async {
        loop {
            let mut stream = send(world.addr(), &request("GET", "/v1/watch", &[], b"")).await;
            if Answer::read(&mut stream).await.status == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(WITHIN, again).await.expect("the place is free");
}

#[tokio::test]
async fn token_that_is_taken_back_ends_its_watch() {
    let (reader, other) = (draw().unwrap(), draw().unwrap());
    let of = |name: &str, token: &str| entry(name, token, &["sums"], &[GatewayRight::Read]);
    let (world, file) = world_of(&[of("reader", &reader), of("other", &other)]).await;
    let header = format!("Bearer {reader}");
    let mut events = Events::open_with(&world, &[("authorization", &header)]).await;
    assert_eq!(events.next().await.unwrap().0, "history");
    assert_eq!(events.next().await.unwrap().0, "snapshot");
    std::fs::write(file.path(), of("other", &other).to_toml()).unwrap();
    let last = async {
        loop {
            if let (name, problem) = events.next().await.unwrap()
                && name == "problem"
            {
                return problem;
            }
        }
    };
    let problem = timeout(WITHIN, last).await.expect("the watcher is told");
    assert_eq!(problem["type"], "urn:treefold:problem:no_token");
    assert_eq!(events.next().await, None, "nothing follows");
}

#[tokio::test]
async fn watchers_learn_that_the_node_has_ended() {
    let world = World::usual().await;
    let mut events = Events::open(&world).await;
    events.next().await.unwrap();
    assert_eq!(events.next().await.unwrap().0, "snapshot");
    world.node.abort();
    let ended = async {
        loop {
            if let (name, problem) = events.next().await.unwrap()
                && name == "problem"
            {
                return problem;
            }
        }
    };
    let problem = timeout(WITHIN, ended).await.unwrap();
    assert_eq!(problem["type"], "urn:treefold:problem:ending");
}

#[tokio::test]
async fn events_end_with_the_gateway() {
    let world = World::usual().await;
    let mut events = Events::open(&world).await;
    events.next().await.unwrap();
    let World { node: _node, gateway } = world;
    // The grace is longer than the bound on a read: the answer ends by itself.
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(60)));
    let all = async { while events.next().await.is_some() {} };
    timeout(WITHIN, all).await.expect("the events end");
    timeout(WITHIN, draining).await.expect("the gateway ends").unwrap();
}
