//! Tests of origins that continue after one that died.

use super::*;
use crate::follow::{Follower, Opening};
use crate::joining::tests::copy_of;
use crate::keyed::KeyedState;
use crate::mirror::Mirror;
use crate::origin::{Origin, Refusal};
use crate::packet::{Holding, Monitored, Vote};
use crate::rules::file::StateOptions;
use crate::select::Functions;
use crate::snapshot::Snapshot;
use crate::state::{Moment, State};
use proptest::prelude::*;
use std::sync::Arc;
use treefold_core::stream::StreamId;
use treefold_core::time::Instant;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn rules(text: &str) -> Arc<RuleFile> {
    Arc::new(RuleFile::read(text).unwrap())
}

fn empty() -> KeyedState {
    KeyedState::new(StateOptions::default(), &LIMITS, 2)
}

fn event(stream: &str, number: u64, key: u64, kind: u64) -> Event {
    let text = format!(
        r#"{{"stream":"{stream}","number":{number},"key":"{stream}{key}","type":"t{kind}","fields":{{"f{kind}":{number}, "n":{number}}}}}"#
    );
    Event::from_json(&text, None, &LIMITS).unwrap()
}

/// A journal, and the origin that writes to it.
struct Writing {
    origin: Origin,
    records: Vec<(u64, u64, Bytes)>,
    /// It dies behind so many records.
    records_max: usize,
}

impl Writing {
    fn new(rules: &Arc<RuleFile>) -> Self {
        Self::limited(rules, LIMITS)
    }

    fn limited(rules: &Arc<RuleFile>, limits: MirrorLimits) -> Self {
        let start = Cut { epoch: 1, position: 0 };
        let origin = Origin::new(start, Arc::clone(rules), Functions::new(), limits, 1).unwrap();
        Self { origin, records: Vec::new(), records_max: usize::MAX }
    }

    /// Writes all that is ready to the journal.
    fn write(&mut self, now: u64) {
        while self.records.len() < self.records_max
            && let Some(sent) = self.origin.poll_packet(at(now), now)
        {
            if let Some((first, last)) = sent.events {
                self.records.push((first, last, sent.packet));
                self.origin.handle_durable(last);
            }
        }
        self.origin.advance_acknowledged();
    }

    fn acknowledged(&self, stream: &str) -> u64 {
        self.origin.acknowledged().find(|(name, _)| name.as_str() == stream).map_or(0, |(_, number)| number)
    }

    fn recovery(&self, end: u64) -> Recovery {
        let past = Lineage::default().ended(Cut { epoch: 1, position: end });
        let mut recovery = Recovery::new(2, past, 0);
        for (first, last, packet) in &self.records {
            recovery.take(*first, *last, packet).unwrap();
        }
        recovery
    }
}

fn recovered(recovery: Recovery, rules: &Arc<RuleFile>) -> Origin {
    Origin::recover(recovery, 0, Arc::clone(rules), Functions::new(), LIMITS, 7).unwrap()
}

#[test]
fn records_that_do_not_follow_or_are_no_events_are_refused() {
    let mut writing = Writing::new(&rules(""));
    for number in 1..=3 {
        writing.origin.offer(at(0), event("s", number, 1, 0)).unwrap();
        writing.write(0);
    }
    let mut recovery = Recovery::new(2, Lineage::default(), 0);
    let (first, last, packet) = &writing.records[1];
    assert!(recovery.take(*first, *last, packet).is_err(), "the first record is missing");
    assert!(recovery.take(1, 1, packet).is_err(), "it has other events");
    for garbage in [Bytes::new(), Bytes::from_static(&[2, 1, 1]), packet.slice(..packet.len() - 1)] {
        assert!(recovery.take(1, 1, &garbage).is_err());
    }
    assert_eq!(recovery.position(), 0);
    let empty = recovered(Recovery::new(2, Lineage::default(), 40), &rules(""));
    assert_eq!(empty.cut(), Cut { epoch: 2, position: 40 });
}

