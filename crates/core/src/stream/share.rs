//! A node's share of a stream: what it knows of parent, children and endpoints, and the waves that are here.

use super::StreamId;
use super::child::{Child, Flow, Own};
use super::lane::{Lane, Piece, Slot};
use super::layout::Layout;
use super::places::SeatNumber;
use super::roll::Cohort;
use super::spec::{FilterRun, Source, StreamEvent, StreamSpec, Synchronisation};
use super::tags::TagRuns;
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
use smallvec::SmallVec;

/// Where the filter is.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a share has one, and a box for each run would cost each wave")]
pub(crate) enum Filter<P> {
    /// There is none.
    None,
    /// The driver makes it.
    Opening,
    /// It has nothing to do.
    Idle,
    /// It is at work.
    Busy(Busy<P>),
}

impl<P: Payload> Filter<P> {
    /// Who is in the wave that the filter is at, if it is this one.
    pub(crate) fn wave_at_work(&self, lane: u32, key: u64) -> Option<&PartitionSet> {
        match self {
            Self::Busy(Busy { what: AtWork::Wave(at, slot), .. }) if *at == lane && slot.key == key => {
                Some(slot.parts.claimed())
            }
            _ => None,
        }
    }
}

/// What a filter is at.
#[derive(Debug)]
pub(crate) struct Busy<P> {
    pub(crate) run: u64,
    /// What the driver is to be given once it is its turn; `None` when the driver has it.
    pub(crate) queued: Option<FilterRun<P>>,
    /// What its application was charged, where it had to wait for a turn.
    pub(crate) charge: Option<Charge>,
    pub(crate) inline: bool,
    pub(crate) started_at: Instant,
    pub(crate) what: AtWork<P>,
}

/// What will be done with what the filter gives.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a share has one")]
pub(crate) enum AtWork<P> {
    /// A wave on its way up.
    Wave(u32, Slot<P>),
    /// A packet on its way down.
    Packet(Descent<P>),
}

/// A packet on its way down that waits for the filter, or is in it.
#[derive(Debug)]
pub(crate) struct Descent<P> {
    pub(crate) sequence: u64,
    pub(crate) tag: u64,
    pub(crate) to: Option<PartitionSet>,
    /// What it weighed when it came.
    pub(crate) bytes: usize,
    /// What came and the filter is not through with, the last first: the parent's filter may have made several of one,
    /// or none.
    pub(crate) left: SmallVec<[P; 1]>,
    /// What the filter has made of that so far.
    pub(crate) made: SmallVec<[P; 1]>,
}

/// A packet on its way down, kept until all below have taken it.
#[derive(Debug)]
pub(crate) struct Descending<P> {
    pub(crate) sequence: u64,
    pub(crate) tag: u64,
    pub(crate) to: Option<PartitionSet>,
    pub(crate) packets: SmallVec<[P; 1]>,
    /// What it weighed when it came, whatever the filter has made of it: that is what the front-end's user counts.
    pub(crate) bytes: usize,
}

/// The way down at one node.
///
/// Twelve fields, because a packet passes through all of them: what has come, what waits, what is kept until it is
/// taken, and what has been said of that.
#[derive(Debug)]
pub(crate) struct Down<P> {
    /// Packets on the way down that were sent before this node was asked to take part.
    pub(crate) packets_before: u64,
    /// Packets that the front-end had sent when it made the layout that this node knows. Not all need have come here.
    pub(crate) before_layout: u64,
    /// The last packet that came from above, or that the front-end's user sent.
    pub(crate) received: u64,
    /// Packets of a frame whose last has not come.
    pub(crate) half: SmallVec<[P; 1]>,
    pub(crate) half_bytes: usize,
    /// Waiting for the filter.
    pub(crate) waiting: VecDeque<Descent<P>>,
    pub(crate) kept: VecDeque<Descending<P>>,
    /// What those that wait or are kept weighed when they came.
    pub(crate) held_bytes: usize,
    /// What the parent has been told.
    pub(crate) told_taken: u64,
    /// Taken by all and not told yet.
    pub(crate) untold_bytes: usize,
    pub(crate) untold_packets: usize,
    /// The largest tag that went down.
    pub(crate) tag_max: u64,
}

