//! Measures what it costs that many nodes join a cluster at about the same time.
//!
//! ```text
//! cargo run --profile lean -p treefold-sim --example joins [NODES,… [SEEDS [MILLISECONDS [BUSY_MILLISECONDS]]]]
//! ```
//!
//! One node runs. The others start at drawn moments within MILLISECONDS (1,000 by default). Each takes the members that the
//! first node knows at that moment, as a node does that asks its seed, and joins. With BUSY_MILLISECONDS, every datagram takes
//! up to so much longer, as between processes that wait for a processor. The program prints for each number of nodes, as
//! medians over the seeds:
//!
//! - when all nodes knew all others, with their cards, and when the first node did, counted from the last start;
//! - the datagrams, their bytes and the connections, per node, until then and for as long as it takes, and how many of the
//!   bytes arrive at the busiest node;
//! - the nodes that were held for dead although they were not.
//!
//! A last line gives the law by which the bytes grow: the exponent of NODES between the smallest and the largest run.

#![allow(clippy::print_stdout, reason = "a program that prints its table")]

use std::collections::BTreeSet;
use treefold_core::effect::{Effect, Event};
use treefold_core::input::{Command, Input};
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::random::Random;
use treefold_core::time::{Duration, Instant};
use treefold_sim::world::ink::Ink;
use treefold_sim::world::network::{Links, message_bytes};
use treefold_sim::world::place::{Spec, place_of};
use treefold_sim::world::{Setting, Watch, World};

/// The place of the node that all others join.
const SEED: usize = 0;
/// How long nodes may take to know each other.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the views are compared.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The exponent is computed from runs of at least this many nodes; smaller ones mostly show constants.
const GROWTH_FROM: u32 = 64;

/// The traffic of a run.
#[derive(Default)]
struct Traffic {
    datagrams: u64,
    datagram_bytes: u64,
    /// Bytes that arrive at each node by datagrams.
    received: Vec<u64>,
    message_bytes: u64,
    connections: BTreeSet<(usize, usize)>,
    falsely_lost: u64,
}

impl Watch for Traffic {
    fn input(&mut self, _now: Instant, at: usize, input: &Input<Ink>) {
        if let Input::Datagram { bytes, .. } = input {
            if self.received.len() <= at {
                self.received.resize(at + 1, 0);
            }
            self.received[at] += bytes.len() as u64;
        }
    }

    fn effect(&mut self, _now: Instant, at: usize, effect: &Effect<Ink>) {
        match effect {
            Effect::Datagram { bytes, .. } => {
                self.datagrams += 1;
                self.datagram_bytes += bytes.len() as u64;
            }
            Effect::Send { to, message } => {
                self.message_bytes += message_bytes(message) as u64;
                let to = place_of(*to).0;
                self.connections.insert((at.min(to), at.max(to)));
            }
            Effect::Deliver(Event::MemberDown(_)) => self.falsely_lost += 1,
            _ => {}
        }
    }
}

/// The cost of a join of all nodes.
struct Cost {
    /// From the last start until the first node knew all; and until all nodes did. `None` if that takes too long.
    seed_knew_ms: Option<f64>,
    all_knew_ms: Option<f64>,
    datagrams_each: f64,
    kib_each: f64,
    kib_busiest: f64,
    cards_kib_each: f64,
    connections_each: f64,
    falsely_lost: f64,
}

/// A world in which nodes join.
struct Scene {
    world: World,
    traffic: Traffic,
    nodes: u32,
}

impl Scene {
    fn new(plan: Plan, seed: u64) -> Self {
        let jitter = Duration::from_millis(plan.busy_ms.into());
        let links = Links { jitter, ..Links::DAC };
        let setting = Setting { links, ..Setting::micro(seed, plan.nodes) };
        let mut scene = Self { world: World::new(setting), traffic: Traffic::default(), nodes: plan.nodes };
        scene.world.start(Spec::holding(PartitionSet::from_range(0..1)));
        let mut random = Random::new(seed);
        let within_us = plan.within_ms as usize * 1_000;
        let mut starts: Vec<u64> = (1..plan.nodes).map(|_| random.below(within_us) as u64).collect();
        starts.sort_unstable();
        for (at, start_us) in (1..).zip(starts) {
            scene.world.run_until(Instant::START + Duration::from_micros(start_us), &mut scene.traffic);
            scene.join(at);
        }
        scene
    }

    /// Starts a node that has asked its seed.
    fn join(&mut self, at: u32) {
        let at = self.world.start(Spec::holding(PartitionSet::from_range(at..at + 1)));
        let seed = self.world.place(SEED).id();
        let view = self.world.place(SEED).node().view();
        let cards: Vec<_> =
            [seed].iter().chain(view.alive()).filter_map(|node| view.card(node).cloned()).collect();
        self.world.feed(at, Input::Command(Command::Join(vec![seed.addr])), &mut self.traffic);
        let message = Message::Cards(cards.into());
        self.traffic.message_bytes += message_bytes(&message) as u64;
        self.world.feed(at, Input::Message { from: seed, message }, &mut self.traffic);
    }

