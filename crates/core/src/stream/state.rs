//! A node's state for a stream: its parent, children and endpoints, and the waves that are at this node.

use super::StreamId;
use super::child::{Child, Flow, Own};
use super::descent::{Descent, Down};
use super::lane::{Lane, Piece, Slot};
use super::layout::Layout;
use super::places::SeatNumber;
use super::ready::Ready;
use super::roll::Cohort;
use super::spec::{FilterRun, Source, StreamEvent, StreamSpec, Synchronisation};
use super::tags::TagRuns;
use super::traffic::StreamTraffic;
use crate::config::Placement;
use crate::effect::{Effect, Event};
use crate::error::Missing;
use crate::id::{NodeId, RequestId};
use crate::load::cost::Ewma;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::schedule::accounts::Charge;
use crate::seat::{Parent, Seat};
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The state of a stream's filter.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a stream has one, and a box for each run would cost each wave")]
pub(crate) enum Filter<P> {
    /// The stream has no filter.
    None,
    /// The driver is creating the filter.
    Opening,
    /// The filter is idle.
    Idle,
    /// The filter is running.
    Busy(Busy<P>),
}

impl<P: Payload> Filter<P> {
    /// Contributors of the wave in the filter, if that wave is `key` of `lane`.
    pub(crate) fn wave_at_work(&self, lane: u32, key: u64) -> Option<&PartitionSet> {
        match self {
            Self::Busy(Busy { what: AtWork::Wave(at, slot), .. }) if *at == lane && slot.key == key => {
                Some(slot.parts.claimed())
            }
            _ => None,
        }
    }
}

/// A run of the filter.
#[derive(Debug)]
pub(crate) struct Busy<P> {
    pub(crate) run: u64,
    /// The run for the driver, until its turn comes; `None` once the driver has it.
    pub(crate) queued: Option<FilterRun<P>>,
    /// The charge to its application, if the run had to wait for a turn.
    pub(crate) charge: Option<Charge>,
    pub(crate) inline: bool,
    pub(crate) started_at: Instant,
    pub(crate) what: AtWork<P>,
}

/// The wave or packet to which a run's result belongs.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a stream has one")]
pub(crate) enum AtWork<P> {
    /// A wave on its way up, with its lane.
    Wave(u32, Slot<P>),
    /// A packet on its way down.
    Packet(Descent<P>),
}

/// State that only the front-end has.
///
/// Twelve fields, because the front-end's user depends on all of them: what the user wants and has been
/// given, and which nodes have been asked to take part.
#[derive(Debug)]
pub(crate) struct FrontEnd {
    /// The number that the user gave the stream.
    pub(crate) request: RequestId,
    /// True if the stream has all endpoints of the service, also future ones.
    pub(crate) all: bool,
    pub(crate) wanted: PartitionSet,
    pub(crate) is_opened: bool,
    pub(crate) layout: Layout,
    pub(crate) fan_out: u32,
    /// Nodes that were lost or were given a place and may not have answered: when, and how often they were
    /// asked.
    pub(crate) asked: BTreeMap<NodeId, (Instant, u32)>,
    /// Wanted endpoints that were absent at the last check.
    pub(crate) missed: PartitionSet,
    pub(crate) looked_at: Instant,
    /// Waves that the user has been given and has not taken: lane, key, bytes, and whether a sender waits for
    /// settlement.
    pub(crate) delivered: VecDeque<(u32, u64, usize, bool)>,
    /// Waves that the user has taken and that the nodes below have not been told to be settled.
    pub(crate) to_settle: BTreeMap<u32, TagRuns>,
    pub(crate) to_settle_bytes: usize,
}

/// The terms of a stream. They never change.
#[derive(Debug)]
pub(crate) struct Terms<P> {
    pub(crate) id: StreamId,
    pub(crate) spec: Arc<StreamSpec<P>>,
    /// Levels of the whole tree below the front-end.
    pub(crate) levels: u32,
    pub(crate) window_bytes: usize,
}

/// A node's place in the layout.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The number of the place. A place with a later number replaces it, no matter which node sends it.
    pub(crate) number: SeatNumber,
    /// The latest epoch that this node has received.
    ///
    /// An endpoint's sequence numbers begin with it, which distinguishes its packets from those of a former
    /// life.
    pub(crate) epoch: u64,
    /// The time since which the node has had no parent.
    pub(crate) orphan_since: Option<Instant>,
}

