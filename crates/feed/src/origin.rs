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

mod errors;
mod fence;
mod orders;
mod task;

pub use self::errors::{EndError, OfferError, StartError};
use self::fence::Fence;
pub(crate) use self::orders::Orders;
use self::orders::Waiting;
pub use self::orders::{PresentRules, Set, SetError};
use self::task::{Ask, Task};
use crate::journaling::{JournalState, Journaling};
use crate::promotion::{TakeOver, Won, mirrors_of, statuses, win};
use crate::reading::MirrorStatus;
use crate::{FeedParams, random_seed};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use treefold::{Client, Error, PartitionSet, StreamError, Synchronisation};
use treefold_journal::{Epoch, Journal};
use treefold_mirror::checkpoint::Shortage;
use treefold_mirror::origin::Numbers;
use treefold_mirror::recovery::Recovery;
use treefold_mirror::rules::{Mode, RuleFile};
use treefold_mirror::select::Functions;
use treefold_mirror::{Cut, Event, Lineage, MirrorLimits, Name};

/// Requests of sources that may wait. Above it, sources wait before they hand one over.
const ASKS_MAX: usize = 256;
/// Time that a checkpoint waits for all mirrors. A later vote is dropped, and the next checkpoint covers it.
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
    /// Checks that the journal has no epoch yet, as that of an origin that takes over must be.
    ///
    /// # Errors
    /// [`StartError::JournalInUse`].
    pub fn check_empty_journal(&self) -> Result<(), StartError> {
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
    /// Bytes that a mirror may be behind the others.
    lag_bytes_max: u64,
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

impl Origin {
    /// Opens the stream to the mirrors of `feed` and starts. With a journal, continues after its last event.
    /// `client` needs a loop of its own, see [`Client::stream`]. To be called on a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(client: &Client, feed: &str, options: OriginOptions) -> Result<Self, StartError> {
        let OriginOptions { rules, functions, limits, epoch, copies, journal, seed } = options;
        let lag_bytes_max = limits.mirror_lag_bytes_max as u64;
        let (deciding, past, journal) = match journal {
            None => {
                let begin = Cut { epoch, position: 0 };
                let deciding = treefold_mirror::origin::Origin::new(begin, rules, functions, limits, seed)?;
                (deciding, Lineage::default(), None)
            }
            Some(mut journal) => {
                // Mirrors know their feed again for a number of epochs only, so an origin that would find nobody to send
                // to begins none, however often it is started.
                if mirrors_of(client, feed).await? == 0 {
                    return Err(no_mirrors(feed));
                }
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
        let deciding = deciding.with_copies(copies);
        Self::open(client, feed, Begun { deciding, past, candidate: None, journal, lag_bytes_max }).await
    }

    /// Takes over a feed whose origin has died: takes promises from its mirrors, and continues the log of the mirror that
    /// is furthest. [`OriginOptions::copies`] must be that of the old origin. A journal must be empty; the feed goes on
    /// in it.
    ///
    /// # Errors
    /// [`StartError`]. The promises that mirrors gave are withdrawn, as far as the mirrors can be reached.
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
        let lag_bytes_max = limits.mirror_lag_bytes_max as u64;
        let Won { recovery, elected, candidate, promised: _ } = won;
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
        Self::open(client, feed, Begun { deciding, past, candidate: Some(candidate), journal, lag_bytes_max })
            .await
    }

    /// Opens the stream to the mirrors, and starts the task.
    async fn open(client: &Client, feed: &str, begun: Begun) -> Result<Self, StartError> {
        let Begun { deciding, past, candidate, journal, lag_bytes_max } = begun;
        let mirrors = mirrors_of(client, feed).await?;
        let epoch = deciding.cut().epoch;
        let params = FeedParams::Origin { epoch, past: past.ends().to_vec(), mirrors, candidate };
        let stream = client
            .stream(feed)
            .up_filter("min")
            .synchronisation(Synchronisation::TimeOut(VOTES_WITHIN))
            .params(&params)
            .lag_bytes_max(lag_bytes_max)
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
            waiting: Waiting::default(),
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

/// The error of a stream to the mirrors of a feed that has none in sight.
fn no_mirrors(feed: &str) -> StartError {
    StartError::Stream(Error::Stream(StreamError::UnknownService { service: feed.into() }))
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
