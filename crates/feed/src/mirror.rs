//! A mirror's task: applies the origin's packets, votes, and brings itself up to date with a snapshot.
//!
//! ```text
//!              a gap                          snapshot, then the kept packets
//!  following ─────────▶ joining (keeps packets) ─────────────────────────────▶ following
//! ```
//!
//! A mirror that joins does not hold up commits: it votes for the position that a checkpoint names, because the
//! snapshot that it waits for has these events.
//!
//! Two origins of one epoch would number different events alike. So a mirror takes part in one stream an epoch,
//! and refuses the streams of earlier epochs. A later epoch begins with an empty state.

use crate::http::{HttpListener, HttpOptions, ListenError};
use crate::joining::{Kept, fetch};
use crate::reading::readable;
use crate::serving::{Hall, ReaderLimits, Serving, serve};
use crate::{FeedParams, random_seed};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use treefold::endpoint::{Acceptor, EndpointStream, Packet, accept};
use treefold::operators::packet::Row;
use treefold::operators::{OperatorError, Result};
use treefold::{Body, Client, Service};
use treefold_core::stream::StreamId;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::mirror::{MirrorError, Taken};
use treefold_mirror::packet::{Down, Monitored, Vote};
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::snapshot::Snapshot;
use treefold_mirror::{Cut, MirrorLimits};

/// Settings of a mirror.
#[derive(Clone, Debug)]
pub struct MirrorOptions {
    /// The feed: the name of its service.
    pub feed: String,
    /// The number of this mirror.
    pub number: u32,
    /// The number of mirrors that the feed may have.
    pub total: u32,
    /// Options of the state.
    pub state: StateOptions,
    /// The limits.
    pub limits: MirrorLimits,
    /// Limits of its readers.
    pub readers: ReaderLimits,
    /// Hides from sources which keys share a slot of a table. Choose it at random.
    pub seed: u64,
}

/// A mirror whose node has not started yet; see [`mirror`].
#[derive(Debug)]
pub struct Unstarted {
    acceptor: Acceptor,
    shared: Arc<Shared>,
    changed: watch::Sender<Cut>,
}

/// A mirror. Dropping it ends it; its node goes on and no longer answers checkpoints.
#[derive(Debug)]
pub struct Mirror {
    shared: Arc<Shared>,
    changed: watch::Receiver<Cut>,
    running: JoinHandle<()>,
    hall: Hall,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: MirrorOptions,
    pub(crate) serving: Serving,
    held: Mutex<Held>,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) deciding: treefold_mirror::mirror::Mirror<KeyedState>,
    /// True once the mirror had all events that the origin had sent, until it finds a gap.
    pub(crate) is_current: bool,
    /// The stream of the epoch.
    stream: Option<StreamId>,
}

/// Makes a mirror: a service for a node's builder, and the mirror, to be started when the node runs.
pub fn mirror(options: MirrorOptions) -> (Service, Unstarted) {
    let (accepting, acceptor) = accept();
    let deciding = options.empty(Cut::default());
    let serving = Serving::new(options.readers.clone());
    let held = Mutex::new(Held { deciding, is_current: false, stream: None });
    let shared = Shared { held, serving, options };
    let shared = Arc::new(shared);
    let service = Service::new(shared.options.feed.as_str())
        .total(shared.options.total)
        .partition_arc(shared.options.number, Arc::clone(&shared) as _)
        .endpoints([shared.options.number], accepting);
    (readable(service), Unstarted { acceptor, shared, changed: watch::Sender::new(Cut::default()) })
}

impl MirrorOptions {
    /// Mirror `number` of at most `total` mirrors of a feed, with default settings.
    pub fn new(feed: impl Into<String>, number: u32, total: u32) -> Self {
        let (state, limits) = (StateOptions::default(), MirrorLimits::default());
        let readers = ReaderLimits::default();
        Self { feed: feed.into(), number, total, state, limits, readers, seed: random_seed() }
    }

    fn empty_state(&self) -> KeyedState {
        KeyedState::new(self.state.clone(), &self.limits, self.seed)
    }

    fn empty(&self, cut: Cut) -> treefold_mirror::mirror::Mirror<KeyedState> {
        let (rules_version, streams, state) = (0, Vec::new(), self.empty_state());
        treefold_mirror::mirror::Mirror::new(Snapshot { cut, rules_version, streams, state }, &self.limits)
    }
}

