//! An `Open` for a stream that this node already has: a new parent, a changed subtree, or a new beginning.
//!
//! There is one rule. A node accepts a place with a later number from any sender. It accepts its current
//! number only from its parent. Every other place belongs to an old layout and is ignored. The node then
//! makes its children those of the layout, and passes on the changes.

use super::child::Child;
use super::error::StreamError;
use super::gather::take_slot;
use super::lane::GATHERED;
use super::message::StreamOpen;
use super::open::EPOCH_LEAP_MAX;
use super::places::{Places, SeatNumber};
use super::spec::{EndpointEvent, Source};
use super::state::StreamState;
use super::table::StreamDesk;
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

impl<P: Payload> StreamState<P> {
    /// Handles an `Open` for a stream that this node already has.
    pub(crate) fn reseat(
        &mut self,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        from: NodeId,
        open: &StreamOpen<P>,
    ) -> Result<(), StreamError> {
        if open.places.node() != desk.cx.me || self.front.is_some() {
            desk.cx.note_bad_message(from, "open.tree: its root is another node");
            return Ok(());
        }
        if let Err(error) = open.places.tree().check_seats() {
            desk.cx.note_bad_message(from, &alloc::format!("open.tree: {error}"));
            return Ok(());
        }
        let number = open.places.number();
        if number.place > open.epoch || open.epoch > self.order.epoch.saturating_add(EPOCH_LEAP_MAX) {
            desk.cx.note_bad_message(from, "open.epoch: before the place, or far beyond the latest");
            return Ok(());
        }
        let moves = number.place > self.order.number.place;
        let is_parents = self.seat.parent == Parent::Node(from) && self.order.orphan_since.is_none();
        let is_update = number == self.order.number && is_parents && open.epoch >= self.order.epoch;
        if !moves && !is_update {
            return Ok(());
        }
        let begins = number.life > self.order.number.life;
        self.seat.parent = Parent::Node(from);
        self.order.orphan_since = None;
        self.order.number = number;
        self.order.epoch = self.order.epoch.max(open.epoch);
        self.row.tag_max = self.row.tag_max.max(open.first_tag.saturating_sub(1));
        self.down.before_layout = self.down.before_layout.max(open.packets_before);
        let all = open.places.tree().partitions();
        // The layout may have given endpoints of this node to others, even to nodes below it.
        let given = self.roll.own_set.difference(&open.places.root().partitions);
        if !given.is_empty() {
            self.forget_endpoints(desk, &given);
        }
        if begins {
            self.begin_anew(desk, &all);
        }
        let gone = self.roll.group.difference(&all);
        self.seat_children(desk.cx, now, open.places.children().collect());
        self.let_go(desk, &gone);
        let first_tag = self.next_tag();
        let fresh = open.places.root().partitions.difference(&self.roll.own_set);
        if !fresh.is_empty() {
            self.open_own(desk, &fresh, first_tag);
            self.regroup();
            let opened = fresh.intersection(&self.roll.own_set);
            self.begin_with(&opened, first_tag);
        }
        self.filtering.may_lack = open.takes_unfiltered;
        self.check_filter()?;
        self.begin_after_missed(desk.cx, first_tag);
        self.roll.news_due = true;
        // The parent may hold some of these endpoints for away. It learns from which tag on to expect them.
        self.tell_beginnings();
        if moves && !self.roll.is_opening {
            self.attach(desk.cx, now);
        }
        self.look_at_slots();
        self.ask_again_for_operators(desk)
    }

    /// Applies the front-end's layout to its own state.
    pub(crate) fn follow_layout(&mut self, cx: &mut Context<P>, now: Instant) {
        let Some(front) = &self.front else { return };
        self.order.epoch = front.layout.epoch();
        let subtrees = front.layout.subtrees();
        self.seat_children(cx, now, subtrees);
        self.forget_taken(cx);
        self.look_at_slots();
        self.roll.news_due = true;
    }

