//! Readers over HTTP: lines of JSON, or server-sent events, from one mirror.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/feeds/FEED/events?key=&prefix=&type=&from=` | a snapshot and every event after it, without end |
//! | `GET /v1/feeds/FEED/keys/KEY` | the values of a key |
//! | `GET /v1/feeds/FEED/status` | the state of this mirror |
//! | `GET /healthz` | 200 as long as the listener lives |
//!
//! - **A client costs its connection and its place.** Connections, headers, and the time for a request are bounded. The
//!   system's send buffer is bounded too; a client that does not read fills it, and waits from then on. A client that
//!   takes nothing for [`HttpLimits::stalled_max`] is cut off.
//! - **Signs of life.** A stream without news has a message every few seconds, so that proxies keep it open and a
//!   client that vanished is noticed.
//! - **Only on this machine** unless [`HttpOptions::is_public`] is set. There is no authentication here, and no header
//!   that lets other sites' pages read.

mod answer;
mod connection;
mod routes;

use crate::mirror::Shared;
use connection::ReadersDoor;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use treefold_http::{BACKLOG, Ending, ended};
use treefold_mirror::Cut;
use treefold_mirror::event::{Name, NameError};

/// Settings of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// The address; port 0 takes any free port.
    pub addr: SocketAddr,
    /// Allows an address that other machines can reach.
    pub is_public: bool,
    /// The limits.
    pub limits: HttpLimits,
}

/// Limits of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most open connections. Further ones are answered 503 and closed.
    pub connections_max: usize,
    /// Most bytes of a request's line and headers.
    pub header_bytes_max: usize,
    /// Most headers of a request.
    pub headers_max: usize,
    /// Time for a request's line and headers, also between two requests.
    pub request_within: Duration,
    /// Bytes that the system holds for a client that does not read them.
    pub send_buffer_bytes: u32,
    /// Time after which a client that takes nothing is cut off.
    pub stalled_max: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            header_bytes_max: 16 << 10,
            headers_max: 64,
            request_within: Duration::from_secs(10),
            send_buffer_bytes: 128 << 10,
            stalled_max: Duration::from_secs(180),
        }
    }
}

impl HttpOptions {
    /// Listens at an address, with default limits.
    pub fn new(addr: SocketAddr) -> Self {
        Self { addr, is_public: false, limits: HttpLimits::default() }
    }
}

/// The reason why a mirror cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address can be reached from other machines.
    #[error(
        "{addr} can be reached from other machines, and readers are not authenticated; allow it explicitly"
    )]
    Public {
        /// The address.
        addr: SocketAddr,
    },
    /// The feed's name cannot stand in a vector time.
    #[error("feed: {0}")]
    Feed(#[from] NameError),
    /// The system refuses the address.
    #[error("can't listen at {addr}: {error}")]
    Io {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        error: std::io::Error,
    },
}

/// A listener for readers. Dropping it closes all its connections.
#[derive(Debug)]
pub struct HttpListener {
    addr: SocketAddr,
    /// Sending the time that connections have left ends them; dropping this ends them at once.
    stop: Option<oneshot::Sender<Duration>>,
    ended: watch::Receiver<()>,
}

/// The mirror, as its HTTP readers see it. The mirror may end before its listener.
#[derive(Clone, Debug)]
struct Site {
    feed: Name,
    shared: Weak<Shared>,
    changed: watch::Receiver<Cut>,
    /// Tells streams that the listener ends.
    ending: watch::Receiver<bool>,
}

impl HttpListener {
    pub(crate) async fn start(
        shared: &Arc<Shared>,
        changed: watch::Receiver<Cut>,
        readers: &Handle,
        options: HttpOptions,
    ) -> Result<Self, ListenError> {
        let HttpOptions { addr, is_public, limits } = options;
        if !is_public && !addr.ip().is_loopback() {
            return Err(ListenError::Public { addr });
        }
        let feed = Name::new(shared.options.feed.clone())?;
        let io = |error| ListenError::Io { addr, error };
        let socket = treefold_http::bind(addr, limits.send_buffer_bytes).map_err(io)?;
        let addr = socket.local_addr().map_err(io)?;
        let (tell_ending, ending) = watch::channel(false);
        let site = Site { feed, shared: Arc::downgrade(shared), changed, ending };
        let (stop, stopped) = oneshot::channel();
        let (tell_ended, ended) = watch::channel(());
        let (bound, is_bound) = oneshot::channel();
        readers.spawn(async move {
            // The listener belongs to the readers' runtime.
            let listener = match socket.listen(BACKLOG) {
                Ok(listener) => listener,
                Err(error) => return drop(bound.send(Err(error))),
            };
            drop(bound.send(Ok(())));
            let what = format!("the readers' listener of {}", site.feed);
            let door = ReadersDoor { connections_max: limits.connections_max };
            let ending = Ending { stopped, tell: tell_ending };
            treefold_http::serve(listener, &what, door, limits.bounds(), routes::routes(site), ending).await;
            drop(tell_ended);
        });
        match is_bound.await {
            Ok(Ok(())) => Ok(Self { addr, stop: Some(stop), ended }),
            Ok(Err(error)) => Err(io(error)),
            Err(_) => Err(io(std::io::Error::other("the mirror has ended"))),
        }
    }

    /// The address at which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Accepts no further connection, tells the readers the place that they have reached, and ends their streams.
    /// Connections that are not over after `grace` are closed.
    pub async fn shutdown(mut self, grace: Duration) {
        if let Some(stop) = self.stop.take() {
            // An error means that the listener has ended.
            let _ = stop.send(grace);
        }
        // The sender is dropped when all connections are over.
        let _ = self.ended.changed().await;
    }
}
