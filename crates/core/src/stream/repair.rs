//! Who is lost, who is silent, and who comes back.
//!
//! As in a call, the parent holds its child's whole subtree, and that is all it needs: when the child is lost its
//! children become the parent's own, or another child's when the parent has many. They keep what is not settled and
//! send it again; whatever crosses on the way is told by its contributors. The lost node's own endpoints are *away*:
//! missing from every wave, with the reason, until they are back.
//!
//! A child is lost when its connection breaks, or when it has been silent for [`Tuning::stream_patience`]; a node
//! with nothing to say says so every [`Tuning::stream_beat`]. It is asked at once to come back, whenever it is heard
//! again, and else ever more rarely; and begins anew with a tag that nobody has seen yet, so that it is never behind
//! the others.
//!
//! [`Tuning::stream_patience`]: crate::config::Tuning::stream_patience
//! [`Tuning::stream_beat`]: crate::config::Tuning::stream_beat

use super::StreamError;
use super::child::Child;
use super::down::is_for;
use super::gather::next_slot_due;
use super::lane::GATHERED;
use super::message::StreamMessage;
use super::share::Share;
use super::spec::Source;
use super::table::{StreamDesk, Streams};
use crate::config::Tuning;
use crate::effect::{Effect, TracePoint};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Lost, Parent, Patience, Standing};
use crate::time::Instant;
use crate::tree::Tree;
use alloc::vec::Vec;

/// Whoever is asked back in vain is asked again after twice the time, up to 2 to this power of the patience.
const ASK_DOUBLINGS_MAX: u32 = 2;
/// What is left after a beat of how late this node was.
const HELD_UP_KEPT: f64 = 0.875;
/// A child that is as late as this node is late with its beat, and again with having it written.
const HELD_UP_FACTOR: f64 = 2.0;
/// A node with so many children gives orphans to one of them, if one has fewer.
const CHILDREN_MANY: usize = 16;

impl<P: Payload> Streams<P> {
    /// A peer is gone: as a parent, as a child.
    pub(crate) fn handle_stream_peer_gone(&mut self, cx: &mut Context<P>, now: Instant, peer: NodeId) {
        let concerned: Vec<_> = self
            .shares
            .values()
            .filter(|share| share.seat.parent == Parent::Node(peer) || share.child_at(peer).is_some())
            .map(|share| share.terms.id)
            .collect();
        for stream in concerned {
            self.with_share(cx, now, stream, |share, desk| {
                if share.seat.parent == Parent::Node(peer) {
                    if peer.is_client() {
                        return Err(StreamError::FrontLost);
                    }
                    share.order.orphan_since.get_or_insert(now);
                }
                match share.child_at(peer) {
                    Some(_) if share.order.gone_meanwhile.contains(&peer) => {}
                    Some(_) if share.order.dazed_until.is_some() => share.order.gone_meanwhile.push(peer),
                    Some(at) => share.lose_broken(desk.cx, now, at),
                    None => {}
                }
                Ok(())
            });
        }
    }

    /// A peer can be reached, perhaps again.
    pub(crate) fn handle_stream_peer_seen(&mut self, cx: &mut Context<P>, now: Instant, peer: NodeId) {
        let is_missed = |share: &Share<P>| {
            share.child_at(peer).is_some_and(|at| share.seat.children[at].standing() == Standing::Gone)
        };
        let concerned: Vec<_> =
            self.shares.values().filter(|share| is_missed(share)).map(|share| share.terms.id).collect();
        for stream in concerned {
            self.with_share(cx, now, stream, |share, desk| {
                if let Some(at) = share.child_at(peer) {
                    share.call_back(desk.cx, now, at);
                }
                Ok(())
            });
        }
    }

    /// A share's timer has fired.
    pub(crate) fn handle_stream_timeout(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: super::StreamId,
    ) {
        self.with_share(cx, now, stream, |share, desk| {
            share.beat.armed = None;
            share.time_out_slots(now);
            if now < share.beat.ticked_at + desk.cx.config.tuning.stream_beat {
                return Ok(());
            }
            share.note_held_up(desk.cx, now);
            share.beat.ticked_at = now;
            if share.order.dazed_until.is_some_and(|until| until <= now) {
                share.order.dazed_until = None;
                for peer in core::mem::take(&mut share.order.gone_meanwhile) {
                    if let Some(at) = share.child_at(peer) {
                        share.lose_broken(desk.cx, now, at);
                    }
                }
                share.tell_let_go_meanwhile(desk.cx);
            }
            share.tick(desk, now)
        });
    }
}

