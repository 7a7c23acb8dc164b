//! Repair: a parent's handling of a child that is lost or late (DAC §4.4, NetAgg §3.1).
//!
//! The parent holds its child's whole subtree. It sends the child's call to the grandchildren, which then
//! answer to it. If the child is still alive, the parent tells it to answer for itself alone. The child's
//! partitions are retried on a replica. One mechanism handles crashes, stragglers and pruning.
//! [`crate::wave::contributors`] ensures that no partition counts twice.
//!
//! A slow child is not a dead child. If a node's wave is still open when such answers are usually there, the node
//! tells its parent so with an empty partial, and again later ([`Patience`](crate::seat::Patience)). A child is late if
//! it has not even done that: it is stopped, cut off, or so overloaded that the difference does not matter. A
//! child that is only slow keeps its place in the tree, and staged waiting ensures that it costs no other
//! node's partitions.
//!
//! Usual times say little if something is unusual for all. So a child that is late by them, but not yet by its share of the
//! call's time, is repaired only if half of the other children have answered, if this node itself was not late to look, and
//! if the budget of late retries allows ([`retry_budget`](crate::schedule::retry_budget)).
//!
//! A caller does not fold, so it repairs the loss of its root in another way: it *promotes* the largest of
//! the root's subtrees. The head of this subtree becomes the root over the other subtrees and over the old
//! root's seat.

use crate::call::caller::CALLER_BRANCH;
use crate::call::children::own_and_child;
use crate::call::detour::is_detour;
use crate::effect::{Effect, TracePoint};
use crate::error::{Missing, Reason};
use crate::id::{NodeId, Tag};
use crate::load::figure::Took;
use crate::message::{Partial, Payload};
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Lost, Parent, Standing};
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::contributors::Part;
use crate::wave::state::{Child, Wave};
use crate::wave::table::{Desk, Waves};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Branches from here on, below those of detours, are trees of several replicas. A node of such a tree may retry a partition at
/// another, which then has a part in both branches.
const TREE_BRANCHES: u32 = 1 << 30;

/// A node that looks for a child's answer late was not served itself, and gives the child this many times as long.
const LATENESS_FACTOR: f64 = 4.0;

impl<P: Payload> Desk<'_, P> {
    /// A wave's timer has fired: its time is over, or patience with some children has ended.
    pub(crate) fn handle_wave_timeout(&mut self, now: Instant, tag: Tag) {
        let Some(mut wave) = self.waves.open.remove(&tag) else { return };
        wave.clock.armed = None;
        if now < wave.clock.answer_at {
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            let name = Child::name;
            let due = wave.seat.children.all_due(now).into_iter().map(|at| &wave.seat.children[at]);
            let late: Vec<(NodeId, u32)> =
                due.filter(|child| is_due(child.more.repair_at)).map(name).collect();
            for (child, branch) in late {
                if wave.is_late(self, now, child, branch) {
                    wave.repair(self, now, child, branch, &Reason::Late);
                }
            }
            wave.hedge_late(self, now);
            if is_due(wave.pushed.as_ref().and_then(|pushed| pushed.absent_until)) {
                wave.give_up_absent(self.cx);
            }
            if is_due(wave.clock.sign_at) {
                wave.give_sign_of_life(self.cx, now);
            }
        }
        wave.decide(self, now);
    }

    /// A peer is gone: its connection broke, or the cluster considers it dead.
    pub(crate) fn handle_peer_gone(&mut self, now: Instant, peer: NodeId) {
        let touched = |wave: &Wave<P>| {
            !wave.seat.children.open_of(peer).is_empty() || (peer.is_client() && wave.seat.parent.is(peer))
        };
        let tags: Vec<Tag> =
            self.waves.open.iter().filter(|&wave| touched(wave)).map(|wave| wave.tag).collect();
        for tag in tags {
            let Some(mut wave) = self.waves.open.remove(&tag) else { continue };
            if wave.seat.parent.is(peer) && peer.is_client() {
                wave.drop_wave(self);
                continue;
            }
            let places = wave.seat.children.open_of(peer).into_iter();
            let lost: Vec<u32> = places.map(|at| wave.seat.children[at].branch).collect();
            for branch in lost {
                wave.repair(self, now, peer, branch, &Reason::Lost);
            }
            wave.decide(self, now);
        }
    }

    /// A former root answers although another node was promoted in its place. If its answer covers all
    /// partitions, it ends the call. Otherwise it is dropped, because the promoted root gives at least as
    /// much.
    pub(crate) fn take_from_deposed(&mut self, now: Instant, from: NodeId, partial: Partial<P>) {
        let Partial { tag, payload, contributors, report, .. } = partial;
        let own_tag = Tag { branch: CALLER_BRANCH, ..tag };
        let is_awaited = self.waves.open.find(&own_tag).is_some_and(|wave| {
            wave.seat.deposed.contains(&(from, tag.branch)) && wave.asked == contributors
        });
        let Some(payload) = payload.filter(|_| is_awaited) else {
            self.cx.counters.waves.partials_late += 1;
            return;
        };
        let mut wave = self.waves.open.remove(&own_tag).expect("invariant: the wave was found above");
        wave.claim(Part { payload, contributors });
        wave.tale.reports.extend(report.map(|report| *report));
        wave.answer(self, now, &Reason::Late);
        wave.decide(self, now);
    }
}

