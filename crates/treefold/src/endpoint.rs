//! Endpoints: what takes a stream's packets on a node, and sends others up.
//!
//! An [`Endpoint`] is called on its node's loop, with everything it is told, and answers there and then: the leanest
//! way, for those who need microseconds. Whoever would rather wait than be called takes [`accept`]: its endpoints hand
//! out [`EndpointStream`]s, with `recv` and `send`, for any task or thread (`accepted`), and with forms that block,
//! for threads that know no runtime (`blocking`).

mod accepted;
mod blocking;

pub use accepted::{Accepting, Acceptor, EndpointSender, EndpointStream, accept, accept_ringing};
pub use blocking::{AcceptError, RecvError, SendError};

use crate::driver::asks::Handle;
use bytes::Bytes;
use std::sync::Arc;
use treefold_core::stream::{PACKET_BYTES, StreamError, StreamId, StreamSpec};

/// So many packets that an endpoint has taken are told core at once, however small they are.
const UNTOLD_PACKETS_MAX: u32 = 32;

/// A packet from the front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The tag it was sent with.
    pub tag: u64,
    /// What it says.
    pub payload: Bytes,
    /// The front-end's count of its packets.
    pub(crate) sequence: u64,
}

/// Whether an endpoint is through with a packet when its handler returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It is.
    Now,
    /// It will be said later; until then it counts against the front-end's window.
    Later,
}

/// One endpoint's part in one stream, called on its node's loop: it must not block.
pub trait Endpoint: 'static {
    /// The stream is open.
    fn opened(&mut self, outlet: &mut Outlet<'_>) {
        let _ = outlet;
    }

    /// A packet has come.
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took;

    /// There is room again, after a [`Outlet::send`] was refused.
    fn room(&mut self, outlet: &mut Outlet<'_>) {
        let _ = outlet;
    }

    /// The front-end's user has taken `bytes` of what was sent; [`Outlet`] keeps count.
    fn settled(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// The stream is over.
    fn closed(&mut self, reason: &StreamError) {
        let _ = reason;
    }
}

/// What is known of a stream when it is opened to an endpoint.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The stream.
    pub stream: StreamId,
    /// Which of the service's endpoints.
    pub endpoint: u32,
    /// What the stream is; its `params` are for the endpoints.
    pub spec: Arc<StreamSpec<Bytes>>,
    /// Bytes that may be on their way up.
    pub window_bytes: u64,
    pub(crate) handle: Handle,
}

/// Makes a service's endpoints, one per stream and endpoint.
pub trait EndpointKind: Send + Sync + 'static {
    /// The endpoint of one stream.
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint>;
}

impl<F, E> EndpointKind for F
where
    F: Fn(&Opening) -> E + Send + Sync + 'static,
    E: Endpoint,
{
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint> {
        Box::new(self(opening))
    }
}

/// The way up for an endpoint that is called on the loop.
#[derive(Debug)]
pub struct Outlet<'a> {
    pub(crate) sends: &'a mut Vec<(Option<u64>, Bytes)>,
    pub(crate) in_flight_bytes: &'a mut u64,
    pub(crate) window_bytes: u64,
    pub(crate) was_refused: &'a mut bool,
    pub(crate) left: &'a mut Option<Arc<str>>,
}

impl Outlet<'_> {
    /// True when a packet would be taken now.
    pub fn has_room(&self) -> bool {
        *self.in_flight_bytes < self.window_bytes
    }

    /// Sends a packet up, into the wave after the last of this endpoint. One that is longer than `payload_bytes_max`
    /// is not sent: its wave says that the endpoint is missing, and why.
    ///
    /// # Errors
    /// The payload, when the window is full; [`Endpoint::room`] says when to try again.
    pub fn send(&mut self, payload: Bytes) -> Result<(), Bytes> {
        self.push(None, payload)
    }

    /// Sends a packet up into the wave of `tag`: the answer to a packet with this tag, for one.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_tagged(&mut self, tag: u64, payload: Bytes) -> Result<(), Bytes> {
        self.push(Some(tag), payload)
    }

    fn push(&mut self, tag: Option<u64>, payload: Bytes) -> Result<(), Bytes> {
        if !self.has_room() {
            *self.was_refused = true;
            return Err(payload);
        }
        *self.in_flight_bytes += PACKET_BYTES as u64 + payload.len() as u64;
        self.sends.push((tag, payload));
        Ok(())
    }

    /// Takes the endpoint out of this stream, after what it has sent: it is called no more, and waves say that it is
    /// missing, and why, until its front-end gives it its place again.
    pub fn leave(&mut self, why: impl Into<Arc<str>>) {
        *self.left = Some(why.into());
    }
}

/// Packets that an endpoint has taken and core has not been told of.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    packets: u32,
    bytes: u64,
}

impl Untold {
    /// One more; true when it is time to tell.
    pub(crate) fn note(&mut self, bytes: u64, window_bytes: u64) -> bool {
        self.packets += 1;
        self.bytes += PACKET_BYTES as u64 + bytes;
        let is_due = self.packets >= UNTOLD_PACKETS_MAX || self.bytes >= window_bytes / 16;
        if is_due {
            *self = Self::default();
        }
        is_due
    }
}
