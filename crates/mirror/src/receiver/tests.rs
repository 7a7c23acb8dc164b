//! Tests of receivers over an origin and two mirrors, without a network.

use super::*;
use crate::filter::Filter;
use crate::keyed::KeyedState;
use crate::limits::MirrorLimits;
use crate::mirror::Mirror;
use crate::opened::{Opened, selected_rows};
use crate::origin::{Origin, Outgoing};
use crate::reader::{Given, Reader, Snapshots, encode};
use crate::rules::RuleFile;
use crate::rules::file::StateOptions;
use crate::select::Functions;
use crate::snapshot::Snapshot;
use crate::state::{Moment, State};
use proptest::prelude::*;
use treefold_core::time::Instant;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;
const START: Cut = Cut { epoch: 1, position: 0 };

fn name(text: &str) -> Name {
    Name::new(text.to_owned()).unwrap()
}

fn state() -> KeyedState {
    KeyedState::new(StateOptions { deletes: vec![name("gone")], retention_ms: None }, &LIMITS, 2)
}

/// One mirror with its snapshots, and the packets that it has not taken yet.
struct Site {
    mirror: Mirror<KeyedState>,
    snapshots: Snapshots,
    due: VecDeque<bytes::Bytes>,
}

struct World {
    origin: Origin,
    sites: Vec<Site>,
    limits: MirrorLimits,
    number: u64,
}

impl World {
    fn new(limits: MirrorLimits) -> Self {
        let rules = RuleFile::read("[checkpoint]\nevery_events = 4").unwrap();
        let origin = Origin::new(START, rules.into(), Functions::new(), limits.clone(), 1).unwrap();
        let site = || Site {
            mirror: Mirror::new(Snapshot::beginning(START, state()), &limits),
            snapshots: Snapshots::default(),
            due: VecDeque::new(),
        };
        Self { origin, sites: vec![site(), site()], limits, number: 0 }
    }

    fn events(&mut self, count: u64) {
        for _ in 0..count {
            self.number += 1;
            let number = self.number;
            let kind = ["position", "position", "status", "gone"][(number * 7 % 11 % 4) as usize];
            let json = format!(
                r#"{{"stream":"s","number":{number},"key":"k{}","type":"{kind}","fields":{{"n":{number}}}}}"#,
                number % 7
            );
            self.origin.offer(Instant::START, Event::from_json(&json, None, &LIMITS).unwrap()).unwrap();
            while let Some(Outgoing { packet, .. }) = self.origin.poll_packet(Instant::START, number) {
                self.sites.iter_mut().for_each(|site| site.due.push_back(packet.clone()));
            }
        }
    }

    fn deliver(&mut self, site: usize, most: usize) {
        let Site { mirror, due, .. } = &mut self.sites[site];
        for packet in due.drain(..most.min(due.len())) {
            mirror.take(&packet).unwrap();
        }
    }

    fn encode(&mut self, site: usize) {
        let Site { mirror, snapshots, .. } = &mut self.sites[site];
        if let Some(snapshot) = snapshots.poll_job(mirror) {
            snapshots.finish(encode(&snapshot, &self.limits), mirror);
        }
    }
}

/// A reader's program, with its connection to a mirror.
struct Display {
    site: usize,
    filter: Filter,
    reader: Option<Reader>,
    is_told: bool,
    /// The place behind packets without an event for this reader.
    passed: Option<Place>,
    receiver: Receiver,
    state: KeyedState,
    /// Positions of the events since the last snapshot.
    seen: Vec<u64>,
    start: u64,
}

impl Display {
    fn new(filter: Filter) -> Self {
        let receiver = Receiver::new(name("feed"), None);
        let (state, seen) = (state(), Vec::new());
        Self { site: 0, filter, reader: None, is_told: false, passed: None, receiver, state, seen, start: 0 }
    }

