//! Accepting connections, up to a limit.

use crate::bounds::Bounds;
use crate::connection::serve_one;
use crate::door::Door;
use axum::Router;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Time after which accepting is tried again when the system refuses it, as without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Refusals that may be under way. Further connections are closed without an answer.
const REFUSALS_MAX: usize = 64;
/// Time that one refusal may take.
const REFUSAL_WITHIN: Duration = Duration::from_secs(1);

/// Connections that the system keeps until they are accepted.
pub const BACKLOG: u32 = 1_024;

/// Binds a socket. The system holds at most `send_buffer_bytes` for a client that does not read them.
///
/// # Errors
/// The system's error.
pub fn bind(addr: SocketAddr, send_buffer_bytes: u32) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(send_buffer_bytes)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// The end of a listener.
#[derive(Debug)]
pub struct Ending {
    /// Gets the time that connections have to finish. If its sender is dropped, they have none.
    pub stopped: oneshot::Receiver<Duration>,
    /// Tells connections that they are to finish.
    pub tell: watch::Sender<bool>,
}

/// Accepts connections and serves each with `router`, until it is told to stop. Then waits for them as long as it is told,
/// and closes the others. `what` names the listener in the log.
pub async fn serve(
    listener: TcpListener,
    what: &str,
    door: impl Door,
    bounds: Bounds,
    router: Router,
    ending: Ending,
) {
    let Ending { mut stopped, tell } = ending;
    let mut running = JoinSet::new();
    let places = Arc::new(Semaphore::new(bounds.connections_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let here = listener.local_addr();
    let is_for_this_machine =
        !door.knows_callers() && here.map_or(true, |here| here.ip().to_canonical().is_loopback());
    let grace = loop {
        let accepted = tokio::select! {
            grace = &mut stopped => break grace.ok(),
            Some(_) = running.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(what, %error, "can't accept a connection");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let (door, bounds, router) = (door.clone(), bounds.clone(), router.clone());
            let served = serve_one(stream, door, bounds, router, is_for_this_machine, tell.subscribe());
            running.spawn(async move {
                served.await;
                drop(place);
            });
        } else if let (Some(refusal), Ok(place)) = (door.refuse(), Arc::clone(&refusals).try_acquire_owned())
        {
            running.spawn(async move {
                // The refusal is a courtesy: the connection is closed in any case.
                let _ = timeout(REFUSAL_WITHIN, refusal.send(stream)).await;
                drop(place);
            });
        }
    };
    drop(listener);
    tell.send_replace(true);
    let all = async { while running.join_next().await.is_some() {} };
    // Dropping the others closes them.
    let _ = timeout(grace.unwrap_or_default(), all).await;
}

/// Waits until connections are told to end, for a service whose answers would not end by themselves.
pub async fn ended(ending: &mut watch::Receiver<bool>) {
    // An error means that the listener has ended already.
    drop(ending.wait_for(|is_ending| *is_ending).await);
}
