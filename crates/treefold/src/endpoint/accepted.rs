//! Streams for those who wait rather than being called: accepted, read, written.
//!
//! Two channels lead from the loop to the user: one for streams, and for each stream one for packets. What is in them
//! is bounded by the stream's window, since a packet is taken only when its reader has it. The way up is bounded by a
//! semaphore that holds the window's bytes.
//!
//! A *bell*, if there is one, is rung on the loop whenever a look at any of this may be worth while: a stream, a
//! packet, room, an end. It is how a program that waits in a `poll` of its own is told.
//!
//! Invariant: an end has one reason. It is there before the packets' channel is closed and before the semaphore is, so
//! whoever finds either closed finds the reason too.

use super::{Endpoint, EndpointKind, Opening, Outlet, PACKET_BYTES, Packet, Took};
use crate::driver::asks::StreamAsk;
use crate::error::Error;
use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, Semaphore, mpsc};
use treefold_core::stream::StreamError;

/// Streams that have been opened to an [`Acceptor`] and not been accepted; beyond that they are turned away.
const UNACCEPTED_MAX: usize = 1_024;

/// Endpoints whose streams are accepted and read elsewhere: give the kind to
/// [`Service::endpoints`](crate::Service::endpoints) and take streams from the acceptor.
pub fn accept() -> (Accepting, Acceptor) {
    accept_with(Bell(None))
}

/// As [`accept`], and `ring` is called whenever something may have come: a stream, a packet, room to send, an end. It
/// is called on the node's loop and must not block.
pub fn accept_ringing(ring: impl Fn() + Send + Sync + 'static) -> (Accepting, Acceptor) {
    accept_with(Bell(Some(Arc::new(ring))))
}

fn accept_with(bell: Bell) -> (Accepting, Acceptor) {
    let (sender, receiver) = mpsc::channel(UNACCEPTED_MAX);
    (Accepting { streams: sender, bell }, Acceptor { streams: Mutex::new(receiver) })
}

/// Rings when it is told to, and when it goes: whoever waits for news of its owner is told that there will be none.
#[derive(Clone)]
struct Bell(Option<Arc<dyn Fn() + Send + Sync>>);

impl Bell {
    fn ring(&self) {
        if let Some(ring) = &self.0 {
            ring();
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ring();
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bell")
    }
}

/// Hands streams to an [`Acceptor`].
#[derive(Clone, Debug)]
pub struct Accepting {
    // Fields are dropped in order: the bell's last ring says that the channel is closed.
    streams: mpsc::Sender<EndpointStream>,
    bell: Bell,
}

/// Takes streams as they are opened.
#[derive(Debug)]
pub struct Acceptor {
    pub(super) streams: Mutex<mpsc::Receiver<EndpointStream>>,
}

impl Acceptor {
    /// The next stream that is opened to one of the endpoints; `None` when the node is gone.
    pub async fn accept(&self) -> Option<EndpointStream> {
        self.streams.lock().await.recv().await
    }
}

/// One endpoint's part in one stream, for whoever waits rather than being called.
///
/// Dropping it does not end the stream, which is the front-end's: packets are dropped from then on, and waves that wait
/// for all wait for this endpoint until its node is gone.
#[derive(Debug)]
pub struct EndpointStream {
    pub(super) packets: mpsc::UnboundedReceiver<Packet>,
    pub(super) out: EndpointSender,
}

/// The way up of an [`EndpointStream`], for other threads and tasks than the one that receives.
#[derive(Clone, Debug)]
pub struct EndpointSender {
    pub(super) opening: Opening,
    pub(super) room: Arc<Semaphore>,
    over: Arc<OnceLock<StreamError>>,
}

impl EndpointStream {
    /// What is known of the stream.
    pub fn opening(&self) -> &Opening {
        &self.out.opening
    }

    /// Why the stream is over; `None` while it is not.
    pub fn over(&self) -> Option<&StreamError> {
        self.out.over.get()
    }

    /// A way to send from elsewhere.
    pub fn sender(&self) -> EndpointSender {
        self.out.clone()
    }

    /// The next packet; `None` when the stream is over.
    pub async fn recv(&mut self) -> Option<Packet> {
        let packet = self.packets.recv().await?;
        self.out.say_taken(&packet);
        Some(packet)
    }

