//! The origin: where events enter, and where all mirrored events of a feed get their order.
//!
//! ```text
//! offer ─▶ Selector ─▶ ready queue ─▶ coalesce ─▶ batch ─▶ poll_packet
//!                                                   └─▶ log, until committed
//! handle_votes ─▶ commit ─▶ poll_packet
//!             ├─▶ acknowledgement ─▶ sources
//!             └─▶ adaptation ─▶ other rules, from one position on, everywhere
//! ```
//!
//! The receiving side (offer) and the sending side (poll_packet) meet in the ready queue, as in the paper
//! (§3.1). A sender that is too slow fills the queue, and the origin then refuses events as busy instead of
//! growing. A change of mode or rules takes effect behind the events that are ready at that time: a batch
//! names one version of the rules, so every mirror and every snapshot knows which rules chose its events.

mod ready;
mod refusal;
mod set;
mod streams;

use self::ready::{Boundary, Ready};
pub use self::refusal::Refusal;
pub use self::set::Applied;
use self::set::Settings;
pub use self::streams::Numbers;
use self::streams::Streams;
use crate::acknowledge::Acknowledging;
use crate::batch::{BatchHead, BatchWriter};
use crate::checkpoint::Checkpoints;
use crate::event::{Event, Name};
use crate::limits::MirrorLimits;
use crate::log::Log;
use crate::packet::{BATCH, Checkpoint, Down, Monitored, Vote};
use crate::recovery::{Needed, Recovered, Recovery};
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
/// Time after which an origin asks again for votes that it needs for acknowledgements.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// An origin of one feed. It has many fields because the receiving and the sending side meet here.
pub struct Origin {
    streams: Streams,
    selector: Selector,
    checkpoints: Checkpoints,
    acknowledging: Acknowledging,
    ready: Ready,
    cut: Cut,
    settings: Settings,
    writer: BatchWriter,
    log: Log,
    needed: Needed,
    /// Packets that wait to be sent, before all further events.
    waiting: VecDeque<Outgoing>,
    /// Number of the first checkpoint after the log was last sent again.
    rewound: u64,
    /// Mirrors have come since the log was last sent again.
    has_new_mirrors: bool,
    limits: MirrorLimits,
}

/// A packet to send to all mirrors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The packet.
    pub packet: Bytes,
    /// First and last position of its events; `None` for a checkpoint or a commit.
    pub events: Option<(u64, u64)>,
}

impl From<Bytes> for Outgoing {
    /// A checkpoint or a commit.
    fn from(packet: Bytes) -> Self {
        Self { packet, events: None }
    }
}

