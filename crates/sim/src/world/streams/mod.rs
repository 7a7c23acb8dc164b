//! Streams in the simulated world: filters, endpoints that live on nodes, and the users of front-ends.
//!
//! The near mirror of `treefold/src/driver/streams.rs`. Each stream that is opened here has a [`Play`], which says what
//! its endpoints, its filters and its front-end's user do. The number of the play travels as the stream's parameters, so
//! that every node that hears of the stream knows its part.
//!
//! ```text
//!   endpoint ──EndpointSend──▶ node ──Run──▶ filter ──Filtered──▶ node ──▶ parent … front-end ──Wave──▶ user
//!      ▲ Packet, Settled                                                                          │ StreamTook
//!      └────────────────────────────── nodes ◀── packets down, settlement ◀── StreamSend ◀────────┘
//! ```
//!
//! The world asserts what every driver may rely on: a filter hears of each source before it gets something of it, an
//! endpoint is given each packet once and in order, and no more is settled than was sent.
//!
//! - `filters`: what filters do with packets. `endpoints`: what endpoints send and take. `fronts`: users that open, read,
//!   send down and close.

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
use treefold_core::stream::{OperatorId, StreamId, StreamOptions, StreamSpec, Synchronisation};
use treefold_core::time::Duration;

/// A process of a node, a stream that it knows, and an endpoint that lives there.
pub type SeatKey = (NodeId, StreamId, u32);

/// A stream as its front-end's user asks for it.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// When a wave is complete.
    pub synchronisation: Synchronisation,
    /// `sum` folds a wave's packets into one, `lag` does the same and gives each wave with the next; empty for none. Any
    /// other name is unknown to every node, but for `op:` and an operator's name.
    pub up_filter: Arc<str>,
    /// The same for packets on their way down, which `sum` and `lag` leave as they are.
    pub down_filter: Arc<str>,
    /// How it is laid out.
    pub options: StreamOptions,
    /// What happens in it.
    pub play: Play,
}

/// What the parts of a stream do.
#[derive(Clone, Debug)]
pub struct Play {
    /// What its endpoints do.
    pub habit: Habit,
    /// The size of an endpoint's packet, and of what filters make of a wave.
    pub packet_bytes: u32,
    /// How long an endpoint takes for each packet that it is given.
    pub takes_for: Duration,
    /// How long the front-end's user takes for each wave; `None` when it does not read.
    pub reads_for: Option<Duration>,
    /// Processor time of a filter's run.
    pub filter_work: Duration,
    /// Where filters run.
    pub filter_placement: Placement,
}

/// What an endpoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habit {
    /// True when it answers each packet from the front-end under its tag.
    pub answers: bool,
    /// How often it sends a packet on its own; `None` for never.
    pub every: Option<Duration>,
    /// How such packets find their wave.
    pub tags: Tags,
    /// So many packets are sent on its own at most.
    pub packets_max: u64,
}

/// How packets that an endpoint sends on its own find their wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// The endpoint's node counts them.
    Counted,
    /// The tag is the number of the time bucket, which is as long as the endpoint's period.
    Buckets,
}

/// What the world keeps of its streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    plays: Vec<Play>,
    /// Plays whose endpoints send nothing on their own any more.
    quiet: BTreeSet<usize>,
    filters: BTreeMap<(usize, StreamId), Keeper>,
    seats: BTreeMap<SeatKey, Seat>,
    /// How many packets each endpoint has sent, in all its lives and places.
    packets: BTreeMap<(StreamId, u32), u64>,
    fronts: BTreeMap<(NodeId, RequestId), FrontEnd>,
    /// Runs that do not return until they are let go, with what they will give.
    hanging: Vec<(NodeId, Input<Ink>)>,
    operators: BTreeMap<(usize, OperatorId), Ink>,
    operators_kept: Vec<usize>,
    /// Runs of filters on the way up, for those that are to go wrong.
    runs: u64,
}

impl Streams {
    fn play_of(&self, params: &Ink) -> usize {
        usize::try_from(params.call).unwrap_or(usize::MAX).min(self.plays.len().saturating_sub(1))
    }
}

impl World {
    /// What a stream is to be told of itself so that its parts do what `plan` says.
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
        }
    }

    /// What the parts of a stream do, by its parameters.
    pub fn play(&self, params: &Ink) -> &Play {
        &self.streams.plays[self.streams.play_of(params)]
    }

    /// How many streams have been asked for; the next one's play has this number.
    pub fn plays(&self) -> usize {
        self.streams.plays.len()
    }

    /// The size of the packets of the play `number`.
    pub fn packet_bytes(&self, number: usize) -> u32 {
        self.streams.plays.get(number).map_or(0, |play| play.packet_bytes)
    }

    /// Endpoints of the play `number` send nothing on their own any more.
    pub fn quiet_down(&mut self, number: usize) {
        self.streams.quiet.insert(number);
    }

    /// The process at `at` is gone, and with it its filters and its users.
    pub(super) fn lose_streams_at(&mut self, at: usize) {
        let id = self.places[at].id;
        self.streams.filters.retain(|(place, _), _| *place != at);
        self.streams.hanging.retain(|(node, _)| *node != id);
        self.streams.operators.retain(|(place, _), _| *place != at);
        self.streams.fronts.retain(|(node, _), _| *node != id);
    }

    /// True when the process of this name is at its place still.
    pub fn is_there(&self, node: NodeId) -> bool {
        let (at, lives) = place_of(node);
        self.places.get(at).is_some_and(|place| {
            place.lives == lives && place.id == node && place.life != super::place::Life::Gone
        })
    }
}
