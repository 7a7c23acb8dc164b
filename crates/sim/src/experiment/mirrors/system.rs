//! One system: the origin's site, the mirrors' sites, the links between them, and the clock.

use super::mirror::MirrorSite;
use super::origin::OriginSite;
use super::processor::Factors;
use super::seen::{Seen, Span};
use super::workload::{Pace, Setting};
use crate::world::agenda::Agenda;
use bytes::Bytes;
use bytestring::ByteString;
use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::rc::Rc;
use treefold_core::limits::Limits;
use treefold_core::time::{Duration, Instant};
use treefold_flights::{Flights, Options, Timed};
use treefold_mirror::packet::Vote;
use treefold_mirror::{Cut, Event, MirrorLimits, Name};

/// Time that a message takes between two sites: half a round trip in a cluster of that time.
pub(super) const LINK: Duration = Duration::from_micros(100);
/// Time after the first vote on a checkpoint in which the others may come, as in the driver.
pub(super) const VOTES_WITHIN: Duration = Duration::from_secs(1);
/// The place at which every run begins.
pub(super) const BEGINNING: Cut = Cut { epoch: 1, position: 0 };
/// Bytes of packets that a mirror has not processed, above which the origin sends it no further one.
pub(super) const WINDOW_BYTES: usize = Limits::DEFAULT.stream_window_bytes;

/// A planned event of the model.
#[derive(Debug)]
pub(super) enum Happening {
    /// The next event enters.
    Enters,
    /// A request arrives at a mirror.
    Request(usize),
    /// The origin's processor has ended a task.
    OriginDone,
    /// A mirror's processor has ended a task.
    MirrorDone(usize),
    /// A packet arrives at a mirror.
    Packet(usize, Rc<Sent>),
    /// A mirror has processed a packet, and its window has this much more room.
    Room(usize, usize),
    /// A mirror's vote arrives at the origin.
    Vote(usize, Vote),
    /// The votes on this checkpoint are counted without those that are missing.
    VotesDue(u64),
    /// The origin has something to do.
    Wake,
}

/// A packet on its way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) packet: Bytes,
    pub(super) content: Content,
}

/// The content of a packet.
#[derive(Debug)]
pub(super) enum Content {
    Batch(Vec<Mirrored>),
    Checkpoint,
    Commit,
}

/// A mirrored event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mirrored {
    /// Its key and type, as a number.
    pub(super) lane: usize,
    /// Its number in its stream.
    pub(super) number: u64,
    pub(super) entered: Instant,
}

/// The events, with the times at which they entered.
pub(super) struct Source {
    events: Peekable<std::iter::Take<Flights>>,
    pace: Pace,
    /// Events that have entered and that the origin has not taken.
    pub(super) waiting: VecDeque<Event>,
    lanes: BTreeMap<(ByteString, Name), usize>,
    /// For each stream, the times at which its events entered.
    entered: BTreeMap<Name, Vec<Instant>>,
}

impl Source {
    fn new(setting: &Setting) -> Self {
        let per_second = match setting.pace {
            Pace::PerSecond(per_second) => per_second,
            Pace::WhenTaken => 1.0,
        };
        let options = Options {
            body_bytes: setting.body_bytes(),
            per_second,
            seed: setting.seed,
            ..Options::default()
        };
        Self {
            events: Flights::new(options).take(setting.events as usize).peekable(),
            pace: setting.pace,
            waiting: VecDeque::new(),
            lanes: BTreeMap::new(),
            entered: BTreeMap::new(),
        }
    }

    /// Lets the next event enter. Returns its place among the mirrored ones, should it be mirrored.
    fn enter(&mut self, now: Instant) -> Option<Mirrored> {
        let Timed { event, .. } = self.events.next()?;
        let times = self.entered.entry(event.stream.clone()).or_default();
        times.push(now);
        assert_eq!(times.len() as u64, event.number, "streams have no gaps");
        let next = self.lanes.len();
        let lane = *self.lanes.entry((event.key.clone(), event.kind.clone())).or_insert(next);
        let mirrored = Mirrored { lane, number: event.number, entered: now };
        self.waiting.push_back(event);
        Some(mirrored)
    }

    /// Returns the time at which the next event enters by itself, if it does.
    fn next_at(&mut self) -> Option<Instant> {
        match self.pace {
            Pace::WhenTaken => None,
            Pace::PerSecond(_) => {
                self.events.peek().map(|timed| Instant::START + Duration::from_millis_f64(timed.at_ms))
            }
        }
    }

