//! Sliced calls: one call as several waves, each with a tree of its own, joined at the front.

use crate::world::{Behaviour, Plan, World, assert_honest, whole};
use std::collections::BTreeSet;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::config::Placement;
use treefold_core::error::{JobError, Reason};
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
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

fn counts(outcome: &Outcome<crate::world::Sum>) -> Option<&std::collections::BTreeMap<u32, u32>> {
    outcome.value.as_ref().map(|sum| &sum.counts)
}

/// Nothing of any call is left anywhere.
fn assert_nothing_left(world: &mut World) {
    world.run_for(Duration::from_secs(3));
    for node in world.nodes() {
        let open = node.open_work();
        assert_eq!((open.calls, open.waves, open.held_bytes, open.jobs_running), (0, 0, 0, 0), "{open:?}");
    }
}

#[test]
fn every_local_runs_once_and_slices_climb_by_different_relays() {
    let mut world = World::new(&plan());
    let outcome = world.ask(0, sliced(8));
    assert_honest(&outcome);
    assert_eq!((outcome.status.clone(), counts(&outcome)), (Status::Full, Some(&whole(16))));
    assert_eq!(world.sliced_locals, 16, "one run of each local, for all slices");
    let report = outcome.report.as_deref().expect("it was asked for");
    assert_eq!((report.node, report.children.len()), (world.id(0), 8), "a tree for each slice");
    let roots: BTreeSet<NodeId> = report.children.iter().map(|tree| tree.node).collect();
    assert!(roots.len() > 1 && roots.iter().all(|root| (8..12).any(|i| world.id(i) == *root)), "{roots:?}");
    assert_nothing_left(&mut world);
}

#[test]
fn it_is_the_same_without_relays_inline_and_with_as_many_slices_as_may_be() {
    for placement in [Placement::Pool, Placement::Inline, Placement::Measured] {
        for slices in [2, 3, Limits::DEFAULT.slices_max] {
            let mut world = World::new(&Plan { placement, ..Plan::default() });
            let deadline = Duration::from_secs(5);
            let outcome = world.ask(3, CallOptions { deadline, ..sliced(slices) });
            assert_honest(&outcome);
            assert_eq!(counts(&outcome), Some(&whole(16)), "{placement:?} {slices} {:?}", outcome.missing);
            assert_eq!(world.sliced_locals, 16);
        }
    }
}

#[test]
fn what_is_missing_from_one_slice_is_missing() {
    let mut world = World::new(&plan());
    world.behaviour.failing = [(5, JobError::Failed("no disk".into()))].into();
    let outcome = world.ask(0, sliced(4));
    assert_eq!(outcome.status, Status::Insufficient);
    let listed = outcome.missing.iter().find(|loss| loss.reason == Reason::LocalFailed("no disk".into()));
    assert_eq!(listed.map(|loss| &loss.partitions), Some(&[5].into_iter().collect::<PartitionSet>()));
    let outcome = world.ask(0, CallOptions { min_coverage: 0.5, ..sliced(4) });
    assert_honest(&outcome);
    assert_eq!((outcome.status.clone(), outcome.contributed.len()), (Status::Partial, 15));
    assert!(!counts(&outcome).expect("it is enough").contains_key(&5));
    assert_nothing_left(&mut world);
}

#[test]
fn relays_and_members_that_stop_or_die_cost_no_more_than_their_own() {
    for victim in [8, 9, 3] {
        for after_us in [0, 150, 1_000, 5_200, 5_800, 11_000] {
            for kills in [false, true] {
                let mut world = World::new(&Plan { seed: after_us + 1, replicas: 2, ..plan() });
                let request = world.call(0, sliced(4));
                world.run_for(Duration::from_micros(after_us));
                if kills {
                    world.kill(victim);
                } else {
                    world.stop(victim);
                }
                world.run_for(Duration::from_millis(300));
                let outcome = world.outcome(0, request).expect("the deadline has passed");
                assert_honest(&outcome);
                assert_eq!(
                    counts(&outcome),
                    Some(&whole(16)),
                    "{victim} {after_us} {kills}: {:?}",
                    outcome.missing
                );
            }
        }
    }
}

#[test]
fn a_local_or_a_joining_that_never_ends_is_late() {
    let mut world = World::new(&plan());
    world.behaviour.never_returning = [7].into();
    let outcome = world.ask(0, CallOptions { min_coverage: 0.9, ..sliced(4) });
    assert_honest(&outcome);
    assert_eq!((outcome.status.clone(), outcome.contributed.len()), (Status::Partial, 15));
    let mut world = World::new(&plan());
    world.behaviour = Behaviour { reduce: Duration::from_millis(400), ..world.behaviour };
    let alone = Some(PartitionSet::first(1));
    let outcome = world.ask(0, CallOptions { partitions: alone, ..sliced(2) });
    assert_eq!(
        (outcome.status.clone(), outcome.missing[0].reason.clone()),
        (Status::Insufficient, Reason::Late)
    );
    assert!(outcome.elapsed <= Duration::from_millis(300), "{}", outcome.elapsed);
    assert_nothing_left(&mut world);
}

#[test]
fn a_call_that_is_cancelled_leaves_nothing() {
    for after_us in [0, 300, 1_500, 5_100, 6_000] {
        let mut world = World::new(&plan());
        let request = world.call(0, sliced(6));
        world.run_for(Duration::from_micros(after_us));
        world.cancel(0, request);
        world.run_for(MILLI);
        assert!(world.outcome(0, request).is_none());
        assert_nothing_left(&mut world);
    }
}

#[test]
fn slices_that_can_not_be_joined_are_refused_by_name() {
    let mut world = World::new(&plan());
    for slices in [0, Limits::DEFAULT.slices_max + 1] {
        let Status::Rejected(error) = world.ask(0, sliced(slices)).status else { panic!("{slices} slices") };
        assert!(error.to_string().contains("slices"), "{error}");
    }
    let Status::Rejected(error) = world.ask(0, CallOptions { deadline: Duration::ZERO, ..sliced(2) }).status
    else {
        panic!("no time at all")
    };
    assert!(error.to_string().contains("deadline"), "{error}");
}
