//! Streams, from the front-end's side: packets go down, waves come up.
//!
//! A [`Stream`] is opened by a client that runs a node loop: the client of a node, or one in direct mode.
//! It is the root of the stream's tree.

use crate::driver::asks::{Handle, StreamAsk};
use crate::driver::launching::LaunchAsk;
use crate::error::Error;
use crate::window::Window;
use bytes::Bytes;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot};
use treefold_core::id::RequestId;
use treefold_core::partitions::PartitionSet;
use treefold_core::right::Rights;
use treefold_core::stream::{
    StreamError, StreamEvent, StreamId, StreamOptions, StreamSpec, StreamWave, Synchronisation,
};
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_operators::{Body, BodyError};

/// Most waves moved from the loop's channel at once. The user's task may hold this many that it has not
/// used yet.
const WAVES_PER_TURN_MAX: usize = 64;

/// A stream to open; see [`Client::stream`](crate::Client::stream).
#[derive(Debug)]
#[must_use]
pub struct StreamBuilder {
    handle: Option<Handle>,
    spec: StreamSpec<Bytes>,
    options: StreamOptions,
    problem: Option<BodyError>,
}

impl StreamBuilder {
    pub(crate) fn new(handle: Option<Handle>, service: &str) -> Self {
        let spec = StreamSpec {
            service: service.into(),
            up_filter: "".into(),
            down_filter: "".into(),
            filter_params: Bytes::new(),
            synchronisation: Synchronisation::WaitForAll,
            params: Bytes::new(),
            lag_bytes_max: None,
            opener: Rights::ALL,
        };
        Self { handle, spec, options: StreamOptions::default(), problem: None }
    }

    /// Sets the filter that turns a wave's packets into the packets that go up. Without one they go up
    /// unchanged.
    pub fn up_filter(mut self, name: impl Into<Arc<str>>) -> Self {
        self.spec.up_filter = name.into();
        self
    }

    /// Sets the filter that packets pass on their way down.
    pub fn down_filter(mut self, name: impl Into<Arc<str>>) -> Self {
        self.spec.down_filter = name.into();
        self
    }

    /// Sets the parameters that the filters get when they start.
    pub fn filter_params(mut self, params: &impl Body) -> Self {
        match params.encode() {
            Ok(bytes) => self.spec.filter_params = bytes,
            Err(problem) => self.problem = Some(problem),
        }
        self
    }

    /// Sets the parameters that the endpoints get when they start.
    pub fn params(mut self, params: &impl Body) -> Self {
        match params.encode() {
            Ok(bytes) => self.spec.params = bytes,
            Err(problem) => self.problem = Some(problem),
        }
        self
    }

    /// Sets when a wave is complete. Default: when all endpoints have contributed.
    pub fn synchronisation(mut self, synchronisation: Synchronisation) -> Self {
        self.spec.synchronisation = synchronisation;
        self
    }

    /// Sets the endpoints. Default: all that the service has, and all that join later.
    pub fn endpoints(mut self, endpoints: PartitionSet) -> Self {
        self.options.endpoints = Some(endpoints);
        self
    }

