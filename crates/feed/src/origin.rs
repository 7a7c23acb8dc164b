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

mod fence;

use self::fence::{Fence, sign_is_due};
use crate::journaling::{JournalState, Journaling, WRITES_MAX};
use crate::promotion::{TakeOver, TakeOverError, Won, mirrors_of, statuses, win};
use crate::reading::MirrorStatus;
use crate::{FeedParams, random_seed, unix_ms};
use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
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

impl OriginOptions {
    fn check_empty_journal(&self) -> Result<(), StartError> {
        match &self.journal {
            Some(journal) if !journal.epochs().is_empty() => Err(StartError::JournalInUse),
            _ => Ok(()),
        }
    }
}

/// An origin of a feed. Dropping it ends the feed's stream; mirrors keep their state.
#[derive(Debug)]
pub struct Origin {
    asks: mpsc::Sender<Ask>,
    acknowledged: watch::Receiver<Acknowledged>,
    journal: Option<watch::Receiver<JournalState>>,
    ended: Arc<OnceLock<Arc<EndError>>>,
    running: JoinHandle<()>,
}

/// An origin before it has a stream.
struct Begun {
    deciding: treefold_mirror::origin::Origin,
    past: Lineage,
    candidate: Option<u64>,
    journal: Option<Box<dyn Journal>>,
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
pub enum EndError {
    /// The stream is over.
    #[error("the stream to the mirrors is over: {0}")]
    Stream(#[from] Error),
    /// The journal has failed.
    #[error("the journal has failed: {0}")]
    Journal(Arc<str>),
    /// Another origin has the mirrors' promises.
    #[error("a newer origin (epoch {epoch}) has taken over")]
    Fenced {
        /// The epoch of the newer origin.
        epoch: u32,
    },
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
    /// The origin could not take over.
    #[error(transparent)]
    TakeOver(#[from] TakeOverError),
    /// A journal of another origin.
    #[error("the journal has events of an earlier origin; an origin that takes over needs a new directory")]
    JournalInUse,
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
    Flush,
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
        let (deciding, past, journal) = match journal {
            None => {
                let begin = Cut { epoch, position: 0 };
                let deciding = treefold_mirror::origin::Origin::new(begin, rules, functions, limits, seed)?;
                (deciding, Lineage::default(), None)
            }
            Some(mut journal) => {
                let recovery = recover(&mut *journal, epoch)?;
                let past = recovery.past().clone();
                let held = held_by_mirrors(client, feed, &recovery).await;
                let deciding =
                    treefold_mirror::origin::Origin::recover(recovery, held, rules, functions, limits, seed)?;
                (deciding, past, Some(journal))
            }
        };
        let deciding = deciding.with_copies(copies);
        Self::open(client, feed, Begun { deciding, past, candidate: None, journal }).await
    }

    /// Takes over a feed whose origin has died: takes promises from its mirrors, and continues the log of the mirror that
    /// is furthest. [`OriginOptions::copies`] must be that of the old origin. A journal must be empty; the feed goes on
    /// in it.
    ///
    /// # Errors
    /// [`StartError`]. Mirrors may have given a promise, and then no longer follow the old origin.
    pub async fn take_over(
        client: &Client,
        feed: &str,
        options: OriginOptions,
        authority: TakeOver,
    ) -> Result<Self, StartError> {
        options.check_empty_journal()?;
        let won = win(client, feed, options.copies, options.epoch, authority).await?;
        Self::continue_from(client, feed, options, won).await
    }

    /// The second half of [`take_over`](Self::take_over), for a candidate that has won.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn continue_from(
        client: &Client,
        feed: &str,
        options: OriginOptions,
        won: Won,
    ) -> Result<Self, StartError> {
        options.check_empty_journal()?;
        let OriginOptions { rules, functions, limits, copies, mut journal, seed, .. } = options;
        let Won { recovery, elected, candidate } = won;
        tracing::info!(feed, cut = %recovery.cut(), mirror = elected.mirror, "takes over");
        let mut held = elected.held;
        if let Some(journal) = &mut journal {
            // All packets pass the journal once more.
            held = elected.log.base;
            journal.begin_after(held)?;
            journal.begin_epoch(recovery.cut().epoch)?;
        }
        let past = recovery.past().clone();
        let deciding =
            treefold_mirror::origin::Origin::recover(recovery, held, rules, functions, limits, seed)?;
        let deciding = if journal.is_none() { deciding.without_journal() } else { deciding };
        let deciding = deciding.with_copies(copies);
        Self::open(client, feed, Begun { deciding, past, candidate: Some(candidate), journal }).await
    }

