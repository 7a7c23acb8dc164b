//! Tests of an origin with its mirrors, without a network: order, commits, snapshots, resuming, adaptation.

use super::*;
use crate::keyed::KeyedState;
use crate::mirror::{Mirror, MirrorError, ResumeError, Taken};
use crate::packet::{Checkpoint, Holding};
use crate::rules::file::StateOptions;
use crate::snapshot::Snapshot;
use crate::state::{Frozen, Moment, State};
use proptest::prelude::*;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;
const START: Cut = Cut { epoch: 1, position: 0 };

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn origin(rules: &str, limits: MirrorLimits) -> Origin {
    let rules = Arc::new(RuleFile::read(rules).unwrap());
    Origin::new(START, rules, Functions::new(), limits, 1).unwrap()
}

fn empty() -> KeyedState {
    KeyedState::new(StateOptions::default(), &LIMITS, 2)
}

fn mirror(limits: &MirrorLimits) -> Mirror<KeyedState> {
    Mirror::new(Snapshot::beginning(START, empty()), limits)
}

fn vote(mirror: u32, mirrors: u32, checkpoint: Checkpoint, position: u64, pending: u64) -> Vote {
    let monitored = Monitored { pending_requests: pending, ..Monitored::default() };
    Vote::of(mirror, mirrors, checkpoint.number, Holding::Has(position), monitored)
}

fn event(stream: &str, number: u64, key: u64, kind: &str) -> Event {
    let text = format!(
        r#"{{"stream":"{stream}","number":{number},"key":"k{key}","type":"{kind}","fields":{{"{kind}":{number}}}}}"#
    );
    Event::from_json(&text, None, &LIMITS).unwrap()
}

fn packets(origin: &mut Origin, now: u64) -> Vec<Bytes> {
    std::iter::from_fn(|| origin.poll_packet(at(now), now)).map(|outgoing| outgoing.packet).collect()
}

/// Gives packets to mirrors, and the folded votes back to the origin, until nothing moves.
fn exchange(origin: &mut Origin, mirrors: &mut [Mirror<KeyedState>], now: u64) {
    let total = mirrors.len() as u32;
    origin.checkpoints.seat(at(now), 0..total);
    while let Some(Outgoing { packet, .. }) = origin.poll_packet(at(now), now) {
        let mut votes = Vec::new();
        for (number, mirror) in (0..).zip(mirrors.iter_mut()) {
            if let Taken::Asked(checkpoint) = mirror.take(&packet).unwrap() {
                votes.push(vote(number, total, checkpoint, mirror.cut().position, 0));
            }
        }
        if let Some(vote) = votes.into_iter().reduce(Vote::folded) {
            origin.handle_votes(at(now), &vote, &[]);
        }
    }
}

#[test]
fn events_reach_mirrors_and_are_committed() {
    let mut origin = origin("[checkpoint]\nevery_events=10", LIMITS);
    let mut mirrors = [mirror(&LIMITS), mirror(&LIMITS)];
    for number in 1..=25 {
        origin.offer(at(number), event("s", number, number % 3, "t")).unwrap();
        exchange(&mut origin, &mut mirrors, number);
    }
    for mirror in &mirrors {
        assert_eq!((mirror.cut().position, mirror.log().committed(), mirror.state().len()), (25, 20, 3));
        assert_eq!(mirror.vector_time(Name::new("f").unwrap()).to_string(), "f=1.25;s=25");
    }
    assert_eq!((origin.log().committed(), origin.decided("s")), (20, Some(25)));
}

#[test]
fn requests_for_votes_that_cannot_be_sent_do_not_pile_up() {
    let mut origin = origin("", LIMITS);
    for _ in 0..1_000 {
        origin.request_votes(at(0));
    }
    assert_eq!(origin.waiting.len(), 1);
    let Some(Ok(Down::Checkpoint(checkpoint))) =
        origin.poll_packet(at(0), 0).map(|one| Down::read(&one.packet))
    else {
        panic!("it asks")
    };
    assert_eq!(checkpoint.number, 1_000, "the newest one");
}

