//! A mirror's site: the mirror, its regular reader, and the requests of readers that join.

use super::origin::CHECKPOINT_PARTS;
use super::processor::{Factors, Processor};
use super::seen::Span;
use super::system::{BEGINNING, Content, Happening, LINK, Mirrored, Sent, System, factors};
use super::workload::Setting;
use bytes::Bytes;
use std::collections::VecDeque;
use std::rc::Rc;
use treefold_core::time::{Duration, Instant};
use treefold_mirror::MirrorLimits;
use treefold_mirror::follow::{Followed, Follower};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::mirror::{Mirror, Taken};
use treefold_mirror::reader::{Encoded, Given, Reader, Snapshots, encode};
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::snapshot::Snapshot;

/// A mirror, its readers and its processor.
pub(super) struct MirrorSite {
    deciding: Follower<KeyedState>,
    snapshots: Snapshots,
    /// The reader that follows all events.
    regular: Reader,
    processor: Processor<Task>,
    factors: Factors,
    /// Readers that wait for a snapshot, each with the time of its request.
    waiting: Vec<(Reader, Instant)>,
    /// Requests that have arrived and are not answered.
    pending: u64,
    /// For each key and type, the events whose values the regular reader does not have: number and time of entry.
    expected: Vec<VecDeque<(u64, Instant)>>,
}

/// A task of a mirror's processor.
#[derive(Debug)]
enum Task {
    /// Receive and apply a packet.
    Apply(Rc<Sent>),
    /// Take a request, which arrived at this time.
    Request(Instant),
    /// Encode a snapshot.
    Encode(Encoded),
    /// Send a snapshot to the reader whose request arrived at this time.
    Give(Instant),
}

impl MirrorSite {
    pub(super) fn new(setting: &Setting, number: usize, limits: &MirrorLimits) -> Self {
        let state = KeyedState::new(StateOptions::default(), limits, setting.seed);
        let mirror = Mirror::new(Snapshot::beginning(BEGINNING, state), limits);
        Self {
            regular: Reader::new(&mirror, Some(BEGINNING)),
            deciding: Follower::new(number as u32, setting.mirrors as u32, mirror, limits),
            snapshots: Snapshots::default(),
            processor: Processor::new(),
            factors: factors(setting, 2 + number as u64),
            waiting: Vec::new(),
            pending: 0,
            expected: Vec::new(),
        }
    }

    /// Notes that an event has entered at the origin.
    pub(super) fn expect_value(&mut self, event: Mirrored) {
        if self.expected.len() <= event.lane {
            self.expected.resize(event.lane + 1, VecDeque::new());
        }
        self.expected[event.lane].push_back((event.number, event.entered));
    }

    pub(super) fn worked(&self) -> Duration {
        self.processor.worked()
    }

    /// Asserts that nothing is left to do.
    pub(super) fn assert_ended(&self, position: u64) {
        assert_eq!(self.deciding.mirror().cut().position, position, "a mirror has all events at the end");
        assert_eq!(self.pending, 0, "all requests are answered at the end");
        assert!(self.expected.iter().all(VecDeque::is_empty), "readers have all values at the end");
    }
}

impl System {
    fn begin_mirror_task(&mut self, at: usize) {
        if let Some(took) = self.mirrors[at].processor.begin() {
            self.agenda.plan(self.now + took, Happening::MirrorDone(at));
        }
    }

    fn submit_to_mirror(&mut self, at: usize, us: f64, task: Task) {
        let mirror = &mut self.mirrors[at];
        let work = mirror.factors.draw(us);
        match task {
            // An encoder is a worker of its own. The model has one processor, so it runs next; events would
            // otherwise make the snapshot stale while it waits.
            Task::Encode(_) => mirror.processor.submit_first(work, task),
            _ => mirror.processor.submit(work, task),
        }
        self.begin_mirror_task(at);
    }

    pub(super) fn take_packet(&mut self, at: usize, sent: Rc<Sent>) {
        let (costs, bytes) = (&self.setting.costs, sent.packet.len());
        let us = match &sent.content {
            Content::Batch(events) => {
                costs.receive.of(bytes)
                    + costs.logic.fixed_us * events.len() as f64
                    + costs.logic.byte_us * bytes as f64
            }
            // The request and the vote.
            Content::Checkpoint => costs.checkpoint_us / CHECKPOINT_PARTS * 2.0,
            Content::Commit => costs.checkpoint_us / CHECKPOINT_PARTS,
        };
        self.submit_to_mirror(at, us, Task::Apply(sent));
    }