impl<P: Payload> Waves<P> {
    /// True if some open wave waits for `peer` or answers to it.
    pub(crate) fn works_with(&self, peer: NodeId) -> bool {
        let of_peer =
            |wave: &Wave<P>| wave.seat.parent.is(peer) || !wave.seat.children.open_of(peer).is_empty();
        self.open.iter().any(of_peer)
    }

    /// The nodes of which some are meant that open waves wait for.
    pub(crate) fn awaited(&self, is_meant: impl Fn(&NodeId) -> bool) -> BTreeSet<NodeId> {
        let children = self.open.iter().flat_map(|wave| wave.seat.children.iter_open());
        children.map(|child| child.node).filter(is_meant).collect()
    }
}

impl<P: Payload> Wave<P> {
    /// Takes over the subtree of a child that is lost or late.
    fn repair(&mut self, desk: &mut Desk<'_, P>, now: Instant, node: NodeId, branch: u32, reason: &Reason) {
        let Some(at) = self.seat.children.find_open(node, branch) else { return };
        self.lose_patience(at);
        let tree = self.seat.children[at].tree().clone();
        desk.cx.counters.waves.repairs += 1;
        if self.ask.explain {
            self.losses.note_replaced(node);
        }
        if tree.root().is_relay() && !is_detour(branch) {
            self.losses.give_up(node, desk.cx.config.limits.missing_max);
            if *reason == Reason::Late {
                let waited = self.seat.children[at].asked_at.until(now);
                self.blame(desk.cx, node, Took::all(waited));
            }
        }
        let trace = TracePoint::Repaired { tag: self.tag, child: node, reason: reason.clone() };
        desk.cx.effects.push_back(Effect::Trace(trace));
        let is_lost = *reason == Reason::Lost;
        if self.seat.parent == Parent::Top && tree.root().size > 1 {
            if self.promote(desk, now, &tree, branch) {
                return;
            }
            if !is_lost {
                // All nodes below the child lost patience before this one did. The child stays, and may still
                // answer.
                self.seat.children.set_standing(at, Standing::Hopeless);
                return;
            }
        }
        let standing = if is_lost { Standing::Gone } else { Standing::Hopeless };
        let Lost { own, orphans, .. } = self.seat.children.lose(at, standing);
        self.losses.note_changed(&own);
        if is_lost {
            desk.cx.credit.forget(own_and_child(self.tag, node, branch));
        }
        self.adopt(desk, now, branch, &orphans);
        // A child without children is also asked once more: a stopped parent passes its calls on when it
        // wakes, and may have made the child answer there. If the child has made an offer, its partial is on
        // its way here.
        let has_offered = desk.cx.credit.knows(own_and_child(self.tag, node, branch));
        let owes_its_own = !own.is_empty() && !has_offered;
        if !is_lost && (owes_its_own || !orphans.is_empty()) {
            let alone = Tree::leaf(node, own.clone());
            let times = (self.clock.answer_at, None);
            self.send_call(desk.cx, now, Tag { branch, ..self.tag }, &alone, times, false);
        }
        if is_lost {
            let loss = Missing { partitions: own.clone(), node: Some(node), reason: Reason::Lost };
            self.losses.note(loss, desk.cx.config.limits.missing_max);
            self.retry(desk, now, &own, node);
            self.detour(desk, now, &own, node);
            self.await_absent(now, &own);
        } else if self.has_replica(desk.cx, &own, node) && desk.waves.retry_budget.spend(1) {
            self.retry(desk, now, &own, node);
        } else if owes_its_own && !is_detour(self.tag.branch) && desk.waves.retry_budget.spend(1) {
            self.detour(desk, now, &own, node);
        }
    }

