//! The task of an origin: one loop over its sources, its journal and its stream.

use super::errors::EndError;
use super::fence::{Fence, sign_is_due};
use super::orders::{Order, Waiting};
use super::{ASKS_MAX, Acknowledged, OriginStatus};
use crate::journaling::{Journaling, WRITES_MAX};
use crate::unix_ms;
use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use treefold::operators::packet::Packet;
use treefold::{Error, Missing, Reason, Stream, StreamEvent, StreamWave};
use treefold_core::time::Instant;
use treefold_mirror::origin::{Numbers, Outgoing, Refusal};
use treefold_mirror::packet::Vote;
use treefold_mirror::{Event, Name};

pub(super) enum Ask {
    Offer(Event, oneshot::Sender<Result<(), Refusal>>),
    OfferAll(VecDeque<Event>, Numbers, oneshot::Sender<Taken>),
    Status(oneshot::Sender<OriginStatus>),
    HeldBy(Name, u64, oneshot::Sender<Option<String>>),
    Flush,
    Order(Order),
}

/// The events of a batch that the origin did not take, and the reason why it did not take the first of them.
pub(super) type Taken = (VecDeque<Event>, Result<(), Refusal>);

type Sending = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>;

/// The task of an origin. It has twelve fields, because it connects the deciding origin with its stream, its journal and
/// its sources.
pub(super) struct Task {
    pub(super) deciding: treefold_mirror::origin::Origin,
    pub(super) stream: Stream,
    pub(super) journal: Option<Journaling>,
    /// Packets that wait for the journal or for the stream, in order.
    pub(super) pending: VecDeque<Outgoing>,
    pub(super) asks: mpsc::Receiver<Ask>,
    pub(super) acknowledged: watch::Sender<Acknowledged>,
    /// The number of mirrors that the feed may have.
    pub(super) mirrors: u32,
    /// It has been logged that a checkpoint had no valid vote.
    pub(super) has_warned: bool,
    /// The packet that waits for room in the stream's window.
    pub(super) sending: Option<Sending>,
    pub(super) fence: Fence,
    /// Callers of [`Origin::set`](super::Origin::set).
    pub(super) waiting: Waiting,
    pub(super) began: std::time::Instant,
}

impl Task {
    pub(super) async fn run(self, telling: &OnceLock<Arc<EndError>>) -> Result<(), Arc<EndError>> {
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

    /// Asks for votes although nothing has happened: mirrors hear that the origin lives. If it lacks a mirror, or none has
    /// answered since the last time, it asks whether another origin has them.
    fn give_sign(&mut self) {
        let checkpoints = self.deciding.checkpoints();
        let is_lacking = self.stream.endpoints().len() < self.mirrors as usize;
        if is_lacking || checkpoints.is_unanswered() || checkpoints.shortage().is_some() {
            self.fence.look();
        }
        self.deciding.request_votes(self.now());
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

    pub(super) fn status(&self) -> OriginStatus {
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
