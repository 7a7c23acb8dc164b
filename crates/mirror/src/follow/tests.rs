//! Tests of mirrors that join, with packets written by hand and by an origin.

use super::*;
use crate::event::Event;
use crate::joining::tests::copy_of;
use crate::keyed::KeyedState;
use crate::origin::Origin;
use crate::rules::RuleFile;
use crate::rules::file::StateOptions;
use crate::select::Functions;
use std::sync::Arc;
use treefold_core::time::Instant;

const LIMITS: MirrorLimits = MirrorLimits::DEFAULT;

fn empty(cut: Cut) -> Mirror<KeyedState> {
    let state = KeyedState::new(StateOptions::default(), &LIMITS, 2);
    Mirror::new(Snapshot::beginning(cut, state), &LIMITS)
}

fn follower(number: u32) -> Follower<KeyedState> {
    Follower::new(number, 2, empty(Cut::default()), &LIMITS)
}

fn opening(stream: u64, epoch: u32, past: &[Cut]) -> Opening {
    let past = Lineage::new(past.to_vec()).unwrap();
    Opening { stream: StreamId { origin: 1, sequence: stream }, epoch, past, candidate: None }
}

fn origin(epoch: u32) -> Origin {
    let rules = RuleFile::read("[checkpoint]\nevery_events = 1000").unwrap();
    let start = Cut { epoch, position: 0 };
    Origin::new(start, Arc::new(rules), Functions::new(), LIMITS, 1).unwrap()
}

