//! The origin's site: the business logic of all events, and the origin with its queues.
//!
//! As in the driver, the origin has one packet at a time on its way out, and takes no further one from its ready
//! queue while a mirror's window is full. If the ready queue is full too, the event at the source waits.

use super::processor::{Factors, Processor};
use super::system::{BEGINNING, Content, Happening, LINK, Sent, System, VOTES_WITHIN, WINDOW_BYTES, factors};
use super::workload::Setting;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::rc::Rc;
use treefold_core::time::{Duration, Instant};
use treefold_mirror::origin::{Origin, Refusal};
use treefold_mirror::packet::{Down, Vote};
use treefold_mirror::select::Functions;
use treefold_mirror::{Cut, Event, MirrorLimits};

/// Parts into which the cost of a checkpoint is divided: the request, the vote, the commit.
pub(super) const CHECKPOINT_PARTS: f64 = 3.0;
/// The least time until the origin looks at its clock again.
const TICK: Duration = Duration::from_micros(1);

/// The origin and its processor.
pub(super) struct OriginSite {
    deciding: Origin,
    processor: Processor<Task>,
    /// Times of events, which are the same in all series, and of other tasks.
    event_factors: Factors,
    factors: Factors,
    /// True while an event is received, or waits because the origin is busy.
    is_taking: bool,
    /// The event that the origin has refused as busy.
    refused: Option<Event>,
    is_sending: bool,
    /// Bytes that each mirror has not processed.
    in_flight: Vec<usize>,
    /// Votes on checkpoints that are not counted.
    votes: BTreeMap<u64, Vec<(usize, Vote)>>,
    /// The next planned [`Happening::Wake`].
    armed: Option<Instant>,
    is_over: bool,
}

/// A task of the origin's processor.
#[derive(Debug)]
enum Task {
    /// Receive an event, and apply rules and business logic.
    Take(Event),
    /// Send a packet to all mirrors.
    Send(Rc<Sent>),
    /// Take a vote.
    Vote(usize, Vote),
}

impl OriginSite {
    pub(super) fn new(setting: &Setting, limits: &MirrorLimits) -> Self {
        let deciding =
            Origin::new(BEGINNING, setting.rules.file(), Functions::new(), limits.clone(), setting.seed);
        let mut deciding = deciding.expect("invariant: these rules use no functions");
        deciding.handle_mirrors(Instant::START, 0..setting.mirrors as u32);
        Self {
            deciding,
            processor: Processor::new(),
            event_factors: factors(setting, 0),
            factors: factors(setting, 1),
            is_taking: false,
            refused: None,
            is_sending: false,
            in_flight: vec![0; setting.mirrors],
            votes: BTreeMap::new(),
            armed: None,
            is_over: false,
        }
    }

    pub(super) fn cut(&self) -> Cut {
        self.deciding.cut()
    }

    pub(super) fn worked(&self) -> Duration {
        self.processor.worked()
    }
}

/// Bytes of an event on a link, about.
fn bytes_of(event: &Event) -> usize {
    event.key.len() + event.kind.len() + event.fields.as_bytes().len() + event.body.len()
}

impl System {
    /// Begins with the next event that waits, if none is being taken.
    pub(super) fn begin_event(&mut self) {
        if self.origin.is_taking {
            return;
        }
        let Some(event) = self.source.waiting.pop_front() else { return };
        self.origin.is_taking = true;
        let (costs, bytes) = (&self.setting.costs, bytes_of(&event));
        let rules_us = if self.mirrors.is_empty() { 0.0 } else { costs.rules_us };
        let us = costs.receive.of(bytes) + costs.logic.of(bytes) + rules_us;
        let work = self.origin.event_factors.draw(us);
        self.origin.processor.submit(work, Task::Take(event));
        self.begin_origin_task();
    }

    fn begin_origin_task(&mut self) {
        if let Some(took) = self.origin.processor.begin() {
            self.agenda.plan(self.now + took, Happening::OriginDone);
        }
    }

    pub(super) fn end_origin_task(&mut self) {
        match self.origin.processor.end() {
            Task::Take(event) => {
                self.seen.events_done = self.now;
                self.offer(event);
            }
            Task::Send(sent) => self.sent(&sent),
            Task::Vote(at, vote) => self.note_vote(at, vote),
        }
        self.begin_origin_task();
    }

    fn offer(&mut self, event: Event) {
        if !self.mirrors.is_empty() {
            match self.origin.deciding.offer(self.now, event.clone()) {
                Ok(()) => {}
                Err(Refusal::Busy { .. }) => {
                    self.origin.refused = Some(event);
                    return;
                }
                Err(refusal) => unreachable!("invariant: generated events are valid: {refusal}"),
            }
        }
        self.origin.is_taking = false;
        self.send_next();
        if self.source.enters_when_taken() {
            self.let_enter();
        }
        self.begin_event();
        self.end_source();
    }

    /// Sends everything that rules hold back, once the last event is taken.
    fn end_source(&mut self) {
        let is_over = self.source.is_over() && !self.origin.is_taking;
        if is_over && !self.origin.is_over && !self.mirrors.is_empty() {
            self.origin.is_over = true;
            self.origin.deciding.release_all(self.now);
            self.origin.deciding.request_votes(self.now);
            self.send_next();
        }
    }

