//! One node's part in a wave: *local running* → *waiting for children* → *ready* (DAC §4.3, figure 11).
//!
//! No thread waits: locals, folds and children's partials come in as inputs, in any order. The wave is answered
//! when nothing is open any more, or when its time is up, with what there is. What is missing is never counted
//! along the way: it is what was asked less who contributed, explained by the losses noted meanwhile, so that
//! contributors and missing partition the asked set whatever happened.

use crate::error::{Missing, Reason};
use crate::id::{JobId, NodeId, PartitionId, Tag};
use crate::load::figure::{LoadFigure, LoadNews};
use crate::load::index::Weight;
use crate::message::{Partial, Payload, Report};
use crate::partitions::PartitionSet;
use crate::push::PushRequest;
use crate::push::chain::Chain;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::wave::contributors::Parts;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use crate::wave::wait::stop::{Progress, Stop};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Who gets the wave's partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Another node.
    Node(NodeId),
    /// This node is the caller.
    Caller,
}

/// Where a wave stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Locals, folds or children are open.
    Open,
    /// Answered; kept until the deadline in case the parent is lost.
    Kept,
    /// Over; it leaves the table.
    Ended,
}

/// What a parent knows of a child.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) node: NodeId,
    pub(crate) branch: u32,
    pub(crate) tree: Tree,
    pub(crate) asked_at: Instant,
    pub(crate) answer_at: Instant,
    /// When patience with it ends; `None` once it has been repaired, or when no time is left to mend anything.
    pub(crate) repair_at: Option<Instant>,
    /// When a replica is asked as well, if the call is hedged and the child a leaf.
    pub(crate) hedge_at: Option<Instant>,
    pub(crate) is_done: bool,
    /// It is gone, and hears nothing any more.
    pub(crate) is_lost: bool,
    /// Nothing more is to be hoped for: it is silent, or it gave what it had and waits for who is silent.
    pub(crate) is_hopeless: bool,
    /// What it has said to be lost while it is still at work on the rest.
    pub(crate) said_lost: PartitionSet,
}

/// How busy a node below was, by this node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) node: NodeId,
    pub(crate) figure: LoadFigure,
    pub(crate) as_of: Instant,
}

impl Heard {
    pub(crate) fn passed_on(&self, now: Instant) -> LoadNews {
        LoadNews { node: self.node, figure: self.figure, age: now.since(self.as_of) }
    }
}

impl Child {
    /// The partitions that may still come of it.
    pub(crate) fn promises(&self) -> PartitionSet {
        if self.is_done || self.is_hopeless {
            return PartitionSet::new();
        }
        self.tree.partitions().difference(&self.said_lost)
    }
}

/// Partitions that were asked in vain.
#[derive(Clone, Debug)]
pub(crate) struct Try {
    pub(crate) partitions: PartitionSet,
    /// Who failed; `None` when the answer came but could not be used.
    pub(crate) failed: Option<NodeId>,
}

/// How the time went, for the report and the load index.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) arrived_at: Instant,
    pub(crate) first_job_at: Option<Instant>,
    pub(crate) own_done_at: Option<Instant>,
    /// How many others it found in flight when its first locals were queued; `None` when it had none.
    pub(crate) in_flight_found: Option<u32>,
    pub(crate) local: Duration,
    pub(crate) reduce: Duration,
}

impl Timing {
    pub(crate) const fn starting(now: Instant) -> Self {
        Self {
            arrived_at: now,
            first_job_at: None,
            own_done_at: None,
            in_flight_found: None,
            local: Duration::ZERO,
            reduce: Duration::ZERO,
        }
    }
}

/// What a wave starts from.
pub(crate) struct Opening<P> {
    pub(crate) tag: Tag,
    pub(crate) parent: Parent,
    pub(crate) name: Arc<str>,
    pub(crate) kind: Option<u32>,
    pub(crate) lane: usize,
    pub(crate) params: P,
    pub(crate) deadline_at: Instant,
    pub(crate) answer_at: Instant,
    pub(crate) waiting: Waiting,
    pub(crate) losses_max: u32,
    /// How many of its partitions its waiting rule may give up.
    pub(crate) spare: u32,
    pub(crate) hedge: bool,
    pub(crate) explain: bool,
    pub(crate) loads_wanted: bool,
    pub(crate) push: Option<PushRequest>,
    pub(crate) asked: PartitionSet,
    pub(crate) slice: Slice,
    pub(crate) jobs_epoch: u64,
}

