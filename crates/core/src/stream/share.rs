//! A node's share of a stream: what it knows of parent, children and endpoints, and the waves that are here.

use super::message::StreamDown;
use super::spec::{FilterWork, Source, StreamSpec, Synchronisation};
use super::tags::TagRuns;
use super::{StreamId, spec::Lost};
use crate::error::Missing;
use crate::id::{NodeId, RequestId};
use crate::load::cost::Ewma;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::contributors::Parts;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// What a packet weighs besides its bytes, so that small ones are bounded too.
pub(crate) const PACKET_BYTES: usize = 64;

/// The lane of waves that everyone is in.
pub(crate) const GATHERED: u32 = 0;

/// Who gets what goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Another node.
    Node(NodeId),
    /// This node is the front-end.
    Front(RequestId),
}

/// How it stands with a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Asked, and yet to say that it takes part.
    Asked,
    /// It takes part.
    There,
    /// Given up, with its own endpoints only; it may come back.
    Away,
}

/// A child and what lies below it.
#[derive(Debug)]
pub(crate) struct Branch<P> {
    pub(crate) node: NodeId,
    pub(crate) source: u32,
    pub(crate) standing: Standing,
    pub(crate) tree: Tree,
    pub(crate) endpoints: PartitionSet,
    pub(crate) heard_at: Instant,
    /// Those of its endpoints that it has said to give nothing now, and why.
    pub(crate) away: Vec<Missing>,
    /// Packets of a part whose last frame has not come.
    pub(crate) half: Vec<P>,
    /// Bytes of its pieces that wait here.
    pub(crate) held_bytes: usize,
    /// Packets sent down to it and not taken.
    pub(crate) to_take: VecDeque<u64>,
    /// What its filter has not given all of.
    pub(crate) holds_from: Option<u64>,
    /// Up to which wave it has been told that it is behind.
    pub(crate) told_ahead: u64,
    /// When it was last asked to come back.
    pub(crate) asked_back_at: Instant,
    /// True when it has been told its part anew because it was given up.
    pub(crate) rejoins: bool,
}

/// An endpoint that lives here.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) endpoint: u32,
    pub(crate) next_tag: u64,
    pub(crate) next_serial: u64,
    /// What it sent and is not settled: key and bytes, ascending by key.
    pub(crate) in_flight: VecDeque<(u64, u32)>,
    pub(crate) in_flight_bytes: usize,
    /// Packets that it has been given and not taken.
    pub(crate) to_take: VecDeque<u64>,
}

/// What one source gives to a wave: any number of packets.
#[derive(Clone, Debug)]
pub(crate) struct Piece<P> {
    pub(crate) source: Source,
    pub(crate) packets: SmallVec<[P; 1]>,
}

impl<P: Payload> Payload for Piece<P> {
    fn len(&self) -> usize {
        weight(&self.packets)
    }
}

/// What packets weigh against a window.
pub(crate) fn weight<P: Payload>(packets: &[P]) -> usize {
    PACKET_BYTES + packets.iter().map(Payload::len).sum::<usize>()
}

/// Puts an item behind those of its key or a lesser one; the usual newcomer is the last. What is ascending can be
/// settled without a look at all of it.
pub(crate) fn insert_by_key<T>(queue: &mut VecDeque<T>, item: T, key_of: impl Fn(&T) -> u64) {
    let key = key_of(&item);
    match queue.back() {
        Some(last) if key_of(last) > key => {
            let at = queue.partition_point(|earlier| key_of(earlier) <= key);
            queue.insert(at, item);
        }
        _ => queue.push_back(item),
    }
}

/// A wave that is coming together, or waits for the filter.
#[derive(Debug)]
pub(crate) struct Slot<P> {
    pub(crate) key: u64,
    pub(crate) tag: u64,
    pub(crate) opened_at: Instant,
    pub(crate) parts: Parts<Piece<P>>,
    pub(crate) missing: SmallVec<[Missing; 1]>,
    pub(crate) excused: PartitionSet,
    pub(crate) urgent: bool,
    pub(crate) is_ready: bool,
    /// True for a part of a wave of which this node has sent another before.
    pub(crate) is_late: bool,
}

/// What was sent up, kept until it is settled.
#[derive(Debug)]
pub(crate) struct Sent<P> {
    pub(crate) key: u64,
    pub(crate) tag: u64,
    pub(crate) packets: SmallVec<[P; 1]>,
    pub(crate) contributors: PartitionSet,
    pub(crate) missing: Vec<Missing>,
    pub(crate) bytes: usize,
    pub(crate) urgent: bool,
}

