//! Streams in the simulated world: filters, endpoints on nodes, and the users of front-ends.
//!
//! They correspond closely to `treefold/src/driver/streams.rs`. Each stream that is opened here has a
//! [`Play`], which defines the behaviour of its endpoints, its filters and its front-end's user. The index of
//! the play is sent as the stream's parameters, so that every node of the stream can find the play.
//!
//! ```text
//!   endpoint ──EndpointSend──▶ node ──Run──▶ filter ──Filtered──▶ node ──▶ parent … front-end ──Wave──▶ user
//! ▲ Packet, Settled                                                                          │ StreamTook
//!      └────────────────────────────── nodes ◀── packets down, settlement ◀── StreamSend ◀────────┘
//! ```
//!
//! The world asserts the guarantees that every driver may rely on: a filter learns of each source before it
//! gets a packet of it, an endpoint gets each packet once and in order, and no more bytes are settled than
//! were sent.
//!
//! - `filters`: the results of filters. `endpoints`: the packets that endpoints send and take. `fronts`:
//!   users that open streams, read, send down and close.

mod endpoints;
mod filters;
mod fronts;

pub use endpoints::{Seat, Sent};
pub use filters::operator;
pub use fronts::FrontEnd;

use super::World;
use super::ink::Ink;
use super::place::place_of;
use filters::Keeper;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use treefold_core::config::Placement;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::Input;
use treefold_core::right::Rights;
use treefold_core::stream::{OperatorId, StreamId, StreamOptions, StreamSpec, Synchronisation};
use treefold_core::time::Duration;

/// An endpoint at a node: the node's process, the stream, and the endpoint.
pub type SeatKey = (NodeId, StreamId, u32);

/// A stream that a front-end's user wants to open.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// The rule by which a wave is complete.
    pub synchronisation: Synchronisation,
    /// `sum` folds a wave's packets into one, and `votes` folds the votes of a feed's mirrors, too. `lag` folds as `sum`
    /// does, and gives each wave with the next. An empty name means no filter, and `op:` with an operator's id names an operator. Nodes know no other names.
    pub up_filter: Arc<str>,
    /// The filter for packets on their way down. `sum` and `lag` leave them unchanged.
    pub down_filter: Arc<str>,
    /// The options of the stream.
    pub options: StreamOptions,
    /// Bytes by which an endpoint may lag with packets down.
    pub lag_bytes_max: Option<u64>,
    /// The behaviour of its parts.
    pub play: Play,
}

/// The behaviour of a stream's parts.
#[derive(Clone, Debug)]
pub struct Play {
    /// The behaviour of its endpoints.
    pub habit: Habit,
    /// The size of an endpoint's packet, and of a filter's result.
    pub packet_bytes: u32,
    /// Time that an endpoint takes for each packet that it gets.
    pub takes_for: Duration,
    /// An endpoint that takes one packet after the other, each for this time.
    pub slow: Option<(u32, Duration)>,
    /// Time that the front-end's user takes for each wave; `None` if it does not read.
    pub reads_for: Option<Duration>,
    /// Processor time of a filter's run.
    pub filter_work: Duration,
    /// The place where filters run.
    pub filter_placement: Placement,
}

/// The behaviour of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habit {
    /// Whether it answers each packet from the front-end, with the packet's tag.
    pub answers: bool,
    /// Time between two packets that it sends unasked; `None` for never.
    pub every: Option<Duration>,
    /// The rule for the tags of these packets.
    pub tags: Tags,
    /// Most packets that it sends unasked.
    pub packets_max: u64,
}

/// The rule for the tags of packets that an endpoint sends unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// The endpoint's node counts them.
    Counted,
    /// The tag is the number of the time bucket. A bucket is as long as the endpoint's period.
    Buckets,
}

/// The state of the world's streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    plays: Vec<Play>,
    /// Plays whose endpoints no longer send unasked.
    quiet: BTreeSet<usize>,
    filters: BTreeMap<(usize, StreamId), Keeper>,
    seats: BTreeMap<SeatKey, Seat>,
    /// Number of packets that each endpoint has sent, in all its lives and places.
    packets: BTreeMap<(StreamId, u32), u64>,
    fronts: BTreeMap<(NodeId, RequestId), FrontEnd>,
    /// Runs that hang until they are let go, with their results.
    hanging: Vec<(NodeId, Input<Ink>)>,
    operators: BTreeMap<(usize, OperatorId), Ink>,
    operators_kept: Vec<usize>,
    /// Number of upward filter runs, for sabotage.
    runs: u64,
}

impl Streams {
    fn play_of(&self, params: &Ink) -> usize {
        usize::try_from(params.call).unwrap_or(usize::MAX).min(self.plays.len().saturating_sub(1))
    }
}

impl World {
    /// Returns the spec of a stream whose parts behave as in `plan`.
    pub fn stream_spec(&mut self, plan: &StreamPlan) -> StreamSpec<Ink> {
        let params = Ink { bytes: 0, ..Ink::params(self.streams.plays.len() as u64, 1.0) };
        self.streams.plays.push(plan.play.clone());
        StreamSpec {
            service: "s".into(),
            up_filter: Arc::clone(&plan.up_filter),
            down_filter: Arc::clone(&plan.down_filter),
            filter_params: params.clone(),
            synchronisation: plan.synchronisation,
            params,
            lag_bytes_max: plan.lag_bytes_max,
            opener: Rights::ALL,
        }
    }

    /// Returns the behaviour of a stream's parts, by its parameters.
    pub fn play(&self, params: &Ink) -> &Play {
        &self.streams.plays[self.streams.play_of(params)]
    }

    /// Returns the number of planned streams, which is also the index of the next one's play.
    pub fn plays(&self) -> usize {
        self.streams.plays.len()
    }

    /// Returns the size of the packets of the play `number`.
    pub fn packet_bytes(&self, number: usize) -> u32 {
        self.streams.plays.get(number).map_or(0, |play| play.packet_bytes)
    }

    /// Stops the unasked packets of endpoints of the play `number`.
    pub fn quiet_down(&mut self, number: usize) {
        self.streams.quiet.insert(number);
    }

    /// Lets the slow endpoint of the play `number` take packets as the others do.
    pub fn hurry_up(&mut self, number: usize) {
        if let Some(play) = self.streams.plays.get_mut(number) {
            play.slow = None;
        }
    }

    /// Returns how long slow endpoints still need for the packets that they have been given.
    pub fn packets_in_hand(&self) -> Duration {
        let until =
            self.streams.seats.values().filter(|seat| !seat.is_over).map(|seat| seat.busy_until).max();
        until.map_or(Duration::ZERO, |until| self.now.until(until))
    }

    /// Removes the filters and users of the process at `at`, because it is gone.
    pub(super) fn lose_streams_at(&mut self, at: usize) {
        let id = self.places[at].id;
        self.streams.filters.retain(|(place, _), _| *place != at);
        self.streams.hanging.retain(|(node, _)| *node != id);
        self.streams.operators.retain(|(place, _), _| *place != at);
        self.streams.fronts.retain(|(node, _), _| *node != id);
        self.lose_feed_at(at);
    }

    /// Tells whether the process with this id is still at its place.
    pub fn is_there(&self, node: NodeId) -> bool {
        let (at, lives) = place_of(node);
        self.places.get(at).is_some_and(|place| {
            place.lives == lives && place.id == node && place.life != super::place::Life::Gone
        })
    }
}
