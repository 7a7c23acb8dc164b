//! Push waves: an application's workers give what the locals of a call would.

use crate::world::{APPLICATION, Plan, Sum, World, announced, assert_honest, whole};
use std::collections::BTreeSet;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::error::Reason;
use treefold_core::id::RequestId;
use treefold_core::limits::Limits;
use treefold_core::membership::card::PARTITIONS_MAX;
use treefold_core::message::Report;
use treefold_core::partitions::PartitionSet;
use treefold_core::push::message::PushMessage;
use treefold_core::push::{EARLY_FOR, PushRequest};
use treefold_core::time::Duration;

/// Two racks with two relays each, 0 to 3, that accept the application; and nobody else.
fn plan() -> Plan {
    let limits = Limits { push_window_bytes: 4_096, ..Limits::DEFAULT };
    Plan { nodes: 0, partitions: 0, racks: 2, relays: 4, accepts: true, limits, ..Plan::default() }
}

/// Workers 0 to 7, attached to the relays in turn, of whom everyone has heard.
fn attached(plan: &Plan) -> World {
    let mut world = World::new(plan);
    (0..8).for_each(|worker| world.attach(worker, worker % 4));
    world.run_for(Duration::from_millis(500));
    world
}

fn announce(world: &mut World, options: CallOptions) -> RequestId {
    world.call_named(0, "app/sum", options)
}

fn outcome(world: &mut World, request: RequestId) -> Outcome<Sum> {
    world.run_for(Duration::from_millis(2_100));
    let outcome = world.outcome(0, request).expect("the deadline has passed");
    assert_honest(&outcome);
    outcome
}

/// Every piece of these workers, each of so many pieces.
fn all_pieces(workers: u32, pieces: u64) -> BTreeSet<u64> {
    (0..workers).flat_map(|w| (1..=pieces).map(move |number| u64::from(w) * 1_000 + number)).collect()
}

#[test]
fn what_is_pushed_before_and_after_the_announcement_is_folded_once() {
    for early in 0..=8 {
        let mut world = attached(&plan());
        (0..early).for_each(|worker| world.give(worker, 7, 3, 100));
        world.run_for(Duration::from_millis(5));
        let request = announce(&mut world, announced(8));
        world.run_for(Duration::from_millis(5));
        (early..8).for_each(|worker| world.give(worker, 7, 3, 100));
        world.run_for(Duration::from_millis(50));
        let outcome = world.outcome(0, request).expect("all have pushed");
        assert_honest(&outcome);
        assert_eq!(outcome.status, Status::Full);
        let value = outcome.value.expect("it is full");
        assert_eq!((value.counts, value.tags), (whole(8), all_pieces(8, 3)));
        for worker in world.workers.values() {
            assert_eq!(worker.log.len(), 3, "nothing is sent twice");
            assert!(worker.kept().is_empty(), "it was told that the request has ended");
        }
        world.run_for(Duration::from_secs(3));
        for node in world.nodes() {
            let open = node.open_work();
            assert_eq!((open.held_bytes, open.waves, open.workers), (0, 0, 2), "{open:?}");
        }
    }
}

#[test]
fn what_comes_early_does_not_fill_the_room_that_its_announcement_needs() {
    let limits = Limits { held_bytes_max: 400, ..plan().limits };
    let mut world = attached(&Plan { limits, ..plan() });
    (0..8).for_each(|worker| world.give(worker, 7, 3, 100));
    world.run_for(Duration::from_millis(5));
    for node in world.nodes() {
        assert!(node.open_work().held_bytes <= 400, "{:?}", node.open_work());
    }
    let request = announce(&mut world, announced(8));
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
    assert_eq!(outcome.value.expect("it is full").tags, all_pieces(8, 3));
}

#[test]
fn relays_of_the_racks_fold_on_the_way() {
    let mut world = attached(&plan());
    (0..8).for_each(|worker| world.give(worker, 7, 1, 100));
    let request = announce(&mut world, CallOptions { explain: true, ..announced(8) });
    let outcome = outcome(&mut world, request);
    let root = outcome.report.expect("it was asked for");
    let crossings =
        |report: &Report| report.children.iter().filter(|child| child.rack != report.rack).count();
    let all = crossings(&root) + root.children.iter().map(crossings).sum::<usize>();
    assert_eq!((root.rack.as_str(), all), ("r0", 1), "each rack folds by itself: {root:?}");
}

