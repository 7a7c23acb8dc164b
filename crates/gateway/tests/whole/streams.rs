//! Streams as server-sent events and as lines of JSON.

use crate::tokens::{entry, world_of};
use crate::world::{Answer, WITHIN, World, request, send};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold_gateway::tokens::{Entry, GatewayRight, draw};

/// Endpoints that send by themselves.
const TICKING: &str = "/v1/streams/meters?params=1";
const SENT: (&str, &str) = ("accept", "text/event-stream");

/// A reader of a body without end.
struct Reader {
    stream: BufReader<TcpStream>,
    head: String,
    text: String,
}

/// A message: its id, its name, its content.
type Message = (String, String, Value);

impl Reader {
    async fn open(world: &World, path: &str, headers: &[(&str, &str)]) -> Self {
        let stream = send(world.addr(), &request("GET", path, headers, b"")).await;
        let (mut stream, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            assert!(timeout(WITHIN, stream.read_line(&mut head)).await.unwrap().unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Self { stream, head, text: String::new() }
    }

    /// The next line of the body; `None` at its end.
    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(line);
            }
            let mut length = String::new();
            timeout(WITHIN, self.stream.read_line(&mut length)).await.expect("more of the body").unwrap();
            let length = usize::from_str_radix(length.trim(), 16).ok()?;
            let mut chunk = vec![0; length + 2];
            self.stream.read_exact(&mut chunk).await.unwrap();
            if length == 0 {
                return None;
            }
            self.text.push_str(std::str::from_utf8(&chunk[..length]).unwrap());
        }
    }

    /// The next server-sent event; a comment has an empty name.
    async fn message(&mut self) -> Option<Message> {
        let (mut id, mut name, mut content) = (String::new(), String::new(), Value::Null);
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some(("id", text)) => text.clone_into(&mut id),
                Some(("event", text)) => text.clone_into(&mut name),
                Some(("data", text)) => content = serde_json::from_str(text).unwrap(),
                Some(("", text)) => content = text.into(),
                None if line.is_empty() => return Some((id, name, content)),
                other => panic!("{other:?}"),
            }
        }
    }
}

async fn refused(world: &World, path: &str) -> Answer {
    world.get(path).await
}

#[tokio::test]
async fn waves_come_as_server_sent_events_with_ids() {
    let world = World::usual().await;
    let path = "/v1/streams/meters?filter=sum&every=20ms&window=65536&shape=flat&sync=time-out:5s";
    let mut reader = Reader::open(&world, path, &[SENT]).await;
    for header in ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"] {
        assert!(reader.head.contains(header), "{}", reader.head);
    }
    let (id, name, opened) = reader.message().await.unwrap();
    assert_eq!(
        (name.as_str(), &opened["endpoints"], &opened["missing"]),
        ("opened", &json!("0-2"), &json!([]))
    );
    let stream = opened["stream"].as_str().unwrap();
    assert_eq!(id, format!("{stream}:1"));
    for tag in 1..=3_u64 {
        let (id, name, wave) = reader.message().await.unwrap();
        assert_eq!((id, name.as_str()), (format!("{stream}:{}", tag + 1), "wave"));
        let expected = json!({
            "tag": tag, "is_late": false, "packets": [{"kind": "packet", "format": "u64", "values": [3]}],
            "contributors": "0-2", "coverage": {"asked": 3, "contributed": 3}, "missing": [],
        });
        assert_eq!(wave, expected);
    }
    let text = String::from_utf8(world.get("/metrics").await.body).unwrap();
    assert!(text.contains("treefold_gateway_streams 1\n"), "{text}");
    drop(reader);
    world.until_streams(0).await;
}

#[tokio::test]
async fn waves_come_as_lines_and_one_packet_is_sent_down() {
    let world = World::usual().await;
    let path = "/v1/streams/meters?endpoints=1&send=%5B7%5D";
    let mut reader = Reader::open(&world, path, &[]).await;
    assert!(reader.head.contains("content-type: application/x-ndjson"), "{}", reader.head);
    let mut line = async || -> Value { serde_json::from_str(&reader.line().await.unwrap()).unwrap() };
    assert_eq!(line().await["opened"]["endpoints"], "1");
    let wave = line().await;
    assert_eq!(wave["wave"]["packets"], json!([{"kind": "value", "value": [7]}]));
    assert_eq!(wave["wave"]["contributors"], "1");
}

#[tokio::test]
async fn readers_without_news_get_signs_of_life() {
    let world = World::with_limits(|limits| limits.heartbeat = Duration::from_millis(50)).await;
    let mut reader = Reader::open(&world, "/v1/streams/meters", &[SENT]).await;
    assert_eq!(reader.message().await.unwrap().1, "opened");
    for _ in 0..2 {
        assert_eq!(reader.message().await.unwrap(), (String::new(), String::new(), json!("alive")));
    }
}

