//! Measures how long a stream takes to hear all live endpoints again after inner nodes are lost, and the
//! messages that this takes.
//!
//! ```text
//! cargo run --profile lean -p treefold-sim --example stream_recovery [NODES [SEEDS [FAN_OUT]]]
//! ```
//!
//! For each fault and each mode, the program plays a stream over NODES nodes with one endpoint each, on
//! modelled links of a data centre. The front-end's membership is given and does not come from gossip. The
//! program prints medians over the seeds, each with the least and the greatest value: the milliseconds from
//! the fault until a packet of every live endpoint has reached the front-end again, and the messages about
//! places (all messages except packets, settlements, acknowledgements and beats), in all and to the
//! front-end.

#![allow(clippy::print_stdout, reason = "a program that prints its table")]

use std::collections::BTreeSet;
use treefold_core::config::{Placement, Tuning};
use treefold_core::effect::{Effect, Event};
use treefold_core::id::NodeId;
use treefold_core::membership::config::MembershipConfig;
use treefold_core::message::Message;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::message::StreamMessage;
use treefold_core::stream::{StreamEvent, StreamOptions, Synchronisation};
use treefold_core::time::{Duration, Instant};
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_sim::world::place::{Spec, place_of};
use treefold_sim::world::streams::{Habit, Play, StreamPlan, Tags};
use treefold_sim::world::{Setting, Watch, World};

/// The front-end's place.
const FRONT: usize = 0;
/// Time between an endpoint's packets: first if there are many endpoints, then if there are few.
const EVERY: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(10)];
/// Most nodes that count as few.
const FEW: u32 = 1_000;
/// Time for which the stream runs before the fault.
const CALM: Duration = Duration::from_secs(1);
/// Time after which a run gives up waiting for endpoints.
const PATIENCE: Duration = Duration::from_secs(10);

/// The faults of inner nodes.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// One node is killed. Its connections break.
    Killed,
    /// One node stops. It sends nothing more, and its connections stay open.
    Stopped,
    /// One node is killed, and also one of its children that has children.
    KilledTwice,
}

/// The events that the front-end's user has got, and the messages of all nodes since the fault.
#[derive(Default)]
struct Seen {
    trees: Vec<Tree>,
    since: Option<Instant>,
    came: PartitionSet,
    wanted: PartitionSet,
    all_came_at: Option<Instant>,
    said: u64,
    said_to_front: u64,
}

impl Watch for Seen {
    fn effect(&mut self, now: Instant, _at: usize, effect: &Effect<treefold_sim::world::ink::Ink>) {
        match effect {
            Effect::Deliver(Event::Stream { event, .. }) => match &**event {
                StreamEvent::Opened { trees, .. } => self.trees.clone_from(trees),
                StreamEvent::Wave(wave) if self.since.is_some() => {
                    self.came.union_with(&wave.contributors);
                    if self.all_came_at.is_none() && self.wanted.is_subset(&self.came) {
                        self.all_came_at = Some(now);
                    }
                }
                _ => {}
            },
            Effect::Send { to, message: Message::Stream(message) } if self.since.is_some() => {
                let is_flow = matches!(
                    **message,
                    StreamMessage::Up(_)
                        | StreamMessage::Down(_)
                        | StreamMessage::Settled(_)
                        | StreamMessage::Taken { .. }
                        | StreamMessage::Beat { .. }
                );
                if !is_flow && self.all_came_at.is_none() {
                    self.said += 1;
                    self.said_to_front += u64::from(place_of(*to).0 == FRONT);
                }
            }
            _ => {}
        }
    }
}

/// Chooses the lost nodes: an inner node with children, and for [`Fault::KilledTwice`] also a child that has
/// children.
fn victims(trees: &[Tree], fault: Fault, seed: u64) -> Vec<NodeId> {
    let inner = |tree: &Tree| tree.root().size > 1;
    let tops: Vec<&Tree> = trees.iter().filter(|tree| inner(tree)).collect();
    let top = tops[seed as usize % tops.len()];
    let below = top.children().find(inner);
    match (fault, below) {
        (Fault::KilledTwice, Some(below)) => vec![top.root().node, below.root().node],
        _ => vec![top.root().node],
    }
}

