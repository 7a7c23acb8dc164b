//! A collector that takes spans by OTLP over HTTP, as protobuf.
//!
//! Each request has a connection of its own: batches are a second apart. A request is sent again, after a pause that doubles, if the
//! collector cannot be reached, is silent, or answers with a status that the specification calls retryable.

use crate::settings::Endpoint;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Time for a request and its answer, as the specification's default.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);
/// Most times that a request is sent again, and the pause before the first of them.
const RETRIES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// Longest pause that a collector can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The content type of OTLP as protobuf.
const PROTOBUF: &str = "application/x-protobuf";

/// A collector.
#[derive(Debug)]
pub(crate) struct Collector {
    endpoint: Endpoint,
}

/// The reason why a collector has not taken spans.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("can't connect: {0}")]
    Unreached(io::Error),
    #[error("no answer within {:?}", EXPORT_WITHIN)]
    Silent,
    #[error("the connection failed: {0}")]
    Broken(hyper::Error),
    #[error("it answered {status}")]
    Status { status: StatusCode, retry_after: Option<Duration> },
    #[error("it took all but {spans} spans: {message}")]
    Partial { spans: i64, message: String },
}

impl Refusal {
    /// True if the same request may be taken later.
    fn may_pass(&self) -> bool {
        match self {
            Self::Unreached(_) | Self::Silent | Self::Broken(_) => true,
            Self::Status { status, .. } => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Partial { .. } => false,
        }
    }

    /// The pause before the request is sent again.
    fn pause(&self, retries: u32) -> Duration {
        match self {
            Self::Status { retry_after: Some(after), .. } => (*after).min(RETRY_AFTER_MAX),
            _ => PAUSE * 2_u32.pow(retries),
        }
    }
}

impl Collector {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) async fn deliver(&self, request: &ExportTraceServiceRequest) -> Result<(), Refusal> {
        let body = Bytes::from(request.encode_to_vec());
        let mut retries = 0;
        loop {
            let refusal = match timeout(EXPORT_WITHIN, self.send(body.clone())).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(refusal)) => refusal,
                Err(_) => Refusal::Silent,
            };
            if retries == RETRIES_MAX || !refusal.may_pass() {
                return Err(refusal);
            }
            sleep(refusal.pause(retries)).await;
            retries += 1;
        }
    }

    async fn send(&self, body: Bytes) -> Result<(), Refusal> {
        let Endpoint { host, port, authority, path } = &self.endpoint;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(Refusal::Unreached)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(Refusal::Broken)?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, PROTOBUF)
            .header(header::USER_AGENT, concat!("treefold/", env!("CARGO_PKG_VERSION")))
            .header(header::CONNECTION, "close")
            .body(Full::new(body))
            .expect("invariant: host and path of an endpoint are checked when it is read");
        let exchange = async {
            let response = sender.send_request(request).await.map_err(Refusal::Broken)?;
            answer(response).await
        };
        // The connection must be driven until the answer is there. Its own error comes out of the exchange too.
        let mut connection = std::pin::pin!(connection);
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            result = &mut exchange => result,
            _ = &mut connection => exchange.await,
        }
    }
}

/// Reads the answer of a collector.
async fn answer(response: Response<hyper::body::Incoming>) -> Result<(), Refusal> {
    let status = response.status();
    if !status.is_success() {
        let seconds =
            response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        return Err(Refusal::Status { status, retry_after: seconds.map(Duration::from_secs) });
    }
    // The spans are taken. An answer that can't be read says nothing about them.
    let Ok(body) = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await else {
        return Ok(());
    };
    match ExportTraceServiceResponse::decode(body.to_bytes()) {
        Ok(ExportTraceServiceResponse { partial_success: Some(partial) }) if partial.rejected_spans > 0 => {
            Err(Refusal::Partial { spans: partial.rejected_spans, message: partial.error_message })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passing_refusals_are_tried_again_and_pauses_are_bounded() {
        let status = |code: u16, after_s: Option<u64>| Refusal::Status {
            status: StatusCode::from_u16(code).unwrap(),
            retry_after: after_s.map(Duration::from_secs),
        };
        assert!([429, 502, 503, 504].map(|code| status(code, None).may_pass()).iter().all(|&may| may));
        assert!(![400, 404, 413, 500].map(|code| status(code, None).may_pass()).iter().any(|&may| may));
        assert!(Refusal::Silent.may_pass());
        assert_eq!([0, 1, 2].map(|retries| Refusal::Silent.pause(retries).as_millis()), [500, 1_000, 2_000]);
        assert_eq!(status(503, Some(2)).pause(0), Duration::from_secs(2));
        assert_eq!(status(503, Some(3_600)).pause(0), RETRY_AFTER_MAX);
    }
}
