//! The origin's task: takes events from sources, sends packets to the mirrors, and takes their votes.
//!
//! ```text
//!  offer ─▶ deciding Origin ─▶ pending ─▶ journal (a thread) ─▶ durable ─▶ stream to the mirrors
//!                 ▲                                                             │
//!                 └──────────────────────── votes, folded ◀─────────────────────┘
//! ```
//!
//! One task owns the deciding [`treefold_mirror::origin::Origin`] and the stream. **A packet is durable before any
//! mirror gets it**, so that no mirror and no reader knows an event that a new origin would not find in the journal.
//! While packets wait for the journal, or for the stream's window, events gather in the origin's ready queue; if that
//! is full too, the origin refuses events as busy.

mod orders;

pub(crate) use self::orders::Orders;
use self::orders::{Order, Waiting};
pub use self::orders::{PresentRules, Set, SetError};
use crate::journaling::{JournalState, Journaling, WRITES_MAX};
use crate::reading::{MirrorStatus, STATUS};
use crate::{FeedParams, random_seed, unix_ms};
use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use treefold::operators::packet::Packet;
use treefold::{
    Client, Error, Missing, PartitionSet, Reason, Stream, StreamEvent, StreamWave, Synchronisation,
};
use treefold_core::time::Instant;
use treefold_journal::{Epoch, Journal, JournalError};
use treefold_mirror::checkpoint::Shortage;
use treefold_mirror::origin::{Numbers, Outgoing, Refusal};
use treefold_mirror::packet::Vote;
use treefold_mirror::recovery::{Recovery, RecoveryError};
use treefold_mirror::rules::{Mode, RuleFile};
use treefold_mirror::select::{Functions, UnknownFunction};
use treefold_mirror::{Cut, Event, Lineage, MirrorLimits, Name};

/// Requests of sources that may wait. Above it, sources wait before they hand one over.
const ASKS_MAX: usize = 256;
/// Time that a checkpoint waits for all mirrors. Later votes count too.
const VOTES_WITHIN: Duration = Duration::from_millis(100);

/// Time that mirrors have to tell how far they are, before an origin continues after a journal.
const STATUS_WITHIN: Duration = Duration::from_millis(250);

/// Settings of an origin.
pub struct OriginOptions {
    /// The rules that choose events.
    pub rules: Arc<RuleFile>,
    /// The functions that rules name.
    pub functions: Functions,
    /// The limits.
    pub limits: MirrorLimits,
    /// The epoch of a new feed, from 1. With a journal that has had an epoch, the feed continues in the journal's next
    /// epoch, or in this one if it is later.
    pub epoch: u32,
    /// The number of mirrors that must have an event before it is acknowledged. With 0, events are acknowledged that
    /// only this origin has, and a broken disk, or the death of an origin without a journal, loses them.
    pub copies: u32,
    /// The journal. Without one, events that are not at a mirror are lost with the origin.
    pub journal: Option<Box<dyn Journal>>,
    /// Hides from sources which keys share a slot of a table. Choose it at random.
    pub seed: u64,
}

impl OriginOptions {
    /// A new feed with these rules, and default settings.
    pub fn new(rules: RuleFile) -> Self {
        let (functions, limits) = (Functions::new(), MirrorLimits::default());
        let (epoch, copies, journal) = (1, 1, None);
        Self { rules: Arc::new(rules), functions, limits, epoch, copies, journal, seed: random_seed() }
    }
}

/// An origin of a feed. Dropping it ends the feed's stream; mirrors keep their state.
#[derive(Debug)]
pub struct Origin {
    asks: mpsc::Sender<Ask>,
    acknowledged: watch::Receiver<Acknowledged>,
    journal: Option<watch::Receiver<JournalState>>,
    running: JoinHandle<()>,
}

/// For each incoming stream, the number up to which all its events are acknowledged: in the origin's journal, if it
/// has one, and at as many mirrors as [`OriginOptions::copies`] says; or suppressed by a rule for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged(Vec<(Name, u64)>);

impl Acknowledged {
    /// The number up to which the events of a stream are acknowledged.
    pub fn of(&self, stream: &str) -> Option<u64> {
        self.0.iter().find(|(name, _)| name.as_str() == stream).map(|&(_, number)| number)
    }

    /// All streams that have acknowledged events.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.0.iter().map(|(name, number)| (name, *number))
    }
}

