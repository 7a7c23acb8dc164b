//! An `Open` for a stream that is known: another parent, a subtree that has grown or shrunk, a beginning anew.
//!
//! Of two who both believe to be the parent, the one with the later term is: it has given the other up. One that is
//! refused says nothing wrong, it may just not have heard of the latest terms below the one it gave up; so it is told
//! the term, by news of an empty tree, and asks again.

use super::branch::{Branch, Standing, cut, without};
use super::error::StreamError;
use super::gather::take_slot;
use super::lane::GATHERED;
use super::message::{StreamMessage, StreamNews, StreamOpen};
use super::open::TERM_LEAP_MAX;
use super::share::{Parent, Share};
use super::spec::{EndpointEvent, Source};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use alloc::vec::Vec;

impl<P: Payload> Node<P> {
    /// An `Open` for a stream that is known.
    pub(crate) fn reopen(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        open: &StreamOpen<P>,
    ) -> Result<(), StreamError> {
        if open.tree.root().node != self.me || share.front.is_some() {
            self.note_bad_message(from, "open.tree: its root is another node");
            return Ok(());
        }
        if open.term > share.term.saturating_add(TERM_LEAP_MAX) {
            self.note_bad_message(from, "open.term: far beyond the latest");
            return Ok(());
        }
        let (has_moved, was_orphan) = (share.parent != Parent::Node(from), share.orphan_since.is_some());
        if has_moved && open.tree.partitions().is_empty() {
            // It lets go of what is somebody else's already.
            return Ok(());
        }
        if has_moved && open.term <= share.term && !was_orphan {
            self.name_term(share, from, open.term);
            return Ok(());
        }
        // Whoever was a child of this node and is its parent now has been found a better place.
        if let Some(at) = share.branch_at(from) {
            let former = share.branches.remove(at);
            self.tell_filter_replaced(share, Source::Child(former.source), Vec::new());
        }
        let attaches = has_moved || was_orphan || open.rejoin;
        let is_seating = open.life > share.life;
        share.parent = Parent::Node(from);
        share.orphan_since = None;
        share.life = share.life.max(open.life);
        share.term = share.term.max(open.term);
        share.asked_term = open.term;
        share.tag_max = share.tag_max.max(open.first_tag.saturating_sub(1));
        if open.rejoin {
            self.begin_anew(share, &open.tree.partitions());
        } else {
            self.let_go(share, &open.gone);
        }
        let first_tag = share.next_tag();
        let fresh = open.tree.root().partitions.difference(&share.own_set);
        if !fresh.is_empty() {
            self.open_own(share, &fresh, first_tag);
            share.regroup();
            let opened = fresh.intersection(&share.own_set);
            share.begin_with(&opened, first_tag);
        }
        for tree in open.tree.children() {
            self.graft(now, share, &tree, is_seating);
        }
        share.regroup();
        share.news_due = true;
        // The parent may take some of them for away, who are not; it knows from where on to expect them.
        share.tell_beginnings();
        if attaches && !share.is_opening {
            self.attach(share);
        }
        self.look_at_slots(share);
        self.ask_again_for_operators(share)
    }

    /// Tells one who believes to be the parent that somebody else is, with a later term.
    fn name_term(&mut self, share: &Share<P>, from: NodeId, asked_term: u64) {
        let news = StreamNews {
            stream: share.id,
            tree: Tree::leaf(self.me, PartitionSet::new()),
            term: share.term,
            answers: asked_term,
            received: share.down.received,
            joined: Vec::new(),
            away: Vec::new(),
        };
        self.send_stream(from, StreamMessage::News(news));
    }

    /// Gives a new parent, or the old one over a new connection, all that it may lack: who is here first, so that it
    /// knows whose the rest is.
    fn attach(&mut self, share: &mut Share<P>) {
        share.down.half.clear();
        share.down.half_bytes = 0;
        self.tell_news(share);
        self.tell_taken_again(share);
        self.send_again(share);
    }

