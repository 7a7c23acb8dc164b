//! Events over HTTP: bodies of all forms, and every status.

use crate::recorder::{Recorder, feeder, line, until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use treefold_sources::{SourceLimits, Stopper, http};

async fn serve(limits: SourceLimits) -> (SocketAddr, Arc<Recorder>, Stopper) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (feeder, stopper) = feeder(limits);
    let (intake, limits, stop) =
        (Arc::clone(&feeder.intake), Arc::clone(&feeder.limits), feeder.stop.clone());
    let routes = http::routes("flights", feeder);
    tokio::spawn(async move { http::serve(listener, routes, &limits, stop).await });
    (addr, intake, stopper)
}

struct Answer {
    status: u16,
    head: String,
    body: serde_json::Value,
}

async fn ask(addr: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    // The answer may come before the whole request is written.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {request:.200}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(body).unwrap_or(serde_json::Value::Null);
    Answer { status, head: head.to_lowercase(), body }
}

fn post(query: &str, kind: &str, body: &str) -> String {
    format!(
        "POST /v1/feeds/flights/events{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

const NDJSON: &str = "application/x-ndjson";

#[tokio::test]
async fn bodies_of_all_forms_are_taken_once() {
    let (addr, intake, _stopper) = serve(SourceLimits::DEFAULT).await;
    let lines = format!("{}\n\n{}", line("faa", 1), line("faa", 2));
    let answer = ask(addr, &post("", NDJSON, &lines)).await;
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &2.into()), "{}", answer.body);
    assert_eq!(answer.body["acknowledged"]["faa"], 2);
    let array = format!("[{},\n {}]", line("faa", 2), line("faa", 3));
    for (kind, accepted, repeated) in [("application/json", 1, 1), ("text/plain", 0, 2)] {
        let answer = ask(addr, &post("", kind, &array)).await;
        let counts = (answer.status, answer.body["accepted"].as_u64(), answer.body["repeated"].as_u64());
        assert_eq!(counts, (200, Some(accepted), Some(repeated)), "{kind}: {}", answer.body);
    }
    let object = line("faa", 4).replace(',', ",\n  ");
    assert_eq!(ask(addr, &post("", "application/json; charset=utf-8", &object)).await.status, 200);
    // A body without a length, in chunks that end within lines.
    let mut chunked = "POST /v1/feeds/flights/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                       transfer-encoding: chunked\r\n\r\n"
        .to_owned();
    let lines: String = (5..=2_000).map(|number| line("faa", number) + "\n").collect();
    for chunk in lines.as_bytes().chunks(997) {
        chunked += &format!("{:x}\r\n{}\r\n", chunk.len(), std::str::from_utf8(chunk).unwrap());
    }
    let answer = ask(addr, &(chunked + "0\r\n\r\n")).await;
    assert_eq!((answer.status, &answer.body["accepted"]), (200, &1_996.into()), "{}", answer.body);
    assert_eq!(intake.numbers("faa"), (1..=2_000).collect::<Vec<_>>());
    let answer = ask(
        addr,
        "GET /v1/feeds/flights/acknowledged HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    );
    assert_eq!(answer.await.body["acknowledged"]["faa"], 2_000);
}

#[tokio::test]
async fn refused_events_are_listed_with_their_lines() {
    let (addr, intake, _stopper) = serve(SourceLimits::DEFAULT).await;
    let garbage = "garbage\n".repeat(50);
    let lines = format!("{}\n{}\n{}\n{garbage}", line("faa", 1), line("faa", 3), line("faa", 4));
    let answer = ask(addr, &post("", NDJSON, &lines)).await;
    assert_eq!((answer.status, &answer.body["refused"]), (207, &52.into()), "{}", answer.body);
    let refusals = answer.body["refusals"].as_array().unwrap();
    assert_eq!(refusals.len(), SourceLimits::REFUSALS_LISTED_MAX);
    let of = |problem: &str| refusals.iter().find(|refusal| refusal["problem"] == problem).unwrap();
    let jump = of("jump");
    assert_eq!((&jump["line"], &jump["events"], &jump["expected"]), (&2.into(), &2.into(), &2.into()));
    assert_eq!(of("syntax")["line"], 4);
    assert_eq!(intake.numbers("faa"), [1]);
}

#[tokio::test]
async fn invalid_requests_are_told_their_problem() {
    let (addr, intake, _stopper) =
        serve(SourceLimits { line_bytes_max: 1000, ..SourceLimits::DEFAULT }).await;
    let good = line("faa", 1);
    for (request, status, problem) in [
        (post("", NDJSON, &format!("{good}\n\0\n")), 400, "syntax"),
        (post("", "application/json", &format!("[{good}")), 400, "syntax"),
        (post("", "application/json", "7"), 400, "syntax"),
        (post("", NDJSON, &"x".repeat(2000)), 413, "length"),
        (post("", NDJSON, "").replace("flights", "others"), 404, "feed"),
    ] {
        let answer = ask(addr, &request).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["problem"]),
            (status, &problem.into()),
            "{request:.300}"
        );
    }
    assert_eq!(ask(addr, &post("?acknowledge=maybe", NDJSON, "")).await.status, 400);
    assert_eq!(intake.numbers("faa"), [1], "the events before an error count");
}

