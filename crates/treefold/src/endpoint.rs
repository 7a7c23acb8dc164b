//! Endpoints: they receive a stream's packets on a node, and send packets up.
//!
//! There are two interfaces. An [`Endpoint`] is a callback: the node's loop calls it for every event, and
//! it answers at once. This has the least overhead, for endpoints that need microseconds. With [`accept`],
//! the endpoints are [`EndpointStream`]s instead, with `recv` and `send` for any task or thread
//! (`accepted`), and with blocking forms for threads without a runtime (`blocking`).

mod accepted;
mod blocking;

pub use accepted::{Accepting, Acceptor, Arrival, EndpointSender, EndpointStream, accept, accept_ringing};
pub use blocking::{AcceptError, RecvError, SendError};

use crate::driver::asks::Handle;
use bytes::Bytes;
use std::sync::Arc;
use treefold_core::right::{Right, Rights};
use treefold_core::stream::message::StreamRun;
use treefold_core::stream::{PACKET_BYTES, StreamError, StreamId, StreamSpec};

/// A packet from the front-end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The tag that the front-end sent it with.
    pub tag: u64,
    /// The packet's content.
    pub payload: Bytes,
    /// Sequence number at the front-end.
    pub(crate) sequence: u64,
}

/// Packets that passed over an endpoint, because it or a node above it lagged. Only in a stream with
/// [`lag_bytes_max`](crate::StreamBuilder::lag_bytes_max).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Missed {
    /// The number of packets that the front-end sent meanwhile. Some of them may not have been for this endpoint.
    pub fn packets(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// Packets that arrived together, in order. They share the memory in which they arrived, up to 64 KiB: copy the
/// payload of a small packet to keep it for long.
#[derive(Clone, Debug)]
pub struct Packets(Arrived);

#[derive(Clone, Debug)]
enum Arrived {
    One(Option<Packet>),
    Run { run: Arc<StreamRun<Bytes>>, at: usize },
}

impl Packets {
    pub(crate) fn one(packet: Packet) -> Self {
        Self(Arrived::One(Some(packet)))
    }

    pub(crate) fn of(run: Arc<StreamRun<Bytes>>) -> Self {
        Self(Arrived::Run { run, at: 0 })
    }
}

impl Iterator for Packets {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        match &mut self.0 {
            Arrived::One(packet) => packet.take(),
            Arrived::Run { run, at } => {
                let (tag, payload) = run.packets.get(*at)?;
                let sequence = run.first + *at as u64;
                *at += 1;
                Some(Packet { tag: *tag, payload: payload.clone(), sequence })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match &self.0 {
            Arrived::One(packet) => usize::from(packet.is_some()),
            Arrived::Run { run, at } => run.packets.len() - at,
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for Packets {}

/// Whether an endpoint has finished with a packet when its handler returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// It has finished.
    Now,
    /// It will acknowledge the packet later; until then the packet counts against the front-end's window.
    Later,
}

/// One endpoint's part in one stream. It is called on its node's loop, so it must not block.
pub trait Endpoint: 'static {
    /// Called when the stream is open.
    fn opened(&mut self, outlet: &mut Outlet<'_>) {
        let _ = outlet;
    }

    /// Called for each packet from the front-end.
    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took;

    /// Called for packets that arrived together, instead of [`packet`](Self::packet). By default it calls `packet`
    /// for each of them, until the endpoint leaves. What it returns holds for all of them.
    fn packets(&mut self, outlet: &mut Outlet<'_>, packets: Packets) -> Took {
        let mut took = Took::Now;
        for packet in packets {
            took = self.packet(outlet, packet);
            if outlet.left.is_some() {
                break;
            }
        }
        took
    }

    /// Called when packets have passed over this endpoint. The next packet is one that the front-end sent after them.
    fn missed(&mut self, outlet: &mut Outlet<'_>, missed: Missed) {
        let _ = (outlet, missed);
    }

    /// Called when there is room again, after [`Outlet::send`] failed for lack of it.
    fn room(&mut self, outlet: &mut Outlet<'_>) {
        let _ = outlet;
    }

    /// Called when the front-end's user has taken `bytes` of the packets sent up; [`Outlet`] keeps count.
    fn settled(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// Called when the stream is over.
    fn closed(&mut self, reason: &StreamError) {
        let _ = reason;
    }
}

/// A newly opened stream, as its endpoint sees it.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The stream's id.
    pub stream: StreamId,
    /// The number of this endpoint in its service.
    pub endpoint: u32,
    /// The stream's specification; its `params` are for the endpoints.
    pub spec: Arc<StreamSpec<Bytes>>,
    /// Bytes that this endpoint may have in flight upwards.
    pub window_bytes: u64,
    pub(crate) acknowledge_bytes: u64,
    pub(crate) handle: Handle,
}

impl Opening {
    /// True if the stream's opener has a right. Without certificates, a process has every right.
    pub fn may(&self, right: Right) -> bool {
        self.spec.opener.has(right)
    }
}

/// Makes a service's endpoints, one per stream and endpoint number.
pub trait EndpointKind: Send + Sync + 'static {
    /// Makes the endpoint for one stream.
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint>;

    /// True if a process with these rights may open a stream to such endpoints: by default, if it may open streams. Without
    /// certificates, a process has every right.
    fn admits(&self, opener: Rights) -> bool {
        opener.has(Right::Stream)
    }
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
    /// Returns true if a packet would be accepted now.
    pub fn has_room(&self) -> bool {
        *self.in_flight_bytes < self.window_bytes
    }

    /// Sends a packet up, into the wave after the last one of this endpoint.
    ///
    /// A packet longer than `payload_bytes_max` is not sent: its wave lists the endpoint as missing, with
    /// this reason.
    ///
    /// # Errors
    /// Returns the payload if the window is full; [`Endpoint::room`] is called when there is room again.
    pub fn send(&mut self, payload: Bytes) -> Result<(), Bytes> {
        self.push(None, payload)
    }

    /// Sends a packet up into the wave of `tag`, for instance as the answer to a packet with this tag.
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

    /// Takes the endpoint out of this stream, after the packets that it has sent.
    ///
    /// The endpoint is called no more, and waves list it as missing with the reason `why`, until the
    /// stream's front-end seats it again.
    pub fn leave(&mut self, why: impl Into<Arc<str>>) {
        *self.left = Some(why.into());
    }
}

/// The weight of packets that an endpoint has taken and that core does not know of yet.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    bytes: u64,
}

impl Untold {
    /// Counts more packets. Returns true when it is time to tell core.
    pub(crate) fn note(&mut self, packets: usize, bytes: u64, acknowledge_bytes: u64) -> bool {
        self.bytes += (PACKET_BYTES * packets) as u64 + bytes;
        let is_due = self.bytes >= acknowledge_bytes;
        if is_due {
            *self = Self::default();
        }
        is_due
    }
}