    /// Makes the children those of the layout.
    ///
    /// A child that is new here or begins anew is asked to take part. A child that sits elsewhere now is
    /// removed. The others are told what has changed below them.
    fn seat_children(&mut self, cx: &mut Context<P>, now: Instant, subtrees: Vec<Places>) {
        let numbers: BTreeMap<NodeId, SeatNumber> =
            subtrees.iter().map(|places| (places.node(), places.number())).collect();
        let mut former: Vec<Child<P>> = Vec::new();
        let moved = |child: &Child<P>| numbers.get(&child.node) != Some(&child.more.place.places.number());
        self.seat.children.remove_if(moved, |child| former.push(child));
        let mut told: Vec<NodeId> = Vec::new();
        let mut bereaved: Vec<Bereft> = Vec::new();
        for places in subtrees {
            let node = places.node();
            match self.child_at(node) {
                Some(at) if self.seat.children[at].more.place.places == places => continue,
                Some(at) => bereaved.extend(self.change_child(at, places)),
                None => {
                    let was = former.iter().find(|child| child.node == node);
                    self.adopt_seated(cx, now, places, was);
                }
            }
            told.push(node);
        }
        bereaved.extend(former.into_iter().map(Bereft::of_former));
        for bereft in bereaved {
            self.tell_heirs(cx, bereft);
        }
        self.regroup();
        for node in told {
            if let Some(at) = self.child_at(node).filter(|&at| self.seat.children[at].is_open()) {
                self.send_open(cx, at);
            }
        }
    }

    /// Adopts a node that was not a child, or that begins anew. An orphan keeps its life, so it does not
    /// become away.
    fn adopt_seated(&mut self, cx: &mut Context<P>, now: Instant, places: Places, was: Option<&Child<P>>) {
        let number = places.number();
        let begins = number.life == number.place;
        let formerly = was.map_or_else(PartitionSet::new, |child| {
            let mut formerly = child.more.formerly.clone();
            formerly.union_with(&child.answers_for);
            formerly
        });
        let (node, partitions) = (places.node(), places.tree().partitions());
        self.adopt_child(cx, now, places, begins, formerly);
        if begins {
            self.put_away(Missing { partitions, node: Some(node), reason: Reason::Late });
        }
    }

    /// Gives a child its new subtree. If the child was lost and left orphans, returns what it leaves.
    fn change_child(&mut self, at: usize, places: Places) -> Option<Bereft> {
        let child = &mut self.seat.children[at];
        let bereft = child.leaves_orphans().then(|| Bereft::of_lost(child));
        let before = child.answers_for.clone();
        child.seat_anew(places);
        let partitions = child.answers_for.difference(&before);
        let node = Some(child.node);
        if !partitions.is_empty() {
            // New endpoints below the child are waited for after the child has said that they are there.
            self.put_away(Missing { partitions, node, reason: Reason::Late });
        }
        bereft
    }

    /// Assigns what a lost child's filter may have kept to its heirs: its children that are now this node's
    /// children.
    fn tell_heirs(&mut self, cx: &mut Context<P>, bereft: Bereft) {
        let mut heirs = Vec::new();
        let held_from = bereft.held_from.filter(|_| self.gathers() && !self.terms.spec.up_filter.is_empty());
        for node in bereft.orphans {
            let Some(at) = self.child_at(node) else { continue };
            let tag_max = self.row.tag_max;
            let flow = &mut self.seat.children[at].more;
            flow.carries = held_from.map(|from| (from, tag_max));
            heirs.push(Source::Child(flow.source));
        }
        if bereft.is_in_filter {
            for source in bereft.sources {
                self.tell_filter_replaced(cx, source, heirs.clone());
            }
        }
        // Its reports of absent endpoints below hold until its heirs report.
        for loss in bereft.away {
            self.put_away(loss);
        }
    }

    /// Sends a new parent everything that it may lack. News goes first, so that the parent knows whose the
    /// rest is.
    fn attach(&mut self, cx: &mut Context<P>, now: Instant) {
        self.down.half.clear();
        self.down.half_bytes = 0;
        self.tell_news(cx);
        self.tell_taken_again(cx);
        self.send_again(cx);
        self.report_orphans(cx, now);
    }

