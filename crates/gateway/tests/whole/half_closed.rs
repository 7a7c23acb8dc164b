//! Clients over HTTP/1.1 that send no more after their request.

use crate::world::{BYTES, JSON, WITHIN, World, request, rest, send};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const SUM: &str = "/v1/call/sums/sum";

/// Sends a request, closes the sending side, and returns all that comes.
async fn half_closed(world: &World, bytes: &[u8]) -> Vec<u8> {
    let mut stream = send(world.addr(), bytes).await;
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    timeout(WITHIN, stream.read_to_end(&mut all)).await.expect("the connection ends").unwrap();
    all
}

#[tokio::test]
async fn client_that_half_closes_after_its_request_gets_the_answer() {
    let world = World::usual().await;
    let quick = half_closed(&world, &request("GET", "/healthz", &[], b"")).await;
    assert!(quick.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&quick));
    let slow = request("POST", SUM, &[JSON], br#"{"hold_ms": 500}"#);
    let old = String::from_utf8(slow.clone()).unwrap().replace("HTTP/1.1", "HTTP/1.0");
    for bytes in [&slow[..], old.as_bytes()] {
        let text = String::from_utf8(half_closed(&world, bytes).await).unwrap();
        let answer = text.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200 OK\r\n"), "{text}");
        assert!(answer.contains(r#""value":6"#), "{text}");
        assert_eq!(text.contains("100 Continue"), bytes == &slow[..], "interim answers are of HTTP/1.1");
    }
    assert_eq!(world.node.status().await.unwrap().counters.calls.cancelled, 0);
}

#[tokio::test]
async fn long_answer_comes_whole_although_its_client_sends_no_more() {
    let world = World::usual().await;
    let body = vec![7; 1 << 20];
    let headers = [BYTES, ("accept", "application/octet-stream")];
    let all = half_closed(&world, &request("POST", "/v1/call/sums/echo", &headers, &body)).await;
    let head = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    assert!(all.starts_with(b"HTTP/1.1"), "{}", String::from_utf8_lossy(&all[..head]));
    assert!(all.ends_with(&vec![7; body.len() * 4]), "{} bytes", all.len());
}

#[tokio::test]
async fn pipelined_requests_are_all_answered_after_a_half_close() {
    let world = World::usual().await;
    let one = request("POST", SUM, &[JSON], br#"{"hold_ms": 150}"#);
    let text = String::from_utf8(half_closed(&world, &one.repeat(3)).await).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 3, "{text}");
}

#[tokio::test]
async fn body_that_breaks_off_ends_its_request() {
    let world = World::with_limits(|limits| limits.body_within = Duration::from_secs(3_000)).await;
    let whole = request("POST", SUM, &[JSON], br#"{"hold_ms": 0}"#);
    let mut stream: TcpStream = send(world.addr(), &whole[..whole.len() - 3]).await;
    stream.shutdown().await.unwrap();
    rest(&mut stream).await;
    assert_eq!(world.node.status().await.unwrap().counters.calls.started, 0);
}