#[test]
fn origin_without_its_copies_neither_commits_nor_acknowledges() {
    let mut origin = origin("[checkpoint]\nevery_events=1", LIMITS).with_copies(2);
    origin.handle_mirrors(at(0), 0..3);
    let mut alone = mirror(&LIMITS);
    for now in 1..=10 {
        origin.offer(at(now * 1_000), event("s", now, 1, "t")).unwrap();
        for packet in packets(&mut origin, now * 1_000) {
            if let Taken::Asked(checkpoint) = alone.take(&packet).unwrap() {
                origin.handle_votes(at(now * 1_000), &vote(0, 3, checkpoint, now, 0), &[1, 2]);
            }
        }
        origin.advance_acknowledged();
    }
    assert_eq!((origin.log().committed(), origin.acknowledged().count()), (0, 0));
    assert_eq!((alone.cut().position, alone.log().committed()), (10, 0));
    assert_eq!(origin.checkpoints().shortage().map(|shortage| (shortage.has, shortage.needs)), Some((1, 2)));
}

#[test]
fn numbers_that_go_back_or_jump_are_refused() {
    let mut origin = origin("", LIMITS);
    let stream = Name::new("s").unwrap();
    origin.offer(at(0), event("s", 7, 1, "t")).unwrap();
    let repeated = Refusal::Repeated { stream: stream.clone(), given: 7, last: 7 };
    assert_eq!(origin.offer(at(0), event("s", 7, 1, "t")), Err(repeated));
    let jump = Refusal::Jump { stream, given: 9, expected: 8 };
    assert_eq!(origin.offer(at(0), event("s", 9, 1, "t")), Err(jump));
    origin.offer(at(0), event("s", 8, 1, "t")).unwrap();
    assert_eq!(packets(&mut origin, 0).len(), 1);
    assert_eq!(origin.cut().position, 2);
}

#[test]
fn full_queues_refuse_events_until_they_have_room() {
    let mut origin = origin(
        "[checkpoint]\nevery_events=1",
        MirrorLimits { ready_bytes_max: 1_000, backup_bytes_max: 50, ..LIMITS },
    );
    origin.handle_mirrors(at(0), [0]);
    let mut number = 1;
    while origin.offer(at(0), event("s", number, 1, "t")).is_ok() {
        number += 1;
    }
    assert!(matches!(
        origin.offer(at(0), event("s", number, 1, "t")),
        Err(Refusal::Busy { queue: "ready", .. })
    ));
    let mut waiting = packets(&mut origin, 0);
    assert!(matches!(
        origin.offer(at(0), event("s", number, 1, "t")),
        Err(Refusal::Busy { queue: "backup", .. })
    ));
    let mut mirror = mirror(&LIMITS);
    for packet in waiting.drain(..) {
        if let Taken::Asked(checkpoint) = mirror.take(&packet).unwrap() {
            origin.handle_votes(at(0), &vote(0, 1, checkpoint, mirror.cut().position, 0), &[]);
        }
    }
    origin.offer(at(0), event("s", number, 1, "t")).unwrap();
}

#[test]
fn full_backup_queue_asks_for_votes_until_it_has_room() {
    // No checkpoint is due, and none ever would be, because the origin refuses events.
    let mut origin =
        origin("[checkpoint]\nevery_events=1000", MirrorLimits { backup_bytes_max: 50, ..LIMITS });
    origin.handle_mirrors(at(0), [0, 1]);
    let mut mirrors = [mirror(&LIMITS), mirror(&LIMITS)];
    let mut number = 1;
    while origin.offer(at(0), event("s", number, 1, "t")).is_ok() {
        number += 1;
        let sent = packets(&mut origin, 0);
        mirrors.iter_mut().for_each(|mirror| sent.iter().for_each(|packet| _ = mirror.take(packet).unwrap()));
    }
    let mut now = 0;
    let mut asked = 0;
    while origin.offer(at(now), event("s", number, 1, "t")).is_err() {
        now = origin.wake_at().expect("it asks again").as_nanos() / 1_000_000;
        for packet in packets(&mut origin, now) {
            if let Taken::Asked(checkpoint) = mirrors[0].take(&packet).unwrap() {
                asked += 1;
                // Mirror 1 stays silent until its lease ends.
                let vote = vote(0, 2, checkpoint, mirrors[0].cut().position, 0);
                origin.handle_votes(at(now), &vote, &[1]);
            }
        }
    }
    assert!(asked > 1 && now >= LEASE_DEFAULT.as_millis(), "asked {asked} times in {now} ms");
}

