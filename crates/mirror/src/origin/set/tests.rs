//! Tests of rules that change while events flow.

use super::*;
use crate::event::{Event, Name};
use crate::keyed::{KeyValue, KeyedState};
use crate::limits::MirrorLimits;
use crate::mirror::Mirror;
use crate::rules::RuleFile;
use crate::rules::file::StateOptions;
use crate::select::Functions;
use crate::snapshot::Snapshot;
use crate::vector::Cut;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;
const START: Cut = Cut { epoch: 3, position: 0 };
const LANDED: &str = "[[rule]]\nname='landed'\n\
    sequence={after={type='status',field='status',equals='landed'},discard='position'}\n";
const RUNS: &str = "[[rule]]\nname='runs'\noverwrite={type='position',run=3,max_age_ms=60000}\n";

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn read(rules: &str) -> RuleFile {
    RuleFile::read(rules).unwrap()
}

fn origin(rules: &str) -> Origin {
    Origin::new(START, Arc::new(read(rules)), Functions::new(), LIMITS, 1).unwrap()
}

fn rules(text: &str) -> Change {
    Change { rules: Some(read(text)), ..Change::default() }
}

fn event(number: u64, kind: &str, field: &str) -> Event {
    let json = format!(
        r#"{{"stream":"s","number":{number},"key":"k","type":"{kind}","fields":{{"{kind}":"{field}"}}}}"#
    );
    Event::from_json(&json, None, &LIMITS).unwrap()
}

fn offer(origin: &mut Origin, number: u64, kind: &str, field: &str) {
    origin.offer(at(number), event(number, kind, field)).unwrap();
}

fn packets(origin: &mut Origin) -> Vec<Bytes> {
    std::iter::from_fn(|| origin.poll_packet(at(900), 900)).map(|outgoing| outgoing.packet).collect()
}

/// For each packet of events: its version of the rules and its last position.
fn versions(packets: &[Bytes]) -> Vec<(u32, u64)> {
    let state = KeyedState::new(StateOptions::default(), &LIMITS, 2);
    let mut mirror = Mirror::new(Snapshot::beginning(START, state), &LIMITS);
    let mut seen = Vec::new();
    for packet in packets {
        mirror.take(packet).unwrap();
        if seen.last().is_none_or(|&(_, position)| position < mirror.cut().position) {
            seen.push((mirror.rules_version(), mirror.cut().position));
        }
    }
    seen
}

#[test]
fn change_holds_from_the_event_after_those_that_were_offered() {
    let mut origin = origin("");
    for number in 1..=3 {
        offer(&mut origin, number, "position", "a");
    }
    assert_eq!(origin.set(at(4), rules(RUNS)), Ok(2));
    assert_eq!((origin.rules_version(), origin.next_version(), origin.poll_applied()), (1, 2, None));
    for number in 4..=6 {
        offer(&mut origin, number, "position", "a");
    }
    let packets = packets(&mut origin);
    assert_eq!(versions(&packets), [(1, 3), (2, 4)], "the new rules hold two of three back");
    assert_eq!(origin.poll_applied(), Some(Applied { version: 2, position: 4 }));
    assert_eq!(origin.poll_applied(), None);
    // Nothing waits, so a change holds at once.
    origin.handle_timeout(at(100_000));
    origin.poll_packet(at(100_000), 0).unwrap();
    assert_eq!(origin.set(at(100_001), rules("")), Ok(3));
    assert_eq!(origin.poll_applied(), Some(Applied { version: 3, position: 6 }));
}

