//! The origin's task: takes events from sources, sends packets to the mirrors, and takes their votes.
//!
//! One task owns the deciding [`treefold_mirror::origin::Origin`] and the stream. It sends one packet at a time.
//! While the stream's window is full, packets wait in the origin's ready queue; if that is full too, the origin
//! refuses events as busy.

use crate::{Acknowledged, FeedParams, random_seed, unix_ms};
use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use treefold::operators::packet::Packet;
use treefold::{Client, Error, PartitionSet, Stream, StreamEvent, StreamWave, Synchronisation};
use treefold_core::time::Instant;
use treefold_mirror::origin::{Numbers, Refusal};
use treefold_mirror::packet::Vote;
use treefold_mirror::rules::{Mode, RuleFile};
use treefold_mirror::select::{Functions, UnknownFunction};
use treefold_mirror::{Cut, Event, MirrorLimits};

/// Requests of sources that may wait. Above it, sources wait before they hand one over.
const ASKS_MAX: usize = 256;
/// Time between two questions whether the mirrors have the last events, which no checkpoint covers yet.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// Time that a checkpoint waits for a mirror's vote.
const VOTES_WITHIN: Duration = Duration::from_secs(1);

/// Settings of an origin.
pub struct OriginOptions {
    /// The rules that choose events.
    pub rules: Arc<RuleFile>,
    /// The functions that rules name.
    pub functions: Functions,
    /// The limits.
    pub limits: MirrorLimits,
    /// The place after which the feed continues. A new feed has epoch 1 and position 0.
    pub after: Cut,
    /// Hides from sources which keys share a slot of a table. Choose it at random.
    pub seed: u64,
}

impl OriginOptions {
    /// A new feed with these rules, and default settings.
    pub fn new(rules: RuleFile) -> Self {
        let (functions, limits) = (Functions::new(), MirrorLimits::default());
        let after = Cut { epoch: 1, position: 0 };
        Self { rules: Arc::new(rules), functions, limits, after, seed: random_seed() }
    }
}

/// An origin of a feed. Dropping it ends the feed's stream; mirrors keep their state.
#[derive(Debug)]
pub struct Origin {
    asks: mpsc::Sender<Ask>,
    acknowledged: watch::Receiver<Acknowledged>,
    running: JoinHandle<()>,
}

/// The present state of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginStatus {
    /// The place after the last event sent.
    pub cut: Cut,
    /// All mirrors that take part have the events up to this position.
    pub committed: u64,
    /// The mode of the rules.
    pub mode: Mode,
    /// The mirrors that take part.
    pub mirrors: PartitionSet,
    /// True if every offered event is sent, or suppressed for good.
    pub is_idle: bool,
}

/// The reason why an origin did not take an event.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// The origin refuses this event; it goes on.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The origin has ended. It may have sent the event.
    #[error("the origin has ended")]
    Ended,
}