    fn messages(&mut self, given: Given, after: Option<Cut>) -> Vec<Message> {
        let deletes = [name("gone")];
        vec![match given {
            Given::Begins { snapshot, because } => {
                self.passed = None;
                Message::Begins(Begins {
                    cut: snapshot.cut,
                    rules_version: snapshot.rules_version,
                    deletes: deletes.to_vec(),
                    retention_ms: None,
                    because,
                })
            }
            Given::Piece(piece) if self.filter.is_whole() => Message::Piece(piece),
            Given::Piece(piece) => Message::Piece(selected_rows(&piece, &self.filter).unwrap()),
            Given::Complete(cut) => Message::Complete(Place { cut, ..Place::default() }),
            Given::Events(packet) if self.filter.is_whole() => Message::Events(packet),
            Given::Events(packet) => {
                let opened = Opened::read(&packet).unwrap();
                let after = after.unwrap().position;
                let mut events = opened.selected(&self.filter, &deletes, after).peekable();
                let cut = Cut { position: opened.last(), ..opened.head.first };
                if events.peek().is_none() {
                    // The reader is told its place before its next events.
                    self.passed = Some(Place { cut, ..Place::default() });
                    return Vec::new();
                }
                let mut out = Vec::new();
                Selected::write(&opened.head, opened.last(), events, &mut out);
                let passed = self.passed.take().map(Message::At);
                return passed.into_iter().chain([Message::Selected(out.into())]).collect();
            }
            Given::Lagging(because) => Message::Lagging(because),
        }]
    }

    fn poll(&mut self, world: &mut World, most: usize) {
        let Site { mirror, snapshots, .. } = &mut world.sites[self.site];
        for _ in 0..most {
            if self.reader.is_none() {
                let from = self.receiver.resume_from();
                let reader = Reader::new(mirror, from);
                (self.is_told, self.passed) = (reader.cut().is_none(), None);
                self.reader = Some(reader);
            }
            let reader = self.reader.as_mut().unwrap();
            let mut updates = VecDeque::new();
            if !std::mem::replace(&mut self.is_told, true) {
                self.receiver.take(Message::Resumes(reader.cut().unwrap()), &mut updates).unwrap();
            }
            let after = reader.cut();
            let Some(given) = reader.poll(mirror, snapshots, &world.limits) else { return };
            for message in self.messages(given, after) {
                self.receiver.take(message, &mut updates).unwrap();
            }
            updates.into_iter().for_each(|update| self.apply(update));
        }
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Begins(begins) => {
                (self.state, self.start) = (state(), begins.cut.position);
                self.seen.clear();
            }
            Update::Row(row) => {
                let mut piece = Vec::new();
                row.write(&mut piece);
                self.state.restore(&piece.into()).unwrap();
            }
            Update::Event { at, sent_ms, event } => {
                self.seen.push(at.position);
                self.state.apply(
                    Moment { position: at.position, sent_ms },
                    event.borrowed(),
                    &mut Vec::new(),
                );
            }
            _ => {}
        }
    }

    fn check(&mut self, world: &World) {
        if let Some(place) = self.passed.take() {
            self.receiver.take(Message::At(place), &mut VecDeque::new()).unwrap();
        }
        let mirror = &world.sites[self.site].mirror;
        assert_eq!(self.receiver.cut(), Some(mirror.cut()));
        assert!(self.seen.windows(2).all(|pair| pair[0] < pair[1]), "repeated: {:?}", self.seen);
        if self.filter.is_whole() {
            let all: Vec<u64> = (self.start + 1..=mirror.cut().position).collect();
            assert_eq!(self.seen, all, "a gap");
        }
        let wanted = mirror.state().iter().filter(|row| self.filter.takes_key(&row.key));
        let rows = |mut rows: Vec<KeyValue>| {
            rows.sort_by(|a, b| a.key.cmp(&b.key));
            rows
        };
        assert_eq!(rows(self.state.iter().collect()), rows(wanted.collect()));
    }
}

fn filter(which: u8) -> Filter {
    let mut filter = Filter::default();
    match which {
        0 => {}
        1 => ["k1", "k4"].into_iter().for_each(|key| filter.add_key(key).unwrap()),
        2 => filter.add_prefix("k2").unwrap(),
        _ => {
            filter.add_key("k3").unwrap();
            filter.add_prefix("k5").unwrap();
        }
    }
    filter
}

