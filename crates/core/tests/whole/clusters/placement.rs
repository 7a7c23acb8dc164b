//! Placement: nodes share partitions among themselves while they join, are drained, fail and restart.

use std::collections::BTreeMap;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::effect::{Effect, Event};
use treefold_core::id::RequestId;
use treefold_core::input::{Command, Input};
use treefold_core::membership::card::Placed;
use treefold_core::partitions::PartitionSet;
use treefold_core::placement::{PlacementAsk, PlacementReport};
use treefold_core::time::{Duration, Instant};
use treefold_sim::world::ink::Ink;
use treefold_sim::world::place::{Failing, Life, Placing, Spec};
use treefold_sim::world::{Setting, Watch, World};

const PARTITIONS: u32 = 64;
const CALL_EVERY: Duration = Duration::from_millis(50);

/// Counts loads, and keeps the outcomes of calls and the reports.
#[derive(Default)]
struct Seen {
    loads: u32,
    drops: u32,
    outcomes: Vec<(Instant, Status, u32)>,
    report: Option<Result<Box<PlacementReport>, std::sync::Arc<str>>>,
}

impl Watch for Seen {
    fn effect(&mut self, _now: Instant, _at: usize, effect: &Effect<Ink>) {
        match effect {
            Effect::Load { .. } => self.loads += 1,
            Effect::Unload { .. } => self.drops += 1,
            Effect::Deliver(Event::Placement { result, .. }) => self.report = Some(result.clone()),
            _ => {}
        }
    }

    fn outcome(&mut self, now: Instant, _at: usize, _request: RequestId, outcome: &Outcome<Ink>) {
        self.outcomes.push((now, outcome.status.clone(), outcome.contributed.len() as u32));
    }
}

struct Placed64 {
    world: World,
    seen: Seen,
    calls: u64,
}

impl Placed64 {
    /// Nodes that know each other and hold nothing.
    fn new(nodes: usize, replicas: u32) -> Self {
        let mut world = World::new(Setting::micro(7, PARTITIONS));
        for _ in 0..nodes {
            world.start(spec(replicas));
        }
        world.introduce_all();
        Self { world, seen: Seen::default(), calls: 0 }
    }

    /// Nodes that have shared the partitions.
    fn settled(nodes: usize, replicas: u32) -> Self {
        let mut cluster = Self::new(nodes, replicas);
        cluster.run(20);
        assert_eq!(cluster.wrong_counts(replicas), [], "each partition has its replicas");
        cluster
    }

    fn run(&mut self, seconds: u64) {
        self.world.run_until(self.world.now() + Duration::from_secs(seconds), &mut self.seen);
    }

    /// Runs with a call every 50 ms at one of these nodes, and returns the calls that were not answered in full.
    fn run_with_calls(&mut self, seconds: u64, fronts: &[usize]) -> Vec<(Instant, Status, u32)> {
        self.seen.outcomes.clear();
        let end = self.world.now() + Duration::from_secs(seconds);
        while self.world.now() < end {
            let front = fronts[self.calls as usize % fronts.len()];
            self.calls += 1;
            let options = CallOptions { deadline: Duration::from_secs(2), ..CallOptions::default() };
            self.world.call(front, Ink::params(self.calls, 0.01), options, &mut self.seen);
            self.world.run_until(self.world.now() + CALL_EVERY, &mut self.seen);
        }
        self.run(3);
        std::mem::take(&mut self.seen.outcomes)
            .into_iter()
            .filter(|(_, status, _)| *status != Status::Full)
            .collect()
    }

    fn join(&mut self, replicas: u32) -> usize {
        let at = self.world.start(spec(replicas));
        self.world.join(at, &[0], &mut self.seen);
        at
    }

    /// The running nodes that announce each partition, as node `at` sees them.
    fn holders(&self, at: usize) -> BTreeMap<u32, usize> {
        let view = self.world.place(at).node().view();
        (0..PARTITIONS).map(|partition| (partition, view.providers("s", partition).len())).collect()
    }

    fn wrong_counts(&self, replicas: u32) -> Vec<(u32, usize)> {
        let is_running = |&at: &usize| self.world.place(at).life() == Life::Running;
        let running = (0..self.world.places()).find(is_running).expect("some node runs");
        self.holders(running).into_iter().filter(|&(_, count)| count != replicas as usize).collect()
    }

    fn held(&self, at: usize) -> PartitionSet {
        let place = self.world.place(at);
        place.node().view().card(&place.id()).expect("it has its own card").services["s"].partitions.clone()
    }

    fn ask(&mut self, at: usize, ask: PlacementAsk) -> Result<PlacementReport, String> {
        let command = Command::Placement { request: RequestId(1_000_000), ask };
        self.world.feed(at, Input::Command(command), &mut self.seen);
        let report = self.seen.report.take().expect("the node answers at once");
        report.map(|report| *report).map_err(|problem| problem.to_string())
    }

    /// Loads since the last time this was asked.
    fn take_loads(&mut self) -> u32 {
        std::mem::take(&mut self.seen.loads)
    }
}

