//! A running gateway: from its start to the end of its last connection.

use crate::entrance::Entrance;
use crate::options::{GatewayOptions, StartError};
use crate::routes;
use crate::site::Site;
use crate::tls;
use crate::tokens::Tokens;
use crate::watched::Watched;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use treefold::Client;
use treefold_http::{BACKLOG, Ending};

/// Bytes that the system holds for a client that does not read them.
const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// A running gateway. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    is_encrypted: bool,
    site: Arc<Site>,
    /// Sending the time that connections have left ends them; dropping this ends them at once.
    stop: Option<oneshot::Sender<Duration>>,
    ended: watch::Receiver<()>,
}

impl Gateway {
    /// Listens, and serves requests on the present runtime with the calls of `client`, usually that of a node.
    ///
    /// # Errors
    /// If the address is refused, or a file cannot be used.
    pub async fn start(client: Client, options: GatewayOptions) -> Result<Self, StartError> {
        options.check()?;
        let given = options.addr;
        let tokens = match &options.tokens {
            Some(path) => Some(Tokens::watch(path.clone(), &options.limits)?),
            None => None,
        };
        let acceptor = options.tls.as_ref().map(tls::watch).transpose()?;
        let is_encrypted = acceptor.is_some();
        let io = |error| StartError::Io { addr: given, error };
        let socket = treefold_http::bind(given, SEND_BUFFER_BYTES).map_err(io)?;
        let listener = socket.listen(BACKLOG).map_err(io)?;
        let addr = listener.local_addr().map_err(io)?;
        let (tell, ending) = watch::channel(false);
        let site = Arc::new(Site::new(client, tokens, &options, ending)?);
        let (stop, stopped) = oneshot::channel();
        let (tell_ended, ended) = watch::channel(());
        let (door, router) = (
            Entrance { site: Arc::clone(&site), acceptor: acceptor.clone() },
            routes::router(Arc::clone(&site)),
        );
        let bounds = site.limits.bounds();
        tokio::spawn(async move {
            let ending = Ending { stopped, tell };
            treefold_http::serve(listener, "the gateway", door, bounds, router, ending).await;
            drop(tell_ended);
        });
        if let Some(tokens) = site.tokens.clone() {
            tokio::spawn(Watched::follow(tokens, ended.clone()));
        }
        if let Some(acceptor) = acceptor {
            tokio::spawn(Watched::follow(acceptor, ended.clone()));
        }
        Ok(Self { addr, is_encrypted, site, stop: Some(stop), ended })
    }

    /// The address at which it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The beginning of every address of this gateway, as in `http://127.0.0.1:8080`.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.is_encrypted { "https" } else { "http" }, self.addr)
    }

    /// Ends in order: `/readyz` fails, [`drain_notice`](crate::Limits::drain_notice) later no more connections are
    /// accepted, open calls end, and open streams are told and closed. Connections that are not over after `grace` are closed, which
    /// cancels their calls. What is left of it is for traces and lines of slow calls that wait.
    pub async fn drain(mut self, grace: Duration) {
        self.site.stop_being_ready();
        sleep(self.site.limits.drain_notice).await;
        let until = Instant::now() + grace;
        if let Some(stop) = self.stop.take() {
            // An error means that the gateway has ended.
            let _ = stop.send(grace);
        }
        // The sender is dropped when all connections are over.
        let _ = self.ended.changed().await;
        self.site.observers.finish(until.saturating_duration_since(Instant::now())).await;
    }
}
