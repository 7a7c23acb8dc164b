//! A listener for HTTP that bounds what strangers may hold.
//!
//! Connections, headers, and the time for a handshake and for a request's head are bounded. A connection above the limit is
//! answered 503, and closed. A client that takes nothing of its answer is cut off. At the end, connections finish the request
//! that they are in.
//!
//! Every request passes one check before its service sees it ([`Unfit`]): its header `Host`, and that its body is not encoded.
//!
//! It serves HTTP/1.1, and with the feature `http2` also HTTP/2 on the same address, if the bounds have limits for it.
//!
//! - [`Bounds`]: the limits. [`Door`]: what a service adds, which is TLS, counters, and the text of refusals.
//! - [`bind`] makes a socket; [`serve`] accepts and serves, until it is told to stop.
//! - [`Kept`]: the place of a connection that a request takes over. [`messages`]: answers without end.
//!   [`accept`]: the form that a request prefers.

pub mod accept;
#[cfg(feature = "http2")]
mod answers;
mod bounds;
mod connection;
mod door;
mod half_closed;
#[cfg(feature = "http2")]
mod http2;
mod kept;
pub mod messages;
mod refusal;
mod serve;
mod unfit;
#[cfg(feature = "http2")]
mod version;

pub use bounds::{Bounds, Http2Bounds};
pub use door::{Door, Duplex};
pub use kept::Kept;
pub use refusal::Refusal;
pub use serve::{BACKLOG, Ending, bind, ended, serve};
pub use unfit::{Unfit, names_this_machine};
