//! Push waves: an application's workers push what the locals of a call would compute.

use crate::clusters::cluster::{APPLICATION, Cluster, Plan, announced, assert_accounted, piece, pieces};
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
use treefold_sim::world::ink::Ink;

/// Two racks with two relays each, 0 to 3, that accept the application; there are no other nodes.
fn plan() -> Plan {
    let limits = Limits { push_window_bytes: 4_096, ..Limits::DEFAULT };
    Plan { nodes: 0, partitions: 0, racks: 2, relays: 4, accepts: true, limits, ..Plan::default() }
}

/// Workers 0 to 7, attached to the relays in turn, and known to all nodes.
fn attached(plan: &Plan) -> Cluster {
    let mut cluster = Cluster::new(plan);
    attach_all(&mut cluster);
    cluster
}

fn attach_all(cluster: &mut Cluster) {
    (0..8).for_each(|worker| cluster.attach(worker, worker % 4));
    cluster.run_for(Duration::from_millis(500));
}

fn announce(cluster: &mut Cluster, options: CallOptions) -> RequestId {
    cluster.call_named(0, "app/sum", options)
}

fn outcome(cluster: &mut Cluster, request: RequestId) -> Outcome<Ink> {
    cluster.run_for(Duration::from_millis(2_100));
    let outcome = cluster.outcome(0, request).expect("the deadline has passed");
    assert_honest(cluster, &outcome);
    outcome
}

/// Asserts that contributed and missing workers are the expected ones, and that the value holds each piece
/// once.
fn assert_honest(cluster: &Cluster, outcome: &Outcome<Ink>) {
    assert_accounted(outcome);
    let of = outcome.contributed.iter().map(|worker| (worker, cluster.given(worker, 7)));
    if outcome.value.is_some() {
        assert_eq!(found(outcome), pieces(7, of), "{outcome:?}");
    }
}

/// A digest of the pieces that a value holds.
fn found(outcome: &Outcome<Ink>) -> Option<(u128, u32)> {
    outcome.value.as_ref().map(|value| (value.marks, value.count))
}

/// All pieces of the first `workers` workers, with `each` pieces each.
fn all_pieces(workers: u32, each: u32) -> Option<(u128, u32)> {
    pieces(7, (0..workers).map(|worker| (worker, each)))
}

#[test]
fn pushes_before_and_after_the_announcement_fold_once() {
    for early in 0..=8 {
        let mut cluster = attached(&plan());
        (0..early).for_each(|worker| cluster.give(worker, 7, 3, 100));
        cluster.run_for(Duration::from_millis(5));
        let request = announce(&mut cluster, announced(8));
        cluster.run_for(Duration::from_millis(5));
        (early..8).for_each(|worker| cluster.give(worker, 7, 3, 100));
        cluster.run_for(Duration::from_millis(50));
        let outcome = cluster.outcome(0, request).expect("all have pushed");
        assert_honest(&cluster, &outcome);
        assert_eq!(outcome.status, Status::Full);
        assert_eq!(found(&outcome), all_pieces(8, 3));
        for (_, worker) in cluster.workers() {
            assert_eq!(worker.pushes().len(), 3, "nothing is sent twice");
            assert!(worker.is_idle(), "it was told that the request has ended");
        }
        cluster.run_for(Duration::from_secs(3));
        for node in cluster.nodes() {
            let open = node.open_work();
            assert_eq!((open.held_bytes, open.waves, open.workers), (0, 0, 2), "{open:?}");
        }
    }
}

#[test]
fn early_pushes_leave_room_for_their_announcement() {
    let limits = Limits { held_bytes_max: 400, ..plan().limits };
    let mut cluster = attached(&Plan { limits, ..plan() });
    (0..8).for_each(|worker| cluster.give(worker, 7, 3, 100));
    cluster.run_for(Duration::from_millis(5));
    for node in cluster.nodes() {
        assert!(node.open_work().held_bytes <= 400, "{:?}", node.open_work());
    }
    let request = announce(&mut cluster, announced(8));
    let outcome = outcome(&mut cluster, request);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
    assert_eq!(found(&outcome), all_pieces(8, 3));
}