    /// Sets the tree's shape. Default: the topology, in a network that was started from one; else over relays if any are in
    /// sight, else `kary:8`.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.options.shape = shape;
        self
    }

    /// Sets the subtrees below the front-end explicitly. The shape is then ignored.
    pub fn trees(mut self, trees: Vec<Tree>) -> Self {
        self.options.trees = Some(trees);
        self
    }

    /// Sets how many bytes each node may have sent up that were not taken here. Default: the nodes' limit.
    pub fn window_bytes(mut self, bytes: u64) -> Self {
        self.options.window_bytes = Some(bytes);
        self
    }

    /// Lets packets pass over endpoints that are more than so many bytes behind the one that is furthest ahead, so that
    /// a slow or stopped endpoint does not hold up the others. Each packet counts 64 bytes more than its payload.
    ///
    /// An endpoint that lags is away, with the reason [`Lagging`](treefold_core::error::Reason::Lagging). When it has
    /// caught up, it is told that it missed packets ([`Endpoint::missed`](crate::endpoint::Endpoint::missed),
    /// [`EndpointStream::next`](crate::endpoint::EndpointStream::next)) and gets those that follow. From 1 KiB to half of
    /// the window. Default: no endpoint misses a packet, and the front-end waits for the slowest one.
    pub fn lag_bytes_max(mut self, bytes: u64) -> Self {
        self.spec.lag_bytes_max = Some(bytes);
        self
    }

    /// Opens the stream, and passes each of its events to a function: waves, changes of its tree, and
    /// finally the error that ended it.
    ///
    /// The function is called on the node's loop, one event at a time, and must not block. A wave counts as
    /// taken when the function returns. If the function panics, the stream is closed.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use std::sync::mpsc;
    /// # use treefold::{Error, Node, Service, StreamEvent};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (accepting, acceptor) = treefold::endpoint::accept();
    /// # let node = Node::builder().service(Service::new("doors").endpoints(0..2, accepting)).start().await?;
    /// # tokio::spawn(async move {
    /// #     while let Some(stream) = acceptor.accept().await {
    /// #         tokio::spawn(async move { stream.send(Bytes::from("open")).await });
    /// #     }
    /// # });
    /// let (sender, waves) = mpsc::channel();
    /// let told = move |event: Result<StreamEvent<Bytes>, Error>| match event {
    ///     Ok(StreamEvent::Wave(wave)) => sender.send(wave.contributors.len()).unwrap_or_default(),
    ///     Ok(StreamEvent::Changed { endpoints, .. }) => println!("{endpoints} take part now"),
    ///     Ok(_) => {}
    ///     Err(why) => eprintln!("over: {why}"),
    /// };
    /// let doors = node.client().stream("doors").open_with(told).await?;
    /// assert_eq!(tokio::task::spawn_blocking(move || waves.recv()).await??, 2);
    /// doors.close();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(
        self,
        told: impl FnMut(Result<StreamEvent<Bytes>, Error>) + Send + 'static,
    ) -> Result<FollowedStream, Error> {
        Ok(FollowedStream::start(self.open().await?, told))
    }

    /// Opens the stream. When this returns, all endpoints that can be reached take part.
    ///
    /// # Errors
    /// If the client has no node loop, or a setting is invalid at some node.
    pub async fn open(self) -> Result<Stream, Error> {
        if let Some(problem) = self.problem {
            return Err(problem.into());
        }
        let handle = self.handle.ok_or(Error::NoLoop)?;
        let window_bytes = self.options.window_bytes.unwrap_or(handle.limits.stream_window_bytes as u64);
        let window = Arc::new(Window::new(window_bytes));
        let (user, events, change) = FrontEndUser::new(Arc::clone(&window));
        let request = handle.next_request();
        let (spec, options) = (Box::new(self.spec), self.options);
        handle.stream_ask(StreamAsk::Open { request, spec, options, user });
        let out = StreamSender { handle, request, window, next_tag: Arc::new(AtomicU64::new(1)) };
        let mut stream = Stream {
            out,
            events,
            change,
            waiting: VecDeque::new(),
            batch: Vec::new(),
            taken: 0,
            id: StreamId { origin: 0, sequence: 0 },
            trees: Vec::new(),
            endpoints: PartitionSet::new(),
            missing: Vec::new(),
        };
        match stream.events.recv().await {
            Some(Told::Event(StreamEvent::Opened { stream: id, trees, endpoints, missing })) => {
                (stream.id, stream.trees) = (id, trees);
                (stream.endpoints, stream.missing) = (endpoints, missing);
                Ok(stream)
            }
            Some(Told::Event(StreamEvent::Closed(error))) => Err(Error::Stream(error)),
            Some(_) | None => Err(Error::Closed),
        }
    }
}

/// A stream whose events go to a function; see [`StreamBuilder::open_with`]. Dropping it closes the stream.
#[derive(Debug)]
pub struct FollowedStream {
    out: StreamSender,
    id: StreamId,
    endpoints: PartitionSet,
    /// Dropping this ends the task that follows the stream.
    _open: oneshot::Sender<Infallible>,
}

impl FollowedStream {
    fn start(
        mut stream: Stream,
        mut told: impl FnMut(Result<StreamEvent<Bytes>, Error>) + Send + 'static,
    ) -> Self {
        let (open, closed) = oneshot::channel();
        let (out, id, endpoints) = (stream.out.clone(), stream.id, stream.endpoints.clone());
        let follow = async move {
            loop {
                let event = stream.next().await;
                let is_over = event.is_err();
                told(event);
                if is_over {
                    return;
                }
            }
        };
        let life = async move {
            tokio::select! {
                biased;
                _ = closed => {}
                () = follow => {}
            }
        };
        out.handle.launch_ask(LaunchAsk::Live { life: Box::pin(life) });
        Self { out, id, endpoints, _open: open }
    }