#[test]
fn refused_change_leaves_rules_and_held_events_as_they_are() {
    let mut origin = origin(RUNS);
    offer(&mut origin, 1, "position", "a");
    offer(&mut origin, 2, "position", "b");
    let before = packets(&mut origin).len();
    let function = "[[rule]]\nname='f'\nfunction={name='unknown',type='t'}";
    assert!(matches!(origin.set(at(3), rules(function)), Err(ChangeError::UnknownFunction(_))));
    let parameters = vec![crate::change::Parameter::CheckpointEvery(0)];
    let invalid = Change { parameters, ..Change::default() };
    assert!(matches!(origin.set(at(3), invalid), Err(ChangeError::Problems(_))));
    let mut unused = Change::default();
    let pass = |event: &Event, out: &mut Vec<Event>| {
        out.push(event.clone());
        Ok(())
    };
    unused.functions.insert(Name::new("pass").unwrap(), Box::new(pass));
    assert!(matches!(origin.set(at(3), unused), Err(ChangeError::UnusedFunction { .. })));
    assert_eq!((before, packets(&mut origin).len()), (1, 0), "the second event is still held");
    assert_eq!((origin.next_version(), origin.set_version()), (1, 1));
    assert_eq!(origin.selector().rules(), &read(RUNS));
}

#[test]
fn parameters_change_without_sending_held_events() {
    let mut origin = origin(RUNS);
    offer(&mut origin, 1, "position", "a");
    offer(&mut origin, 2, "position", "b");
    packets(&mut origin);
    let parameters = vec![crate::change::Parameter::CheckpointEvery(7)];
    assert_eq!(origin.set(at(3), Change { parameters, ..Change::default() }), Ok(2));
    assert_eq!(packets(&mut origin).len(), 0);
    assert_eq!(origin.selector().rules().checkpoint.every_events, 7);
}

#[test]
fn rule_that_stays_keeps_its_memory_and_its_counts() {
    let mut origin = origin(LANDED);
    offer(&mut origin, 1, "status", "landed");
    offer(&mut origin, 2, "position", "a");
    let moved = format!("[[rule]]\nname='pings'\ndiscard={{type='ping'}}\n{LANDED}");
    origin.set(at(3), rules(&moved)).unwrap();
    offer(&mut origin, 3, "position", "b");
    packets(&mut origin);
    assert_eq!(origin.cut().position, 1, "the flight has landed under the former rules");
    assert_eq!(origin.selector().counts()[1].suppressed, 2);
    // Under another name it is another rule, which has seen nothing.
    origin.set(at(4), rules(&LANDED.replace("'landed'\n", "'other'\n"))).unwrap();
    offer(&mut origin, 4, "position", "c");
    packets(&mut origin);
    assert_eq!(origin.cut().position, 2);
}

#[test]
fn change_is_refused_if_the_rules_were_set_meanwhile() {
    let if_version = |epoch, version| Change {
        if_version: Some(Version { epoch, version }),
        rules: Some(read(RUNS)),
        ..Change::default()
    };
    let mut origin = origin("");
    let refused = |given, set| Err(ChangeError::Version { given, set, epoch: 3 });
    assert_eq!(origin.set(at(0), if_version(None, 2)), refused(2, 1), "there is no version 2 yet");
    assert_eq!(origin.set(at(0), if_version(Some(2), 1)), refused(1, 1), "of another origin");
    assert_eq!(origin.set(at(0), if_version(Some(3), 1)), Ok(2));
    assert_eq!(origin.set(at(0), if_version(None, 1)), refused(1, 2));
    assert_eq!(origin.set(at(0), if_version(None, 2)), Ok(3));
}

