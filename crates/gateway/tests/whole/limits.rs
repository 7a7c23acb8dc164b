//! Limits: bodies, headers, time, rates, connections.

use crate::world::{Answer, JSON, World, post, request, rest, send};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

const SUM: &str = "/v1/call/sums/sum";

#[tokio::test]
async fn body_at_the_limit_passes_and_one_past_it_is_refused() {
    let world = World::with_limits(|limits| limits.body_bytes_max = 1_000).await;
    let padded = |bytes: usize| format!("null{}", " ".repeat(bytes - 4));
    assert_eq!(world.sum("", &padded(1_000)).await.status, 200);
    let over = world.sum("", &padded(1_001)).await;
    assert_eq!((over.status, over.problem().as_str()), (413, "body_too_large"));
    assert_eq!((&over.json()["field"], &over.json()["limit"]), (&"body".into(), &"1000".into()));
    // Without an announced length, the bytes are counted as they come.
    let chunked = |bytes: usize| {
        let head = format!(
            "POST {SUM} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n"
        );
        format!("{head}{bytes:x}\r\n{}\r\n0\r\n\r\n", padded(bytes))
    };
    for (bytes, status) in [(1_000, 200), (1_001, 413)] {
        let mut stream = send(world.addr(), chunked(bytes).as_bytes()).await;
        assert_eq!(Answer::read(&mut stream).await.status, status, "{bytes}");
    }
}

#[tokio::test]
async fn bytes_of_all_bodies_are_bounded_together() {
    let world = World::with_limits(|limits| limits.bodies_bytes_max = 4 << 10).await;
    let head = format!(
        "POST {SUM} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n"
    );
    let mut half = send(world.addr(), format!("{head}{}", " ".repeat(3_000)).as_bytes()).await;
    // The first body holds three of the four KiB, so the second one finds no room.
    let refused = async {
        loop {
            let answer = world.sum("", &format!("null{}", " ".repeat(2_000))).await;
            if answer.status != 200 {
                return answer;
            }
        }
    };
    let refused = tokio::time::timeout(crate::world::WITHIN, refused).await.unwrap();
    assert_eq!((refused.status, refused.problem().as_str()), (503, "busy"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("bodies_bytes_max"));
    half.write_all(format!("null{}", " ".repeat(996)).as_bytes()).await.unwrap();
    assert_eq!(Answer::read(&mut half).await.status, 200);
    assert_eq!(
        world.sum("", &format!("null{}", " ".repeat(2_000))).await.status,
        200,
        "the room is free again"
    );
}

#[tokio::test]
async fn slow_drip_headers_are_cut_off_and_others_are_served() {
    let world = World::with_limits(|limits| limits.head_within = Duration::from_millis(300)).await;
    let mut stream = send(world.addr(), b"GET /healthz HTTP/1.1\r\n").await;
    let dripping = async {
        // A write fails soon after the other side has closed.
        while stream.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::world::WITHIN, dripping).await.expect("the connection is closed");
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn slow_drip_body_is_timed_out() {
    let world = World::with_limits(|limits| limits.body_within = Duration::from_millis(200)).await;
    let head = format!(
        "POST {SUM} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    );
    let mut stream = send(world.addr(), head.as_bytes()).await;
    stream.write_all(b"nul").await.unwrap();
    let answer = Answer::read(&mut stream).await;
    assert_eq!((answer.status, answer.problem().as_str()), (408, "body_timeout"));
    rest(&mut stream).await;
}

#[tokio::test]
async fn long_headers_are_refused() {
    let world = World::with_limits(|limits| limits.head_bytes_max = 8 << 10).await;
    let header = "y".repeat(9 << 10);
    let mut stream = send(world.addr(), &request("GET", "/healthz", &[("x", &header)], b"")).await;
    let bytes = rest(&mut stream).await;
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn flood_is_answered_429_with_a_time_to_wait() {
    let world = World::with_limits(|limits| limits.requests_per_s = 5).await;
    let mut refused = Vec::new();
    for _ in 0..20 {
        let answer = world.sum("", "null").await;
        if answer.status != 200 {
            refused.push(answer);
        }
    }
    assert!(!refused.is_empty());
    for answer in refused {
        assert_eq!((answer.status, answer.problem().as_str()), (429, "rate"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.json()["limit"], "5");
    }
    assert_eq!(world.get("/healthz").await.status, 200, "questions about health are not counted");
}

#[tokio::test]
async fn open_calls_of_a_tenant_are_bounded() {
    let world = World::with_limits(|limits| limits.calls_open_max = 1).await;
    let slow = request("POST", &format!("{SUM}?deadline=50s"), &[JSON], br#"{"hold_ms": 40000}"#);
    let first = send(world.addr(), &slow).await;
    world.until_open(1).await;
    let second = world.sum("", "null").await;
    assert_eq!((second.status, second.problem().as_str()), (429, "open_calls"));
    assert_eq!((second.header("retry-after"), &second.json()["limit"]), (Some("1"), &"1".into()));
    drop(first);
    world.until_cancelled(1).await;
    assert_eq!(post(world.addr(), SUM, &[], b"").await.status, 200);
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused_by_name() {
    let world = World::with_limits(|limits| limits.connections_max = 1).await;
    let mut first = send(world.addr(), &request("GET", "/healthz", &[], b"")).await;
    assert_eq!(Answer::read(&mut first).await.status, 200);
    let mut second = send(world.addr(), b"").await;
    let refused = Answer::read(&mut second).await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "connections"));
    assert!(refused.json()["detail"].as_str().unwrap().contains("connections_max"));
}
