//! Hedging: a parent asks a replica too, before it abandons the node that it asked first (Dean and Barroso,
//! The Tail at Scale, 2013).
//!
//! Repair is for silent nodes; a hedge is for slow ones. If the call asks for it, and a leaf has been at work
//! for longer than 95 % of that aggregation's leaves take here, its parent asks replicas for the partitions
//! that the leaf has not given. A node that has children asks replicas for its own partitions. The first
//! answer wins, and the other node gets `Cancel`. A replica is asked as in a retry, by a separate branch, and
//! this counts as a try. [`crate::wave::contributors`] ensures that no partition counts twice.
//!
//! Inner children are not hedged: their time depends on their children, which they watch themselves. The
//! number of hedges is bounded to `Tuning::hedge_share` of the leaves asked
//! ([`crate::schedule::retry_budget`]), so that under overload, when all nodes are slow, work is not done
//! twice.

use crate::id::{NodeId, Tag};
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::state::{Child, Wave};
use crate::wave::table::Desk;
use alloc::vec::Vec;

impl<P: Payload> Wave<P> {
    /// When replicas of a child that is asked now must be asked too. A child that replaces another one is not
    /// hedged.
    pub(crate) fn hedge_at(&self, desk: &mut Desk<'_, P>, now: Instant, tree: &Tree) -> Option<Instant> {
        if !self.ask.hedge || tree.root().size > 1 {
            return None;
        }
        if self.losses.tries.partitions().intersects(&tree.root().partitions) {
            return None;
        }
        self.unusual_at(desk, now)
    }

    /// Sets the time at which replicas of this node's partitions are asked. A leaf leaves that to its parent,
    /// because otherwise both would ask.
    pub(crate) fn plan_own_hedge(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        if self.ask.hedge && !self.locals.open.is_empty() && !self.seat.children.is_empty() {
            self.locals.hedge_at = self.unusual_at(desk, now);
        }
    }

    /// The time from which work that begins now takes unusually long.
    fn unusual_at(&self, desk: &mut Desk<'_, P>, now: Instant) -> Option<Instant> {
        desk.waves.hedge_budget.earn();
        let usual = desk.cx.loads.child_times.usual(&self.ask.name, 0)?;
        Some(now + usual).filter(|&at| at < self.clock.answer_at)
    }

    /// Asks replicas for partitions that are unusually late.
    pub(crate) fn hedge_late(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.locals.hedge_at) {
            self.locals.hedge_at = None;
            let open = self.locals.open.clone();
            self.hedge(desk, now, desk.cx.me, &open);
        }
        let mut late: Vec<(NodeId, PartitionSet)> = Vec::new();
        for at in self.seat.children.all_due(now) {
            let child = &mut self.seat.children[at];
            if is_due(child.more.hedge_at) {
                child.more.hedge_at = None;
                late.push((child.node, child.promises()));
                let due_at = child.more.due_at();
                self.seat.children.set_due(at, due_at);
            }
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
        self.losses.note_try(&open, Some(node));
        desk.cx.counters.waves.hedges += self.ask_replicas(desk, now, &open);
    }

    /// The part of `partitions` that no other node is working on. They did not come from `node`, but a hedge
    /// may still give them.
    pub(crate) fn unpromised(&mut self, partitions: &PartitionSet, node: NodeId) -> PartitionSet {
        if !self.ask.hedge {
            return partitions.clone();
        }
        let rest = partitions.difference(&self.locals.open);
        if !self.seat.children.owed().by_any().intersects(&rest) {
            return rest;
        }
        let others = self.seat.children.iter_open().filter(|child| child.node != node);
        others.fold(rest, |rest, child| rest.difference(&child.promises()))
    }

    /// Notes which partitions children are asked for although they have arrived. An answered wave that is asked for more
    /// has kept what it gave, and asks its new subtrees for all that they hold.
    pub(crate) fn note_asked_again(&mut self, trees: &[Tree]) {
        if self.losses.changed.is_some() && !self.parts.claimed().is_empty() {
            for tree in trees {
                let had = tree.partitions().intersection(self.parts.claimed());
                self.losses.note_changed(&had);
            }
        }
    }

    /// Cancels children that work only on partitions that have arrived by another way.
    pub(crate) fn dismiss_rivals(&mut self, cx: &mut Context<P>, now: Instant) {
        if !self.losses.have_rivals {
            return;
        }
        let trouble = self.losses.trouble();
        trouble.have_rivals = false;
        let changed = trouble.changed.replace(PartitionSet::new());
        let claimed = self.parts.claimed();
        if !self.locals.open.is_empty() {
            self.locals.open.subtract(claimed);
        }
        let is_beaten = |child: &Child| {
            child.is_open() && !child.answers_for.is_empty() && child.answers_for.is_subset(claimed)
        };
        // All children are scanned only if one of them may be responsible for partitions that have arrived
        // since the last scan.
        if changed.is_some_and(|changed| !self.seat.children.is_any_for(&changed)) {
            debug_assert!(
                !self.seat.children.iter().any(is_beaten),
                "a child answers only for partitions that have arrived"
            );
            return;
        }
        let places = (0..self.seat.children.len()).filter(|&at| is_beaten(&self.seat.children[at]));
        let places: Vec<usize> = places.collect();
        let mut beaten: Vec<(NodeId, u32)> = Vec::with_capacity(places.len());
        for at in places {
            self.seat.children.set_standing(at, Standing::Done);
            let child = &self.seat.children[at];
            if child.is_leaf() {
                cx.loads.child_times.observe_silence(&self.ask.name, child.asked_at.until(now));
            }
            beaten.push(child.name());
        }
        for (node, branch) in beaten {
            cx.credit.forget((self.tag, node, branch));
            cx.send(node, Message::Cancel { tag: Tag { branch, ..self.tag } });
        }
    }
}
