//! Endpoints that wait for packets instead of being called: accept a stream, read from it, write to it.
//!
//! Streams reach the user over one channel, and the packets of each stream over a channel per stream. The
//! stream's window bounds these channels, since a packet counts as taken only when its reader has received
//! it. A window of the same size bounds the way up.
//!
//! If there is a *bell*, the loop rings it whenever the user may find something new: a stream, a packet,
//! room, or an end. A program that waits in its own `poll` is woken this way.
//!
//! Invariant: an end has exactly one reason. The reason is stored before the packets' channel and the
//! window are closed, so a user that finds either of them closed also finds the reason.

use super::{Endpoint, EndpointKind, Missed, Opening, Outlet, Packet, Packets, Took, Untold};
use crate::driver::asks::StreamAsk;
use crate::error::Error;
use crate::window::Window;
use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::sync::{Mutex, mpsc};
use treefold_core::error::Reason;
use treefold_core::right::{Right, Rights};
use treefold_core::status::NodeStatus;
use treefold_core::stream::StreamError;

/// Streams that may wait to be accepted by an [`Acceptor`]. In any further stream the endpoint is missing.
const UNACCEPTED_MAX: usize = 1_024;

/// Makes endpoints that are accepted and read elsewhere.
///
/// Give the kind to [`Service::endpoints`](crate::Service::endpoints), and take the streams from the
/// acceptor.
pub fn accept() -> (Accepting, Acceptor) {
    accept_with(Bell(None))
}

/// Makes endpoints like [`accept`], and calls `ring` whenever there may be news: a stream, a packet, room
/// to send, or an end. `ring` is called on the node's loop and must not block.
pub fn accept_ringing(ring: impl Fn() + Send + Sync + 'static) -> (Accepting, Acceptor) {
    accept_with(Bell(Some(Arc::new(ring))))
}

fn accept_with(bell: Bell) -> (Accepting, Acceptor) {
    let (sender, receiver) = mpsc::channel(UNACCEPTED_MAX);
    let admitted = [Right::Stream].into_iter().collect();
    (Accepting { streams: sender, bell, admitted }, Acceptor { streams: Mutex::new(receiver) })
}

/// Rings when told to, and once more when dropped: then the waiting program learns that no more news will
/// come.
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
    // Fields are dropped in order: when the bell rings for the last time, the channel is already closed.
    streams: mpsc::Sender<EndpointStream>,
    bell: Bell,
    admitted: Rights,
}

impl Accepting {
    /// Admits streams of openers with one of these rights only, for endpoints that see by the stream's parameters which of
    /// them it needs ([`Opening::may`]).
    #[must_use]
    pub fn admit(mut self, rights: Rights) -> Self {
        self.admitted = rights;
        self
    }
}

/// Receives streams as they are opened.
#[derive(Debug)]
pub struct Acceptor {
    pub(super) streams: Mutex<mpsc::Receiver<EndpointStream>>,
}

impl Acceptor {
    /// Waits for the next stream that is opened to one of the endpoints. `None` means that the node is
    /// gone.
    pub async fn accept(&self) -> Option<EndpointStream> {
        self.streams.lock().await.recv().await
    }
}

/// One endpoint's part in one stream, for tasks and threads that wait for packets.
///
/// Dropping it does not end the stream, which belongs to the front-end. From then on packets are discarded,
/// and waves that wait for all endpoints wait for this one until its node is gone. To be missing from waves
/// instead, call [`leave`](Self::leave).
#[derive(Debug)]
pub struct EndpointStream {
    pub(super) arrivals: mpsc::UnboundedReceiver<Arrived>,
    /// The packets that arrived with the last one.
    pub(super) arrived: Option<Packets>,
    pub(super) missed: u64,
    pub(super) out: EndpointSender,
    pub(super) untold: Untold,
}

/// A packet, or the news that some were missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A packet.
    Packet(Packet),
    /// These packets passed over the endpoint. The next packet is one that the front-end sent after them.
    Missed(Missed),
}

/// An arrival as the loop passes it on.
#[derive(Debug)]
pub(super) enum Arrived {
    Packets(Packets),
    Missed(Missed),
}

/// The way up of an [`EndpointStream`], for threads and tasks other than the one that receives.
#[derive(Clone, Debug)]
pub struct EndpointSender {
    pub(super) opening: Opening,
    pub(super) window: Arc<Window>,
    over: Arc<OnceLock<StreamError>>,
}

impl EndpointStream {
    /// The stream's opening: its id, this endpoint's number, and the specification.
    pub fn opening(&self) -> &Opening {
        &self.out.opening
    }

    /// Why the stream is over; `None` while it is open.
    pub fn over(&self) -> Option<&StreamError> {
        self.out.over.get()
    }

    /// The status of the node that runs this endpoint.
    ///
    /// # Errors
    /// [`Error::Closed`] if the node has ended.
    pub async fn node_status(&self) -> Result<NodeStatus, Error> {
        self.out.opening.handle.status().await
    }

    /// A handle for sending from other tasks and threads.
    pub fn sender(&self) -> EndpointSender {
        self.out.clone()
    }

    /// Waits for the next packet; `None` means that the stream is over. Packets that were missed are counted by
    /// [`missed`](Self::missed).
    pub async fn recv(&mut self) -> Option<Packet> {
        loop {
            if let Arrival::Packet(packet) = self.next().await? {
                return Some(packet);
            }
        }
    }

    /// Waits for the next packet, or for the news that packets were missed; `None` means that the stream is over.
    pub async fn next(&mut self) -> Option<Arrival> {
        loop {
            if let Some(packet) = self.next_arrived() {
                return Some(Arrival::Packet(packet));
            }
            let arrived = self.arrivals.recv().await?;
            if let Some(missed) = self.take_arrived(arrived) {
                return Some(Arrival::Missed(missed));
            }
        }
    }