#[test]
fn a_worker_that_never_pushes_is_late_and_one_that_fails_is_lost_at_once() {
    let mut world = attached(&plan());
    (0..6).for_each(|worker| world.give(worker, 7, 1, 100));
    let some = CallOptions { min_coverage: 0.5, ..announced(8) };
    let request = announce(&mut world, some);
    world.run_for(Duration::from_millis(20));
    world.say_as(6, PushMessage::Failed { request: 7, problem: "no disk".into() });
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.status, Status::Partial);
    assert_eq!(outcome.contributed, PartitionSet::first(6));
    let reason_of = |worker| {
        let of = outcome.missing.iter().find(|loss| loss.partitions.contains(worker));
        of.map(|loss| loss.reason.clone())
    };
    assert_eq!(reason_of(6), Some(Reason::LocalFailed("no disk".into())));
    assert_eq!(reason_of(7), Some(Reason::Late));
}

#[test]
fn a_lost_worker_that_comes_back_sends_only_the_rest_and_one_that_does_not_is_lost() {
    let mut world = attached(&plan());
    (0..7).for_each(|worker| world.give(worker, 7, 1, 100));
    world.give_some(7, 7, 3, 100);
    let request = announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(50));
    world.cut(7);
    world.run_for(Duration::from_millis(200));
    world.attach(7, 3);
    world.give(7, 7, 5, 100);
    world.run_for(Duration::from_millis(50));
    let full = world.outcome(0, request).expect("all have pushed");
    assert_honest(&full);
    assert_eq!(full.status, Status::Full);
    assert_eq!(world.workers[&7].log, [(7, 1), (7, 2), (7, 3), (7, 4), (7, 5)], "nothing is sent twice");

    let mut world = attached(&plan());
    (0..7).for_each(|worker| world.give(worker, 7, 1, 100));
    let request = announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(50));
    world.cut(7);
    world.run_for(Duration::from_millis(600));
    let outcome = world.outcome(0, request).expect("patience has ended, and the deadline has not come");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Insufficient);
    assert_eq!(outcome.missing[0].reason, Reason::Lost);
    assert_eq!(outcome.missing[0].partitions, PartitionSet::from_range(7..8));
    world.run_for(Duration::from_millis(10));
    assert!(world.workers[&3].kept().is_empty(), "the relay that lost the one tells the other of the end");
}

#[test]
fn a_worker_that_is_away_while_its_pushes_wait_to_be_folded_goes_on_where_it_was() {
    let mut world = attached(&plan());
    world.attach(8, 3);
    world.attach(9, 3);
    world.run_for(Duration::from_millis(500));
    world.behaviour.reduce = Duration::from_millis(50);
    let request = announce(&mut world, announced(10));
    world.run_for(Duration::from_millis(20));
    // A relay has two processors, and workers 3, 8 and 9 keep them busy.
    for worker in [3, 8, 9] {
        world.give_some(worker, 7, 3, 100);
    }
    world.run_for(Duration::from_millis(5));
    world.give_some(7, 7, 2, 100);
    world.run_for(Duration::from_millis(5));
    world.cut(7);
    world.run_for(Duration::from_millis(300));
    world.attach(7, 3);
    (0..10).for_each(|worker| world.give(worker, 7, 5, 100));
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
}

#[test]
fn what_is_pushed_after_its_wave_has_answered_does_not_fill_the_window() {
    let mut world = attached(&plan());
    let some = CallOptions { min_coverage: 0.5, ..announced(8) };
    let request = announce(&mut world, some);
    world.run_for(Duration::from_millis(20));
    // All that relay 2 has to give is in its answer, since worker 6 gives nothing.
    world.give(2, 7, 1, 100);
    world.say_as(6, PushMessage::Failed { request: 7, problem: "no disk".into() });
    world.run_for(Duration::from_millis(20));
    // Twice its window.
    world.give_some(6, 7, 8, 1_000);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.workers[&6].log.len(), 8, "it hears that they are taken");
    assert!(world.outcome(0, request).is_none(), "others are still awaited");
}

#[test]
fn a_worker_that_moves_to_another_relay_goes_on_there() {
    let mut world = attached(&plan());
    (0..7).for_each(|worker| world.give(worker, 7, 1, 100));
    world.give_some(7, 7, 2, 100);
    let request = announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(20));
    world.cut(7);
    world.attach(7, 1);
    world.give(7, 7, 4, 100);
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.status, Status::Full);
    let value = outcome.value.expect("it is full");
    assert!((1..=4).all(|number| value.tags.contains(&(7_000 + number))));
    assert_eq!(world.workers[&7].log.len(), 2 + 4, "the other relay has to have all of it");
}