    /// True if a child is late whose patience has ended. Otherwise it gets more time.
    fn is_late(&mut self, desk: &mut Desk<'_, P>, now: Instant, node: NodeId, branch: u32) -> bool {
        let Some(at) = self.seat.children.find_open(node, branch) else { return false };
        let answered = self.seat.children.len() - self.seat.children.open();
        let child = &self.seat.children[at];
        let at_most = desk.cx.patience(child.more.answer_at, None);
        let Some(at_most) = at_most.silent_at(child.heard_at, child.height()).filter(|&at| now < at) else {
            return true;
        };
        let later = child.more.repair_at.and_then(|at| desk.cx.later_if_late_to_look(at, now));
        let others = self.seat.children.len() - 1;
        let more = if let Some(later) = later {
            later
        } else if 2 * answered < others {
            desk.cx
                .patience(child.more.answer_at, child.sign_pause(now))
                .silent_at(now, child.height())
                .unwrap_or(at_most)
        } else if desk.waves.retry_budget.spend(1) {
            return true;
        } else {
            at_most
        };
        self.seat.children[at].more.repair_at = Some(more.min(at_most));
        let due_at = self.seat.children[at].more.due_at();
        self.seat.children.set_due(at, due_at);
        false
    }

    /// Silence of a child has been handled.
    fn lose_patience(&mut self, at: usize) {
        let asked = &mut self.seat.children[at].more;
        asked.repair_at = None;
        let due_at = asked.due_at();
        self.seat.children.set_due(at, due_at);
    }

    /// Makes the head of the root's largest subtree the root, over its siblings and over the old root's seat. One that is no
    /// member any more is made root only if there is no other. Returns false if no head is eligible.
    ///
    /// A former root is not eligible. Otherwise two roots that are both gone would be promoted in turns, as
    /// fast as connections to them are refused, and each refusal would cause as many calls as are open.
    fn promote(&mut self, desk: &mut Desk<'_, P>, now: Instant, tree: &Tree, branch: u32) -> bool {
        let old = tree.root();
        let mut heirs: Vec<Tree> = tree.children().collect();
        let is_fit = |tree: &Tree| self.seat.deposed.iter().all(|&(node, _)| node != tree.root().node);
        let fit = (0..heirs.len()).filter(|&at| is_fit(&heirs[at]));
        let is_member = |at: usize| desk.cx.view().contains(&heirs[at].root().node);
        let Some(at) = fit.max_by_key(|&at| (is_member(at), heirs[at].root().size, core::cmp::Reverse(at)))
        else {
            return false;
        };
        let heir = heirs.swap_remove(at);
        let mut children: Vec<Tree> = heir.children().collect();
        children.append(&mut heirs);
        if !old.partitions.is_empty() {
            children.push(Tree::leaf(old.node, old.partitions.clone()));
        }
        let promoted = Tree::join(heir.root().node, heir.root().partitions.clone(), &children);
        self.forget_children(desk.cx, |child| child.node == old.node && child.branch == branch);
        self.seat.deposed.push((old.node, branch));
        self.adopt(desk, now, branch, &[promoted]);
        true
    }

    pub(crate) fn has_replica(&self, cx: &Context<P>, partitions: &PartitionSet, failed: NodeId) -> bool {
        let service = service_of(&self.ask.name);
        partitions.iter().any(|p| cx.view().providers(service, p).iter().any(|&node| node != failed))
    }