#[test]
fn relays_of_the_racks_fold_on_the_way() {
    let mut cluster = attached(&plan());
    (0..8).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let request = announce(&mut cluster, CallOptions { explain: true, ..announced(8) });
    let outcome = outcome(&mut cluster, request);
    let root = outcome.report.expect("it was asked for");
    let crossings =
        |report: &Report| report.children.iter().filter(|child| child.rack != report.rack).count();
    let all = crossings(&root) + root.children.iter().map(crossings).sum::<usize>();
    assert_eq!((root.rack.as_str(), all), ("r0", 1), "each rack folds by itself: {root:?}");
}

#[test]
fn a_silent_worker_is_late_and_a_failed_one_lost_at_once() {
    let mut cluster = attached(&plan());
    (0..6).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let some = CallOptions { min_coverage: 0.5, ..announced(8) };
    let request = announce(&mut cluster, some);
    cluster.run_for(Duration::from_millis(20));
    cluster.say_as(6, PushMessage::Failed { request: 7, problem: "no disk".into() });
    let outcome = outcome(&mut cluster, request);
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
fn a_returning_worker_sends_only_the_rest_of_its_pushes() {
    let mut cluster = attached(&plan());
    (0..7).for_each(|worker| cluster.give(worker, 7, 1, 100));
    cluster.give_some(7, 7, 3, 100);
    let request = announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(50));
    cluster.cut(7);
    cluster.run_for(Duration::from_millis(200));
    cluster.attach(7, 3);
    cluster.give(7, 7, 5, 100);
    cluster.run_for(Duration::from_millis(50));
    let full = cluster.outcome(0, request).expect("all have pushed");
    assert_honest(&cluster, &full);
    assert_eq!(full.status, Status::Full);
    assert_eq!(cluster.worker(7).pushes(), [(7, 1), (7, 2), (7, 3), (7, 4), (7, 5)], "nothing is sent twice");

    let mut cluster = attached(&plan());
    (0..7).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let request = announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(50));
    cluster.cut(7);
    cluster.run_for(Duration::from_millis(600));
    let outcome = cluster.outcome(0, request).expect("patience has ended, and the deadline has not come");
    assert_honest(&cluster, &outcome);
    assert_eq!(outcome.status, Status::Insufficient);
    assert_eq!(outcome.missing[0].reason, Reason::Lost);
    assert_eq!(outcome.missing[0].partitions, PartitionSet::from_range(7..8));
    cluster.run_for(Duration::from_millis(10));
    assert!(cluster.worker(3).is_idle(), "the relay that lost the one tells the other of the end");
}

#[test]
fn a_worker_continues_after_an_absence_during_its_folds() {
    let mut cluster = attached(&plan());
    cluster.attach(8, 3);
    cluster.attach(9, 3);
    cluster.run_for(Duration::from_millis(500));
    cluster.set_reduce(Duration::from_millis(50), &plan());
    let request = announce(&mut cluster, announced(10));
    cluster.run_for(Duration::from_millis(20));
    // A relay has two processors, and workers 3, 8 and 9 keep them busy.
    for worker in [3, 8, 9] {
        cluster.give_some(worker, 7, 3, 100);
    }
    cluster.run_for(Duration::from_millis(5));
    cluster.give_some(7, 7, 2, 100);
    cluster.run_for(Duration::from_millis(5));
    cluster.cut(7);
    cluster.run_for(Duration::from_millis(300));
    cluster.attach(7, 3);
    (0..10).for_each(|worker| cluster.give(worker, 7, 5, 100));
    let outcome = outcome(&mut cluster, request);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
}