#[tokio::test]
async fn busy_origin_and_missing_acknowledgements_ask_the_client_to_try_again() {
    let limits = SourceLimits {
        busy_within: Duration::from_millis(50),
        acknowledge_within: Duration::from_millis(50),
        ..SourceLimits::DEFAULT
    };
    let (addr, intake, _stopper) = serve(limits).await;
    intake.is_prompt.store(false, Ordering::Relaxed);
    intake.is_busy.store(true, Ordering::Relaxed);
    let request = post("", NDJSON, &line("faa", 1));
    let answer = ask(addr, &request).await;
    assert_eq!((answer.status, &answer.body["error"]["problem"]), (429, &"busy".into()));
    assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
    intake.is_busy.store(false, Ordering::Relaxed);
    let answer = ask(addr, &request).await;
    assert_eq!((answer.status, &answer.body["error"]["problem"]), (503, &"not_acknowledged".into()));
    assert_eq!((&answer.body["accepted"], answer.head.contains("retry-after")), (&1.into(), true));
    assert_eq!(ask(addr, &post("?acknowledge=false", NDJSON, &line("faa", 2))).await.status, 202);
    intake.acknowledge(&[("faa", 2)]);
    let answer = ask(addr, &request).await;
    assert_eq!(
        (answer.status, &answer.body["repeated"]),
        (200, &1.into()),
        "the repeated request is confirmed"
    );
}

#[tokio::test]
async fn events_of_an_origin_that_has_ended_count_as_not_accepted() {
    let (addr, intake, _stopper) = serve(SourceLimits::DEFAULT).await;
    assert_eq!(ask(addr, &post("", NDJSON, &line("faa", 1))).await.body["accepted"], 1);
    intake.has_ended.store(true, Ordering::Relaxed);
    let answer = ask(addr, &post("", NDJSON, &format!("{}\n{}", line("faa", 2), line("faa", 3)))).await;
    assert_eq!((answer.status, &answer.body["error"]["problem"]), (503, &"ended".into()));
    assert_eq!((&answer.body["accepted"], &answer.body["acknowledged"]), (&0.into(), &serde_json::json!({})));
}

#[tokio::test]
async fn silent_body_and_stopped_source_end_a_request() {
    let limits = SourceLimits { line_within: Duration::from_millis(300), ..SourceLimits::DEFAULT };
    let (addr, intake, stopper) = serve(limits).await;
    let cut = |length: usize, first: &str| {
        post("", NDJSON, first)
            .replace(&format!("content-length: {}", first.len()), &format!("content-length: {length}"))
    };
    let first = line("faa", 1) + "\n";
    let answer = ask(addr, &cut(first.len() + 10, &first)).await;
    assert_eq!((answer.status, &answer.body["error"]["problem"]), (408, &"slow".into()));
    assert_eq!(intake.numbers("faa"), [1]);
    let second = cut(10_000, &(line("faa", 2) + "\n"));
    let asking = tokio::spawn(async move { ask(addr, &second).await });
    until("its event is taken", || intake.numbers("faa") == [1, 2]).await;
    stopper.stop();
    let answer = asking.await.unwrap();
    let problem = answer.body["error"]["problem"].as_str().unwrap().to_owned();
    // The body may have been silent for too long before the source stops.
    assert!([("stopping", 503), ("slow", 408)].contains(&(problem.as_str(), answer.status)), "{problem}");
    until("nobody can connect", || std::net::TcpStream::connect(addr).is_err()).await;
}

