//! Bounds on what a node holds: large partials, which are offered and granted; kept waves; and jobs that wait
//! for a processor.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, whole};
use treefold_core::call::{CallOptions, Status};
use treefold_core::id::{Tag, WaveId};
use treefold_core::limits::{Limits, STALE_FOLDS_MAX};
use treefold_core::message::Message;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

#[test]
fn a_roots_held_bytes_are_bounded_for_any_fan_in() {
    // Folds keep pace with the arrivals, or are much slower.
    for reduce in [Duration::from_micros(500), Duration::from_millis(5)] {
        let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 50_000, ..Limits::DEFAULT };
        let plan =
            Plan { nodes: 40, partitions: 40, limits, reduce, partial_bytes: 10_000, ..Plan::default() };
        let mut cluster = Cluster::new(&plan);
        cluster.world.count_held();
        let request = cluster.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
        let horizon = cluster.now() + Duration::from_secs(2);
        let mut most = 0;
        while cluster.step(horizon) {
            for i in 0..40 {
                let (held, open) = (cluster.world.held_bytes(i as usize), cluster.node(i).open_work());
                assert!(held <= open.held_bytes + open.kept_bytes, "{held} bytes are held, and not {open:?}");
                most = most.max(held);
            }
        }
        let outcome = cluster.outcome(0, request).expect("the deadline has passed");
        assert_honest(&outcome);
        assert_eq!(counted(&outcome), whole(40));
        // The budget, plus one partial: a wave with nothing to fold is granted one beyond the budget.
        assert!(most <= 60_000, "{most} bytes were held at once");
    }
}

#[test]
fn one_partial_larger_than_the_budget_still_gets_through() {
    let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 5_000, ..Limits::DEFAULT };
    let mut cluster = Cluster::new(&Plan { limits, partial_bytes: 10_000, ..Plan::default() });
    let outcome = cluster.ask(0, CallOptions { shape: Shape::Binomial, ..CallOptions::default() });
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full);
}

#[test]
fn a_node_that_grants_itself_room_waits_for_nothing_else() {
    let limits = Limits { eager_bytes_max: 1_000, ..Limits::DEFAULT };
    let plan = Plan { nodes: 1, partitions: 1, limits, partial_bytes: 10_000, ..Plan::default() };
    let mut cluster = Cluster::new(&plan);
    let began_at = cluster.now();
    assert_eq!(cluster.ask(0, CallOptions::default()).status, Status::Full);
    assert_eq!(began_at.until(cluster.now()), plan.local, "nothing else took time");
}

#[test]
fn a_dead_childs_granted_room_goes_to_others() {
    let limits = Limits { eager_bytes_max: 1_000, held_bytes_max: 12_000, ..Limits::DEFAULT };
    let plan =
        Plan { nodes: 6, partitions: 6, replicas: 2, limits, partial_bytes: 10_000, ..Plan::default() };
    let mut cluster = Cluster::new(&plan);
    cluster.write_effects();
    let request = cluster.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
    let granted = |cluster: &Cluster| {
        let of = |i: &u32| {
            cluster
                .effects()
                .iter()
                .any(|line| line.contains("Grant") && line.contains(&sent_to(cluster, *i)))
        };
        (1..6).find(of)
    };
    cluster.run_until(|cluster| granted(cluster).is_some());
    let victim = granted(&cluster).expect("some child was granted room");
    cluster.kill(victim);
    cluster.run_for(Duration::from_millis(200));
    let outcome = cluster.outcome(0, request).expect("others take its place long before the deadline");
    assert_honest(&outcome);
    assert_eq!(outcome.status, Status::Full);
}

fn sent_to(cluster: &Cluster, i: u32) -> String {
    format!("Send {{ to: {:?}", cluster.id(i))
}

#[test]
fn a_grant_from_a_stranger_takes_nothing_away() {
    let limits = Limits { eager_bytes_max: 1_000, ..Limits::DEFAULT };
    let mut cluster = Cluster::new(&Plan { limits, partial_bytes: 10_000, ..Plan::default() });
    cluster.write_effects();
    let request = cluster.call(0, CallOptions { shape: Shape::Flat, ..CallOptions::default() });
    cluster.run_until(|cluster| cluster.effects().iter().any(|line| line.contains("Offer")));
    let tag = Tag { wave: WaveId { origin: cluster.id(0).generation, sequence: 1 }, branch: 0 };
    assert!(
        cluster.effects().iter().any(|line| line.contains(&format!("Offer {{ tag: {tag:?}"))),
        "{:?}",
        cluster.effects()
    );
    for child in 1..8 {
        let from = cluster.id(child % 7 + 1);
        cluster.hear(child, from, Message::Grant { tag });
    }
    cluster.run_for(Duration::from_millis(200));
    assert_eq!(cluster.outcome(0, request).expect("all have answered").status, Status::Full);
}

#[test]
fn waves_kept_for_repair_are_bounded() {
    let limits = Limits { waves_kept_max: 10, kept_bytes_max: 450, ..Limits::DEFAULT };
    let mut cluster = Cluster::new(&Plan { limits, ..Plan::default() });
    let options = CallOptions { deadline: Duration::from_secs(50), ..CallOptions::default() };
    for _ in 0..30 {
        assert_eq!(cluster.ask(0, options.clone()).status, Status::Full);
        for i in 0..8 {
            let open = cluster.node(i).open_work();
            assert!(open.waves_kept <= 10 && open.kept_bytes <= 450, "{open:?}");
        }
    }
}

#[test]
fn folds_do_not_pile_up_before_processors_that_never_come_back() {
    let reduce = Duration::from_secs(3_600);
    let mut cluster = Cluster::new(&Plan { partitions: 8, reduce, ..Plan::default() });
    let options = CallOptions {
        shape: Shape::Base,
        deadline: Duration::from_millis(50),
        min_coverage: 0.0,
        ..CallOptions::default()
    };
    // Eight partials of a call make at most four folds.
    let most = 4 + STALE_FOLDS_MAX;
    for _ in 0..100 {
        assert_honest(&cluster.ask(0, options.clone()));
        let waiting = cluster.node(0).table_sizes();
        assert!(waiting.folds_queued <= most, "{waiting:?}");
    }
    assert!(cluster.node(0).open_work().jobs_running > 0, "no processor has come back");
}