#[test]
fn pushes_after_the_answer_do_not_fill_the_window() {
    let mut cluster = attached(&plan());
    let some = CallOptions { min_coverage: 0.5, ..announced(8) };
    let request = announce(&mut cluster, some);
    cluster.run_for(Duration::from_millis(20));
    // Relay 2's answer contains all that it has to give, because worker 6 gives nothing.
    cluster.give(2, 7, 1, 100);
    cluster.say_as(6, PushMessage::Failed { request: 7, problem: "no disk".into() });
    cluster.run_for(Duration::from_millis(20));
    // The worker pushes twice its window.
    cluster.give_some(6, 7, 8, 1_000);
    cluster.run_for(Duration::from_millis(100));
    assert_eq!(cluster.worker(6).pushes().len(), 8, "it hears that they are taken");
    assert!(cluster.outcome(0, request).is_none(), "others are still awaited");
}

#[test]
fn a_worker_that_moves_to_another_relay_goes_on_there() {
    let mut cluster = attached(&plan());
    (0..7).for_each(|worker| cluster.give(worker, 7, 1, 100));
    cluster.give_some(7, 7, 2, 100);
    let request = announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(20));
    cluster.cut(7);
    cluster.attach(7, 1);
    cluster.give(7, 7, 4, 100);
    let outcome = outcome(&mut cluster, request);
    assert_eq!(outcome.status, Status::Full);
    assert_eq!(found(&outcome), pieces(7, (0..7).map(|worker| (worker, 1)).chain([(7, 4)])));
    assert_eq!(cluster.worker(7).pushes().len(), 2 + 4, "the other relay has to have all of it");
}

#[test]
fn a_worker_may_move_to_and_fro() {
    for moves in 0..6 {
        let mut cluster = attached(&plan());
        (0..7).for_each(|worker| cluster.give(worker, 7, 1, 100));
        cluster.give_some(7, 7, 2, 100);
        let request = announce(&mut cluster, announced(8));
        for at in 0..moves {
            cluster.run_for(Duration::from_millis(100));
            cluster.cut(7);
            cluster.attach(7, [1, 3][at % 2]);
        }
        cluster.run_for(Duration::from_millis(100));
        cluster.give(7, 7, 4, 100);
        let outcome = outcome(&mut cluster, request);
        assert_eq!(outcome.status, Status::Full, "{moves} moves: {:?}", outcome.missing);
    }
}

#[test]
fn workers_of_a_dead_relay_continue_at_another_relay() {
    for victim in [1, 2, 3] {
        for after_ms in [1, 10, 30, 60] {
            let mut cluster = attached(&Plan { seed: after_ms + 1, ..plan() });
            let request = announce(&mut cluster, announced(8));
            // Half of the workers have finished when the relay dies; the others are half-way.
            (0..4).for_each(|worker| cluster.give(worker, 7, 2, 100));
            (4..8).for_each(|worker| cluster.give_some(worker, 7, 2, 100));
            cluster.run_for(Duration::from_millis(after_ms));
            cluster.kill(victim);
            cluster.run_for(Duration::from_millis(50));
            let refuge = (victim + 2) % 4;
            [victim, victim + 4].into_iter().for_each(|worker| cluster.attach(worker, refuge));
            (4..8).for_each(|worker| cluster.give(worker, 7, 4, 100));
            let outcome = outcome(&mut cluster, request);
            assert_eq!(outcome.status, Status::Full, "{victim} {after_ms}: {:?}", outcome.missing);
            assert_eq!(outcome.value.as_ref().map(|value| value.count), Some(8));
            for (worker, state) in cluster.workers() {
                let sent = state.pushes().len();
                let whole = if worker < 4 { 2 } else { 4 };
                let is_moved = worker % 4 == victim;
                assert!(sent == whole || is_moved && sent <= 2 + whole, "{worker}: {:?}", state.pushes());
                assert!(state.is_idle());
            }
        }
    }
}

#[test]
fn a_worker_attached_after_the_announcement_is_found() {
    let mut cluster = Cluster::new(&plan());
    let request = announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(20));
    for worker in 0..8 {
        cluster.attach(worker, worker % 4);
        cluster.give(worker, 7, 1, 100);
    }
    let outcome = outcome(&mut cluster, request);
    assert_eq!(found(&outcome), all_pieces(8, 1), "{:?}", outcome.missing);
}