impl Unstarted {
    /// Starts the mirror. `client` is a client of the node that has its service ([`treefold::Node::client`]). To
    /// be called on a tokio runtime.
    pub fn start(self, client: Client) -> Mirror {
        let (shared, changed) = (Arc::clone(&self.shared), self.changed.subscribe());
        let hall = Hall::open();
        let readers = hall.handle.clone();
        let running = tokio::spawn(async move {
            let mut opened = self.next_stream(&readers).await;
            while let Some(stream) = opened {
                let following = Following::new(&self.shared, &self.changed, &client, stream);
                // The stream of a newer origin ends the older one here.
                opened = tokio::select! {
                    newer = self.next_stream(&readers) => newer,
                    () = following.run() => self.next_stream(&readers).await,
                };
            }
        });
        Mirror { shared, changed, running, hall }
    }

    /// Waits for an origin's stream in which this mirror may take part, and leaves the others. Readers' streams are
    /// served on the way. `None` if the node has ended.
    async fn next_stream(&self, readers: &Handle) -> Option<EndpointStream> {
        loop {
            let stream = self.acceptor.accept().await?;
            let params = FeedParams::decode(&stream.opening().spec.params);
            let begun = match params.map_err(|error| format!("not a feed's stream: {error}")) {
                Ok(FeedParams::Origin { epoch }) => self.shared.begin(&stream, epoch),
                Ok(FeedParams::Reader(params)) => {
                    readers.spawn(serve(Arc::clone(&self.shared), self.changed.subscribe(), stream, params));
                    continue;
                }
                Err(why) => Err(why),
            };
            match begun {
                Ok(()) => return Some(stream),
                Err(why) => {
                    let MirrorOptions { feed, number, .. } = &self.shared.options;
                    tracing::warn!(%feed, mirror = number, %why, "left a stream");
                    stream.leave(why);
                }
            }
        }
    }
}

impl Mirror {
    /// The feed.
    pub fn feed(&self) -> &str {
        &self.shared.options.feed
    }

    /// The place after the last applied event.
    pub fn cut(&self) -> Cut {
        self.shared.held().deciding.cut()
    }

    /// True if the mirror has had all events that the origin had sent at its last checkpoint.
    pub fn is_current(&self) -> bool {
        self.shared.held().is_current
    }

    /// Waits until the mirror has applied further events, or has taken a snapshot.
    pub async fn changed(&mut self) {
        // The task that sends lives as long as this mirror.
        let _ = self.changed.changed().await;
    }

    /// Serves readers over HTTP; see [`http`](crate::http). Dropping the listener ends it, and so does dropping this
    /// mirror.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn listen(&self, options: HttpOptions) -> Result<HttpListener, ListenError> {
        HttpListener::start(&self.shared, self.changed.clone(), &self.hall.handle, options).await
    }

    /// The number of readers that this mirror serves.
    pub fn readers(&self) -> usize {
        self.shared.serving.readers()
    }

    /// Reads the state while no event is applied. `read` should be short.
    pub fn read<T>(&self, read: impl FnOnce(Cut, &KeyedState) -> T) -> T {
        let held = self.shared.held();
        read(held.deciding.cut(), held.deciding.state())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Shared {
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        // A panic while an event is applied is a defect of the state; the others go on with what is there.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if it has all events that the origin had sent.
    pub(crate) fn current(&self) -> Result<MutexGuard<'_, Held>> {
        let held = self.held();
        if held.is_current {
            return Ok(held);
        }
        Err(OperatorError::new("this mirror lacks events, or has had no origin yet"))
    }

    /// Prepares for the packets of a stream, or returns the reason for which this mirror takes no part in it.
    fn begin(&self, stream: &EndpointStream, epoch: u32) -> Result<(), String> {
        let id = Some(stream.opening().stream);
        let mut held = self.held();
        let known = held.deciding.cut().epoch;
        if epoch < known || (epoch == known && held.stream != id) {
            return Err(format!("the origin is of epoch {epoch}; a new one needs an epoch above {known}"));
        }
        held.is_current = false;
        if epoch > known {
            held.deciding = self.options.empty(Cut { epoch, position: 0 });
            held.stream = id;
        }
        Ok(())
    }

    /// The other mirrors, beginning behind this one, so that not all ask the same.
    fn others(&self) -> Vec<u32> {
        let MirrorOptions { number, total, .. } = self.options;
        (1..total).map(|step| (number + step) % total).collect()
    }
}

type Fetching<'a> = Pin<Box<dyn Future<Output = Snapshot<KeyedState>> + Send + 'a>>;