/// A node's part in a wave.
#[derive(Debug)]
pub(crate) struct Wave<P> {
    pub(crate) tag: Tag,
    pub(crate) slice: Slice,
    pub(crate) parent: Parent,
    pub(crate) phase: Phase,
    pub(crate) name: Arc<str>,
    /// The aggregation's place in the node's table; `None` at a caller that does not have it.
    pub(crate) kind: Option<u32>,
    /// Its application's.
    pub(crate) lane: usize,
    pub(crate) params: P,
    pub(crate) deadline_at: Instant,
    pub(crate) answer_at: Instant,
    /// When the parent is to get a sign of life, if the wave is still open by then.
    pub(crate) sign_at: Option<Instant>,
    pub(crate) waiting: Waiting,
    /// How many partitions may be lost before the call is pointless.
    pub(crate) losses_max: u32,
    /// The waiting rule at work.
    pub(crate) stop: Stop,
    /// True when replicas of what is late shall be asked as well.
    pub(crate) hedge: bool,
    pub(crate) explain: bool,
    /// True when the answer shall bear the loads of those below.
    pub(crate) loads_wanted: bool,
    /// Set when locals are not run but pushed.
    pub(crate) push: Option<PushRequest>,
    /// What own workers have pushed.
    pub(crate) chains: BTreeMap<PartitionId, Chain<P>>,
    /// Own workers whose result is whole and has not been folded with others, as far as is known.
    pub(crate) unfolded: PartitionSet,
    /// Partitions whose worker is nowhere to be found, and is waited for.
    pub(crate) absent: PartitionSet,
    /// Until when.
    pub(crate) absent_until: Option<Instant>,
    /// When replicas are asked for the own partitions that are still open then.
    pub(crate) hedge_own_at: Option<Instant>,
    /// Partitions to run here.
    pub(crate) own: PartitionSet,
    /// Those of them whose local has neither given a part nor failed.
    pub(crate) own_open: PartitionSet,
    pub(crate) asked: PartitionSet,
    pub(crate) children: Vec<Child>,
    /// Former roots in whose place another was promoted. The heir may have no need to ask them, and then nobody else
    /// would tell them when the wave is over. In an announced call also children that have answered, once this node
    /// has: their workers keep what they pushed until they hear of the end.
    pub(crate) deposed: SmallVec<[(NodeId, u32); 1]>,
    pub(crate) parts: Parts<P>,
    pub(crate) losses: Vec<Missing>,
    /// Own partitions lost of which the parent has not been told.
    pub(crate) unsaid: PartitionSet,
    /// What was missing from the answer, when it has been given.
    pub(crate) answer_missing: Vec<Missing>,
    /// What was asked in vain, so that it is asked elsewhere, and not for ever.
    pub(crate) tried: Vec<Try>,
    /// Relays that were lost, silent or too slow. They have no partitions, so no loss tells of them.
    pub(crate) given_up: Vec<NodeId>,
    pub(crate) reports: Vec<Report>,
    /// How busy those below were, when that is wanted.
    pub(crate) heard: Vec<Heard>,
    pub(crate) timing: Timing,
    /// Futures that are to be dropped when the wave is over.
    pub(crate) futures: SmallVec<[JobId; 2]>,
    /// Rises whenever the wave gives up its jobs, so that what comes of them later is told from what is awaited.
    pub(crate) jobs_epoch: u64,
    /// Inline jobs that are out, and so back before anything else happens.
    pub(crate) jobs_inline: u32,
    /// What waits for the parent's grant.
    pub(crate) offered: Vec<Partial<P>>,
    /// Bytes of this wave's parts that are charged to the node's budget.
    pub(crate) charged_bytes: usize,
    /// Predicted work charged to the load index for this wave.
    pub(crate) weight: Option<Weight>,
    pub(crate) armed: Option<Instant>,
}