/// The heartbeat of a stream.
#[derive(Debug)]
pub(crate) struct Beat {
    pub(crate) ticked_at: Instant,
    /// How late this node's recent ticks were; see `note_held_up`.
    pub(crate) held_up: Duration,
    /// The ticks in a row at which this node was late.
    pub(crate) slow_ticks: u32,
    pub(crate) armed: Option<Instant>,
}

/// All endpoints below a node, and which of them are away.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) own_set: PartitionSet,
    /// Endpoints of this node, of all its children, and those away.
    pub(crate) group: PartitionSet,
    /// Endpoints of the group that this node has given up, with reasons.
    pub(crate) away: Vec<Missing>,
    pub(crate) away_set: PartitionSet,
    /// Endpoints that nodes below have given up.
    pub(crate) away_below: PartitionSet,
    pub(crate) cohorts: Vec<Cohort>,
    /// Endpoints that have joined, with their first tags, for the next news.
    pub(crate) joined: Vec<(PartitionSet, u64)>,
    /// The tag with which this node's endpoints began.
    pub(crate) first_tag: u64,
    /// True until every child has said that it takes part, or that it can't.
    pub(crate) is_opening: bool,
    /// True if the subtree has changed and the parent must be told.
    pub(crate) news_due: bool,
}

/// The waves at a node.
#[derive(Debug)]
pub(crate) struct Row<P> {
    pub(crate) lanes: BTreeMap<u32, Lane<P>>,
    pub(crate) ready: Ready,
    /// Waves of lane 0 in the order in which they began. Some of them may be ready, or gone.
    pub(crate) opened: VecDeque<(Instant, u64)>,
    /// Pieces that filters of lost nodes may have kept, for the next run of the filter here.
    pub(crate) carried: Vec<Piece<P>>,
    /// The largest tag of a piece received here.
    pub(crate) tag_max: u64,
    /// Oldest tag of which the filter here still holds something.
    pub(crate) holds_from: Option<u64>,
    /// Number of the last child source; raised each time a child is asked to begin.
    pub(crate) sources: u32,
    /// Levels below this node. They stage how long it waits for a wave.
    pub(crate) height: u32,
}

/// Bytes that were sent up, or that wait here.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) unsettled_bytes: usize,
    /// Bytes sent up since the last part that was marked as urgent.
    pub(crate) unmarked_bytes: usize,
    /// Bytes of pieces that wait here, and the part of each child, by its source.
    pub(crate) held_bytes: usize,
    pub(crate) held_of: BTreeMap<u32, usize>,
}

/// The filter of a stream at this node, and its cost.
#[derive(Debug)]
pub(crate) struct Filtering<P> {
    pub(crate) state: Filter<P>,
    pub(crate) placement: Placement,
    /// Why this node lacks the stream's filter. Its parent filters what its endpoints send.
    pub(crate) unknown: Option<Arc<str>>,
    /// True if the parent can do so.
    pub(crate) may_lack: bool,
    pub(crate) cost: Ewma,
    /// True if its last run was on the driver's loop.
    pub(crate) is_inline: bool,
}

/// A node's state for a stream.
///
/// Twelve fields, because each is a part with methods of its own, and a stream needs all of them: its terms, its
/// place, the nodes below it, the waves that are here, how packets go up and down, and what all that has cost.
#[derive(Debug)]
pub(crate) struct StreamState<P> {
    pub(crate) terms: Terms<P>,
    pub(crate) seat: Seat<Flow<P>>,
    pub(crate) order: Order,
    pub(crate) beat: Beat,
    /// Endpoints hosted by this node, ascending.
    pub(crate) own: Vec<Own>,
    pub(crate) roll: Roll,
    pub(crate) row: Row<P>,
    pub(crate) window: Window,
    pub(crate) filtering: Filtering<P>,
    pub(crate) down: Down<P>,
    pub(crate) traffic: StreamTraffic,
    /// State that only the front-end has.
    pub(crate) front: Option<FrontEnd>,
}

