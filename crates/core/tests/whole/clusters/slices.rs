//! Sliced calls: one call as several waves, each with its own tree, joined at the front.

use crate::clusters::cluster::{Cluster, Plan, assert_honest, counted, names, whole};
use std::collections::BTreeSet;
use treefold_core::call::{CallOptions, Status};
use treefold_core::config::Placement;
use treefold_core::error::{JobError, Reason};
use treefold_core::id::NodeId;
use treefold_core::limits::{Limits, SLICES_ALONE_MAX};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// One rack of eight, with four relays: nodes 8 to 11.
fn plan() -> Plan {
    Plan { racks: 1, relays: 4, ..Plan::default() }
}

fn sliced(slices: u32) -> CallOptions {
    CallOptions { deadline: Duration::from_millis(300), explain: true, slices, ..CallOptions::default() }
}

fn alone(slice: u32, of: u32) -> CallOptions {
    CallOptions { only_slice: Some(slice), ..sliced(of) }
}

/// Asserts that no node holds anything of a call.
fn assert_nothing_left(cluster: &mut Cluster) {
    cluster.run_for(Duration::from_secs(3));
    for node in cluster.nodes() {
        let open = node.open_work();
        assert_eq!((open.calls, open.waves, open.held_bytes, open.jobs_running), (0, 0, 0, 0), "{open:?}");
    }
}

#[test]
fn every_local_runs_once_and_slices_climb_by_different_relays() {
    let mut cluster = Cluster::new(&plan());
    let outcome = cluster.ask(0, sliced(8));
    assert_honest(&outcome);
    assert_eq!((outcome.status.clone(), counted(&outcome)), (Status::Full, whole(16)));
    assert_eq!(cluster.sliced_locals(), 16, "one run of each local, for all slices");
    let report = outcome.report.as_deref().expect("it was asked for");
    assert_eq!((report.node, report.children.len()), (cluster.id(0), 8), "a tree for each slice");
    let roots: BTreeSet<NodeId> = report.children.iter().map(|tree| tree.node).collect();
    assert!(roots.len() > 1 && roots.is_subset(&names(&cluster, [8, 9, 10, 11])), "{roots:?}");
    assert_nothing_left(&mut cluster);
}

#[test]
fn slices_work_without_relays_inline_and_at_the_limit() {
    for placement in [Placement::Pool, Placement::Inline, Placement::Measured] {
        for slices in [2, 3, Limits::DEFAULT.slices_max] {
            let mut cluster = Cluster::new(&Plan { placement, ..Plan::default() });
            let deadline = Duration::from_secs(5);
            let outcome = cluster.ask(3, CallOptions { deadline, ..sliced(slices) });
            assert_honest(&outcome);
            assert_eq!(counted(&outcome), whole(16), "{placement:?} {slices} {:?}", outcome.missing);
            assert_eq!(cluster.sliced_locals(), 16);
        }
    }
}

#[test]
fn a_loss_in_one_slice_is_a_loss_of_the_call() {
    let mut cluster = Cluster::new(&plan());
    cluster.fail([(5, JobError::Failed("no disk".into()))]);
    let outcome = cluster.ask(0, sliced(4));
    assert_eq!(outcome.status, Status::Insufficient);
    let listed = outcome.missing.iter().find(|loss| loss.reason == Reason::LocalFailed("no disk".into()));
    assert_eq!(listed.map(|loss| &loss.partitions), Some(&[5].into_iter().collect::<PartitionSet>()));
    let outcome = cluster.ask(0, CallOptions { min_coverage: 0.5, ..sliced(4) });
    assert_honest(&outcome);
    assert_eq!((outcome.status.clone(), outcome.contributed.len()), (Status::Partial, 15));
    assert!(!counted(&outcome).expect("it is enough").contains(5));
    assert_nothing_left(&mut cluster);
}

#[test]
fn lost_relays_and_members_cost_only_their_own_partitions() {
    for victim in [8, 9, 3] {
        for after_us in [0, 150, 1_000, 5_200, 5_800, 11_000] {
            for kills in [false, true] {
                let mut cluster = Cluster::new(&Plan { seed: after_us + 1, replicas: 2, ..plan() });
                let request = cluster.call(0, sliced(4));
                cluster.run_for(Duration::from_micros(after_us));
                if kills {
                    cluster.kill(victim);
                } else {
                    cluster.stop(victim);
                }
                cluster.run_for(Duration::from_millis(300));
                let outcome = cluster.outcome(0, request).expect("the deadline has passed");
                assert_honest(&outcome);
                assert_eq!(
                    counted(&outcome),
                    whole(16),
                    "{victim} {after_us} {kills}: {:?}",
                    outcome.missing
                );
            }
        }
    }
}