impl FromIterator<(Name, u64)> for Acknowledged {
    fn from_iter<I: IntoIterator<Item = (Name, u64)>>(numbers: I) -> Self {
        Self(numbers.into_iter().collect())
    }
}

/// The present state of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginStatus {
    /// The place after the last event sent.
    pub cut: Cut,
    /// All mirrors that take part, and at least [`OriginOptions::copies`] of them, have the events up to this position.
    pub committed: u64,
    /// The reason why nothing is committed or acknowledged any more, if fewer mirrors than
    /// [`OriginOptions::copies`] take part.
    pub shortage: Option<Shortage>,
    /// The mode of the rules.
    pub mode: Mode,
    /// The mirrors that take part.
    pub mirrors: PartitionSet,
    /// The version of the rules that chose the last event.
    pub rules_version: u32,
    /// The problem of the journal that holds up all events, for instance a full disk.
    pub journal_problem: Option<Arc<str>>,
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

/// The reason why an origin has ended by itself.
#[derive(Debug, thiserror::Error)]
enum EndError {
    #[error("the stream to the mirrors is over: {0}")]
    Stream(#[from] Error),
    #[error("the journal has failed: {0}")]
    Journal(Arc<str>),
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
    /// The journal can't be read, or can't begin an epoch.
    #[error("the journal: {0}")]
    Journal(#[from] JournalError),
    /// The feed has had as many epochs as can be counted.
    #[error("the journal is of epoch {}, the last one; begin a new feed with another name", u32::MAX)]
    Epochs,
    /// The journal has something else than a feed's events.
    #[error("the journal: {0}")]
    Recovery(#[from] RecoveryError),
}

enum Ask {
    Offer(Event, oneshot::Sender<Result<(), Refusal>>),
    OfferAll(VecDeque<Event>, Numbers, oneshot::Sender<Taken>),
    Status(oneshot::Sender<OriginStatus>),
    HeldBy(Name, u64, oneshot::Sender<Option<String>>),
    Flush,
    Order(Order),
}

/// The events of a batch that the origin did not take, and the reason why it did not take the first of them.
type Taken = (VecDeque<Event>, Result<(), Refusal>);

impl Origin {
    /// Opens the stream to the mirrors of `feed` and starts. With a journal, continues after its last event.
    /// `client` needs a loop of its own, see [`Client::stream`]. To be called on a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(client: &Client, feed: &str, options: OriginOptions) -> Result<Self, StartError> {
        let OriginOptions { rules, functions, limits, epoch, copies, journal, seed } = options;
        let mirror_lag_bytes_max = limits.mirror_lag_bytes_max as u64;
        let (deciding, past, journal) = match journal {
            None => {
                let begin = Cut { epoch, position: 0 };
                let deciding = treefold_mirror::origin::Origin::new(begin, rules, functions, limits, seed)?;
                (deciding, Lineage::default(), None)
            }
            Some(mut journal) => {
                // Reading a journal may take long, and its disk or server may wait.
                let recovering = tokio::task::spawn_blocking(move || {
                    let recovery = recover(&mut *journal, epoch)?;
                    Ok::<_, StartError>((recovery, journal))
                });
                let (recovery, journal) = recovering.await.expect("invariant: recovery does not panic")?;
                let past = recovery.past().clone();
                let held = held_by_mirrors(client, feed, &recovery).await;
                let deciding =
                    treefold_mirror::origin::Origin::recover(recovery, held, rules, functions, limits, seed)?;
                (deciding, past, Some(journal))
            }
        };
        let mirrors = mirrors_of(client, feed).await?;
        let params = FeedParams::Origin { epoch: deciding.cut().epoch, past: past.ends().to_vec(), mirrors };
        let stream = client
            .stream(feed)
            .up_filter("min")
            .synchronisation(Synchronisation::TimeOut(VOTES_WITHIN))
            .params(&params)
            .lag_bytes_max(mirror_lag_bytes_max)
            .open()
            .await?;
        let (asks, received) = mpsc::channel(ASKS_MAX);
        let (telling, acknowledged) = watch::channel(Acknowledged::default());
        let task = Task {
            deciding: deciding.with_copies(copies),
            stream,
            journal: journal.map(Journaling::start),
            pending: VecDeque::new(),
            asks: received,
            acknowledged: telling,
            mirrors,
            has_warned: false,
            sending: None,
            waiting: Waiting::default(),
            began: std::time::Instant::now(),
        };
        let (feed, journal) = (feed.to_owned(), task.journal.as_ref().map(Journaling::watch));
        let running = tokio::spawn(async move {
            if let Err(error) = task.run().await {
                tracing::error!(%feed, %error, "the origin has ended");
            }
        });
        Ok(Self { asks, acknowledged, journal, running })
    }

    /// The acknowledged events. A source that dies repeats its events from the first one that is not acknowledged.
    pub fn acknowledged(&self) -> watch::Receiver<Acknowledged> {
        self.acknowledged.clone()
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

    /// The name of the rule that holds an event back. `None` if none does, or if the origin has ended.
    pub async fn held_by(&self, stream: &Name, number: u64) -> Option<String> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(Ask::HeldBy(stream.clone(), number, answer)).await.ok()?;
        answered.await.ok().flatten()
    }

    /// Sends the events that rules hold back, and asks all mirrors for their votes now, instead of after
    /// `every_events` events. [`status`](Self::status) tells when they are committed.
    pub async fn flush(&self) {
        // An origin that has ended has nothing to send.
        let _ = self.asks.send(Ask::Flush).await;
    }

    /// Ends the feed's stream, and closes the journal. Events that are not acknowledged may be lost.
    pub async fn end(mut self) {
        self.running.abort();
        // An origin that has ended by itself has reported the reason.
        let _ = (&mut self.running).await;
        if let Some(journal) = &mut self.journal {
            while journal.changed().await.is_ok() {}
        }
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

/// Begins the next epoch of a journal, `least` or a later one, and reads the events that it has.
fn recover(journal: &mut dyn Journal, least: u32) -> Result<Recovery, StartError> {
    let earlier = journal.epochs().to_vec();
    if earlier.is_empty() {
        journal.begin_after(0)?;
    }
    let known = earlier.last().map_or(0, |epoch| epoch.number);
    let epoch = known.checked_add(1).ok_or(StartError::Epochs)?.max(least);
    journal.begin_epoch(epoch)?;
    // An epoch ends where the next one begins.
    let last = journal.last();
    let begun = earlier.iter().skip(1).map(|epoch| epoch.after.min(last)).chain([last]);
    let end = |(epoch, position): (&Epoch, u64)| Cut { epoch: epoch.number, position };
    let past = earlier.iter().zip(begun).map(end).fold(Lineage::default(), Lineage::ended);
    let first = journal.first();
    let mut recovery = Recovery::new(epoch, past, first - 1);
    let mut taken = Ok(());
    journal.read_after(first - 1, &mut |stored| {
        if taken.is_ok() {
            taken = recovery.take(stored.first, stored.last, &stored.payload);
        }
    })?;
    taken?;
    Ok(recovery)
}

type Sending = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>;

struct Task {
    deciding: treefold_mirror::origin::Origin,
    stream: Stream,
    journal: Option<Journaling>,
    /// Packets that wait for the journal or for the stream, in order.
    pending: VecDeque<Outgoing>,
    asks: mpsc::Receiver<Ask>,
    acknowledged: watch::Sender<Acknowledged>,
    /// The number of mirrors that the feed may have.
    mirrors: u32,
    /// It has been logged that a checkpoint had no valid vote.
    has_warned: bool,
    /// The packet that waits for room in the stream's window.
    sending: Option<Sending>,
    /// Callers of [`Origin::set`].
    waiting: Waiting,
    began: std::time::Instant,
}

impl Task {
    async fn run(mut self) -> Result<(), EndError> {
        let seated = self.stream.endpoints().clone();
        // A mirror that is behind learns it, although no event comes.
        self.deciding.handle_mirrors(self.now(), seated.iter());
        loop {
            self.send_next();
            self.tell_applied();
            let wake = self.deciding.wake_at().filter(|_| self.pending.len() < self.pending_max());
            let wait = wake.map(|at| Duration::from(at.since(self.now())));
            tokio::select! {
                biased;
                sent = sent(&mut self.sending) => {
                    sent?;
                    self.sending = None;
                }
                () = changed(&mut self.journal) => self.note_journal()?,
                event = self.stream.next() => self.take(event?),
                asked = self.asks.recv() => match asked {
                    Some(ask) => self.answer_all(ask),
                    None => return Ok(()),
                },
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

    /// Packets that may wait for the journal or the stream. Without a journal it is one, so that the events of a slow
    /// stream gather in large packets.
    fn pending_max(&self) -> usize {
        if self.journal.is_some() { WRITES_MAX } else { 1 }
    }

    /// Gives packets to the journal, and the next durable one to the stream.
    fn send_next(&mut self) {
        while self.pending.len() < self.pending_max()
            && let Some(outgoing) = self.deciding.poll_packet(self.now(), unix_ms())
        {
            if let (Some(journal), Some((first, last))) = (&mut self.journal, outgoing.events)
                && !journal.has(last)
            {
                journal.write(first, last, outgoing.packet.clone());
            }
            self.pending.push_back(outgoing);
        }
        let durable = self.journal.as_ref().map_or(u64::MAX, |journal| journal.state().durable);
        let is_durable = |outgoing: &Outgoing| outgoing.events.is_none_or(|(_, last)| last <= durable);
        if self.sending.is_none()
            && self.pending.front().is_some_and(is_durable)
            && let Some(outgoing) = self.pending.pop_front()
        {
            let sender = self.stream.sender();
            self.sending = Some(Box::pin(async move { sender.send(outgoing.packet).await }));
        }
        self.acknowledge();
    }

    /// Tells sources which events are acknowledged now.
    fn acknowledge(&mut self) {
        if self.deciding.advance_acknowledged() {
            let numbers = self.deciding.acknowledged().map(|(name, number)| (name.clone(), number));
            self.acknowledged.send_replace(Acknowledged(numbers.collect()));
        }
        // Also without a journal, because this forgets what a journal would need.
        let needless = self.deciding.trim_journal();
        if let Some(journal) = &self.journal {
            journal.trim(needless);
        }
    }

    fn note_journal(&mut self) -> Result<(), EndError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let state = journal.state();
        self.deciding.handle_durable(state.durable);
        match state.problem {
            Some(problem) if state.has_failed => Err(EndError::Journal(problem)),
            Some(problem) => {
                tracing::warn!(%problem, "the journal holds up all events");
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn take(&mut self, event: StreamEvent<Bytes>) {
        match event {
            StreamEvent::Wave(wave) => self.take_votes(&wave),
            // A mirror that joined learns whether it lacks events.
            StreamEvent::Changed { endpoints, .. } => {
                self.deciding.handle_mirrors(self.now(), endpoints.iter());
            }
            _ => {}
        }
    }

    fn take_votes(&mut self, wave: &StreamWave<Bytes>) {
        let now = self.now();
        let is_valid = take_votes(&mut self.deciding, now, wave, self.mirrors);
        if !is_valid && !std::mem::replace(&mut self.has_warned, true) {
            let missing = &wave.missing;
            tracing::warn!(tag = wave.tag, ?missing, "a checkpoint has no valid vote; this is logged once");
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
            Ask::HeldBy(stream, number, answer) => {
                drop(answer.send(self.deciding.selector().held_by(&stream, number).map(str::to_owned)));
            }
            Ask::Flush => {
                self.deciding.release_all(now);
                self.deciding.request_votes(now);
            }
            Ask::Order(order) => self.obey(now, order),
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
            shortage: self.deciding.checkpoints().shortage(),
            mode: self.deciding.mode(),
            mirrors: self.stream.endpoints().clone(),
            rules_version: self.deciding.rules_version(),
            journal_problem: self.journal.as_ref().and_then(|journal| journal.state().problem),
            is_idle: self.sending.is_none() && self.pending.is_empty() && self.deciding.is_idle(),
        }
    }
}

async fn sent(sending: &mut Option<Sending>) -> Result<u64, Error> {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

async fn changed(journal: &mut Option<Journaling>) {
    match journal {
        Some(journal) => journal.changed().await,
        None => std::future::pending().await,
    }
}

/// The position that all mirrors have which can go on with their state. 0 if none can.
async fn held_by_mirrors(client: &Client, feed: &str, recovery: &Recovery) -> u64 {
    let mirrors = client
        .call::<Vec<MirrorStatus>>(&format!("{feed}/{STATUS}"), &())
        .min_coverage(0.0)
        .deadline(STATUS_WITHIN)
        .await;
    // A mirror that does not answer, and is further behind, takes a snapshot of another one.
    let mirrors = mirrors.ok().and_then(|reply| reply.value).unwrap_or_default();
    let goes_on = |mirror: &MirrorStatus| {
        let cut = Cut { epoch: mirror.epoch, position: mirror.position };
        mirror.is_current && recovery.past().has(cut, recovery.cut().epoch)
    };
    mirrors.iter().filter(|mirror| goes_on(mirror)).map(|mirror| mirror.position).min().unwrap_or(0)
}

/// The number of mirrors that the feed may have, as its mirrors declare it.
async fn mirrors_of(client: &Client, feed: &str) -> Result<u32, Error> {
    let totals = client.status().await?.totals;
    // Nobody has a vote in a feed without mirrors; opening the stream tells the problem.
    Ok(totals.iter().find(|known| known.service == feed).map_or(0, |known| known.agreed.total))
}

/// Takes the votes of a wave. Leases run on without a vote: mirrors whose votes can't be folded must not hold up the
/// others for good. Returns false if there are votes of which none is valid.
fn take_votes(
    deciding: &mut treefold_mirror::origin::Origin,
    now: Instant,
    wave: &StreamWave<Bytes>,
    mirrors: u32,
) -> bool {
    let missing: Vec<u32> = wave.missing.iter().flat_map(|missing| missing.partitions.iter()).collect();
    let mut is_voted = false;
    for vote in wave.packets.iter().filter_map(read_vote).filter(|vote| vote.total() == mirrors) {
        deciding.handle_votes(now, &vote, &missing);
        is_voted = true;
    }
    if !is_voted {
        deciding.handle_silence(now, &missing);
    }
    is_voted || (wave.packets.is_empty() && !wave.missing.iter().any(is_failed_fold))
}

fn is_failed_fold(missing: &Missing) -> bool {
    matches!(missing.reason, Reason::FilterFailed(_))
}

/// Reads the row that mirrors send; see [`Vote::to_numbers`].
fn read_vote(packet: &Bytes) -> Option<Vote> {
    let packet = Packet::read(packet).ok()?;
    let mut numbers = [0; 4];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = packet.i64(at).ok()?;
    }
    Vote::from_numbers(numbers, packet.i64s(4).ok()?.iter().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

    use super::*;
    use treefold::operators::packet::Row;
    use treefold_core::time::Duration;
    use treefold_mirror::origin::LEASE_DEFAULT;
    use treefold_mirror::packet::{Holding, Monitored};

    fn wave(packets: Vec<Bytes>, missing: &[u32]) -> StreamWave<Bytes> {
        let away = Missing {
            partitions: PartitionSet::from_iter(missing.iter().copied()),
            node: None,
            reason: Reason::FilterFailed("arrays of 2 and 3 numbers".into()),
        };
        StreamWave { tag: 1, packets, contributors: PartitionSet::new(), missing: vec![away] }
    }

    fn vote(total: u32) -> Bytes {
        let vote = Vote::of(0, total, 1, Holding::Has(0), Monitored::default());
        let (numbers, held) = vote.to_numbers();
        numbers.into_iter().fold(Row::new(), Row::i64).i64s(held).packet().into_bytes()
    }

    fn deciding() -> treefold_mirror::origin::Origin {
        let (rules, begin) = (Arc::new(RuleFile::default()), Cut { epoch: 1, position: 0 });
        let (functions, limits) = (Functions::new(), MirrorLimits::default());
        let mut deciding = treefold_mirror::origin::Origin::new(begin, rules, functions, limits, 1).unwrap();
        deciding.handle_mirrors(Instant::START, 0..2);
        deciding
    }

    #[test]
    fn leases_run_out_although_votes_cannot_be_folded() {
        let mut deciding = deciding();
        let late = Instant::START + LEASE_DEFAULT + Duration::from_secs(1);
        assert!(!take_votes(&mut deciding, Instant::START, &wave(Vec::new(), &[0, 1]), 2));
        assert_eq!(deciding.checkpoints().mirrors().count(), 2);
        assert!(!take_votes(&mut deciding, late, &wave(Vec::new(), &[0, 1]), 2));
        assert_eq!(deciding.checkpoints().mirrors().count(), 0);
    }

    #[test]
    fn votes_of_another_number_of_mirrors_are_not_counted() {
        let mut deciding = deciding();
        assert!(!take_votes(&mut deciding, Instant::START, &wave(vec![vote(3)], &[]), 2));
        assert_eq!(deciding.checkpoints().shortage(), None);
        assert_eq!(deciding.checkpoints().mirrors().next(), Some((0, None)));
        assert!(take_votes(&mut deciding, Instant::START, &wave(vec![vote(2)], &[]), 2));
        assert_eq!(deciding.checkpoints().mirrors().next(), Some((0, Some(0))));
    }
}
