//! An origin of a simulated feed. It corresponds closely to `feed/src/origin.rs`: a packet is durable in the journal
//! before any mirror gets it, and packets wait for the journal and for the stream's window.

use super::super::Happening;
use super::{Content, Feed, FeedHappening, News, Out, Role};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use treefold_core::error::Missing;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::stream::{PACKET_BYTES, StreamEvent};
use treefold_core::time::Instant;
use treefold_mirror::change::Change;
use treefold_mirror::origin::{Numbers, Origin, Outgoing, Refusal};
use treefold_mirror::packet::Vote;
use treefold_mirror::recovery::Recovery;
use treefold_mirror::rules::RuleFile;
use treefold_mirror::select::Functions;
use treefold_mirror::{Cut, Event, Lineage, Name};

/// Packets that wait for the journal, at most. Without a journal, one packet waits for the stream.
const WRITES_MAX: usize = 8;
/// Packets that go down together, at most.
const RUN_PACKETS: usize = 4;

/// An origin.
pub(super) struct OriginTask {
    pub(super) at: usize,
    pub(super) node: NodeId,
    pub(super) epoch: u32,
    pub(super) past: Lineage,
    pub(super) deciding: Origin,
    pub(super) request: Option<RequestId>,
    written: Written,
    pending: VecDeque<Outgoing>,
    down_bytes: u64,
    sent: u64,
    pub(super) is_open: bool,
    pub(super) is_over: bool,
    wake_at: Option<Instant>,
    told: BTreeMap<Name, u64>,
    committed: u64,
}

/// The way of an origin's events into its journal.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// Last position that was handed to the journal.
    last: u64,
    /// Last position that is durable, as this origin knows. The journal may be further, with events of a later epoch.
    durable: u64,
}

impl OriginTask {
    /// True if it takes events.
    pub(super) fn serves(&self) -> bool {
        self.is_open && !self.is_over
    }

    /// The number up to which it has acknowledged the events of a stream.
    pub(super) fn told(&self, stream: &Name) -> Option<u64> {
        self.told.get(stream).copied()
    }
}

impl Feed {
    /// Makes the next origin, which continues after the journal. Returns its index.
    pub(super) fn make_origin(&mut self, now: Instant, at: usize, node: NodeId) -> usize {
        let rules = Arc::clone(&self.plan.rules[self.rules]);
        let limits = self.plan.limits.clone();
        let (epoch, past, deciding) = if self.plan.has_journal {
            let begun = self.journal.begin(now, &mut self.random);
            let (survived, recovery) = begun.expect("an origin wrote a broken record");
            for (_, _, packet) in &survived {
                self.note_decided(packet);
            }
            let (cut, past) = (recovery.cut(), recovery.past().clone());
            let forgets = self.sabotage == Some(super::Sabotage::MirrorRecoverAnew);
            let deciding = if forgets {
                Origin::new(cut, rules, Functions::new(), limits, 7)
            } else {
                let held = self.held_by_mirrors(&recovery);
                Origin::recover(recovery, held, rules, Functions::new(), limits, 7)
            };
            (cut.epoch, past, deciding)
        } else {
            let epoch = self.journal.begin_anew();
            self.begin_history(epoch);
            let start = Cut { epoch, position: 0 };
            (epoch, Lineage::default(), Origin::new(start, rules, Functions::new(), limits, 7))
        };
        let deciding = deciding.expect("invariant: no rule names a function").with_copies(self.plan.copies);
        let after = deciding.cut().position;
        self.news.push(News::EpochBegun { epoch, after });
        self.origins.push(OriginTask {
            at,
            node,
            epoch,
            past,
            written: Written { last: after, durable: after },
            committed: 0,
            deciding,
            request: None,
            pending: VecDeque::new(),
            down_bytes: 0,
            sent: 0,
            is_open: false,
            is_over: false,
            wake_at: None,
            told: BTreeMap::new(),
        });
        self.origins.len() - 1
    }

    /// The least position of the current mirrors that answer and go on with their state. Some do not answer in time.
    fn held_by_mirrors(&mut self, recovery: &Recovery) -> u64 {
        let epoch = recovery.cut().epoch;
        let mut least: Option<u64> = None;
        for task in self.mirrors.values().filter(|task| task.follower.is_current()) {
            let cut = task.follower.mirror().cut();
            if recovery.past().has(cut, epoch) && self.random.below(4) > 0 {
                least = Some(least.unwrap_or(u64::MAX).min(cut.position));
            }
        }
        least.unwrap_or(0)
    }

