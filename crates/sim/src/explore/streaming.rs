//! The streams of a scenario: their front-ends, the behaviour of their endpoints, and the reading speed of
//! their users.

use super::scenario::Scenario;
use crate::world::streams::{Habit, Play, StreamPlan, Tags};
use serde::{Deserialize, Serialize};
use treefold_core::config::Placement;
use treefold_core::stream::{PACKET_BYTES, StreamOptions, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;

/// Packets that a window must hold besides those of the time-outs: the packet that is being filled, and the
/// one before it.
const PACKETS_BESIDE: u64 = 2;
/// The most packets that go down together in a stream without a lag limit.
pub(super) const RUN_PACKETS: u64 = 3;
/// Most levels from which packets still reach the front-end in do-not-wait mode if windows hold only a few packets.
const FAIR_LEVELS: u64 = 10;

/// A stream over the scenario's service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedStream {
    /// Time at which it is opened.
    pub at_us: u64,
    /// Place of the front-end, modulo the number of places.
    pub front: u32,
    /// The rule by which a wave is complete.
    pub mode: Mode,
    /// The tree's shape.
    pub shape: Shape,
    /// The endpoints; all if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<u32>>,
    /// Whether a filter folds waves on their way up.
    pub folds: bool,
    /// Whether a filter handles packets on their way down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filters_down: bool,
    /// Time of one run of the filter.
    pub filter_us: u64,
    /// The place where the filter runs.
    pub placement: Placement,
    /// Most bytes that a node or an endpoint may have in flight; the default limit if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_bytes: Option<u64>,
    /// The size of a packet.
    pub packet_bytes: u32,
    /// Time between two packets that an endpoint sends unasked. If `None`, endpoints answer the front-end's
    /// packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_us: Option<u64>,
    /// Whether endpoints tag the packets that they send unasked with the number of their time bucket.
    /// Otherwise they count them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_buckets: bool,
    /// Time that an endpoint takes for a packet that it gets.
    pub takes_for_us: u64,
    /// The limit for endpoints that lag; none if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<PlannedLag>,
    /// Time that the front-end's user takes for a wave.
    pub reads_for_us: u64,
    /// Times at which the front-end's user sends a packet down.
    pub sends_at_us: Vec<u64>,
    /// Time at which the user closes the stream; the end of the play if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at_us: Option<u64>,
}

/// A limit for endpoints that lag with packets down, and an endpoint that lags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedLag {
    /// Bytes by which an endpoint may lag.
    pub bytes_max: u64,
    /// The endpoint that takes one packet after the other.
    pub slow: u32,
    /// Time that it takes for each, until everything is healed.
    pub takes_for_us: u64,
    /// The number of packets that go down together.
    pub burst: u64,
}

/// The rule by which a stream's wave is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A wave is complete when it has a packet of every endpoint.
    WaitForAll,
    /// Like `WaitForAll`, or when this many µs have passed since its first packet.
    TimeOut(u64),
    /// A wave is complete at once.
    DoNotWait,
}

impl Mode {
    /// Tells whether packets of several endpoints make a wave.
    pub fn gathers(self) -> bool {
        self != Self::DoNotWait
    }
}

impl PlannedStream {
    /// Returns the plan for the world.
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
            lag_bytes_max: self.lag.map(|lag| lag.bytes_max),
            play: Play {
                habit: Habit {
                    answers: self.every_us.is_none(),
                    every: self.every_us.map(|us| Duration::from_micros(us.max(1))),
                    tags: if self.has_buckets { Tags::Buckets } else { Tags::Counted },
                    packets_max: u64::MAX,
                },
                packet_bytes: self.packet_bytes,
                takes_for: Duration::from_micros(self.takes_for_us),
                slow: self.lag.map(|lag| (lag.slow, Duration::from_micros(lag.takes_for_us))),
                reads_for: Some(Duration::from_micros(self.reads_for_us)),
                filter_work: Duration::from_micros(self.filter_us),
                filter_placement: self.placement,
            },
        }
    }

    /// Tells whether endpoints set the tags of their packets, so that the packets of each wave are known.
    pub fn names_tags(&self) -> bool {
        self.every_us.is_none() || self.has_buckets
    }

    /// Tells whether the window is too small for every unasked packet to reach the front-end.
    ///
    /// With time-outs, the window must hold the packets that endpoints send while a wave times out at every
    /// level. If it does not, endpoints wait for room and skip buckets. Two groups of endpoints that skip
    /// different buckets never meet in a wave: each wave waits in vain for the other group, and so both
    /// groups go on waiting for room.
    ///
    /// In do-not-wait mode, a node shares its window among the endpoints below. A child whose window holds two packets
    /// can use two thirds of its parent's at most, because it has to wait for settlements. So at the end of a long
    /// chain next to nothing is left, unless windows hold a packet of every endpoint.
    pub fn outgrows_window(&self, scenario: &Scenario) -> bool {
        let Some(window) = self.window_bytes else { return false };
        let packet_bytes = u64::from(self.packet_bytes) + PACKET_BYTES as u64;
        let of_everyone = packet_bytes * u64::from(scenario.partitions);
        match self.mode {
            Mode::TimeOut(_) => self.every_us.is_some_and(|every_us| {
                let waves = self.climbs_for_us(scenario) / every_us.max(1) + PACKETS_BESIDE;
                window < waves.saturating_mul(if self.folds { packet_bytes } else { of_everyone })
            }),
            Mode::DoNotWait => levels(self.shape, scenario.nodes) > FAIR_LEVELS && window < of_everyone,
            Mode::WaitForAll => false,
        }
    }

    /// Tells whether filters need longer for the packets that go down together, and for the answers, than a node waits for
    /// the nodes below it. Waves then time out before the answers from further down are there.
    pub fn outlasts_time_out(&self, scenario: &Scenario) -> bool {
        let Mode::TimeOut(wait_us) = self.mode else { return false };
        let together = self.lag.map_or(RUN_PACKETS, |lag| lag.burst.max(RUN_PACKETS));
        let step_us = wait_us / (levels(self.shape, scenario.nodes) + 1);
        self.every_us.is_none() && 2 * together * self.filter_us > step_us
    }

    /// Returns the time in µs in which a wave climbs if it times out at every level.
    pub fn climbs_for_us(&self, scenario: &Scenario) -> u64 {
        match self.mode {
            Mode::TimeOut(wait_us) => levels(self.shape, scenario.nodes).saturating_mul(wait_us),
            Mode::WaitForAll | Mode::DoNotWait => 0,
        }
    }

    /// Returns the time of the last planned event, in µs.
    pub(super) fn over_at_us(&self) -> u64 {
        let sent = self.sends_at_us.iter().copied().max().unwrap_or(0);
        sent.max(self.at_us).max(self.closed_at_us.unwrap_or(0))
    }
}

/// Returns the largest number of levels of a tree of `nodes` nodes.
pub(super) fn levels(shape: Shape, nodes: u32) -> u64 {
    match shape {
        Shape::Flat => 1,
        Shape::Chain => u64::from(nodes),
        _ => 1 + u64::from(nodes.max(1).ilog2()),
    }
}