proptest! {
    /// Readers with and without filters that read at any pace, reconnect at any time and move between mirrors of different
    /// progress have neither gap nor repetition, and end with the mirror's values of their keys.
    #[test]
    fn reader_that_moves_between_mirrors_has_no_gap_and_no_repetition(
        script in prop::collection::vec((0..6_u8, 0..6_usize, 0..30_u64), 1..150),
        lag_bytes_max in 200..5_000_usize,
        resume_bytes_max in 0..3_000_usize,
    ) {
        let mut world = World::new(MirrorLimits { lag_bytes_max, resume_bytes_max, piece_bytes: 40, ..LIMITS });
        let mut displays: Vec<Display> = (0..6).map(|at| Display::new(filter(at % 4))).collect();
        for (what, which, count) in script {
            match what {
                0 => world.events(count),
                1 => world.deliver(which % 2, count as usize),
                2 => world.encode(which % 2),
                3 => {
                    // The connection is lost; the next mirror may be behind.
                    displays[which].reader = None;
                    displays[which].site = (count % 2) as usize;
                }
                _ => displays[which].poll(&mut world, count as usize),
            }
        }
        for site in 0..2 {
            world.deliver(site, usize::MAX);
        }
        for _ in 0..5 {
            displays.iter_mut().for_each(|display| display.poll(&mut world, 10_000));
            world.encode(0);
            world.encode(1);
        }
        displays.iter_mut().for_each(|display| display.check(&world));
    }
}

fn receiver_at(position: u64) -> (Receiver, VecDeque<Update>) {
    let cut = Cut { epoch: 1, position };
    let (mut receiver, mut updates) = (Receiver::new(name("feed"), Some(cut)), VecDeque::new());
    assert_eq!(receiver.resume_from(), Some(cut));
    receiver.take(Message::Resumes(cut), &mut updates).unwrap();
    (receiver, updates)
}

fn packets(count: u64) -> Vec<bytes::Bytes> {
    let mut world = World::new(LIMITS);
    let packets = (0..count).map(|_| {
        world.events(1);
        world.sites[0].due.drain(..).find(|packet| batch_of(packet).is_ok()).expect("an event")
    });
    packets.collect()
}

#[test]
fn gap_and_an_earlier_place_are_refused_and_change_nothing() {
    let packets = packets(3);
    let (mut receiver, mut updates) = receiver_at(0);
    receiver.take(Message::Events(packets[0].clone()), &mut updates).unwrap();
    let gap = receiver.take(Message::Events(packets[2].clone()), &mut updates).unwrap_err();
    let [expected, given] = [2, 3].map(|position| Cut { epoch: 1, position });
    assert_eq!(gap, ReceiveError::Gap { expected, given });
    receiver.take(Message::Events(packets[0].clone()), &mut updates).unwrap();
    assert_eq!((receiver.cut(), updates.len()), (Some(Cut { epoch: 1, position: 1 }), 1), "known events");
    let other = Place { cut: Cut { epoch: 2, position: 0 }, ..Place::default() };
    assert!(receiver.take(Message::At(other), &mut updates).is_err());
}

#[test]
fn mirror_that_begins_anew_within_a_stream_is_noticed() {
    let (mut receiver, mut updates) = receiver_at(7);
    let cut = Cut { epoch: 1, position: 7 };
    let anew = receiver.take(Message::Resumes(cut), &mut updates);
    assert_eq!(anew, Err(ReceiveError::Order("the mirror has begun anew")));
    assert_eq!(receiver.resume_from(), Some(cut));
    assert_eq!(receiver.take(Message::Resumes(cut), &mut updates), Ok(()));
    // A reader that lost its mirror within a snapshot has no place.
    let begins = Begins { cut, rules_version: 0, deletes: Vec::new(), retention_ms: None, because: None };
    receiver.take(Message::Begins(begins), &mut updates).unwrap();
    assert_eq!(receiver.resume_from(), None);
}

#[test]
fn events_and_rows_without_a_snapshot_are_refused() {
    let (mut receiver, mut updates) = (Receiver::new(name("feed"), None), VecDeque::new());
    receiver.take(Message::Alive, &mut updates).unwrap();
    let events = Message::Events(packets(1).remove(0));
    assert!(matches!(receiver.take(events, &mut updates), Err(ReceiveError::Order(_))));
    let piece = Message::Piece(bytes::Bytes::new());
    assert!(matches!(receiver.take(piece, &mut updates), Err(ReceiveError::Order(_))));
    let refused = Refusal::Full { limit: 4 };
    assert_eq!(receiver.take(Message::Refused(refused.clone()), &mut updates), Err(refused.into()));
    assert!(updates.is_empty());
}
