//! One connection, from its handshake to its end.

use crate::bounds::Bounds;
use crate::door::{Door, Duplex};
use crate::half_closed::{HalfClosed, Turn};
use crate::kept::{Kept, Served};
use crate::serve::ended;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

pub(crate) async fn serve_one(
    stream: TcpStream,
    door: impl Door,
    bounds: Bounds,
    router: Router,
    is_for_this_machine: bool,
    ending: watch::Receiver<bool>,
) {
    let Passed(door) = &Passed::through(door);
    let secured = async {
        prepare(&stream, bounds.stalled_max)?;
        let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
        timeout(bounds.head_within, door.secure(stream)).await.unwrap_or_else(late)
    };
    let (kept, released) = Kept::new();
    let served = Served { door: door.clone(), router, kept, is_for_this_machine, turn: Turn::default() };
    let outcome = async { serve_http(secured.await?, &bounds, served, ending).await };
    if let Err(error) = outcome.await {
        tracing::debug!(%error, "a connection is over");
    }
    // A request that has taken the connection over still uses it.
    released.await;
}

/// A door with an open connection.
struct Passed<D: Door>(D);

impl<D: Door> Passed<D> {
    fn through(door: D) -> Self {
        door.opened();
        Self(door)
    }
}

impl<D: Door> Drop for Passed<D> {
    fn drop(&mut self) {
        self.0.closed();
    }
}

/// Notices peers that have vanished, or that take nothing.
fn prepare(stream: &TcpStream, stalled_max: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_user_timeout(Some(stalled_max))
}

#[cfg(feature = "http2")]
async fn serve_http(
    stream: Box<dyn Duplex>,
    bounds: &Bounds,
    served: Served<impl Door>,
    ending: watch::Receiver<bool>,
) -> io::Result<()> {
    use crate::version::{Version, begin};
    let Some(http2) = bounds.http2 else {
        return serve_http1(stream, bounds, served, ending).await;
    };
    let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
    let mut ending_first = ending.clone();
    let begun = tokio::select! {
        begun = timeout(bounds.head_within, begin(stream)) => begun.unwrap_or_else(late)?,
        // A connection without a request has nothing to finish.
        () = ended(&mut ending_first) => return Ok(()),
    };
    match begun {
        (Version::One, stream) => serve_http1(stream, bounds, served, ending).await,
        (Version::Two, stream) => crate::http2::serve(stream, bounds, http2, served, ending).await,
    }
}

#[cfg(not(feature = "http2"))]
async fn serve_http(
    stream: Box<dyn Duplex>,
    bounds: &Bounds,
    served: Served<impl Door>,
    ending: watch::Receiver<bool>,
) -> io::Result<()> {
    serve_http1(stream, bounds, served, ending).await
}

async fn serve_http1(
    stream: impl Duplex + 'static,
    bounds: &Bounds,
    served: Served<impl Door>,
    mut ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head_within)
        .max_headers(bounds.headers_max)
        .max_buf_size(bounds.head_bytes_max);
    let stream = HalfClosed::new(stream, served.turn.clone());
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), served).with_upgrades());
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = ended(&mut ending) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    outcome.map_err(io::Error::other)
}