#[test]
fn an_unattached_worker_is_missing_when_patience_ends() {
    let mut cluster = attached(&plan());
    (0..8).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let some = CallOptions { min_coverage: 0.5, ..announced(9) };
    let request = announce(&mut cluster, some);
    cluster.run_for(Duration::from_millis(300));
    assert!(cluster.outcome(0, request).is_none(), "it is waited for");
    cluster.run_for(Duration::from_millis(200));
    let outcome = cluster.outcome(0, request).expect("patience has ended");
    assert_honest(&cluster, &outcome);
    assert_eq!((outcome.status, outcome.contributed.len()), (Status::Partial, 8));
    assert_eq!(outcome.missing[0].reason, Reason::NoReplica);
}

#[test]
fn an_announcement_without_workers_answers_at_once() {
    let mut cluster = attached(&plan());
    let request = announce(&mut cluster, announced(0));
    let outcome = cluster.outcome(0, request).expect("at once");
    assert_eq!((outcome.status, outcome.value), (Status::Full, None));
}

#[test]
fn a_worker_with_an_empty_push_contributes() {
    let mut cluster = attached(&plan());
    (0..3).for_each(|worker| cluster.give(worker, 7, 2, 0));
    (3..8).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let request = announce(&mut cluster, announced(8));
    let outcome = outcome_of_nothing(&mut cluster, request);
    assert_eq!((&outcome.status, &outcome.contributed), (&Status::Full, &PartitionSet::first(8)));
    assert_eq!(found(&outcome), pieces(7, (3..8).map(|worker| (worker, 1))), "five have something");
}

/// Waits for the outcome of a request to which no worker adds anything. [`assert_honest`] does not apply to
/// it.
fn outcome_of_nothing(cluster: &mut Cluster, request: RequestId) -> Outcome<Ink> {
    cluster.run_for(Duration::from_millis(100));
    cluster.outcome(0, request).expect("all have pushed")
}

#[test]
fn a_flooding_worker_is_held_to_its_window() {
    let limits = Limits { push_window_bytes: 4_096, held_bytes_max: 64 << 10, ..Limits::DEFAULT };
    let mut cluster = Cluster::new(&Plan { limits, reduce: Duration::from_millis(2), ..plan() });
    cluster.let_flood(3);
    attach_all(&mut cluster);
    cluster.give(3, 7, 200, 1_000);
    (0..8).filter(|&worker| worker != 3).for_each(|worker| cluster.give(worker, 7, 5, 1_000));
    let request = announce(&mut cluster, announced(8));
    for _ in 0..1_000 {
        cluster.run_for(Duration::from_millis(2));
        for node in cluster.nodes() {
            let held = node.open_work().held_bytes;
            assert!(held <= (64 << 10) + 8 * 1_256, "{held} bytes");
        }
    }
    let outcome = cluster.outcome(0, request).expect("all have pushed");
    assert_honest(&cluster, &outcome);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
    let of_flood = |worker| if worker == 3 { 200 } else { 5 };
    assert_eq!(found(&outcome), pieces(7, (0..8).map(|worker| (worker, of_flood(worker)))));
}

#[test]
fn early_pushes_have_their_own_room_and_their_own_time() {
    let limits = Limits { early_bytes_max: 1_500, ..plan().limits };
    let mut cluster = attached(&Plan { limits, ..plan() });
    cluster.give(3, 7, 8, 300);
    cluster.run_for(Duration::from_millis(20));
    assert!(cluster.node(3).open_work().held_bytes <= 1_500, "pushes that do not fit are dropped");
    let dropped = cluster.node(3).status(cluster.now()).counters.pushes.dropped;
    assert!(dropped > 0);
    (0..8).filter(|&worker| worker != 3).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let request = announce(&mut cluster, announced(8));
    let outcome = outcome(&mut cluster, request);
    assert_eq!(outcome.status, Status::Full, "and asked for again: {:?}", outcome.missing);

    cluster.give(2, 8, 1, 300);
    cluster.run_for(EARLY_FOR + Duration::from_secs(1));
    assert!(cluster.worker(2).is_idle(), "it was never announced");
    assert_eq!(cluster.node(2).open_work().held_bytes, 0);
}