impl<P: Payload> StreamState<P> {
    pub(crate) fn begin(
        now: Instant,
        terms: Terms<P>,
        parent: Parent,
        cost_weight: f64,
        front: Option<FrontEnd>,
    ) -> Self {
        let state = if terms.spec.has_filter() { Filter::Opening } else { Filter::None };
        Self {
            terms,
            seat: Seat::under(parent),
            order: Order::default(),
            beat: Beat { ticked_at: now, held_up: Duration::ZERO, slow_ticks: 0, armed: None },
            own: Vec::new(),
            roll: Roll {
                own_set: PartitionSet::new(),
                group: PartitionSet::new(),
                away: Vec::new(),
                away_set: PartitionSet::new(),
                away_below: PartitionSet::new(),
                cohorts: Vec::new(),
                joined: Vec::new(),
                first_tag: 1,
                is_opening: true,
                news_due: false,
            },
            row: Row {
                lanes: BTreeMap::new(),
                ready: Ready::default(),
                opened: VecDeque::new(),
                carried: Vec::new(),
                tag_max: 0,
                holds_from: None,
                sources: 0,
                height: 0,
            },
            window: Window::default(),
            filtering: Filtering {
                state,
                placement: Placement::Inline,
                unknown: None,
                may_lack: false,
                cost: Ewma::new(cost_weight),
                is_inline: false,
            },
            down: Down::default(),
            traffic: StreamTraffic::default(),
            front,
        }
    }

    /// Sends an event to the front-end's user.
    pub(crate) fn tell_user(&self, cx: &mut Context<P>, event: StreamEvent<P>) {
        if let Some(front) = &self.front {
            let event = Box::new(event);
            cx.effects.push_back(Effect::Deliver(Event::Stream { request: front.request, event }));
        }
    }

    pub(crate) fn child_at(&self, node: NodeId) -> Option<usize> {
        self.seat.children.find(node, 0)
    }

    pub(crate) fn own_at(&self, endpoint: u32) -> Option<usize> {
        self.own.binary_search_by_key(&endpoint, |own| own.endpoint).ok()
    }

    /// True if waves gather all endpoints; false if each endpoint has waves of its own.
    pub(crate) fn gathers(&self) -> bool {
        self.terms.spec.synchronisation != Synchronisation::DoNotWait
    }

    /// True for the lane of an endpoint that has left this subtree.
    ///
    /// The endpoint sends its unsettled packets again from its new place.
    pub(crate) fn has_moved(&self, lane: u32) -> bool {
        lane.checked_sub(1).is_some_and(|endpoint| !self.roll.group.contains(endpoint))
    }

    /// The first tag that no node of this subtree has seen.
    pub(crate) fn next_tag(&self) -> u64 {
        self.row.tag_max.max(self.down.tag_max).saturating_add(1)
    }

    /// First tag for a child that is sent its place now.
    ///
    /// Before this node has reported the stream as open, no wave has gone up. A child that is asked until
    /// then, also one that replaces another, therefore begins with this node's own first tag and is in all
    /// waves.
    pub(crate) fn first_tag_for_others(&self) -> u64 {
        if self.roll.is_opening { self.roll.first_tag } else { self.next_tag() }
    }

    /// Last down-sequence number that a child skips if it is sent its place now and does not know the stream.
    ///
    /// The rule is that of `first_tag_for_others`, with one exception. With `DoNotWait`, a child that begins
    /// anew also skips the packets that came while the stream opens: its former life may have answered them,
    /// and no wave waits for an answer.
    pub(crate) fn packets_before_others(&self, begins_anew: bool) -> u64 {
        let may_be_answered = begins_anew && !self.gathers();
        if self.roll.is_opening && !may_be_answered {
            self.down.packets_before
        } else {
            self.down.received.max(self.down.before_layout)
        }
    }

    /// True while this run of the filter waits for its turn.
    pub(crate) fn waits_for(&self, run: u64) -> bool {
        matches!(&self.filtering.state, Filter::Busy(busy) if busy.run == run && busy.queued.is_some())
    }

    /// Children that take part, or have been asked to.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Child<P>> {
        self.seat.children.iter_open()
    }

    /// Counts bytes of a source that wait here.
    pub(crate) fn hold(&mut self, source: Source, bytes: usize) {
        self.window.held_bytes += bytes;
        if let Source::Child(number) = source {
            *self.window.held_of.entry(number).or_default() += bytes;
        }
    }

    /// Counts bytes of a source that no longer wait here.
    pub(crate) fn release(&mut self, source: Source, bytes: usize) {
        self.window.held_bytes -= bytes;
        if let Source::Child(number) = source
            && let Some(held) = self.window.held_of.get_mut(&number)
        {
            *held -= bytes;
            if *held == 0 {
                self.window.held_of.remove(&number);
            }
        }
    }
}