impl<P: Payload> Wave<P> {
    /// A wave of which nothing has been done yet.
    pub(crate) fn open(now: Instant, from: Opening<P>) -> Self {
        let Opening { tag, parent, name, kind, params, deadline_at, answer_at, .. } = from;
        Self {
            tag,
            slice: from.slice,
            parent,
            phase: Phase::Open,
            name,
            kind,
            lane: from.lane,
            params,
            deadline_at,
            answer_at,
            sign_at: None,
            waiting: from.waiting,
            losses_max: from.losses_max,
            stop: Stop::new(from.spare),
            hedge: from.hedge,
            explain: from.explain,
            loads_wanted: from.loads_wanted,
            push: from.push,
            chains: BTreeMap::new(),
            unfolded: PartitionSet::new(),
            absent: PartitionSet::new(),
            absent_until: None,
            hedge_own_at: None,
            own: PartitionSet::new(),
            own_open: PartitionSet::new(),
            asked: from.asked,
            children: Vec::new(),
            deposed: SmallVec::new(),
            parts: Parts::new(),
            losses: Vec::new(),
            unsaid: PartitionSet::new(),
            answer_missing: Vec::new(),
            tried: Vec::new(),
            given_up: Vec::new(),
            reports: Vec::new(),
            heard: Vec::new(),
            timing: Timing::starting(now),
            futures: SmallVec::new(),
            jobs_epoch: from.jobs_epoch,
            jobs_inline: 0,
            offered: Vec::new(),
            charged_bytes: 0,
            weight: None,
            armed: None,
        }
    }

