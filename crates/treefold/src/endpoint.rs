//! Endpoints: what takes a stream's packets on a node, and sends others up.
//!
//! An [`Endpoint`] is called on its node's loop, with everything it is told, and answers there and then: the leanest
//! way, for those who need microseconds. Whoever would rather wait than be called takes [`accept`]: its endpoints hand
//! out [`EndpointStream`]s, with `recv` and `send`, for any task or thread.

use crate::driver::asks::{Handle, StreamAsk};
use crate::error::Error;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, Semaphore, mpsc};
use treefold_core::stream::{StreamError, StreamId, StreamSpec};

/// Streams that have been opened to an [`Acceptor`] and not been accepted; beyond that they are turned away.
const UNACCEPTED_MAX: usize = 1_024;
/// What a packet weighs against a window besides its bytes; as core has it.
const PACKET_BYTES: u64 = 64;

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
}

impl Outlet<'_> {
    /// True when a packet would be taken now.
    pub fn has_room(&self) -> bool {
        *self.in_flight_bytes < self.window_bytes
    }

    /// Sends a packet up, into the wave after the last of this endpoint.
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
        *self.in_flight_bytes += PACKET_BYTES + payload.len() as u64;
        self.sends.push((tag, payload));
        Ok(())
    }
}

/// Endpoints whose streams are accepted and read elsewhere: give the kind to
/// [`Service::endpoints`](crate::Service::endpoints) and take streams from the acceptor.
pub fn accept() -> (Accepting, Acceptor) {
    let (sender, receiver) = mpsc::channel(UNACCEPTED_MAX);
    (Accepting { streams: sender }, Acceptor { streams: Mutex::new(receiver) })
}

/// Hands streams to an [`Acceptor`].
#[derive(Clone, Debug)]
pub struct Accepting {
    streams: mpsc::Sender<EndpointStream>,
}

/// Takes streams as they are opened.
#[derive(Debug)]
pub struct Acceptor {
    streams: Mutex<mpsc::Receiver<EndpointStream>>,
}

impl Acceptor {
    /// The next stream that is opened to one of the endpoints; `None` when the node is gone.
    pub async fn accept(&self) -> Option<EndpointStream> {
        self.streams.lock().await.recv().await
    }
}

/// One endpoint's part in one stream, for whoever waits rather than being called.
#[derive(Debug)]
pub struct EndpointStream {
    opening: Opening,
    packets: mpsc::UnboundedReceiver<Packet>,
    room: Arc<Semaphore>,
    is_over: Arc<AtomicBool>,
}

impl EndpointStream {
    /// What is known of the stream.
    pub fn opening(&self) -> &Opening {
        &self.opening
    }

    /// The next packet; `None` when the stream is over.
    pub async fn recv(&mut self) -> Option<Packet> {
        let packet = self.packets.recv().await?;
        let (stream, endpoint, sequence) = (self.opening.stream, self.opening.endpoint, packet.sequence);
        self.opening.handle.stream_ask(StreamAsk::EndpointTook { stream, endpoint, sequence });
        Some(packet)
    }

    /// Sends a packet up into the next wave of this endpoint; waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn send(&self, payload: Bytes) -> Result<(), Error> {
        self.push(None, payload).await
    }

    /// Sends a packet up into the wave of `tag`; waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(Some(tag), payload).await
    }

    async fn push(&self, tag: Option<u64>, payload: Bytes) -> Result<(), Error> {
        let (stream, endpoint) = (self.opening.stream, self.opening.endpoint);
        let weight = (PACKET_BYTES + payload.len() as u64).min(self.opening.window_bytes);
        let permits = self.room.acquire_many(u32::try_from(weight).unwrap_or(u32::MAX)).await;
        permits.map_err(|_| Error::Closed)?.forget();
        if self.is_over.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.opening.handle.stream_ask(StreamAsk::EndpointSend { stream, endpoint, tag, payload });
        Ok(())
    }
}

impl EndpointKind for Accepting {
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint> {
        let (sender, packets) = mpsc::unbounded_channel();
        let window = usize::try_from(opening.window_bytes).unwrap_or(usize::MAX);
        let room = Arc::new(Semaphore::new(window.min(Semaphore::MAX_PERMITS)));
        let is_over = Arc::new(AtomicBool::new(false));
        let stream = EndpointStream {
            opening: opening.clone(),
            packets,
            room: Arc::clone(&room),
            is_over: Arc::clone(&is_over),
        };
        if self.streams.try_send(stream).is_err() {
            tracing::warn!(stream = %opening.stream, "nobody accepts the stream; its packets are dropped");
        }
        Box::new(Passing { packets: sender, room, is_over, window: opening.window_bytes })
    }
}

/// Passes what comes on to an [`EndpointStream`].
struct Passing {
    packets: mpsc::UnboundedSender<Packet>,
    room: Arc<Semaphore>,
    is_over: Arc<AtomicBool>,
    window: u64,
}

impl Passing {
    fn give_room(&self, bytes: u64) {
        let free = self.room.available_permits() as u64;
        let bytes = bytes.min(self.window.saturating_sub(free));
        self.room.add_permits(usize::try_from(bytes).unwrap_or(0));
    }
}

impl Endpoint for Passing {
    fn packet(&mut self, _: &mut Outlet<'_>, packet: Packet) -> Took {
        // Whoever dropped the stream's reading end is taken to want nothing.
        match self.packets.send(packet) {
            Ok(()) => Took::Later,
            Err(_) => Took::Now,
        }
    }

    fn settled(&mut self, bytes: u64) {
        self.give_room(bytes);
    }

    fn closed(&mut self, _: &StreamError) {
        self.is_over.store(true, Ordering::Release);
        self.room.close();
    }
}
