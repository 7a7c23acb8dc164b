//! The streams of a scenario: who opens them, what their endpoints do, and how fast their users read.

use super::scenario::Scenario;
use crate::world::streams::{Habit, Play, StreamPlan, Tags};
use serde::{Deserialize, Serialize};
use treefold_core::config::Placement;
use treefold_core::stream::{PACKET_BYTES, StreamOptions, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

/// Packets beside those of the time-outs that a window must hold: the one that is being filled and the one before it.
const PACKETS_BESIDE: u64 = 2;
/// Levels from which packets still climb in do-not-wait mode when windows are full.
const FAIR_LEVELS: u64 = 10;

/// A stream over the scenario's service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedStream {
    /// When it is opened.
    pub at_us: u64,
    /// The front-end, counted round over all places.
    pub front: u32,
    /// When a wave is complete.
    pub mode: Mode,
    /// The tree's shape.
    pub shape: Shape,
    /// The endpoints; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<u32>>,
    /// Whether a filter folds what goes up.
    pub folds: bool,
    /// Whether a filter sees what goes down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filters_down: bool,
    /// What one run of the filter takes.
    pub filter_us: u64,
    /// Where the filter runs.
    pub placement: Placement,
    /// Bytes that a node or an endpoint may have in flight; the limit if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// The size of a packet.
    pub packet_bytes: u32,
    /// How often each endpoint sends on its own; if `None`, endpoints answer what the front-end sends down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_us: Option<u64>,
    /// True when packets that endpoints send on their own bear the number of their time bucket as tag; they are counted
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_buckets: bool,
    /// How long an endpoint takes for a packet that it is given.
    pub takes_for_us: u64,
    /// How long the front-end's user takes for a wave.
    pub reads_for_us: u64,
    /// When the front-end's user sends a packet down.
    pub sends_at_us: Vec<u64>,
    /// When the user closes it; at the end of the play if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at_us: Option<u64>,
}

/// When a stream's wave is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// When everyone is in it.
    WaitForAll,
    /// The same, or so many µs after its first packet.
    TimeOut(u64),
    /// At once.
    DoNotWait,
}

impl Mode {
    /// True when packets of several endpoints make a wave.
    pub fn gathers(self) -> bool {
        self != Self::DoNotWait
    }
}

impl PlannedStream {
    /// What the world is asked for.
    pub fn plan(&self, scenario: &Scenario) -> StreamPlan {
        let synchronisation = match self.mode {
            Mode::WaitForAll => Synchronisation::WaitForAll,
            Mode::TimeOut(us) => Synchronisation::TimeOut(Duration::from_micros(us.max(1)).into()),
            Mode::DoNotWait => Synchronisation::DoNotWait,
        };
        let within =
            |chosen: &Vec<u32>| chosen.iter().copied().filter(|&e| e < scenario.partitions).collect();
        let name = |is_there: bool| if is_there { "sum".into() } else { "".into() };
        let options = StreamOptions {
            endpoints: self.endpoints.as_ref().map(within),
            shape: self.shape,
            trees: None,
            window_bytes: self.window_bytes,
        };
        StreamPlan {
            synchronisation,
            up_filter: name(self.folds),
            down_filter: name(self.filters_down),
            options,
            play: Play {
                habit: Habit {
                    answers: self.every_us.is_none(),
                    every: self.every_us.map(|us| Duration::from_micros(us.max(1))),
                    tags: if self.has_buckets { Tags::Buckets } else { Tags::Counted },
                    packets_max: u64::MAX,
                },
                packet_bytes: self.packet_bytes,
                takes_for: Duration::from_micros(self.takes_for_us),
                reads_for: Some(Duration::from_micros(self.reads_for_us)),
                filter_work: Duration::from_micros(self.filter_us),
                filter_placement: self.placement,
            },
        }
    }

    /// True when endpoints name the tags of what they send, so that it is known which packets make a wave.
    pub fn names_tags(&self) -> bool {
        self.every_us.is_none() || self.has_buckets
    }

    /// True when the window is too small for every endpoint that sends on its own to be heard.
    ///
    /// With time-outs, the window must hold the packets that endpoints send while a wave times out at every level. If it
    /// does not, endpoints wait for room and skip buckets. Two groups of endpoints that skip different buckets never meet in
    /// a wave: each wave waits in vain for the other group, and so both groups go on waiting for room.
    ///
    /// In do-not-wait mode, a node with a full window forwards as much from each of its own endpoints as from each child.
    /// Few packets then climb from far down a chain, unless the window holds a packet of every endpoint.
    pub fn outgrows_window(&self, scenario: &Scenario) -> bool {
        let (Some(every_us), Some(window)) = (self.every_us, self.window_bytes) else { return false };
        let packet_bytes = u64::from(self.packet_bytes) + PACKET_BYTES as u64;
        let of_everyone = packet_bytes * u64::from(scenario.partitions);
        match self.mode {
            Mode::TimeOut(_) => {
                let waves = self.climbs_for_us(scenario) / every_us.max(1) + PACKETS_BESIDE;
                window < waves.saturating_mul(if self.folds { packet_bytes } else { of_everyone })
            }
            Mode::DoNotWait => levels(self.shape, scenario.nodes) > FAIR_LEVELS && window < of_everyone,
            Mode::WaitForAll => false,
        }
    }

    /// How long a wave climbs that times out at every level, in µs.
    pub fn climbs_for_us(&self, scenario: &Scenario) -> u64 {
        match self.mode {
            Mode::TimeOut(wait_us) => levels(self.shape, scenario.nodes).saturating_mul(wait_us),
            Mode::WaitForAll | Mode::DoNotWait => 0,
        }
    }

    /// When the last of it has happened, in µs.
    pub(super) fn over_at_us(&self) -> u64 {
        let sent = self.sends_at_us.iter().copied().max().unwrap_or(0);
        sent.max(self.at_us).max(self.closed_at_us.unwrap_or(0))
    }
}

/// Levels of a tree of so many nodes, at most.
pub(super) fn levels(shape: Shape, nodes: u32) -> u64 {
    match shape {
        Shape::Flat => 1,
        Shape::Chain => u64::from(nodes),
        _ => 1 + u64::from(nodes.max(1).ilog2()),
    }
}