/// A mirror's part in one stream, that is, with one origin.
struct Following<'a> {
    shared: &'a Shared,
    changed: &'a watch::Sender<Cut>,
    client: &'a Client,
    stream: EndpointStream,
    joining: Option<(Kept, Fetching<'a>)>,
}

impl<'a> Following<'a> {
    fn new(
        shared: &'a Shared,
        changed: &'a watch::Sender<Cut>,
        client: &'a Client,
        stream: EndpointStream,
    ) -> Self {
        Self { shared, changed, client, stream, joining: None }
    }

    async fn run(mut self) {
        loop {
            let packet = tokio::select! {
                biased;
                snapshot = fetched(&mut self.joining) => match self.restored(snapshot).await {
                    Ok(()) => continue,
                    Err(why) => return self.stream.leave(why),
                },
                packet = self.stream.recv() => packet,
            };
            let Some(packet) = packet else { return };
            if let Err(why) = self.take(packet).await {
                return self.stream.leave(why);
            }
        }
    }

    /// Takes a packet. An error is the reason why this mirror leaves the stream.
    async fn take(&mut self, packet: Packet) -> Result<(), String> {
        if self.joining.is_some() {
            return self.keep(packet).await;
        }
        let taken = {
            let mut held = self.shared.held();
            let was_current = held.is_current;
            let taken = held.deciding.take(&packet.payload, self.shared.serving.pending());
            match taken {
                Ok(Taken::Voted(_)) => held.is_current = true,
                Err(MirrorError::Gap { .. }) => held.is_current = false,
                _ => {}
            }
            if held.is_current && !was_current {
                // Readers wait for a mirror that is not current.
                self.changed.send_replace(held.deciding.cut());
            }
            taken
        };
        match taken {
            Ok(Taken::Voted(vote)) => self.vote(packet.tag, vote).await,
            Ok(Taken::Applied { events, .. }) => {
                if events > 0 {
                    self.changed.send_replace(self.shared.held().deciding.cut());
                }
                Ok(())
            }
            Ok(Taken::Committed(_)) => Ok(()),
            Err(MirrorError::Gap { given, .. }) => {
                self.join(given - 1);
                self.keep(packet).await
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Keeps a packet until the snapshot is there. A checkpoint is answered at once.
    async fn keep(&mut self, packet: Packet) -> Result<(), String> {
        if let Ok(Down::Checkpoint(checkpoint)) = Down::read(&packet.payload) {
            let monitored = Monitored::default();
            let vote = Vote { number: checkpoint.number, position: checkpoint.position, monitored };
            return self.vote(packet.tag, vote).await;
        }
        if let Some((kept, _)) = &mut self.joining {
            kept.push(packet, self.shared.options.limits.backup_bytes_max);
        }
        Ok(())
    }

    async fn vote(&mut self, tag: u64, vote: Vote) -> Result<(), String> {
        let row = vote.to_numbers().into_iter().fold(Row::new(), Row::i64);
        let sent = self.stream.send_tagged(tag, row.packet().into_bytes()).await;
        sent.map_err(|error| error.to_string())
    }

    /// Begins to fetch a snapshot at `position` or after it.
    fn join(&mut self, position: u64) {
        let options = &self.shared.options;
        let epoch = self.shared.held().deciding.cut().epoch;
        tracing::info!(feed = %options.feed, mirror = options.number, position, "taking a snapshot");
        let others = self.shared.others();
        let empty = || options.empty_state();
        let fetching = fetch(self.client.clone(), options.feed.clone(), others, epoch, position, empty);
        self.joining = Some((Kept::default(), Box::pin(fetching)));
    }

    async fn restored(&mut self, snapshot: Snapshot<KeyedState>) -> Result<(), String> {
        let cut = snapshot.cut;
        let deciding = treefold_mirror::mirror::Mirror::new(snapshot, &self.shared.options.limits);
        {
            let mut held = self.shared.held();
            (held.deciding, held.is_current) = (deciding, true);
        }
        self.changed.send_replace(cut);
        if let Some((mut kept, _)) = self.joining.take() {
            for packet in kept.take() {
                self.take(packet).await?;
            }
        }
        Ok(())
    }
}

async fn fetched(joining: &mut Option<(Kept, Fetching<'_>)>) -> Snapshot<KeyedState> {
    match joining {
        Some((_, fetching)) => fetching.await,
        None => std::future::pending().await,
    }
}