#[test]
fn journal_keeps_acknowledged_events_of_which_its_records_do_not_say_that_they_are_decided() {
    let rules = rules("[checkpoint]\nevery_events=1");
    let single = MirrorLimits { batch_bytes_max: 1, ..LIMITS };
    let start = Cut { epoch: 1, position: 0 };
    let mut first = Origin::new(start, Arc::clone(&rules), Functions::new(), single, 1).unwrap();
    for number in 1..=4 {
        first.offer(at(0), event("s", number, number, 0)).unwrap();
    }
    // It dies with the fourth event unsent, so none of its records says that the first three are decided.
    let records: Vec<_> = std::iter::from_fn(|| first.poll_packet(at(0), 0))
        .filter_map(|sent| sent.events.map(|(first, last)| (first, last, sent.packet)))
        .take(3)
        .collect();
    let recovery = |epoch, base| {
        let past =
            (1..epoch).map(|epoch| Cut { epoch, position: 3 }).fold(Lineage::default(), Lineage::ended);
        let mut recovery = Recovery::new(epoch, past, base);
        for (first, last, packet) in records.iter().filter(|(_, last, _)| *last > base) {
            recovery.take(*first, *last, packet).unwrap();
        }
        recovery
    };
    let mut second = recovered(recovery(2, 0), &rules).with_copies(1);
    second.handle_mirrors(at(0), [0]);
    for number in 1..=3 {
        second.offer(at(0), event("s", number, number, 0)).unwrap();
    }
    while second.poll_packet(at(0), 0).is_some() {}
    let number = second.checkpoints().last().0.number;
    second.handle_votes(at(0), &Vote::of(0, 1, number, Holding::Has(3), Monitored::default()), &[]);
    assert!(second.advance_acknowledged(), "it knows that the three are decided");
    assert_eq!((second.log().committed(), second.acknowledged().count()), (3, 1));
    // A journal keeps its last record. The third origin knows only what the journal has kept.
    let needless = second.trim_journal().min(2);
    let mut third = recovered(recovery(3, needless), &rules);
    for number in 1..=3 {
        // Its source has not learned of the acknowledgement.
        third.offer(at(1), event("s", number, number, 0)).unwrap();
    }
    let sent = std::iter::from_fn(|| third.poll_packet(at(1), 1));
    let last = sent.filter_map(|sent| sent.events).map(|(_, last)| last).max();
    assert_eq!(last, Some(3), "no event is sent twice");
}

#[test]
fn stream_continues_behind_the_last_decided_event() {
    let mut writing = Writing::new(&rules(""));
    for number in 1..=3 {
        writing.origin.offer(at(0), event("s", number, 1, 0)).unwrap();
    }
    writing.write(0);
    let mut next = recovered(writing.recovery(3), &rules(""));
    let repeated = next.offer(at(0), event("s", 3, 1, 0));
    assert!(matches!(repeated, Err(Refusal::Repeated { last: 3, .. })), "{repeated:?}");
    // The last origin may have acknowledged number 4, which a rule had suppressed.
    next.offer(at(0), event("s", 5, 1, 0)).unwrap();
    assert!(matches!(next.offer(at(0), event("s", 7, 1, 0)), Err(Refusal::Jump { expected: 6, .. })));
}

#[test]
fn journal_keeps_events_that_a_source_may_repeat() {
    let rules = rules("[[rule]]\nname='o'\noverwrite={type='t0',run=9,max_age_ms=1000}");
    let mut writing = Writing::new(&rules);
    writing.origin.offer(at(0), event("s", 1, 1, 0)).unwrap();
    writing.origin.offer(at(0), event("s", 2, 1, 0)).unwrap();
    writing.origin.offer(at(0), event("s", 3, 2, 1)).unwrap();
    writing.write(0);
    assert_eq!(
        (writing.acknowledged("s"), writing.origin.cut().position),
        (1, 2),
        "2 is held, 3 is mirrored"
    );
    // All is committed, but the source will repeat 2 and 3.
    writing.origin.handle_mirrors(at(0), [0]);
    writing.write(0);
    let vote = crate::packet::Vote::of(0, 1, 1, crate::packet::Holding::Has(2), Default::default());
    writing.origin.handle_votes(at(0), &vote, &[]);
    assert_eq!((writing.origin.log().committed(), writing.origin.trim_journal()), (2, 0));
    let mut next = recovered(writing.recovery(2), &rules);
    while next.poll_packet(at(0), 0).is_some() {}
    for number in 2..=3 {
        next.offer(at(0), event("s", number, number - 1, number - 2)).unwrap();
    }
    let sent = next.poll_packet(at(0), 0).unwrap();
    assert_eq!(sent.events, Some((3, 3)), "3 is not sent again: {sent:?}");
}

