//! Readers over HTTP, by requests written by hand: both forms, resuming, errors, and peers that misbehave.

use crate::world::{event_of, offer, start_mirror, start_mirror_with, start_origin, until};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold::Node;
use treefold_feed::http::{HttpLimits, ListenError};
use treefold_feed::{HttpListener, HttpOptions, Mirror, MirrorOptions, Origin, ReaderLimits};
use treefold_mirror::MirrorLimits;

/// Bound on a wait. It is not measured.
const WITHIN: Duration = Duration::from_secs(20);

fn loopback() -> HttpOptions {
    HttpOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)))
}

async fn site(options: MirrorOptions, http: HttpOptions) -> (Node, Mirror, Origin, HttpListener) {
    let (node, mirror) = start_mirror_with(options, None).await;
    let listener = mirror.listen(http).await.unwrap();
    let origin = start_origin(&node.client(), "").await;
    until("the mirror is current", async || mirror.is_current()).await;
    (node, mirror, origin, listener)
}

async fn usual_site() -> (Node, Mirror, Origin, HttpListener) {
    site(MirrorOptions::new("flights", 0, 1), loopback()).await
}

/// An answer whose body is read line by line.
struct Answer {
    status: u16,
    head: String,
    body: BufReader<TcpStream>,
    /// Bytes of the chunk that is being read.
    left: usize,
}

impl Answer {
    async fn to(addr: SocketAddr, request: &str) -> Self {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        Self::read(stream).await
    }

    async fn read(stream: TcpStream) -> Self {
        let mut body = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = timeout(WITHIN, body.read_line(&mut head)).await.expect("a head").unwrap();
            assert!(read > 0, "the connection ended within the head: {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_lowercase(), body, left: 0 }
    }

    async fn get(addr: SocketAddr, path: &str, headers: &str) -> Self {
        Self::to(addr, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")).await
    }

    /// The next line of a chunked body. `None` at its end.
    async fn line(&mut self) -> Option<String> {
        timeout(WITHIN, self.next_line()).await.expect("a line")
    }

    async fn next_line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            if self.left == 0 {
                let mut size = String::new();
                while size.trim().is_empty() {
                    size.clear();
                    if self.body.read_line(&mut size).await.unwrap() == 0 {
                        return None;
                    }
                }
                self.left = usize::from_str_radix(size.trim(), 16).unwrap();
                if self.left == 0 {
                    return None;
                }
            }
            let byte = self.body.read_u8().await.unwrap();
            self.left -= 1;
            if byte == b'\n' {
                return Some(String::from_utf8(line).unwrap());
            }
            line.push(byte);
        }
    }

    async fn json(&mut self) -> Value {
        serde_json::from_str(&self.line().await.expect("a line")).unwrap()
    }

