//! Tests of readers over an origin and a mirror, without a network.

use super::*;
use crate::event::Event;
use crate::keyed::KeyedState;
use crate::mirror::Taken;
use crate::origin::{Origin, Outgoing};
use crate::packet::{Holding, Monitored, Vote};
use crate::rules::RuleFile;
use crate::rules::file::StateOptions;
use crate::select::Functions;
use proptest::prelude::*;
use treefold_core::time::Instant;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;
const START: Cut = Cut { epoch: 1, position: 0 };

fn mirror(limits: &MirrorLimits) -> Mirror<KeyedState> {
    let state = KeyedState::new(StateOptions::default(), limits, 2);
    Mirror::new(Snapshot::beginning(START, state), limits)
}

/// An origin and one mirror, with its readers' snapshots.
struct Feed {
    origin: Origin,
    mirror: Mirror<KeyedState>,
    snapshots: Snapshots,
    limits: MirrorLimits,
    number: u64,
    encoded: usize,
}

impl Feed {
    fn new(limits: MirrorLimits) -> Self {
        let rules = RuleFile::read("[checkpoint]\nevery_events = 4").unwrap();
        let origin = Origin::new(START, rules.into(), Functions::new(), limits.clone(), 1).unwrap();
        let mirror = mirror(&limits);
        Self { origin, mirror, snapshots: Snapshots::default(), limits, number: 0, encoded: 0 }
    }

    fn events(&mut self, count: u64) {
        for _ in 0..count {
            self.number += 1;
            let number = self.number;
            let text = format!(
                r#"{{"stream":"s","number":{number},"key":"k{}","type":"t","fields":{{"n":{number}}}}}"#,
                number % 7
            );
            let event = Event::from_json(&text, None, &LIMITS).unwrap();
            self.origin.offer(Instant::START, event).unwrap();
            while let Some(Outgoing { packet, .. }) = self.origin.poll_packet(Instant::START, 1) {
                if let Taken::Asked(checkpoint) = self.mirror.take(&packet).unwrap() {
                    let holding = Holding::Has(self.mirror.cut().position);
                    let vote = Vote::of(0, 1, checkpoint.number, holding, Monitored::default());
                    self.origin.handle_votes(Instant::START, &vote, &[]);
                }
            }
        }
    }

    fn encode(&mut self) {
        if let Some(snapshot) = self.snapshots.poll_job(&self.mirror) {
            self.encoded += 1;
            self.snapshots.finish(encode(&snapshot, &self.limits), &self.mirror);
        }
    }

    fn poll(&mut self, display: &mut Display, most: usize) {
        for _ in 0..most {
            let Some(given) = display.reader.poll(&self.mirror, &mut self.snapshots, &self.limits) else {
                return;
            };
            display.take(given);
        }
    }
}

/// A reader's program: it keeps a state of its own.
struct Display {
    reader: Reader,
    state: Option<Mirror<KeyedState>>,
    loading: Option<(Arc<Encoded>, KeyedState)>,
    told: Vec<ResumeError>,
    snapshots: usize,
}

impl Display {
    fn new(feed: &Feed, from: Option<Cut>, state: Option<Mirror<KeyedState>>) -> Self {
        let reader = Reader::new(&feed.mirror, from);
        Self { reader, state, loading: None, told: Vec::new(), snapshots: 0 }
    }

    fn take(&mut self, given: Given) {
        match given {
            Given::Begins { snapshot, because } => {
                self.told.extend(because);
                self.state = None;
                self.loading = Some((snapshot, KeyedState::new(StateOptions::default(), &LIMITS, 5)));
            }
            Given::Piece(piece) => self.loading.as_mut().unwrap().1.restore(&piece).unwrap(),
            Given::Complete(cut) => {
                let (snapshot, state) = self.loading.take().unwrap();
                assert_eq!(snapshot.cut, cut);
                self.snapshots += 1;
                self.state = Some(Mirror::new(snapshot.with_state(state), &LIMITS));
            }
            // The reason comes once more with the snapshot.
            Given::Lagging(_) => {}
            // A gap would be an error here.
            Given::Events(packet) => _ = self.state.as_mut().unwrap().take(&packet).unwrap(),
        }
    }

    fn cut(&self) -> Cut {
        self.state.as_ref().unwrap().cut()
    }
}