    /// Asks replicas for partitions that `failed` did not give, while time and tries are left.
    pub(crate) fn retry(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        partitions: &PartitionSet,
        failed: NodeId,
    ) {
        // A node that was hedged before it failed counts once.
        if !self.losses.tries.knows(partitions, failed) {
            self.losses.note_try(partitions, Some(failed));
        }
        let partitions = self.unpromised(partitions, failed);
        desk.cx.counters.waves.retries += self.ask_replicas(desk, now, &partitions);
    }

    /// Asks once more for partitions whose partial came in a part that overlapped. No node has failed: the
    /// same node may be asked, and then answers for these alone. This counts as a try, because otherwise two
    /// ways that keep overlapping would be asked without end.
    pub(crate) fn ask_again(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        partitions: &PartitionSet,
        giver: NodeId,
    ) {
        let partitions = self.unpromised(partitions, giver);
        self.losses.note_try(&partitions, None);
        desk.cx.counters.waves.retries += self.ask_replicas(desk, now, &partitions);
    }

    /// Asks a replica for each of the partitions that is not here. Returns how many trees were asked.
    pub(crate) fn ask_replicas(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        partitions: &PartitionSet,
    ) -> u64 {
        let mut trees = self.trees_of_replicas(desk.cx, now, partitions);
        // A caller that cannot fold asks several replicas as one tree.
        if self.ask.kind.is_none() {
            trees = joined(trees).into_iter().collect();
        }
        let asked = trees.len() as u64;
        for tree in trees {
            self.adopt(desk, now, branch_of(&tree), &[tree]);
        }
        asked
    }

    /// A leaf for each replica that can be asked for some of the partitions that are not here.
    pub(crate) fn trees_of_replicas(
        &self,
        cx: &Context<P>,
        now: Instant,
        partitions: &PartitionSet,
    ) -> Vec<Tree> {
        let wanted = partitions.difference(self.parts.claimed());
        let shortest = cx.config.tuning.hop_margin;
        if wanted.is_empty() || now.until(self.clock.answer_at) <= shortest.into() {
            return Vec::new();
        }
        let mut chosen: BTreeMap<NodeId, PartitionSet> = BTreeMap::new();
        for partition in wanted.iter() {
            if let Some(node) = self.next_replica(cx, now, partition) {
                chosen.entry(node).or_default().insert(partition);
            }
        }
        chosen.into_iter().map(|(node, set)| Tree::leaf(node, set)).collect()
    }

    /// A replica of `partition` that has not failed in this wave: the least loaded one in sight. An ejected
    /// node, which looks idle because it fails, is chosen only if there is no other.
    fn next_replica(&self, cx: &Context<P>, now: Instant, partition: u32) -> Option<NodeId> {
        let failed = self.losses.tries.of(partition);
        if failed.len() >= cx.config.tuning.tries_max as usize {
            return None;
        }
        let has_failed = |&node: &NodeId| failed.contains(&Some(node));
        let service = service_of(&self.ask.name);
        let untried = cx.view().providers(service, partition).iter().filter(|node| !has_failed(node));
        let queued = |node: NodeId| cx.loads.table.of(node).map(|known| known.figure.queued);
        let is_ejected = |node: NodeId| cx.loads.replicas.ejection().is_ejected(node, now);
        untried.min_by_key(|&&node| (is_ejected(node), queued(node), node)).copied()
    }
}

impl<P: Payload> Context<P> {
    /// When to look again at work that this node was to look at earlier, if it was itself not served until now.
    pub(crate) fn later_if_late_to_look(&self, planned_at: Instant, now: Instant) -> Option<Instant> {
        let late_by = planned_at.until(now);
        let is_late = late_by > self.config.tuning.hop_margin.into();
        is_late.then(|| now + late_by.mul_f64(LATENESS_FACTOR))
    }
}

/// One tree of all, whose head is the first.
pub(crate) fn joined(mut trees: Vec<Tree>) -> Option<Tree> {
    if trees.len() < 2 {
        return trees.pop();
    }
    let head = trees.swap_remove(0);
    Some(Tree::join(head.root().node, head.root().partitions.clone(), &trees))
}

/// The branch in which replicas are asked.
pub(crate) fn branch_of(tree: &Tree) -> u32 {
    let least = tree.partitions().least().expect("a tree of replicas has partitions");
    least + if tree.root().size > 1 { TREE_BRANCHES } else { 1 }
}

