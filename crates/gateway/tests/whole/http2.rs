//! HTTP/2 on the address of HTTP/1.1, and its bounds.

use crate::rpc::{Channel, pb, sum};
use crate::tls::{connect, write_certificate};
use crate::world::{WITHIN, World, options, rest, send};
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::Request;
use tonic::body::Body;
use tonic::codegen::http;
use treefold_gateway::GatewayOptions;

fn get(path: &str) -> http::Request<Body> {
    http::Request::get(format!("http://localhost{path}")).body(Body::empty()).unwrap()
}

/// Waits until the gateway has closed a connection.
async fn closed(channel: Channel) {
    // An error is an end as well.
    let _ = timeout(WITHIN, channel.connection).await.expect("the connection is closed").unwrap();
}

#[tokio::test]
async fn both_versions_are_served_on_one_address() {
    let world = World::usual().await;
    assert_eq!(world.get("/healthz").await.status, 200);
    let mut channel = world.channel().await;
    let answer = channel.sender.send_request(get("/v1/services")).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    let body = axum::body::to_bytes(axum::body::Body::new(answer.into_body()), usize::MAX).await.unwrap();
    let services: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(services["services"]["sums"]["total"], 4);
    let foreign = http::Request::get("http://evil.example/healthz").body(Body::empty()).unwrap();
    let refused = channel.sender.send_request(foreign).await.unwrap();
    assert_eq!(refused.status().as_u16(), 403);
}