/// The reason why an origin cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A rule names an unknown function.
    #[error(transparent)]
    Function(#[from] UnknownFunction),
    /// The stream to the mirrors could not be opened.
    #[error(transparent)]
    Stream(#[from] Error),
}

enum Ask {
    Offer(Event, oneshot::Sender<Result<(), Refusal>>),
    OfferAll(VecDeque<Event>, Numbers, oneshot::Sender<Taken>),
    Status(oneshot::Sender<OriginStatus>),
    Flush,
}

/// The events of a batch that the origin did not take, and the reason why it did not take the first of them.
type Taken = (VecDeque<Event>, Result<(), Refusal>);

impl Origin {
    /// Opens the stream to the mirrors of `feed` and starts. `client` needs a loop of its own, see
    /// [`Client::stream`]. To be called on a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(client: &Client, feed: &str, options: OriginOptions) -> Result<Self, StartError> {
        let OriginOptions { rules, functions, limits, after, seed } = options;
        let deciding = treefold_mirror::origin::Origin::new(after, rules, functions, limits, seed)?;
        let stream = client
            .stream(feed)
            .up_filter("min")
            .synchronisation(Synchronisation::TimeOut(VOTES_WITHIN))
            .params(&FeedParams { epoch: after.epoch })
            .open()
            .await?;
        let (asks, received) = mpsc::channel(ASKS_MAX);
        let (seen, began) = (stream.endpoints().clone(), std::time::Instant::now());
        let (told, acknowledged) = watch::channel(Acknowledged::default());
        let marks = VecDeque::new();
        let task = Task { deciding, stream, seen, asks: received, sending: None, began, marks, told };
        let feed = feed.to_owned();
        let running = tokio::spawn(async move {
            if let Err(error) = task.run().await {
                tracing::error!(%feed, %error, "the stream to the mirrors is over");
            }
        });
        Ok(Self { asks, acknowledged, running })
    }

    /// Offers an event. When this returns `Ok`, the origin has the event; mirrors may not have it yet.
    ///
    /// # Errors
    /// [`OfferError`].
    pub async fn offer(&self, event: Event) -> Result<(), OfferError> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::Offer(event, answer)).await.map_err(|_| OfferError::Ended)?;
        Ok(answered.await.map_err(|_| OfferError::Ended)??)
    }

    /// Offers events in their order, and removes each one that the origin has taken. Stops at the first event that
    /// it refuses; that event is then the first one left. A batch costs little more than one event.
    ///
    /// If this future is dropped before it returns, the origin may or may not have taken the events, and the caller
    /// has lost them.
    ///
    /// # Errors
    /// [`OfferError`].
    pub async fn offer_all(&self, events: &mut VecDeque<Event>, numbers: Numbers) -> Result<(), OfferError> {
        let (answer, answered) = oneshot::channel();
        let ask = Ask::OfferAll(std::mem::take(events), numbers, answer);
        self.asks.send(ask).await.map_err(|_| OfferError::Ended)?;
        let (left, taken) = answered.await.map_err(|_| OfferError::Ended)?;
        *events = left;
        Ok(taken?)
    }

    /// Sends the events that rules hold back, and asks all mirrors for their votes now, instead of after
    /// `every_events` events. [`status`](Self::status) tells when they are committed.
    pub async fn flush(&self) {
        // An origin that has ended has nothing to send.
        let _ = self.asks.send(Ask::Flush).await;
    }

    /// The acknowledged events of each incoming stream, and every later change.
    pub fn acknowledged(&self) -> watch::Receiver<Acknowledged> {
        self.acknowledged.clone()
    }

    /// The present state. `None` if the origin has ended.
    pub async fn status(&self) -> Option<OriginStatus> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::Status(answer)).await.ok()?;
        answered.await.ok()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.running.abort();
    }
}

type Sending = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>;

struct Task {
    deciding: treefold_mirror::origin::Origin,
    stream: Stream,
    /// The mirrors that have taken part. The others cannot be silent.
    seen: PartitionSet,
    asks: mpsc::Receiver<Ask>,
    /// The packet that waits for room in the stream's window.
    sending: Option<Sending>,
    began: std::time::Instant,
    /// Progress of the incoming streams at positions that are not committed.
    marks: VecDeque<(u64, Acknowledged)>,
    told: watch::Sender<Acknowledged>,
}