#[test]
fn mirror_that_came_back_alone_gets_all_events_when_the_lease_of_the_others_ends() {
    let mut origin = origin("", LIMITS);
    origin.handle_mirrors(at(0), [0, 1]);
    for number in 1..=3 {
        origin.offer(at(0), event("s", number, 1, "t")).unwrap();
    }
    let mut ask = |now: u64, answer: fn(u32, Checkpoint) -> Vote| {
        let sent = packets(&mut origin, now);
        for packet in &sent {
            if let Ok(Down::Checkpoint(checkpoint)) = Down::read(packet) {
                origin.handle_votes(at(now), &answer(2, checkpoint), &[1]);
            }
        }
        let wakes = origin.wake_at();
        if let Some(at) = wakes {
            origin.handle_timeout(at);
        }
        (sent.len(), wakes)
    };
    // Mirror 1 has gone, and mirror 0 has come back without a state.
    let joins = |total, checkpoint: Checkpoint| {
        Vote::of(0, total, checkpoint.number, Holding::Joins, Monitored::default())
    };
    let (sent, wakes) = ask(0, joins);
    assert_eq!((sent, wakes), (2, Some(at(LEASE_DEFAULT.as_millis()))), "a batch and a checkpoint");
    let now = LEASE_DEFAULT.as_millis();
    assert_eq!(ask(now, joins).0, 1, "it asks again");
    assert_eq!(ask(now, joins).0, 2, "it sends the batch again, and asks");
}

#[test]
fn held_events_are_not_decided() {
    let mut origin = origin("[[rule]]\nname='a'\noverwrite={type='t',run=3,max_age_ms=50}", LIMITS);
    for number in 1..=2 {
        origin.offer(at(0), event("s", number, 1, "t")).unwrap();
    }
    origin.offer(at(0), event("s", 3, 2, "u")).unwrap();
    packets(&mut origin, 0);
    assert_eq!((origin.cut().position, origin.decided("s")), (2, Some(1)), "2 is held");
    assert_eq!(origin.wake_at(), Some(at(50)));
    origin.handle_timeout(at(50));
    packets(&mut origin, 50);
    assert_eq!((origin.cut().position, origin.decided("s"), origin.wake_at()), (3, Some(3), None));
}

#[test]
fn coalesced_events_wait_for_others_but_not_for_long() {
    let mut origin = origin("[[rule]]\nname='c'\ncoalesce={events=4,max_age_ms=20}", LIMITS);
    for number in 1..=3 {
        origin.offer(at(number), event("s", number, 1, "t")).unwrap();
    }
    assert!(packets(&mut origin, 3).is_empty());
    assert_eq!(origin.wake_at(), Some(at(21)));
    assert_eq!(packets(&mut origin, 21).len(), 1);
    assert_eq!((origin.cut().position, origin.decided("s")), (1, Some(3)), "one event of the key and type");
    for number in 4..=7 {
        origin.offer(at(22), event("s", number, number, "t")).unwrap();
    }
    assert_eq!(packets(&mut origin, 22).len(), 1, "four are there");
}

#[test]
fn mode_changes_at_one_position_everywhere() {
    let rules = "[adapt]\npending_requests={primary=10,secondary=5}\n[checkpoint]\nevery_events=1\nevery_events_loaded=3\n\
                 [[rule]]\nname='a'\nactive='loaded'\ndiscard={type='t'}";
    let mut origin = origin(rules, LIMITS);
    let mut mirror = mirror(&LIMITS);
    let mut step = |number: u64, kind: &str, pending: u64| {
        origin.offer(at(number), event("s", number, 1, kind)).unwrap();
        let mut checkpoints = 0;
        while let Some(Outgoing { packet, .. }) = origin.poll_packet(at(number), number) {
            if let Taken::Asked(checkpoint) = mirror.take(&packet).unwrap() {
                let vote = vote(0, 1, checkpoint, mirror.cut().position, pending);
                origin.handle_votes(at(number), &vote, &[]);
                checkpoints += 1;
            }
        }
        (mirror.cut().position, mirror.rules_version(), checkpoints)
    };
    assert_eq!(step(1, "t", 10), (1, 1, 1));
    assert_eq!(step(2, "t", 10), (1, 1, 0), "discarded");
    assert_eq!(step(3, "u", 10), (2, 2, 0), "the version is that of the loaded rules");
    assert_eq!(step(4, "u", 10), (3, 2, 0));
    assert_eq!(step(5, "u", 4), (4, 2, 1));
    assert_eq!(step(6, "t", 4), (5, 3, 1), "normal again");
}