    /// Adds what is new in a child's subtree; who joins takes part once it has said so, while orphans have never left.
    pub(crate) fn graft(&mut self, now: Instant, share: &mut Share<P>, tree: &Tree, joins: bool) {
        // A list and no recursion: no chain is too deep for a stack.
        let mut rest = alloc::vec![tree.clone()];
        while let Some(tree) = rest.pop() {
            let below = self.graft_one(now, share, &tree, joins);
            rest.extend(below.into_iter().rev());
        }
    }

    /// The same for one tree. Gives back what is to be grafted in its place.
    fn graft_one(&mut self, now: Instant, share: &mut Share<P>, tree: &Tree, joins: bool) -> Vec<Tree> {
        let window_bytes = self.window_for(share, share.branches.len() + 1);
        let endpoints = tree.partitions();
        let fresh = endpoints.difference(&share.present()).difference(&share.own_set);
        let node = tree.root().node;
        let joining = Missing { partitions: fresh.clone(), node: Some(node), reason: Reason::Late };
        match share.branch_at(node) {
            Some(at) if share.branches[at].standing == Standing::There || share.branches[at].is_awaited() => {
                // Who has been held up may have been given up, and his children be another's: he asks them nothing.
                // A place that the front-end gives is news even for whom the child accounts for already: he is away.
                let has_news =
                    (joins && !fresh.is_empty()) || !fresh.is_subset(&share.branches[at].endpoints);
                if !has_news || share.dazed_until.is_some() {
                    return Vec::new();
                }
                // The parent does not know yet that some of these are this node's own children, and sit there no longer.
                let is_live = |node| {
                    share.branch_at(node).is_some_and(|at| share.branches[at].standing != Standing::Away)
                };
                let (kept, elsewhere) = cut(tree, is_live);
                if !elsewhere.is_empty() {
                    return core::iter::once(kept).chain(elsewhere).collect();
                }
                share.branches[at].grant(&fresh);
                let others = share.branches.iter_mut().filter(|branch| branch.node != node);
                others.for_each(|branch| branch.release(&fresh));
                self.drop_idle_branches(share);
                share.regroup();
                self.send_open(share, tree, window_bytes, false, PartitionSet::new());
            }
            _ if fresh.is_empty() => return Vec::new(),
            // The parent does not know yet that this one has been given up here, and its children are this node's own.
            _ if tree.root().size > 1 && fresh != endpoints => {
                let own = tree.root().partitions.intersection(&fresh);
                let is_lost = !own.is_empty() && share.branch_at(node).is_none();
                return is_lost.then(|| Tree::leaf(node, own)).into_iter().chain(tree.children()).collect();
            }
            _ => {
                self.adopt_branch(now, share, tree, window_bytes, joins);
                share.regroup();
            }
        }
        if joins {
            share.put_away(joining);
        }
        Vec::new()
    }

    /// Endpoints that are no longer this node's to account for; nor are they those below's, who are told.
    pub(crate) fn let_go(&mut self, share: &mut Share<P>, gone: &PartitionSet) {
        if gone.is_empty() {
            return;
        }
        if share.dazed_until.is_some() {
            // Children may be another's by now: they are told when that is known.
            share.let_go_meanwhile.union_with(gone);
        } else {
            self.tell_let_go(share, |branch| {
                if branch.endpoints.intersects(gone) { gone.clone() } else { PartitionSet::new() }
            });
        }
        self.forget_endpoints(share, gone);
        self.look_at_slots(share);
    }

    /// The node knows by now whose its children are: they hear of what it was told to let go meanwhile, but for what
    /// they have been given again.
    pub(crate) fn tell_let_go_meanwhile(&mut self, share: &mut Share<P>) {
        let gone = core::mem::take(&mut share.let_go_meanwhile);
        self.tell_let_go(share, |branch| gone.intersection(&branch.formerly).difference(&branch.endpoints));
    }

    /// Tells children which endpoints are no longer theirs to account for.
    fn tell_let_go(&mut self, share: &mut Share<P>, gone_from: impl Fn(&Branch<P>) -> PartitionSet) {
        let each = share.live().map(|branch| (&branch.tree, gone_from(branch)));
        let concerned = each.filter(|(_, gone)| !gone.is_empty());
        let told: Vec<(Tree, PartitionSet)> =
            concerned.map(|(tree, gone)| (without(tree, &gone), gone)).collect();
        for (tree, gone) in told {
            let window_bytes = self.window_for(share, share.branches.len());
            self.send_open(share, &tree, window_bytes, false, gone);
        }
    }

