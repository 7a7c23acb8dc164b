//! Hedging: a parent asks a replica too, before it abandons the node that it asked first (Dean and Barroso,
//! The Tail at Scale, 2013).
//!
//! Repair is for silent nodes; a hedge is for slow ones. If a leaf takes too long, its parent asks replicas for
//! the partitions that the leaf has not given. A node that has children asks replicas for its own partitions.
//! The first answer wins, and the other node gets `Cancel`. A replica is asked as in a retry, by a separate
//! branch, and this counts as a try. Several replicas that are asked for one leaf's partitions form a tree, because the leaf's
//! partial cannot be taken apart, so theirs must be whole too. [`crate::wave::contributors`] ensures that no partition counts
//! twice.
//!
//! In a call with `hedge`, more than the 95th percentile of that aggregation's leaves here is too long. In
//! every other call, too long is more than the longest of
//!
//! ```text
//! HEDGE_HOPS × hop_margin
//! HEDGE_FACTOR × the 95th percentile, if it is known
//! HEDGE_FACTOR × the median time in which others gave one of their own partitions × the leaf's partitions
//! ```
//!
//! The others are the leaf's siblings in this wave, and its parent. Half of them must be done, because what is unusual for all
//! says nothing about one. A leaf without others is not hedged: requests differ in cost, and one that is costly here is costly
//! at a replica too (Zanzibar hedges only like requests). A replica is asked only if its queue is shorter than the time that
//! was waited (Mantri).
//!
//! Inner children are not hedged: their time depends on their children, which they watch themselves. The partitions asked
//! for twice are bounded to `Tuning::hedge_share` of those asked ([`crate::schedule::retry_budget`]), so that under overload,
//! when all nodes are slow, work is not done twice.

use crate::call::repair::{branch_of, is_second_tree, joined, service_of};
use crate::effect::{Effect, TracePoint};
use crate::id::{NodeId, PartitionId, Tag};
use crate::load::figure::Took;
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::wave::state::{Child, Wave};
use crate::wave::table::Desk;
use alloc::vec::Vec;

/// However quick answers are, nothing is hedged earlier than after this many hop margins.
const HEDGE_HOPS: f64 = 4.0;

/// Work is slow if it takes this many times as long as other such work.
const HEDGE_FACTOR: f64 = 2.0;

/// Work that may take too long.
struct Suspect {
    node: NodeId,
    /// The branch of a child; `None` for this node's own partitions.
    branch: Option<u32>,
    /// The partitions that are still to come.
    open: PartitionSet,
    began_at: Instant,
    /// When this node was to look at it.
    planned_at: Instant,
}

impl<P: Payload> Wave<P> {
    /// How long work that begins now may take until this node looks at it. `None` if it is never hedged: workers push when they
    /// like, and a tree of replicas is a hedge or a retry itself.
    pub(crate) fn hedge_after(&self, cx: &Context<P>) -> Option<Duration> {
        let never = self.ask.push.is_some() || cx.config.tuning.hedge_share == 0.0;
        if never || is_second_tree(self.tag.branch) {
            return None;
        }
        let usual = cx.loads.child_times.usual(&self.ask.name, 0);
        if self.ask.hedge {
            return usual;
        }
        let least = Duration::from(cx.config.tuning.hop_margin).mul_f64(HEDGE_HOPS);
        Some(usual.map_or(least, |usual| least.max(usual.mul_f64(HEDGE_FACTOR))))
    }

    /// When this node looks at a child that is asked now. A child that replaces another one is not hedged.
    pub(crate) fn hedge_at(&self, now: Instant, tree: &Tree, after: Option<Duration>) -> Option<Instant> {
        let at = now + after?;
        let root = tree.root();
        let is_first = root.size == 1 && !self.losses.tries.touch(&root.partitions);
        (is_first && at < self.clock.answer_at).then_some(at)
    }

    /// Sets the time at which this node looks at its own partitions. A leaf leaves that to its parent, because otherwise both
    /// would ask.
    pub(crate) fn plan_own_hedge(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        if self.locals.open.is_empty() || self.seat.children.is_empty() {
            return;
        }
        if let Some(after) = self.hedge_after(desk.cx) {
            desk.waves.hedge_budget.earn(self.locals.open.len());
            self.locals.hedge_at = Some(now + after).filter(|&at| at < self.clock.answer_at);
        }
    }