    fn knows_all(&self, at: usize) -> bool {
        let view = self.world.place(at).node().view();
        view.alive_count() == self.nodes as usize && view.missing_cards().len() == 0
    }

    fn cost(mut self) -> Cost {
        let (began_at, mut seed_knew_ms, mut all_knew_ms) = (self.world.now(), None, None);
        let since = |now: Instant| began_at.until(now).as_millis_f64();
        let mut unsure: Vec<usize> = (0..self.nodes as usize).collect();
        while all_knew_ms.is_none() && began_at.until(self.world.now()) < PATIENCE {
            self.world.run_until(self.world.now() + LOOK_EVERY, &mut self.traffic);
            unsure.retain(|&at| !self.knows_all(at));
            if unsure.is_empty() {
                // A node may have lost a member meanwhile.
                unsure = (0..self.nodes as usize).filter(|&at| !self.knows_all(at)).collect();
            }
            if seed_knew_ms.is_none() && !unsure.contains(&SEED) {
                seed_knew_ms = Some(since(self.world.now()));
            }
            if unsure.is_empty() {
                all_knew_ms = Some(since(self.world.now()));
            }
        }
        let nodes = f64::from(self.nodes);
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        Cost {
            seed_knew_ms,
            all_knew_ms,
            datagrams_each: self.traffic.datagrams as f64 / nodes,
            kib_each: kib(self.traffic.datagram_bytes) / nodes,
            kib_busiest: kib(self.traffic.received.iter().copied().max().unwrap_or(0)),
            cards_kib_each: kib(self.traffic.message_bytes) / nodes,
            connections_each: self.traffic.connections.len() as f64 / nodes,
            falsely_lost: self.traffic.falsely_lost as f64,
        }
    }
}

/// The parameters of a run.
#[derive(Clone, Copy)]
struct Plan {
    nodes: u32,
    within_ms: u32,
    busy_ms: u32,
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> Option<f64>) -> Option<f64> {
    let mut all: Vec<f64> = costs.iter().filter_map(of).collect();
    all.sort_by(f64::total_cmp);
    (all.len() == costs.len()).then(|| all[all.len() / 2])
}

fn main() {
    let mut texts = std::env::args().skip(1);
    let number =
        |text: &str| text.parse::<u32>().expect("each argument is a number, the first a list of them");
    let sizes = texts.next().unwrap_or_else(|| "64,256,512".to_owned());
    let sizes: Vec<u32> = sizes.split(',').map(number).collect();
    let mut numbers = texts.map(|text| number(&text));
    let seeds = u64::from(numbers.next().unwrap_or(10));
    let within_ms = numbers.next().unwrap_or(1_000).max(1);
    let busy_ms = numbers.next().unwrap_or(0);
    println!(
        "nodes join within {within_ms} ms, datagrams take up to {busy_ms} ms longer, medians of {seeds} seeds"
    );
    println!(
        "{:>6} {:>12} {:>12} {:>15} {:>9} {:>12} {:>14} {:>17} {:>12}",
        "nodes",
        "first knew",
        "all knew",
        "datagrams each",
        "KiB each",
        "KiB busiest",
        "KiB of cards",
        "connections each",
        "falsely lost"
    );
    let mut grown: Vec<(f64, f64)> = Vec::new();
    for nodes in sizes {
        let plan = Plan { nodes, within_ms, busy_ms };
        let costs: Vec<Cost> = (1..=seeds).map(|seed| Scene::new(plan, seed).cost()).collect();
        let ms = |of: fn(&Cost) -> Option<f64>| {
            median(&costs, of).map_or("never".to_owned(), |ms| format!("{ms:.0} ms"))
        };
        let figure = |of: fn(&Cost) -> f64| median(&costs, |cost| Some(of(cost))).unwrap_or(0.0);
        println!(
            "{nodes:>6} {:>12} {:>12} {:>15.0} {:>9.0} {:>12.0} {:>14.0} {:>17.1} {:>12.0}",
            ms(|cost| cost.seed_knew_ms),
            ms(|cost| cost.all_knew_ms),
            figure(|cost| cost.datagrams_each),
            figure(|cost| cost.kib_each),
            figure(|cost| cost.kib_busiest),
            figure(|cost| cost.cards_kib_each),
            figure(|cost| cost.connections_each),
            figure(|cost| cost.falsely_lost),
        );
        if nodes >= GROWTH_FROM {
            grown.push((f64::from(nodes), figure(|cost| cost.kib_each)));
        }
    }
    if let [(few, little), .., (many, much)] = grown[..] {
        let exponent = (much / little).ln() / (many / few).ln();
        println!("bytes of datagrams per node grow as nodes^{exponent:.2}");
    }
}
