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
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::state::{Child, Try, Wave};
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// When replicas of a child that is asked now shall be asked too. Who stands in for another is not hedged.
    pub(crate) fn hedge_at(&mut self, now: Instant, wave: &Wave<P>, tree: &Tree) -> Option<Instant> {
        if !wave.hedge || tree.root().size > 1 {
            return None;
        }
        let stands_in = |one: &Try| one.partitions.intersects(&tree.root().partitions);
        if wave.tried.iter().any(stands_in) {
            return None;
        }
        self.unusual_at(now, wave)
    }

    /// When replicas of this node itself shall be asked. A leaf leaves that to its parent, or both would ask.
    pub(crate) fn plan_own_hedge(&mut self, now: Instant, wave: &mut Wave<P>) {
        if wave.hedge && !wave.own_open.is_empty() && !wave.children.is_empty() {
            wave.hedge_own_at = self.unusual_at(now, wave);
        }
    }

    /// From when on work that begins now takes unusually long.
    fn unusual_at(&mut self, now: Instant, wave: &Wave<P>) -> Option<Instant> {
        self.hedge_budget.earn();
        let usual = self.child_times.leaf_p95(&wave.name)?;
        Some(now + usual).filter(|&at| at < wave.answer_at)
    }

    /// Asks replicas for what has become unusually late.
    pub(crate) fn hedge_late(&mut self, now: Instant, wave: &mut Wave<P>) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(wave.hedge_own_at) {
            wave.hedge_own_at = None;
            let open = wave.own_open.clone();
            self.hedge(now, wave, self.me, &open);
        }
        let mut late: Vec<(NodeId, PartitionSet)> = Vec::new();
        for child in wave.children.iter_mut().filter(|child| !child.is_done && is_due(child.hedge_at)) {
            child.hedge_at = None;
            late.push((child.node, child.promises()));
        }
        for (node, open) in late {
            self.hedge(now, wave, node, &open);
        }
    }

    fn hedge(&mut self, now: Instant, wave: &mut Wave<P>, node: NodeId, partitions: &PartitionSet) {
        let open = partitions.difference(wave.parts.claimed());
        if !self.has_replica(wave, &open, node) || !self.hedge_budget.spend() {
            return;
        }
        wave.tried.push(Try { partitions: open.clone(), failed: Some(node) });
        self.counters.hedges += self.ask_replicas(now, wave, &open);
    }

    /// Of `partitions`, which did not come from `node`, those that nobody else is at work on: a hedge may still
    /// give what its rival did not.
    pub(crate) fn unpromised(wave: &Wave<P>, partitions: &PartitionSet, node: NodeId) -> PartitionSet {
        if !wave.hedge {
            return partitions.clone();
        }
        let rest = partitions.difference(&wave.own_open);
        let others = wave.children.iter().filter(|child| child.node != node);
        others.fold(rest, |rest, child| rest.difference(&child.promises()))
    }

    /// Whoever is at work on nothing but what has come by another way need not be any more.
    pub(crate) fn dismiss_rivals(&mut self, now: Instant, wave: &mut Wave<P>) {
        if wave.tried.is_empty() {
            return;
        }
        let claimed = wave.parts.claimed();
        wave.own_open = wave.own_open.difference(claimed);
        let is_beaten = |child: &&mut Child| {
            let partitions = child.tree.partitions();
            !child.is_done && !partitions.is_empty() && partitions.is_subset(claimed)
        };
        let mut beaten: Vec<(NodeId, u32)> = Vec::new();
        for child in wave.children.iter_mut().filter(is_beaten) {
            child.is_done = true;
            if child.tree.root().size == 1 {
                self.child_times.observe_silence(&wave.name, child.asked_at.until(now));
            }
            beaten.push((child.node, child.branch));
        }
        for (node, branch) in beaten {
            self.credit.forget((wave.tag, node, branch));
            self.send(node, Message::Cancel { tag: Tag { branch, ..wave.tag } });
        }
    }
}