    /// Removes endpoints that this node no longer accounts for.
    pub(crate) fn let_go(&mut self, desk: &mut StreamDesk<'_, P>, gone: &PartitionSet) {
        if !gone.is_empty() {
            self.forget_endpoints(desk, gone);
            self.look_at_slots();
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
        for loss in &mut self.roll.away {
            loss.partitions = loss.partitions.difference(gone);
        }
        self.regroup();
        forget_lanes(self);
        self.forget_taken(desk.cx);
    }

    /// Begins again after this node was given up. Waves went on without it, so their pieces here are of no
    /// use.
    fn begin_anew(&mut self, desk: &mut StreamDesk<'_, P>, keep: &PartitionSet) {
        let gone = self.roll.group.difference(keep);
        let mut former = Vec::new();
        self.seat.children.remove_if(|_| true, |child| former.push(child));
        for child in former.iter().filter(|child| child.more.place.is_in_filter) {
            for source in child.more.sources() {
                self.tell_filter_replaced(desk.cx, source, Vec::new());
            }
        }
        self.forget_endpoints(desk, &gone);
        if !self.gathers() {
            return self.skip_packets_before(desk.cx);
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

    /// Lets the endpoints here skip the packets that went down before this node got its place. Meanwhile they may have
    /// been at another node and have answered these packets there, and no wave waits for an answer.
    fn skip_packets_before(&mut self, cx: &mut Context<P>) {
        let last = self.down.before_layout;
        let are_told = self.terms.spec.lag_bytes_max.is_some();
        for own in &mut self.own {
            let first = own.to_take.gone_upto().saturating_add(1);
            if first > last {
                continue;
            }
            own.to_take.miss(last);
            // An endpoint over which packets pass is told of all that it missed when it is called back.
            if !own.to_take.passes() && are_told {
                cx.tell_endpoint(self.terms.id, own.endpoint, EndpointEvent::Missed { first, last });
            }
        }
    }
}

/// The state that remains of a child that was lost, or that moved.
struct Bereft {
    /// Its sources of the filter.
    sources: Vec<Source>,
    is_in_filter: bool,
    /// Its children, as far as known.
    orphans: Vec<NodeId>,
    held_from: Option<u64>,
    away: Vec<Missing>,
}

impl Bereft {
    fn of_former<P>(mut child: Child<P>) -> Self {
        let is_lost = child.standing() == Standing::Gone;
        let bereft = Self::of_lost(&mut child);
        if is_lost { bereft } else { Self { orphans: Vec::new(), away: Vec::new(), ..bereft } }
    }

    fn of_lost<P>(child: &mut Child<P>) -> Self {
        let orphans = child.tree().children().map(|tree| tree.root().node).collect();
        let flow = &mut child.more;
        Self {
            sources: flow.sources(),
            is_in_filter: core::mem::take(&mut flow.place.is_in_filter),
            orphans,
            held_from: flow.holds_from.take(),
            away: core::mem::take(&mut flow.away),
        }
    }
}

/// Drops packets of endpoints that have moved to another subtree; they send them again from there.
///
/// The settled keys are kept. The front-end keeps everything that it has given its user.
fn forget_lanes<P: Payload>(state: &mut StreamState<P>) {
    if state.front.is_some() {
        return;
    }
    let is_gone =
        |&&lane: &&u32| lane.checked_sub(1).is_some_and(|endpoint| !state.roll.group.contains(endpoint));
    let gone: Vec<u32> = state.row.lanes.keys().filter(is_gone).copied().collect();
    for lane in gone {
        let keys: Vec<u64> = state.row.lanes[&lane].slots.iter().map(|slot| slot.key).collect();
        for key in keys {
            take_slot(state, lane, key);
        }
        if let Some(waves) = state.row.lanes.get_mut(&lane) {
            state.window.unsettled_bytes -= waves.sent.iter().map(|sent| sent.bytes).sum::<usize>();
            waves.sent.clear();
        }
    }
}
