//! The origin: where events enter, and where all mirrored events of a feed get their order.
//!
//! ```text
//! offer ─▶ Selector ─▶ ready queue ─▶ coalesce ─▶ batch ─▶ poll_packet
//!                                                   └─▶ log, until committed
//! handle_votes ─▶ commit ─▶ poll_packet
//!             └─▶ adaptation ─▶ other rules, from one position on, everywhere
//! ```
//!
//! The receiving side (offer) and the sending side (poll_packet) meet in the ready queue, as in the paper
//! (§3.1). A sender that is too slow fills the queue, and the origin then refuses events as busy instead of
//! growing. A change of mode or rules takes effect behind the events that are ready at that time: a batch
//! names one version of the rules, so every mirror and every snapshot knows which rules chose its events.

use crate::adapt::next_mode;
use crate::batch::{BatchHead, BatchWriter};
use crate::checkpoint::Checkpoints;
use crate::event::{Event, EventError, Name};
use crate::limits::MirrorLimits;
use crate::log::Log;
use crate::packet::{BATCH, Down, Monitored, Vote};
use crate::rules::coalesce::coalesce;
use crate::rules::{Coalesce, Mode, RuleFile, RuleKind};
use crate::select::{Functions, Selector, UnknownFunction};
use crate::vector::Cut;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use treefold_core::time::{Duration, Instant};

/// Default time that a silent mirror may hold up commits.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(5);

/// An origin of one feed. It has many fields because the receiving and the sending side meet here.
pub struct Origin {
    streams: Vec<Incoming>,
    selector: Selector,
    checkpoints: Checkpoints,
    ready: Ready,
    cut: Cut,
    rules_version: u32,
    writer: BatchWriter,
    log: Log,
    /// Checkpoints and commits that wait to be sent.
    control: VecDeque<Bytes>,
    limits: MirrorLimits,
    seed: u64,
}

/// An incoming stream.
#[derive(Debug)]
struct Incoming {
    name: Name,
    /// The number of its last event.
    last: u64,
    /// All events up to this number are mirrored in the batches sent so far, or suppressed for good.
    decided: u64,
}

/// The rule by which a source numbers the events of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Each number follows the last one. A gap means lost events, so it is refused.
    #[default]
    Consecutive,
    /// Numbers grow, and the source vouches that it leaves out no event: a log whose numbers also count records
    /// that were deleted, or that belong to another stream.
    Growing,
}

/// Events that are selected and not sent yet.
#[derive(Debug, Default)]
struct Ready {
    events: VecDeque<(Instant, Event)>,
    bytes: usize,
    /// Events that ever entered, and that ever left.
    entered: u64,
    left: u64,
    /// The streams' progress once the event with this count has left.
    mark: Option<(u64, Vec<u64>)>,
    /// Counts of the last events under each earlier version of the rules.
    boundaries: VecDeque<u64>,
}

/// The reason why an origin refuses an event. Its state has not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The event is invalid.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The origin has had this event already. The source can go on behind `last`.
    #[error("event {given} of stream `{stream}` is a repetition; the last one was {last}")]
    Repeated {
        /// The stream.
        stream: Name,
        /// The event's number.
        given: u64,
        /// The last number of the stream.
        last: u64,
    },
    /// Events are missing before this one.
    #[error("event {given} of stream `{stream}` leaves a gap; expected {expected}")]
    Jump {
        /// The stream.
        stream: Name,
        /// The event's number.
        given: u64,
        /// The number that follows the last one.
        expected: u64,
    },
    /// A further stream is one too many.
    #[error("stream `{stream}` is one too many; allowed: {limit}")]
    Streams {
        /// The stream.
        stream: Name,
        /// The limit `streams_max`.
        limit: usize,
    },
    /// A queue is full. The source should offer the event again later.
    #[error("busy: the {queue} queue has {bytes} bytes; allowed: {limit}")]
    Busy {
        /// `ready` or `backup`.
        queue: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The limit `ready_bytes_max` or `backup_bytes_max`.
        limit: usize,
    },
}

impl Origin {
    /// Starts an origin that continues a feed after `cut`.
    ///
    /// # Errors
    /// If a rule needs a function that is not in `functions`.
    pub fn new(
        cut: Cut,
        rules: Arc<RuleFile>,
        functions: Functions,
        limits: MirrorLimits,
        seed: u64,
    ) -> Result<Self, UnknownFunction> {
        let selector = Selector::new(rules, functions, &limits, seed)?;
        Ok(Self {
            streams: Vec::new(),
            selector,
            checkpoints: Checkpoints::new(cut.position, LEASE_DEFAULT),
            ready: Ready::default(),
            cut,
            rules_version: 1,
            writer: BatchWriter::default(),
            log: Log::new(cut.position, limits.resume_bytes_max),
            control: VecDeque::new(),
            limits,
            seed,
        })
    }