#[test]
fn a_worker_may_move_to_and_fro() {
    for moves in 0..6 {
        let mut world = attached(&plan());
        (0..7).for_each(|worker| world.give(worker, 7, 1, 100));
        world.give_some(7, 7, 2, 100);
        let request = announce(&mut world, announced(8));
        for at in 0..moves {
            world.run_for(Duration::from_millis(100));
            world.cut(7);
            world.attach(7, [1, 3][at % 2]);
        }
        world.run_for(Duration::from_millis(100));
        world.give(7, 7, 4, 100);
        let outcome = outcome(&mut world, request);
        assert_eq!(outcome.status, Status::Full, "{moves} moves: {:?}", outcome.missing);
    }
}

#[test]
fn when_a_relay_dies_its_workers_go_on_elsewhere_and_send_only_what_has_not_gone_up() {
    for victim in [1, 2, 3] {
        for after_ms in [1, 10, 30, 60] {
            let mut world = attached(&Plan { seed: after_ms + 1, ..plan() });
            let request = announce(&mut world, announced(8));
            // Half of them are through when the relay dies, the others in the middle of it.
            (0..4).for_each(|worker| world.give(worker, 7, 2, 100));
            (4..8).for_each(|worker| world.give_some(worker, 7, 2, 100));
            world.run_for(Duration::from_millis(after_ms));
            world.kill(victim);
            world.run_for(Duration::from_millis(50));
            let refuge = (victim + 2) % 4;
            [victim, victim + 4].into_iter().for_each(|worker| world.attach(worker, refuge));
            (4..8).for_each(|worker| world.give(worker, 7, 4, 100));
            let outcome = outcome(&mut world, request);
            assert_eq!(outcome.status, Status::Full, "{victim} {after_ms}: {:?}", outcome.missing);
            let value = outcome.value.expect("it is full");
            assert_eq!(value.counts, whole(8));
            for (&worker, state) in &world.workers {
                let sent = state.log.len();
                let whole = if worker < 4 { 2 } else { 4 };
                let is_moved = worker % 4 == victim;
                assert!(sent == whole || is_moved && sent <= 2 + whole, "{worker}: {:?}", state.log);
                assert!(state.kept().is_empty());
            }
        }
    }
}

#[test]
fn who_attaches_after_the_announcement_is_found() {
    let mut world = World::new(&plan());
    let request = announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(20));
    for worker in 0..8 {
        world.attach(worker, worker % 4);
        world.give(worker, 7, 1, 100);
    }
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.value.map(|value| value.counts), Some(whole(8)), "{:?}", outcome.missing);
}

#[test]
fn who_never_attaches_is_missed_when_patience_ends() {
    let mut world = attached(&plan());
    (0..8).for_each(|worker| world.give(worker, 7, 1, 100));
    let some = CallOptions { min_coverage: 0.5, ..announced(9) };
    let request = announce(&mut world, some);
    world.run_for(Duration::from_millis(300));
    assert!(world.outcome(0, request).is_none(), "it is waited for");
    world.run_for(Duration::from_millis(200));
    let outcome = world.outcome(0, request).expect("patience has ended");
    assert_honest(&outcome);
    assert_eq!((outcome.status, outcome.contributed.len()), (Status::Partial, 8));
    assert_eq!(outcome.missing[0].reason, Reason::NoReplica);
}

#[test]
fn nobody_is_expected_and_nobody_is_waited_for() {
    let mut world = attached(&plan());
    let request = announce(&mut world, announced(0));
    let outcome = world.outcome(0, request).expect("at once");
    assert_eq!((outcome.status, outcome.value), (Status::Full, None));
}

#[test]
fn who_has_nothing_to_add_counts_all_the_same() {
    let mut world = attached(&plan());
    (0..3).for_each(|worker| world.give(worker, 7, 2, 0));
    (3..8).for_each(|worker| world.give(worker, 7, 1, 100));
    let request = announce(&mut world, announced(8));
    let outcome = outcome_of_nothing(&mut world, request);
    assert_eq!((outcome.status, outcome.contributed), (Status::Full, PartitionSet::first(8)));
    assert_eq!(outcome.value.expect("five have something").counts.len(), 5);
}

/// What is said by nobody is in no value, so the outcome is not honest as others are.
fn outcome_of_nothing(world: &mut World, request: RequestId) -> Outcome<Sum> {
    world.run_for(Duration::from_millis(100));
    world.outcome(0, request).expect("all have pushed")
}

