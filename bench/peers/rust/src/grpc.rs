//! The peer: tonic. The caller sends a unary call to every server at once and folds the answers.
//!
//! Each server has one connection, which persists. Settings are those that make tonic quickest here: raw bytes instead of
//! protobuf, small buffers, no router, `TCP_NODELAY`, and windows that no answer fills. A server needs no second thread.

use crate::Problem;
use crate::measure::{Caller, DEADLINE, Plan, measure};
use crate::work::{self, Expected, Kind, Row};
use bytes::{Buf, BufMut, Bytes};
use futures_util::future::try_join_all;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Builder;
use tonic::body::Body;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower_service::Service;
use treefold_bench_down::part::{self, Part};

const INT: &str = "/peers.Partials/Int";
const TOPK: &str = "/peers.Partials/Topk";
/// Interval between two keep-alive pings of a connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Window of a stream and of a connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// Bytes that tonic allocates for a message. The largest partial is smaller.
const BUFFER_BYTES: usize = 2 << 10;

/// How the caller's tasks run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Runtime {
    /// One thread
    Current,
    /// A thread for each processor
    Multi,
}

/// Starts the servers and measures.
pub(crate) fn run(plan: &Plan, runtime: Runtime) -> Result<(), Problem> {
    let start = |partition: u32| Part::start(&["tonic-server".to_owned(), partition.to_string()]);
    let started = (0..plan.nodes).map(start).collect::<Result<Vec<_>, _>>()?;
    let (servers, ready): (Vec<Part>, Vec<_>) = started.into_iter().unzip();
    let addrs = ready.into_iter().map(serde_json::from_value).collect::<Result<Vec<String>, _>>()?;
    let (mut builder, mode) = match runtime {
        Runtime::Current => (Builder::new_current_thread(), "current-thread"),
        Runtime::Multi => (Builder::new_multi_thread(), "multi-thread"),
    };
    builder.enable_all().build()?.block_on(async {
        let channels = try_join_all(addrs.iter().map(|addr| connect(addr))).await?;
        let scatter = Scatter { channels, expected: Expected::of(plan.nodes) };
        measure(("tonic", mode.to_owned()), plan, Arc::new(scatter), &servers).await
    })
}

async fn connect(addr: &str) -> Result<Channel, Problem> {
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))?
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    Ok(endpoint.connect().await?)
}

/// The caller.
struct Scatter {
    channels: Vec<Channel>,
    expected: Expected,
}

impl Caller for Scatter {
    async fn call(&self, kind: Kind) -> Result<(), Problem> {
        let partials = try_join_all(self.channels.iter().map(|channel| ask(channel.clone(), kind))).await?;
        self.expected.check_partials(kind, &partials)
    }
}

async fn ask(channel: Channel, kind: Kind) -> Result<Bytes, Problem> {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await?;
    let mut request = Request::new(Bytes::new());
    request.set_timeout(DEADLINE);
    let path = http::uri::PathAndQuery::from_static(match kind {
        Kind::Int => INT,
        Kind::Topk => TOPK,
    });
    Ok(client.unary(request, path, Raw).await?.into_inner())
}

/// Serves one partition until the caller ends.
pub(crate) fn serve(partition: u32) -> Result<(), Problem> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
        let addr = incoming.local_addr()?.to_string();
        let partials = Partials { number: i64::from(partition), rows: work::rows(partition).into() };
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .serve_with_incoming(partials, incoming);
        tokio::select! {
            ended = server => Ok(ended?),
            ended = tokio::task::spawn_blocking(move || part::serve(&addr, part::unknown)) => ended?,
        }
    })
}

/// The service of one partition.
#[derive(Clone)]
struct Partials {
    number: i64,
    rows: Arc<[Row]>,
}

impl NamedService for Partials {
    const NAME: &'static str = "peers.Partials";
}

impl Service<http::Request<Body>> for Partials {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let kind = match request.uri().path() {
            INT => Kind::Int,
            TOPK => Kind::Topk,
            _ => return Box::pin(async { Ok(Status::unimplemented("unknown method").into_http()) }),
        };
        let method = Method { partials: self.clone(), kind };
        Box::pin(async move { Ok(tonic::server::Grpc::new(Raw).unary(method, request).await) })
    }
}

/// One method of the service.
struct Method {
    partials: Partials,
    kind: Kind,
}

impl Service<Request<Bytes>> for Method {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = std::future::Ready<Result<Response<Bytes>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Bytes>) -> Self::Future {
        std::future::ready(Ok(Response::new(match self.kind {
            Kind::Int => Bytes::copy_from_slice(&self.partials.number.to_le_bytes()),
            Kind::Topk => work::encode(&self.partials.rows),
        })))
    }
}

/// Messages that are bytes.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, BUFFER_BYTES)
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, BUFFER_BYTES)
    }
}
