//! Detours: a member that this node cannot reach, and that no replica stands in for, is asked by way of another member.
//!
//! A link between two nodes can break while both reach all others. Then a replica is the better way, because it costs
//! nothing more; but a partition with one replica would be lost although its node lives. So the parent asks another member,
//! the *go-between*, to take a seat without partitions, with the unreachable node as its only child. The go-between is an
//! inner node like any other, and nothing else in the wave knows of the detour.
//!
//! The branch of a detour is the least partition that it is for, above [`DETOUR_BRANCHES`]. So a go-between that cannot
//! reach the node either knows that it must not make a detour of its own. Each go-between counts as a try for its
//! partitions, so there are fewer of them than `tries_max`.

use crate::call::caller::CALLER_BRANCH;
use crate::call::repair::service_of;
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Standing;
use crate::time::Instant;
use crate::tree::Tree;
use crate::wave::state::Wave;
use crate::wave::table::Desk;

/// Branches from here on are detours. Branches of retries are below, because there are fewer partitions.
pub(crate) const DETOUR_BRANCHES: u32 = 1 << 31;

/// True if a branch is a detour.
pub(crate) fn is_detour(branch: u32) -> bool {
    (DETOUR_BRANCHES..CALLER_BRANCH).contains(&branch)
}

impl<P: Payload> Wave<P> {
    /// Asks another member to ask `unreached` for those of its partitions that have no other replica, while time and tries
    /// are left.
    pub(crate) fn detour(
        &mut self,
        desk: &mut Desk<'_, P>,
        now: Instant,
        partitions: &PartitionSet,
        unreached: NodeId,
    ) {
        let shortest = desk.cx.config.tuning.hop_margin;
        let is_late = now.until(self.clock.answer_at) <= shortest.into();
        let may_live = desk.cx.view().contains(&unreached);
        if is_late || !may_live || is_detour(self.tag.branch) || self.ask.push.is_some() {
            return;
        }
        let stranded = partitions.difference(self.parts.claimed());
        let stranded: PartitionSet =
            stranded.iter().filter(|&partition| self.is_stranded(desk.cx, partition, unreached)).collect();
        let Some(least) = stranded.least() else { return };
        let Some(between) = self.go_between(desk.cx, now, least, unreached) else { return };
        self.losses.note_try(&stranded, Some(between));
        desk.cx.counters.waves.retries += 1;
        let tree = Tree::join(between, PartitionSet::new(), &[Tree::leaf(unreached, stranded)]);
        let branch = DETOUR_BRANCHES + least;
        self.adopt(desk, now, branch, &[tree]);
        // The node may be silent to all. The wave gives what it has, as it does for a silent child.
        if let Some(at) = self.seat.children.find_open(between, branch) {
            self.seat.children.set_standing(at, Standing::Hopeless);
        }
    }

    /// True if no other replica of a partition can be asked, and a try is left for a detour.
    fn is_stranded(&self, cx: &Context<P>, partition: u32, unreached: NodeId) -> bool {
        let tried = self.losses.tries.of(partition);
        let providers = cx.view().providers(service_of(&self.ask.name), partition);
        let is_spent = |node: &NodeId| *node == unreached || tried.contains(&Some(*node));
        tried.len() < cx.config.tuning.tries_max as usize
            && providers.contains(&unreached)
            && providers.iter().all(is_spent)
    }

    /// The member to ask instead: the least loaded one that provides the service and was not asked for the partition.
    fn go_between(&self, cx: &Context<P>, now: Instant, partition: u32, unreached: NodeId) -> Option<NodeId> {
        let service = service_of(&self.ask.name);
        let tried = self.losses.tries.of(partition);
        let provides = |card: &crate::membership::MemberCard| {
            card.services.get(service).is_some_and(|service| !service.partitions.is_empty())
        };
        let others = cx.view().cards().filter(|card| provides(card)).map(|card| card.node);
        let untried =
            others.filter(|node| *node != cx.me && *node != unreached && !tried.contains(&Some(*node)));
        let queued = |node: NodeId| cx.loads.table.of(node).map(|known| known.figure.queued);
        let is_ejected = |node: NodeId| cx.loads.replicas.ejection().is_ejected(node, now);
        untried.min_by_key(|&node| (is_ejected(node), queued(node), node))
    }
}
