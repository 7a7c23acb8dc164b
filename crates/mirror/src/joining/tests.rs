//! Tests of snapshots in parts: asking, arriving, limits.

use super::*;
use crate::event::{Event, Name};
use crate::keyed::FrozenKeys;
use crate::reader::encode;
use crate::rules::file::StateOptions;
use crate::state::{Moment, State};
use proptest::prelude::*;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;

fn empty(limits: &MirrorLimits) -> KeyedState {
    KeyedState::new(StateOptions::default(), limits, 7)
}

fn event(position: u64, body_bytes: usize) -> Event {
    let body = "x".repeat(body_bytes);
    let json = format!(
        r#"{{"stream":"s","number":{position},"key":"k{position}","type":"t","fields":{{"at":{position}}},"body":"{body}"}}"#
    );
    Event::from_json(&json, None, &LIMITS).unwrap()
}

/// A packet of one event.
fn packet(position: u64) -> Bytes {
    let mut writer = BatchWriter::default();
    writer.push(0, &event(position, 3));
    let head = BatchHead {
        first: Cut { epoch: 3, position },
        rules_version: 2,
        sent_ms: 9,
        streams: vec![(Name::new("s").unwrap(), position)],
    };
    let mut packet = vec![crate::packet::BATCH];
    writer.finish(&head, &mut packet);
    packet.into()
}

/// A snapshot of so many keys, whose last events are in so many recent packets.
fn filled(keys: u64, recents: u64, body_bytes: usize) -> Snapshot<KeyedState> {
    let mut state = empty(&LIMITS);
    for position in 1..=keys {
        let event = event(position, body_bytes);
        state.apply(Moment { position, sent_ms: 9 }, event.borrowed(), &mut Vec::new());
    }
    let streams = vec![(Name::new("s").unwrap(), keys)];
    let past = Lineage::default().ended(Cut { epoch: 2, position: 0 });
    let recent = (keys.saturating_sub(recents) + 1..=keys).map(packet).collect();
    Snapshot { cut: Cut { epoch: 3, position: keys }, past, rules_version: 2, streams, recent, state }
}

fn encoded(snapshot: &Snapshot<KeyedState>, piece_bytes: usize) -> Encoded {
    let limits = MirrorLimits { piece_bytes, ..LIMITS };
    encode(&snapshot.with_state(snapshot.state.freeze()), &limits)
}

/// Takes all portions of a snapshot, and counts them.
pub(crate) fn transfer(
    from: &Encoded,
    bytes_max: usize,
    mut arriving: Arriving,
) -> Result<(Snapshot<KeyedState>, usize), JoinError> {
    for parts in 1.. {
        let ask = Ask::read(&arriving.ask().write()).expect("it was just written");
        let portion = from.portion(ask.item(), bytes_max).expect("it asks for items that there are");
        match arriving.take(&portion)? {
            Arrived::More(more) => arriving = *more,
            Arrived::Whole(whole) => return Ok((*whole, parts)),
        }
    }
    unreachable!("a part has at least one item")
}

/// The snapshot as a mirror that joins gets it.
pub(crate) fn copy_of(
    snapshot: &Snapshot<FrozenKeys>,
    state: KeyedState,
    limits: &MirrorLimits,
) -> Snapshot<KeyedState> {
    let arriving = Arriving::new(snapshot.cut, state, limits);
    transfer(&encode(snapshot, limits), 1 << 10, arriving).unwrap().0
}

fn joined(from: &Encoded, bytes_max: usize) -> Result<(Snapshot<KeyedState>, usize), JoinError> {
    transfer(from, bytes_max, Arriving::new(Cut { epoch: 3, position: 0 }, empty(&LIMITS), &LIMITS))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn portions_of_any_size_give_the_snapshot(
        keys in 0u64..300,
        recents in 0u64..20,
        body_bytes in 0usize..200,
        piece_bytes in 1usize..5_000,
        part_bytes in 1usize..20_000,
    ) {
        let snapshot = filled(keys, recents, body_bytes);
        let (whole, parts) = joined(&encoded(&snapshot, piece_bytes), part_bytes).unwrap();
        prop_assert_eq!((whole.cut, whole.rules_version), (snapshot.cut, 2));
        prop_assert_eq!((&whole.past, &whole.streams), (&snapshot.past, &snapshot.streams));
        prop_assert_eq!(whole.recent, snapshot.recent);
        prop_assert_eq!(whole.state, snapshot.state);
        prop_assert!(parts >= 1);
    }

    #[test]
    fn bytes_that_are_no_portion_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let arriving = Arriving::new(Cut { epoch: 3, position: 1 }, empty(&LIMITS), &LIMITS);
        prop_assert!(arriving.take(&bytes.into()).is_err());
    }
}

