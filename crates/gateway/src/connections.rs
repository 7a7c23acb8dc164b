//! Connections: accepted up to a limit, each with bounded headers and bounded time for a request.

use crate::problem::Problem;
use crate::routes;
use crate::site::Site;
use crate::watched::Watched;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Time after which accepting is tried again when the system refuses it, as without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Refusals that may be under way. Further connections are closed without an answer.
const REFUSALS_MAX: usize = 64;
/// Time that one refusal may take.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);

/// The connections of a gateway.
pub(crate) struct Connections {
    site: Arc<Site>,
    acceptor: Option<Arc<Watched<TlsAcceptor>>>,
    router: Router,
    running: JoinSet<()>,
    /// Tells connections to end.
    ending: watch::Sender<bool>,
}

impl Connections {
    pub(crate) fn new(site: Arc<Site>, acceptor: Option<Arc<Watched<TlsAcceptor>>>) -> Self {
        let router = routes::router(Arc::clone(&site));
        let (ending, _) = watch::channel(false);
        Self { site, acceptor, router, running: JoinSet::new(), ending }
    }

    /// Accepts connections until it is told to stop, and then waits for them as long as it is told.
    pub(crate) async fn serve(mut self, listener: TcpListener, mut stopped: oneshot::Receiver<Duration>) {
        let places = Arc::new(Semaphore::new(self.site.limits.connections_max));
        let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
        let grace = loop {
            let accepted = tokio::select! {
                grace = &mut stopped => break grace.ok(),
                Some(_) = self.running.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection to the gateway");
                    sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => {
                    let served = self.served(stream);
                    self.running.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(_) => {
                    self.site.metrics.count_refused_connection();
                    if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
                        let (limit, is_plain) = (self.site.limits.connections_max, self.acceptor.is_none());
                        self.running.spawn(async move {
                            if is_plain {
                                let _ = timeout(REFUSAL_WITHIN, refuse(stream, limit)).await;
                            }
                            drop(place);
                        });
                    }
                }
            }
        };
        drop(listener);
        self.ending.send_replace(true);
        let all = async { while self.running.join_next().await.is_some() {} };
        // Dropping the others closes them.
        let _ = timeout(grace.unwrap_or_default(), all).await;
    }

    /// Serves one connection to its end.
    fn served(&self, stream: TcpStream) -> impl Future<Output = ()> + Send + 'static {
        let (site, router, ending) = (Arc::clone(&self.site), self.router.clone(), self.ending.subscribe());
        let acceptor = self.acceptor.as_ref().map(|acceptor| acceptor.content());
        async move {
            let _open = site.metrics.connection_opened();
            if let Err(error) = prepare(&stream, site.limits.stalled_max) {
                tracing::debug!(%error, "a connection to the gateway is over");
                return;
            }
            match acceptor {
                None => serve_http(stream, &site, router, ending).await,
                Some(acceptor) => match timeout(site.limits.head_within, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => serve_http(stream, &site, router, ending).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                },
            }
        }
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    site: &Site,
    router: Router,
    mut ending: watch::Receiver<bool>,
) {
    let limits = &site.limits;
    let mut builder = http1::Builder::new();
    // A client that closes its connection ends its call, because half-closed connections are not kept.
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_headers(limits.headers_max)
        .max_buf_size(limits.head_bytes_max);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = ended(&mut ending) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection to the gateway is over");
    }
}

/// Waits until connections are told to end.
async fn ended(ending: &mut watch::Receiver<bool>) {
    // An error means that the gateway has ended already.
    drop(ending.wait_for(|is_ending| *is_ending).await);
}

/// Notices peers that have vanished, or that take nothing.
fn prepare(stream: &TcpStream, stalled_max: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_user_timeout(Some(stalled_max))
}

/// Answers a connection above the limit.
async fn refuse(mut stream: TcpStream, limit: usize) -> std::io::Result<()> {
    let body = Problem::connections(limit).to_json();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}