#[tokio::test]
async fn tls_clients_choose_a_version_by_alpn() {
    let dir = TempDir::new().unwrap();
    let (files, certificate) = write_certificate(dir.path());
    let world = World::start(GatewayOptions { tls: Some(files), ..options() }).await;
    let stream = connect(&world, &certificate, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut channel = Channel::over(stream).await;
    assert!(channel.sum("null", pb::CallOptions::default()).await.is_ok());
    let stream = connect(&world, &certificate, &["http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn connections_without_requests_are_closed() {
    let world = World::with_limits(|limits| {
        limits.head_within = Duration::from_millis(300);
        limits.idle_max = Duration::from_millis(300);
    })
    .await;
    let mut silent = send(world.addr(), b"").await;
    let mut begun = send(world.addr(), b"PRI * HTTP/2.0\r\n").await;
    assert!(rest(&mut silent).await.is_empty() && rest(&mut begun).await.is_empty());
    closed(world.channel().await).await;
    let mut channel = world.channel().await;
    assert!(channel.sum("null", pb::CallOptions::default()).await.is_ok());
    // An open request is longer than the limit, and keeps its connection.
    assert!(channel.sum(r#"{"hold_ms": 800}"#, pb::CallOptions::default()).await.is_ok());
    closed(channel).await;
}

#[tokio::test]
async fn open_requests_of_a_connection_are_bounded() {
    let world = World::with_limits(|limits| limits.requests_open_max = 2).await;
    let channel = world.channel().await;
    // The settings of the other side arrive with the first answer.
    let mut first = channel.sender.clone();
    assert_eq!(first.send_request(get("/healthz")).await.unwrap().status().as_u16(), 200);
    let options = pb::CallOptions { deadline_ms: Some(50_000), ..pb::CallOptions::default() };
    let asking: Vec<_> = (0..3)
        .map(|_| {
            let (sender, authority) = (channel.sender.clone(), channel.authority.clone());
            let mut channel = Channel { sender, connection: tokio::spawn(async { Ok(()) }), authority };
            let options = options.clone();
            tokio::spawn(async move { channel.sum(r#"{"hold_ms": 40000}"#, options).await })
        })
        .collect();
    world.until_open(2).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(world.node.status().await.unwrap().open.calls, 2);
    asking.iter().for_each(tokio::task::JoinHandle::abort);
    channel.connection.abort();
    world.until_open(0).await;
}

#[tokio::test]
async fn client_that_takes_nothing_of_its_answer_is_cut_off() {
    let world = World::with_limits(|limits| limits.stalled_max = Duration::from_millis(500)).await;
    let stream = TcpStream::connect(world.addr()).await.unwrap();
    let mut builder = Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).initial_stream_window_size(65_535);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let authority = "localhost".to_owned();
    let mut channel = Channel { sender, connection: tokio::spawn(connection), authority };
    let echo = http::Request::post("http://localhost/v1/call/sums/echo")
        .header("content-type", "application/octet-stream")
        .header("accept", "application/octet-stream")
        .body(Body::new(axum::body::Body::from(vec![7; 1 << 20])))
        .unwrap();
    let answer = channel.sender.send_request(echo).await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    closed(channel).await;
    drop(answer);
    // A client that reads is not.
    let mut channel = world.channel().await;
    let mut request = sum("null", pb::CallOptions::default());
    request.aggregation = "echo".to_owned();
    request.params = Some(pb::call_request::Params::Raw(vec![7; 256 << 10].into()));
    request.form = pb::Form::Unspecified.into();
    assert!(channel.ask::<_, pb::CallReply>("Call", Request::new(request)).await.is_ok());
}

#[tokio::test]
async fn headers_above_the_limit_are_refused() {
    let world = World::usual().await;
    let mut channel = world.channel().await;
    let mut request = get("/healthz");
    request.headers_mut().insert("x-long", "x".repeat(20 << 10).parse().unwrap());
    // The client may refuse to send them, since the gateway has said its limit.
    if let Ok(answer) = channel.sender.send_request(request).await {
        assert_eq!(answer.status().as_u16(), 431);
    }
    let mut channel = world.channel().await;
    assert_eq!(channel.sender.send_request(get("/healthz")).await.unwrap().status().as_u16(), 200);
}

#[tokio::test]
async fn calls_that_are_cancelled_soon_after_they_are_sent_leave_their_connection_open() {
    const CANCELLED: usize = 37;
    let world = World::usual().await;
    let mut channel = world.channel().await;
    for _ in 0..CANCELLED {
        let options = pb::CallOptions { deadline_ms: Some(50_000), ..pb::CallOptions::default() };
        // A client that drops a call resets its stream.
        let call = channel.sum(r#"{"hold_ms": 40000}"#, options);
        assert!(timeout(Duration::from_millis(1), call).await.is_err(), "nothing answers so soon");
    }
    world.until_open(0).await;
    assert!(channel.sum("null", pb::CallOptions::default()).await.is_ok());
    assert!(!channel.connection.is_finished());
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a request without a body, none of them compressed.
fn headers(stream: u32, path: &str) -> Vec<u8> {
    const END_STREAM_AND_HEADERS: u8 = 0x5;
    let text = |name: u8, text: &str| {
        let length = u8::try_from(text.len()).unwrap();
        [&[name, length][..], text.as_bytes()].concat()
    };
    // GET and http are in the static table, as are the names of the path and of the authority.
    let block = [vec![0x82, 0x86], text(0x04, path), text(0x01, "localhost")].concat();
    frame(1, END_STREAM_AND_HEADERS, stream, &block)
}

#[tokio::test]
async fn requests_that_are_cancelled_at_once_leave_their_connection_open() {
    const CANCELLED: u32 = 500;
    const SETTINGS: u8 = 4;
    const RESET: u8 = 3;
    const AWAY: u8 = 7;
    const HEADERS: u8 = 1;
    let world = World::usual().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    for number in 0..CANCELLED {
        let stream = 2 * number + 1;
        bytes.extend(headers(stream, "/v1/services"));
        bytes.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
    }
    let last = 2 * CANCELLED + 1;
    bytes.extend(headers(last, "/healthz"));
    let mut stream = send(world.addr(), &bytes).await;
    let answered = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.expect("the connection stays open");
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            stream.read_exact(&mut payload).await.expect("the connection stays open");
            let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            assert_ne!(head[3], AWAY, "{}", String::from_utf8_lossy(&payload));
            if head[3] == HEADERS && number == last {
                return;
            }
        }
    };
    timeout(WITHIN, answered).await.expect("the last request is answered");
}