    /// Asks replicas for partitions that take too long.
    pub(crate) fn hedge_late(&mut self, desk: &mut Desk<'_, P>, now: Instant) {
        let suspects = self.suspects(desk.cx.me, now);
        if suspects.is_empty() {
            return;
        }
        let pace = self.pace();
        for work in suspects {
            let at = self.too_long_at(desk.cx, now, &work, pace);
            self.look_again(&work, at.filter(|&at| now < at && at < self.clock.answer_at));
            if at.is_some_and(|at| at <= now) {
                self.hedge(desk, now, &work);
            }
        }
    }

    /// The work that this node was to look at by now.
    fn suspects(&mut self, me: NodeId, now: Instant) -> Vec<Suspect> {
        let is_due = |at: &Instant| *at <= now;
        let (began_at, open) = (self.tale.timing.arrived_at, &self.locals.open);
        let own = self.locals.hedge_at.filter(is_due);
        let own = own.map(|planned_at| Suspect {
            node: me,
            branch: None,
            open: open.clone(),
            began_at,
            planned_at,
        });
        let due = self.seat.children.all_due(now).into_iter().map(|at| &self.seat.children[at]);
        let children = due.filter_map(|child| {
            let planned_at = child.more.hedge_at.filter(is_due)?;
            let ((node, branch), open, began_at) = (child.name(), child.promises(), child.asked_at);
            Some(Suspect { node, branch: Some(branch), open, began_at, planned_at })
        });
        own.into_iter().chain(children).collect()
    }

    fn look_again(&mut self, work: &Suspect, at: Option<Instant>) {
        let Some(branch) = work.branch else {
            self.locals.hedge_at = at;
            return;
        };
        if let Some(place) = self.seat.children.find_open(work.node, branch) {
            let more = &mut self.seat.children[place].more;
            more.hedge_at = at;
            let due_at = more.due_at();
            self.seat.children.set_due(place, due_at);
        }
    }

    /// When the work will have taken too long, or must be looked at again. `pace` is the median time that this node and its
    /// children have taken for one of their own partitions.
    fn too_long_at(
        &self,
        cx: &Context<P>,
        now: Instant,
        work: &Suspect,
        pace: Option<Duration>,
    ) -> Option<Instant> {
        if self.ask.hedge {
            return Some(now);
        }
        if let Some(later) = cx.later_if_late_to_look(work.planned_at, now) {
            return Some(later);
        }
        // This node's own partitions count as one child.
        let own = usize::from(!self.locals.own.is_empty());
        let open = self.seat.children.open() + usize::from(!self.locals.open.is_empty());
        let all = self.seat.children.len() + own;
        if 2 * (all - open) < all - 1 {
            return Some(now + work.began_at.until(now));
        }
        let of_siblings = pace?.mul_f64(HEDGE_FACTOR * work.open.len() as f64);
        Some(work.began_at + of_siblings.max(self.hedge_after(cx)?))
    }

    fn pace(&self) -> Option<Duration> {
        let pace = |child: &Child| {
            let own = &child.tree().root().partitions;
            child.more.took.filter(|_| !own.is_empty()).map(|took| pace_of(took, own))
        };
        let mut paces: Vec<Duration> = self.seat.children.iter().filter_map(pace).collect();
        let timing = &self.tale.timing;
        let own_done_at = timing.own_done_at.filter(|_| !self.locals.own.is_empty());
        paces.extend(own_done_at.map(|at| pace_of(timing.arrived_at.until(at), &self.locals.own)));
        let middle = paces.len() / 2;
        (!paces.is_empty()).then(|| *paces.select_nth_unstable(middle).1)
    }

