//! Hedging: asking a replica too, before the first asked is given up (Dean and Barroso, The Tail at Scale, 2013).
//!
//! Repair is for the silent; a hedge is for the slow. When a call asks for it, and a leaf has been at work for longer
//! than nineteen of twenty leaves of that aggregation take here, its parent asks replicas for what the leaf has not
//! given; and a node that has children asks them for its own partitions. The first answer wins and the other's sender
//! gets `Cancel`. A replica is asked as in a retry, by a branch of its own, and it counts as a try; that nothing
//! counts twice is the business of [`crate::wave::contributors`].
//!
//! Inner children are not hedged: their time is their children's, who are watched by them. How many hedges there
//! may be is bounded to `Tuning::hedge_share` of the leaves asked ([`crate::schedule::retry_budget`]), so that
//! in a rush, when all are slow, the work is not done twice.

use crate::id::{NodeId, Tag};
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::state::{Child, Try, Wave};
use crate::wave::table::Desk;
use alloc::vec::Vec;

impl<P: Payload> Wave<P> {
    /// When replicas of a child that is asked now shall be asked too. Who stands in for another is not hedged.
    pub(crate) fn hedge_at(&self, desk: &mut Desk<'_, P>, now: Instant, tree: &Tree) -> Option<Instant> {
        if !self.hedge || tree.root().size > 1 {
            return None;
        }
        let stands_in = |one: &Try| one.partitions.intersects(&tree.root().partitions);
        if self.tried.iter().any(stands_in) {
            return None;
        }
        self.unusual_at(desk, now)
    }

    /// When replicas of this node itself shall be asked. A leaf leaves that to its parent, or both would ask.
    pub(crate) fn plan_own_hedge(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        if self.hedge && !self.own_open.is_empty() && !self.children.is_empty() {
            self.hedge_own_at = self.unusual_at(desk, now);
        }
    }

    /// From when on work that begins now takes unusually long.
    fn unusual_at(&self, desk: &mut Desk<'_, P>, now: Instant) -> Option<Instant> {
        desk.waves.hedge_budget.earn();
        let usual = desk.cx.loads.child_times.leaf_p95(&self.name)?;
        Some(now + usual).filter(|&at| at < self.answer_at)
    }

    /// Asks replicas for what has become unusually late.
    pub(crate) fn hedge_late(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.hedge_own_at) {
            self.hedge_own_at = None;
            let open = self.own_open.clone();
            self.hedge(desk, now, desk.cx.me, &open);
        }
        let mut late: Vec<(NodeId, PartitionSet)> = Vec::new();
        for child in self.children.iter_mut().filter(|child| !child.is_done && is_due(child.hedge_at)) {
            child.hedge_at = None;
            late.push((child.node, child.promises()));
        }
        for (node, open) in late {
            self.hedge(desk, now, node, &open);
        }
    }

    fn hedge(&mut self, desk: &mut Desk<'_, P>, now: Instant, node: NodeId, partitions: &PartitionSet) {
        let open = partitions.difference(self.parts.claimed());
        if !self.has_replica(desk.cx, &open, node) || !desk.waves.hedge_budget.spend() {
            return;
        }
        self.tried.push(Try { partitions: open.clone(), failed: Some(node) });
        desk.cx.counters.hedges += self.ask_replicas(desk, now, &open);
    }

    /// Of `partitions`, which did not come from `node`, those that nobody else is at work on: a hedge may still
    /// give what its rival did not.
    pub(crate) fn unpromised(&self, partitions: &PartitionSet, node: NodeId) -> PartitionSet {
        if !self.hedge {
            return partitions.clone();
        }
        let rest = partitions.difference(&self.own_open);
        let others = self.children.iter().filter(|child| child.node != node);
        others.fold(rest, |rest, child| rest.difference(&child.promises()))
    }

    /// Whoever is at work on nothing but what has come by another way need not be any more.
    pub(crate) fn dismiss_rivals(&mut self, cx: &mut Context<P>, now: Instant) {
        if self.tried.is_empty() {
            return;
        }
        let claimed = self.parts.claimed();
        self.own_open = self.own_open.difference(claimed);
        let is_beaten = |child: &&mut Child| {
            let partitions = child.tree.partitions();
            !child.is_done && !partitions.is_empty() && partitions.is_subset(claimed)
        };
        let mut beaten: Vec<(NodeId, u32)> = Vec::new();
        for child in self.children.iter_mut().filter(is_beaten) {
            child.is_done = true;
            if child.tree.root().size == 1 {
                cx.loads.child_times.observe_silence(&self.name, child.asked_at.until(now));
            }
            beaten.push((child.node, child.branch));
        }
        for (node, branch) in beaten {
            cx.credit.forget((self.tag, node, branch));
            cx.send(node, Message::Cancel { tag: Tag { branch, ..self.tag } });
        }
    }
}