impl Task {
    async fn run(mut self) -> Result<(), Error> {
        // A mirror that is behind learns it, although no event comes.
        self.deciding.request_votes();
        let mut ask = tokio::time::interval(ASK_EVERY);
        ask.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            self.send_next();
            let wake = self.deciding.wake_at().filter(|_| self.sending.is_none());
            let wait = wake.map(|at| Duration::from(at.since(self.now())));
            tokio::select! {
                biased;
                sent = sent(&mut self.sending) => {
                    sent?;
                    self.sending = None;
                }
                event = self.stream.next() => self.take(event?),
                asked = self.asks.recv() => match asked {
                    Some(ask) => self.answer_all(ask),
                    None => return Ok(()),
                },
                _ = ask.tick(), if self.deciding.log().committed() < self.deciding.cut().position => {
                    self.deciding.request_votes();
                }
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                    let now = self.now();
                    self.deciding.handle_timeout(now);
                }
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn send_next(&mut self) {
        if self.sending.is_some() {
            return;
        }
        if let Some(packet) = self.deciding.poll_packet(self.now(), unix_ms()) {
            let sender = self.stream.sender();
            self.sending = Some(Box::pin(async move { sender.send(packet).await }));
            let streams = self.deciding.streams().map(|(stream, number)| (stream.clone(), number)).collect();
            self.marks.push_back((self.deciding.cut().position, streams));
        }
    }

    fn take(&mut self, event: StreamEvent<Bytes>) {
        match event {
            StreamEvent::Wave(wave) => self.take_votes(&wave),
            // A mirror that joined learns whether it lacks events.
            StreamEvent::Changed { endpoints, .. } => {
                self.seen.union_with(&endpoints);
                self.deciding.request_votes();
            }
            _ => {}
        }
    }

    fn take_votes(&mut self, wave: &StreamWave<Bytes>) {
        let missing = wave.missing.iter().flat_map(|missing| missing.partitions.iter());
        let silent: Vec<u32> = missing.filter(|&mirror| self.seen.contains(mirror)).collect();
        let now = self.now();
        for packet in &wave.packets {
            match read_vote(packet) {
                Some(vote) => self.deciding.handle_votes(now, vote, &silent),
                None => tracing::warn!(tag = wave.tag, "a wave has no valid vote"),
            }
        }
        let committed = self.deciding.log().committed();
        while self.marks.front().is_some_and(|(position, _)| *position <= committed)
            && let Some((_, streams)) = self.marks.pop_front()
        {
            self.told.send_replace(streams);
        }
    }

    /// Answers a source, and all others that wait, so that their events share a packet.
    fn answer_all(&mut self, first: Ask) {
        let now = self.now();
        self.answer(now, first);
        for _ in 1..ASKS_MAX {
            match self.asks.try_recv() {
                Ok(ask) => self.answer(now, ask),
                Err(_) => return,
            }
        }
    }

    fn answer(&mut self, now: Instant, ask: Ask) {
        match ask {
            // A source that does not wait for its answer has gone.
            Ask::Offer(event, answer) => drop(answer.send(self.deciding.offer(now, event))),
            Ask::OfferAll(events, numbers, answer) => {
                drop(answer.send(self.take_events(now, events, numbers)));
            }
            Ask::Status(answer) => drop(answer.send(self.status())),
            Ask::Flush => {
                self.deciding.release_all(now);
                self.deciding.request_votes();
            }
        }
    }

    fn take_events(&mut self, now: Instant, mut events: VecDeque<Event>, numbers: Numbers) -> Taken {
        while let Some(event) = events.front() {
            // Cloning shares the bytes.
            if let Err(refusal) = self.deciding.offer_numbered(now, event.clone(), numbers) {
                return (events, Err(refusal));
            }
            events.pop_front();
        }
        (events, Ok(()))
    }

    fn status(&self) -> OriginStatus {
        OriginStatus {
            cut: self.deciding.cut(),
            committed: self.deciding.log().committed(),
            mode: self.deciding.mode(),
            mirrors: self.stream.endpoints().clone(),
            is_idle: self.sending.is_none() && self.deciding.wake_at().is_none(),
        }
    }
}

async fn sent(sending: &mut Option<Sending>) -> Result<u64, Error> {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

fn read_vote(packet: &Bytes) -> Option<Vote> {
    let packet = Packet::read(packet).ok()?;
    let mut numbers = [0; 5];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = packet.i64(at).ok()?;
    }
    Vote::from_numbers(numbers)
}