    /// Ends an origin, because its node, its stream or its journal is lost. The last one is replaced.
    pub(super) fn end_origin(&mut self, now: Instant, number: usize) {
        let is_last = number + 1 == self.origins.len();
        let origin = &mut self.origins[number];
        if origin.is_over {
            return;
        }
        (origin.is_over, origin.is_open) = (true, false);
        if let Some(request) = origin.request {
            let input = Input::Command(Command::StreamClose { request });
            self.out.push(Out::Input(self.origins[number].node, input));
        }
        if is_last && !self.is_ending {
            self.plan_at(now + self.plan.restart_after, FeedHappening::StartOrigin);
        }
    }

    /// Handles an event of an origin's stream.
    pub(super) fn origin_hears(
        &mut self,
        now: Instant,
        clock: Instant,
        number: usize,
        event: &StreamEvent<super::Ink>,
    ) {
        if self.origins[number].is_over {
            return;
        }
        match event {
            StreamEvent::Opened { endpoints, .. } => {
                self.origins[number].is_open = true;
                self.origins[number].deciding.handle_mirrors(clock, endpoints.iter());
            }
            StreamEvent::Changed { endpoints, .. } => {
                self.origins[number].deciding.handle_mirrors(clock, endpoints.iter());
            }
            StreamEvent::Taken { bytes } => {
                let origin = &mut self.origins[number];
                origin.down_bytes = origin.down_bytes.saturating_sub(*bytes);
            }
            StreamEvent::Closed(_) => {
                self.origins[number].request = None;
                return self.end_origin(now, number);
            }
            StreamEvent::Wave(wave) => {
                let votes =
                    wave.packets.iter().filter_map(|packet| match self.contents.read(packet.content) {
                        Some(Content::Vote(vote)) => Some(vote.clone()),
                        _ => None,
                    });
                let votes: Vec<Vote> = votes.collect();
                self.origin_takes_votes(clock, number, &votes, &wave.missing);
            }
        }
        self.send_next(now, clock, number);
    }

    fn origin_takes_votes(&mut self, clock: Instant, number: usize, votes: &[Vote], missing: &[Missing]) {
        let missing: Vec<u32> = missing.iter().flat_map(|missing| missing.partitions.iter()).collect();
        if votes.is_empty() {
            self.origins[number].deciding.handle_silence(clock, &missing);
        }
        for vote in votes {
            self.origins[number].deciding.handle_votes(clock, vote, &missing);
        }
    }

    /// Offers an event to an origin.
    pub(super) fn origin_offered(
        &mut self,
        clock: Instant,
        number: usize,
        event: Event,
        numbers: Numbers,
    ) -> Result<(), Refusal> {
        self.origins[number].deciding.offer_numbered(clock, event, numbers)
    }

    /// Notes that the journal has flushed an origin's records up to a position.
    pub(super) fn origin_flushed(&mut self, now: Instant, clock: Instant, number: usize, last: u64) {
        if self.origins[number].is_over {
            return;
        }
        let epoch = self.origins[number].epoch;
        let Ok(durable) = self.journal.flushed(epoch, last) else { return self.end_origin(now, number) };
        for (_, _, packet) in &durable {
            self.note_decided(packet);
        }
        let (origin, durable) = (&mut self.origins[number], self.journal.durable());
        origin.written.durable = durable;
        origin.deciding.handle_durable(durable);
        self.send_next(now, clock, number);
    }

    /// Lets an origin send events whose time has come.
    pub(super) fn origin_wakes(&mut self, now: Instant, clock: Instant, number: usize) {
        let origin = &mut self.origins[number];
        if !origin.serves() || origin.wake_at.is_none_or(|at| at > now) {
            return;
        }
        origin.wake_at = None;
        origin.deciding.handle_timeout(clock);
        self.send_next(now, clock, number);
    }

    /// Gives packets to the journal, and durable ones to the stream.
    pub(super) fn send_next(&mut self, now: Instant, clock: Instant, number: usize) {
        if !self.origins[number].serves() {
            return;
        }
        if self.poll_packets(now, clock, number).is_err() {
            return self.end_origin(now, number);
        }
        self.send_durable(number);
        self.acknowledge(number);
        let origin = &mut self.origins[number];
        let most = if self.plan.has_journal { WRITES_MAX } else { 1 };
        let wake = origin.deciding.wake_at().filter(|_| origin.pending.len() < most);
        let Some(wake) = wake.map(|at| now + at.since(clock)) else { return };
        if origin.wake_at.is_none_or(|at| wake < at) {
            origin.wake_at = Some(wake);
            self.plan_at(wake, FeedHappening::OriginWakes(number));
        }
    }