#[tokio::test]
async fn slow_reader_is_told_how_many_waves_were_dropped() {
    let world = World::with_limits(|limits| limits.stream_queue_bytes_max = 50_000).await;
    let mut reader = Reader::open(&world, TICKING, &[SENT]).await;
    let opened = reader.message().await.unwrap();
    assert_eq!(opened.1, "opened");
    let dropped_here = async || -> u64 {
        let text = String::from_utf8(world.get("/metrics").await.body).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("treefold_gateway_waves_dropped_total "));
        line.unwrap().parse().unwrap()
    };
    // The system's buffers take some megabytes before the queue fills.
    let is_full = async {
        while dropped_here().await == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(3 * WITHIN, is_full).await.expect("the queue is full");
    let (mut tag, mut told) = (0, 0);
    while told == 0 {
        let (_, name, content) = reader.message().await.unwrap();
        match name.as_str() {
            "wave" => {
                let next = content["tag"].as_u64().unwrap();
                assert_eq!(next, tag + 1, "no gap without a word");
                tag = next;
            }
            "dropped" => told = content["waves"].as_u64().unwrap(),
            other => panic!("{other}"),
        }
    }
    let (_, name, next) = reader.message().await.unwrap();
    assert_eq!((name.as_str(), next["tag"].as_u64().unwrap()), ("wave", tag + told + 1));
}

#[tokio::test]
async fn streams_are_refused_like_calls() {
    let world = World::with_limits(|limits| limits.streams_open_max = 1).await;
    for (path, status, name, field) in [
        ("/v1/streams/faces", 404, "unknown_service", "service"),
        ("/v1/streams/meters?filter=none", 400, "filter", "filter"),
        ("/v1/streams/meters?fitler=sum", 400, "unknown_field", "fitler"),
        ("/v1/streams/meters?every=1ms", 400, "bad_field", "every"),
        ("/v1/streams/meters?slow=never", 400, "bad_field", "slow"),
        ("/v1/streams/meters?endpoints=x", 400, "bad_field", "endpoints"),
    ] {
        let answer = refused(&world, path).await;
        assert_eq!((answer.status, answer.problem().as_str()), (status, name), "{path}: {answer:?}");
        assert_eq!(answer.json()["field"], field, "{path}");
    }
    let reader = Reader::open(&world, "/v1/streams/meters", &[]).await;
    let answer = refused(&world, "/v1/streams/meters").await;
    assert_eq!((answer.status, answer.problem().as_str()), (429, "open_streams"));
    assert_eq!((answer.header("retry-after"), &answer.json()["limit"]), (Some("1"), &json!("1")));
    drop(reader);
    world.until_streams(0).await;
}

#[tokio::test]
async fn end_of_the_gateway_is_told_to_readers() {
    let world = World::usual().await;
    let mut reader = Reader::open(&world, "/v1/streams/meters", &[SENT]).await;
    assert_eq!(reader.message().await.unwrap().1, "opened");
    let World { node, gateway } = world;
    let draining = tokio::spawn(gateway.drain(Duration::from_secs(20)));
    let (id, name, problem) = reader.message().await.unwrap();
    assert_eq!((id.as_str(), name.as_str()), ("", "closed"));
    assert_eq!(problem["type"], "urn:treefold:problem:ending");
    assert_eq!(reader.message().await, None);
    timeout(WITHIN, draining).await.expect("the reader does not hold the gateway").unwrap();
    drop(node);
}

#[tokio::test]
async fn token_that_is_taken_back_ends_its_streams() {
    let (reader, other) = (draw().unwrap(), draw().unwrap());
    let rights = [GatewayRight::Call];
    let entries =
        [entry("reader", &reader, &["meters"], &rights), entry("other", &other, &["sums"], &rights)];
    let (world, file) = world_of(&entries).await;
    let bearer = |token: &str| format!("Bearer {token}");
    let header = bearer(&other);
    let denied =
        crate::world::ask(world.addr(), "GET", "/v1/streams/meters", &[("authorization", &header)], b"")
            .await;
    assert_eq!(denied.problem(), "denied");
    let header = bearer(&reader);
    let mut open = Reader::open(&world, "/v1/streams/meters", &[SENT, ("authorization", &header)]).await;
    assert_eq!(open.message().await.unwrap().1, "opened");
    let limited = Entry { streams_open_max: Some(1), ..entries[0].clone() };
    std::fs::write(file.path(), limited.to_toml()).unwrap();
    let answer = async || {
        crate::world::ask(world.addr(), "GET", "/v1/streams/meters", &[("authorization", &header)], b"").await
    };
    let is_limited = async {
        loop {
            // Until the file is read again, the stream is opened, and its body has no end.
            match timeout(Duration::from_millis(200), answer()).await {
                Ok(answer) if answer.status == 429 => return answer,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let limited = timeout(WITHIN, is_limited).await.expect("the limit of the token counts");
    assert_eq!(limited.problem(), "open_streams");
    std::fs::write(file.path(), entries[1].to_toml()).unwrap();
    let (_, name, problem) = open.message().await.unwrap();
    assert_eq!((name.as_str(), &problem["type"]), ("closed", &json!("urn:treefold:problem:no_token")));
    world.until_streams(0).await;
}

#[tokio::test]
async fn weights_in_accept_choose_the_form() {
    let world = World::usual().await;
    for (accept, kind) in [
        ("text/event-stream;q=0", "application/x-ndjson"),
        ("text/event-stream;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("text/event-stream, */*;q=0.8", "text/event-stream"),
    ] {
        let reader = Reader::open(&world, TICKING, &[("accept", accept)]).await;
        assert!(reader.head.contains(&format!("content-type: {kind}")), "{accept}: {}", reader.head);
    }
}
