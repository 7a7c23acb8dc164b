//! Streams, as their front-end's user has them: packets down, waves up.
//!
//! A [`Stream`] is opened by a client that runs a loop of its own: that of a node, or one in direct mode. It holds the
//! root of the stream's tree.
//!
//! ```
//! use bytes::Bytes;
//! use treefold::endpoint::accept;
//! use treefold::operators::packet::{Packet, Row};
//! use treefold::{Node, Service};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A node with three endpoints: thermometers that are read when they are asked.
//! let (accepting, acceptor) = accept();
//! let service = Service::new("thermometers").endpoints(0..3, accepting);
//! let node = Node::builder().service(service).start().await?;
//! tokio::spawn(async move {
//!     while let Some(mut stream) = acceptor.accept().await {
//!         tokio::spawn(async move {
//!             let degrees = 20.0 + f64::from(stream.opening().endpoint);
//!             while let Some(packet) = stream.recv().await {
//!                 let answer = Row::new().f64(degrees).packet().into_bytes();
//!                 if stream.send_tagged(packet.tag, answer).await.is_err() {
//!                     return; // the stream is over
//!                 }
//!             }
//!         });
//!     }
//! });
//!
//! // The front-end asks all of them, and gets the warmest.
//! let client = node.client();
//! let mut stream = client.stream("thermometers").up_filter("max").open().await?;
//! let tag = stream.send(Bytes::new()).await?;
//! let wave = stream.wave().await?;
//! assert_eq!(Packet::read(&wave.packets[0])?.f64(0)?, 22.0);
//! assert_eq!((wave.tag, wave.contributors.len()), (tag, 3));
//! assert!(wave.missing.is_empty());
//! # Ok(())
//! # }
//! ```

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
use treefold_core::stream::{StreamEvent, StreamId, StreamOptions, StreamSpec, StreamWave, Synchronisation};
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_operators::{Body, BodyError};

/// Waves taken over from the loop in one go; so many may have been given to the user's task and not be used yet.
const WAVES_PER_TURN_MAX: usize = 64;

/// A stream to be opened; see [`Client::stream`](crate::Client::stream).
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
        };
        Self { handle, spec, options: StreamOptions::default(), problem: None }
    }

    /// The filter that makes a wave's packets into those that go up; without one they go up as they are.
    pub fn up_filter(mut self, name: impl Into<Arc<str>>) -> Self {
        self.spec.up_filter = name.into();
        self
    }

    /// The filter that packets pass on their way down.
    pub fn down_filter(mut self, name: impl Into<Arc<str>>) -> Self {
        self.spec.down_filter = name.into();
        self
    }

    /// What the filters are told at their start.
    pub fn filter_params(mut self, params: &impl Body) -> Self {
        match params.encode() {
            Ok(bytes) => self.spec.filter_params = bytes,
            Err(problem) => self.problem = Some(problem),
        }
        self
    }

    /// What the endpoints are told at their start.
    pub fn params(mut self, params: &impl Body) -> Self {
        match params.encode() {
            Ok(bytes) => self.spec.params = bytes,
            Err(problem) => self.problem = Some(problem),
        }
        self
    }

    /// When a wave is complete; by default when everyone is in it.
    pub fn synchronisation(mut self, synchronisation: Synchronisation) -> Self {
        self.spec.synchronisation = synchronisation;
        self
    }

    /// The endpoints; by default all that the service has, and all that come.
    pub fn endpoints(mut self, endpoints: PartitionSet) -> Self {
        self.options.endpoints = Some(endpoints);
        self
    }

    /// The tree's shape; by default over relays where any are in sight, else `kary:8`.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.options.shape = shape;
        self
    }

    /// The subtrees below the front-end, laid out by whoever knows them: `Network::trees` of crate `treefold-network`
    /// for one. The shape then says nothing.
    pub fn trees(mut self, trees: Vec<Tree>) -> Self {
        self.options.trees = Some(trees);
        self
    }

    /// Bytes that each node may have sent up and that have not been taken here; by default the nodes' limit.
    pub fn window_bytes(mut self, bytes: u64) -> Self {
        self.options.window_bytes = Some(bytes);
        self
    }

    /// Opens the stream, and has what happens to it told to a function: waves, changes of its tree, and at the end the
    /// error that ended it. It is called on the node's loop, one event at a time, and must not block; a wave is taken
    /// when it returns. One that panics closes the stream.
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

    /// Opens the stream: everyone who can be reached takes part when this returns.
    ///
    /// # Errors
    /// When the client has no loop of its own, or what was asked makes no sense somewhere.
    pub async fn open(self) -> Result<Stream, Error> {
        if let Some(problem) = self.problem {
            return Err(problem.into());
        }
        let handle = self.handle.ok_or(Error::NoLoop)?;
        let window_bytes = self.options.window_bytes.unwrap_or(handle.limits.stream_window_bytes as u64);
        let window = Arc::new(Window::new(window_bytes));
        let (user, events, change) = FrontUser::new(Arc::clone(&window));
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

/// A stream whose events are told to a function; see [`StreamBuilder::open_with`]. Dropping it closes the stream.
#[derive(Debug)]
pub struct FollowedStream {
    out: StreamSender,
    id: StreamId,
    endpoints: PartitionSet,
    /// Whoever lives the stream hears of our end by it.
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

    /// Its name.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Who took part when it was opened; what has changed since was told.
    pub fn endpoints(&self) -> &PartitionSet {
        &self.endpoints
    }

    /// The way down.
    pub fn sender(&self) -> StreamSender {
        self.out.clone()
    }

    /// Ends the stream at all its nodes.
    pub fn close(self) {}
}

/// The loop's end of a stream that was opened here.
#[derive(Debug)]
pub(crate) struct FrontUser {
    told: mpsc::UnboundedSender<Told>,
    change: Changes,
    window: Arc<Window>,
}

/// What the loop tells a stream's user. Waves are bounded by the stream's window; of changes only the newest is kept.
#[derive(Debug)]
enum Told {
    Event(StreamEvent<Bytes>),
    Changed,
}

type Changes = Arc<Mutex<Option<StreamEvent<Bytes>>>>;

impl FrontUser {
    fn new(window: Arc<Window>) -> (Self, mpsc::UnboundedReceiver<Told>, Changes) {
        let ((told, events), change) = (mpsc::unbounded_channel(), Changes::default());
        (Self { told, change: Arc::clone(&change), window }, events, change)
    }

    /// Tells the user, and gives those who send the room there is now.
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
        // A user who dropped the stream has closed it, and core hears of that.
        let _ = self.told.send(told);
    }
}

