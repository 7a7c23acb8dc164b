//! Credit with plain values: rooms in bytes, waves by number, children by branch.

use super::*;
use crate::id::WaveId;
use proptest::prelude::*;

fn tag(sequence: u64) -> Tag {
    Tag { wave: WaveId { origin: 1, sequence }, branch: 0 }
}

fn key(sequence: u64, branch: u32) -> OfferKey {
    (tag(sequence), NodeId::LEAST, branch)
}

/// One room of each of these sizes.
fn credit(rooms: &[usize]) -> Credit {
    let mut credit = Credit::new(rooms.len());
    rooms.iter().enumerate().for_each(|(account_id, &bytes_max)| credit.set_room(account_id, bytes_max));
    credit
}

/// All offers that are granted now.
fn granted(credit: &mut Credit) -> Vec<(u64, u32)> {
    core::iter::from_fn(|| credit.grant_next(|_| true))
        .map(|(tag, _, branch)| (tag.wave.sequence, branch))
        .collect()
}

/// Granted bytes have arrived and are held.
fn arrives(credit: &mut Credit, account_id: AccountId, key: OfferKey, bytes: usize) {
    credit.arrived(key, bytes);
    credit.forget(key);
    credit.hold(account_id, 0, bytes);
}

#[test]
fn begun_waves_use_all_room_and_new_waves_half() {
    let mut credit = credit(&[100]);
    (0..3).for_each(|wave| (0..2).for_each(|branch| credit.offered(0, key(wave, branch), 25)));
    assert_eq!(granted(&mut credit), [(0, 0), (0, 1)], "half of the room");
    arrives(&mut credit, 0, key(0, 0), 25);
    arrives(&mut credit, 0, key(0, 1), 25);
    assert_eq!(granted(&mut credit), [], "what has arrived is held now");
    credit.hold(0, 50, 25);
    assert_eq!(
        granted(&mut credit),
        [(1, 0), (1, 1)],
        "another begins within the first half, and has the rest too"
    );
    arrives(&mut credit, 0, key(1, 0), 25);
    arrives(&mut credit, 0, key(1, 1), 25);
    credit.hold(0, 25, 0);
    credit.forget_wave(0, tag(0));
    assert_eq!(granted(&mut credit), []);
    credit.hold(0, 50, 25);
    assert_eq!(granted(&mut credit), [(2, 0), (2, 1)]);
    arrives(&mut credit, 0, key(2, 0), 25);
    credit.forget_wave(0, tag(1));
    credit.forget_wave(0, tag(2));
    let room = &credit.rooms[0];
    assert_eq!(
        (room.granted_bytes, room.begun.len(), credit.waiting),
        (0, 0, 0),
        "and nothing is left behind"
    );
}

#[test]
fn one_wave_at_a_time_may_exceed_the_room() {
    let mut credit = credit(&[100]);
    (0..2).for_each(|wave| (0..3).for_each(|branch| credit.offered(0, key(wave, branch), 500)));
    assert_eq!(granted(&mut credit), [(0, 0)], "an empty room takes any one");
    arrives(&mut credit, 0, key(0, 0), 500);
    assert_eq!(credit.grant_next(|_| false), None, "it has something to fold");
    assert_eq!(granted(&mut credit), [(0, 1)], "now it has nothing to fold");
    arrives(&mut credit, 0, key(0, 1), 500);
    assert_eq!(granted(&mut credit), [(0, 2)]);
    arrives(&mut credit, 0, key(0, 2), 500);
    assert_eq!(granted(&mut credit), [], "the other wave waits as long as the first");
    credit.hold(0, 1_500, 0);
    credit.forget_wave(0, tag(0));
    assert_eq!(granted(&mut credit), [(1, 0)]);
}

/// A caller has a part in its wave, and the same node has another one. The first waits for the second.
#[test]
fn a_wave_may_have_more_in_all_of_its_parts_at_a_node() {
    let mut credit = credit(&[100]);
    let part = |branch, child| (Tag { branch, ..tag(0) }, NodeId::LEAST, child);
    credit.offered(0, part(7, 0), 500);
    assert_eq!(granted(&mut credit), [(0, 0)], "the caller's part may have more");
    arrives(&mut credit, 0, part(7, 0), 500);
    credit.offered(0, part(0, 1), 500);
    assert_eq!(granted(&mut credit), [(0, 1)], "and so may the part that it waits for");
    credit.offered(0, key(1, 0), 500);
    assert_eq!(granted(&mut credit), [], "no other wave");
    credit.forget_wave(0, Tag { branch: 7, ..tag(0) });
    assert_eq!(granted(&mut credit), [], "until all parts are over");
    credit.hold(0, 500, 0);
    credit.forget_wave(0, tag(0));
    assert_eq!(granted(&mut credit), [(1, 0)]);
}

#[test]
fn waves_holding_unoffered_partials_do_not_deadlock() {
    let mut credit = credit(&[100]);
    credit.hold(0, 0, 90);
    (0..2).for_each(|wave| credit.offered(0, key(wave, 0), 60));
    assert_eq!(granted(&mut credit), [(0, 0)]);
    arrives(&mut credit, 0, key(0, 0), 60);
    assert_eq!(granted(&mut credit), []);
}