    /// The stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The endpoints that took part when the stream was opened. Later changes are reported as events.
    pub fn endpoints(&self) -> &PartitionSet {
        &self.endpoints
    }

    /// A handle for sending packets down.
    pub fn sender(&self) -> StreamSender {
        self.out.clone()
    }

    /// Ends the stream at all its nodes.
    pub fn close(self) {}
}

/// The loop's end of a stream that was opened here.
#[derive(Debug)]
pub(crate) struct FrontEndUser {
    told: mpsc::UnboundedSender<Told>,
    change: Changes,
    window: Arc<Window>,
}

/// Messages from the loop to a stream's user. The stream's window bounds the waves. Of the changes, only
/// the newest is kept.
#[derive(Debug)]
enum Told {
    Event(StreamEvent<Bytes>),
    Changed,
}

type Changes = Arc<Mutex<Option<StreamEvent<Bytes>>>>;

impl FrontEndUser {
    fn new(window: Arc<Window>) -> (Self, mpsc::UnboundedReceiver<Told>, Changes) {
        let ((told, events), change) = (mpsc::unbounded_channel(), Changes::default());
        (Self { told, change: Arc::clone(&change), window }, events, change)
    }

    /// Passes an event to the user. Bytes that were taken become free room for senders instead.
    pub(crate) fn tell(&self, event: StreamEvent<Bytes>) {
        let told = match event {
            StreamEvent::Taken { bytes } => return self.window.give(bytes),
            event @ StreamEvent::Changed { .. } => {
                if newest(&self.change).replace(event).is_some() {
                    return;
                }
                Told::Changed
            }
            event => Told::Event(event),
        };
        // If the user has dropped the stream, core is being told to close it.
        let _ = self.told.send(told);
    }
}

impl Drop for FrontEndUser {
    fn drop(&mut self) {
        self.window.close();
    }
}

fn newest(change: &Changes) -> MutexGuard<'_, Option<StreamEvent<Bytes>>> {
    // A holder of this lock only moves a value in or out, so a poisoned value is still valid.
    change.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream's front-end. Dropping it closes the stream.
///
/// ```
/// use bytes::Bytes;
/// use treefold::endpoint::accept;
/// use treefold::operators::packet::{Packet, Row};
/// use treefold::{Node, Service};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A node with three endpoints: thermometers that are read when a packet asks for it.
/// let (accepting, acceptor) = accept();
/// let service = Service::new("thermometers").endpoints(0..3, accepting);
/// let node = Node::builder().service(service).start().await?;
/// tokio::spawn(async move {
///     while let Some(mut stream) = acceptor.accept().await {
///         tokio::spawn(async move {
///             let degrees = 20.0 + f64::from(stream.opening().endpoint);
///             while let Some(packet) = stream.recv().await {
///                 let answer = Row::new().f64(degrees).packet().into_bytes();
///                 if stream.send_tagged(packet.tag, answer).await.is_err() {
///                     return; // the stream is over
///                 }
///             }
///         });
///     }
/// });
///
/// // The front-end asks all of them, and gets the warmest.
/// let client = node.client();
/// let mut stream = client.stream("thermometers").up_filter("max").open().await?;
/// let tag = stream.send(Bytes::new()).await?;
/// let wave = stream.wave().await?;
/// assert_eq!(Packet::read(&wave.packets[0])?.f64(0)?, 22.0);
/// assert_eq!((wave.tag, wave.contributors.len()), (tag, 3));
/// assert!(wave.missing.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stream {
    out: StreamSender,
    events: mpsc::UnboundedReceiver<Told>,
    change: Changes,
    waiting: VecDeque<Told>,
    batch: Vec<Told>,
    taken: u32,
    id: StreamId,
    trees: Vec<Tree>,
    endpoints: PartitionSet,
    missing: Vec<treefold_core::error::Missing>,
}

impl Stream {
    /// The stream's id.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The subtrees below the front-end, as last reported.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// The endpoints that take part, as last reported.
    pub fn endpoints(&self) -> &PartitionSet {
        &self.endpoints
    }

    /// The endpoints that were asked and do not take part, with reasons, as last reported.
    pub fn missing(&self) -> &[treefold_core::error::Missing] {
        &self.missing
    }

    /// A handle for sending from other tasks and threads.
    pub fn sender(&self) -> StreamSender {
        self.out.clone()
    }