    /// The body of an answer with a known length.
    async fn whole(mut self) -> Value {
        let length = self.head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        timeout(WITHIN, self.body.read_exact(&mut body)).await.expect("a body").unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// One server-sent event: its id, name and data.
    async fn sent(&mut self) -> (Option<String>, String, Value) {
        let (mut id, mut name, mut data) = (None, String::new(), Value::Null);
        loop {
            let line = self.line().await.expect("an event");
            if line.is_empty() && !name.is_empty() {
                return (id, name, data);
            }
            match line.split_once(": ").unwrap_or((&line, "")) {
                ("id", text) => id = Some(text.to_owned()),
                ("event", text) => name = text.to_owned(),
                ("data", text) => data = serde_json::from_str(text).unwrap(),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn lines_have_a_snapshot_a_mark_and_every_event() {
    let (_node, _mirror, origin, listener) = usual_site().await;
    let mut early = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    assert_eq!(early.status, 200, "{}", early.head);
    assert!(early.head.contains("content-type: application/x-ndjson"), "{}", early.head);
    assert!(!early.head.contains("access-control"), "{}", early.head);
    assert_eq!(early.json().await["begins"]["at"], "flights=1.0");
    assert_eq!(early.json().await["complete"]["at"], "flights=1.0", "a mark also without a row");
    offer(&origin, 1..=300).await;
    for number in 1..=300 {
        let line = early.json().await;
        assert_eq!(line["event"]["position"], number, "{line}");
        assert_eq!(line["event"]["fields"]["at"], number, "{line}");
    }
    // A key is read from the state, so this reader gets a snapshot of its own.
    let mut one = Answer::get(listener.addr(), "/v1/feeds/flights/events?key=DL7&key=none", "").await;
    assert_eq!(one.json().await["begins"]["at"], "flights=1.300");
    let row = one.json().await;
    assert_eq!((&row["row"]["key"], &row["row"]["position"]), (&"DL7".into(), &207.into()), "{row}");
    assert_eq!(one.json().await["complete"]["at"], "flights=1.300;faa=300");
    offer(&origin, 301..=310).await;
    let event = one.json().await;
    assert_eq!(event["event"]["position"], 307, "{event}");
}

#[tokio::test]
async fn browser_resumes_from_its_last_event_id() {
    let (_node, _mirror, origin, listener) = usual_site().await;
    let accept = "accept: text/event-stream\r\n";
    let mut first = Answer::get(listener.addr(), "/v1/feeds/flights/events", accept).await;
    assert!(first.head.contains("content-type: text/event-stream"), "{}", first.head);
    let (id, name, _) = first.sent().await;
    assert_eq!((id.as_deref(), name.as_str()), (Some(""), "begins"), "nobody can resume within a snapshot");
    let (id, name, data) = first.sent().await;
    assert_eq!((id.as_deref(), name.as_str()), (Some("flights=1.0"), "complete"), "{data}");
    offer(&origin, 1..=100).await;
    let mut last = String::new();
    for number in 1..=57 {
        let (id, name, data) = first.sent().await;
        assert_eq!((name.as_str(), &data["position"]), ("event", &number.into()), "{data}");
        last = id.unwrap();
    }
    drop(first);
    offer(&origin, 101..=150).await;
    // The header outranks the address, because a browser sends the first request's again.
    let headers = format!("{accept}last-event-id: {last}\r\n");
    let path = "/v1/feeds/flights/events?from=flights=1.3";
    let mut second = Answer::get(listener.addr(), path, &headers).await;
    let (id, name, _) = second.sent().await;
    assert_eq!((id, name.as_str()), (Some(last), "resumes"));
    for number in 58..=150 {
        let (id, name, data) = second.sent().await;
        assert_eq!((name.as_str(), &data["position"]), ("event", &number.into()), "{data}");
        assert_eq!(id, Some(format!("flights=1.{number}")));
    }
}

#[tokio::test]
async fn place_that_cannot_be_resumed_gets_a_snapshot_with_the_reason() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.readers = ReaderLimits { ahead_wait: Duration::from_millis(50), ..ReaderLimits::default() };
    let (_node, mirror, origin, listener) = site(options, loopback()).await;
    offer(&origin, 1..=10).await;
    until("the mirror has all", async || mirror.cut().position == 10).await;
    for (from, name) in [("flights=7.3", "epoch"), ("flights=1.999", "ahead")] {
        let path = format!("/v1/feeds/flights/events?from={from}");
        let mut answer = Answer::get(listener.addr(), &path, "").await;
        let begins = answer.json().await;
        assert_eq!(begins["begins"]["because"]["name"], name, "{begins}");
        assert!(begins["begins"]["because"]["message"].as_str().unwrap().contains("snapshot"), "{begins}");
    }
}

#[tokio::test]
async fn last_event_id_that_is_no_place_in_the_feed_gets_a_snapshot_with_the_reason() {
    let (_node, mirror, origin, listener) = usual_site().await;
    offer(&origin, 1..=10).await;
    until("the mirror has all", async || mirror.cut().position == 10).await;
    let accept = "accept: text/event-stream\r\n";
    for (id, said) in [
        ("prices=1.7", "no component of the feed flights"),
        ("junk", "take a snapshot"),
        ("flights=99999999999.1", "take a snapshot"),
        ("flights=x", "take a snapshot"),
        ("\u{fc}", "take a snapshot"),
    ] {
        // A key is read from the state, and all keys from a snapshot.
        for query in ["", "?key=DL7", "?from=flights=1.3"] {
            let path = format!("/v1/feeds/flights/events{query}");
            let headers = format!("{accept}last-event-id: {id}\r\n");
            let mut answer = Answer::get(listener.addr(), &path, &headers).await;
            assert_eq!(answer.status, 200, "{id}: {}", answer.head);
            let (at, name, data) = answer.sent().await;
            assert_eq!((at.as_deref(), name.as_str()), (Some(""), "begins"), "{id}: {data}");
            assert_eq!(data["because"]["name"], "unknown_place", "{id}: {data}");
            assert!(data["because"]["message"].as_str().unwrap().contains(said), "{id}: {data}");
            assert_eq!(answer.sent().await.1, "row", "{id}");
        }
    }
}

#[tokio::test]
async fn weights_in_accept_choose_the_form() {
    let (_node, _mirror, _origin, listener) = usual_site().await;
    for (accept, kind) in [
        ("text/event-stream;q=0", "application/x-ndjson"),
        ("text/event-stream;q=0, */*", "application/x-ndjson"),
        ("text/event-stream;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("text/event-stream, application/x-ndjson;q=0.5", "text/event-stream"),
    ] {
        let headers = format!("accept: {accept}\r\n");
        let answer = Answer::get(listener.addr(), "/v1/feeds/flights/events", &headers).await;
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{accept}: {}", answer.head);
    }
}

#[tokio::test]
async fn name_that_was_made_to_lead_here_reads_nothing() {
    let (_node, _mirror, _origin, listener) = usual_site().await;
    for (hosts, status) in [
        ("host: evil.example\r\n", 403),
        ("host: 127.0.0.1.evil.example:7780\r\n", 403),
        ("", 400),
        ("host: localhost\r\nhost: localhost\r\n", 400),
        ("host: a b\r\n", 400),
        ("host: localhost\r\n", 200),
        ("host: 127.0.0.1:7780\r\n", 200),
        ("host: [::1]:7780\r\n", 200),
    ] {
        let request = format!("GET /v1/feeds/flights/status HTTP/1.1\r\n{hosts}\r\n");
        let answer = Answer::to(listener.addr(), &request).await;
        assert_eq!(answer.status, status, "{hosts}");
        if status != 200 {
            let problem = answer.whole().await;
            assert_eq!(
                (&problem["error"], &problem["parameter"]),
                (&"host".into(), &"host".into()),
                "{problem}"
            );
        }
    }
    let old = Answer::to(listener.addr(), "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.status, 200, "HTTP/1.0 has no header Host");
}

#[tokio::test]
async fn client_that_half_closes_after_its_request_gets_the_answer() {
    let (_node, _mirror, _origin, listener) = usual_site().await;
    for version in ["1.0", "1.1"] {
        let mut stream = TcpStream::connect(listener.addr()).await.unwrap();
        let request = format!("GET /v1/feeds/flights/status HTTP/{version}\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut text = String::new();
        timeout(WITHIN, stream.read_to_string(&mut text)).await.expect("an end").unwrap();
        assert!(text.contains(" 200 OK\r\n") && text.ends_with("}\n"), "{text}");
    }
}

#[tokio::test]
async fn malformed_requests_get_typed_errors() {
    let (_node, _mirror, _origin, listener) = usual_site().await;
    let many: String = (0..1_001).map(|key| format!("&key={key}")).collect();
    let events = "/v1/feeds/flights/events";
    for (path, status, error, parameter) in [
        ("/", 404, "unknown_path", None),
        ("/v1/feeds/flights", 404, "unknown_path", None),
        ("/v1/feeds/prices/events", 404, "unknown_feed", None),
        ("/v1/feeds/prices/status", 404, "unknown_feed", None),
        ("/v1/feeds/flights/keys/none", 404, "unknown_key", None),
        ("/v1/feeds/%ff/status", 400, "query", None),
        (&format!("{events}?from=garbage"), 400, "vector_time", Some("from")),
        (&format!("{events}?from=flights=99999999999.1"), 400, "vector_time", Some("from")),
        (&format!("{events}?from=prices=1.1"), 400, "vector_time", Some("from")),
        (&format!("{events}?key="), 400, "filter", Some("key")),
        (&format!("{events}?type=a%20b"), 400, "filter", Some("type")),
        (&format!("{events}?keys=DL1"), 400, "unknown_parameter", Some("keys")),
        (&format!("{events}?x{many}"), 400, "unknown_parameter", Some("x")),
        (&format!("{events}?{}", &many[1..]), 400, "filter", Some("key")),
    ] {
        let answer = Answer::get(listener.addr(), path, "").await;
        assert_eq!(answer.status, status, "{path}");
        let problem = answer.whole().await;
        assert_eq!(problem["error"], error, "{path}: {problem}");
        assert_eq!(problem["parameter"].as_str(), parameter, "{path}: {problem}");
        assert!(problem["message"].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
    }
    let posted =
        Answer::to(listener.addr(), "POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
            .await;
    assert_eq!(posted.status, 405, "{}", posted.head);
    assert!(posted.head.contains("allow: get"), "{}", posted.head);
    let long = format!("x: {}\r\n", "y".repeat(64 << 10));
    assert_eq!(Answer::get(listener.addr(), "/healthz", &long).await.status, 431);
    let many: String = (0..100).map(|number| format!("x{number}: y\r\n")).collect();
    assert_eq!(Answer::get(listener.addr(), "/healthz", &many).await.status, 431);
    assert_eq!(Answer::to(listener.addr(), "garbage\r\n\r\n").await.status, 400);
}

#[tokio::test]
async fn status_keys_and_health_are_read() {
    let (_node, mirror, origin, listener) = usual_site().await;
    offer(&origin, 1..=250).await;
    until("the mirror has all", async || mirror.cut().position == 250).await;
    let status = Answer::get(listener.addr(), "/v1/feeds/flights/status", "").await.whole().await;
    assert_eq!((&status["position"], &status["keys"]), (&250.into(), &100.into()), "{status}");
    assert_eq!((&status["is_current"], &status["readers"]), (&true.into(), &0.into()), "{status}");
    let found = Answer::get(listener.addr(), "/v1/feeds/flights/keys/DL42", "").await.whole().await;
    assert_eq!((&found["at"], &found["row"]["position"]), (&"flights=1.250;faa=250".into(), &242.into()));
    let health = Answer::get(listener.addr(), "/healthz", "").await;
    assert_eq!(health.status, 200);
    assert_eq!(health.whole().await["is_current"], true);
}

#[tokio::test]
async fn mirror_without_an_origin_says_so_and_its_readers_count_as_pending() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.readers = ReaderLimits { heartbeat: Duration::from_millis(20), ..ReaderLimits::default() };
    let (node, mirror) = start_mirror_with(options, None).await;
    let listener = mirror.listen(loopback()).await.unwrap();
    let key = Answer::get(listener.addr(), "/v1/feeds/flights/keys/DL1", "").await;
    assert!(key.head.contains("retry-after"), "{}", key.head);
    assert_eq!((key.status, &key.whole().await["error"]), (503, &"not_current".into()));
    let mut waiting = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    assert_eq!(waiting.json().await, serde_json::json!({"alive": {}}));
    let status = Answer::get(listener.addr(), "/v1/feeds/flights/status", "").await.whole().await;
    assert_eq!((&status["readers"], &status["pending_requests"]), (&1.into(), &1.into()), "{status}");
    let _origin = start_origin(&node.client(), "").await;
    let mut line = waiting.json().await;
    while line.get("alive").is_some() {
        line = waiting.json().await;
    }
    assert!(line.get("begins").is_some(), "{line}");
    until("nobody waits", async || {
        let status = Answer::get(listener.addr(), "/v1/feeds/flights/status", "").await.whole().await;
        status["pending_requests"] == 0
    })
    .await;
}

#[tokio::test]
async fn quiet_feed_gives_signs_of_life_with_the_place() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.readers = ReaderLimits { heartbeat: Duration::from_millis(20), ..ReaderLimits::default() };
    let (_node, _mirror, origin, listener) = site(options, loopback()).await;
    let mut answer = Answer::get(listener.addr(), "/v1/feeds/flights/events?key=other", "").await;
    offer(&origin, 1..=40).await;
    let mut line = answer.json().await;
    while line["reached"]["at"] != "flights=1.40;faa=40" {
        line = answer.json().await;
    }
}

#[tokio::test]
async fn client_that_does_not_read_is_told_that_it_lags_and_delays_nobody() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.limits = MirrorLimits { lag_bytes_max: 300_000, ..MirrorLimits::default() };
    let (_node, mirror, origin, listener) = site(options, loopback()).await;
    let mut slow = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    let mut regular = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    assert!(regular.json().await.get("begins").is_some() && regular.json().await.get("complete").is_some());
    // More than both sides' socket buffers hold, read by one of the two.
    let (mut number, mut sent) = (0, 0);
    while sent < 16 << 20 {
        let mut event = event_of(number + 1, number % 100);
        event.body = vec![b'x'; 10_000].into();
        sent += event.body.len();
        number += 1;
        origin.offer(event).await.unwrap();
        let line = regular.json().await;
        assert_eq!(line["event"]["position"], number, "{line}");
    }
    assert_eq!((mirror.cut().position, mirror.readers()), (number, 2));
    let (mut lagging, mut begins) = (false, serde_json::json!(null));
    let mut before = 0;
    loop {
        let line = slow.json().await;
        if let Some(position) = line["event"]["position"].as_u64() {
            assert_eq!(position, before + 1, "no gap");
            before = position;
        }
        lagging |= line.get("lagging").is_some();
        if line["begins"]["because"].is_object() {
            begins = line;
        } else if line.get("complete").is_some() && begins.is_object() {
            break;
        }
    }
    assert!(lagging && begins["begins"]["because"]["name"] == "lagged", "{begins}");
}

#[tokio::test]
async fn client_that_vanishes_gives_its_place_back() {
    let (_node, mirror, origin, listener) = usual_site().await;
    let clients = (0..20).map(|_| Answer::get(listener.addr(), "/v1/feeds/flights/events", ""));
    let clients = futures_util::future::join_all(clients).await;
    until("all are served", async || mirror.readers() == 20).await;
    drop(clients);
    until("the places are free again", async || mirror.readers() == 0).await;
    offer(&origin, 1..=10).await;
    until("the mirror goes on", async || mirror.cut().position == 10).await;
}

#[tokio::test]
async fn slow_request_is_cut_off_and_connections_are_bounded() {
    let limits = HttpLimits {
        connections_max: 2,
        request_within: Duration::from_millis(300),
        ..HttpLimits::default()
    };
    let http = HttpOptions { limits, ..loopback() };
    let (_node, _mirror, _origin, listener) = site(MirrorOptions::new("flights", 0, 1), http).await;
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(listener.addr()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost:").await.unwrap();
        slow.push(stream);
    }
    // Refused while the others have all places, and served once these are cut off.
    let refused = async {
        let stream = TcpStream::connect(listener.addr()).await.unwrap();
        Answer::read(stream).await
    };
    let refused = refused.await;
    assert_eq!((refused.status, &refused.whole().await["error"]), (503, &"connections".into()));
    for stream in &mut slow {
        let mut rest = Vec::new();
        // The server closes, with or without an answer.
        let _ = timeout(WITHIN, stream.read_to_end(&mut rest)).await.expect("an end");
    }
    until("there is room", async || {
        let mut stream = TcpStream::connect(listener.addr()).await.unwrap();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        Answer::read(stream).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn readers_above_the_limit_are_refused() {
    let mut options = MirrorOptions::new("flights", 0, 1);
    options.readers = ReaderLimits { readers_max: 1, ..ReaderLimits::default() };
    let (_node, _mirror, _origin, listener) = site(options, loopback()).await;
    let _first = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    let second = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    assert!(second.head.contains("retry-after"), "{}", second.head);
    let problem = second.whole().await;
    assert_eq!((&problem["error"], &problem["limit"]), (&"readers".into(), &1.into()), "{problem}");
}

#[tokio::test]
async fn listener_that_ends_tells_its_readers_the_place() {
    let (_node, mirror, origin, listener) = usual_site().await;
    let mut answer = Answer::get(listener.addr(), "/v1/feeds/flights/events", "").await;
    let _idle = TcpStream::connect(listener.addr()).await.unwrap();
    // Events that come before its snapshot would be rows of it.
    let mut last = Value::Null;
    while last["complete"].is_null() {
        last = answer.json().await;
    }
    offer(&origin, 1..=5).await;
    until("the mirror has all", async || mirror.cut().position == 5).await;
    while last["event"]["position"] != 5 {
        last = answer.json().await;
    }
    let addr = listener.addr();
    timeout(WITHIN, listener.shutdown(Duration::from_secs(1))).await.expect("an end");
    assert_eq!(answer.json().await["reached"]["at"], "flights=1.5;faa=5");
    assert_eq!(answer.line().await, None);
    assert!(TcpStream::connect(addr).await.is_err());
    until("the place is free", async || mirror.readers() == 0).await;
}

#[tokio::test]
async fn address_that_others_can_reach_needs_permission() {
    let (_node, mirror) = start_mirror(0, 1, None).await;
    let mut options = HttpOptions::new(SocketAddr::from(([0, 0, 0, 0], 0)));
    let refused = mirror.listen(options.clone()).await.unwrap_err();
    assert!(matches!(refused, ListenError::Public { .. }), "{refused}");
    options.is_public = true;
    assert!(mirror.listen(options).await.is_ok());
    let taken = mirror.listen(loopback()).await.unwrap();
    let refused = mirror.listen(HttpOptions::new(taken.addr())).await;
    assert!(matches!(refused, Err(ListenError::Io { .. })));
}