    /// Takes the origin's next packet, if one may leave.
    fn send_next(&mut self) {
        let is_full = self.origin.in_flight.iter().any(|&bytes| bytes >= WINDOW_BYTES);
        if self.mirrors.is_empty() || self.origin.is_sending || is_full {
            return;
        }
        let sent_ms = self.now.as_nanos() / 1_000_000;
        match self.origin.deciding.poll_packet(self.now, sent_ms) {
            None => self.arm(),
            Some(outgoing) => {
                let sent = self.read(outgoing.packet);
                let work = self.sending_us(&sent);
                let work = self.origin.factors.draw(work);
                self.origin.is_sending = true;
                self.origin.processor.submit(work, Task::Send(Rc::new(sent)));
                self.begin_origin_task();
            }
        }
        // A packet has left the ready queue, so a refused event may have room.
        if let Some(event) = self.origin.refused.take() {
            self.offer(event);
        }
    }

    fn read(&mut self, packet: Bytes) -> Sent {
        let read = "invariant: the origin has written it";
        let content = match Down::read(&packet).expect(read) {
            Down::Batch(batch) => {
                self.seen.batches += 1;
                Content::Batch(
                    batch.events().map(|event| self.source.mirrored(&event.expect(read))).collect(),
                )
            }
            Down::Checkpoint(checkpoint) => {
                self.seen.checkpoints += 1;
                self.origin.votes.insert(checkpoint.number, Vec::new());
                Content::Checkpoint
            }
            Down::Commit { .. } => Content::Commit,
        };
        Sent { packet, content }
    }

    fn sending_us(&self, sent: &Sent) -> f64 {
        let (costs, mirrors) = (&self.setting.costs, self.mirrors.len() as f64);
        let bytes = sent.packet.len();
        match &sent.content {
            Content::Batch(events) => {
                costs.queue.fixed_us * events.len() as f64
                    + costs.queue.byte_us * bytes as f64
                    + costs.scheduling_us
                    + costs.resubmission.of(bytes) * mirrors
            }
            Content::Checkpoint | Content::Commit => costs.checkpoint_us / CHECKPOINT_PARTS * mirrors,
        }
    }

    fn sent(&mut self, sent: &Rc<Sent>) {
        self.origin.is_sending = false;
        for at in 0..self.mirrors.len() {
            self.origin.in_flight[at] += sent.packet.len();
            self.agenda.plan(self.now + LINK, Happening::Packet(at, Rc::clone(sent)));
        }
        self.send_next();
    }

    pub(super) fn make_room(&mut self, at: usize, bytes: usize) {
        self.origin.in_flight[at] -= bytes;
        self.send_next();
    }

    fn arm(&mut self) {
        let Some(at) = self.origin.deciding.wake_at() else { return };
        let at = at.max(self.now + TICK);
        if self.origin.armed.is_none_or(|armed| at < armed) {
            self.origin.armed = Some(at);
            self.agenda.plan(at, Happening::Wake);
        }
    }

    pub(super) fn wake_origin(&mut self) {
        if self.origin.armed == Some(self.now) {
            self.origin.armed = None;
        }
        self.origin.deciding.handle_timeout(self.now);
        self.send_next();
    }

    pub(super) fn take_vote(&mut self, at: usize, vote: Vote) {
        let us = self.setting.costs.checkpoint_us / CHECKPOINT_PARTS;
        let work = self.origin.factors.draw(us);
        self.origin.processor.submit(work, Task::Vote(at, vote));
        self.begin_origin_task();
    }

    /// Notes a vote. A vote on a checkpoint that is counted is late, and the stream drops it.
    fn note_vote(&mut self, at: usize, vote: Vote) {
        let Some(votes) = self.origin.votes.get_mut(&vote.number) else { return };
        let number = vote.number;
        votes.push((at, vote));
        let count = votes.len();
        if count == self.mirrors.len() {
            self.count_votes(number);
        } else if count == 1 {
            self.agenda.plan(self.now + VOTES_WITHIN, Happening::VotesDue(number));
        }
    }

    pub(super) fn count_votes(&mut self, number: u64) {
        let Some(votes) = self.origin.votes.remove(&number) else { return };
        let has_voted = |mirror: &u32| votes.iter().any(|(at, _)| *at == *mirror as usize);
        let silent: Vec<u32> = (0..self.mirrors.len() as u32).filter(|mirror| !has_voted(mirror)).collect();
        let Some(folded) = votes.iter().map(|(_, vote)| vote.clone()).reduce(Vote::folded) else { return };
        let mode = self.origin.deciding.mode();
        self.origin.deciding.handle_votes(self.now, &folded, &silent);
        // Without copies, all events are acknowledged at once, which keeps the origin's books short.
        self.origin.deciding.advance_acknowledged();
        self.origin.deciding.trim_journal();
        if self.origin.deciding.mode() != mode {
            self.seen.changes.push(self.now);
        }
        self.send_next();
    }
}