impl<P: Payload> Share<P> {
    /// A node that has been held up for so long that it may have been given up does not know who is whose child by
    /// now. It says that it is there, and decides nothing about others until its parent has had time to answer.
    pub(crate) fn note_daze(&mut self, cx: &mut Context<P>, now: Instant) {
        let held_up = cx.config.tuning.stream_beat + cx.config.tuning.stream_patience.mul_f64(0.5);
        if self.beat.ticked_at.until(now) <= held_up {
            return;
        }
        self.note_held_up(cx, now);
        self.beat.ticked_at = now;
        self.seat.children.iter_mut().for_each(|child| child.heard_at = now);
        if let Parent::Node(parent) = self.seat.parent {
            self.order.dazed_until = Some(now + cx.config.tuning.stream_beat);
            cx.send_stream(parent, StreamMessage::Beat { stream: self.terms.id });
        }
    }

    /// How late this node itself is says how late others may be without fault: on a crowded machine all are. The worst
    /// of it is forgotten by an eighth with every beat.
    fn note_held_up(&mut self, cx: &Context<P>, now: Instant) {
        let Tuning { stream_beat, stream_patience, .. } = cx.config.tuning;
        let late = (self.beat.ticked_at + stream_beat).until(now).min(stream_patience);
        self.beat.held_up = late.max(self.beat.held_up.mul_f64(HELD_UP_KEPT));
    }

    /// A child's connection broke. If it was there, it may still be, and is asked to come back at once.
    fn lose_broken(&mut self, cx: &mut Context<P>, now: Instant, at: usize) {
        let (node, was_there) =
            (self.seat.children[at].node, self.seat.children[at].standing() == Standing::There);
        self.give_up(cx, now, at, &Reason::Lost);
        if was_there && let Some(at) = self.child_at(node) {
            self.call_back(cx, now, at);
        }
    }

    /// A child is not there: it is lost, or still is.
    pub(crate) fn give_up(&mut self, cx: &mut Context<P>, now: Instant, at: usize, reason: &Reason) {
        self.part_with(cx, now, at, reason);
        self.close_ranks(cx);
    }

    /// After some were lost, what hung on them is seen to.
    fn close_ranks(&mut self, cx: &mut Context<P>) {
        self.regroup();
        self.forget_taken(cx);
        self.look_at_slots();
    }

    /// The first part of giving up; of many together, the rest need be done only once.
    fn part_with(&mut self, cx: &mut Context<P>, now: Instant, at: usize, reason: &Reason) {
        let child = &mut self.seat.children[at];
        if !child.is_open() {
            return;
        }
        if child.standing() == Standing::Asked && child.more.asking.rejoins && child.is_leaf() {
            // Nothing of what it might have given is counted on, and nothing is below it.
            child.more.asking.back_at = now;
            let source = Source::Child(child.more.source);
            self.seat.children.set_standing(at, Standing::Gone);
            self.tell_filter_replaced(cx, source, Vec::new());
        } else {
            self.lose_child(cx, now, at, reason);
        }
    }

    /// Gives a child up: its endpoints are away, its children are adopted.
    fn lose_child(&mut self, cx: &mut Context<P>, now: Instant, at: usize, reason: &Reason) {
        let child = &mut self.seat.children[at];
        let (node, before) = (child.node, child.answers_for.clone());
        child.more.formerly.union_with(&before);
        let Lost { own, orphans, mut unseated } = self.seat.children.lose(at, Standing::Gone);
        let flow = &mut self.seat.children[at].more;
        let (source, held_from) = (Source::Child(flow.source), flow.holds_from);
        let said_away = flow.forget(now);
        // Where an endpoint's seat is another's by now, its own is empty.
        let is_orphan = |tree: &Tree| tree.root().node != cx.me && !tree.partitions().is_empty();
        let (orphans, others): (Vec<Tree>, Vec<Tree>) = orphans.into_iter().partition(is_orphan);
        others.iter().for_each(|tree| unseated.union_with(&tree.partitions().intersection(&before)));
        cx.counters.stream_repairs += 1;
        let trace = TracePoint::Orphans {
            stream: self.terms.id,
            child: node,
            orphans: orphans.len(),
            reason: reason.clone(),
        };
        cx.effects.push_back(Effect::Trace(trace));
        for partitions in [own, unseated] {
            if !partitions.is_empty() {
                self.put_away(Missing { partitions, node: Some(node), reason: reason.clone() });
            }
        }
        // What it said of those who are away further down holds until the orphans say otherwise.
        for loss in said_away {
            self.put_away(loss);
        }
        let heirs = self.place_orphans(cx, now, &orphans, held_from);
        self.tell_filter_replaced(cx, source, heirs);
        // A child that only passed on what others sent is not missed, and need not come back.
        self.seat.children.remove_if(|child| child.node == node && child.answers_for.is_empty(), drop);
        self.roll.news_due = true;
    }