/// Waves whose order among themselves matters.
#[derive(Debug)]
pub(crate) struct Lane<P> {
    /// Ascending by key.
    pub(crate) slots: VecDeque<Slot<P>>,
    /// Ascending by key, which is nearly the order sent; of one key, in the order sent.
    pub(crate) sent: VecDeque<Sent<P>>,
    /// The largest key that was sent.
    pub(crate) sent_max: Option<u64>,
    pub(crate) settled: TagRuns,
    /// Settled by the front-end, and still needed here for what the filter holds.
    pub(crate) withheld: TagRuns,
}

impl<P> Default for Lane<P> {
    fn default() -> Self {
        let (settled, withheld) = (TagRuns::new(), TagRuns::new());
        Self { slots: VecDeque::new(), sent: VecDeque::new(), sent_max: None, settled, withheld }
    }
}

impl<P: Payload> Lane<P> {
    /// Where the slot of a key is, or would be.
    pub(crate) fn find(&self, key: u64) -> Result<usize, usize> {
        match self.slots.back() {
            Some(last) if last.key >= key => self.slots.binary_search_by_key(&key, |slot| slot.key),
            _ => Err(self.slots.len()),
        }
    }

    /// What has been sent under a key.
    pub(crate) fn sent_under(&self, key: u64) -> impl Iterator<Item = &Sent<P>> {
        // The usual newcomer is newer than all that was sent.
        let is_new = self.sent_max < Some(key);
        let from = if is_new { self.sent.len() } else { self.sent.partition_point(|sent| sent.key < key) };
        self.sent.range(from..).take_while(move |sent| sent.key == key)
    }
}

/// Where the filter is.
#[derive(Debug)]
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
    pub(crate) inline: bool,
    pub(crate) started_at: Instant,
    pub(crate) what: AtWork<P>,
}

/// What will be done with what the filter gives.
#[derive(Debug)]
pub(crate) enum AtWork<P> {
    /// A wave on its way up.
    Wave(u32, Slot<P>),
    /// A packet on its way down.
    Packet(StreamDown<P>),
}

/// A packet on its way down, kept until all below have taken it.
#[derive(Debug)]
pub(crate) struct Descending<P> {
    pub(crate) sequence: u64,
    pub(crate) tag: u64,
    pub(crate) to: Option<PartitionSet>,
    pub(crate) packets: SmallVec<[P; 1]>,
    pub(crate) bytes: usize,
}

/// The way down at one node.
#[derive(Debug)]
pub(crate) struct Down<P> {
    /// The last packet that came from above, or that the front-end's user sent.
    pub(crate) received: u64,
    /// Packets of a frame whose last has not come.
    pub(crate) half: SmallVec<[P; 1]>,
    /// Waiting for the filter.
    pub(crate) waiting: VecDeque<StreamDown<P>>,
    pub(crate) kept: VecDeque<Descending<P>>,
    /// What the parent has been told.
    pub(crate) told_taken: u64,
    /// Taken by all and not told yet.
    pub(crate) untold_bytes: usize,
    pub(crate) untold_packets: usize,
    /// The largest tag that went down.
    pub(crate) tag_max: u64,
}

/// Endpoints that are expected from some tag on only.
#[derive(Debug)]
pub(crate) struct Cohort {
    pub(crate) first_tag: u64,
    pub(crate) endpoints: PartitionSet,
    /// Why they are missing from earlier waves; `None` for those who were not asked for them.
    pub(crate) was: Option<Lost>,
}

/// What only the front-end's share has.
#[derive(Debug)]
pub(crate) struct Front {
    /// True when all endpoints of the service are meant, also those to come.
    pub(crate) all: bool,
    pub(crate) wanted: PartitionSet,
    pub(crate) is_opened: bool,
    pub(crate) fan_out: u32,
    /// Who has been given a place, and may not have said yet that it is there.
    pub(crate) seated: BTreeMap<NodeId, Instant>,
    /// Waves that its user has been given and has not taken: lane, key, bytes, whether somebody waits for it.
    pub(crate) delivered: VecDeque<(u32, u64, usize, bool)>,
    /// Taken, and not yet said to be settled.
    pub(crate) to_settle: BTreeMap<u32, TagRuns>,
    pub(crate) to_settle_bytes: usize,
}