fn spec(replicas: u32) -> Spec {
    let placing = Some(Placing { replicas, load: Duration::from_millis(30) });
    Spec { placing, ..Spec::front() }
}

#[test]
fn nodes_that_start_together_load_each_partition_once_for_each_replica() {
    let mut cluster = Placed64::settled(6, 2);
    assert_eq!(cluster.take_loads(), 2 * PARTITIONS);
    assert_eq!(cluster.seen.drops, 0);
    assert_eq!(cluster.run_with_calls(2, &[0, 3, 5]), []);
}

#[test]
fn a_node_alone_holds_everything() {
    let mut cluster = Placed64::settled(1, 1);
    assert_eq!(cluster.held(0), PartitionSet::first(PARTITIONS));
    // With more replicas than nodes, each node holds all.
    cluster = Placed64::new(2, 3);
    cluster.run(20);
    assert_eq!(cluster.wrong_counts(2), []);
}

#[test]
fn a_newcomer_loads_its_share_and_calls_stay_whole() {
    let mut cluster = Placed64::settled(5, 2);
    cluster.take_loads();
    let newcomer = cluster.join(2);
    assert_eq!(cluster.run_with_calls(20, &[0, 2, 4]), []);
    assert_eq!(cluster.wrong_counts(2), []);
    let loads = cluster.take_loads();
    assert_eq!(loads as usize, cluster.held(newcomer).len(), "only the newcomer loads");
    assert!((10..=33).contains(&loads), "about a sixth of 128: {loads}");
    assert_eq!(cluster.seen.drops, loads, "the others have dropped as many");
}

#[test]
fn a_drained_node_hands_its_partitions_over() {
    let mut cluster = Placed64::settled(5, 1);
    cluster.take_loads();
    let share = cluster.held(3).len();
    let report = cluster.ask(3, PlacementAsk::Drain(true)).unwrap();
    assert!(report.draining && !report.is_calm);
    assert_eq!(cluster.run_with_calls(20, &[0, 3]), [], "even with one replica");
    assert!(cluster.held(3).is_empty());
    assert_eq!(cluster.take_loads() as usize, share);
    let report = cluster.ask(3, PlacementAsk::Show).unwrap();
    assert!(report.is_calm && report.services[0].held.is_empty() && report.services[0].leaving.is_empty());
    assert_eq!(cluster.wrong_counts(1), []);
    cluster.ask(3, PlacementAsk::Drain(false)).unwrap();
    assert_eq!(cluster.run_with_calls(20, &[0, 3]), []);
    assert_eq!(cluster.held(3).len(), share, "it gets the same partitions back");
    assert_eq!(cluster.take_loads() as usize, share);
}

#[test]
fn a_drained_node_does_not_wait_for_nodes_that_were_lost_before() {
    for replicas in [1, 2] {
        let mut cluster = Placed64::settled(5, replicas);
        // They leave without being drained, and their share waits for them for half a minute.
        cluster.world.kill(4);
        cluster.run(12);
        let report = cluster.ask(3, PlacementAsk::Drain(true)).unwrap();
        assert!(!report.services[0].held.is_empty());
        assert_eq!(cluster.run_with_calls(12, &[0, 1]), []);
        let report = cluster.ask(3, PlacementAsk::Show).unwrap();
        let service = &report.services[0];
        assert!(service.held.is_empty() && service.leaving.is_empty(), "{service:?}");
        // A lost node that comes back takes its share again, and nobody holds too much in the end.
        cluster.world.restart(4);
        cluster.world.join(4, &[0], &mut cluster.seen);
        assert_eq!(cluster.run_with_calls(40, &[0, 1]), []);
        assert_eq!(cluster.wrong_counts(replicas), []);
        assert!(cluster.held(3).is_empty() && !cluster.held(4).is_empty());
    }
}

#[test]
fn the_last_node_keeps_its_partitions_when_it_is_drained() {
    let mut cluster = Placed64::new(1, 2);
    cluster.run(20);
    let report = cluster.ask(0, PlacementAsk::Drain(true)).unwrap();
    assert_eq!(report.services[0].alone, PartitionSet::first(PARTITIONS));
    assert_eq!(cluster.run_with_calls(10, &[0]), []);
    assert_eq!(cluster.held(0).len(), PARTITIONS as usize);
    assert!(cluster.ask(0, PlacementAsk::Show).unwrap().is_calm, "nothing else will happen");
}

#[test]
fn a_restart_moves_nothing_and_a_loss_is_made_good_later() {
    let mut cluster = Placed64::settled(5, 2);
    cluster.take_loads();
    let share = cluster.held(4).len();
    cluster.world.kill(4);
    cluster.run(15);
    assert_eq!(cluster.take_loads(), 0, "it may come back");
    cluster.world.restart(4);
    cluster.world.join(4, &[0], &mut cluster.seen);
    cluster.run(20);
    assert_eq!(cluster.take_loads() as usize, share, "it has loaded its own again");
    assert_eq!(cluster.wrong_counts(2), []);
    cluster.world.kill(4);
    cluster.run(60);
    assert_eq!(cluster.take_loads() as usize, share, "others have loaded its partitions");
    assert_eq!(cluster.wrong_counts(2), []);
    assert_eq!(cluster.run_with_calls(2, &[0, 1, 2, 3]), []);
}