#[test]
fn empty_state_has_a_complete_snapshot_too() {
    let mut feed = Feed::new(LIMITS);
    let mut display = Display::new(&feed, None, None);
    feed.poll(&mut display, 10);
    assert!(display.reader.is_waiting());
    feed.encode();
    feed.poll(&mut display, 10);
    assert_eq!((display.snapshots, display.cut()), (1, START));
}

#[test]
fn readers_that_join_together_share_one_snapshot() {
    let mut feed = Feed::new(LIMITS);
    feed.events(100);
    let mut displays: Vec<Display> = (0..50).map(|_| Display::new(&feed, None, None)).collect();
    displays.iter_mut().for_each(|display| feed.poll(display, 100));
    feed.encode();
    feed.events(20);
    displays.extend((0..50).map(|_| Display::new(&feed, None, None)));
    displays.iter_mut().for_each(|display| feed.poll(display, 100));
    assert_eq!(feed.encoded, 1);
    for display in &displays {
        assert!(display.state.as_ref().unwrap().state() == feed.mirror.state());
    }
}

#[test]
fn readers_that_come_while_a_snapshot_is_encoded_ask_for_no_second_one() {
    let mut feed = Feed::new(LIMITS);
    feed.events(100);
    let mut displays: Vec<Display> = (0..2).map(|_| Display::new(&feed, None, None)).collect();
    feed.poll(&mut displays[0], 1);
    let snapshot = feed.snapshots.poll_job(&feed.mirror).unwrap();
    feed.poll(&mut displays[1], 1);
    feed.snapshots.finish(encode(&snapshot, &LIMITS), &feed.mirror);
    assert!(feed.snapshots.poll_job(&feed.mirror).is_none());
    displays.iter_mut().for_each(|display| feed.poll(display, 100));
    assert!(displays.iter().all(|display| display.cut() == feed.mirror.cut()));
}

#[test]
fn snapshot_is_used_longer_if_many_events_came_while_it_was_encoded() {
    let mut feed = Feed::new(LIMITS);
    let join = |feed: &mut Feed| {
        let mut display = Display::new(feed, None, None);
        feed.poll(&mut display, 1);
        display.reader.is_waiting()
    };
    let bytes_since = |feed: &Feed, cut: Cut| feed.mirror.log().bytes_after(cut.position).unwrap();
    for is_slow in [false, true] {
        assert!(join(&mut feed));
        let snapshot = feed.snapshots.poll_job(&feed.mirror).unwrap();
        while is_slow && bytes_since(&feed, snapshot.cut) < FRESH_BYTES_MIN {
            feed.events(100);
        }
        feed.snapshots.finish(encode(&snapshot, &LIMITS), &feed.mirror);
        while bytes_since(&feed, snapshot.cut) < 2 * FRESH_BYTES_MIN {
            feed.events(100);
        }
        assert_eq!(join(&mut feed), !is_slow);
    }
}

#[test]
fn reader_that_lost_its_connection_resumes_without_a_snapshot() {
    let mut feed = Feed::new(LIMITS);
    feed.events(10);
    let mut display = Display::new(&feed, None, None);
    feed.poll(&mut display, 1);
    feed.encode();
    feed.poll(&mut display, 100);
    let cut = display.cut();
    feed.events(10);
    let mut again = Display::new(&feed, Some(cut), display.state.take());
    feed.poll(&mut again, 100);
    assert_eq!((again.snapshots, again.cut()), (0, feed.mirror.cut()));
    assert!(again.state.as_ref().unwrap().state() == feed.mirror.state());
}

#[test]
fn slow_reader_is_told_that_it_lags_and_gets_last_values() {
    let mut feed = Feed::new(MirrorLimits { lag_bytes_max: 500, ..LIMITS });
    feed.events(1);
    let mut slow = Display::new(&feed, None, None);
    feed.poll(&mut slow, 1);
    feed.encode();
    feed.poll(&mut slow, 100);
    feed.events(200);
    feed.poll(&mut slow, 1);
    feed.encode();
    feed.poll(&mut slow, 100);
    assert!(matches!(slow.told[..], [ResumeError::Lagged { limit: 500, .. }]), "{:?}", slow.told);
    assert_eq!((slow.snapshots, slow.cut()), (2, feed.mirror.cut()));
}