#[test]
fn packets_with_a_gap_or_of_another_epoch_change_nothing() {
    let mut origin = origin("", LIMITS);
    let mut all = Vec::new();
    for number in 1..=3 {
        origin.offer(at(0), event("s", number, 1, "t")).unwrap();
        all.extend(packets(&mut origin, 0));
    }
    let mut one = mirror(&LIMITS);
    one.take(&all[0]).unwrap();
    assert_eq!(one.take(&all[2]), Err(MirrorError::Gap { expected: 2, given: 3 }));
    assert_eq!(one.take(&all[0]), Ok(Taken::Applied { events: 0, derived: Vec::new() }));
    assert!(matches!(one.take(&Bytes::from_static(&[9])), Err(MirrorError::Packet(_))));
    let cut = all[1].slice(..all[1].len() - 1);
    assert!(matches!(one.take(&cut), Err(MirrorError::Packet(_))));
    assert_eq!(one.cut().position, 1);
    let mut newer = Mirror::new(Snapshot::beginning(Cut { epoch: 2, position: 0 }, empty()), &LIMITS);
    assert_eq!(newer.take(&all[0]), Err(MirrorError::Epoch { known: 2, given: 1 }));
}

#[test]
fn readers_that_cannot_resume_are_told_why() {
    let limits = MirrorLimits { resume_bytes_max: 100, ..LIMITS };
    let mut origin = origin("[checkpoint]\nevery_events=1", LIMITS);
    let mut mirrors = [mirror(&limits)];
    for number in 1..=20 {
        origin.offer(at(0), event("s", number, 1, "t")).unwrap();
        exchange(&mut origin, &mut mirrors, 0);
    }
    let resume = |epoch, position| mirrors[0].resume(Cut { epoch, position }).map(Iterator::count);
    assert_eq!(resume(1, 19), Ok(1));
    assert_eq!(resume(1, 20), Ok(0));
    assert_eq!(resume(1, 21), Err(ResumeError::Ahead { known: 20, given: 21 }));
    assert_eq!(resume(2, 19), Err(ResumeError::Epoch { known: 1, given: 2 }));
    assert!(matches!(resume(1, 3), Err(ResumeError::Trimmed(_))));
}

#[test]
fn acknowledgement_waits_for_a_copy_and_for_the_journal() {
    let mut origin = origin("[checkpoint]\nevery_events=1000", LIMITS).with_copies(1);
    let mut mirrors = [mirror(&LIMITS)];
    let acknowledged = |origin: &mut Origin| {
        origin.advance_acknowledged();
        origin.acknowledged().map(|(_, number)| number).next()
    };
    origin.handle_durable(0);
    origin.offer(at(0), event("s", 1, 1, "t")).unwrap();
    exchange(&mut origin, &mut mirrors, 0);
    assert_eq!(mirrors[0].cut().position, 1);
    assert_eq!(acknowledged(&mut origin), None, "not durable");
    origin.handle_durable(1);
    assert_eq!(
        acknowledged(&mut origin),
        Some(1),
        "a checkpoint came after the event, although 1000 are due"
    );
    // No mirror answers: the origin asks again.
    origin.offer(at(1), event("s", 2, 1, "t")).unwrap();
    origin.handle_durable(2);
    let sent = packets(&mut origin, 1);
    mirrors[0].take(&sent[0]).unwrap();
    assert_eq!(sent.len(), 2, "an event and a checkpoint");
    assert_eq!((acknowledged(&mut origin), origin.wake_at()), (Some(1), Some(at(201))));
    assert_eq!(packets(&mut origin, 200).len(), 0);
    exchange(&mut origin, &mut mirrors, 201);
    assert_eq!((acknowledged(&mut origin), origin.wake_at()), (Some(2), None));
}

#[test]
fn suppressed_events_are_acknowledged_and_held_ones_are_not() {
    let rules = "[[rule]]\nname='d'\ndiscard={type='t'}\n[[rule]]\nname='o'\noverwrite={type='u',run=9,max_age_ms=50}";
    let mut origin = origin(rules, LIMITS);
    let acknowledged = |origin: &mut Origin, now| {
        packets(origin, now);
        origin.advance_acknowledged();
        origin.acknowledged().map(|(_, number)| number).next()
    };
    origin.offer(at(0), event("s", 1, 1, "t")).unwrap();
    assert_eq!(acknowledged(&mut origin, 0), Some(1), "discarded");
    for number in 2..=3 {
        origin.offer(at(0), event("s", number, 1, "u")).unwrap();
    }
    assert_eq!(acknowledged(&mut origin, 0), Some(2), "3 is held");
    origin.handle_timeout(at(50));
    assert_eq!(acknowledged(&mut origin, 50), Some(3));
    assert!(origin.is_idle());
}