#[test]
fn partitions_that_nobody_holds_do_not_wait_for_a_lost_node() {
    let mut cluster = Placed64::settled(4, 1);
    cluster.take_loads();
    let lost = cluster.held(2).len();
    cluster.world.kill(2);
    cluster.run(15);
    assert_eq!(cluster.take_loads() as usize, lost);
    assert_eq!(cluster.wrong_counts(1), []);
    // The lost node comes back, and takes its own again.
    cluster.world.restart(2);
    cluster.world.join(2, &[0], &mut cluster.seen);
    assert_eq!(cluster.run_with_calls(20, &[0, 1, 3]), []);
    assert_eq!((cluster.held(2).len(), cluster.wrong_counts(1)), (lost, Vec::new()));
}

#[test]
fn a_partition_that_cannot_be_loaded_goes_to_another_node() {
    let mut cluster = Placed64::new(3, 1);
    cluster.world.fail(1, Failing { loads: PartitionSet::first(PARTITIONS), ..Failing::default() });
    cluster.run(90);
    assert!(cluster.held(1).is_empty());
    assert_eq!(cluster.wrong_counts(1), []);
    let report = cluster.ask(1, PlacementAsk::Show).unwrap();
    let failures = &report.services[0].failures;
    assert!(failures.iter().all(|failure| failure.reason.contains("store")), "{failures:?}");
    // Once the store answers again, the node takes its share.
    cluster.world.fail(1, Failing::default());
    assert_eq!(cluster.run_with_calls(150, &[0, 2]), []);
    assert!(cluster.held(1).len() > 10, "{}", cluster.held(1));
    assert_eq!(cluster.wrong_counts(1), []);
}

#[test]
fn loads_that_always_fail_are_tried_ever_more_rarely() {
    let mut cluster = Placed64::new(1, 1);
    cluster.world.fail(0, Failing { loads: PartitionSet::first(PARTITIONS), ..Failing::default() });
    cluster.run(600);
    let tries = cluster.take_loads() / PARTITIONS;
    assert!((8..=20).contains(&tries), "after 1, 2, 4, 8, 16, 32 and then every 60 s: {tries}");
}

#[test]
fn partitions_are_moved_by_hand() {
    let mut cluster = Placed64::settled(4, 1);
    let moved = PartitionSet::first(5).intersection(&cluster.held(0));
    let Some(partition) = moved.least().or_else(|| cluster.held(0).least()) else {
        panic!("node 0 holds some")
    };
    let partitions: PartitionSet = [partition].into_iter().collect();
    let service: std::sync::Arc<str> = "s".into();
    let pin = PlacementAsk::Pin { service: service.clone(), partitions: partitions.clone() };
    assert_eq!(cluster.ask(2, pin).unwrap().services[0].pinned, partitions);
    assert_eq!(cluster.run_with_calls(15, &[0, 1]), []);
    assert!(cluster.held(2).contains(partition) && !cluster.held(0).contains(partition));
    let card = cluster.world.place(0).node().view().card(&cluster.world.place(2).id()).unwrap().clone();
    let expected = Placed { replicas: 1, pinned: partitions.clone(), refused: PartitionSet::new() };
    assert_eq!(card.services["s"].placed, Some(expected));
    cluster.ask(2, PlacementAsk::Release { service, partitions }).unwrap();
    assert_eq!(cluster.run_with_calls(15, &[0, 1]), []);
    assert!(cluster.held(0).contains(partition) && !cluster.held(2).contains(partition));
}

#[test]
fn requests_for_other_services_and_partitions_are_refused() {
    let mut cluster = Placed64::settled(2, 1);
    let pin = |service: &str, partition| PlacementAsk::Pin {
        service: service.into(),
        partitions: [partition].into_iter().collect(),
    };
    let refused = cluster.ask(0, pin("other", 1)).unwrap_err();
    assert!(refused.contains("\"other\"") && refused.contains("it does so for: s"), "{refused}");
    let refused = cluster.ask(0, pin("s", PARTITIONS)).unwrap_err();
    assert!(refused.contains("64 partitions"), "{refused}");
}

#[test]
fn replicas_are_in_different_zones() {
    let mut world = World::new(Setting::micro(3, PARTITIONS));
    for number in 0..6 {
        world.start(Spec { zone: ["a", "b"][number % 2].into(), ..spec(2) });
    }
    world.introduce_all();
    world.run_until(Instant::START + Duration::from_secs(20), &mut ());
    let view = world.place(0).node().view();
    for partition in 0..PARTITIONS {
        let zones: Vec<_> =
            view.providers("s", partition).iter().map(|node| view.card(node).unwrap().zone.clone()).collect();
        assert!(zones == ["a", "b"] || zones == ["b", "a"], "{partition}: {zones:?}");
    }
}