    fn forget_endpoints(&mut self, share: &mut Share<P>, gone: &PartitionSet) {
        let (kept, lost): (Vec<_>, Vec<_>) =
            core::mem::take(&mut share.own).into_iter().partition(|own| !gone.contains(own.endpoint));
        share.own = kept;
        for own in &lost {
            self.close_own(share.id, own, &StreamError::Closed);
            self.tell_filter_replaced(share, Source::Endpoint(own.endpoint), Vec::new());
        }
        share.branches.iter_mut().for_each(|branch| branch.release(gone));
        let (kept, lost): (Vec<_>, Vec<_>) =
            core::mem::take(&mut share.branches).into_iter().partition(|branch| !branch.endpoints.is_empty());
        share.branches = kept;
        for branch in lost.iter().filter(|branch| branch.standing != Standing::Away) {
            self.tell_filter_replaced(share, Source::Child(branch.source), Vec::new());
        }
        for loss in &mut share.away {
            loss.partitions = loss.partitions.difference(gone);
        }
        share.regroup();
        forget_lanes(share);
        self.forget_taken(share);
    }

    /// Who accounts for nobody any more is no child.
    pub(crate) fn drop_idle_branches(&mut self, share: &mut Share<P>) {
        let branches = core::mem::take(&mut share.branches).into_iter();
        let (kept, idle): (Vec<_>, Vec<_>) = branches.partition(|branch| !branch.endpoints.is_empty());
        share.branches = kept;
        for branch in idle.iter().filter(|branch| branch.standing != Standing::Away) {
            self.tell_filter_replaced(share, Source::Child(branch.source), Vec::new());
        }
    }

    /// This node was given up and is back: what it holds of waves that went on without it is of no use.
    fn begin_anew(&mut self, share: &mut Share<P>, keep: &PartitionSet) {
        share.dazed_until = None;
        share.gone_meanwhile.clear();
        share.let_go_meanwhile = PartitionSet::new();
        let gone = share.group.difference(keep);
        self.forget_endpoints(share, &gone);
        if !share.gathers() {
            return;
        }
        let first_tag = share.next_tag();
        share.cohorts.clear();
        share.ready.clear();
        share.opened.clear();
        share.carried.clear();
        share.held_bytes = 0;
        share.held_of.clear();
        share.unsettled_bytes = 0;
        share.unmarked_bytes = 0;
        if let Some(lane) = share.lanes.get_mut(&GATHERED) {
            lane.slots.clear();
            lane.sent.clear();
            lane.withheld = super::tags::TagRuns::new();
        }
        let present = share.present();
        share.begin_with(&present, first_tag);
        for at in 0..share.own.len() {
            let own = &mut share.own[at];
            own.next_tag = own.next_tag.max(first_tag);
            own.in_flight.clear();
            own.unmarked_bytes = 0;
            let (endpoint, bytes) = (own.endpoint, core::mem::take(&mut own.in_flight_bytes) as u64);
            if bytes > 0 {
                self.tell_endpoint(share.id, endpoint, EndpointEvent::Settled { bytes });
            }
        }
        self.reopen_filter(share);
    }
}

/// What endpoints have sent that are somebody else's now: they send it again there. What is settled is remembered, and
/// the front-end forgets nothing that it has given its user.
fn forget_lanes<P: Payload>(share: &mut Share<P>) {
    if share.front.is_some() {
        return;
    }
    let is_gone = |&&lane: &&u32| lane.checked_sub(1).is_some_and(|endpoint| !share.group.contains(endpoint));
    let gone: Vec<u32> = share.lanes.keys().filter(is_gone).copied().collect();
    for lane in gone {
        let keys: Vec<u64> = share.lanes[&lane].slots.iter().map(|slot| slot.key).collect();
        for key in keys {
            take_slot(share, lane, key);
        }
        if let Some(waves) = share.lanes.get_mut(&lane) {
            share.unsettled_bytes -= waves.sent.iter().map(|sent| sent.bytes).sum::<usize>();
            waves.sent.clear();
        }
    }
}