proptest! {
    /// Mirrors, whenever they join, have the state of the origin's events, once held events are sent.
    #[test]
    fn snapshot_and_events_after_it_are_the_state(
        script in prop::collection::vec((0..4_u64, 0..3_usize, 0..2_usize, 0..40_u64), 1..80),
        run in 2..5_u32,
        joins_at in 0..80_usize,
        coalesced in any::<bool>(),
    ) {
        let mut rules = format!("[checkpoint]\nevery_events=7\n[[rule]]\nname='a'\noverwrite={{type='t0',run={run},max_age_ms=100}}\n");
        if coalesced {
            rules += "[[rule]]\nname='c'\ncoalesce={events=5,max_age_ms=30}\n";
        }
        let mut origin = origin(&rules, LIMITS);
        let mut mirrors = vec![mirror(&LIMITS)];
        let mut direct = empty();
        let (mut now, mut numbers, mut committed) = (0, [0, 0], 0);
        for (index, (key, kind, stream, pause)) in script.into_iter().enumerate() {
            numbers[stream] += 1;
            let one = event(["s", "u"][stream], numbers[stream], key, ["t0", "t1", "t2"][kind]);
            direct.apply(Moment { position: 0, sent_ms: 0 }, one.borrowed(), &mut Vec::new());
            origin.handle_timeout(at(now));
            origin.offer(at(now), one).unwrap();
            if index == joins_at {
                let snapshot = mirrors[0].snapshot();
                let mut restored = empty();
                for piece in snapshot.state.encode(64) {
                    restored.restore(&piece).unwrap();
                }
                mirrors.push(Mirror::new(snapshot.with_state(restored), &LIMITS));
            }
            exchange(&mut origin, &mut mirrors, now);
            prop_assert!(origin.log().committed() >= committed && committed <= origin.cut().position);
            committed = origin.log().committed();
            now += pause;
        }
        origin.handle_timeout(at(now + 1_000));
        exchange(&mut origin, &mut mirrors, now + 2_000);
        let values = |state: &KeyedState| {
            let mut all: Vec<String> =
                state.iter().map(|one| {
                    let mut fields: Vec<_> = one.fields.iter().map(|(name, raw)| (name.to_owned(), raw.to_vec())).collect();
                    fields.sort();
                    format!("{} {fields:?}", one.key)
                }).collect();
            all.sort();
            all
        };
        for mirror in &mirrors {
            prop_assert_eq!(values(mirror.state()), values(&direct));
            prop_assert_eq!(mirror.cut(), origin.cut());
        }
        for (stream, number) in [("s", numbers[0]), ("u", numbers[1])] {
            prop_assert!(number == 0 || origin.decided(stream) == Some(number));
        }
    }
}

#[test]
fn gaps_in_growing_numbers_are_no_jump_and_numbers_still_never_go_back() {
    let mut origin = origin("", LIMITS);
    for number in [4, 5, 9] {
        origin.offer_numbered(at(1), event("log", number, 1, "t"), Numbers::Growing).unwrap();
    }
    let repeated = origin.offer_numbered(at(1), event("log", 7, 1, "t"), Numbers::Growing);
    assert!(matches!(repeated, Err(Refusal::Repeated { last: 9, .. })), "{repeated:?}");
    let jump = origin.offer(at(1), event("log", 11, 1, "t"));
    assert!(matches!(jump, Err(Refusal::Jump { expected: 10, .. })), "{jump:?}");
    packets(&mut origin, 1);
    assert_eq!(origin.decided("log"), Some(9));
}

#[test]
fn unnumbered_events_get_the_number_after_the_last_one_of_their_stream() {
    let mut origin = origin("", LIMITS);
    origin.offer(at(1), event("log", 4, 1, "t")).unwrap();
    for stream in ["log", "other", "log"] {
        origin.offer_numbered(at(1), event(stream, 1, 1, "t"), Numbers::Received).unwrap();
    }
    packets(&mut origin, 1);
    assert_eq!((origin.decided("log"), origin.decided("other")), (Some(6), Some(1)));
}