/// Has an origin die that has mirrored event 4, and not event 5, which had replaced event 3. Returns the numbers of the
/// repeated events that an origin with these rules sends.
fn sent_after_an_event_was_replaced(recovers_with: impl FnOnce(&Arc<RuleFile>) -> Arc<RuleFile>) -> Vec<u64> {
    let overwriting = rules(
        "[[rule]]\nname='a'\noverwrite={type='t0',run=9,max_age_ms=1000}\n\
         [[rule]]\nname='b'\noverwrite={type='t1',run=9,max_age_ms=1000}",
    );
    let mut writing = Writing::limited(&overwriting, MirrorLimits { batch_bytes_max: 1, ..LIMITS });
    // 1 and 2 begin the runs of their types, 3 and 4 are held, and 5 replaces 3.
    for (number, kind) in [(1, 0), (2, 1), (3, 0), (4, 1), (5, 0)] {
        writing.origin.offer(at(0), event("s", number, 1, kind)).unwrap();
    }
    // The origin dies when it has sent 4, but not 5.
    writing.origin.release_all(at(0));
    writing.records_max = 3;
    writing.write(0);
    let mut next = recovered(writing.recovery(3), &recovers_with(&overwriting));
    while next.poll_packet(at(0), 0).is_some() {}
    for (number, kind) in [(3, 0), (4, 1), (5, 0)] {
        next.offer(at(0), event("s", number, 1, kind)).unwrap();
    }
    let Some(sent) = next.poll_packet(at(0), 0) else { panic!("event 5 is sent") };
    let Ok(Down::Batch(batch)) = Down::read(&sent.packet) else { panic!("a batch") };
    batch.events().map(|event| event.unwrap().number).collect()
}

#[test]
fn event_that_another_held_one_had_replaced_is_not_sent_behind_a_newer_one_of_its_key() {
    assert_eq!(sent_after_an_event_was_replaced(Arc::clone), [5]);
}

#[test]
fn replaced_event_is_not_sent_behind_a_newer_one_if_the_next_origin_has_other_rules() {
    assert_eq!(sent_after_an_event_was_replaced(|_| rules("")), [5]);
}

#[test]
fn part_that_waited_is_sent_again_although_later_events_of_its_key_have_passed_it() {
    let tuple = rules(
        "[[rule]]\nname = 'r'\n[rule.tuple]\nof = [{ type = 't1' }, { type = 't2' }]\nwithin_ms = 1000\nbecomes = 'd'",
    );
    let mut first = Writing::new(&tuple);
    // Event 1 is a part and waits; event 2 of its key is mirrored.
    first.origin.offer(at(1), event("s", 1, 1, 1)).unwrap();
    first.origin.offer(at(1), event("s", 2, 1, 3)).unwrap();
    first.write(1);
    let mut next = recovered(first.recovery(1), &tuple);
    while next.poll_packet(at(1), 1).is_some() {}
    for (number, kind) in [(1, 1), (2, 3), (3, 2)] {
        next.offer(at(1), event("s", number, 1, kind)).unwrap();
    }
    let Some(sent) = next.poll_packet(at(1), 1) else { panic!("the tuple is sent") };
    let Ok(Down::Batch(batch)) = Down::read(&sent.packet) else { panic!("a batch") };
    let kinds: Vec<_> = batch.events().map(|event| event.unwrap().kind.to_string()).collect();
    assert_eq!(kinds, ["d"]);
}

#[test]
fn packets_that_mirrors_have_are_sent_again_only_if_no_mirror_can_go_on() {
    let mut writing = Writing::new(&rules(""));
    for number in 1..=5 {
        writing.origin.offer(at(0), event("s", number, 1, 0)).unwrap();
        writing.write(0);
    }
    let mut next = Origin::recover(writing.recovery(5), 3, rules(""), Functions::new(), LIMITS, 7).unwrap();
    let sent = |next: &mut Origin| -> Vec<_> {
        std::iter::from_fn(|| next.poll_packet(at(0), 0)).filter_map(|one| one.events).collect()
    };
    assert_eq!(sent(&mut next), [(4, 4), (5, 5)]);
    // All mirrors have died meanwhile, and came back without a state.
    next.handle_mirrors(at(0), [0]);
    assert_eq!(sent(&mut next), []);
    let number = next.checkpoints().last().0.number;
    let joins = crate::packet::Vote::of(0, 1, number, crate::packet::Holding::Joins, Default::default());
    next.handle_votes(at(0), &joins, &[]);
    assert_eq!(sent(&mut next).len(), 5);
}