/// Returns the milliseconds until all live endpoints were heard, the messages, and the messages to the
/// front-end.
fn play(nodes: u32, fan_out: u32, synchronisation: Synchronisation, fault: Fault, seed: u64) -> [f64; 3] {
    let mut world = World::new(Setting::micro(seed, nodes));
    let tuning = Tuning { membership: MembershipConfig::still(), ..Tuning::LAN };
    let spec = |partitions| Spec { tuning: tuning.clone(), ..Spec::holding(partitions) };
    world.start(spec(PartitionSet::new()));
    for at in 0..nodes {
        world.start(spec(PartitionSet::from_range(at..at + 1)));
    }
    world.introduce_fronts(&[FRONT]);
    let plan = StreamPlan {
        synchronisation,
        up_filter: "sum".into(),
        down_filter: "".into(),
        options: StreamOptions { shape: Shape::KAry(fan_out), ..StreamOptions::default() },
        lag_bytes_max: None,
        play: Play {
            habit: Habit {
                answers: false,
                every: Some(EVERY[usize::from(nodes <= FEW)]),
                tags: Tags::Counted,
                packets_max: u64::MAX,
            },
            packet_bytes: 100,
            takes_for: Duration::ZERO,
            slow: None,
            reads_for: Some(Duration::ZERO),
            filter_work: Duration::from_micros(5),
            filter_placement: Placement::Inline,
        },
    };
    let mut seen = Seen::default();
    world.run_until(world.now() + Duration::from_millis(1), &mut seen);
    world.open_stream(FRONT, &plan, &mut seen);
    world.run_until(world.now() + CALM + Duration::from_micros(seed * 7_919 % 100_000), &mut seen);
    let lost: BTreeSet<usize> =
        victims(&seen.trees, fault, seed).into_iter().map(|node| place_of(node).0).collect();
    seen.wanted = (0..nodes).filter(|&endpoint| !lost.contains(&(endpoint as usize + 1))).collect();
    let began = world.now();
    seen.since = Some(began);
    for &at in &lost {
        if matches!(fault, Fault::Stopped) { world.stop(at) } else { world.kill(at) }
    }
    while seen.all_came_at.is_none() && began.until(world.now()) < PATIENCE {
        world.run_until(world.now() + Duration::from_millis(5), &mut seen);
    }
    let ms = seen.all_came_at.map_or(f64::INFINITY, |at| began.until(at).as_millis_f64());
    [ms, seen.said as f64, seen.said_to_front as f64]
}

fn main() {
    let mut numbers =
        std::env::args().skip(1).map(|text| text.parse::<u32>().expect("each argument is a number"));
    let nodes = numbers.next().unwrap_or(256);
    let seeds = numbers.next().unwrap_or(10);
    let fan_out = numbers.next().unwrap_or(16);
    println!("{nodes} nodes, {fan_out} children each, {seeds} seeds: median (least to greatest)");
    let modes = [("wait-for-all", Synchronisation::WaitForAll), ("do-not-wait", Synchronisation::DoNotWait)];
    for (mode, synchronisation) in modes {
        for fault in [Fault::Killed, Fault::Stopped, Fault::KilledTwice] {
            let runs: Vec<[f64; 3]> = (1..=u64::from(seeds))
                .map(|seed| play(nodes, fan_out, synchronisation, fault, seed))
                .collect();
            let column = |at: usize| {
                let mut values: Vec<f64> = runs.iter().map(|run| run[at]).collect();
                values.sort_by(f64::total_cmp);
                format!(
                    "{:.1} ({:.1} to {:.1})",
                    values[values.len() / 2],
                    values[0],
                    values[values.len() - 1]
                )
            };
            let fault = format!("{fault:?}");
            println!(
                "{mode:<13} {fault:<12} {} ms, {} messages, {} to the front-end",
                column(0),
                column(1),
                column(2)
            );
        }
    }
}