impl Origin {
    /// Starts an origin of a new feed, or one that continues a feed after `cut`.
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
            streams: Streams::default(),
            selector,
            checkpoints: Checkpoints::new(cut.position, LEASE_DEFAULT),
            acknowledging: Acknowledging::new(0),
            ready: Ready::default(),
            cut,
            settings: Settings::begin(1),
            writer: BatchWriter::default(),
            log: Log::new(cut.position, limits.resume_bytes_max),
            needed: Needed::new(cut.position),
            waiting: VecDeque::new(),
            rewound: 0,
            has_new_mirrors: false,
            limits,
        })
    }

    /// Starts an origin after one that died, with the packets of its journal. Sources repeat their events from the
    /// first one that was not acknowledged. `held` is a position that all mirrors have which are to go on with their
    /// state; they are sent the packets after it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn recover(
        recovery: Recovery,
        held: u64,
        rules: Arc<RuleFile>,
        functions: Functions,
        limits: MirrorLimits,
        seed: u64,
    ) -> Result<Self, UnknownFunction> {
        let base = Cut { position: recovery.base(), ..recovery.cut() };
        let mut origin = Self::new(base, rules, functions, limits, seed)?;
        origin.streams = Streams::recovered(&recovery);
        origin.settings = Settings::begin(recovery.rules_version() + 1);
        origin.cut = recovery.cut();
        for event in recovery.events() {
            origin.selector.recall(&event);
        }
        for Recovered { first, last, packet, numbers } in recovery.into_packets() {
            origin.log.push(first, last, packet.clone());
            origin.needed.push(last, packet.len(), numbers.into_iter());
            if last > held {
                origin.waiting.push_back(Outgoing { packet, events: Some((first, last)) });
            }
        }
        origin.acknowledging.set_durable(origin.cut.position);
        origin.mark_progress();
        origin.record_progress();
        Ok(origin)
    }

    /// Sets the number of mirrors that must have an event before it is acknowledged or committed. Default: 0, with which the
    /// death of the origin's disk loses acknowledged events.
    #[must_use]
    pub fn with_copies(mut self, copies: u32) -> Self {
        self.acknowledging.set_copies(copies);
        self.checkpoints.set_copies(copies);
        self
    }

    /// Continues without a journal: the events come from the log of a mirror.
    #[must_use]
    pub fn without_journal(mut self) -> Self {
        self.acknowledging.forget_journal();
        self
    }

    /// The number of mirrors that must have an event before it is acknowledged.
    pub fn copies(&self) -> u32 {
        self.acknowledging.copies()
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
    pub fn offer_numbered(
        &mut self,
        now: Instant,
        mut event: Event,
        numbers: Numbers,
    ) -> Result<(), Refusal> {
        if numbers == Numbers::Received {
            event.number = self.streams.next_number(&event.stream);
        }
        event.check(&self.limits)?;
        self.selector.rules().check_event(&event)?;
        let full = |queue, bytes, limit| Err(Refusal::Busy { queue, bytes, limit });
        if self.ready.bytes > self.limits.ready_bytes_max {
            return full("ready", self.ready.bytes, self.limits.ready_bytes_max);
        }
        if self.log.uncommitted_bytes() > self.limits.backup_bytes_max {
            return full("backup", self.log.uncommitted_bytes(), self.limits.backup_bytes_max);
        }
        if self.streams.take(&event, numbers, self.selector.rules(), self.limits.streams_max)? {
            let mut selected = Vec::new();
            self.selector.release_due(now, &mut selected);
            self.selector.offer(now, event, &mut selected);
            self.ready.enter(now, selected);
        }
        Ok(())
    }

    /// Sends held events whose time has come, and evicts silent mirrors whose lease has ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.checkpoints.lease_ends_at().is_some_and(|at| at <= now) {
            self.handle_silence(now, &[]);
            // The others may all wait for a snapshot. Their answers tell.
            self.request_votes(now);
        }
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
        let times = [sending, self.selector.wake_at(), self.ask_again_at(), self.checkpoints.lease_ends_at()];
        times.into_iter().flatten().min()
    }

    /// True if every event is sent, or suppressed for good.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.ready.events.is_empty() && self.selector.wake_at().is_none()
    }

    /// The next packet to send to all mirrors. `sent_ms` is the clock in ms since the Unix epoch.
    pub fn poll_packet(&mut self, now: Instant, sent_ms: u64) -> Option<Outgoing> {
        if let Some(outgoing) = self.waiting.pop_front() {
            return Some(outgoing);
        }
        self.pass_boundaries();
        let mut events = self.take_ready(now);
        if events.is_empty() {
            self.note_progress();
            self.mark_progress();
            return self.ask_for_acknowledgements(now);
        }
        if self.coalescing().is_some() {
            coalesce(&mut events);
        }
        let count = events.len() as u64;
        let (packet, numbers) = self.write_batch(&events, sent_ms);
        let first = self.cut.position + 1;
        self.cut.position += count;
        self.mark_progress();
        self.record_progress();
        self.log.push(first, self.cut.position, packet.clone());
        self.needed.push(self.cut.position, packet.len(), numbers.into_iter());
        self.checkpoints.count(count);
        let checkpointing = self.selector.rules().checkpoint;
        let every = match self.mode() {
            Mode::Normal => checkpointing.every_events,
            Mode::Loaded => checkpointing.every_events_loaded.unwrap_or(checkpointing.every_events),
        };
        if let Some(checkpoint) = self.checkpoints.begin(now, every, self.cut.position) {
            self.wait_to_ask(checkpoint);
        }
        Some(Outgoing { packet, events: Some((first, self.cut.position)) })
    }

    /// Encodes a batch. Also returns, for each event, the index of its stream and its number.
    fn write_batch(&mut self, events: &[Event], sent_ms: u64) -> (Bytes, Vec<(usize, u64)>) {
        let mut numbers = Vec::with_capacity(events.len());
        for event in events {
            let stream = self.streams.index_of(&event.stream);
            let stream = stream.expect("invariant: an event's stream was noted when it entered");
            self.writer.push(stream, event);
            numbers.push((stream, event.number));
        }
        self.note_progress();
        let first = Cut { position: self.cut.position + 1, ..self.cut };
        let streams = self.streams.iter().map(|stream| (stream.name.clone(), stream.decided));
        let head =
            BatchHead { first, rules_version: self.settings.version, sent_ms, streams: streams.collect() };
        let mut packet = vec![BATCH];
        self.writer.finish(&head, &mut packet);
        (packet.into(), numbers)
    }

    /// Sends the events that rules hold back, as at the end of a finite source.
    pub fn release_all(&mut self, now: Instant) {
        let mut selected = Vec::new();
        self.selector.release_all(now, &mut selected);
        self.ready.enter(now, selected);
    }

    /// Notes the mirrors that take part now, and asks all of them for their votes with the next packet. A mirror
    /// that lacks events then knows of it, also if no further event comes.
    pub fn handle_mirrors(&mut self, now: Instant, mirrors: impl IntoIterator<Item = u32>) {
        self.checkpoints.seat(now, mirrors);
        self.has_new_mirrors = true;
        self.request_votes(now);
    }

    /// Asks all mirrors for their votes with the next packet.
    pub fn request_votes(&mut self, now: Instant) {
        if let Some(checkpoint) = self.checkpoints.begin(now, 0, self.cut.position) {
            self.wait_to_ask(checkpoint);
        }
    }

    /// Queues a checkpoint. It replaces one that waits at the end, so that a stream which takes nothing holds one.
    fn wait_to_ask(&mut self, checkpoint: Checkpoint) {
        let packet = Outgoing::from(Down::write_checkpoint(checkpoint));
        match self.waiting.back_mut().filter(|last| Down::is_checkpoint(&last.packet)) {
            Some(last) => *last = packet,
            None => self.waiting.push_back(packet),
        }
    }

    /// Takes the folded vote of the mirrors that answered a checkpoint, and the mirrors that did not.
    pub fn handle_votes(&mut self, now: Instant, vote: &Vote, missing: &[u32]) {
        let committed = self.checkpoints.take_votes(now, vote, missing);
        self.commit(committed);
        let was_asked = (self.rewound..=self.checkpoints.last().0.number).contains(&vote.number);
        let is_waiting = self.waiting.iter().any(|outgoing| outgoing.events.is_some());
        if self.checkpoints.all_join() && was_asked && !is_waiting {
            self.rewind(now);
        }
        let seen = Monitored {
            ready_queue: vote.monitored.ready_queue.max(self.ready.events.len() as u64),
            backup_queue: vote.monitored.backup_queue.max(self.log.uncommitted()),
            pending_requests: vote.monitored.pending_requests,
        };
        self.adapt(seen);
    }

    /// Notes the mirrors that did not answer a checkpoint to which no readable vote came.
    pub fn handle_silence(&mut self, now: Instant, missing: &[u32]) {
        let committed = self.checkpoints.take_silence(now, missing);
        self.commit(committed);
    }

    fn commit(&mut self, position: Option<u64>) {
        if let Some(position) = position {
            self.log.commit(position);
            self.waiting.push_back(Down::write_commit(position).into());
        }
    }

    /// Sends the whole log again: no mirror can get a snapshot from another one. Any mirror can use a log that begins
    /// with the feed's first event. A later one helps mirrors that have the events before it, so it is sent again
    /// only for mirrors that may be such.
    fn rewind(&mut self, now: Instant) {
        let oldest = self.log.oldest();
        if oldest > 1 && !std::mem::take(&mut self.has_new_mirrors) {
            return;
        }
        let Ok(packets) = self.log.packets_after(oldest - 1) else { return };
        self.waiting.extend(packets.map(|(first, last, packet)| {
            let packet = packet.clone();
            Outgoing { packet, events: Some((first, last)) }
        }));
        self.request_votes(now);
        self.rewound = self.checkpoints.last().0.number;
    }

    /// Notes that the journal has all events up to `position`. An origin without a journal never calls this.
    pub fn handle_durable(&mut self, position: u64) {
        self.acknowledging.set_durable(position);
    }

    /// Acknowledges events by the present votes and the journal. Returns true if
    /// [`acknowledged`](Self::acknowledged) has changed.
    pub fn advance_acknowledged(&mut self) -> bool {
        self.acknowledging.advance(self.checkpoints.held_by(self.acknowledging.copies()))
    }

    /// The incoming streams with acknowledged events, each with the number of the last one. No death of a node
    /// loses these events; see [`acknowledge`](crate::acknowledge).
    pub fn acknowledged(&self) -> impl Iterator<Item = (&Name, u64)> {
        let numbers =
            self.streams.iter().enumerate().map(|(at, one)| (&one.name, self.acknowledging.number(at)));
        numbers.filter(|&(_, number)| number > 0)
    }

    /// The position up to which the journal may forget events.
    pub fn trim_journal(&mut self) -> u64 {
        let (committed, acknowledging) = (self.log.committed(), &self.acknowledging);
        self.needed.trim(committed, |stream| acknowledging.recorded(stream))
    }

    /// The place after the last event sent.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    /// The version of the rules that chose the last event sent.
    pub fn rules_version(&self) -> u32 {
        self.settings.version
    }

    /// The present mode.
    pub fn mode(&self) -> Mode {
        self.selector.mode()
    }

    /// The log of sent packets.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The checkpoints, with the position of each mirror.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The receiving side, with the work of each rule.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// The number up to which all events of a stream are sent or suppressed for good.
    pub fn decided(&self, stream: &str) -> Option<u64> {
        self.streams.iter().find(|known| known.name.as_str() == stream).map(|known| known.decided)
    }

    /// Asks for the votes that acknowledgements wait for, unless mirrors are about to answer.
    fn ask_for_acknowledgements(&mut self, now: Instant) -> Option<Outgoing> {
        if self.ask_again_at().is_none_or(|at| at > now) {
            return None;
        }
        self.checkpoints
            .begin(now, 0, self.cut.position)
            .map(|checkpoint| Down::write_checkpoint(checkpoint).into())
    }

    /// The time at which to ask for votes that acknowledgements wait for, or the room of a full backup queue: no event
    /// comes that would begin a checkpoint then.
    fn ask_again_at(&self) -> Option<Instant> {
        let copies = self.acknowledging.copies();
        let is_held = |waiting: &u64| self.checkpoints.held_by(copies).is_some_and(|held| held >= *waiting);
        let unheld = self.acknowledging.waiting().filter(|waiting| copies > 0 && !is_held(waiting));
        let is_full = self.log.uncommitted_bytes() > self.limits.backup_bytes_max;
        let waiting = if is_full { self.cut.position } else { unheld? };
        let (last, asked_at) = self.checkpoints.last();
        let is_new = last.position < waiting && !self.checkpoints.is_unanswered();
        Some(if is_new { asked_at } else { asked_at + ASK_AGAIN })
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
        let until_boundary =
            boundary.map_or(usize::MAX, |boundary| (boundary.count - self.ready.left) as usize);
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
        let low = |stream: &streams::Incoming| {
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

    /// Lets acknowledgements know how far the streams are decided at the present position.
    fn mark_progress(&mut self) {
        let decided = self.streams.iter().map(|stream| stream.decided);
        self.acknowledging.mark(self.cut.position, decided);
    }

    /// Notes the numbers in the head of the last packet.
    fn record_progress(&mut self) {
        let decided = self.streams.iter().map(|stream| stream.decided);
        self.acknowledging.record(self.cut.position, decided);
    }
}

#[cfg(test)]
mod tests;