impl<P> Default for Down<P> {
    fn default() -> Self {
        Self {
            packets_before: 0,
            before_layout: 0,
            received: 0,
            half: SmallVec::new(),
            half_bytes: 0,
            waiting: VecDeque::new(),
            kept: VecDeque::new(),
            held_bytes: 0,
            told_taken: 0,
            untold_bytes: 0,
            untold_packets: 0,
            tag_max: 0,
        }
    }
}

/// What only the front-end's share has.
///
/// Twelve fields, because its user meets all of them: what the user wants and has been given, and who has been asked to
/// take part.
#[derive(Debug)]
pub(crate) struct FrontEnd {
    /// Its user's name for the stream.
    pub(crate) request: RequestId,
    /// True when all endpoints of the service are meant, also those to come.
    pub(crate) all: bool,
    pub(crate) wanted: PartitionSet,
    pub(crate) is_opened: bool,
    pub(crate) layout: Layout,
    pub(crate) fan_out: u32,
    /// Who was lost, or has been given a place, and may not have said yet that it is there: when, and how often.
    pub(crate) asked: BTreeMap<NodeId, (Instant, u32)>,
    /// Who was not there when it was last looked.
    pub(crate) missed: PartitionSet,
    pub(crate) looked_at: Instant,
    /// Waves that its user has been given and has not taken: lane, key, bytes, whether somebody waits for it.
    pub(crate) delivered: VecDeque<(u32, u64, usize, bool)>,
    /// Taken, and not yet said to be settled.
    pub(crate) to_settle: BTreeMap<u32, TagRuns>,
    pub(crate) to_settle_bytes: usize,
}

/// What a share is part of; it never changes.
#[derive(Debug)]
pub(crate) struct Terms<P> {
    pub(crate) id: StreamId,
    pub(crate) spec: Arc<StreamSpec<P>>,
    /// Levels of the whole tree below the front-end.
    pub(crate) levels: u32,
    pub(crate) window_bytes: usize,
}

/// Which place of the layout a node has.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Its number: a later one counts, whoever brings it.
    pub(crate) number: SeatNumber,
    /// The epoch that it was last told of. An endpoint's packets are counted from here, so that those of a former life of
    /// it are told from later ones.
    pub(crate) epoch: u64,
    /// Since when it is without a parent.
    pub(crate) orphan_since: Option<Instant>,
}

/// The beats of a share.
#[derive(Debug)]
pub(crate) struct Beat {
    pub(crate) ticked_at: Instant,
    /// How late this node was with its beats, of late: see `note_held_up`.
    pub(crate) held_up: Duration,
    pub(crate) armed: Option<Instant>,
}

/// Everyone below, and who of them is away.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) own_set: PartitionSet,
    /// Own endpoints and all children's, and those away.
    pub(crate) group: PartitionSet,
    /// Those of them whom this node has given up, and why.
    pub(crate) away: Vec<Missing>,
    pub(crate) away_set: PartitionSet,
    /// Those whom nodes below have given up.
    pub(crate) away_below: PartitionSet,
    pub(crate) cohorts: Vec<Cohort>,
    /// Newly come, for the next news.
    pub(crate) joined: Vec<(PartitionSet, u64)>,
    /// With which tag its endpoints began.
    pub(crate) first_tag: u64,
    /// True until everyone below has said that it takes part, or can't.
    pub(crate) is_opening: bool,
    /// True when the subtree has changed and the parent is to hear of it.
    pub(crate) news_due: bool,
}