    /// Takes an event of a source. The first event of a stream may have any number.
    ///
    /// # Errors
    /// [`Refusal`]; the origin has not changed.
    pub fn offer(&mut self, now: Instant, event: Event) -> Result<(), Refusal> {
        self.offer_numbered(now, event, Numbers::Consecutive)
    }

    /// Takes an event of a source that numbers its events in this way.
    ///
    /// # Errors
    /// As [`offer`](Self::offer).
    pub fn offer_numbered(&mut self, now: Instant, event: Event, numbers: Numbers) -> Result<(), Refusal> {
        self.admit(&event)?;
        self.count(&event, numbers)?;
        let mut selected = Vec::new();
        self.selector.release_due(now, &mut selected);
        self.selector.offer(now, event, &mut selected);
        self.ready.enter(now, selected);
        Ok(())
    }

    /// Refuses an event that is invalid, or for which there is no room.
    fn admit(&self, event: &Event) -> Result<(), Refusal> {
        event.check(&self.limits)?;
        self.selector.rules().check_event(event)?;
        let full = |queue, bytes, limit| Err(Refusal::Busy { queue, bytes, limit });
        if self.ready.bytes > self.limits.ready_bytes_max {
            return full("ready", self.ready.bytes, self.limits.ready_bytes_max);
        }
        if self.log.uncommitted_bytes() > self.limits.backup_bytes_max {
            return full("backup", self.log.uncommitted_bytes(), self.limits.backup_bytes_max);
        }
        Ok(())
    }

    /// Counts an event in its stream.
    fn count(&mut self, event: &Event, numbers: Numbers) -> Result<(), Refusal> {
        let (stream, given) = (event.stream.clone(), event.number);
        match self.streams.iter().position(|known| known.name == stream) {
            Some(at) => {
                let last = self.streams[at].last;
                if given <= last {
                    return Err(Refusal::Repeated { stream, given, last });
                }
                if given > last + 1 && numbers == Numbers::Consecutive {
                    return Err(Refusal::Jump { stream, given, expected: last + 1 });
                }
                self.streams[at].last = given;
            }
            None if self.streams.len() >= self.limits.streams_max => {
                return Err(Refusal::Streams { stream, limit: self.limits.streams_max });
            }
            None => self.streams.push(Incoming { name: stream, last: given, decided: given - 1 }),
        }
        Ok(())
    }