fn values(state: &KeyedState) -> Vec<String> {
    let mut all: Vec<String> = state
        .iter()
        .map(|one| {
            let mut fields: Vec<_> =
                one.fields.iter().map(|(name, raw)| (name.to_owned(), raw.to_vec())).collect();
            fields.sort();
            format!("{} {fields:?}", one.key)
        })
        .collect();
    all.sort();
    all
}

proptest! {
    /// An origin dies, the next one recovers, and sources repeat the events that were not acknowledged: the state of
    /// mirrors is that of all events in their order. One mirror has followed all the time, one joins afterwards.
    #[test]
    fn acknowledged_events_survive_the_death_of_their_origin(
        script in prop::collection::vec((0..3_u64, 0..3_u64, 0..2_usize, 0..40_u64), 1..60),
        dies_at in 0..60_usize,
        lost in 0..4_usize,
        records_max in 0..60_usize,
        run in 2..9_u32,
        overwritten in prop::collection::btree_set(0..3_u64, 1..3),
        coalesced in any::<bool>(),
        batch_bytes_max in prop_oneof![Just(1_usize), Just(LIMITS.batch_bytes_max)],
    ) {
        let overwrite = |kind| {
            format!("[[rule]]\nname='a{kind}'\noverwrite={{type='t{kind}',run={run},max_age_ms=100}}\n")
        };
        let mut text: String = overwritten.into_iter().map(overwrite).collect();
        if coalesced {
            text += "[[rule]]\nname='c'\ncoalesce={events=5,max_age_ms=30}\n";
        }
        let (rules, streams) = (rules(&text), ["s", "u"]);
        let mut writing = Writing::limited(&rules, MirrorLimits { batch_bytes_max, ..LIMITS });
        writing.records_max = records_max;
        let (mut now, mut events) = (0, [Vec::new(), Vec::new()]);
        let mut direct = empty();
        for (key, kind, stream, _) in &script {
            let one = event(streams[*stream], events[*stream].len() as u64 + 1, *key, *kind);
            direct.apply(Moment { position: 0, sent_ms: 0 }, one.borrowed(), &mut Vec::new());
            events[*stream].push(one);
        }
        let mut offered = [0, 0];
        let (mut durable, mut acknowledged) = (0, [0, 0]);
        for (index, (_, _, stream, pause)) in script.iter().enumerate() {
            if index >= dies_at {
                break;
            }
            writing.origin.handle_timeout(at(now));
            writing.origin.offer(at(now), events[*stream][offered[*stream]].clone()).unwrap();
            offered[*stream] += 1;
            // The origin dies before the last flushes: their events are neither durable nor acknowledged.
            if index + lost < dies_at {
                writing.write(now);
                durable = writing.records.len();
                acknowledged = streams.map(|stream| writing.acknowledged(stream));
            }
            now += pause;
        }
        writing.records.truncate(durable);

        let mut mirror = Follower::new(0, 1, Mirror::new(Snapshot::beginning(Cut::default(), empty()), &LIMITS), &LIMITS);
        let anew = |_: Cut| panic!("the feed continues");
        let opening = |epoch, past| Opening { stream: StreamId { origin: 1, sequence: u64::from(epoch) }, epoch, past, candidate: None };
        mirror.begin(&opening(1, Lineage::default()), anew).unwrap();
        for (_, _, packet) in &writing.records {
            mirror.take(packet, 0).unwrap();
        }
        let end = writing.records.last().map_or(0, |(_, last, _)| *last);
        let recovery = writing.recovery(end);
        mirror.begin(&opening(2, recovery.past().clone()), anew).unwrap();
        let mut next = recovered(recovery, &rules);
        let mut sent = Vec::new();
        for (stream, all) in events.iter().enumerate() {
            for one in &all[acknowledged[stream] as usize..] {
                next.handle_timeout(at(now));
                match next.offer(at(now), one.clone()) {
                    Ok(()) => {}
                    Err(Refusal::Repeated { last, .. }) => prop_assert!(one.number <= last),
                    Err(error) => prop_assert!(false, "{error}"),
                }
                sent.extend(std::iter::from_fn(|| next.poll_packet(at(now), now)));
                now += 1;
            }
        }
        next.handle_timeout(at(now + 1_000));
        sent.extend(std::iter::from_fn(|| next.poll_packet(at(now + 2_000), now)));
        // Readers see each key's events in their order, and none twice.
        let resent = sent.iter().filter(|sent| sent.events.is_some()).map(|sent| sent.packet.clone());
        let mut seen = BTreeMap::new();
        for packet in resent {
            let Ok(Down::Batch(batch)) = Down::read(&packet) else { panic!("a batch") };
            for event in batch.events().map(Result::unwrap) {
                let before = seen.insert(event.key.to_string(), event.number);
                prop_assert!(before < Some(event.number), "{} {} after {before:?}", event.key, event.number);
            }
        }
        let mut late = Follower::new(0, 1, Mirror::new(Snapshot::beginning(Cut::default(), empty()), &LIMITS), &LIMITS);
        late.begin(&opening(2, Lineage::default()), anew).unwrap();
        for sent in &sent {
            mirror.take(&sent.packet, 0).unwrap();
            late.take(&sent.packet, 0).unwrap();
        }
        prop_assert_eq!(values(mirror.mirror().state()), values(&direct));
        prop_assert_eq!(values(late.mirror().state()), values(&direct));
        prop_assert_eq!(mirror.mirror().cut(), next.cut());
        prop_assert_eq!(mirror.joins_at(), None);
    }
}