#[test]
fn reader_that_stands_still_in_a_snapshot_pins_no_memory() {
    let mut feed = Feed::new(MirrorLimits { lag_bytes_max: 200, piece_bytes: 20, ..LIMITS });
    feed.events(50);
    let mut slow = Display::new(&feed, None, None);
    feed.poll(&mut slow, 1);
    feed.encode();
    feed.poll(&mut slow, 2);
    slow.loading.as_mut().unwrap().0 = Arc::new(encode(&mirror(&LIMITS).snapshot(), &LIMITS));
    let first = Arc::downgrade(feed.snapshots.kept.front().unwrap());
    for _ in 0..SNAPSHOTS_MAX {
        assert!(first.upgrade().is_some());
        feed.events(50);
        let mut other = Display::new(&feed, None, None);
        feed.poll(&mut other, 1);
        feed.encode();
    }
    assert!(first.upgrade().is_none());
    feed.poll(&mut slow, 1_000);
    assert!(matches!(slow.told[..], [ResumeError::Replaced { .. }]), "{:?}", slow.told);
    assert_eq!(slow.cut(), feed.mirror.cut());
}

#[test]
fn reader_with_a_time_of_another_epoch_is_told_why_it_gets_a_snapshot() {
    let mut feed = Feed::new(LIMITS);
    feed.events(3);
    let mut display = Display::new(&feed, Some(Cut { epoch: 9, position: 2 }), None);
    feed.poll(&mut display, 1);
    feed.encode();
    feed.poll(&mut display, 100);
    assert_eq!(display.told, [ResumeError::Epoch { known: 1, given: 9 }]);
    assert_eq!(display.cut(), feed.mirror.cut());
}

#[test]
fn reader_of_an_ended_epoch_gets_a_snapshot_of_the_new_one() {
    let mut feed = Feed::new(LIMITS);
    feed.events(10);
    let mut display = Display::new(&feed, None, None);
    feed.poll(&mut display, 1);
    feed.encode();
    feed.poll(&mut display, 100);
    // A later origin has sent fewer events than the reader has of the earlier one.
    let state = KeyedState::new(StateOptions::default(), &LIMITS, 2);
    let cut = Cut { epoch: 2, position: 0 };
    feed.mirror = Mirror::new(Snapshot::beginning(cut, state), &LIMITS);
    feed.poll(&mut display, 100);
    feed.encode();
    feed.poll(&mut display, 100);
    assert_eq!(display.told, [ResumeError::Epoch { known: 2, given: 1 }]);
    assert_eq!(display.cut(), cut);
}

#[test]
fn reader_of_a_few_keys_begins_without_a_snapshot() {
    let mut feed = Feed::new(LIMITS);
    feed.events(10);
    let mut reader = Reader::new(&feed.mirror, Some(Cut { epoch: 9, position: 2 }));
    let because = reader.begin_now(&feed.mirror);
    assert_eq!(because, Some(Some(ResumeError::Epoch { known: 1, given: 9 })));
    assert_eq!((reader.cut(), reader.begin_now(&feed.mirror)), (Some(feed.mirror.cut()), None));
    feed.events(1);
    let given = reader.poll(&feed.mirror, &mut feed.snapshots, &LIMITS);
    assert!(matches!(given, Some(Given::Events(_))) && feed.encoded == 0);
}

proptest! {
    /// Readers that join at any time, read at any pace and reconnect at any time see every last value, and no gap.
    #[test]
    fn every_reader_ends_with_the_mirrors_state(
        script in prop::collection::vec((0..5_u8, 0..8_usize, 0..30_u64), 1..120),
        lag_bytes_max in 100..5_000_usize,
        resume_bytes_max in 0..3_000_usize,
    ) {
        let mut feed = Feed::new(MirrorLimits { lag_bytes_max, resume_bytes_max, piece_bytes: 40, ..LIMITS });
        let mut displays: Vec<Display> = Vec::new();
        for (what, which, count) in script {
            match what {
                0 => feed.events(count),
                1 => displays.push(Display::new(&feed, None, None)),
                2 => feed.encode(),
                3 if which < displays.len() => {
                    let state = displays[which].state.take();
                    let cut = state.as_ref().map(Mirror::cut);
                    let told = std::mem::take(&mut displays[which].told);
                    displays[which] = Display { told, ..Display::new(&feed, cut, state) };
                }
                _ if which < displays.len() => feed.poll(&mut displays[which], count as usize),
                _ => {}
            }
        }
        for _ in 0..4 {
            displays.iter_mut().for_each(|display| feed.poll(display, 10_000));
            feed.encode();
        }
        for display in &displays {
            let state = display.state.as_ref().unwrap();
            prop_assert_eq!(state.cut(), feed.mirror.cut());
            prop_assert!(state.state() == feed.mirror.state());
        }
    }
}