/// A node's share of a stream.
#[derive(Debug)]
pub(crate) struct Share<P> {
    pub(crate) id: StreamId,
    pub(crate) spec: Arc<StreamSpec<P>>,
    pub(crate) parent: Parent,
    /// Since when it is without one.
    pub(crate) orphan_since: Option<Instant>,
    pub(crate) levels: u32,
    /// Levels below this node.
    pub(crate) height: u32,
    pub(crate) own: Vec<Own>,
    pub(crate) own_set: PartitionSet,
    pub(crate) branches: Vec<Branch<P>>,
    pub(crate) sources: u32,
    /// Everyone below: own endpoints and all branches'.
    pub(crate) group: PartitionSet,
    /// Those of them who give nothing now, and why.
    pub(crate) away: Vec<Missing>,
    pub(crate) away_set: PartitionSet,
    pub(crate) cohorts: Vec<Cohort>,
    /// Newly come, for the next news.
    pub(crate) joined: Vec<(PartitionSet, u64)>,
    pub(crate) lanes: BTreeMap<u32, Lane<P>>,
    pub(crate) ready: VecDeque<(u32, u64)>,
    /// The largest tag that a piece has borne.
    pub(crate) tag_max: u64,
    pub(crate) filter: Filter<P>,
    pub(crate) filter_placement: crate::config::Placement,
    pub(crate) filter_cost: Ewma,
    pub(crate) runs: u64,
    pub(crate) holds_from: Option<u64>,
    /// Sources that the filter is to hear of before its next run.
    pub(crate) replaced: Vec<(Source, Vec<Source>)>,
    pub(crate) window_bytes: usize,
    pub(crate) unsettled_bytes: usize,
    pub(crate) held_bytes: usize,
    pub(crate) down: Down<P>,
    pub(crate) front: Option<Front>,
    /// True until everyone below has said that it takes part, or can't.
    pub(crate) is_opening: bool,
    /// How often the front-end has given somebody a new place. An endpoint's packets are counted from here, so that
    /// those of a former life of it are told from later ones.
    pub(crate) life: u32,
    /// The latest term heard of.
    pub(crate) term: u64,
    /// With which tag its endpoints began.
    pub(crate) first_tag: u64,
    /// True when something went up since the last tick.
    pub(crate) has_spoken: bool,
    /// True when the subtree has changed and the parent is to hear of it.
    pub(crate) news_due: bool,
    pub(crate) ticked_at: Instant,
    /// Until when it leaves decisions about others to its parent, having been held up itself.
    pub(crate) dazed_until: Option<Instant>,
    /// Children whose connections broke meanwhile.
    pub(crate) gone_meanwhile: Vec<NodeId>,
    pub(crate) armed: Option<Instant>,
}

/// What a share starts from.
pub(crate) struct Beginning<P> {
    pub(crate) id: StreamId,
    pub(crate) spec: Arc<StreamSpec<P>>,
    pub(crate) parent: Parent,
    pub(crate) levels: u32,
    pub(crate) window_bytes: usize,
    pub(crate) cost_weight: f64,
    pub(crate) front: Option<Front>,
}

impl<P: Payload> Share<P> {
    pub(crate) fn begin(now: Instant, from: Beginning<P>) -> Self {
        let filter = if from.spec.has_filter() { Filter::Opening } else { Filter::None };
        Self {
            id: from.id,
            spec: from.spec,
            parent: from.parent,
            orphan_since: None,
            levels: from.levels,
            height: 0,
            own: Vec::new(),
            own_set: PartitionSet::new(),
            branches: Vec::new(),
            sources: 0,
            group: PartitionSet::new(),
            away: Vec::new(),
            away_set: PartitionSet::new(),
            cohorts: Vec::new(),
            joined: Vec::new(),
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            tag_max: 0,
            filter,
            filter_placement: crate::config::Placement::Inline,
            filter_cost: Ewma::new(from.cost_weight),
            runs: 0,
            holds_from: None,
            replaced: Vec::new(),
            window_bytes: from.window_bytes,
            unsettled_bytes: 0,
            held_bytes: 0,
            down: Down {
                received: 0,
                half: SmallVec::new(),
                waiting: VecDeque::new(),
                kept: VecDeque::new(),
                told_taken: 0,
                untold_bytes: 0,
                untold_packets: 0,
                tag_max: 0,
            },
            front: from.front,
            is_opening: true,
            life: 0,
            term: 0,
            first_tag: 1,
            has_spoken: false,
            news_due: false,
            ticked_at: now,
            dazed_until: None,
            gone_meanwhile: Vec::new(),
            armed: None,
        }
    }

    pub(crate) fn branch_at(&self, node: NodeId) -> Option<usize> {
        self.branches.iter().position(|branch| branch.node == node)
    }

    /// Endpoints are in a wave together, and not each in its own.
    pub(crate) fn gathers(&self) -> bool {
        self.spec.synchronisation != Synchronisation::DoNotWait
    }

    /// Who a wave waits for.
    pub(crate) fn expected(&self, key: u64) -> PartitionSet {
        let mut expected = self.group.difference(&self.away_set);
        for cohort in self.cohorts.iter().filter(|cohort| cohort.first_tag > key) {
            expected = expected.difference(&cohort.endpoints);
        }
        expected
    }