    /// Sends held events whose time has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut selected = Vec::new();
        self.selector.release_due(now, &mut selected);
        self.ready.enter(now, selected);
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_packet`](Self::poll_packet).
    pub fn wake_at(&self) -> Option<Instant> {
        let oldest = self.ready.events.front().map(|&(since, _)| since);
        let sending = match self.coalescing() {
            Some(settings) => oldest.map(|since| since + settings.max_age()),
            None => oldest,
        };
        [sending, self.selector.wake_at()].into_iter().flatten().min()
    }

    /// The next packet to send to all mirrors. `sent_ms` is the clock in ms since the Unix epoch.
    pub fn poll_packet(&mut self, now: Instant, sent_ms: u64) -> Option<Bytes> {
        if let Some(packet) = self.control.pop_front() {
            return Some(packet);
        }
        while self.ready.boundaries.front().is_some_and(|&boundary| boundary <= self.ready.left) {
            self.ready.boundaries.pop_front();
            self.rules_version += 1;
        }
        let mut events = self.take_ready(now);
        if events.is_empty() {
            return None;
        }
        if self.coalescing().is_some() {
            coalesce(&mut events);
        }
        for event in &events {
            let stream = self.streams.iter().position(|known| known.name == event.stream);
            self.writer.push(stream.expect("invariant: an event's stream was noted when it entered"), event);
        }
        self.note_progress();
        let count = events.len() as u64;
        let first = Cut { position: self.cut.position + 1, ..self.cut };
        let streams = self.streams.iter().map(|stream| (stream.name.clone(), stream.decided));
        let head =
            BatchHead { first, rules_version: self.rules_version, sent_ms, streams: streams.collect() };
        let mut packet = vec![BATCH];
        self.writer.finish(&head, &mut packet);
        let packet = Bytes::from(packet);
        self.cut.position += count;
        self.log.push(first.position, self.cut.position, packet.clone());
        self.checkpoints.count(count);
        let checkpointing = self.selector.rules().checkpoint;
        let every = match self.mode() {
            Mode::Normal => checkpointing.every_events,
            Mode::Loaded => checkpointing.every_events_loaded.unwrap_or(checkpointing.every_events),
        };
        if let Some(checkpoint) = self.checkpoints.begin(every, self.cut.position) {
            self.control.push_back(Down::write_checkpoint(checkpoint));
        }
        Some(packet)
    }

    /// Sends the events that rules hold back, as at the end of a finite source.
    pub fn release_all(&mut self, now: Instant) {
        let mut selected = Vec::new();
        self.selector.release_all(now, &mut selected);
        self.ready.enter(now, selected);
    }

    /// Asks all mirrors for their votes with the next packet, for instance because one has joined. A mirror
    /// that lacks events then knows of it, also if no further event comes.
    pub fn request_votes(&mut self) {
        if let Some(checkpoint) = self.checkpoints.begin(0, self.cut.position) {
            self.control.push_back(Down::write_checkpoint(checkpoint));
        }
    }

    /// Takes the folded vote of the mirrors that answered a checkpoint, and the mirrors that did not.
    pub fn handle_votes(&mut self, now: Instant, vote: Vote, silent: &[u32]) {
        if let Some(position) = self.checkpoints.take_votes(now, vote, silent) {
            self.log.commit(position);
            self.control.push_back(Down::write_commit(position));
        }
        let seen = Monitored {
            ready_queue: vote.monitored.ready_queue.max(self.ready.events.len() as u64),
            backup_queue: vote.monitored.backup_queue.max(self.log.uncommitted()),
            pending_requests: vote.monitored.pending_requests,
        };
        let mode = next_mode(&self.selector.rules().adapt, self.mode(), seen);
        if mode != self.mode() {
            self.selector.set_mode(mode);
            self.ready.boundaries.push_back(self.ready.entered);
        }
    }

    /// Replaces the rules. Events that the former rules hold back are sent first.
    ///
    /// # Errors
    /// If a rule needs a function that is not in `functions`; the former rules stay.
    pub fn set_rules(
        &mut self,
        now: Instant,
        rules: Arc<RuleFile>,
        functions: Functions,
    ) -> Result<(), UnknownFunction> {
        let selector = Selector::new(rules, functions, &self.limits, self.seed)?;
        self.release_all(now);
        self.ready.boundaries.push_back(self.ready.entered);
        self.selector = selector;
        Ok(())
    }

    /// The place after the last event sent.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The present mode.
    pub fn mode(&self) -> Mode {
        self.selector.mode()
    }

    /// The log of sent packets.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The receiving side, with the work of each rule.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The number up to which all events of a stream are sent or suppressed for good.
    pub fn decided(&self, stream: &str) -> Option<u64> {
        self.streams.iter().find(|known| known.name.as_str() == stream).map(|known| known.decided)
    }

    /// The incoming streams, each with the number up to which its events are sent or suppressed for good.
    pub fn streams(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.streams.iter().map(|stream| (&stream.name, stream.decided))
    }

    fn coalescing(&self) -> Option<&Coalesce> {
        let mode = self.mode();
        self.selector.rules().rules.iter().find_map(|rule| match &rule.kind {
            RuleKind::Coalesce(settings) if rule.active.in_mode(mode) => Some(settings),
            _ => None,
        })
    }

    /// Takes the events of the next batch off the ready queue.
    fn take_ready(&mut self, now: Instant) -> Vec<Event> {
        let boundary = self.ready.boundaries.front().copied();
        let until_boundary = boundary.map_or(usize::MAX, |boundary| (boundary - self.ready.left) as usize);
        let waiting = self.ready.events.len();
        let most = match self.coalescing() {
            None => usize::MAX,
            Some(settings) => {
                let is_due = |&(since, _): &(Instant, Event)| since + settings.max_age() <= now;
                let is_ready = waiting >= settings.events as usize
                    || boundary.is_some()
                    || self.ready.events.front().is_some_and(is_due);
                if is_ready { settings.events as usize } else { 0 }
            }
        };
        self.ready.take(most.min(until_boundary), self.limits.batch_bytes_max)
    }

    /// Notes how far each stream is decided, when the events of this batch have left the ready queue.
    fn note_progress(&mut self) {
        let low = |stream: &Incoming| {
            let held = self.selector.undecided_from(&stream.name);
            held.map_or(stream.last, |first| first - 1)
        };
        let lows: Vec<u64> = self.streams.iter().map(low).collect();
        let known = match self.ready.mark.take() {
            // Nothing waits, so everything that is not held is decided.
            _ if self.ready.events.is_empty() => lows,
            Some((count, known)) if self.ready.left >= count => {
                self.ready.mark = Some((self.ready.entered, lows));
                known
            }
            earlier => {
                self.ready.mark = earlier.or(Some((self.ready.entered, lows)));
                return;
            }
        };
        for (stream, known) in self.streams.iter_mut().zip(known) {
            stream.decided = stream.decided.max(known);
        }
    }
}

impl Ready {
    fn enter(&mut self, now: Instant, events: Vec<Event>) {
        self.entered += events.len() as u64;
        self.bytes += events.iter().map(Event::bytes).sum::<usize>();
        self.events.extend(events.into_iter().map(|event| (now, event)));
    }

    fn take(&mut self, most: usize, bytes_max: usize) -> Vec<Event> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < most
            && (bytes < bytes_max)
            && let Some((_, event)) = self.events.pop_front()
        {
            bytes += event.bytes();
            taken.push(event);
        }
        self.bytes -= bytes;
        self.left += taken.len() as u64;
        taken
    }
}

#[cfg(test)]
mod tests;