    /// Sends a packet to all endpoints with the next tag, the one after the highest that was sent, and returns
    /// the tag. Waits while the window is full.
    ///
    /// # Errors
    /// If the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send(&self, payload: Bytes) -> Result<u64, Error> {
        self.out.send(payload).await
    }

    /// Sends a packet to some endpoints; waits while the window is full.
    ///
    /// # Errors
    /// If the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send_to(&self, to: PartitionSet, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.out.send_to(to, tag, payload).await
    }

    /// Waits for the next event: a wave, or a change of the tree.
    ///
    /// # Errors
    /// If the stream is over, with the reason.
    pub async fn next(&mut self) -> Result<StreamEvent<Bytes>, Error> {
        loop {
            if let Some(told) = self.waiting.pop_front() {
                let event = match told {
                    Told::Event(event) => event,
                    Told::Changed => {
                        newest(&self.change).take().expect("invariant: stored before `Changed` is sent")
                    }
                };
                match event {
                    StreamEvent::Wave(_) => self.taken += 1,
                    StreamEvent::Changed { ref trees, ref endpoints, ref away } => {
                        self.trees.clone_from(trees);
                        (self.endpoints, self.missing) = (endpoints.clone(), away.clone());
                    }
                    StreamEvent::Closed(error) => return Err(Error::Stream(error)),
                    StreamEvent::Opened { .. } | StreamEvent::Taken { .. } => continue,
                }
                return Ok(event);
            }
            self.say_taken();
            if self.events.recv_many(&mut self.batch, WAVES_PER_TURN_MAX).await == 0 {
                return Err(Error::Closed);
            }
            self.waiting.extend(self.batch.drain(..));
        }
    }

    /// Waits for the next wave. Changes of the tree are noted and skipped.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub async fn wave(&mut self) -> Result<StreamWave<Bytes>, Error> {
        loop {
            if let StreamEvent::Wave(wave) = self.next().await? {
                return Ok(wave);
            }
        }
    }

    fn say_taken(&mut self) {
        let waves = std::mem::take(&mut self.taken);
        if waves > 0 {
            let request = self.out.request;
            self.out.handle.stream_ask(StreamAsk::Took { request, waves });
        }
    }

    /// Ends the stream at all its nodes.
    pub fn close(self) {}
}

impl Drop for Stream {
    fn drop(&mut self) {
        // No more room will be reported, so senders that wait for room must learn that the stream is over.
        self.out.window.close();
        self.out.handle.stream_ask(StreamAsk::Close { request: self.out.request });
    }
}

/// Sends packets down a stream. Clones send down the same stream.
#[derive(Clone, Debug)]
pub struct StreamSender {
    handle: Handle,
    request: RequestId,
    window: Arc<Window>,
    next_tag: Arc<AtomicU64>,
}

impl StreamSender {
    /// Sends like [`Stream::send`].
    ///
    /// # Errors
    /// If the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send(&self, payload: Bytes) -> Result<u64, Error> {
        self.handle.check_packet(&payload)?;
        // It stops at the highest number, which `push` refuses as a tag.
        let next = |tag: u64| Some(tag.saturating_add(1));
        let tag = self.next_tag.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let tag = tag.expect("invariant: there is always a next one");
        self.push(tag, None, payload).await?;
        Ok(tag)
    }

    /// Sends a packet to all endpoints with this tag. A tag that an endpoint has got before gives no second wave.
    ///
    /// # Errors
    /// If the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(tag, None, payload).await
    }

    /// Sends like [`Stream::send_to`].
    ///
    /// # Errors
    /// If the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send_to(&self, to: PartitionSet, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(tag, Some(to), payload).await
    }

    async fn push(&self, tag: u64, to: Option<PartitionSet>, payload: Bytes) -> Result<(), Error> {
        self.handle.check_packet(&payload)?;
        let Some(next) = tag.checked_add(1) else {
            let limit = format!("at most {}", u64::MAX - 1);
            return Err(Error::Stream(StreamError::bad_field("tag", tag, limit)));
        };
        // A tag that the caller chose is used: the next packet without one must not join its wave.
        self.next_tag.fetch_max(next, Ordering::Relaxed);
        self.window.take(&payload).await.map_err(|_| Error::Closed)?;
        self.handle.stream_ask(StreamAsk::Send { request: self.request, tag, to, payload });
        Ok(())
    }
}