    pub(super) fn take_request(&mut self, at: usize) {
        self.mirrors[at].pending += 1;
        let us = self.setting.costs.request_us;
        self.submit_to_mirror(at, us, Task::Request(self.now));
    }

    pub(super) fn end_mirror_task(&mut self, at: usize) {
        match self.mirrors[at].processor.end() {
            Task::Apply(sent) => self.apply(at, &sent),
            Task::Request(since) => {
                let reader = Reader::new(self.mirrors[at].deciding.mirror(), None);
                self.serve(at, reader, since);
            }
            Task::Encode(encoded) => {
                self.seen.snapshots += 1;
                let MirrorSite { snapshots, deciding, .. } = &mut self.mirrors[at];
                snapshots.finish(encoded, deciding.mirror());
                for (reader, since) in std::mem::take(&mut self.mirrors[at].waiting) {
                    self.serve(at, reader, since);
                }
            }
            Task::Give(since) => {
                self.mirrors[at].pending -= 1;
                self.note_answered(since);
            }
        }
        self.begin_mirror_task(at);
    }

    fn apply(&mut self, at: usize, sent: &Rc<Sent>) {
        let mirror = &mut self.mirrors[at];
        let taken = mirror.deciding.take(&sent.packet, mirror.pending);
        match taken.expect("invariant: links keep order and lose nothing") {
            Followed::Took(Taken::Applied { .. }) => {
                self.seen.events_done = self.now;
                self.give_to_regular_reader(at, sent);
            }
            Followed::Votes(vote) => self.agenda.plan(self.now + LINK, Happening::Vote(at, vote)),
            Followed::Took(_) => {}
            Followed::Kept => unreachable!("invariant: no mirror lacks events"),
        }
        self.agenda.plan(self.now + LINK, Happening::Room(at, sent.packet.len()));
    }

    fn give_to_regular_reader(&mut self, at: usize, sent: &Sent) {
        let mirror = &mut self.mirrors[at];
        let given = mirror.regular.poll(mirror.deciding.mirror(), &mut mirror.snapshots, &self.limits);
        let is_packet = matches!(&given, Some(Given::Events(packet)) if *packet == sent.packet);
        assert!(is_packet, "a reader that follows gets each packet when it is applied: {given:?}");
        let Content::Batch(events) = &sent.content else { return };
        for event in events {
            self.seen.updates.push(Span { from: event.entered, until: self.now });
            let expected = &mut mirror.expected[event.lane];
            while let Some((_, from)) = expected.pop_front_if(|&mut (number, _)| number <= event.number) {
                self.seen.values.push(Span { from, until: self.now });
            }
        }
    }

    /// Sends a reader its snapshot, or lets it wait until one is encoded.
    fn serve(&mut self, at: usize, mut reader: Reader, since: Instant) {
        let mirror = &mut self.mirrors[at];
        let mut bytes = 0;
        loop {
            match reader.poll(mirror.deciding.mirror(), &mut mirror.snapshots, &self.limits) {
                None => {
                    mirror.waiting.push((reader, since));
                    return self.encode_if_wanted(at);
                }
                Some(Given::Piece(piece)) => bytes += piece.len(),
                Some(Given::Complete(_)) => break,
                Some(Given::Begins { .. }) => {}
                Some(Given::Events(_) | Given::Lagging(_)) => {
                    unreachable!(
                        "invariant: a reader that joins has no place before its snapshot is complete"
                    )
                }
            }
        }
        let us = self.setting.costs.snapshot_byte_us * bytes as f64;
        self.submit_to_mirror(at, us, Task::Give(since));
    }

    fn encode_if_wanted(&mut self, at: usize) {
        let mirror = &mut self.mirrors[at];
        if let Some(frozen) = mirror.snapshots.poll_job(mirror.deciding.mirror()) {
            let encoded = encode(&frozen, &self.limits);
            let bytes: usize = encoded.state.iter().map(Bytes::len).sum();
            let us = self.setting.costs.snapshot_byte_us * bytes as f64;
            self.submit_to_mirror(at, us, Task::Encode(encoded));
        }
    }
}
