//! Replica policies: answers stay whole under every policy, and the policies' figures are visible.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, whole};
use treefold_core::call::{CallOptions, Status};
use treefold_core::config::Tuning;
use treefold_core::id::NodeId;
use treefold_core::replica::ReplicaPolicy;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

fn by(policy: ReplicaPolicy) -> CallOptions {
    CallOptions { policy: Some(policy), ..CallOptions::default() }
}

#[test]
fn learning_policies_never_lose_a_partition() {
    for policy in ReplicaPolicy::EXAMPLES {
        for shape in [Shape::Adaptive, Shape::Base] {
            let mut cluster = Cluster::new(&Plan { replicas: 3, ..Plan::default() });
            for round in 0..30 {
                let outcome = cluster.ask(0, CallOptions { shape, ..by(policy) });
                assert_honest(&outcome);
                assert_eq!(counted(&outcome), whole(16), "{policy} {shape} {round}");
                cluster.run_for(Duration::from_millis(40));
            }
        }
    }
}

#[test]
fn a_stopped_replica_costs_nothing_under_any_policy() {
    for policy in ReplicaPolicy::EXAMPLES {
        let mut cluster = Cluster::new(&Plan { replicas: 3, ..Plan::default() });
        for _ in 0..5 {
            cluster.ask(0, by(policy));
        }
        cluster.stop(4);
        for round in 0..10 {
            let outcome = cluster.ask(0, by(policy));
            assert_honest(&outcome);
            assert_eq!(outcome.status, Status::Full, "{policy} {round}: {outcome:?}");
        }
    }
}

/// The nodes asked for the one partition of two simultaneous calls. The front holds neither of its replicas.
fn asked_at_once(tuning: Tuning, seed: u64) -> [NodeId; 2] {
    let plan = Plan { nodes: 3, partitions: 3, replicas: 2, tuning, seed, ..Plan::default() };
    let mut cluster = Cluster::new(&plan);
    let partitions = Some([1].into_iter().collect());
    let options = CallOptions { partitions, explain: true, ..by(ReplicaPolicy::AnnouncedRaw) };
    let requests = [cluster.call(0, options.clone()), cluster.call(0, options)];
    cluster.run_for(Duration::from_millis(100));
    requests.map(|request| {
        let outcome = cluster.outcome(0, request).expect("idle nodes are quick");
        outcome.report.expect("it was asked for").node
    })
}

#[test]
fn a_front_anticipates_the_load_it_has_just_placed() {
    let is_spread = |anticipate| {
        move |seed| {
            let [first, second] = asked_at_once(Tuning { anticipate, ..Tuning::LAN }, seed);
            first != second
        }
    };
    assert!((0..20).all(is_spread(true)));
    assert!(!(0..20).all(is_spread(false)), "both are idle as far as anybody has said");
}

#[test]
fn nodes_that_announce_directly_are_heard_though_idle() {
    for announce_directly in [false, true] {
        let tuning =
            Tuning { announce_directly, announce_every: Duration::from_millis(100).into(), ..Tuning::LAN };
        let mut cluster = Cluster::new(&Plan { tuning, ..Plan::default() });
        cluster.run_for(Duration::from_millis(400));
        let status = cluster.node(0).status(cluster.now());
        let heard = status.members.iter().filter(|member| member.load_age_ms.is_some()).count();
        assert_eq!(heard, if announce_directly { 7 } else { 0 }, "an idle cluster has nothing to gossip");
        assert_eq!((status.counters.polls_late, status.counters.bad_messages), (0, 0));
    }
}

#[test]
fn a_node_reports_how_long_its_requests_take() {
    let mut cluster = Cluster::new(&Plan::default());
    assert_eq!(cluster.node(3).status(cluster.now()).load.latency, Duration::ZERO, "none has come yet");
    cluster.ask(0, CallOptions::default());
    cluster.run_for(Duration::from_millis(50));
    // Two partitions of 5 ms on two processors.
    assert_eq!(cluster.node(3).status(cluster.now()).load.latency, Duration::from_millis(5));
}

#[test]
fn answers_that_no_call_waits_for_are_not_late() {
    for policy in [ReplicaPolicy::Prequal, ReplicaPolicy::PrequalInline] {
        let mut cluster = Cluster::new(&Plan { replicas: 3, ..Plan::default() });
        for _ in 0..20 {
            cluster.ask(0, by(policy));
        }
        assert_eq!(cluster.node(0).status(cluster.now()).counters.polls_late, 0, "{policy}");
    }
}

/// The locals that a node has run.
fn locals_of(cluster: &Cluster, at: u32) -> u64 {
    cluster.node(at).status(cluster.now()).counters.waves.locals_run
}

#[test]
fn a_slow_replica_is_avoided_until_it_has_recovered() {
    const SLOW: u32 = 4;
    for policy in [ReplicaPolicy::DEFAULT, ReplicaPolicy::Announced] {
        let mut cluster = Cluster::new(&Plan { replicas: 2, ..Plan::default() });
        cluster.slow(SLOW, Duration::from_millis(500));
        let share_over = |cluster: &mut Cluster, calls: u32| {
            let (slow, other) = (locals_of(cluster, SLOW), locals_of(cluster, SLOW + 1));
            for _ in 0..calls {
                let outcome = cluster.ask(0, by(policy));
                assert_honest(&outcome);
                cluster.run_for(Duration::from_millis(40));
            }
            (locals_of(cluster, SLOW) - slow, locals_of(cluster, SLOW + 1) - other)
        };
        // A replica has to beat it twice.
        share_over(&mut cluster, 20);
        // Locals that a replica has beaten end as well.
        cluster.run_for(Duration::from_secs(1));
        // In four seconds nobody rechecks it.
        assert_eq!(share_over(&mut cluster, 100).0, 0, "{policy}");
        cluster.slow(SLOW, Duration::ZERO);
        cluster.run_for(Duration::from_secs(45));
        share_over(&mut cluster, 5);
        let (recovered, other) = share_over(&mut cluster, 100);
        assert!(recovered > other / 2, "{policy}: {recovered} and {other} locals");
    }
}

#[test]
fn nobody_is_slow_if_all_are_slow_alike() {
    let mut cluster = Cluster::new(&Plan { replicas: 2, ..Plan::default() });
    (0..8).for_each(|at| cluster.slow(at, Duration::from_millis(100)));
    for _ in 0..100 {
        cluster.ask(0, by(ReplicaPolicy::DEFAULT));
        cluster.run_for(Duration::from_millis(400));
    }
    let locals: Vec<u64> = (0..8).map(|at| locals_of(&cluster, at)).collect();
    let (least, most) = (locals.iter().min().unwrap(), locals.iter().max().unwrap());
    assert!(most < &(2 * least), "{locals:?}");
}