    fn hedge(&mut self, desk: &mut Desk<'_, P>, now: Instant, work: &Suspect) {
        let waited = work.began_at.until(now);
        let is_worth = |&partition: &PartitionId| self.may_gain(desk.cx, partition, work.node, waited);
        let all = work.open.difference(self.parts.claimed());
        let open: PartitionSet = all.iter().filter(is_worth).collect();
        let is_own = work.branch.is_none();
        // A child gives all of its partitions at once, and so must the replicas.
        if open.is_empty() || !is_own && open != all || !desk.waves.hedge_budget.spend(open.len()) {
            return;
        }
        self.losses.note_try(&open, Some(work.node));
        if self.ask.explain {
            self.losses.note_replaced(work.node);
        }
        let trace = TracePoint::Hedged { tag: self.tag, node: work.node, partitions: open.clone() };
        desk.cx.effects.push_back(Effect::Trace(trace));
        if is_own {
            // They are done one by one.
            let alone = open.iter().map(PartitionSet::alone);
            desk.cx.counters.waves.hedges +=
                alone.map(|partition| self.ask_replicas(desk, now, &partition)).sum::<u64>();
        } else if let Some(tree) = joined(self.trees_of_replicas(desk.cx, now, &open)) {
            desk.cx.counters.waves.hedges += 1;
            self.adopt(desk, now, branch_of(&tree), &[tree]);
        }
    }

    /// True if another child promises more than these partitions from a node that was asked too, and some of them. If they were
    /// taken, all that the other child gives would be of no use.
    pub(crate) fn would_tear(&self, at: usize, contributors: &PartitionSet) -> bool {
        let child = &self.seat.children[at];
        let tries = &self.losses.tries;
        if !tries.touch(contributors) || tries.knows(contributors, child.node) {
            return false;
        }
        let others = self.seat.children.iter_open().filter(|other| other.name() != child.name());
        others.map(Child::promises).any(|more| more.intersects(contributors) && !more.is_subset(contributors))
    }

    /// True if a replica that was not tried may answer sooner than in the time that was waited for `node`.
    fn may_gain(&self, cx: &Context<P>, partition: PartitionId, node: NodeId, waited: Duration) -> bool {
        let tried = self.losses.tries.of(partition);
        let is_untried = |other: &&NodeId| **other != node && !tried.contains(&Some(**other));
        let load_ms = |other: NodeId| cx.loads.table.of(other).map_or(0.0, |known| known.figure.load_ms());
        let providers = cx.view().providers(service_of(&self.ask.name), partition).iter();
        tried.len() + 1 < cx.config.tuning.tries_max as usize
            && providers.filter(is_untried).any(|&other| load_ms(other) <= waited.as_millis_f64())
    }

    /// The part of `partitions` that no other node is working on. They did not come from `node`, but a hedge
    /// may still give them.
    pub(crate) fn unpromised(&mut self, partitions: &PartitionSet, node: NodeId) -> PartitionSet {
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
        if self.locals.open.intersects(self.parts.claimed()) {
            self.locals.open.subtract(self.parts.claimed());
            self.forget_beaten_locals(cx, now);
        }
        let claimed = self.parts.claimed();
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
        let mut beaten = Vec::with_capacity(places.len());
        for at in places {
            self.seat.children.set_standing(at, Standing::Done);
            let child = &self.seat.children[at];
            let waited = child.asked_at.until(now);
            if child.is_leaf() && self.ask.hedge {
                cx.loads.child_times.observe_silence(&self.ask.name, waited);
            }
            let was_hedged = child.is_leaf() && self.losses.tries.knows(&child.answers_for, child.node);
            let took = was_hedged.then(|| at_least(cx, child.node, waited, child.answers_for.len()));
            beaten.push((child.name(), took));
        }
        for ((node, branch), took) in beaten {
            if let Some(took) = took {
                self.blame(cx, node, took);
            }
            cx.credit.forget((self.tag, node, branch));
            cx.send(node, Message::Cancel { tag: Tag { branch, ..self.tag } });
        }
    }
}

/// How long a node's locals take at least that has not given so many partitions for so long: without its queue, and for each turn
/// of its processors.
fn at_least<P: Payload>(cx: &Context<P>, node: NodeId, waited: Duration, partitions: usize) -> Took {
    let figure = cx.loads.table.of(node).map(|known| known.figure).unwrap_or_default();
    let turns = partitions.div_ceil(figure.processors.max(1) as usize).max(1);
    let queue = Duration::from_millis_f64(figure.load_ms());
    Took::at_least(waited.saturating_sub(queue).div(turns as u64))
}

/// The time for one of so many partitions.
fn pace_of(took: Duration, partitions: &PartitionSet) -> Duration {
    took.div(partitions.len().max(1) as u64)
}
