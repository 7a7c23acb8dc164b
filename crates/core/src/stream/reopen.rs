//! An `Open` for a stream that is known: another parent, a subtree that has grown or shrunk, a beginning anew.
//!
//! Of two who both believe to be the parent, the one with the later term is: it has given the other up. One that is
//! refused says nothing wrong, it may just not have heard of the latest terms below the one it gave up; so it is told
//! the term, by news of an empty tree, and asks again.

use super::child::{Child, cut, without};
use super::error::StreamError;
use super::gather::take_slot;
use super::lane::GATHERED;
use super::message::{StreamMessage, StreamNews, StreamOpen};
use super::open::TERM_LEAP_MAX;
use super::share::Share;
use super::spec::{EndpointEvent, Source};
use super::table::StreamDesk;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
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
        if open.term > self.order.term.saturating_add(TERM_LEAP_MAX) {
            desk.cx.note_bad_message(from, "open.term: far beyond the latest");
            return Ok(());
        }
        let (has_moved, was_orphan) =
            (self.seat.parent != Parent::Node(from), self.order.orphan_since.is_some());
        if has_moved && open.tree.partitions().is_empty() {
            // It lets go of what is somebody else's already.
            return Ok(());
        }
        if has_moved && open.term <= self.order.term && !was_orphan {
            self.name_term(desk.cx, from, open.term);
            return Ok(());
        }
        // Whoever was a child of this node and is its parent now has been found a better place.
        if let Some(at) = self.child_at(from) {
            let former = self.seat.children.remove(at);
            self.tell_filter_replaced(desk.cx, Source::Child(former.more.source), Vec::new());
        }
        let attaches = has_moved || was_orphan || open.rejoin;
        let is_seating = open.life > self.order.life;
        self.seat.parent = Parent::Node(from);
        self.order.orphan_since = None;
        self.order.life = self.order.life.max(open.life);
        self.order.term = self.order.term.max(open.term);
        self.order.asked_term = open.term;
        self.row.tag_max = self.row.tag_max.max(open.first_tag.saturating_sub(1));
        if open.rejoin {
            self.begin_anew(desk, &open.tree.partitions());
        } else {
            self.let_go(desk, &open.gone);
        }
        let first_tag = self.next_tag();
        let fresh = open.tree.root().partitions.difference(&self.roll.own_set);
        if !fresh.is_empty() {
            self.open_own(desk, &fresh, first_tag);
            self.regroup();
            let opened = fresh.intersection(&self.roll.own_set);
            self.begin_with(&opened, first_tag);
        }
        for tree in open.tree.children() {
            self.graft(desk.cx, now, &tree, is_seating);
        }
        self.regroup();
        self.roll.news_due = true;
        // The parent may take some of them for away, who are not; it knows from where on to expect them.
        self.tell_beginnings();
        if attaches && !self.roll.is_opening {
            self.attach(desk.cx);
        }
        self.look_at_slots();
        self.ask_again_for_operators(desk)
    }

    /// Tells one who believes to be the parent that somebody else is, with a later term.
    fn name_term(&self, cx: &mut Context<P>, from: NodeId, asked_term: u64) {
        let news = StreamNews {
            stream: self.terms.id,
            tree: Tree::leaf(cx.me, PartitionSet::new()),
            term: self.order.term,
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
        let window_bytes = self.window_for(cx, self.seat.children.len() + 1);
        let endpoints = tree.partitions();
        let fresh = endpoints.difference(&self.present()).difference(&self.roll.own_set);
        let node = tree.root().node;
        let joining = Missing { partitions: fresh.clone(), node: Some(node), reason: Reason::Late };
        match self.child_at(node) {
            Some(at)
                if self.seat.children[at].standing() == Standing::There
                    || self.seat.children[at].is_awaited() =>
            {
                // Who has been held up may have been given up, and his children be another's: he asks them nothing.
                // A place that the front-end gives is news even for whom the child accounts for already: he is away.
                let has_news =
                    (joins && !fresh.is_empty()) || !fresh.is_subset(&self.seat.children[at].answers_for);
                if !has_news || self.order.dazed_until.is_some() {
                    return Vec::new();
                }
                // The parent does not know yet that some of these are this node's own children, and sit there no longer.
                let is_live = |node| {
                    self.child_at(node).is_some_and(|at| self.seat.children[at].standing() != Standing::Gone)
                };
                let (kept, elsewhere) = cut(tree, is_live);
                if !elsewhere.is_empty() {
                    return core::iter::once(kept).chain(elsewhere).collect();
                }
                self.seat.children[at].grant(&fresh);
                let others = self.seat.children.iter_mut().filter(|child| child.node != node);
                others.for_each(|child| child.release(&fresh));
                self.drop_idle_children(cx);
                self.regroup();
                self.send_open(cx, tree, window_bytes, false, PartitionSet::new());
            }
            _ if fresh.is_empty() => return Vec::new(),
            // The parent does not know yet that this one has been given up here, and its children are this node's own.
            _ if tree.root().size > 1 && fresh != endpoints => {
                let own = tree.root().partitions.intersection(&fresh);
                let is_lost = !own.is_empty() && self.child_at(node).is_none();
                return is_lost.then(|| Tree::leaf(node, own)).into_iter().chain(tree.children()).collect();
            }
            _ => {
                self.adopt_child(cx, now, tree, window_bytes, joins);
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
        if self.order.dazed_until.is_some() {
            // Children may be another's by now: they are told when that is known.
            self.order.let_go_meanwhile.union_with(gone);
        } else {
            self.tell_let_go(desk.cx, |child| {
                if child.answers_for.intersects(gone) { gone.clone() } else { PartitionSet::new() }
            });
        }
        self.forget_endpoints(desk, gone);
        self.look_at_slots();
    }

    /// The node knows by now whose its children are: they hear of what it was told to let go meanwhile, but for what
    /// they have been given again.
    pub(crate) fn tell_let_go_meanwhile(&mut self, cx: &mut Context<P>) {
        let gone = core::mem::take(&mut self.order.let_go_meanwhile);
        self.tell_let_go(cx, |child| gone.intersection(&child.more.formerly).difference(&child.answers_for));
    }

    /// Tells children which endpoints are no longer theirs to account for.
    fn tell_let_go(&mut self, cx: &mut Context<P>, gone_from: impl Fn(&Child<P>) -> PartitionSet) {
        let each = self.live().map(|child| (child.tree(), gone_from(child)));
        let concerned = each.filter(|(_, gone)| !gone.is_empty());
        let told: Vec<(Tree, PartitionSet)> =
            concerned.map(|(tree, gone)| (without(tree, &gone), gone)).collect();
        for (tree, gone) in told {
            let window_bytes = self.window_for(cx, self.seat.children.len());
            self.send_open(cx, &tree, window_bytes, false, gone);
        }
    }

    fn forget_endpoints(&mut self, desk: &mut StreamDesk<'_, P>, gone: &PartitionSet) {
        let (kept, lost): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.own).into_iter().partition(|own| !gone.contains(own.endpoint));
        self.own = kept;
        for own in &lost {
            desk.streams.close_own(desk.cx, self.terms.id, own, &StreamError::Closed);
            self.tell_filter_replaced(desk.cx, Source::Endpoint(own.endpoint), Vec::new());
        }
        self.seat.children.iter_mut().for_each(|child| child.release(gone));
        self.drop_idle_children(desk.cx);
        for loss in &mut self.roll.away {
            loss.partitions = loss.partitions.difference(gone);
        }
        self.regroup();
        forget_lanes(self);
        self.forget_taken(desk.cx);
    }

    /// Who accounts for nobody any more is no child.
    pub(crate) fn drop_idle_children(&mut self, cx: &mut Context<P>) {
        if self.seat.children.iter().all(|child| !child.answers_for.is_empty()) {
            return;
        }
        let mut idle = Vec::new();
        self.seat.children.remove_if(|child| child.answers_for.is_empty(), |child| idle.push(child));
        for child in idle.iter().filter(|child| child.is_open()) {
            self.tell_filter_replaced(cx, Source::Child(child.more.source), Vec::new());
        }
    }

    /// This node was given up and is back: what it holds of waves that went on without it is of no use.
    fn begin_anew(&mut self, desk: &mut StreamDesk<'_, P>, keep: &PartitionSet) {
        self.order.dazed_until = None;
        self.order.gone_meanwhile.clear();
        self.order.let_go_meanwhile = PartitionSet::new();
        let gone = self.roll.group.difference(keep);
        self.forget_endpoints(desk, &gone);
        if !self.gathers() {
            return;
        }
        let first_tag = self.next_tag();
        self.roll.cohorts.clear();
        self.row.ready.clear();
        self.row.opened.clear();
        self.row.carried.clear();
        self.window.held_bytes = 0;
        self.window.held_of.clear();
        self.window.unsettled_bytes = 0;
        self.window.unmarked_bytes = 0;
        if let Some(lane) = self.row.lanes.get_mut(&GATHERED) {
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
                desk.cx.tell_endpoint(self.terms.id, endpoint, EndpointEvent::Settled { bytes });
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
    let is_gone =
        |&&lane: &&u32| lane.checked_sub(1).is_some_and(|endpoint| !share.roll.group.contains(endpoint));
    let gone: Vec<u32> = share.row.lanes.keys().filter(is_gone).copied().collect();
    for lane in gone {
        let keys: Vec<u64> = share.row.lanes[&lane].slots.iter().map(|slot| slot.key).collect();
        for key in keys {
            take_slot(share, lane, key);
        }
        if let Some(waves) = share.row.lanes.get_mut(&lane) {
            share.window.unsettled_bytes -= waves.sent.iter().map(|sent| sent.bytes).sum::<usize>();
            waves.sent.clear();
        }
    }
}