/// True if a branch is a tree of replicas, or a detour.
pub(crate) fn is_second_tree(branch: u32) -> bool {
    (TREE_BRANCHES..CALLER_BRANCH).contains(&branch)
}

/// The service of `service/aggregation`.
pub(crate) fn service_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(service, _)| service)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::{NodeConfig, Tuning};
    use crate::input::Input;
    use crate::limits::Limits;
    use crate::membership::card::{MemberCard, ServiceCard};
    use crate::message::Message;
    use crate::node::Node;
    use crate::replica::ejection::ERRORS_MAX;
    use crate::replica::in_flight::PlacedCall;
    use crate::time::Duration;
    use crate::wave::ask::Ask;
    use crate::wave::slice::Slice;
    use crate::wave::state::Opening;
    use crate::wave::wait::Waiting;
    use alloc::sync::Arc;
    use bytes::Bytes;

    pub(crate) const NOW: Instant = Instant::START;

    pub(crate) fn name_of(number: u8) -> NodeId {
        NodeId::new(([10, 0, 0, number], 7700).into(), 1)
    }

    fn card(number: u8, partitions: PartitionSet) -> MemberCard {
        let mut card = MemberCard::new(name_of(number));
        card.services.insert("s".into(), ServiceCard { partitions, total: 1, declared: true, placed: None });
        card
    }

    /// Node 0, which knows three replicas of the one partition: 1, 2 and 3.
    pub(crate) fn front() -> Node<Bytes> {
        let config = NodeConfig {
            card: card(0, PartitionSet::new()),
            kinds: Vec::new(),
            tuning: Tuning::LAN,
            limits: Limits::DEFAULT,
            shares: Default::default(),
            pushed: Default::default(),
            placed: Default::default(),
            seed: 1,
        };
        let mut front = Node::new(config, NOW);
        let cards = [1, 2, 3].map(|number| Arc::new(card(number, PartitionSet::first(1))));
        let message = Message::Cards(Vec::from(cards).into());
        front.handle_input(NOW, Input::Message { from: name_of(1), message });
        front
    }

    /// A wave in which these replicas have failed.
    pub(crate) fn wave(failed: &[u8]) -> Wave<Bytes> {
        let later = NOW + Duration::from_secs(1);
        let opening = Opening {
            tag: Tag { wave: crate::id::WaveId { origin: 1, sequence: 1 }, branch: 0 },
            parent: Parent::Top,
            asked: PartitionSet::first(1),
            answer_at: later,
            spare: 0,
            jobs_epoch: 0,
        };
        let ask = Ask {
            slice: Slice::WHOLE,
            name: "s/sum".into(),
            kind: None,
            account_id: 0,
            params: Bytes::new().into(),
            deadline_at: later,
            waiting: Waiting::Staged,
            losses_max: 0,
            hedge: false,
            explain: false,
            loads_wanted: false,
            push: None,
            in_flight: 0,
            whole: false,
        };
        let mut wave = Wave::open(NOW, opening, ask);
        for &number in failed {
            wave.losses.trouble().tries.note(&PartitionSet::first(1), Some(name_of(number)));
        }
        wave
    }

    #[test]
    fn retries_ask_ejected_nodes_only_if_there_is_no_other() {
        let mut front = front();
        assert_eq!(
            wave(&[3]).next_replica(&front.cx, NOW, 0),
            Some(name_of(1)),
            "as good as the other, and first by id"
        );
        let reason = Reason::LocalFailed("at once".into());
        let failure = Missing { partitions: PartitionSet::first(1), node: Some(name_of(1)), reason };
        for _ in 0..ERRORS_MAX {
            front.cx.loads.replicas.ended(PlacedCall::default(), [&failure].into_iter(), &[], NOW);
        }
        assert_eq!(wave(&[3]).next_replica(&front.cx, NOW, 0), Some(name_of(2)));
        assert_eq!(wave(&[2, 3]).next_replica(&front.cx, NOW, 0), Some(name_of(1)), "there is no other");
        let later = NOW + Duration::from_secs(2);
        assert_eq!(wave(&[3]).next_replica(&front.cx, later, 0), Some(name_of(1)), "it is tried again");
    }
}