    /// Opens the stream to the mirrors, and starts the task.
    async fn open(client: &Client, feed: &str, begun: Begun) -> Result<Self, StartError> {
        let Begun { deciding, past, candidate, journal } = begun;
        let mirrors = mirrors_of(client, feed).await?;
        let epoch = deciding.cut().epoch;
        let params = FeedParams::Origin { epoch, past: past.ends().to_vec(), mirrors, candidate };
        let stream = client
            .stream(feed)
            .up_filter("min")
            .synchronisation(Synchronisation::TimeOut(VOTES_WITHIN))
            .params(&params)
            .open()
            .await?;
        let (asks, received) = mpsc::channel(ASKS_MAX);
        let (telling, acknowledged) = watch::channel(Acknowledged::default());
        let task = Task {
            deciding,
            stream,
            journal: journal.map(Journaling::start),
            pending: VecDeque::new(),
            asks: received,
            acknowledged: telling,
            mirrors,
            has_warned: false,
            sending: None,
            fence: Fence::new(client.clone(), feed, epoch),
            began: std::time::Instant::now(),
        };
        let (feed, journal) = (feed.to_owned(), task.journal.as_ref().map(Journaling::watch));
        let ended = Arc::new(OnceLock::new());
        let telling = Arc::clone(&ended);
        let running = tokio::spawn(async move {
            if let Err(error) = task.run(&telling).await {
                tracing::error!(%feed, %error, "the origin has ended");
            }
        });
        Ok(Self { asks, acknowledged, journal, ended, running })
    }

    /// The reason why the origin has ended by itself.
    pub fn end_reason(&self) -> Option<&EndError> {
        self.ended.get().map(|error| &**error)
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

/// The task of an origin. It has eleven fields, because it connects the deciding origin with its stream, its journal and
/// its sources.
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
    fence: Fence,
    began: std::time::Instant,
}

impl Task {
    async fn run(self, telling: &OnceLock<Arc<EndError>>) -> Result<(), Arc<EndError>> {
        // Sources see the end of the task when they can see its reason.
        let acknowledged = self.acknowledged.clone();
        let ended = self.follow().await.map_err(Arc::new);
        if let Err(error) = &ended {
            let _ = telling.set(Arc::clone(error));
        }
        drop(acknowledged);
        ended
    }

    async fn follow(mut self) -> Result<(), EndError> {
        let seated = self.stream.endpoints().clone();
        let mut sign_at = tokio::time::Instant::now();
        // A mirror that is behind learns it, although no event comes.
        self.deciding.handle_mirrors(self.now(), seated.iter());
        loop {
            self.send_next();
            let wake = self.deciding.wake_at().filter(|_| self.pending.len() < self.pending_max());
            let wait = wake.map(|at| Duration::from(at.since(self.now())));
            tokio::select! {
                biased;
                sent = sent(&mut self.sending) => {
                    sent?;
                    self.sending = None;
                }
                () = changed(&mut self.journal) => self.note_journal()?,
                epoch = self.fence.fenced() => return Err(EndError::Fenced { epoch }),
                () = sign_is_due(&mut sign_at) => self.give_sign(),
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

    /// Asks for votes although nothing has happened: mirrors hear that the origin lives. If it lacks mirrors, it asks
    /// whether another origin has them.
    fn give_sign(&mut self) {
        self.deciding.request_votes(self.now());
        let needs = self.deciding.copies().max(1) as usize;
        if self.deciding.checkpoints().shortage().is_some() || self.stream.endpoints().len() < needs {
            self.fence.look();
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
            Ask::Flush => {
                self.deciding.release_all(now);
                self.deciding.request_votes(now);
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
    // A mirror that does not answer, and is further behind, takes a snapshot of another one.
    let mirrors = statuses(client, feed).await;
    let goes_on = |mirror: &MirrorStatus| {
        let cut = Cut { epoch: mirror.epoch, position: mirror.position };
        mirror.is_current && recovery.past().has(cut, recovery.cut().epoch)
    };
    mirrors.iter().filter(|mirror| goes_on(mirror)).map(|mirror| mirror.position).min().unwrap_or(0)
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
mod tests;
