//! A service's own part of a listener: TLS, counters, and the text of a refusal.

use crate::refusal::Refusal;
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

    /// The answer to a connection above the limit; `None` to close it without one, as before a handshake.
    fn refuse(&self) -> Option<Refusal>;
}