    fn poll_packets(
        &mut self,
        now: Instant,
        clock: Instant,
        number: usize,
    ) -> Result<(), super::journal::Fenced> {
        let most = if self.plan.has_journal { WRITES_MAX } else { 1 };
        let is_early = self.sabotage == Some(super::Sabotage::MirrorSendEarly);
        while self.origins[number].pending.len() < most {
            let origin = &mut self.origins[number];
            let sent_ms = clock.as_nanos() / 1_000_000;
            let Some(outgoing) = origin.deciding.poll_packet(clock, sent_ms) else { break };
            if let Some((first, last)) = outgoing.events.filter(|&(_, last)| last > origin.written.last) {
                origin.written.last = last;
                let packet = outgoing.packet.clone();
                if self.plan.has_journal {
                    let record = (first, last, packet);
                    let epoch = self.origins[number].epoch;
                    let at = self.journal.append(now, epoch, record, self.plan.flush)?;
                    self.plan_at(at, FeedHappening::Flushed(number, last));
                    if is_early {
                        self.origins[number].deciding.handle_durable(last);
                    }
                } else {
                    self.note_decided(&packet);
                }
            }
            self.origins[number].pending.push_back(outgoing);
        }
        Ok(())
    }

    /// Sends the packets that are durable and for which the window has room.
    fn send_durable(&mut self, number: usize) {
        let is_early = self.sabotage == Some(super::Sabotage::MirrorSendEarly);
        let origin = &mut self.origins[number];
        let durable = if self.plan.has_journal && !is_early { origin.written.durable } else { u64::MAX };
        let Some(request) = origin.request else { return };
        let mut run = Vec::new();
        while let Some(outgoing) = origin.pending.front() {
            let is_durable = outgoing.events.is_none_or(|(_, last)| last <= durable);
            let bytes = (outgoing.packet.len() + PACKET_BYTES) as u64;
            // A packet that is larger than the window goes alone.
            let has_room = origin.down_bytes == 0 || origin.down_bytes + bytes <= self.plan.window_bytes;
            if !is_durable || !has_room || run.len() == RUN_PACKETS {
                break;
            }
            let Some(outgoing) = origin.pending.pop_front() else { break };
            origin.down_bytes += bytes;
            origin.sent += 1;
            let ink = self.contents.packet(outgoing.packet, origin.sent);
            run.push((origin.sent, ink));
        }
        let node = origin.node;
        let command = match run.len() {
            0 => return,
            1 => {
                let (tag, payload) = run.remove(0);
                Command::StreamSend { request, tag, to: None, payload }
            }
            _ => Command::StreamSendRun { request, packets: run },
        };
        self.out.push(Out::Input(node, Input::Command(command)));
    }

    /// Tells sources which events are acknowledged, and lets the journal forget what nobody needs.
    fn acknowledge(&mut self, number: usize) {
        let origin = &mut self.origins[number];
        let epoch = origin.epoch;
        if origin.deciding.advance_acknowledged() {
            for (name, acknowledged) in origin.deciding.acknowledged() {
                let told = origin.told.entry(name.clone()).or_default();
                if acknowledged > *told {
                    *told = acknowledged;
                    self.news.push(News::Acknowledged { epoch, stream: name.clone(), number: acknowledged });
                    self.out.push(Out::Acknowledge(number, name.clone(), acknowledged));
                }
            }
        }
        let committed = origin.deciding.log().committed();
        if committed != origin.committed {
            origin.committed = committed;
            self.news.push(News::Committed { epoch, position: committed });
        }
        let needless = origin.deciding.trim_journal();
        if self.plan.has_journal {
            self.journal.trim(epoch, needless);
        }
    }

    /// Replaces the rules of the last origin, if it takes events.
    pub(super) fn change_rules(&mut self, now: Instant, clock: Instant, rules: usize) {
        self.rules = rules % self.plan.rules.len();
        let rules = Arc::clone(&self.plan.rules[self.rules]);
        let Some(number) = self.serving_origin() else { return };
        let change = Change { rules: Some(RuleFile::clone(&rules)), ..Change::default() };
        // An origin in which many changes wait refuses a further one.
        let _ = self.origins[number].deciding.set(clock, change);
        self.send_next(now, clock, number);
    }

    /// The last origin, if it takes events.
    pub(super) fn serving_origin(&self) -> Option<usize> {
        let last = self.origins.len().checked_sub(1)?;
        self.origins[last].serves().then_some(last)
    }

    /// The role of an origin's stream.
    pub(super) fn origin_opening(&mut self, number: usize) -> (Role, u64) {
        let origin = &self.origins[number];
        let content = Content::Opening { epoch: origin.epoch, past: origin.past.clone() };
        (Role::Origin(number), self.contents.keep(content))
    }

    pub(super) fn plan_at(&mut self, at: Instant, what: FeedHappening) {
        self.out.push(Out::Plan(at, Happening::Feed(what)));
    }
}