#[test]
fn mirror_keeps_packets_whose_events_a_source_may_repeat_and_gives_them_to_mirrors_that_join() {
    let rules = rules("[[rule]]\nname='o'\noverwrite={type='t0',run=9,max_age_ms=1000}");
    let mut writing = Writing::new(&rules);
    // Event 2 is held back, so the source repeats it, and event 3 with it.
    for (number, key, kind) in [(1, 1, 0), (2, 1, 0), (3, 2, 1)] {
        writing.origin.offer(at(0), event("s", number, key, kind)).unwrap();
        writing.write(0);
    }
    let limits = MirrorLimits { resume_bytes_max: 1, ..LIMITS };
    let mut mirror = Mirror::new(Snapshot::beginning(Cut { epoch: 1, position: 0 }, empty()), &limits);
    for (_, _, packet) in &writing.records {
        mirror.take(packet).unwrap();
    }
    mirror.take(&Down::write_commit(2)).unwrap();
    assert_eq!(
        mirror.log().after(0).unwrap().count(),
        2,
        "all is committed, and one packet is enough to resume"
    );
    let joined = Mirror::new(copy_of(&mirror.snapshot(), empty(), &LIMITS), &limits);
    assert_eq!(joined.log().after(0).unwrap().count(), 2);
    // The held event is sent, and everything is decided.
    writing.origin.release_all(at(0));
    writing.write(0);
    mirror.take(&writing.records.last().unwrap().2).unwrap();
    mirror.take(&Down::write_commit(3)).unwrap();
    assert!(mirror.log().oldest() > 1);
    assert_eq!(mirror.snapshot().recent.len(), 0);
}

#[test]
fn unnumbered_events_go_on_behind_all_that_the_last_origin_has_mirrored() {
    let held = rules(
        "[[rule]]\nname = 'r'\n[rule.tuple]\nof = [{ type = 't1' }, { type = 't2' }]\nwithin_ms = 1000\nbecomes = 'd'",
    );
    let mut first = Writing::new(&held);
    // Event 1 is a part of a tuple and is held back; event 2 is mirrored.
    first.origin.offer(at(1), event("s", 1, 1, 1)).unwrap();
    first.origin.offer(at(1), event("s", 2, 2, 3)).unwrap();
    first.write(1);
    let mut second = recovered(first.recovery(1), &held);
    second.offer_numbered(at(1), event("s", 1, 3, 3), crate::origin::Numbers::Received).unwrap();
    let repeated = second.offer(at(1), event("s", 3, 4, 3));
    assert!(matches!(repeated, Err(Refusal::Repeated { last: 3, .. })), "{repeated:?}");
}