#[test]
fn fixed_mode_outlasts_load_until_it_is_chosen_automatically() {
    let two = "[adapt]\nready_queue={primary=2,secondary=1}\n\
               [[rule]]\nname='r'\nactive='loaded'\ndiscard={type='position'}";
    let mut origin = origin(two);
    let mode = |choice| Change { mode: Some(choice), ..Change::default() };
    let load = |ready_queue| Monitored { ready_queue, ..Monitored::default() };
    assert_eq!(origin.set(at(0), mode(ModeChoice::Normal)), Ok(2));
    origin.adapt(load(9));
    assert_eq!((origin.mode(), origin.next_version()), (Mode::Normal, 2));
    assert_eq!(origin.set(at(0), mode(ModeChoice::Auto)), Ok(3));
    origin.adapt(load(9));
    assert_eq!((origin.mode(), origin.next_version(), origin.set_version()), (Mode::Loaded, 4, 3));
    // A version of the same rules in another mode was not set by anybody, so it does not refuse a change.
    let change = Change { if_version: Some(Version { epoch: None, version: 3 }), ..mode(ModeChoice::Loaded) };
    assert_eq!(origin.set(at(0), change), Ok(5));
    origin.adapt(load(0));
    assert_eq!(origin.mode(), Mode::Loaded);
    // Other rules keep the mode, unless they have no thresholds.
    assert_eq!(origin.set(at(0), Change { mode: Some(ModeChoice::Auto), ..rules(two) }), Ok(6));
    assert_eq!(origin.mode(), Mode::Loaded);
    assert_eq!(origin.set(at(0), rules("")), Ok(7));
    assert_eq!(origin.mode(), Mode::Normal);
}

#[test]
fn changes_beyond_the_limit_wait_for_room() {
    let mut origin = origin("");
    offer(&mut origin, 1, "position", "a");
    for _ in 0..CHANGES_WAITING_MAX {
        origin.set(at(2), rules(RUNS)).unwrap();
    }
    assert_eq!(origin.set(at(2), rules("")), Err(ChangeError::Busy { waiting: CHANGES_WAITING_MAX }));
    packets(&mut origin);
    let applied: Vec<Applied> = std::iter::from_fn(|| origin.poll_applied()).collect();
    assert_eq!(applied.len(), CHANGES_WAITING_MAX);
    assert!(applied.iter().all(|one| one.position == 2), "{applied:?}");
    origin.set(at(3), rules("")).unwrap();
}

/// The last value of each key and field.
fn values(mirror: &Mirror<KeyedState>) -> BTreeMap<(String, String), Vec<u8>> {
    let of_key = |row: KeyValue| {
        let field = |(name, raw): (&str, &[u8])| ((row.key.to_string(), name.to_owned()), raw.to_vec());
        row.fields.iter().map(field).collect::<Vec<_>>()
    };
    mirror.state().iter().flat_map(of_key).collect()
}

proptest! {
    /// Wherever rules change between other rules that keep last values, the mirrors' state is that of all events.
    #[test]
    fn last_values_hold_across_changes(
        kinds in prop::collection::vec((0..4u64, 0..2u8, any::<bool>()), 1..60),
    ) {
        let sets = [RUNS, "", "[[rule]]\nname='runs'\noverwrite={type='position',run=5,max_age_ms=60000}\n\
            [[rule]]\nname='others'\noverwrite={type='status',run=2,max_age_ms=60000}"];
        let mut origin = origin(RUNS);
        let state = || KeyedState::new(StateOptions::default(), &LIMITS, 2);
        let mut mirror = Mirror::new(Snapshot::beginning(START, state()), &LIMITS);
        let mut whole = Mirror::new(Snapshot::beginning(START, state()), &LIMITS);
        let mut plain = self::origin("");
        let mut sent = Vec::new();
        for (number, (key, kind, changes)) in (1..).zip(kinds) {
            let kind = ["position", "status"][usize::from(kind)];
            let event = Event { key: format!("k{key}").into(), ..event(number, kind, &number.to_string()) };
            origin.offer(at(number), event.clone()).unwrap();
            plain.offer(at(number), event).unwrap();
            if changes {
                origin.set(at(number), rules(sets[number as usize % 3])).unwrap();
            }
            if number % 5 == 0 {
                sent.extend(packets(&mut origin));
            }
        }
        origin.release_all(at(900));
        sent.extend(packets(&mut origin));
        for packet in sent {
            mirror.take(&packet).unwrap();
        }
        for packet in packets(&mut plain) {
            whole.take(&packet).unwrap();
        }
        prop_assert_eq!(values(&mirror), values(&whole));
    }
}
