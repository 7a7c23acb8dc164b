//! A connection that speaks gRPC, of the few parts that tests need.

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codegen::http;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// Longer than any answer takes.
const WITHIN: Duration = Duration::from_secs(60);

#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, dead_code, reason = "generated")]
#[path = "../../src/grpc/generated/mod.rs"]
pub mod pb;

/// A connection over HTTP/2.
pub struct Channel {
    pub sender: SendRequest<Body>,
    /// Ends with the connection.
    pub connection: JoinHandle<hyper::Result<()>>,
    pub authority: String,
}

impl Channel {
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        let greeted = builder.timer(TokioTimer::new()).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = greeted.unwrap();
        Self { sender, connection: tokio::spawn(connection), authority: "localhost".to_owned() }
    }

    pub async fn to(addr: SocketAddr) -> Self {
        Self::over(TcpStream::connect(addr).await.unwrap()).await
    }

    /// Calls a method that answers once.
    pub async fn ask<M, A>(&mut self, method: &str, request: Request<M>) -> Result<tonic::Response<A>, Status>
    where
        M: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/treefold.v1.Treefold/{method}").parse().unwrap();
        let mut grpc = Grpc::new(self);
        let answer = grpc.unary(request, path, ProstCodec::<M, A>::default());
        timeout(WITHIN, answer).await.expect("an answer")
    }

    /// Calls a method that answers with a stream.
    pub async fn open<M, A>(&mut self, method: &str, request: M) -> Result<Streaming<A>, Status>
    where
        M: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = format!("/treefold.v1.Treefold/{method}").parse().unwrap();
        let mut grpc = Grpc::new(self);
        let opened = grpc.server_streaming(Request::new(request), path, ProstCodec::<M, A>::default());
        Ok(timeout(WITHIN, opened).await.expect("a stream")?.into_inner())
    }
}

impl GrpcService<Body> for &mut Channel {
    type ResponseBody = hyper::body::Incoming;
    type Error = hyper::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<http::Response<Self::ResponseBody>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path_and_query().unwrap().clone();
        let uri = http::Uri::builder().scheme("http").authority(self.authority.as_str()).path_and_query(path);
        *request.uri_mut() = uri.build().unwrap();
        Box::pin(self.sender.send_request(request))
    }
}

/// The problem in the details of a status.
pub fn problem(status: &Status) -> pb::Problem {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Details {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(message, repeated, tag = "3")]
        details: Vec<Any>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Any {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    let details = Details::decode(status.details()).unwrap();
    assert_eq!(details.code, status.code() as i32, "{status:?}");
    assert!(details.details[0].type_url.ends_with("/treefold.v1.Problem"));
    pb::Problem::decode(details.details[0].value.as_slice()).unwrap()
}
