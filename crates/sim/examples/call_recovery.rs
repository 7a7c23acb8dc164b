//! Measures the partitions that a call loses if inner nodes of its tree stop and wake, or die, during the
//! call.
//!
//! ```text
//! cargo run --profile lean -p treefold-sim --example call_recovery [NODES [SEEDS [FAN_OUT [MILLISECONDS]]]]
//! ```
//!
//! The program plays calls over NODES nodes with one partition each, on modelled links of a data centre.
//! MILLISECONDS is the deadline, 300 by default. In each call one inner node, drawn anew, has a fault at a
//! drawn moment. The program prints the number of calls that lost partitions of nodes without a fault, the
//! number of such partitions, the number of partials that overlapped others, and the messages per call.

#![allow(clippy::print_stdout, reason = "a program that prints its table")]

use std::collections::{BTreeMap, BTreeSet};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::effect::Effect;
use treefold_core::id::RequestId;
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::shape::Shape;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::place::{Spec, place_of};
use treefold_sim::world::{Setting, Watch, World};

/// The front-end's place.
const FRONT: usize = 0;
/// Locals and folds take this share of their time in the paper's experiments, so that no node is late without
/// a fault.
const WORK: f64 = 0.2;
/// Time after which the tree is on its way down and most of its inner nodes are known.
const TREE_IS_OUT: Duration = Duration::from_micros(800);

/// The faults of a call.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No fault.
    None,
    /// An inner node is killed.
    Killed,
    /// An inner node stops and wakes later.
    Stopped,
    /// An inner node stops, and its parent is killed after it has taken over.
    StoppedAndAdopterKilled,
    /// An inner node stops, and then its parent stops; both wake.
    StoppedTwice,
    /// Inner nodes stop and wake in turn, several at a time.
    StoppedInTurns,
    /// An inner node is asleep when the call asks it. It wakes after its parent has taken over, and asks its
    /// children then.
    AskedAsleep,
    /// An inner node and its parent are asleep when the call asks them.
    AskedAsleepWithParent,
    /// Half of all inner nodes are asleep when the call asks them.
    HalfAskedAsleep,
}

const FAULTS: [Fault; 9] = [
    Fault::None,
    Fault::Killed,
    Fault::Stopped,
    Fault::StoppedAndAdopterKilled,
    Fault::StoppedTwice,
    Fault::StoppedInTurns,
    Fault::AskedAsleep,
    Fault::AskedAsleepWithParent,
    Fault::HalfAskedAsleep,
];

#[derive(Default)]
struct Seen {
    /// For each node, the node that asked it first.
    parents: BTreeMap<usize, usize>,
    inner: BTreeSet<usize>,
    messages: u64,
    outcome: Option<Outcome<Ink>>,
}

impl Watch for Seen {
    fn effect(&mut self, _now: Instant, at: usize, effect: &Effect<Ink>) {
        let Effect::Send { to, message } = effect else { return };
        match message {
            Message::Call(call) => {
                let child = place_of(*to).0;
                self.parents.entry(child).or_insert(at);
                if call.tree.root().size > 1 && at != child {
                    self.inner.insert(child);
                }
                self.messages += 1;
            }
            Message::Partial(_) | Message::Cancel { .. } | Message::Offer { .. } | Message::Grant { .. } => {
                self.messages += 1;
            }
            _ => {}
        }
    }

    fn outcome(&mut self, _now: Instant, _at: usize, _request: RequestId, outcome: &Outcome<Ink>) {
        self.outcome = Some(outcome.clone());
    }
}

/// The size of a call's tree, and the call's deadline.
#[derive(Clone, Copy)]
struct Plan {
    nodes: u32,
    fan_out: u32,
    deadline: Duration,
}

/// The losses and messages of one call.
#[derive(Default)]
struct Cost {
    lost: usize,
    overlapping: u64,
    messages: u64,
}

/// A world in which a call has a fault.
struct Scene {
    world: World,
    seen: Seen,
    random: Random,
    /// The inner nodes of the call's tree.
    inner: Vec<usize>,
    /// The nodes that have had a fault.
    hurt: BTreeSet<usize>,
}

impl Scene {
    /// Starts a call. The nodes in `asleep` are asleep when the call asks them.
    fn call(plan: Plan, seed: u64, asleep: &[usize]) -> Self {
        let Plan { nodes, fan_out, deadline } = plan;
        let mut world = World::new(Setting::micro(seed, nodes));
        world.start(Spec::holding(PartitionSet::new()));
        for at in 0..nodes {
            world.start(Spec::holding(PartitionSet::from_range(at..at + 1)));
        }
        world.introduce_all();
        let mut seen = Seen::default();
        let options = CallOptions {
            deadline,
            min_coverage: 0.0,
            shape: Shape::KAry(fan_out),
            ..CallOptions::default()
        };
        asleep.iter().for_each(|&at| world.stop(at));
        world.call(FRONT, Ink::params(1, WORK), options, &mut seen);
        let mut scene = Self {
            world,
            seen,
            random: Random::new(seed),
            inner: Vec::new(),
            hurt: asleep.iter().copied().collect(),
        };
        scene.wait(TREE_IS_OUT);
        scene.inner = scene.seen.inner.iter().copied().collect();
        scene
    }

    fn wait(&mut self, time: Duration) {
        self.world.run_until(self.world.now() + time, &mut self.seen);
    }

    /// Waits for a drawn time below `millis` milliseconds.
    fn wait_up_to(&mut self, millis: usize) {
        let time = Duration::from_micros(self.random.below(millis * 1_000) as u64);
        self.wait(time);
    }

    fn draw_inner(&mut self) -> usize {
        self.inner[self.random.below(self.inner.len())]
    }