#[test]
fn a_flooding_application_fills_only_its_room() {
    let mut credit = credit(&[100, 300]);
    (0..10).for_each(|wave| credit.offered(0, key(wave, 0), 30));
    assert_eq!(granted(&mut credit), [(0, 0)], "half of 100 bytes");
    (10..20).for_each(|wave| credit.offered(1, key(wave, 0), 30));
    assert_eq!(granted(&mut credit).len(), 5, "half of 300 bytes, for any queue of the other");
    credit.forget_wave(1, tag(10));
    assert_eq!(granted(&mut credit), [(15, 0)], "room that one leaves free is not given to the other");
    credit.set_room(0, 200);
    assert_eq!(granted(&mut credit), [(1, 0), (2, 0)], "a larger share is more room");
}

proptest! {
    /// For any number of offered waves and children, all waves end, and no more is held than the room and the
    /// need of one wave.
    #[test]
    fn every_wave_ends_and_the_room_is_kept(
        waves in proptest::collection::vec(proptest::collection::vec(1usize..80, 1..5), 1..30),
        room in 1usize..300,
        grows: bool,
    ) {
        let mut credit = credit(&[room]);
        for (wave, children) in (0..).zip(&waves) {
            for (branch, &bytes) in (0..).zip(children) {
                credit.offered(0, key(wave, branch), bytes);
            }
        }
        let mut held = alloc::vec![0usize; waves.len()];
        let mut left: Vec<usize> = waves.iter().map(Vec::len).collect();
        let most: usize = waves.iter().map(|children| children.iter().sum()).max().unwrap_or(0);
        while left.iter().any(|&left| left > 0) {
            let next = credit.grant_next(|_| true);
            prop_assert!(next.is_some(), "{left:?} wait for each other, with {held:?}");
            let (tag, _, branch) = next.expect("checked");
            let wave = tag.wave.sequence as usize;
            let bytes = waves[wave][branch as usize];
            arrives(&mut credit, 0, (tag, NodeId::LEAST, branch), bytes);
            prop_assert!(credit.held_bytes() <= room + most, "{} of {room}", credit.held_bytes());
            // Two partials are folded as soon as both are here.
            let folded = if grows { held[wave] + bytes } else { held[wave].max(bytes) };
            credit.hold(0, held[wave] + bytes, folded);
            held[wave] = folded;
            left[wave] -= 1;
            if left[wave] == 0 {
                credit.hold(0, held[wave], 0);
                credit.forget_wave(0, tag);
            }
        }
    }

    /// The same with slow folds: both parts of a pair count until the pair is folded, and folds end in any
    /// order. If no fold is open, something can be granted, so waves never wait for each other.
    #[test]
    fn waves_with_slow_folds_end_and_the_room_is_kept(
        waves in proptest::collection::vec(proptest::collection::vec(1usize..80, 1..6), 1..20),
        room in 1usize..300,
        grows: bool,
        turns in proptest::collection::vec(0u8..4, 1..50),
    ) {
        let mut credit = credit(&[room]);
        for (wave, children) in (0..).zip(&waves) {
            for (branch, &bytes) in (0..).zip(children) {
                credit.offered(0, key(wave, branch), bytes);
            }
        }
        let mut resting: Vec<Vec<usize>> = alloc::vec![Vec::new(); waves.len()];
        let mut folding: Vec<Vec<(usize, usize)>> = alloc::vec![Vec::new(); waves.len()];
        let mut to_come: Vec<usize> = waves.iter().map(Vec::len).collect();
        let most: usize = waves.iter().map(|children| children.iter().sum()).max().unwrap_or(0);
        // At least one turn must allow a grant.
        let mut turns = turns.into_iter().chain([1]).cycle();
        let next_to_fold = |folding: &[Vec<(usize, usize)>], turn: usize| {
            let busy = (0..folding.len()).filter(|&wave| !folding[wave].is_empty());
            busy.max_by_key(|wave| (wave + turn) % folding.len())
        };
        while to_come.iter().sum::<usize>() + folding.iter().map(Vec::len).sum::<usize>() > 0 {
            let is_starved = |tag: Tag| {
                let wave = tag.wave.sequence as usize;
                folding[wave].is_empty() && resting[wave].len() <= 1
            };
            let turn = turns.next().unwrap_or(0);
            let granted = if turn == 0 { None } else { credit.grant_next(is_starved) };
            let wave = if let Some((tag, _, branch)) = granted {
                let wave = tag.wave.sequence as usize;
                let bytes = waves[wave][branch as usize];
                arrives(&mut credit, 0, (tag, NodeId::LEAST, branch), bytes);
                to_come[wave] -= 1;
                resting[wave].push(bytes);
                wave
            } else if let Some(wave) = next_to_fold(&folding, turn.into()) {
                let (a, b) = folding[wave].swap_remove(0);
                let folded = if grows { a + b } else { a.max(b) };
                credit.hold(0, a + b, folded);
                resting[wave].push(folded);
                wave
            } else {
                prop_assert!(turn == 0, "{to_come:?} wait for each other, with {resting:?}");
                continue;
            };
            prop_assert!(credit.held_bytes() <= room + most, "{} of {room}", credit.held_bytes());
            while resting[wave].len() >= 2 {
                let pair = (resting[wave].swap_remove(0), resting[wave].swap_remove(0));
                folding[wave].push(pair);
            }
            if to_come[wave] == 0 && folding[wave].is_empty() {
                credit.hold(0, resting[wave].drain(..).sum(), 0);
                credit.forget_wave(0, tag(wave as u64));
            }
        }
        prop_assert_eq!((credit.held_bytes(), credit.rooms[0].granted_bytes), (0, 0));
    }
}
