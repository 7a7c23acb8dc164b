//! Connections: accepted up to a limit, each with bounded headers and bounded time for a request.

use super::{HttpLimits, Site, answer, ended, routes};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Time after which accepting is tried again when the system refuses it, as without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Refusals that may be under way. Further connections are closed without an answer.
const REFUSALS_MAX: usize = 64;
/// Time that one refusal may take.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);

/// The connections of a listener.
pub(super) struct Connections {
    site: Site,
    limits: HttpLimits,
    /// Tells connections and streams to end.
    ending: watch::Sender<bool>,
    running: JoinSet<()>,
}

impl Connections {
    pub(super) fn new(site: Site, limits: HttpLimits, ending: watch::Sender<bool>) -> Self {
        Self { site, limits, ending, running: JoinSet::new() }
    }

    /// Accepts connections until it is told to stop, and then waits for them as long as it is told.
    pub(super) async fn serve(mut self, listener: TcpListener, mut stopped: oneshot::Receiver<Duration>) {
        let places = Arc::new(Semaphore::new(self.limits.connections_max));
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
                    tracing::warn!(feed = %self.site.feed, %error, "can't accept a reader's connection");
                    sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            match Arc::clone(&places).try_acquire_owned() {
                Ok(place) => self.begin(stream, place),
                Err(_) => {
                    if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
                        let limit = self.limits.connections_max;
                        self.running.spawn(async move {
                            let _ = timeout(REFUSAL_WITHIN, refuse(stream, limit)).await;
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

    fn begin(&mut self, stream: TcpStream, place: OwnedSemaphorePermit) {
        let limits = &self.limits;
        if let Err(error) = prepare(&stream, limits.stalled_max) {
            tracing::debug!(%error, "a reader's connection is over");
            return;
        }
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.request_within)
            .max_headers(limits.headers_max)
            .max_buf_size(limits.header_bytes_max);
        let service = TowerToHyperService::new(routes::routes(self.site.clone()));
        let served = builder.serve_connection(TokioIo::new(stream), service);
        let mut ending = self.ending.subscribe();
        self.running.spawn(async move {
            let mut served = pin!(served);
            let outcome = tokio::select! {
                outcome = served.as_mut() => outcome,
                () = ended(&mut ending) => {
                    served.as_mut().graceful_shutdown();
                    served.await
                }
            };
            if let Err(error) = outcome {
                tracing::debug!(%error, "a reader's connection is over");
            }
            drop(place);
        });
    }
}

/// Notices peers that have vanished, or that take nothing.
fn prepare(stream: &TcpStream, stalled_max: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_user_timeout(Some(stalled_max))
}

/// Answers a connection above the limit.
async fn refuse(mut stream: TcpStream, limit: usize) -> std::io::Result<()> {
    let body = answer::Problem::connections(limit).to_json();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}
