//! A collector of OTLP over HTTP, which decodes with the official types, in several manners.
#![allow(dead_code, reason = "each test program uses a part")]

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Bound on a wait. It is not measured.
pub const WITHIN: Duration = Duration::from_secs(30);

/// The behaviour of a collector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Manner {
    Takes,
    /// It answers 503 to the first request, and takes the others.
    IsBusyOnce,
    Answers(u16),
    /// It takes all but some spans.
    Leaves(i64),
    /// It reads, and never answers.
    Hangs,
    /// It closes the connection in the middle of its answer.
    Breaks,
}

/// A running collector.
pub struct Collector {
    pub addr: SocketAddr,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    seen: watch::Receiver<usize>,
}

impl Collector {
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>> = Arc::default();
        let (count, seen) = watch::channel(0);
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut hung = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read(&mut stream).await else { continue };
                kept.lock().unwrap().push(request);
                let number = kept.lock().unwrap().len();
                let (status, answer) = match manner {
                    Manner::Hangs => {
                        hung.push(stream);
                        count.send_replace(number);
                        continue;
                    }
                    Manner::Answers(status) => (status, Vec::new()),
                    Manner::IsBusyOnce if number == 1 => (503, Vec::new()),
                    Manner::Leaves(rejected_spans) => (200, partial(rejected_spans)),
                    Manner::Takes | Manner::IsBusyOnce | Manner::Breaks => (200, Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status} x\r\ncontent-type: application/x-protobuf\r\nretry-after: 0\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                );
                let bytes = [head.as_bytes(), &answer].concat();
                let cut = if manner == Manner::Breaks { 12 } else { bytes.len() };
                // The other side may be gone.
                let _ = stream.write_all(&bytes[..cut]).await;
                count.send_replace(number);
            }
        });
        Self { addr, requests, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits for a number of requests.
    pub async fn until_requests(&self, count: usize) {
        let mut seen = self.seen.clone();
        timeout(WITHIN, seen.wait_for(|seen| *seen >= count)).await.expect("the requests come").unwrap();
    }

    /// Waits for a number of spans.
    pub async fn until_spans(&self, count: usize) -> Vec<Span> {
        let mut seen = self.seen.clone();
        let all = async {
            loop {
                let spans: Vec<Span> = self.requests().into_iter().flat_map(spans_of).collect();
                if spans.len() >= count {
                    return spans;
                }
                seen.changed().await.unwrap();
            }
        };
        timeout(WITHIN, all).await.expect("the spans come")
    }
}

pub fn spans_of(request: ExportTraceServiceRequest) -> Vec<Span> {
    let of_scopes = request.resource_spans.into_iter().flat_map(|of_resource| of_resource.scope_spans);
    of_scopes.flat_map(|of_scope| of_scope.spans).collect()
}

/// The text, or the number as text, of an attribute.
pub fn attribute(span: &Span, name: &str) -> Option<String> {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match attribute.value.clone()?.value? {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn partial(rejected_spans: i64) -> Vec<u8> {
    let partial = ExportTracePartialSuccess { rejected_spans, error_message: "no room".to_owned() };
    ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
}

async fn read(stream: &mut TcpStream) -> Option<ExportTraceServiceRequest> {
    let (mut stream, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
    };
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert_eq!(header("content-type").as_deref(), Some("application/x-protobuf"), "{head}");
    let mut body = vec![0; header("content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut body).await.ok()?;
    Some(ExportTraceServiceRequest::decode(body.as_slice()).unwrap())
}
