//! A service's own part of a listener: TLS, counters, and the text of refusals.

use crate::refusal::Refusal;
use crate::unfit::Unfit;
use axum::http::HeaderMap;
use axum::response::Response;
use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection's bytes both ways, encrypted or not.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// A service's own part of a listener.
pub trait Door: Clone + Send + Sync + 'static {
    /// A connection begins.
    fn opened(&self) {}

    /// A connection that had begun is over.
    fn closed(&self) {}

    /// Runs the handshake of a connection, if it is encrypted. Its time is bounded by the listener.
    ///
    /// # Errors
    /// If the handshake fails. The connection is closed.
    fn secure(&self, stream: TcpStream) -> impl Future<Output = io::Result<Box<dyn Duplex>>> + Send;

    /// True if callers show who they are. Else a listener at an address of this machine is asked by its addresses and as
    /// `localhost` only, because a page's name that was made to lead here must get nothing.
    fn knows_callers(&self) -> bool {
        false
    }

    /// The answer to a request that no handler gets, with the status of the reason.
    fn refuse_request(&self, headers: &HeaderMap, unfit: Unfit) -> Response;

    /// The answer to a connection above the limit; `None` to close it without one, as before a handshake.
    fn refuse(&self) -> Option<Refusal>;
}