    /// The number of packets that passed over this endpoint, as far as [`recv`](Self::recv) has come; see
    /// [`Missed::packets`]. It is above 0 only in a stream with a lag limit.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Stores packets that arrived, or counts packets that were missed.
    pub(super) fn take_arrived(&mut self, arrived: Arrived) -> Option<Missed> {
        match arrived {
            Arrived::Packets(packets) => {
                self.arrived = Some(packets);
                None
            }
            Arrived::Missed(missed) => {
                self.missed += missed.packets();
                Some(missed)
            }
        }
    }

    /// The next of the packets that arrived together.
    pub(super) fn next_arrived(&mut self) -> Option<Packet> {
        let packet = self.arrived.as_mut()?.next()?;
        self.note_taken(&packet);
        Some(packet)
    }

    /// Counts a taken packet, and tells core now and then.
    fn note_taken(&mut self, packet: &Packet) {
        let Opening { stream, endpoint, acknowledge_bytes, ref handle, .. } = self.out.opening;
        if self.untold.note(1, packet.payload.len() as u64, acknowledge_bytes) {
            let sequence = packet.sequence;
            handle.stream_ask(StreamAsk::EndpointTook { stream, endpoint, sequence });
        }
    }

    /// Takes the endpoint out of the stream. Waves list it as missing with the reason `why`, until the
    /// front-end seats it again.
    pub fn leave(self, why: impl Into<Arc<str>>) {
        let Opening { stream, endpoint, ref handle, .. } = self.out.opening;
        let reason = Reason::LocalFailed(why.into());
        handle.stream_ask(StreamAsk::EndpointGone { stream, endpoint, reason });
    }

    /// Sends a packet up into the next wave of this endpoint; waits while the window is full.
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn send(&self, payload: Bytes) -> Result<(), Error> {
        self.out.send(payload).await
    }

    /// Sends a packet up into the wave of `tag`; waits while the window is full.
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.out.send_tagged(tag, payload).await
    }
}

impl EndpointSender {
    /// Sends like [`EndpointStream::send`].
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn send(&self, payload: Bytes) -> Result<(), Error> {
        self.push(None, payload).await
    }

    /// Sends like [`EndpointStream::send_tagged`].
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(Some(tag), payload).await
    }

    async fn push(&self, tag: Option<u64>, payload: Bytes) -> Result<(), Error> {
        self.opening.handle.check_packet(&payload)?;
        self.window.take(&payload).await.map_err(|_| Error::Stream(self.reason()))?;
        self.pass_on(tag, payload);
        Ok(())
    }

    /// Gives the loop a packet for which room in the window has been taken.
    pub(super) fn pass_on(&self, tag: Option<u64>, payload: Bytes) {
        let (stream, endpoint) = (self.opening.stream, self.opening.endpoint);
        self.opening.handle.stream_ask(StreamAsk::EndpointSend { stream, endpoint, tag, payload });
    }

    /// Why the stream is over. To be called only when its channel or window is closed.
    pub(super) fn reason(&self) -> StreamError {
        self.over.get().cloned().unwrap_or(StreamError::ShuttingDown)
    }
}

impl EndpointKind for Accepting {
    fn open(&self, opening: &Opening) -> Box<dyn Endpoint> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let window = Arc::new(Window::new(opening.window_bytes));
        let over = Arc::new(OnceLock::new());
        let out =
            EndpointSender { opening: opening.clone(), window: Arc::clone(&window), over: Arc::clone(&over) };
        let stream = EndpointStream { arrivals, arrived: None, missed: 0, out, untold: Untold::default() };
        let is_accepted = self.streams.try_send(stream).is_ok();
        let end = End { over, window };
        let passing = Passing { end, arrivals: sender, is_accepted, bell: self.bell.clone() };
        passing.bell.ring();
        Box::new(passing)
    }

    fn admits(&self, opener: Rights) -> bool {
        opener.and(self.admitted) != Rights::NONE
    }
}

/// The endpoint that passes packets on to an [`EndpointStream`].
struct Passing {
    // Fields are dropped in order: the reason is stored, then the channel closes, then the bell rings.
    end: End,
    arrivals: mpsc::UnboundedSender<Arrived>,
    is_accepted: bool,
    bell: Bell,
}

/// Marks the stream as over, at the latest when it is dropped with its node.
struct End {
    over: Arc<OnceLock<StreamError>>,
    window: Arc<Window>,
}

impl End {
    fn say(&self, reason: &StreamError) {
        // The first reason wins.
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
            outlet.leave(format!(
                "the stream was not accepted: {UNACCEPTED_MAX} others wait, or the acceptor is gone"
            ));
        }
    }

    fn packet(&mut self, outlet: &mut Outlet<'_>, packet: Packet) -> Took {
        self.packets(outlet, Packets::one(packet))
    }

    fn packets(&mut self, _: &mut Outlet<'_>, packets: Packets) -> Took {
        // If the user has dropped the stream's reading end, the packet counts as taken.
        let took = match self.arrivals.send(Arrived::Packets(packets)) {
            Ok(()) => Took::Later,
            Err(_) => Took::Now,
        };
        self.bell.ring();
        took
    }

    fn missed(&mut self, _: &mut Outlet<'_>, missed: Missed) {
        // Nobody need know it if the user has dropped the stream's reading end.
        let _ = self.arrivals.send(Arrived::Missed(missed));
        self.bell.ring();
    }

    fn settled(&mut self, bytes: u64) {
        self.end.window.give(bytes);
        self.bell.ring();
    }

    fn closed(&mut self, reason: &StreamError) {
        self.end.say(reason);
    }
}
