//! Streams for those who wait rather than being called: accepted, read, written.
//!
//! Two channels lead from the loop to the user: one for streams, and for each stream one for packets. What is in them
//! is bounded by the stream's window, since a packet is taken only when its reader has it. The way up is bounded by a
//! window of the same size.
//!
//! A *bell*, if there is one, is rung on the loop whenever a look at any of this may be worth while: a stream, a
//! packet, room, an end. It is how a program that waits in a `poll` of its own is told.
//!
//! Invariant: an end has one reason. It is there before the packets' channel is closed and before the window is, so
//! whoever finds either closed finds the reason too.

use super::{Endpoint, EndpointKind, Opening, Outlet, Packet, Took, Untold};
use crate::driver::asks::StreamAsk;
use crate::error::Error;
use crate::window::Window;
use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, mpsc};
use treefold_core::error::Reason;
use treefold_core::status::NodeStatus;
use treefold_core::stream::StreamError;

/// Streams that have been opened to an [`Acceptor`] and not been accepted; from others the endpoint is missing.
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
/// for all wait for this endpoint until its node is gone. To be missing from them instead, [`leave`](Self::leave).
#[derive(Debug)]
pub struct EndpointStream {
    pub(super) packets: mpsc::UnboundedReceiver<Packet>,
    pub(super) out: EndpointSender,
    pub(super) untold: Untold,
}

/// The way up of an [`EndpointStream`], for other threads and tasks than the one that receives.
#[derive(Clone, Debug)]
pub struct EndpointSender {
    pub(super) opening: Opening,
    pub(super) window: Arc<Window>,
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

    /// How the node is that the endpoint is on.
    ///
    /// # Errors
    /// [`Error::Closed`] when it has ended.
    pub async fn node_status(&self) -> Result<NodeStatus, Error> {
        self.out.opening.handle.status().await
    }

    /// A way to send from elsewhere.
    pub fn sender(&self) -> EndpointSender {
        self.out.clone()
    }

    /// The next packet; `None` when the stream is over.
    pub async fn recv(&mut self) -> Option<Packet> {
        let packet = self.packets.recv().await?;
        self.note_taken(&packet);
        Some(packet)
    }

    /// Tells core, now and then, what has been taken.
    pub(super) fn note_taken(&mut self, packet: &Packet) {
        let Opening { stream, endpoint, window_bytes, ref handle, .. } = self.out.opening;
        if self.untold.note(packet.payload.len() as u64, window_bytes) {
            let sequence = packet.sequence;
            handle.stream_ask(StreamAsk::EndpointTook { stream, endpoint, sequence });
        }
    }

    /// Takes the endpoint out of the stream: waves say that it is missing, and why, until the front-end gives it its
    /// place again.
    pub fn leave(self, why: impl Into<Arc<str>>) {
        let Opening { stream, endpoint, ref handle, .. } = self.out.opening;
        let reason = Reason::LocalFailed(why.into());
        handle.stream_ask(StreamAsk::EndpointGone { stream, endpoint, reason });
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
        self.opening.handle.check_packet(&payload)?;
        self.window.take(&payload).await.map_err(|_| Error::Stream(self.reason()))?;
        self.pass_on(tag, payload);
        Ok(())
    }

    /// Gives the loop a packet that has its room.
    pub(super) fn pass_on(&self, tag: Option<u64>, payload: Bytes) {
        let (stream, endpoint) = (self.opening.stream, self.opening.endpoint);
        self.opening.handle.stream_ask(StreamAsk::EndpointSend { stream, endpoint, tag, payload });
    }

    /// Why the stream is over, for one who has found its channels closed.
    pub(super) fn reason(&self) -> StreamError {
        self.over.get().cloned().unwrap_or(StreamError::ShuttingDown)
    }
}

impl EndpointKind for Accepting {
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint> {
        let (sender, packets) = mpsc::unbounded_channel();
        let window = Arc::new(Window::new(opening.window_bytes));
        let over = Arc::new(OnceLock::new());
        let out =
            EndpointSender { opening: opening.clone(), window: Arc::clone(&window), over: Arc::clone(&over) };
        let stream = EndpointStream { packets, out, untold: Untold::default() };
        let is_accepted = self.streams.try_send(stream).is_ok();
        let end = End { over, window };
        let passing = Passing { end, packets: sender, is_accepted, bell: self.bell.clone() };
        passing.bell.ring();
        Box::new(passing)
    }
}

/// Passes what comes on to an [`EndpointStream`].
struct Passing {
    // Fields are dropped in order: the reason is there, then the channel is closed, then the bell rings.
    end: End,
    packets: mpsc::UnboundedSender<Packet>,
    is_accepted: bool,
    bell: Bell,
}

/// Says that the stream is over, at the latest when its node is gone.
struct End {
    over: Arc<OnceLock<StreamError>>,
    window: Arc<Window>,
}

impl End {
    fn say(&self, reason: &StreamError) {
        // The first reason is the reason.
        let _ = self.over.set(reason.clone());
        self.window.close();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.say(&StreamError::ShuttingDown);
    }
}

impl Endpoint for Passing {
    fn opened(&mut self, outlet: &mut Outlet<'_>) {
        if !self.is_accepted {
            outlet.leave(format!("nobody accepts it: {UNACCEPTED_MAX} streams wait, or nobody is there"));
        }
    }

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
        self.end.window.give(bytes);
        self.bell.ring();
    }

    fn closed(&mut self, reason: &StreamError) {
        self.end.say(reason);
    }
}