#[test]
fn whoever_floods_is_held_to_its_window_and_others_are_not_harmed() {
    let limits = Limits { push_window_bytes: 4_096, held_bytes_max: 64 << 10, ..Limits::DEFAULT };
    let mut world = attached(&Plan { limits, ..plan() });
    world.behaviour.reduce = Duration::from_millis(2);
    world.workers.get_mut(&3).expect("it is attached").floods = true;
    world.give(3, 7, 200, 1_000);
    (0..8).filter(|&worker| worker != 3).for_each(|worker| world.give(worker, 7, 5, 1_000));
    let request = announce(&mut world, announced(8));
    for _ in 0..1_000 {
        world.run_for(Duration::from_millis(2));
        for node in world.nodes() {
            let held = node.open_work().held_bytes;
            assert!(held <= (64 << 10) + 8 * 1_256, "{held} bytes");
        }
    }
    let outcome = world.outcome(0, request).expect("all have pushed");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
    assert_eq!(outcome.value.expect("it is full").tags.len(), 200 + 7 * 5);
}

#[test]
fn early_pushes_have_their_own_room_and_their_own_time() {
    let limits = Limits { early_bytes_max: 2_000, ..plan().limits };
    let mut world = attached(&Plan { limits, ..plan() });
    world.give(3, 7, 8, 300);
    world.run_for(Duration::from_millis(20));
    assert!(world.node(3).open_work().held_bytes <= 2_000, "what does not fit is dropped");
    let dropped = world.node(3).status(world.now).counters.pushes.dropped;
    assert!(dropped > 0);
    (0..8).filter(|&worker| worker != 3).for_each(|worker| world.give(worker, 7, 1, 100));
    let request = announce(&mut world, announced(8));
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.status, Status::Full, "and asked for again: {:?}", outcome.missing);

    world.give(2, 8, 1, 300);
    world.run_for(EARLY_FOR + Duration::from_secs(1));
    assert!(world.workers[&2].kept().is_empty(), "nobody announced it");
    assert_eq!(world.node(2).open_work().held_bytes, 0);
}

#[test]
fn what_comes_twice_or_out_of_turn_is_not_counted() {
    let mut world = attached(&plan());
    (0..7).for_each(|worker| world.give(worker, 7, 1, 100));
    let request = announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(10));
    let push = |sequence, last| PushMessage::Push {
        request: 7,
        sequence,
        last,
        payload: crate::world::piece(7, sequence, 100),
    };
    for (sequence, last) in [(1, false), (1, false), (3, true), (2, false), (2, false), (3, true), (4, true)]
    {
        world.say_as(7, push(sequence, last));
    }
    let outcome = outcome(&mut world, request);
    assert_eq!(outcome.status, Status::Full);
    let counters = world.node(3).status(world.now).counters;
    assert_eq!(counters.pushes.repeated, 2);
    assert_eq!(outcome.value.expect("it is full").tags.range(7_000..).count(), 3);
}

#[test]
fn what_makes_no_sense_is_refused_by_name_and_harms_nobody() {
    let mut world = attached(&plan());
    world.attach_as(20, 1, "nothing", 20);
    world.attach_as(21, 1, "app", 1 << 20);
    world.say_as(0, PushMessage::Taken { request: 7, upto: 1 });
    world.run_for(Duration::from_millis(10));
    let refused = |worker: u32| world.workers[&worker].refused.clone().unwrap_or_default();
    assert!(refused(20).contains("accepted here: app"), "{}", refused(20));
    assert!(refused(21).contains("partitions_max"), "{}", refused(21));
    assert_eq!(world.node(0).status(world.now).counters.bad_messages, 1);

    let push = Some(PushRequest { request: 7, patience: Duration::ZERO });
    let reject = |world: &mut World, name: &str, options: CallOptions| {
        let request = world.call_named(0, name, options);
        match world.outcome(0, request).map(|outcome| outcome.status) {
            Some(Status::Rejected(error)) => error.to_string(),
            other => panic!("{name} is not rejected: {other:?}"),
        }
    };
    let others = reject(&mut world, "s/sum", CallOptions { push, ..CallOptions::default() });
    assert!(others.contains("accepts (app)"), "{others}");
    let unannounced = reject(&mut world, "app/sum", CallOptions::default());
    assert!(unannounced.contains("push is not set"), "{unannounced}");
    let nobody = reject(&mut world, "app/sum", CallOptions { partitions: None, ..announced(1) });
    assert!(nobody.contains("partitions is all"), "{nobody}");
    let unknown = reject(&mut world, "app/product", announced(1));
    assert!(unknown.contains("name is app/product"), "{unknown}");
    let beyond = PartitionSet::from_range(0..(1 << 20) + 1);
    let beyond = reject(&mut world, "app/sum", CallOptions { partitions: Some(beyond), ..announced(1) });
    assert!(beyond.contains("partitions_max"), "{beyond}");

    let open = announce(&mut world, announced(8));
    let twice = reject(&mut world, "app/sum", announced(8));
    assert!(twice.contains("push.request is 7"), "{twice}");
    (0..8).for_each(|worker| world.give(worker, 7, 1, 100));
    assert_eq!(outcome(&mut world, open).status, Status::Full);
}