    /// True when nobody more will come to a wave of lane 0.
    pub(crate) fn is_complete(&self, slot: &Slot<P>) -> bool {
        let claimed = slot.parts.claimed();
        if self.away_set.is_empty() && self.cohorts.is_empty() && slot.excused.is_empty() {
            return self.group == *claimed;
        }
        self.expected(slot.key).difference(claimed).is_subset(&slot.excused)
    }

    /// The first tag that nobody here has seen.
    pub(crate) fn next_tag(&self) -> u64 {
        self.tag_max.max(self.down.tag_max).saturating_add(1)
    }

    /// The subtree as it is.
    pub(crate) fn tree(&self, me: NodeId) -> Tree {
        let trees: Vec<Tree> = self.live().map(|branch| branch.tree.clone()).collect();
        Tree::join(me, self.own_set.clone(), &trees)
    }

    /// Children that take part, or were asked to.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Branch<P>> {
        self.branches.iter().filter(|branch| branch.standing != Standing::Away)
    }

    /// Brings what is derived from endpoints and branches up to date.
    pub(crate) fn regroup(&mut self) {
        self.own_set = self.own.iter().map(|own| own.endpoint).collect();
        self.group = self.own_set.clone();
        let mut height = 0;
        for branch in &self.branches {
            self.group.union_with(&branch.endpoints);
            height = height.max(branch.tree.height() as u32 + 1);
        }
        // Whoever is away is still asked for, whether or not anybody could answer for it.
        self.away.iter().for_each(|loss| self.group.union_with(&loss.partitions));
        self.height = height;
        self.recount_away();
    }

    /// Drops from those away whoever is no longer in the group or has come back by another way.
    fn recount_away(&mut self) {
        self.away.retain(|loss| !loss.partitions.is_empty());
        self.away_set = PartitionSet::new();
        self.away.iter().for_each(|loss| self.away_set.union_with(&loss.partitions));
        let group = &self.group;
        for cohort in &mut self.cohorts {
            cohort.endpoints = cohort.endpoints.difference(&cohort.endpoints.difference(group));
        }
        self.cohorts.retain(|cohort| !cohort.endpoints.is_empty());
    }

    /// Everyone below who gives nothing now, and why, as far as this node has been told.
    pub(crate) fn all_away(&self) -> Vec<Missing> {
        let below = self.branches.iter().flat_map(|branch| &branch.away);
        let below = below
            .map(|loss| Missing { partitions: loss.partitions.difference(&self.away_set), ..loss.clone() });
        self.away.iter().cloned().chain(below.filter(|loss| !loss.partitions.is_empty())).collect()
    }

    /// Everyone below who takes part now.
    pub(crate) fn present(&self) -> PartitionSet {
        let mut present = self.group.clone();
        self.all_away().iter().for_each(|loss| present = present.difference(&loss.partitions));
        present
    }

    /// Some endpoints give nothing until further notice.
    pub(crate) fn put_away(&mut self, loss: Missing) {
        let fresh = loss.partitions.difference(&self.away_set);
        if !fresh.is_empty() {
            self.away_set.union_with(&fresh);
            self.away.push(Missing { partitions: fresh, ..loss });
        }
        self.news_due = true;
    }

    /// Endpoints that were away, or are new, take part from `first_tag` on.
    pub(crate) fn bring_back(&mut self, endpoints: &PartitionSet, first_tag: u64) {
        let back = endpoints.difference(&endpoints.difference(&self.group));
        let mut rest = back;
        for loss in &mut self.away {
            let left = loss.partitions.difference(&rest);
            let returned = loss.partitions.difference(&left);
            if returned.is_empty() {
                continue;
            }
            rest = rest.difference(&returned);
            loss.partitions = left;
            let was = loss.node.map(|node| (node, loss.reason.clone()));
            self.cohorts.push(Cohort { first_tag, endpoints: returned, was });
        }
        if !rest.is_empty() {
            self.cohorts.push(Cohort { first_tag, endpoints: rest, was: None });
        }
        self.recount_away();
        self.joined.push((endpoints.clone(), first_tag));
        self.news_due = true;
    }

    /// Cohorts whose first wave is settled are like everyone else.
    pub(crate) fn forget_cohorts(&mut self) {
        if self.cohorts.is_empty() {
            return;
        }
        let Some(last) = self.lanes.get(&GATHERED).and_then(|lane| lane.settled.last()) else { return };
        self.cohorts.retain(|cohort| cohort.first_tag > last);
    }

    /// What to give the filter, if its turn has come.
    pub(crate) fn pieces_of(slot: &Slot<P>) -> FilterWork<P> {
        let mut pieces = Vec::with_capacity(slot.parts.resting().len());
        for part in slot.parts.resting() {
            let source = part.payload.source;
            pieces.extend(part.payload.packets.iter().map(|packet| (source, packet.clone())));
        }
        FilterWork::Up(pieces)
    }
}
