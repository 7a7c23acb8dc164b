//! What a call loses when inner nodes of its tree stop and wake again, or die, while it is under way.
//!
//! ```text
//! cargo run --profile lean -p treefold-sim --example call_recovery [NODES [SEEDS [FAN_OUT [MILLISECONDS]]]]
//! ```
//!
//! plays calls over that many nodes with a partition each, on modelled links of a data centre. The last argument is the
//! deadline, 300 by default. In each call one inner node, drawn anew, meets a fault at a drawn moment. The program prints how
//! many calls lost partitions of nodes that no fault had struck, how many such partitions there were, how many partials
//! overlapped others, and the messages of a call.

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
/// Locals and folds take this share of what they take in the experiments of the paper, so that none is late by itself.
const WORK: f64 = 0.2;
/// By then the tree is on its way down, and most of its inner nodes are known.
const TREE_IS_OUT: Duration = Duration::from_micros(800);

/// What happens in a call.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing.
    None,
    /// An inner node is killed.
    Killed,
    /// An inner node stops for a while.
    Stopped,
    /// An inner node stops, and its parent is killed after it has taken over.
    StoppedAndAdopterKilled,
    /// An inner node stops, and so does its parent; both wake.
    StoppedTwice,
    /// One inner node after another stops and wakes, several at a time.
    StoppedInTurns,
    /// An inner node is asleep when it is asked. It wakes after its parent has taken over, and asks its children then.
    AskedAsleep,
    /// The same, and its parent is asleep too.
    AskedAsleepWithParent,
    /// The same of half of all inner nodes.
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
    /// Who was asked by whom, first.
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

/// The size of a call's tree, and its deadline.
#[derive(Clone, Copy)]
struct Plan {
    nodes: u32,
    fan_out: u32,
    deadline: Duration,
}

/// What one call cost.
#[derive(Default)]
struct Cost {
    lost: usize,
    overlapping: u64,
    messages: u64,
}

/// A world in which a call goes wrong.
struct Scene {
    world: World,
    seen: Seen,
    random: Random,
    /// The inner nodes of the call's tree.
    inner: Vec<usize>,
    /// To whom something has happened.
    hurt: BTreeSet<usize>,
}

impl Scene {
    /// A call that has just set out. These are asleep when they are asked.
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

    /// Waits for a drawn time below so many milliseconds.
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

    /// Whom a call finds asleep, of the inner nodes of the same call among the wakeful.
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

    /// Those that are asleep wake one after the other, in a drawn order.
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

    /// As long as someone who has been stopped stays so.
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
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
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
            "{:<24} {calls} calls lost {lost} partitions of others; {overlapping} partials overlapped; {:.1} messages a call",
            format!("{fault:?}"),
            messages as f64 / seeds as f64
        );
    }
}