#[test]
fn who_attaches_twice_is_there_once() {
    let mut world = attached(&plan());
    world.attach_as(30, 0, "app", 4);
    world.run_for(Duration::from_millis(10));
    assert!(world.workers[&4].refused.as_deref().is_some_and(|why| why.contains("attached again")));
    assert_eq!(world.node(0).open_work().workers, 2);
}

#[test]
fn a_master_that_has_lost_its_front_announces_anew_and_nothing_is_sent_twice() {
    let mut world = attached(&plan());
    (1..8).filter(|&worker| worker != 4).for_each(|worker| world.give_some(worker, 7, 2, 100));
    announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(50));
    world.kill(0);
    world.attach(0, 2);
    world.attach(4, 2);
    world.run_for(Duration::from_millis(300));
    let request = world.call_named(1, "app/sum", announced(8));
    world.run_for(Duration::from_millis(20));
    (0..8).for_each(|worker| world.give(worker, 7, 4, 100));
    world.run_for(Duration::from_millis(2_100));
    let outcome = world.outcome(1, request).expect("the deadline has passed");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
    assert_eq!(outcome.value.map(|value| value.tags), Some(all_pieces(8, 4)));
    assert!(world.workers.values().all(|worker| worker.log.len() == 4));
}

#[test]
fn a_cancelled_request_is_told_to_its_workers() {
    let mut world = attached(&plan());
    (0..7).for_each(|worker| world.give(worker, 7, 1, 100));
    let request = announce(&mut world, announced(8));
    world.run_for(Duration::from_millis(50));
    world.cancel(0, request);
    world.run_for(Duration::from_millis(50));
    assert!(world.workers.values().all(|worker| worker.kept().is_empty()));
    world.give(7, 7, 1, 100);
    world.run_for(Duration::from_millis(50));
    assert!(world.workers[&7].kept().is_empty(), "and to who comes too late");
    assert!(world.nodes().all(|node| node.open_work().held_bytes == 0));
}

#[test]
fn a_worker_that_no_card_can_hold_is_refused_and_harms_no_other() {
    let limits = Limits { partitions_max: u32::MAX, ..plan().limits };
    let mut world = World::new(&Plan { limits, ..plan() });
    world.attach_as(0, 0, APPLICATION, PARTITIONS_MAX);
    world.run_for(Duration::from_millis(500));
    let refused = world.workers[&0].refused.as_deref().expect("its number is beyond what a card holds");
    assert!(refused.contains("service.total is larger than"), "{refused}");
    assert_eq!(world.node(0).open_work().workers, 0, "it is not attached");
    world.attach(1, 0);
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.node(0).open_work().workers, 1);
    for node in world.nodes() {
        assert_eq!(node.view().providers(APPLICATION, 1), [world.id(0)], "all see the one that is");
    }
}

#[test]
fn workers_that_attach_together_are_announced_together() {
    const WORKERS: u32 = 200;
    let mut world = World::new(&plan());
    let version = |world: &World| {
        let node = world.node(0);
        node.view().card(&node.id()).expect("it knows its own card").version
    };
    let before = version(&world);
    for worker in 0..WORKERS {
        world.attach(worker, 0);
        world.run_for(Duration::from_micros(100));
    }
    world.run_for(Duration::from_millis(500));
    assert_eq!(world.node(0).open_work().workers, WORKERS as usize);
    for node in world.nodes() {
        let service = node.view().service(APPLICATION).expect("its workers are there");
        assert!((0..WORKERS).all(|worker| service.providers(worker) == [world.id(0)]));
    }
    // 20 ms: the first of them, and all others at the end of the first's gossip interval.
    assert_eq!(version(&world) - before, 2);
    (0..WORKERS).for_each(|worker| world.cut(worker));
    world.run_for(Duration::from_millis(500));
    assert_eq!(version(&world) - before, 4);
    for node in world.nodes() {
        assert!((0..WORKERS).all(|worker| node.view().providers(APPLICATION, worker).is_empty()));
    }
}