    fn kill(&mut self, at: usize) {
        self.hurt.insert(at);
        self.world.kill(at);
    }

    fn stop(&mut self, at: usize) {
        self.hurt.insert(at);
        self.world.stop(at);
    }

    fn resume(&mut self, at: usize) {
        self.world.resume(at, &mut self.seen);
    }

    fn strike(&mut self, fault: Fault) {
        if !self.hurt.is_empty() {
            return self.wake_all();
        }
        let victim = self.draw_inner();
        let parent = self.seen.parents.get(&victim).copied().filter(|&parent| parent != FRONT);
        self.wait_up_to(10);
        match fault {
            Fault::None => {}
            Fault::Killed => self.kill(victim),
            Fault::Stopped => {
                self.stop(victim);
                self.sleep();
                self.resume(victim);
            }
            Fault::StoppedAndAdopterKilled => {
                self.stop(victim);
                self.sleep();
                parent.into_iter().for_each(|parent| self.kill(parent));
                self.wait_up_to(50);
                self.resume(victim);
            }
            Fault::StoppedTwice => {
                self.stop(victim);
                self.wait_up_to(60);
                parent.into_iter().for_each(|parent| self.stop(parent));
                self.sleep();
                self.resume(victim);
                self.wait_up_to(30);
                parent.into_iter().for_each(|parent| self.resume(parent));
            }
            Fault::StoppedInTurns => self.stop_in_turns(),
            Fault::AskedAsleep | Fault::AskedAsleepWithParent | Fault::HalfAskedAsleep => {}
        }
    }

    /// Draws the inner nodes that are asleep when the call asks them, from a run of the same call without
    /// faults.
    fn sleepers(&mut self, fault: Fault) -> Vec<usize> {
        let victim = self.draw_inner();
        let parent = self.seen.parents.get(&victim).copied().filter(|&parent| parent != FRONT);
        match fault {
            Fault::AskedAsleep => vec![victim],
            Fault::AskedAsleepWithParent => parent.into_iter().chain([victim]).collect(),
            Fault::HalfAskedAsleep => {
                let half = self.inner.len().div_ceil(2);
                let mut asleep = BTreeSet::new();
                while asleep.len() < half {
                    asleep.insert(self.draw_inner());
                }
                asleep.into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Wakes the sleeping nodes one after the other, in a drawn order.
    fn wake_all(&mut self) {
        let mut asleep: Vec<usize> = self.hurt.iter().copied().collect();
        self.wait(Duration::from_millis(10));
        let apart_ms = 140 / asleep.len();
        while !asleep.is_empty() {
            self.wait_up_to(2 * apart_ms);
            let at = asleep.swap_remove(self.random.below(asleep.len()));
            self.resume(at);
        }
    }

    /// Waits for the time for which a stopped node stays stopped.
    fn sleep(&mut self) {
        self.wait(Duration::from_millis(10));
        self.wait_up_to(140);
    }

    fn stop_in_turns(&mut self) {
        let mut asleep: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..2 * self.inner.len() {
            let at = self.draw_inner();
            if asleep.remove(&at) {
                self.resume(at);
            } else {
                asleep.insert(at);
                self.stop(at);
            }
            self.wait_up_to(10);
        }
        asleep.into_iter().for_each(|at| self.resume(at));
    }

    fn cost(mut self, Plan { nodes, deadline, .. }: Plan) -> Cost {
        self.wait(deadline);
        let outcome = self.seen.outcome.as_ref().expect("the deadline has passed");
        // Partition 0 is at place 1.
        let excused: PartitionSet = self.hurt.iter().map(|&at| at as u32 - 1).collect();
        let lost = PartitionSet::first(nodes).difference(&outcome.contributed).difference(&excused).len();
        let now = self.world.now();
        let unhurt = (0..self.world.places()).filter(|at| !self.hurt.contains(at));
        let overlapping =
            unhurt.map(|at| self.world.place(at).node().status(now).counters.waves.partials_overlapping);
        Cost { lost, overlapping: overlapping.sum(), messages: self.seen.messages }
    }
}

fn play(plan: Plan, fault: Fault, seed: u64) -> Cost {
    let asleep = Scene::call(plan, seed, &[]).sleepers(fault);
    let mut scene = Scene::call(plan, seed, &asleep);
    scene.strike(fault);
    scene.cost(plan)
}

fn main() {
    let mut numbers =
        std::env::args().skip(1).map(|text| text.parse::<u32>().expect("each argument is a number"));
    let nodes = numbers.next().unwrap_or(64);
    let seeds = u64::from(numbers.next().unwrap_or(200));
    let fan_out = numbers.next().unwrap_or(4);
    let deadline_ms = numbers.next().unwrap_or(300);
    let plan = Plan { nodes, fan_out, deadline: Duration::from_millis(u64::from(deadline_ms)) };
    println!("{nodes} nodes, {fan_out} children each, {seeds} calls of {deadline_ms} ms for each fault");
    for fault in FAULTS {
        let costs: Vec<Cost> = (1..=seeds).map(|seed| play(plan, fault, seed)).collect();
        let calls = costs.iter().filter(|cost| cost.lost > 0).count();
        let lost: usize = costs.iter().map(|cost| cost.lost).sum();
        let overlapping: u64 = costs.iter().map(|cost| cost.overlapping).sum();
        let messages: u64 = costs.iter().map(|cost| cost.messages).sum();
        println!(
            "{:<24} {calls} calls lost {lost} partitions of nodes without a fault; {overlapping} partials overlapped; {:.1} messages per call",
            format!("{fault:?}"),
            messages as f64 / seeds as f64
        );
    }
}