    /// Sends a packet up into the next wave of this endpoint; waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn send(&self, payload: Bytes) -> Result<(), Error> {
        self.out.send(payload).await
    }

    /// Sends a packet up into the wave of `tag`; waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.out.send_tagged(tag, payload).await
    }
}

impl EndpointSender {
    /// As [`EndpointStream::send`].
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn send(&self, payload: Bytes) -> Result<(), Error> {
        self.push(None, payload).await
    }

    /// As [`EndpointStream::send_tagged`].
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(Some(tag), payload).await
    }

    async fn push(&self, tag: Option<u64>, payload: Bytes) -> Result<(), Error> {
        let permits = self.room.acquire_many(self.weight(&payload)).await;
        permits.map_err(|_| Error::Closed)?.forget();
        self.pass_on(tag, payload);
        Ok(())
    }

    /// What a packet takes of the window; one that is larger than the window takes all of it.
    pub(super) fn weight(&self, payload: &Bytes) -> u32 {
        let weight = (PACKET_BYTES + payload.len() as u64).min(self.opening.window_bytes);
        u32::try_from(weight).unwrap_or(u32::MAX)
    }

    /// Gives the loop a packet that has its room.
    pub(super) fn pass_on(&self, tag: Option<u64>, payload: Bytes) {
        let (stream, endpoint) = (self.opening.stream, self.opening.endpoint);
        self.opening.handle.stream_ask(StreamAsk::EndpointSend { stream, endpoint, tag, payload });
    }

    pub(super) fn say_taken(&self, packet: &Packet) {
        let (stream, endpoint) = (self.opening.stream, self.opening.endpoint);
        let sequence = packet.sequence;
        self.opening.handle.stream_ask(StreamAsk::EndpointTook { stream, endpoint, sequence });
    }

    /// Why the stream is over, for one who has found its channels closed.
    pub(super) fn reason(&self) -> StreamError {
        self.over.get().cloned().unwrap_or(StreamError::ShuttingDown)
    }
}

impl EndpointKind for Accepting {
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint> {
        let (sender, packets) = mpsc::unbounded_channel();
        let window = usize::try_from(opening.window_bytes).unwrap_or(usize::MAX);
        let room = Arc::new(Semaphore::new(window.min(Semaphore::MAX_PERMITS)));
        let over = Arc::new(OnceLock::new());
        let out =
            EndpointSender { opening: opening.clone(), room: Arc::clone(&room), over: Arc::clone(&over) };
        if self.streams.try_send(EndpointStream { packets, out }).is_err() {
            tracing::warn!(stream = %opening.stream, "nobody accepts the stream; its packets are dropped");
        }
        let passing = Passing {
            end: End { over, room },
            packets: sender,
            window: opening.window_bytes,
            bell: self.bell.clone(),
        };
        passing.bell.ring();
        Box::new(passing)
    }
}

/// Passes what comes on to an [`EndpointStream`].
struct Passing {
    // Fields are dropped in order: the reason is there, then the channel is closed, then the bell rings.
    end: End,
    packets: mpsc::UnboundedSender<Packet>,
    window: u64,
    bell: Bell,
}

/// Says that the stream is over, at the latest when its node is gone.
struct End {
    over: Arc<OnceLock<StreamError>>,
    room: Arc<Semaphore>,
}

impl End {
    fn say(&self, reason: &StreamError) {
        // The first reason is the reason.
        let _ = self.over.set(reason.clone());
        self.room.close();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.say(&StreamError::ShuttingDown);
    }
}

impl Passing {
    fn give_room(&self, bytes: u64) {
        let free = self.end.room.available_permits() as u64;
        let bytes = bytes.min(self.window.saturating_sub(free));
        self.end.room.add_permits(usize::try_from(bytes).unwrap_or(0));
    }
}

impl Endpoint for Passing {
    fn packet(&mut self, _: &mut Outlet<'_>, packet: Packet) -> Took {
        // Whoever dropped the stream's reading end is taken to want nothing.
        let took = match self.packets.send(packet) {
            Ok(()) => Took::Later,
            Err(_) => Took::Now,
        };
        self.bell.ring();
        took
    }

    fn settled(&mut self, bytes: u64) {
        self.give_room(bytes);
        self.bell.ring();
    }

    fn closed(&mut self, reason: &StreamError) {
        self.end.say(reason);
    }
}