    /// Finds each orphan a new parent: this node, or the child with fewest below it when there are many here. Those
    /// who may bring what the lost node's filter kept, or may lack packets down, stay here, where that is known.
    fn place_orphans(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        orphans: &[Tree],
        held_from: Option<u64>,
    ) -> Vec<Source> {
        let mut heirs = Vec::new();
        let held_from = held_from.filter(|_| self.gathers() && !self.terms.spec.up_filter.is_empty());
        for tree in orphans {
            let live = self.live().count();
            // What the lost node had not taken, another child may have taken and forgotten.
            let endpoints = tree.partitions();
            let lacks = self.down.kept.iter().any(|packet| is_for(packet, &endpoints));
            let has_many = live >= CHILDREN_MANY && held_from.is_none() && !lacks;
            let foster = if has_many { self.least_burdened(cx, now, live) } else { None };
            let window_bytes = self.window_for(cx, live + 1);
            match foster {
                None => {
                    self.adopt_child(cx, now, tree, window_bytes, false);
                    let Some(at) = self.child_at(tree.root().node) else { continue };
                    self.seat.children[at].more.carries = held_from.map(|from| (from, self.row.tag_max));
                    heirs.push(Source::Child(self.seat.children[at].more.source));
                }
                Some(at) => {
                    let child = &mut self.seat.children[at];
                    let mut children: Vec<Tree> = child.tree().children().collect();
                    children.push(tree.clone());
                    let root = child.tree().root();
                    child.seat_below(Tree::join(root.node, root.partitions.clone(), &children));
                    child.grant(&endpoints);
                    heirs.push(Source::Child(child.more.source));
                    let tree = child.tree().clone();
                    self.send_open(cx, &tree, window_bytes, false, PartitionSet::new());
                }
            }
        }
        if let Some(from) = held_from {
            self.withhold(from);
        }
        heirs
    }