#[test]
fn repeated_and_misordered_pushes_are_not_counted() {
    let mut cluster = attached(&plan());
    (0..7).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let request = announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(10));
    let push = |sequence, last| PushMessage::Push {
        request: 7,
        sequence,
        last,
        payload: piece(7, 7, sequence, 100),
    };
    for (sequence, last) in [(1, false), (1, false), (3, true), (2, false), (2, false), (3, true), (4, true)]
    {
        cluster.say_as(7, push(sequence, last));
    }
    cluster.note_given(7, 7, 3);
    let outcome = outcome(&mut cluster, request);
    assert_eq!(outcome.status, Status::Full);
    let counters = cluster.node(3).status(cluster.now()).counters;
    assert_eq!(counters.pushes.repeated, 2);
    assert_eq!(found(&outcome), pieces(7, (0..7).map(|worker| (worker, 1)).chain([(7, 3)])));
}

#[test]
fn invalid_workers_and_announcements_are_refused_by_name() {
    let mut cluster = attached(&plan());
    cluster.attach_as(20, 1, "nothing", 20);
    cluster.attach_as(21, 1, "app", 1 << 20);
    cluster.say_as(0, PushMessage::Taken { request: 7, upto: 1 });
    cluster.run_for(Duration::from_millis(10));
    let refused = |worker: u32| cluster.worker(worker).refusal().unwrap_or_default();
    assert!(refused(20).contains("accepted here: app"), "{}", refused(20));
    assert!(refused(21).contains("partitions_max"), "{}", refused(21));
    assert_eq!(cluster.node(0).status(cluster.now()).counters.bad_messages, 1);

    let push = Some(PushRequest { request: 7, patience: Duration::ZERO });
    let reject = |cluster: &mut Cluster, name: &str, options: CallOptions| {
        let request = cluster.call_named(0, name, options);
        match cluster.outcome(0, request).map(|outcome| outcome.status) {
            Some(Status::Rejected(error)) => error.to_string(),
            other => panic!("{name} is not rejected: {other:?}"),
        }
    };
    let others = reject(&mut cluster, "s/sum", CallOptions { push, ..CallOptions::default() });
    assert!(others.contains("accepts (app)"), "{others}");
    let unannounced = reject(&mut cluster, "app/sum", CallOptions::default());
    assert!(unannounced.contains("push is not set"), "{unannounced}");
    let nobody = reject(&mut cluster, "app/sum", CallOptions { partitions: None, ..announced(1) });
    assert!(nobody.contains("partitions is all"), "{nobody}");
    let unknown = reject(&mut cluster, "app/product", announced(1));
    assert!(unknown.contains("name is app/product"), "{unknown}");
    let beyond = PartitionSet::from_range(0..(1 << 20) + 1);
    let beyond = reject(&mut cluster, "app/sum", CallOptions { partitions: Some(beyond), ..announced(1) });
    assert!(beyond.contains("partitions_max"), "{beyond}");

    let open = announce(&mut cluster, announced(8));
    let twice = reject(&mut cluster, "app/sum", announced(8));
    assert!(twice.contains("push.request is 7"), "{twice}");
    (0..8).for_each(|worker| cluster.give(worker, 7, 1, 100));
    assert_eq!(outcome(&mut cluster, open).status, Status::Full);
}

#[test]
fn a_worker_that_attaches_twice_is_attached_once() {
    let mut cluster = attached(&plan());
    cluster.attach_as(30, 0, "app", 4);
    cluster.run_for(Duration::from_millis(10));
    assert!(cluster.worker(4).refusal().is_some_and(|why| why.contains("attached again")));
    assert_eq!(cluster.node(0).open_work().workers, 2);
}

