//! A node with a gateway, and a small HTTP client.

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold::endpoint::{EndpointStream, accept};
use treefold::operators::codec::{Batch, concatenated};
use treefold::operators::packet::Row;
use treefold::{AsyncAggregation, Body, Node, OperatorError, Partition, Raw, Service};
use treefold_gateway::{Gateway, GatewayOptions, Limits};

/// Bound on a wait. It is not measured.
pub const WITHIN: Duration = Duration::from_secs(20);
/// Partitions of the service `sums`.
pub const TOTAL: u32 = 4;

/// Endpoints of the service `meters`.
pub const ENDPOINTS: u32 = 3;

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

/// Joins the names of the partitions: the local's parameters are their prefix, those of the reduce stand between them.
struct Joined;

impl AsyncAggregation for Joined {
    type Params = String;
    type Partial = String;

    async fn local(&self, partition: Partition, prefix: Arc<String>) -> Result<String, OperatorError> {
        Ok(format!("{prefix}{}", partition.id))
    }

    async fn reduce(&self, a: String, b: String, between: Arc<String>) -> Result<String, OperatorError> {
        let mut names: Vec<&str> = a.split(&**between).chain(b.split(&**between)).collect();
        names.sort_unstable();
        Ok(names.join(&between))
    }
}

/// Returns the number of each partition as a batch, and the rows of the parameters if they are a batch.
struct Rows;

impl AsyncAggregation for Rows {
    type Params = Raw;
    type Partial = Batch;

    async fn local(&self, partition: Partition, params: Arc<Raw>) -> Result<Batch, OperatorError> {
        let own = batch(&[partition.id.into()]);
        if params.0.is_empty() {
            return Ok(own);
        }
        let given = Batch::decode(&params.0).map_err(|error| OperatorError::new(error.to_string()))?;
        self.reduce(own, given, params).await
    }

    async fn reduce(&self, a: Batch, b: Batch, _: Arc<Raw>) -> Result<Batch, OperatorError> {
        concatenated(&[a, b]).map_err(|error| OperatorError::new(error.to_string()))
    }
}

/// A batch with one column.
pub fn batch(numbers: &[i64]) -> Batch {
    let column: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    Batch(RecordBatch::try_from_iter([("number", column)]).unwrap())
}

/// Serves the endpoints of a stream: each answers a packet with its own number. With parameters it sends packets by
/// itself instead.
async fn meter(mut stream: EndpointStream) {
    let answer = Row::new().u64(stream.opening().endpoint.into()).packet().into_bytes();
    if stream.opening().spec.params.is_empty() {
        while let Some(packet) = stream.recv().await {
            let answer = if packet.payload.is_empty() { answer.clone() } else { packet.payload };
            if stream.send_tagged(packet.tag, answer).await.is_err() {
                return;
            }
        }
        return;
    }
    while stream.send(Bytes::from_static(&[7; 4_000])).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(2)).await;
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
        let service = Service::new("sums")
            .async_aggregation("sum", Sum)
            .async_aggregation("echo", Echo)
            .async_aggregation("joined", Joined)
            .async_aggregation("rows", Rows);
        let (accepting, acceptor) = accept();
        tokio::spawn(async move {
            while let Some(stream) = acceptor.accept().await {
                tokio::spawn(meter(stream));
            }
        });
        let meters = Service::new("meters").endpoints(0..ENDPOINTS, accepting);
        let service = (0..TOTAL).fold(service.total(TOTAL), |service, id| service.partition(id, ()));
        let node = Node::builder().processors(TOTAL).service(service).service(meters).start().await.unwrap();
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

    /// Waits until the node has this many open streams. A front-end and its endpoints here count as one.
    pub async fn until_streams(&self, streams: usize) {
        let all = async {
            while self.node.status().await.unwrap().open.streams != streams {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(WITHIN, all).await.expect("the streams are closed");
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
pub const ARROW: (&str, &str) = ("content-type", "application/vnd.apache.arrow.stream");
pub const CALL_JSON: (&str, &str) = ("content-type", "application/vnd.treefold.call+json");
pub const CALL_MESSAGE_PACK: (&str, &str) = ("content-type", "application/vnd.treefold.call+msgpack");
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
