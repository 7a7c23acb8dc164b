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
use super::table::StreamDesk;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::tree::Tree;
use alloc::vec::Vec;

impl<P: Payload> Share<P> {
    /// An `Open` for a stream that is known.
    pub(crate) fn reopen(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        from: NodeId,
        open: &StreamOpen<P>,
    ) -> Result<(), StreamError> {
        if open.tree.root().node != desk.cx.me || self.front.is_some() {
            desk.cx.note_bad_message(from, "open.tree: its root is another node");
            return Ok(());
        }
        if open.term > self.term.saturating_add(TERM_LEAP_MAX) {
            desk.cx.note_bad_message(from, "open.term: far beyond the latest");
            return Ok(());
        }
        let (has_moved, was_orphan) = (self.parent != Parent::Node(from), self.orphan_since.is_some());
        if has_moved && open.tree.partitions().is_empty() {
            // It lets go of what is somebody else's already.
            return Ok(());
        }
        if has_moved && open.term <= self.term && !was_orphan {
            self.name_term(desk.cx, from, open.term);
            return Ok(());
        }
        // Whoever was a child of this node and is its parent now has been found a better place.
        if let Some(at) = self.branch_at(from) {
            let former = self.branches.remove(at);
            self.tell_filter_replaced(desk.cx, Source::Child(former.source), Vec::new());
        }
        let attaches = has_moved || was_orphan || open.rejoin;
        let is_seating = open.life > self.life;
        self.parent = Parent::Node(from);
        self.orphan_since = None;
        self.life = self.life.max(open.life);
        self.term = self.term.max(open.term);
        self.asked_term = open.term;
        self.tag_max = self.tag_max.max(open.first_tag.saturating_sub(1));
        if open.rejoin {
            self.begin_anew(desk, &open.tree.partitions());
        } else {
            self.let_go(desk, &open.gone);
        }
        let first_tag = self.next_tag();
        let fresh = open.tree.root().partitions.difference(&self.own_set);
        if !fresh.is_empty() {
            self.open_own(desk, &fresh, first_tag);
            self.regroup();
            let opened = fresh.intersection(&self.own_set);
            self.begin_with(&opened, first_tag);
        }
        for tree in open.tree.children() {
            self.graft(desk.cx, now, &tree, is_seating);
        }
        self.regroup();
        self.news_due = true;
        // The parent may take some of them for away, who are not; it knows from where on to expect them.
        self.tell_beginnings();
        if attaches && !self.is_opening {
            self.attach(desk.cx);
        }
        self.look_at_slots();
        self.ask_again_for_operators(desk)
    }

    /// Tells one who believes to be the parent that somebody else is, with a later term.
    fn name_term(&self, cx: &mut Context<P>, from: NodeId, asked_term: u64) {
        let news = StreamNews {
            stream: self.id,
            tree: Tree::leaf(cx.me, PartitionSet::new()),
            term: self.term,
            answers: asked_term,
            received: self.down.received,
            joined: Vec::new(),
            away: Vec::new(),
        };
        cx.send_stream(from, StreamMessage::News(news));
    }

    /// Gives a new parent, or the old one over a new connection, all that it may lack: who is here first, so that it
    /// knows whose the rest is.
    fn attach(&mut self, cx: &mut Context<P>) {
        self.down.half.clear();
        self.down.half_bytes = 0;
        self.tell_news(cx);
        self.tell_taken_again(cx);
        self.send_again(cx);
    }

    /// Adds what is new in a child's subtree; who joins takes part once it has said so, while orphans have never left.
    pub(crate) fn graft(&mut self, cx: &mut Context<P>, now: Instant, tree: &Tree, joins: bool) {
        // A list and no recursion: no chain is too deep for a stack.
        let mut rest = alloc::vec![tree.clone()];
        while let Some(tree) = rest.pop() {
            let below = self.graft_one(cx, now, &tree, joins);
            rest.extend(below.into_iter().rev());
        }
    }

    /// The same for one tree. Gives back what is to be grafted in its place.
    fn graft_one(&mut self, cx: &mut Context<P>, now: Instant, tree: &Tree, joins: bool) -> Vec<Tree> {
        let window_bytes = self.window_for(cx, self.branches.len() + 1);
        let endpoints = tree.partitions();
        let fresh = endpoints.difference(&self.present()).difference(&self.own_set);
        let node = tree.root().node;
        let joining = Missing { partitions: fresh.clone(), node: Some(node), reason: Reason::Late };
        match self.branch_at(node) {
            Some(at) if self.branches[at].standing == Standing::There || self.branches[at].is_awaited() => {
                // Who has been held up may have been given up, and his children be another's: he asks them nothing.
                // A place that the front-end gives is news even for whom the child accounts for already: he is away.
                let has_news = (joins && !fresh.is_empty()) || !fresh.is_subset(&self.branches[at].endpoints);
                if !has_news || self.dazed_until.is_some() {
                    return Vec::new();
                }
                // The parent does not know yet that some of these are this node's own children, and sit there no longer.
                let is_live = |node| {
                    self.branch_at(node).is_some_and(|at| self.branches[at].standing != Standing::Away)
                };
                let (kept, elsewhere) = cut(tree, is_live);
                if !elsewhere.is_empty() {
                    return core::iter::once(kept).chain(elsewhere).collect();
                }
                self.branches[at].grant(&fresh);
                let others = self.branches.iter_mut().filter(|branch| branch.node != node);
                others.for_each(|branch| branch.release(&fresh));
                self.drop_idle_branches(cx);
                self.regroup();
                self.send_open(cx, tree, window_bytes, false, PartitionSet::new());
            }
            _ if fresh.is_empty() => return Vec::new(),
            // The parent does not know yet that this one has been given up here, and its children are this node's own.
            _ if tree.root().size > 1 && fresh != endpoints => {
                let own = tree.root().partitions.intersection(&fresh);
                let is_lost = !own.is_empty() && self.branch_at(node).is_none();
                return is_lost.then(|| Tree::leaf(node, own)).into_iter().chain(tree.children()).collect();
            }
            _ => {
                self.adopt_branch(cx, now, tree, window_bytes, joins);
                self.regroup();
            }
        }
        if joins {
            self.put_away(joining);
        }
        Vec::new()
    }