#[test]
fn a_second_announcement_after_a_lost_front_repeats_no_push() {
    let mut cluster = attached(&plan());
    (1..8).filter(|&worker| worker != 4).for_each(|worker| cluster.give_some(worker, 7, 2, 100));
    announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(50));
    cluster.kill(0);
    cluster.attach(0, 2);
    cluster.attach(4, 2);
    cluster.run_for(Duration::from_millis(300));
    let request = cluster.call_named(1, "app/sum", announced(8));
    cluster.run_for(Duration::from_millis(20));
    (0..8).for_each(|worker| cluster.give(worker, 7, 4, 100));
    cluster.run_for(Duration::from_millis(2_100));
    let outcome = cluster.outcome(1, request).expect("the deadline has passed");
    assert_honest(&cluster, &outcome);
    assert_eq!(outcome.status, Status::Full, "{:?}", outcome.missing);
    assert_eq!(found(&outcome), all_pieces(8, 4));
    assert!(cluster.workers().all(|(_, worker)| worker.pushes().len() == 4));
}

#[test]
fn workers_are_told_of_a_cancelled_request() {
    let mut cluster = attached(&plan());
    (0..7).for_each(|worker| cluster.give(worker, 7, 1, 100));
    let request = announce(&mut cluster, announced(8));
    cluster.run_for(Duration::from_millis(50));
    cluster.cancel(0, request);
    cluster.run_for(Duration::from_millis(50));
    assert!(cluster.workers().all(|(_, worker)| worker.is_idle()));
    cluster.give(7, 7, 1, 100);
    cluster.run_for(Duration::from_millis(50));
    assert!(cluster.worker(7).is_idle(), "and a worker that comes too late is told too");
    assert!(cluster.nodes().all(|node| node.open_work().held_bytes == 0));
}

#[test]
fn a_worker_beyond_the_cards_limits_is_refused() {
    let limits = Limits { partitions_max: u32::MAX, ..plan().limits };
    let mut cluster = Cluster::new(&Plan { limits, ..plan() });
    cluster.attach_as(0, 0, APPLICATION, PARTITIONS_MAX);
    cluster.run_for(Duration::from_millis(500));
    let refused = cluster.worker(0).refusal().expect("its number is beyond what a card holds");
    assert!(refused.contains("service.total is larger than"), "{refused}");
    assert_eq!(cluster.node(0).open_work().workers, 0, "it is not attached");
    cluster.attach(1, 0);
    cluster.run_for(Duration::from_millis(500));
    assert_eq!(cluster.node(0).open_work().workers, 1);
    for node in cluster.nodes() {
        assert_eq!(node.view().providers(APPLICATION, 1), [cluster.id(0)], "all see the one that is");
    }
}

#[test]
fn workers_that_attach_together_are_announced_together() {
    const WORKERS: u32 = 200;
    let mut cluster = Cluster::new(&plan());
    let version = |cluster: &Cluster| {
        let node = cluster.node(0);
        node.view().card(&node.id()).expect("it knows its own card").version
    };
    let before = version(&cluster);
    for worker in 0..WORKERS {
        cluster.attach(worker, 0);
        cluster.run_for(Duration::from_micros(100));
    }
    cluster.run_for(Duration::from_millis(500));
    assert_eq!(cluster.node(0).open_work().workers, WORKERS as usize);
    for node in cluster.nodes() {
        let service = node.view().service(APPLICATION).expect("its workers are there");
        assert!((0..WORKERS).all(|worker| service.providers(worker) == [cluster.id(0)]));
    }
    // 20 ms: the first worker, and all others at the end of the first one's gossip interval.
    assert_eq!(version(&cluster) - before, 2);
    (0..WORKERS).for_each(|worker| cluster.cut(worker));
    cluster.run_for(Duration::from_millis(500));
    assert_eq!(version(&cluster) - before, 4);
    for node in cluster.nodes() {
        assert!((0..WORKERS).all(|worker| node.view().providers(APPLICATION, worker).is_empty()));
    }
}