    /// True if the next event enters when the one before is taken.
    pub(super) fn enters_when_taken(&self) -> bool {
        self.pace == Pace::WhenTaken
    }

    /// True if every event has entered and is taken.
    pub(super) fn is_over(&mut self) -> bool {
        self.waiting.is_empty() && self.events.peek().is_none()
    }

    /// Finds the entry of a mirrored event.
    pub(super) fn mirrored(&self, event: &Event) -> Mirrored {
        let lane = self.lanes.get(&(event.key.clone(), event.kind.clone()));
        let times = self.entered.get(&event.stream);
        let entered = times.and_then(|times| times.get(event.number as usize - 1));
        let known = "invariant: without tuples, every mirrored event has entered";
        Mirrored { lane: *lane.expect(known), number: event.number, entered: *entered.expect(known) }
    }
}

/// All sites, with the clock.
pub struct System {
    pub(super) now: Instant,
    pub(super) agenda: Agenda<Happening>,
    pub(super) setting: Setting,
    pub(super) limits: MirrorLimits,
    pub(super) source: Source,
    pub(super) origin: OriginSite,
    pub(super) mirrors: Vec<MirrorSite>,
    pub(super) seen: Seen,
}

impl System {
    /// Runs a setting until every event and every request is done.
    pub fn run(setting: Setting) -> Seen {
        let limits = MirrorLimits::DEFAULT;
        let mut system = Self {
            now: Instant::START,
            agenda: Agenda::default(),
            source: Source::new(&setting),
            origin: OriginSite::new(&setting, &limits),
            mirrors: (0..setting.mirrors).map(|at| MirrorSite::new(&setting, at, &limits)).collect(),
            seen: Seen::default(),
            setting,
            limits,
        };
        system.agenda.plan(Instant::START, Happening::Enters);
        if system.setting.mirrors > 0 {
            for (number, at) in system.setting.request_times().into_iter().enumerate() {
                system.agenda.plan(at, Happening::Request(number % system.setting.mirrors));
            }
        }
        while let Some((at, happening)) = system.agenda.pop() {
            system.now = at;
            system.happen(happening);
        }
        system.ended()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Enters => self.let_enter(),
            Happening::Request(at) => self.take_request(at),
            Happening::OriginDone => self.end_origin_task(),
            Happening::MirrorDone(at) => self.end_mirror_task(at),
            Happening::Packet(at, sent) => self.take_packet(at, sent),
            Happening::Room(at, bytes) => self.make_room(at, bytes),
            Happening::Vote(at, vote) => self.take_vote(at, vote),
            Happening::VotesDue(number) => self.count_votes(number),
            Happening::Wake => self.wake_origin(),
        }
    }

    /// Lets the next event enter at the origin.
    pub(super) fn let_enter(&mut self) {
        let Some(mirrored) = self.source.enter(self.now) else { return };
        for mirror in &mut self.mirrors {
            mirror.expect_value(mirrored);
        }
        if let Some(at) = self.source.next_at() {
            self.agenda.plan(at, Happening::Enters);
        }
        self.begin_event();
    }

    fn ended(mut self) -> Seen {
        let expected = self.origin.cut().position;
        for mirror in &self.mirrors {
            mirror.assert_ended(expected);
        }
        self.seen.all_done = self.seen.events_done.max(self.seen.all_done);
        let total = Instant::START.until(self.seen.all_done).as_millis_f64();
        self.seen.mirrored = expected;
        self.seen.origin_busy = self.origin.worked().as_millis_f64() / total;
        let worked = self.mirrors.iter().fold(0.0, |sum, mirror| sum + mirror.worked().as_millis_f64());
        self.seen.mirror_busy = worked / total / self.mirrors.len().max(1) as f64;
        self.seen
    }

    /// Notes the end of a request, which began at `from`.
    pub(super) fn note_answered(&mut self, from: Instant) {
        self.seen.requests.push(Span { from, until: self.now });
        self.seen.all_done = self.now;
    }
}

/// The seeds of the times of one site's tasks.
pub(super) fn factors(setting: &Setting, site: u64) -> Factors {
    Factors::new(setting.seed ^ ((site + 1) << 48))
}
