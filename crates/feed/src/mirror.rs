//! A mirror's task: gives the origin's packets to the deciding [`Follower`], sends its votes, and fetches the
//! snapshots that it needs.

use crate::http::{HttpListener, HttpOptions, ListenError};
use crate::joining::fetch;
use crate::promising::{Asked, PromiseFile, promising};
use crate::reading::readable;
use crate::serving::{Hall, ReaderLimits, Serving, serve};
use crate::{FeedParams, random_seed};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use treefold::endpoint::{Acceptor, Arrival, EndpointStream, Missed, Packet, accept};
use treefold::operators::packet::Row;
use treefold::operators::{OperatorError, Result};
use treefold::{Body, Client, Right, Service};
use treefold_mirror::follow::{Followed, Follower, Opening, RestoreError};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::mirror::{MirrorError, Taken};
use treefold_mirror::packet::Vote;
use treefold_mirror::promotion::{Pledge, Promise, PromiseRefusal};
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::snapshot::Snapshot;
use treefold_mirror::{Cut, Lineage, MirrorLimits};

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
    /// The file that keeps the mirror's promises, without which nobody takes over the feed unless a person orders it.
    pub promises: Option<PromiseFile>,
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
    held: Mutex<Follower<KeyedState>>,
    /// Held while a promise is given, so that the file has the last one.
    promising: Mutex<()>,
    /// The last packet of an origin.
    heard_at: Mutex<Option<Instant>>,
    /// The address of the last listener for readers over HTTP.
    http: Mutex<Option<SocketAddr>>,
}

/// Makes a mirror: a service for a node's builder, and the mirror, to be started when the node runs.
///
/// # Panics
/// If the number is not below the total, or the total is above [`MIRRORS_MAX`](treefold_mirror::follow::MIRRORS_MAX).
pub fn mirror(options: MirrorOptions) -> (Service, Unstarted) {
    let (accepting, acceptor) = accept();
    let accepting = accepting.admit([Right::Feed, Right::Read].into_iter().collect());
    let shared = Arc::new(Shared::new(options));
    let service = Service::new(shared.options.feed.as_str())
        .total(shared.options.total)
        .partition_arc(shared.options.number, Arc::clone(&shared) as _)
        .endpoints([shared.options.number], accepting);
    (
        promising(readable(service)),
        Unstarted { acceptor, shared, changed: watch::Sender::new(Cut::default()) },
    )
}

impl MirrorOptions {
    /// Mirror `number` of at most `total` mirrors of a feed, with default settings.
    pub fn new(feed: impl Into<String>, number: u32, total: u32) -> Self {
        let (state, limits) = (StateOptions::default(), MirrorLimits::default());
        let readers = ReaderLimits::default();
        Self { feed: feed.into(), number, total, state, limits, readers, promises: None, seed: random_seed() }
    }

    pub(crate) fn empty_state(&self) -> KeyedState {
        KeyedState::new(self.state.clone(), &self.limits, self.seed)
    }

