//! A simulated tree of nodes with different clocks and random delays for each message.
//!
//! Simulated time is the true time; a node's clock is the true time plus its offset. A hop takes a fixed
//! least time and a random tail. The tail is longer on the way up than on the way down, which is what makes
//! comparing clocks hard.

use bytes::Bytes;
use treefold_operators::Body;
use treefold_operators::filter::clock_skew::{ClockSkew, ClockSkews, Skew};
use treefold_operators::filter::{Descent, Filter, FilterKind, Piece, Source, Wave};

/// Least time of a hop, in either direction.
const HOP_NS: f64 = 50_000.0;

/// Mean of the random tail of a hop, down and up.
const TAILS_NS: [f64; 2] = [20_000.0, 60_000.0];

/// Offsets are drawn from minus to plus this value.
const OFFSET_NS_MAX: f64 = 2e9;

/// Start of the simulated time, large enough that clocks that are behind stay above zero.
const BEGIN_NS: u64 = 1 << 40;

/// A reproducible random generator. A linear congruential generator is good enough to draw delays.
pub(crate) struct Chance(u64);

impl Chance {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws the delay of one message over one hop; `way` is 0 for down and 1 for up.
    fn delay_ns(&mut self, way: usize) -> u64 {
        (HOP_NS - TAILS_NS[way] * (1.0 - self.unit()).ln()) as u64
    }
}

struct Node {
    offset_ns: i64,
    filter: Box<dyn Filter>,
    children: Vec<usize>,
    parent: Option<usize>,
}

/// A tree with one endpoint on every leaf; node 0 is the front-end's node.
pub(crate) struct Network {
    nodes: Vec<Node>,
    chance: Chance,
    now_ns: u64,
}

impl Network {
    /// Creates a tree with all leaves `levels` below the root, and `fan_out` children per node.
    pub(crate) fn new(levels: u32, fan_out: usize, seed: u64) -> Self {
        let mut network = Self { nodes: Vec::new(), chance: Chance(seed), now_ns: BEGIN_NS };
        network.grow(None, levels, fan_out);
        network
    }

    fn grow(&mut self, parent: Option<usize>, levels: u32, fan_out: usize) -> usize {
        let number = self.nodes.len();
        let offset_ns = ((self.chance.unit() * 2.0 - 1.0) * OFFSET_NS_MAX) as i64;
        let filter = ClockSkew.open(&Bytes::new()).expect("the default parameters are valid");
        self.nodes.push(Node { offset_ns, filter, children: Vec::new(), parent });
        for _ in 0..if levels == 0 { 0 } else { fan_out } {
            let child = self.grow(Some(number), levels - 1, fan_out);
            self.nodes[number].children.push(child);
        }
        number
    }

    /// Returns the nodes that have an endpoint. An endpoint has its node's number.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = u32> {
        (0u32..).zip(&self.nodes).filter(|(_, node)| node.children.is_empty()).map(|(number, _)| number)
    }

    /// Returns how far an endpoint's clock is really ahead of the front-end's.
    pub(crate) fn true_skew_ns(&self, endpoint: u32) -> i64 {
        self.nodes[endpoint as usize].offset_ns - self.nodes[0].offset_ns
    }

    fn clock(&self, node: usize, at_ns: u64) -> u64 {
        at_ns.checked_add_signed(self.nodes[node].offset_ns).expect("invariant: time begins far from zero")
    }

    /// Runs one round through the filters and returns the skews that the front-end gets.
    pub(crate) fn round(&mut self) -> Vec<Skew> {
        let begin_ns = self.now_ns;
        self.now_ns += 1_000_000_000;
        let packets = self.descend(0, begin_ns, &Bytes::new());
        let skews = packets
            .iter()
            .map(|(_, packet)| ClockSkews::decode(packet).expect("the packet must contain skews").skews);
        skews.flatten().collect()
    }

    /// Returns the packets that `node` sends up in answer to `payload`, each with its time.
    fn descend(&mut self, node: usize, at_ns: u64, payload: &Bytes) -> Vec<(u64, Bytes)> {
        let (now_ns, mut probes) = (self.clock(node, at_ns), Vec::new());
        let descent = Descent { tag: 0, payload, now_ns };
        self.nodes[node].filter.down(descent, &mut probes).expect("a probe must be accepted");
        let mut arrivals = Vec::new();
        let children = self.nodes[node].children.clone();
        if children.is_empty() {
            arrivals.push((at_ns + 1_000, Source::Endpoint(node as u32), probes[0].clone()));
        }
        for child in children {
            let down_ns = self.chance.delay_ns(0);
            for (sent_ns, reply) in self.descend(child, at_ns + down_ns, &probes[0]) {
                arrivals.push((sent_ns + self.chance.delay_ns(1), Source::Child(child as u32), reply));
            }
        }
        arrivals.sort_by_key(|(at_ns, ..)| *at_ns);
        let mut sent = Vec::new();
        for (at_ns, source, payload) in arrivals {
            let (now_ns, mut out) = (self.clock(node, at_ns), Vec::new());
            let wave = Wave { tag: 0, pieces: &[Piece { source, payload }], now_ns };
            self.nodes[node].filter.up(wave, &mut out).expect("a reply must be accepted");
            sent.extend(out.into_iter().map(|packet| (at_ns, packet)));
        }
        sent
    }

    /// Returns the skew and round-trip delay that the front-end measures if it asks `endpoint` directly, over
    /// the same hops.
    pub(crate) fn direct(&mut self, endpoint: u32) -> (i64, u64) {
        let (mut hops, mut node) = (0, endpoint as usize);
        while let Some(parent) = self.nodes[node].parent {
            (hops, node) = (hops + 1, parent);
        }
        let [down_ns, up_ns] = [0, 1].map(|way| (0..hops).map(|_| self.chance.delay_ns(way)).sum::<u64>());
        let off_ns = (down_ns as i64 - up_ns as i64) / 2;
        (self.true_skew_ns(endpoint) + off_ns, down_ns + up_ns)
    }
}