    /// Endpoints that are no longer this node's to account for; nor are they those below's, who are told.
    pub(crate) fn let_go(&mut self, desk: &mut StreamDesk<'_, P>, gone: &PartitionSet) {
        if gone.is_empty() {
            return;
        }
        if self.dazed_until.is_some() {
            // Children may be another's by now: they are told when that is known.
            self.let_go_meanwhile.union_with(gone);
        } else {
            self.tell_let_go(desk.cx, |branch| {
                if branch.endpoints.intersects(gone) { gone.clone() } else { PartitionSet::new() }
            });
        }
        self.forget_endpoints(desk, gone);
        self.look_at_slots();
    }

    /// The node knows by now whose its children are: they hear of what it was told to let go meanwhile, but for what
    /// they have been given again.
    pub(crate) fn tell_let_go_meanwhile(&mut self, cx: &mut Context<P>) {
        let gone = core::mem::take(&mut self.let_go_meanwhile);
        self.tell_let_go(cx, |branch| gone.intersection(&branch.formerly).difference(&branch.endpoints));
    }

    /// Tells children which endpoints are no longer theirs to account for.
    fn tell_let_go(&mut self, cx: &mut Context<P>, gone_from: impl Fn(&Branch<P>) -> PartitionSet) {
        let each = self.live().map(|branch| (&branch.tree, gone_from(branch)));
        let concerned = each.filter(|(_, gone)| !gone.is_empty());
        let told: Vec<(Tree, PartitionSet)> =
            concerned.map(|(tree, gone)| (without(tree, &gone), gone)).collect();
        for (tree, gone) in told {
            let window_bytes = self.window_for(cx, self.branches.len());
            self.send_open(cx, &tree, window_bytes, false, gone);
        }
    }

    fn forget_endpoints(&mut self, desk: &mut StreamDesk<'_, P>, gone: &PartitionSet) {
        let (kept, lost): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.own).into_iter().partition(|own| !gone.contains(own.endpoint));
        self.own = kept;
        for own in &lost {
            desk.streams.close_own(desk.cx, self.id, own, &StreamError::Closed);
            self.tell_filter_replaced(desk.cx, Source::Endpoint(own.endpoint), Vec::new());
        }
        self.branches.iter_mut().for_each(|branch| branch.release(gone));
        let (kept, lost): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.branches).into_iter().partition(|branch| !branch.endpoints.is_empty());
        self.branches = kept;
        for branch in lost.iter().filter(|branch| branch.standing != Standing::Away) {
            self.tell_filter_replaced(desk.cx, Source::Child(branch.source), Vec::new());
        }
        for loss in &mut self.away {
            loss.partitions = loss.partitions.difference(gone);
        }
        self.regroup();
        forget_lanes(self);
        self.forget_taken(desk.cx);
    }

    /// Who accounts for nobody any more is no child.
    pub(crate) fn drop_idle_branches(&mut self, cx: &mut Context<P>) {
        let branches = core::mem::take(&mut self.branches).into_iter();
        let (kept, idle): (Vec<_>, Vec<_>) = branches.partition(|branch| !branch.endpoints.is_empty());
        self.branches = kept;
        for branch in idle.iter().filter(|branch| branch.standing != Standing::Away) {
            self.tell_filter_replaced(cx, Source::Child(branch.source), Vec::new());
        }
    }

    /// This node was given up and is back: what it holds of waves that went on without it is of no use.
    fn begin_anew(&mut self, desk: &mut StreamDesk<'_, P>, keep: &PartitionSet) {
        self.dazed_until = None;
        self.gone_meanwhile.clear();
        self.let_go_meanwhile = PartitionSet::new();
        let gone = self.group.difference(keep);
        self.forget_endpoints(desk, &gone);
        if !self.gathers() {
            return;
        }
        let first_tag = self.next_tag();
        self.cohorts.clear();
        self.ready.clear();
        self.opened.clear();
        self.carried.clear();
        self.held_bytes = 0;
        self.held_of.clear();
        self.unsettled_bytes = 0;
        self.unmarked_bytes = 0;
        if let Some(lane) = self.lanes.get_mut(&GATHERED) {
            lane.slots.clear();
            lane.sent.clear();
            lane.withheld = super::tags::TagRuns::new();
        }
        let present = self.present();
        self.begin_with(&present, first_tag);
        for at in 0..self.own.len() {
            let own = &mut self.own[at];
            own.next_tag = own.next_tag.max(first_tag);
            own.in_flight.clear();
            own.unmarked_bytes = 0;
            let (endpoint, bytes) = (own.endpoint, core::mem::take(&mut own.in_flight_bytes) as u64);
            if bytes > 0 {
                desk.cx.tell_endpoint(self.id, endpoint, EndpointEvent::Settled { bytes });
            }
        }
        self.reopen_filter(desk.cx);
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