    pub(crate) fn empty(&self, cut: Cut) -> treefold_mirror::mirror::Mirror<KeyedState> {
        treefold_mirror::mirror::Mirror::new(Snapshot::beginning(cut, self.empty_state()), &self.limits)
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
            let opening = stream.opening();
            let denied =
                |right: Right| Err(format!("the opener's certificate does not give it the right to {right}"));
            let params = FeedParams::decode(&opening.spec.params);
            let begun = match params.map_err(|error| format!("not a feed's stream: {error}")) {
                Ok(FeedParams::Origin { .. }) if !opening.may(Right::Feed) => denied(Right::Feed),
                Ok(FeedParams::Reader(_)) if !opening.may(Right::Read) => denied(Right::Read),
                Ok(FeedParams::Origin { epoch, past, mirrors, candidate }) => {
                    let opened = Opened { epoch, past, mirrors, candidate };
                    self.shared.begin(&stream, opened)
                }
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
        self.shared.held().mirror().cut()
    }

    /// True if the mirror has had all events that the origin had sent at its last checkpoint.
    pub fn is_current(&self) -> bool {
        self.shared.held().is_current()
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
        let listener =
            HttpListener::start(&self.shared, self.changed.clone(), &self.hall.handle, options).await?;
        *locked(&self.shared.http) = Some(listener.addr());
        Ok(listener)
    }

    /// The number of readers that this mirror serves.
    pub fn readers(&self) -> usize {
        self.shared.serving.readers()
    }

    /// Reads the state while no event is applied. `read` should be short.
    pub fn read<T>(&self, read: impl FnOnce(Cut, &KeyedState) -> T) -> T {
        let held = self.shared.held();
        read(held.mirror().cut(), held.mirror().state())
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Shared {
    pub(crate) fn new(options: MirrorOptions) -> Self {
        let MirrorOptions { number, total, ref limits, .. } = options;
        let promise = options.promises.as_ref().map(PromiseFile::found).unwrap_or_default();
        let follower =
            Follower::new(number, total, options.empty(Cut::default()), limits).with_promise(promise);
        let serving = Serving::new(options.readers.clone());
        let (held, heard_at) = (Mutex::new(follower), Mutex::new(None));
        Self { options, serving, held, promising: Mutex::new(()), heard_at, http: Mutex::new(None) }
    }

    pub(crate) fn http(&self) -> Option<SocketAddr> {
        *locked(&self.http)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Follower<KeyedState>> {
        // A panic while an event is applied is a defect of the state; the others go on with what is there.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if it has all events that the origin had sent.
    pub(crate) fn current(&self) -> Result<MutexGuard<'_, Follower<KeyedState>>> {
        let held = self.held();
        if held.is_current() {
            return Ok(held);
        }
        Err(OperatorError::new("this mirror lacks events, or has had no origin yet"))
    }

    /// Prepares for the packets of a stream, or returns the reason for which this mirror takes no part in it.
    fn begin(&self, stream: &EndpointStream, opened: Opened) -> Result<(), String> {
        let Opened { epoch, past, mirrors, candidate } = opened;
        let total = self.options.total;
        if mirrors != total {
            return Err(format!("the origin counts {mirrors} mirrors of this feed, this mirror {total}"));
        }
        let past = Lineage::new(past).ok_or("the earlier epochs of the feed are out of order")?;
        let opening = Opening { stream: stream.opening().stream, epoch, past, candidate };
        let _promising = locked(&self.promising);
        let before = self.held().promised();
        self.held().begin(&opening, |cut| self.options.empty(cut)).map_err(|error| error.to_string())?;
        self.hear();
        let now = self.held().promised();
        match &self.options.promises {
            Some(file) if now != before => {
                file.write(now).map_err(|error| format!("the file of promises can't be written: {error}"))
            }
            _ => Ok(()),
        }
    }

    /// Promises an epoch to a candidate. The promise is durable when this returns, if the mirror has a file for it.
    pub(crate) fn promise(
        &self,
        &Asked { promise: asked, mirrors, silence_ms: asked_ms }: &Asked,
    ) -> std::io::Result<std::result::Result<Pledge, PromiseRefusal>> {
        let _promising = locked(&self.promising);
        if let Some(silent_ms) = self.silent_ms().filter(|&ms| ms < asked_ms) {
            return Ok(Err(PromiseRefusal::Hears { silent_ms, asked_ms }));
        }
        // In this order: no packet of an earlier epoch is taken after the promise, also if the file can't be written.
        if let Err(refusal) = self.held().promise(asked, mirrors) {
            return Ok(Err(refusal));
        }
        if let Some(file) = &self.options.promises {
            file.write(asked)?;
        }
        let (mirror, is_durable) = (self.options.number, self.options.promises.is_some());
        tracing::info!(feed = %self.options.feed, mirror, epoch = asked.epoch, "promised an epoch to a candidate");
        Ok(Ok(Pledge { mirror, log: self.held().pledged(), is_durable }))
    }

    /// Withdraws a promise. The one before is durable when this returns.
    pub(crate) fn withdraw(&self, promise: Promise) -> std::io::Result<bool> {
        let _promising = locked(&self.promising);
        let (is_withdrawn, now) = {
            let mut held = self.held();
            (held.withdraw(promise), held.promised())
        };
        // If this can't be written, the mirror promises more after a restart than now, which is safe.
        if let Some(file) = self.options.promises.as_ref().filter(|_| is_withdrawn) {
            file.write(now)?;
        }
        Ok(is_withdrawn)
    }

    /// Notes a sign of life of the origin.
    fn hear(&self) {
        *locked(&self.heard_at) = Some(Instant::now());
    }

    /// The time since the last sign of life of an origin, in ms.
    pub(crate) fn silent_ms(&self) -> Option<u64> {
        locked(&self.heard_at).map(|at| at.elapsed().as_millis() as u64)
    }

    /// The other mirrors, beginning behind this one, so that not all ask the same.
    pub(crate) fn others(&self) -> Vec<u32> {
        let MirrorOptions { number, total, .. } = self.options;
        (1..total).map(|step| (number + step) % total).collect()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // These hold values that are replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wishes of an origin that has opened a stream.
struct Opened {
    epoch: u32,
    past: Vec<Cut>,
    mirrors: u32,
    candidate: Option<u64>,
}

type Fetching = Pin<Box<dyn Future<Output = Snapshot<KeyedState>> + Send>>;

/// A mirror's part in one stream, that is, with one origin.
struct Following<'a> {
    shared: &'a Arc<Shared>,
    changed: &'a watch::Sender<Cut>,
    client: &'a Client,
    stream: EndpointStream,
    fetching: Option<Fetching>,
}

impl<'a> Following<'a> {
    fn new(
        shared: &'a Arc<Shared>,
        changed: &'a watch::Sender<Cut>,
        client: &'a Client,
        stream: EndpointStream,
    ) -> Self {
        Self { shared, changed, client, stream, fetching: None }
    }

    async fn run(mut self) {
        loop {
            let taken = tokio::select! {
                biased;
                snapshot = fetched(&mut self.fetching) => {
                    self.fetching = None;
                    self.restore(snapshot)
                }
                arrival = self.stream.next() => match arrival {
                    Some(Arrival::Packet(packet)) => self.take(packet).await,
                    Some(Arrival::Missed(missed)) => {
                        self.miss(missed);
                        Ok(())
                    }
                    None => return,
                },
            };
            if let Err(why) = taken {
                return self.stream.leave(why);
            }
        }
    }

    /// Takes a packet. An error is the reason why this mirror leaves the stream.
    async fn take(&mut self, packet: Packet) -> Result<(), String> {
        let (followed, cut) = {
            let mut held = self.shared.held();
            let was_current = held.is_current();
            let followed = held.take(&packet.payload, self.shared.serving.pending());
            let cut = held.mirror().cut();
            if held.is_current() && !was_current {
                // Readers wait for a mirror that is not current.
                self.changed.send_replace(cut);
            }
            (followed, cut)
        };
        let followed = match followed {
            // The candidate may give up, and this origin goes on. Until then it is none of this mirror.
            Err(MirrorError::Promised { .. }) => return Ok(()),
            followed => followed.map_err(|error| error.to_string())?,
        };
        self.shared.hear();
        match followed {
            Followed::Votes(vote) => self.vote(packet.tag, &vote).await?,
            Followed::Took(Taken::Applied { events, .. }) if events > 0 => _ = self.changed.send_replace(cut),
            Followed::Took(_) | Followed::Kept => {}
        }
        self.fetch_if_needed();
        Ok(())
    }

    /// Notes that this mirror lagged. If it lacks events, the next packet shows it, and it takes a snapshot.
    fn miss(&self, missed: Missed) {
        let MirrorOptions { feed, number, .. } = &self.shared.options;
        tracing::warn!(%feed, mirror = number, packets = missed.packets(), "lagged, and missed packets");
        self.shared.held().miss();
    }

    async fn vote(&mut self, tag: u64, vote: &Vote) -> Result<(), String> {
        let (numbers, held) = vote.to_numbers();
        let row = numbers.into_iter().fold(Row::new(), Row::i64).i64s(held);
        let sent = self.stream.send_tagged(tag, row.packet().into_bytes()).await;
        sent.map_err(|error| error.to_string())
    }

    /// Begins to fetch a snapshot if the mirror waits for one, and stops if it no longer does.
    fn fetch_if_needed(&mut self) {
        let (joins_at, epoch) = {
            let held = self.shared.held();
            (held.joins_at(), held.mirror().cut().epoch)
        };
        let Some(position) = joins_at else {
            self.fetching = None;
            return;
        };
        if self.fetching.is_some() {
            return;
        }
        let MirrorOptions { feed, number, .. } = &self.shared.options;
        tracing::info!(%feed, mirror = number, position, "taking a snapshot");
        self.fetching =
            Some(Box::pin(fetch(self.client.clone(), Arc::clone(self.shared), Cut { epoch, position })));
    }

    fn restore(&mut self, snapshot: Snapshot<KeyedState>) -> Result<(), String> {
        let cut = {
            let mut held = self.shared.held();
            match held.restore(snapshot, &self.shared.options.limits) {
                // If the candidate gives up, the next packet asks for a snapshot again.
                Err(RestoreError::Packet(MirrorError::Promised { .. })) => return Ok(()),
                // The mirror could not keep all packets meanwhile, and needs a newer snapshot.
                Err(error @ RestoreError::Old { .. }) => {
                    drop(held);
                    let MirrorOptions { feed, number, .. } = &self.shared.options;
                    tracing::warn!(%feed, mirror = number, %error, "asking again");
                    self.fetch_if_needed();
                    return Ok(());
                }
                restored => restored.map_err(|error| error.to_string())?,
            }
            held.mirror().cut()
        };
        self.changed.send_replace(cut);
        self.fetch_if_needed();
        Ok(())
    }
}

async fn fetched(fetching: &mut Option<Fetching>) -> Snapshot<KeyedState> {
    match fetching {
        Some(fetching) => fetching.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

    use super::*;
    use treefold::Node;

    #[tokio::test]
    async fn mirror_refuses_an_origin_that_counts_other_mirrors() {
        let (service, unstarted) = mirror(MirrorOptions::new("flights", 1, 3));
        let node = Node::builder().service(service).start().await.unwrap();
        let mirror = unstarted.start(node.client());
        let begin = |mirrors| FeedParams::Origin { epoch: 1, past: Vec::new(), mirrors, candidate: None };
        let mut stream = node.client().stream("flights").params(&begin(2)).open().await.unwrap();
        while stream.missing().iter().all(|missing| !missing.reason.to_string().contains("counts 2 mirrors"))
        {
            stream.next().await.unwrap();
        }
        assert_eq!(mirror.cut().epoch, 0, "it takes no part");
        let _stream = node.client().stream("flights").params(&begin(3)).open().await.unwrap();
        while mirror.cut().epoch != 1 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}