#[tokio::test]
async fn line_and_body_that_trickle_end_a_request() {
    let slow_line = SourceLimits { line_within: Duration::from_millis(300), ..SourceLimits::DEFAULT };
    let slow_body = SourceLimits { body_within: Duration::from_millis(300), ..SourceLimits::DEFAULT };
    for (limits, piece, said) in [(slow_line, "x", "line"), (slow_body, "\n", "body")] {
        let (addr, _intake, _stopper) = serve(limits).await;
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(&post("", NDJSON, &"x".repeat(1 << 20)).as_bytes()[..200]).await.unwrap();
        let (mut read, mut write) = stream.into_split();
        // Bytes come all the time, so the connection is never silent.
        let trickling = tokio::spawn(async move {
            while write.write_all(piece.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        let mut answer = String::new();
        let _ = read.read_to_string(&mut answer).await;
        trickling.abort();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains(&format!("the {said} had no end within 300ms")), "{answer}");
    }
}

#[tokio::test]
async fn client_that_takes_no_answers_does_not_hold_up_the_end() {
    let limits = SourceLimits { write_within: Duration::from_millis(500), ..SourceLimits::DEFAULT };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (feeder, stopper) = feeder(limits);
    let (limits, stop) = (Arc::clone(&feeder.limits), feeder.stop.clone());
    let routes = http::routes("flights", feeder);
    let running = tokio::spawn(async move { http::serve(listener, routes, &limits, stop).await });
    let mut stream = TcpStream::connect(addr).await.unwrap();
    // Answers with twenty refusals each, until the server can't write any more and reads no further request.
    let request = post("", NDJSON, &"{\"garbage\": 1}\n".repeat(20)).replace("connection: close\r\n", "");
    while let Ok(Ok(())) =
        tokio::time::timeout(Duration::from_secs(1), stream.write_all(request.as_bytes())).await
    {}
    stopper.stop();
    tokio::time::timeout(Duration::from_secs(60), running).await.expect("the listener ends").unwrap();
}

#[tokio::test]
async fn pages_in_a_browser_can_not_feed_events() {
    let (addr, intake, _stopper) = serve(SourceLimits::DEFAULT).await;
    for (header, status) in [
        ("origin: https://elsewhere.example", 403),
        ("origin: null", 403),
        ("origin: http://localhost", 403),
        ("sec-fetch-site: cross-site", 403),
        ("sec-fetch-site: none", 200),
    ] {
        let request = post("", NDJSON, &line("faa", 1))
            .replace("host: localhost", &format!("host: localhost\r\n{header}"));
        let answer = ask(addr, &request).await;
        assert_eq!(answer.status, status, "{header}: {}", answer.body);
        assert_eq!(intake.events().len(), usize::from(status == 200), "{header}");
    }
}

#[tokio::test]
async fn wrong_names_and_compressed_bodies_are_refused_before_an_event_is_taken() {
    let (addr, intake, _stopper) = serve(SourceLimits::DEFAULT).await;
    let good = post("", NDJSON, &line("faa", 1));
    let header = |header: &str| good.replace("host: localhost\r\n", header);
    for (request, status, problem) in [
        (header("host: evil.example\r\n"), 403, "host"),
        (header("host: localhost.evil.example:80\r\n"), 403, "host"),
        (header(""), 400, "host"),
        (header("host: localhost\r\nhost: localhost\r\n"), 400, "host"),
        (header("host: a b\r\n"), 400, "host"),
        (header("host: localhost\r\ncontent-encoding: gzip\r\n"), 415, "content-encoding"),
        (header("host: localhost\r\ncontent-encoding: zstd\r\n"), 415, "content-encoding"),
    ] {
        let answer = ask(addr, &request).await;
        assert_eq!((answer.status, &answer.body["error"]["problem"]), (status, &problem.into()), "{request}");
        assert_eq!(status == 415, answer.head.contains("accept-encoding: identity"), "{}", answer.head);
        assert!(intake.events().is_empty(), "{request}");
    }
    assert_eq!(ask(addr, &header("host: 127.0.0.1:80\r\ncontent-encoding: identity\r\n")).await.status, 200);
}

#[tokio::test]
async fn client_that_half_closes_gets_the_answer_when_its_events_are_acknowledged() {
    let (addr, intake, _stopper) = serve(SourceLimits::DEFAULT).await;
    intake.is_prompt.store(false, Ordering::Relaxed);
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(post("", NDJSON, &line("faa", 1)).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    until("its event is taken", || intake.numbers("faa") == [1]).await;
    let mut text = String::new();
    // Interim answers come while the request waits.
    while !text.contains("100 Continue") {
        text.push(stream.read_u8().await.unwrap().into());
    }
    intake.acknowledge(&[("faa", 1)]);
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 100") && text.contains("HTTP/1.1 200 OK"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
}