impl Drop for FrontUser {
    fn drop(&mut self) {
        self.window.close();
    }
}

fn newest(change: &Changes) -> MutexGuard<'_, Option<StreamEvent<Bytes>>> {
    // Whoever held it moved a value in or out.
    change.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream's front-end. Dropping it closes the stream.
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
    /// Its name.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The subtrees below the front-end, by the last news.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Who takes part, by the last news.
    pub fn endpoints(&self) -> &PartitionSet {
        &self.endpoints
    }

    /// Who was asked and does not, and why, by the last news.
    pub fn missing(&self) -> &[treefold_core::error::Missing] {
        &self.missing
    }

    /// A way to send from elsewhere.
    pub fn sender(&self) -> StreamSender {
        self.out.clone()
    }

    /// Sends a packet to all endpoints, with the next tag; waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send(&self, payload: Bytes) -> Result<u64, Error> {
        self.out.send(payload).await
    }

    /// Sends a packet to some endpoints; waits while the window is full.
    ///
    /// # Errors
    /// When the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send_to(&self, to: PartitionSet, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.out.send_to(to, tag, payload).await
    }

    /// What happens next: a wave, or a change of the tree.
    ///
    /// # Errors
    /// When the stream is over, why.
    pub async fn next(&mut self) -> Result<StreamEvent<Bytes>, Error> {
        loop {
            if let Some(told) = self.waiting.pop_front() {
                let event = match told {
                    Told::Event(event) => event,
                    Told::Changed => {
                        newest(&self.change).take().expect("invariant: it is there when it is told of")
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

    /// The next wave; changes of the tree are noted and passed over.
    ///
    /// # Errors
    /// As [`next`](Self::next).
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
        // Nobody is left who hears of room, so whoever waits for some hears that it is over.
        self.out.window.close();
        self.out.handle.stream_ask(StreamAsk::Close { request: self.out.request });
    }
}

/// Sends down a stream; clones send down the same.
#[derive(Clone, Debug)]
pub struct StreamSender {
    handle: Handle,
    request: RequestId,
    window: Arc<Window>,
    next_tag: Arc<AtomicU64>,
}

impl StreamSender {
    /// As [`Stream::send`].
    ///
    /// # Errors
    /// When the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send(&self, payload: Bytes) -> Result<u64, Error> {
        self.handle.check_packet(&payload)?;
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        self.push(tag, None, payload).await?;
        Ok(tag)
    }

    /// Sends a packet to all endpoints with this tag.
    ///
    /// # Errors
    /// When the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send_tagged(&self, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(tag, None, payload).await
    }

    /// As [`Stream::send_to`].
    ///
    /// # Errors
    /// When the stream is over, or the packet is longer than `payload_bytes_max`.
    pub async fn send_to(&self, to: PartitionSet, tag: u64, payload: Bytes) -> Result<(), Error> {
        self.push(tag, Some(to), payload).await
    }

    async fn push(&self, tag: u64, to: Option<PartitionSet>, payload: Bytes) -> Result<(), Error> {
        self.handle.check_packet(&payload)?;
        self.window.take(&payload).await.map_err(|_| Error::Closed)?;
        self.handle.stream_ask(StreamAsk::Send { request: self.request, tag, to, payload });
        Ok(())
    }
}