    /// The child that is best fit to take another one: it has children, fewer than this node, and of those the least
    /// load.
    fn least_burdened(&self, cx: &mut Context<P>, now: Instant, children_max: usize) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for (at, child) in self.seat.children.iter().enumerate() {
            let children = child.tree().children().count();
            let is_fit = child.standing() == Standing::There && (1..children_max).contains(&children);
            if !is_fit {
                continue;
            }
            let load_ms = cx.loads.table.load_ms(child.node, now, &mut cx.random).unwrap_or(0.0);
            let burden = (1.0 + load_ms) * children as f64;
            if best.is_none_or(|(least, _)| burden < least) {
                best = Some((burden, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// A child that was given up is heard again, or may be reached: it is to begin anew.
    pub(crate) fn call_back(&mut self, cx: &mut Context<P>, now: Instant, at: usize) {
        self.row.sources = self.row.sources.wrapping_add(1);
        let source = self.row.sources;
        let child = &mut self.seat.children[at];
        child.more.source = source;
        child.more.asking.rejoins = true;
        child.heard_at = now;
        child.more.asking.back_at = now;
        child.more.asking.times = child.more.asking.times.saturating_add(1);
        self.seat.children.set_standing(at, Standing::Asked);
        self.tell_filter_joined(cx, Source::Child(source));
        let window_bytes = self.window_for(cx, self.seat.children.len());
        self.attach_child(cx, at, window_bytes);
    }

    /// A child that was asked has another parent, with a later term: it may be that this node knows better, and has
    /// only not heard of the term.
    pub(crate) fn insist(&mut self, cx: &mut Context<P>, at: usize, term: u64) {
        if self.order.dazed_until.is_some() || self.order.orphan_since.is_some() {
            return;
        }
        self.order.term = self.order.term.max(term);
        let window_bytes = self.window_for(cx, self.seat.children.len());
        self.attach_child(cx, at, window_bytes);
    }

    /// Who was given up may be well, and have no share any more that would make it speak.
    fn ask_back(&mut self, cx: &mut Context<P>, now: Instant) {
        let patience = cx.config.tuning.stream_patience;
        for at in 0..self.seat.children.len() {
            let child = &self.seat.children[at];
            let pause = patience.mul_f64(f64::from(1_u32 << child.more.asking.times.min(ASK_DOUBLINGS_MAX)));
            if child.standing() == Standing::Gone && child.more.asking.back_at.until(now) > pause {
                self.call_back(cx, now, at);
            }
        }
    }

    /// A child says that it is alive.
    pub(crate) fn take_beat(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
    ) -> Result<(), StreamError> {
        match self.child_at(from) {
            Some(at) => {
                self.seat.children[at].heard_at = now;
                if self.seat.children[at].standing() == Standing::Gone {
                    self.call_back(cx, now, at);
                }
            }
            None => self.turn_away(cx, from),
        }
        Ok(())
    }

    /// When a share wants to be looked at again.
    pub(crate) fn share_wakes_at(&mut self, cx: &Context<P>) -> Instant {
        let ticked_at = self.beat.ticked_at;
        let tick_at = self.patience(cx).speaks_at(ticked_at).unwrap_or(ticked_at);
        next_slot_due(self).map_or(tick_at, |due| due.min(tick_at))
    }

    /// How long this node bears with a silent child, and how often it speaks itself. On a crowded machine all are late.
    fn patience(&self, cx: &Context<P>) -> Patience {
        let Tuning { stream_beat: every, stream_patience, .. } = cx.config.tuning;
        Patience::Beats { every, silence: stream_patience + self.beat.held_up.mul_f64(HELD_UP_FACTOR) }
    }

    /// What a share does every so often.
    fn tick(&mut self, desk: &mut StreamDesk<'_, P>, now: Instant) -> Result<(), StreamError> {
        if let Some(since) = self.order.orphan_since
            && since.until(now) > desk.cx.config.tuning.orphan_patience
        {
            return Err(StreamError::FrontLost);
        }
        self.settle_taken(desk.cx);
        self.tell_taken(desk.cx);
        self.give_up_stuck_filter(desk.cx, now)?;
        self.look_after_operator_wants(desk, now)?;
        self.ask_back(desk.cx, now);
        self.lose_silent(desk.cx, now);
        self.look_for_missed(desk, now);
        if let Parent::Node(parent) = self.seat.parent
            && self.order.orphan_since.is_none()
        {
            desk.cx.send_stream(parent, StreamMessage::Beat { stream: self.terms.id });
        }
        Ok(())
    }

    /// Children that give no sign of life are given up, and asked once whether that was right.
    fn lose_silent(&mut self, cx: &mut Context<P>, now: Instant) {
        let patience = self.patience(cx);
        let is_silent = |child: &Child<P>| {
            child.is_open() && patience.silent_at(child.heard_at, child.height()).is_some_and(|at| at < now)
        };
        let mut are_some_lost = false;
        while let Some(at) = self.seat.children.iter().position(is_silent) {
            let node = self.seat.children[at].node;
            let was_asked_back = self.seat.children[at].more.asking.rejoins;
            self.part_with(cx, now, at, &Reason::Late);
            if !was_asked_back && let Some(at) = self.child_at(node) {
                self.call_back(cx, now, at);
            }
            are_some_lost = true;
        }
        if are_some_lost {
            self.close_ranks(cx);
        }
    }
}

impl<P: Payload> Share<P> {
    /// What a lost filter may have kept is here again when the heirs have sent it: until the filter here has seen it,
    /// nobody below is told that it is settled.
    fn withhold(&mut self, from: u64) {
        self.row.holds_from = Some(self.row.holds_from.map_or(from, |held| held.min(from)));
        if let Some(lane) = self.row.lanes.get_mut(&GATHERED) {
            let held = lane.settled.clone().split_off(from);
            held.runs().iter().for_each(|&(first, last)| lane.withheld.insert_run(first, last));
        }
    }
}