/// The packet of the origin's next event.
fn sent(origin: &mut Origin, number: u64) -> Bytes {
    let text =
        format!(r#"{{"stream":"s","number":{number},"key":"k","type":"t","fields":{{"n":{number}}}}}"#);
    origin.offer(Instant::START, Event::from_json(&text, None, &LIMITS).unwrap()).unwrap();
    origin.poll_packet(Instant::START, 1).unwrap().packet
}

fn checkpoint(origin: &mut Origin) -> Bytes {
    origin.request_votes(Instant::START);
    origin.poll_packet(Instant::START, 1).unwrap().packet
}

fn snapshot_of(follower: &Follower<KeyedState>) -> Snapshot<KeyedState> {
    let empty = KeyedState::new(StateOptions::default(), &LIMITS, 3);
    copy_of(&follower.mirror().snapshot(), empty, &LIMITS)
}

fn answer(followed: Result<Followed, MirrorError>) -> Option<Holding> {
    match followed.unwrap() {
        Followed::Votes(vote) => vote.holdings().next().map(|(_, holding)| holding),
        Followed::Took(_) | Followed::Kept => None,
    }
}

#[test]
fn mirror_that_lacks_events_keeps_packets_until_it_has_a_snapshot() {
    let mut origin = origin(1);
    let (mut old, mut new) = (follower(0), follower(1));
    old.begin(&opening(1, 1, &[]), empty).unwrap();
    for number in 1..=3 {
        old.take(&sent(&mut origin, number), 0).unwrap();
    }
    new.begin(&opening(1, 1, &[]), empty).unwrap();
    // No event comes, but the checkpoint tells.
    let asked = checkpoint(&mut origin);
    assert_eq!(answer(new.take(&asked, 0)), Some(Holding::Joins));
    assert_eq!(answer(old.take(&asked, 0)), Some(Holding::Has(3)));
    assert_eq!((old.is_current(), new.is_current(), new.joins_at()), (true, false, Some(3)));
    let snapshot = snapshot_of(&old);
    let fourth = sent(&mut origin, 4);
    old.take(&fourth, 0).unwrap();
    assert_eq!(new.take(&fourth, 0), Ok(Followed::Kept));
    new.restore(snapshot, &LIMITS).unwrap();
    assert_eq!((new.is_current(), new.joins_at(), new.mirror().cut()), (true, None, old.mirror().cut()));
    assert_eq!(new.mirror().state().value("k"), old.mirror().state().value("k"));
    assert!(matches!(new.restore(snapshot_of(&old), &LIMITS), Err(RestoreError::Unwanted)));
}

#[test]
fn kept_packets_beyond_the_limit_need_a_newer_snapshot() {
    let mut origin = origin(1);
    let (mut old, mut new) = (follower(0), follower(1));
    old.begin(&opening(1, 1, &[]), empty).unwrap();
    new.begin(&opening(1, 1, &[]), empty).unwrap();
    new.backup_bytes_max = 100;
    let mut snapshot = None;
    for number in 1..=9 {
        let packet = sent(&mut origin, number);
        old.take(&packet, 0).unwrap();
        if number > 1 {
            assert_eq!(new.take(&packet, 0), Ok(Followed::Kept));
        }
        snapshot = snapshot.or_else(|| Some(snapshot_of(&old)));
    }
    assert!(new.joins_at() > Some(1), "the oldest packets are gone");
    assert!(matches!(new.restore(snapshot.unwrap(), &LIMITS), Err(RestoreError::Old { .. })));
    new.restore(snapshot_of(&old), &LIMITS).unwrap();
    assert_eq!((new.joins_at(), new.mirror().cut()), (None, old.mirror().cut()));
}

#[test]
fn mirror_that_cannot_keep_a_packet_needs_a_snapshot_with_its_events() {
    let mut origin = origin(1);
    let (mut old, mut new) = (follower(0), follower(1));
    old.begin(&opening(1, 1, &[]), empty).unwrap();
    new.begin(&opening(1, 1, &[]), empty).unwrap();
    new.backup_bytes_max = 1;
    old.take(&sent(&mut origin, 1), 0).unwrap();
    let before = snapshot_of(&old);
    let second = sent(&mut origin, 2);
    old.take(&second, 0).unwrap();
    assert_eq!(new.take(&second, 0), Ok(Followed::Kept));
    // No further packet would tell the mirror that it lacks event 2.
    assert_eq!(new.joins_at(), Some(2));
    assert!(matches!(new.restore(before, &LIMITS), Err(RestoreError::Old { .. })));
    new.restore(snapshot_of(&old), &LIMITS).unwrap();
    assert_eq!((new.joins_at(), new.mirror().cut()), (None, old.mirror().cut()));
}

#[test]
fn mirror_that_missed_packets_while_it_joined_needs_their_events() {
    let mut origin = origin(1);
    let (mut old, mut new) = (follower(0), follower(1));
    for mirror in [&mut old, &mut new] {
        mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    }
    old.take(&sent(&mut origin, 1), 0).unwrap();
    let second = sent(&mut origin, 2);
    old.take(&second, 0).unwrap();
    new.take(&second, 0).unwrap();
    let before = snapshot_of(&old);
    old.take(&sent(&mut origin, 3), 0).unwrap();
    new.miss();
    assert_eq!(answer(new.take(&checkpoint(&mut origin), 0)), Some(Holding::Joins));
    // The feed is quiet from here on: no later packet tells the mirror that it lacks event 3.
    new.restore(before, &LIMITS).unwrap();
    assert_eq!((new.is_current(), new.joins_at(), new.mirror().cut().position), (false, Some(3), 2));
    new.miss();
    new.restore(snapshot_of(&old), &LIMITS).unwrap();
    assert_eq!((new.is_current(), new.joins_at()), (false, None), "the next checkpoint tells");
    new.take(&checkpoint(&mut origin), 0).unwrap();
    assert!(new.is_current());
}

#[test]
fn mirror_that_joins_again_remembers_what_it_missed() {
    let mut origin = origin(1);
    let (mut old, mut new) = (follower(0), follower(1));
    for mirror in [&mut old, &mut new] {
        mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    }
    let mut next = |old: &mut Follower<_>, number| {
        let packet = sent(&mut origin, number);
        old.take(&packet, 0).unwrap();
        packet
    };
    next(&mut old, 1);
    new.take(&next(&mut old, 2), 0).unwrap();
    let first = snapshot_of(&old);
    // Event 3 passes over it, it keeps event 4, and event 5 passes over it.
    next(&mut old, 3);
    new.miss();
    let fourth = next(&mut old, 4);
    let second = snapshot_of(&old);
    new.take(&fourth, 0).unwrap();
    next(&mut old, 5);
    new.miss();
    new.take(&checkpoint(&mut origin), 0).unwrap();
    new.restore(first, &LIMITS).unwrap();
    assert_eq!(new.joins_at(), Some(3), "event 4 leaves a gap");
    new.restore(second, &LIMITS).unwrap();
    assert_eq!((new.is_current(), new.joins_at()), (false, Some(5)), "the checkpoint has told of event 5");
}

#[test]
fn origin_sends_all_events_again_if_no_mirror_has_a_state() {
    let mut origin = origin(1);
    for number in 1..=3 {
        sent(&mut origin, number);
    }
    let mut mirrors = [follower(0), follower(1)];
    for mirror in &mut mirrors {
        mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    }
    origin.handle_mirrors(Instant::START, 0..2);
    let mut packets = 0;
    while let Some(sent) = origin.poll_packet(Instant::START, 1) {
        packets += 1;
        let votes = mirrors.each_mut().map(|mirror| mirror.take(&sent.packet, 0).unwrap());
        if let [Followed::Votes(a), Followed::Votes(b)] = votes {
            origin.handle_votes(Instant::START, &a.folded(b), &[]);
        }
    }
    assert_eq!(packets, 1 + 3 + 2, "a checkpoint; the events and a checkpoint; a commit");
    for mirror in &mirrors {
        assert_eq!((mirror.is_current(), mirror.mirror().cut().position), (true, 3));
        assert_eq!(mirror.mirror().log().committed(), 3);
    }
}

#[test]
fn snapshot_that_is_too_old_is_not_used() {
    let mut origin = origin(1);
    let (mut old, mut new) = (follower(0), follower(1));
    old.begin(&opening(1, 1, &[]), empty).unwrap();
    new.begin(&opening(1, 1, &[]), empty).unwrap();
    let before = snapshot_of(&old);
    sent(&mut origin, 1);
    new.take(&sent(&mut origin, 2), 0).unwrap();
    let refused = new.restore(before, &LIMITS).unwrap_err();
    assert_eq!(refused, RestoreError::Old { given: Cut { epoch: 1, position: 0 }, epoch: 1, position: 1 });
    assert_eq!(new.joins_at(), Some(1), "it waits on");
}

#[test]
fn mirror_takes_part_in_one_stream_an_epoch() {
    let mut mirror = follower(0);
    mirror.begin(&opening(1, 2, &[]), empty).unwrap();
    let refused = |given| Err(BeginError::Old { known: 2, given });
    assert_eq!(mirror.begin(&opening(2, 1, &[]), empty), refused(1));
    assert_eq!(mirror.begin(&opening(2, 2, &[]), empty), refused(2));
    mirror.begin(&opening(1, 2, &[]), empty).unwrap();
    mirror.begin(&opening(2, 3, &[]), empty).unwrap();
}

#[test]
fn later_epoch_keeps_the_state_that_it_continues_and_no_other() {
    let cut = |epoch, position| Cut { epoch, position };
    for (end, kept) in [(5, 3), (3, 3), (2, 0)] {
        let (mut mirror, mut first) = (follower(0), origin(1));
        mirror.begin(&opening(1, 1, &[]), empty).unwrap();
        for number in 1..=3 {
            mirror.take(&sent(&mut first, number), 0).unwrap();
        }
        mirror.begin(&opening(2, 2, &[cut(1, end)]), empty).unwrap();
        assert_eq!(mirror.mirror().cut(), cut(2, kept), "the first epoch ended at {end}");
        assert_eq!(mirror.mirror().state().is_empty(), kept == 0);
        let resumes = mirror.mirror().check_place(cut(1, 2));
        assert_eq!(resumes.is_ok(), kept == 3, "a reader goes on too: {resumes:?}");
    }
}

fn promoted(stream: u64, epoch: u32, past: &[Cut], candidate: u64) -> Opening {
    Opening { candidate: Some(candidate), ..opening(stream, epoch, past) }
}

#[test]
fn mirror_that_has_promised_takes_no_packet_and_no_origin_of_an_earlier_epoch() {
    let (mut mirror, mut first) = (follower(0), origin(1));
    mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    mirror.take(&sent(&mut first, 1), 0).unwrap();
    mirror.take(&checkpoint(&mut first), 0).unwrap();
    let promise = Promise { epoch: 3, candidate: 7 };
    assert_eq!(mirror.promise(promise, 3), Err(PromiseRefusal::Total { given: 3, known: 2 }));
    mirror.promise(promise, 2).unwrap();
    mirror.promise(promise, 2).unwrap();
    let later = PromiseRefusal::Later { asked: 3, known: 3 };
    assert_eq!(mirror.promise(Promise { epoch: 3, candidate: 8 }, 2), Err(later));
    let refused = mirror.take(&sent(&mut first, 2), 0).unwrap_err();
    assert_eq!(refused, MirrorError::Promised { promised: 3, known: 1 });
    assert_eq!(mirror.pledged().map(|log| log.standing), Some(Standing { adopted: 1, position: 1 }));

    let old = |given| Err(BeginError::Old { known: 3, given });
    let ends = [Cut { epoch: 1, position: 1 }];
    assert_eq!(mirror.begin(&opening(1, 1, &[]), empty), old(1), "its own stream");
    assert_eq!(mirror.begin(&opening(2, 3, &ends), empty), old(3), "a restarted origin of this epoch");
    assert_eq!(mirror.begin(&promoted(3, 3, &ends, 8), empty), old(3), "another candidate");
    mirror.begin(&promoted(4, 3, &ends, 7), empty).unwrap();
    assert_eq!(mirror.mirror().cut(), Cut { epoch: 3, position: 1 });
}

#[test]
fn origin_whose_journal_does_not_know_a_take_over_is_refused() {
    let mut mirror = follower(0);
    let ends = [Cut { epoch: 1, position: 0 }];
    mirror.begin(&promoted(1, 2, &ends, 7), empty).unwrap();
    let stale = mirror.begin(&opening(2, 5, &ends), empty);
    assert_eq!(stale, Err(BeginError::Superseded { taken_over: 2 }));
    let knows = [ends[0], Cut { epoch: 2, position: 0 }];
    mirror.begin(&opening(3, 5, &knows), empty).unwrap();
    mirror.begin(&opening(4, 6, &[]), empty).unwrap();
}

#[test]
fn former_state_is_kept_until_the_next_epoch_is_adopted() {
    let (mut mirror, mut first) = (follower(0), origin(1));
    mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    assert_eq!(mirror.pledged(), None, "no checkpoint has found it complete");
    for number in 1..=3 {
        mirror.take(&sent(&mut first, number), 0).unwrap();
    }
    mirror.take(&checkpoint(&mut first), 0).unwrap();
    let standing =
        |mirror: &Follower<_>| mirror.pledged().map(|log| (log.standing.adopted, log.standing.position));
    assert_eq!(standing(&mirror), Some((1, 3)));
    // The second epoch does not have event 3, and the third one has.
    mirror.begin(&promoted(2, 2, &[Cut { epoch: 1, position: 2 }], 7), empty).unwrap();
    assert_eq!((mirror.mirror().cut().position, standing(&mirror)), (0, Some((1, 3))));
    assert_eq!(mirror.tail(0).unwrap().count(), 3);
    mirror.begin(&promoted(3, 3, &[Cut { epoch: 1, position: 3 }], 8), empty).unwrap();
    assert_eq!((mirror.mirror().cut(), standing(&mirror)), (Cut { epoch: 3, position: 3 }, Some((3, 3))));
}

#[test]
fn state_between_two_epochs_goes_on_in_one_that_continues_the_later() {
    let cut = |epoch, position| Cut { epoch, position };
    let (mut mirror, mut first) = (follower(0), origin(1));
    mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    mirror.take(&sent(&mut first, 1), 0).unwrap();
    mirror.take(&checkpoint(&mut first), 0).unwrap();
    // It has missed the second epoch. The third one's origin sends its events again, and dies.
    mirror.begin(&opening(2, 3, &[cut(1, 2), cut(2, 4)]), empty).unwrap();
    let mut third = origin(3);
    let packets: Vec<_> = (1..=3).map(|number| sent(&mut third, number)).collect();
    packets.iter().for_each(|packet| _ = mirror.take(packet, 0).unwrap());
    assert_eq!(mirror.mirror().cut(), cut(3, 3));
    // Position 3 is not one of the first epoch.
    mirror.begin(&opening(3, 4, &[cut(1, 2), cut(2, 4), cut(3, 5)]), empty).unwrap();
    assert_eq!(mirror.mirror().cut(), cut(4, 3));
}

#[test]
fn mirror_follows_its_origin_again_after_a_candidate_gave_up() {
    let (mut mirror, mut first) = (follower(0), origin(1));
    mirror.begin(&opening(1, 1, &[]), empty).unwrap();
    mirror.take(&sent(&mut first, 1), 0).unwrap();
    let (given_up, next) = (Promise { epoch: 3, candidate: 7 }, Promise { epoch: 4, candidate: 8 });
    mirror.promise(Promise { epoch: 2, candidate: 7 }, 2).unwrap();
    mirror.promise(given_up, 2).unwrap();
    assert!(mirror.take(&sent(&mut first, 2), 0).is_err());
    assert!(!mirror.withdraw(next), "it has not promised that");
    assert!(mirror.withdraw(given_up));
    assert!(!mirror.withdraw(given_up), "once");
    assert_eq!(mirror.promised(), Promise::default());
    assert_eq!(mirror.take(&sent(&mut first, 3), 0), Ok(Followed::Kept), "it lacks event 2");
    assert_eq!(mirror.joins_at(), Some(2));

    mirror.promise(given_up, 2).unwrap();
    mirror.promise(next, 2).unwrap();
    assert!(!mirror.withdraw(given_up), "a later candidate has its promise");
    mirror.begin(&promoted(2, 4, &[Cut { epoch: 1, position: 1 }], 8), empty).unwrap();
    assert!(!mirror.withdraw(next), "it follows the candidate");
}

#[test]
fn promise_from_before_a_restart_cannot_be_withdrawn() {
    let promise = Promise { epoch: 3, candidate: 7 };
    let mut mirror = follower(0).with_promise(promise);
    assert!(!mirror.withdraw(promise), "nobody knows the one before");
    assert_eq!(mirror.promised(), promise);
}
