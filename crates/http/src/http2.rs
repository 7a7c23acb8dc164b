//! A connection over HTTP/2.
//!
//! HTTP/2 lets a client hold more than HTTP/1.1: many requests at once, answers for which it opens no window while it reads
//! the connection, and a connection without any request. So these are bounded:
//!
//! | resource | bound |
//! |---|---|
//! | open requests | [`Http2Bounds::requests_open_max`] |
//! | bytes of bodies that nobody has read | [`STREAM_WINDOW_BYTES`] for a request, [`CONNECTION_WINDOW_BYTES`] for all |
//! | answers that the client does not take | [`Bounds::stalled_max`] for one piece of any of them ([`Answers`]) |
//! | a client that has vanished | a ping each [`Bounds::head_within`] |
//! | requests that were cancelled before they were begun | [`CANCELLED_WAITING_MAX`] |
//! | faults of the client that end a request | [`FAULTS_MAX`] |
//! | a connection without a request | [`Bounds::head_within`] before the first one, then [`Http2Bounds::idle_max`] |

use crate::answers::{Answers, Paced};
use crate::bounds::{Bounds, Http2Bounds};
use crate::door::Door;
use crate::kept::Served;
use crate::serve::ended;
use crate::version::Begun;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Bytes of one request's body that a client may send before they are read.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes of all bodies of a connection that a client may send before they are read.
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// Bytes of one answer that wait for the client's window.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Requests that a client may have cancelled before the listener begins with them; more close its connection.
///
/// A client that hedges cancels dozens within one turn of its connection, and the h2 crate's own limit of 20 would cost it
/// all its requests. The listener begins with all requests that it has read at each turn, and each counts against its
/// caller's rate then. So no more than this are cancelled in between unless there are tens of thousands in a second, which
/// is an attack (CVE-2023-44487).
const CANCELLED_WAITING_MAX: usize = 1_024;
/// Requests of one connection that may end because the client breaks the protocol; more close it. The value is that of the h2
/// crate.
const FAULTS_MAX: usize = 1_024;
/// Looks at a connection within its shortest limit.
const LOOKS: u32 = 4;
/// Shortest pause between two looks. It holds for any limits.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(10);

/// Serves requests until the connection is over.
pub(crate) async fn serve<D: Door>(
    stream: Begun,
    bounds: &Bounds,
    Http2Bounds { requests_open_max, idle_max }: Http2Bounds,
    served: Served<D>,
    mut ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let answers = Arc::new(Answers::default());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(requests_open_max)
        .max_header_list_size(u32::try_from(bounds.head_bytes_max).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(CANCELLED_WAITING_MAX)
        .max_local_error_reset_streams(FAULTS_MAX)
        .keep_alive_interval(bounds.head_within)
        .keep_alive_timeout(bounds.head_within);
    let service = Counted { served, answers: Arc::clone(&answers) };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let shortest = bounds.stalled_max.min(idle_max).min(bounds.head_within);
    let look_every = (shortest / LOOKS).max(LOOK_EVERY_MIN);
    let mut is_ending = false;
    loop {
        tokio::select! {
            outcome = connection.as_mut() => return outcome.map_err(io::Error::other),
            () = ended(&mut ending), if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
            () = sleep(look_every) => {
                let idle = answers.idle();
                let limit = if answers.has_any() { idle_max } else { bounds.head_within };
                // A client that does not close after its notice is cut off.
                let is_cut = idle.is_some_and(|idle| idle >= limit + bounds.head_within);
                if answers.stalled() >= bounds.stalled_max || is_cut {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                if !is_ending && idle.is_some_and(|idle| idle >= limit) {
                    is_ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// Counts the requests of a connection, and paces their answers.
struct Counted<D> {
    served: Served<D>,
    answers: Arc<Answers>,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Paced>, Infallible>> + Send>>;

impl<D: Door> Service<hyper::Request<Incoming>> for Counted<D> {
    type Response = Response<Paced>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: hyper::Request<Incoming>) -> Answering {
        let (answer, answered) = (Answers::begin(&self.answers), self.served.call(request));
        Box::pin(async move { Ok(answered.await?.map(|body| Paced::new(body, answer))) })
    }
}