    /// Notes what a child says of its own load and of those below it; nobody below has more to say than there are
    /// seats.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        child: NodeId,
        figure: LoadFigure,
        below: &[LoadNews],
        seats: usize,
    ) {
        if !self.loads_wanted {
            return;
        }
        self.heard.push(Heard { node: child, figure, as_of: now });
        let told = below.iter().take(seats.saturating_sub(1));
        self.heard.extend(told.map(|news| Heard {
            node: news.node,
            figure: news.figure,
            as_of: now - news.age,
        }));
    }

    /// True when the answer can be given before its time is up.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_own_over() && self.parts.is_settled() && self.children.iter().all(|child| child.is_done)
    }

    /// True when all that is open is open with children of which nothing is to be hoped for.
    pub(crate) fn waits_in_vain(&self) -> bool {
        self.is_own_over()
            && self.parts.is_settled()
            && self.children.iter().all(|child| child.is_done || child.is_hopeless)
    }

    /// Of `partitions`, those that no child is at work on.
    pub(crate) fn without_promised(&self, partitions: PartitionSet) -> PartitionSet {
        self.children.iter().fold(partitions, |rest, child| rest.difference(&child.promises()))
    }

    /// True when nothing is awaited but children.
    pub(crate) fn is_own_over(&self) -> bool {
        self.own_open.is_empty() && self.absent.is_empty()
    }

    /// Notes who is to hear of the end of an announced call though nothing more is expected of them.
    pub(crate) fn remember_done(&mut self) {
        if self.push.is_none() {
            return;
        }
        let done = self.children.iter().filter(|child| child.is_done && !child.is_lost);
        let done: Vec<(NodeId, u32)> = done.map(|child| (child.node, child.branch)).collect();
        self.deposed.extend(done);
    }

    /// When the wave next wants to be woken.
    pub(crate) fn wake_at(&self, now: Instant) -> Instant {
        match self.phase {
            Phase::Kept | Phase::Ended => self.deadline_at,
            Phase::Open => {
                let open = self.children.iter().filter(|child| !child.is_done);
                let children = open.flat_map(|child| [child.repair_at, child.hedge_at]).flatten();
                // A stop that has passed waits for folds, and their end is an input.
                let stop_at = self.stop.at().filter(|&at| at > now);
                children
                    .chain(self.sign_at)
                    .chain(self.hedge_own_at)
                    .chain(self.absent_until)
                    .chain(stop_at)
                    .fold(self.answer_at, Instant::min)
            }
        }
    }

    /// How far the wave has come, for its waiting rule. A wave that was asked for less after its parent was lost may
    /// hold what nobody wants of it any more: that has not come.
    pub(crate) fn progress(&self) -> Progress {
        let asked = self.asked.len();
        Progress {
            asked,
            came: asked - self.asked.difference(self.parts.claimed()).len(),
            lost: if self.losses.is_empty() { 0 } else { self.lost_for_good().len() },
            spare: self.stop.spare as usize,
        }
    }

    /// The open child that answers for `branch` from `node`.
    pub(crate) fn child_mut(&mut self, node: NodeId, branch: u32) -> Option<&mut Child> {
        self.children.iter_mut().find(|child| child.node == node && child.branch == branch)
    }

    /// Notes that a relay was of no use to this wave. At most `most` are told of.
    pub(crate) fn give_up(&mut self, relay: NodeId, most: usize) {
        if self.given_up.len() < most && !self.given_up.contains(&relay) {
            self.given_up.push(relay);
        }
    }

    /// Notes partitions as lost. At most `missing_max` losses are listed.
    pub(crate) fn note_loss(&mut self, loss: Missing, missing_max: usize) {
        note(&mut self.losses, loss, missing_max);
    }

    /// What has been asked, has not contributed, and is not open with anyone any more.
    pub(crate) fn lost_for_good(&self) -> PartitionSet {
        let mut open = self.parts.claimed().clone();
        open.union_with(&self.own_open);
        open.union_with(&self.absent);
        for child in self.children.iter().filter(|child| !child.is_done) {
            open.union_with(&child.tree.partitions().difference(&child.said_lost));
        }
        self.asked.difference(&open)
    }

    /// What is missing from an answer given now, each partition with the last reason noted for it; `otherwise`
    /// is the reason of those still open. At most `missing_max` losses are listed.
    pub(crate) fn missing(&self, me: NodeId, otherwise: &Reason, missing_max: usize) -> Vec<Missing> {
        let mut rest = self.asked.difference(self.parts.claimed());
        let mut missing = Vec::new();
        let mut take = |partitions: &PartitionSet, node: Option<NodeId>, reason: &Reason| {
            let left = rest.difference(partitions);
            let taken = rest.difference(&left);
            if !taken.is_empty() {
                rest = left;
                list(&mut missing, Missing { partitions: taken, node, reason: reason.clone() }, missing_max);
            }
        };
        self.losses.iter().rev().for_each(|loss| take(&loss.partitions, loss.node, &loss.reason));
        take(&self.own, Some(me), otherwise);
        for seat in self.children.iter().flat_map(|child| child.tree.seats()) {
            take(&seat.partitions, Some(seat.node), otherwise);
        }
        take(&self.asked, None, otherwise);
        missing
    }

    /// How this node spent its time on the wave, and its children theirs.
    pub(crate) fn report(&self, now: Instant, me: NodeId, rack: &str) -> Report {
        let arrived_at = self.timing.arrived_at;
        // Whoever has no local of its own queues for nothing: its first job is a fold of what it has waited for.
        let first_local_at = self.timing.first_job_at.filter(|_| !self.own.is_empty());
        Report {
            node: me,
            rack: rack.into(),
            partitions: self.own.clone(),
            queue: arrived_at.until(first_local_at.unwrap_or(arrived_at)),
            local: self.timing.local,
            reduce: self.timing.reduce,
            wait: self.timing.own_done_at.unwrap_or(arrived_at).until(now),
            total: arrived_at.until(now),
            children: self.reports.clone(),
        }
    }
}

/// Adds a loss to those noted: to a like one, if there is one.
pub(crate) fn note(losses: &mut Vec<Missing>, loss: Missing, missing_max: usize) {
    if loss.partitions.is_empty() {
        return;
    }
    let is_like = |old: &&mut Missing| old.node == loss.node && old.reason == loss.reason;
    match losses.iter_mut().find(is_like) {
        Some(old) => old.partitions.union_with(&loss.partitions),
        None => list(losses, loss, missing_max),
    }
}

/// Lists a loss, or adds it to the last when there is no room for more.
pub(crate) fn list(losses: &mut Vec<Missing>, loss: Missing, missing_max: usize) {
    let is_full = losses.len() >= missing_max;
    match losses.last_mut().filter(|_| is_full) {
        Some(last) => last.partitions.union_with(&loss.partitions),
        None => losses.push(loss),
    }
}