#[test]
fn a_local_or_a_joining_that_never_ends_is_late() {
    let mut cluster = Cluster::new(&plan());
    cluster.never_return(&PartitionSet::from_range(7..8));
    let outcome = cluster.ask(0, CallOptions { min_coverage: 0.9, ..sliced(4) });
    assert_honest(&outcome);
    assert_eq!((outcome.status.clone(), outcome.contributed.len()), (Status::Partial, 15));
    let mut cluster = Cluster::new(&Plan { reduce: Duration::from_millis(400), ..plan() });
    let alone = Some(PartitionSet::first(1));
    let outcome = cluster.ask(0, CallOptions { partitions: alone, ..sliced(2) });
    assert_eq!(
        (outcome.status.clone(), outcome.missing[0].reason.clone()),
        (Status::Insufficient, Reason::Late)
    );
    assert!(outcome.elapsed <= Duration::from_millis(300), "{}", outcome.elapsed);
    assert_nothing_left(&mut cluster);
}

#[test]
fn a_call_that_is_cancelled_leaves_nothing() {
    for after_us in [0, 300, 1_500, 5_100, 6_000] {
        let mut cluster = Cluster::new(&plan());
        let request = cluster.call(0, sliced(6));
        cluster.run_for(Duration::from_micros(after_us));
        cluster.cancel(0, request);
        cluster.run_for(MILLI);
        assert!(cluster.outcome(0, request).is_none());
        assert_nothing_left(&mut cluster);
    }
}

#[test]
fn slices_that_can_not_be_joined_are_refused_by_name() {
    let mut cluster = Cluster::new(&plan());
    for slices in [0, Limits::DEFAULT.slices_max + 1] {
        let Status::Rejected(error) = cluster.ask(0, sliced(slices)).status else {
            panic!("{slices} slices")
        };
        assert!(error.to_string().contains("slices"), "{error}");
    }
    let Status::Rejected(error) =
        cluster.ask(0, CallOptions { deadline: Duration::ZERO, ..sliced(2) }).status
    else {
        panic!("no time at all")
    };
    assert!(error.to_string().contains("deadline"), "{error}");
}

#[test]
fn slices_alone_are_whole_waves_over_different_relays() {
    let mut cluster = Cluster::new(&plan());
    let mut roots = BTreeSet::new();
    for slice in 0..8 {
        let outcome = cluster.ask(0, alone(slice, 8));
        assert_honest(&outcome);
        assert_eq!((outcome.status.clone(), counted(&outcome)), (Status::Full, whole(16)));
        roots.insert(outcome.report.as_deref().expect("it was asked for").node);
    }
    assert_eq!(cluster.sliced_locals(), 0, "no local makes all slices");
    assert!(roots.len() > 1 && roots.is_subset(&names(&cluster, [8, 9, 10, 11])), "{roots:?}");
    assert_nothing_left(&mut cluster);
}

#[test]
fn slices_alone_in_flight_together_survive_lost_relays_and_members() {
    for victim in [8, 9, 3] {
        for after_us in [0, 150, 1_000, 5_200, 11_000] {
            for kills in [false, true] {
                let mut cluster = Cluster::new(&Plan { seed: after_us + 1, replicas: 2, ..plan() });
                let requests: Vec<_> = (0..4).map(|slice| cluster.call(0, alone(slice, 1_000))).collect();
                cluster.run_for(Duration::from_micros(after_us));
                if kills {
                    cluster.kill(victim);
                } else {
                    cluster.stop(victim);
                }
                cluster.run_for(Duration::from_millis(300));
                for request in requests {
                    let outcome = cluster.outcome(0, request).expect("the deadline has passed");
                    assert_honest(&outcome);
                    assert_eq!(counted(&outcome), whole(16), "{victim} {after_us} {kills}");
                }
            }
        }
    }
}

#[test]
fn a_slice_alone_that_is_cancelled_leaves_nothing() {
    for after_us in [0, 300, 1_500, 5_100] {
        let mut cluster = Cluster::new(&plan());
        let requests = [0, 5].map(|slice| cluster.call(0, alone(slice, 6)));
        cluster.run_for(Duration::from_micros(after_us));
        requests.into_iter().for_each(|request| cluster.cancel(0, request));
        cluster.run_for(MILLI);
        assert_nothing_left(&mut cluster);
    }
}

#[test]
fn slices_alone_are_not_bound_by_the_table_of_joined_slices() {
    let mut cluster = Cluster::new(&plan());
    let last = SLICES_ALONE_MAX - 1;
    assert_eq!(cluster.ask(0, alone(last, SLICES_ALONE_MAX)).status, Status::Full);
    for (slice, of) in [(0, SLICES_ALONE_MAX + 1), (8, 8), (0, 0)] {
        let Status::Rejected(error) = cluster.ask(0, alone(slice, of)).status else {
            panic!("slice {slice} of {of}")
        };
        assert!(error.to_string().contains("slice"), "{error}");
    }
    let whole_of_one = cluster.ask(0, alone(0, 1));
    assert_eq!(counted(&whole_of_one), whole(16));
}
