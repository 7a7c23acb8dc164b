//! A listener for HTTP/1.1 that bounds what strangers may hold.
//!
//! Connections, headers, and the time for a handshake and for a request's head are bounded. A connection above the limit is
//! answered 503, and closed. A client that takes nothing of its answer is cut off. At the end, connections finish the request
//! that they are in.
//!
//! - [`Bounds`]: the limits. [`Door`]: what a service adds, which is TLS, counters, and the text of a refusal.
//! - [`bind`] makes a socket; [`serve`] accepts and serves, until it is told to stop.

mod bounds;
mod connection;
mod door;
mod refusal;
mod serve;

pub use bounds::Bounds;
pub use door::{Door, Duplex};
pub use refusal::Refusal;
pub use serve::{BACKLOG, Ending, bind, ended, serve};
