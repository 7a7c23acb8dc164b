//! A node with a gateway, and a small HTTP client.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold::{AsyncAggregation, Node, OperatorError, Partition, Raw, Service};
use treefold_gateway::{Gateway, GatewayOptions, Limits};

/// Bound on a wait. It is not measured.
pub const WITHIN: Duration = Duration::from_secs(20);
/// Partitions of the service `sums`.
pub const TOTAL: u32 = 4;

/// Parameters: partitions that fail, and the time that a local takes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    pub fail: Vec<u32>,
    pub hold_ms: u64,
}

/// Sums the ids of the partitions.
struct Sum;

impl AsyncAggregation for Sum {
    type Params = Option<Work>;
    type Partial = u64;

    async fn local(&self, partition: Partition, work: Arc<Option<Work>>) -> Result<u64, OperatorError> {
        let work = work.as_ref().clone().unwrap_or_default();
        tokio::time::sleep(Duration::from_millis(work.hold_ms)).await;
        if work.fail.contains(&partition.id) {
            return Err(OperatorError::new("asked to fail"));
        }
        Ok(partition.id.into())
    }

    async fn reduce(&self, a: u64, b: u64, _: Arc<Option<Work>>) -> Result<u64, OperatorError> {
        Ok(a + b)
    }
}

/// Returns the parameters' bytes, once for each partition.
struct Echo;

impl AsyncAggregation for Echo {
    type Params = Raw;
    type Partial = Raw;

    async fn local(&self, _: Partition, params: Arc<Raw>) -> Result<Raw, OperatorError> {
        Ok(params.as_ref().clone())
    }

    async fn reduce(&self, a: Raw, b: Raw, _: Arc<Raw>) -> Result<Raw, OperatorError> {
        Ok(Raw([a.0, b.0].concat().into()))
    }
}

/// A node and its gateway.
pub struct World {
    pub node: Node,
    pub gateway: Gateway,
}

pub fn options() -> GatewayOptions {
    let limits = Limits { drain_notice: Duration::from_millis(300), ..Limits::default() };
    GatewayOptions { limits, ..GatewayOptions::new(([127, 0, 0, 1], 0).into()) }
}

impl World {
    pub async fn start(options: GatewayOptions) -> Self {
        let service = Service::new("sums").async_aggregation("sum", Sum).async_aggregation("echo", Echo);
        let service = (0..TOTAL).fold(service.total(TOTAL), |service, id| service.partition(id, ()));
        let node = Node::builder().processors(TOTAL).service(service).start().await.unwrap();
        let gateway = Gateway::start(node.client(), options).await.unwrap();
        Self { node, gateway }
    }

    pub async fn usual() -> Self {
        Self::start(options()).await
    }

    pub async fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut options = options();
        change(&mut options.limits);
        Self::start(options).await
    }

    pub fn addr(&self) -> SocketAddr {
        self.gateway.addr()
    }

    pub async fn get(&self, path: &str) -> Answer {
        ask(self.addr(), "GET", path, &[], b"").await
    }

    /// Calls `sums/sum` with parameters as JSON.
    pub async fn sum(&self, query: &str, params: &str) -> Answer {
        post(self.addr(), &format!("/v1/call/sums/sum{query}"), &[JSON], params.as_bytes()).await
    }

    /// Waits until the node has this count of cancelled calls and no open one.
    pub async fn until_cancelled(&self, cancelled: u64) {
        let all = async {
            loop {
                let status = self.node.status().await.unwrap();
                if status.counters.calls.cancelled == cancelled && status.open.calls == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(WITHIN, all).await.expect("the call is cancelled");
    }

    pub async fn until_open(&self, calls: usize) {
        let all = async {
            while self.node.status().await.unwrap().open.calls != calls {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(WITHIN, all).await.expect("the calls are open");
    }
}

pub const JSON: (&str, &str) = ("content-type", "application/json");
pub const MESSAGE_PACK: (&str, &str) = ("content-type", "application/msgpack");
pub const BYTES: (&str, &str) = ("content-type", "application/octet-stream");

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads an answer with a known length.
    pub async fn read(stream: impl AsyncRead + Unpin) -> Self {
        timeout(WITHIN, Self::read_now(stream)).await.expect("an answer")
    }

    async fn read_now(stream: impl AsyncRead + Unpin) -> Self {
        let (mut stream, mut head) = (BufReader::new(stream), String::new());
        while !head.ends_with("\r\n\r\n") {
            let read = stream.read_line(&mut head).await.unwrap();
            assert!(read > 0, "the connection ended within the head: {head:?}");
        }
        let mut answer =
            Self { status: head.split(' ').nth(1).unwrap().parse().unwrap(), head, body: Vec::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        answer.body.resize(length, 0);
        stream.read_exact(&mut answer.body).await.unwrap();
        answer
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The name of the problem that it has, after a check of its form.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let document = self.json();
        assert_eq!(document["status"], self.status);
        assert!(document["title"].is_string() && document["detail"].is_string(), "{document}");
        document["type"].as_str().unwrap().strip_prefix("urn:treefold:problem:").unwrap().to_owned()
    }
}

/// A request as bytes.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    headers.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    [text.as_bytes(), b"\r\n", body].concat()
}

pub async fn send(addr: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

pub async fn ask(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut stream = send(addr, &request(method, path, headers, body)).await;
    Answer::read(&mut stream).await
}

pub async fn post(addr: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    ask(addr, "POST", path, headers, body).await
}

/// Waits until the other side closes, and returns the bytes that came before.
pub async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // An error is an end as well.
    let _ = timeout(WITHIN, stream.read_to_end(&mut rest)).await.expect("the connection ends");
    rest
}