#[test]
fn a_portion_holds_what_fits_and_at_least_one_item() {
    let from = encoded(&filled(100, 0, 1_000), 1);
    assert_eq!(joined(&from, 1).unwrap().1, 100);
    assert_eq!(joined(&from, 10_000).unwrap().1, 10);
    assert_eq!(joined(&from, PORTION_BYTES).unwrap().1, 1);
    assert_eq!(from.portion(100, 1), Err(AskError::Beyond { item: 100, items: 100 }));
}

#[test]
fn an_old_snapshot_is_refused_with_its_first_part() {
    let from = encoded(&filled(10, 0, 1), 1);
    let first = from.portion(0, 1).unwrap();
    for needed in [Cut { epoch: 3, position: 11 }, Cut { epoch: 4, position: 1 }] {
        let refused = Arriving::new(needed, empty(&LIMITS), &LIMITS).take(&first).unwrap_err();
        assert_eq!(refused, JoinError::Old { given: from.cut, needed });
    }
}

#[test]
fn portions_of_two_snapshots_are_not_mixed() {
    let [one, two] = [10, 11].map(|keys| encoded(&filled(keys, 2, 1), 1));
    let arriving = || {
        let arriving = Arriving::new(Cut { epoch: 3, position: 0 }, empty(&LIMITS), &LIMITS);
        let Ok(Arrived::More(more)) = arriving.take(&one.portion(0, 1).unwrap()) else {
            panic!("one of many portions")
        };
        *more
    };
    assert_eq!(arriving().ask(), Ask::Next(one.cut, 1));
    assert_eq!(arriving().progress(), (1, 12));
    let of_another = arriving().take(&two.portion(1, 1).unwrap()).unwrap_err();
    assert_eq!(of_another, JoinError::Order("it is of another snapshot"));
    let repeated = arriving().take(&one.portion(0, 1).unwrap()).unwrap_err();
    assert_eq!(repeated, JoinError::Order("it begins with another item"));
}

#[test]
fn a_cut_or_excessive_snapshot_is_refused() {
    let from = encoded(&filled(3, 1, 1), 1);
    let portion = from.portion(0, PORTION_BYTES).unwrap();
    let take = |bytes: Bytes, limits: &MirrorLimits| {
        Arriving::new(Cut { epoch: 3, position: 0 }, empty(limits), limits).take(&bytes).map(|_| ())
    };
    for most in [0, 1, portion.len() - 1] {
        assert!(take(portion.slice(..most), &LIMITS).is_err());
    }
    let few = MirrorLimits { state_keys_max: 2, ..LIMITS };
    assert_eq!(take(portion.clone(), &few), Err(RestoreError::Keys { limit: 2 }.into()));
    let mut arriving = Arriving::new(Cut { epoch: 3, position: 0 }, empty(&LIMITS), &LIMITS);
    arriving.recent_bytes_max = 6;
    assert_eq!(arriving.take(&portion).unwrap_err(), JoinError::Recent { limit: 6 });
}

#[test]
fn recent_packets_with_a_gap_are_refused() {
    let mut snapshot = filled(5, 3, 1);
    snapshot.recent.remove(1);
    assert!(matches!(joined(&encoded(&snapshot, 1), 1), Err(JoinError::Restore(_))));
    let mut snapshot = filled(5, 3, 1);
    snapshot.recent.pop();
    assert_eq!(
        joined(&encoded(&snapshot, 1), 1).unwrap_err(),
        JoinError::Order("the recent packets end elsewhere")
    );
}