/// Waves that are here.
#[derive(Debug)]
pub(crate) struct Row<P> {
    pub(crate) lanes: BTreeMap<u32, Lane<P>>,
    pub(crate) ready: VecDeque<(u32, u64)>,
    /// Waves of lane 0 in the order they were begun; some of them are ready by now, or gone.
    pub(crate) opened: VecDeque<(Instant, u64)>,
    /// What lost nodes' filters may have kept, for the filter's next run.
    pub(crate) carried: Vec<Piece<P>>,
    /// The largest tag that a piece has borne.
    pub(crate) tag_max: u64,
    /// The oldest tag that the filter here has not given all of.
    pub(crate) holds_from: Option<u64>,
    /// Counts the sources of pieces: children, each time that one is asked to begin.
    pub(crate) sources: u32,
    /// Levels below this node, by which its patience with a wave is staged.
    pub(crate) height: u32,
}

/// Bytes that were sent up, or wait here to be.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) unsettled_bytes: usize,
    /// What was sent up since the last part that was marked as urgent.
    pub(crate) unmarked_bytes: usize,
    /// Bytes of pieces that wait here, and of them each child's, by its source.
    pub(crate) held_bytes: usize,
    pub(crate) held_of: BTreeMap<u32, usize>,
}

/// The filter of a share, and what it costs.
#[derive(Debug)]
pub(crate) struct Filtering<P> {
    pub(crate) state: Filter<P>,
    pub(crate) placement: Placement,
    pub(crate) cost: Ewma,
    /// Where its last run was.
    pub(crate) is_inline: bool,
}

/// A node's share of a stream.
///
/// Eleven fields, because each is a part with methods of its own, and a share is all of them: what it is part of, its
/// place, who is below, what is here, and how that goes up and down.
#[derive(Debug)]
pub(crate) struct Share<P> {
    pub(crate) terms: Terms<P>,
    pub(crate) seat: Seat<Flow<P>>,
    pub(crate) order: Order,
    pub(crate) beat: Beat,
    /// Endpoints that live here, ascending.
    pub(crate) own: Vec<Own>,
    pub(crate) roll: Roll,
    pub(crate) row: Row<P>,
    pub(crate) window: Window,
    pub(crate) filtering: Filtering<P>,
    pub(crate) down: Down<P>,
    /// What only the front-end has.
    pub(crate) front: Option<FrontEnd>,
}

impl<P: Payload> Share<P> {
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
            beat: Beat { ticked_at: now, held_up: Duration::ZERO, armed: None },
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
                ready: VecDeque::new(),
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
                cost: Ewma::new(cost_weight),
                is_inline: false,
            },
            down: Down::default(),
            front,
        }
    }

    /// Tells the front-end's user.
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

    /// Endpoints are in a wave together, and not each in its own.
    pub(crate) fn gathers(&self) -> bool {
        self.terms.spec.synchronisation != Synchronisation::DoNotWait
    }

    /// True for the lane of an endpoint that has left this subtree. It sends its unsettled packets again from its new place.
    pub(crate) fn has_moved(&self, lane: u32) -> bool {
        lane.checked_sub(1).is_some_and(|endpoint| !self.roll.group.contains(endpoint))
    }

    /// The first tag that nobody here has seen.
    pub(crate) fn next_tag(&self) -> u64 {
        self.row.tag_max.max(self.down.tag_max).saturating_add(1)
    }

    /// With which tag a child begins that is sent its part now. As long as nobody has been told that the stream is open,
    /// no wave has gone up: all who are asked meanwhile, at first or in the place of others, are in all of them.
    pub(crate) fn first_tag_for_others(&self) -> u64 {
        if self.roll.is_opening { self.roll.first_tag } else { self.next_tag() }
    }

    /// After which packets a child begins that is sent its part now, if it knows nothing of the stream. The rule is
    /// that of `first_tag_for_others`; but where nobody is waited for, nobody need answer what a former life may have.
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

    /// Children that take part, or were asked to.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Child<P>> {
        self.seat.children.iter_open()
    }

    /// Bytes from a source wait here.
    pub(crate) fn hold(&mut self, source: Source, bytes: usize) {
        self.window.held_bytes += bytes;
        if let Source::Child(number) = source {
            *self.window.held_of.entry(number).or_default() += bytes;
        }
    }

    /// Bytes from a source no longer wait here.
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
