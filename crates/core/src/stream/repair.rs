//! Detects lost and silent children.
//!
//! A child is lost when its connection breaks, or when it is silent for [`Tuning::stream_patience`]; every
//! node sends its parent a beat each [`Tuning::stream_beat`]. From the loss on the child's own endpoints are
//! *away*: they are missing from every wave, with the reason, until they are back.
//!
//! The parent reports the loss to the front-end. The front-end decides which node adopts the lost child's
//! children, and where and when the child begins anew. A returning child begins with a tag that no node has
//! seen yet, so that it is never behind the others. Until the front-end has decided, waves wait for the
//! children. They keep what is not settled and send it again; the contributors show which packets arrive
//! twice.
//!
//! [`Tuning::stream_patience`]: crate::config::Tuning::stream_patience
//! [`Tuning::stream_beat`]: crate::config::Tuning::stream_beat

use super::StreamError;
use super::child::{Child, Half};
use super::gather::next_slot_due;
use super::lane::GATHERED;
use super::message::StreamMessage;
use super::state::StreamState;
use super::table::{StreamDesk, Streams};
use crate::config::Tuning;
use crate::effect::{Effect, TracePoint};
use crate::error::{Missing, Reason};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::{Parent, Patience, Standing};
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

/// The part of this node's own lateness that remains after each beat.
const HELD_UP_KEPT: f64 = 0.875;
/// A child may be as late as this node with its beat, and as late again with writing it to the connection.
const HELD_UP_FACTOR: f64 = 2.0;
impl<P: Payload> Streams<P> {
    /// Handles the loss of a peer, as a parent and as a child.
    pub(crate) fn handle_stream_peer_gone(&mut self, cx: &mut Context<P>, now: Instant, peer: NodeId) {
        let concerned: Vec<_> = self
            .states
            .values()
            .filter(|state| state.seat.parent == Parent::Node(peer) || state.child_at(peer).is_some())
            .map(|state| state.terms.id)
            .collect();
        for stream in concerned {
            self.with_state(cx, now, stream, |state, desk| {
                if state.seat.parent == Parent::Node(peer) {
                    if peer.is_client() {
                        return Err(StreamError::FrontLost);
                    }
                    state.order.orphan_since.get_or_insert(now);
                }
                if let Some(at) = state.child_at(peer) {
                    state.give_up(desk.cx, now, at, &Reason::Lost, true);
                }
                Ok(())
            });
        }
    }

    /// Handles the news that a peer can be reached, perhaps again.
    pub(crate) fn handle_stream_peer_seen(&mut self, cx: &mut Context<P>, now: Instant, peer: NodeId) {
        let is_missed = |state: &StreamState<P>| {
            state.child_at(peer).is_some_and(|at| state.seat.children[at].standing() == Standing::Gone)
        };
        let concerned: Vec<_> =
            self.states.values().filter(|state| is_missed(state)).map(|state| state.terms.id).collect();
        for stream in concerned {
            self.with_state(cx, now, stream, |state, desk| {
                if let Some(at) = state.child_at(peer) {
                    state.hear_again(desk.cx, now, at);
                }
                Ok(())
            });
        }
    }

    /// Handles a stream's timer.
    pub(crate) fn handle_stream_timeout(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: super::StreamId,
    ) {
        self.with_state(cx, now, stream, |state, desk| {
            state.beat.armed = None;
            state.time_out_slots(now);
            if now < state.tick_due(desk.cx) {
                return Ok(());
            }
            state.note_held_up(desk.cx, now);
            state.beat.ticked_at = now;
            state.tick(desk, now)
        });
    }
}

impl<P: Payload> StreamState<P> {
    /// Resets the children's silence if this node itself was held up for long, and sends a beat at once.
    ///
    /// A node that was held up has heard nothing, through no fault of its children.
    pub(crate) fn note_stall(&mut self, cx: &mut Context<P>, now: Instant) {
        let held_up = Duration::from(cx.config.tuning.stream_beat)
            + Duration::from(cx.config.tuning.stream_patience).mul_f64(0.5);
        if self.beat.ticked_at.until(now) <= held_up {
            return;
        }
        self.note_held_up(cx, now);
        self.beat.ticked_at = now;
        self.seat.children.iter_mut().for_each(|child| child.heard_at = now);
        if let Parent::Node(parent) = self.seat.parent {
            cx.send_stream(parent, StreamMessage::Beat { stream: self.terms.id });
        }
    }

    /// Records how late this node is, which shows how late others may be without fault on a crowded machine.
    ///
    /// The largest value fades by an eighth with every beat.
    fn note_held_up(&mut self, cx: &Context<P>, now: Instant) {
        let late = self.tick_due(cx).until(now).min(cx.config.tuning.stream_patience.into());
        self.beat.held_up = late.max(self.beat.held_up.mul_f64(HELD_UP_KEPT));
    }

    /// Gives up a child. `calls_back`: if the child took part until now, it may be called back at once.
    pub(crate) fn give_up(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        at: usize,
        reason: &Reason,
        calls_back: bool,
    ) {
        self.lose_child(cx, now, at, reason, calls_back);
        self.close_ranks(cx);
    }

    /// Brings the stream up to date after children or endpoints were lost.
    pub(super) fn close_ranks(&mut self, cx: &mut Context<P>) {
        debug_assert!(self.is_grouped(), "a lost endpoint stays in the group, away or not");
        self.forget_taken(cx);
        self.look_at_slots();
    }

    /// The first part of giving up a child. When several are lost together,
    /// [`close_ranks`](Self::close_ranks) runs once.
    fn lose_child(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        at: usize,
        reason: &Reason,
        calls_back: bool,
    ) {
        let child = &mut self.seat.children[at];
        if !child.is_open() {
            return;
        }
        let (node, was_there) = (child.node, child.standing() == Standing::There);
        let own = child.tree().root().partitions.intersection(&child.answers_for);
        let orphans = child.tree().children().count();
        let answers_for = child.answers_for.clone();
        let flow = &mut child.more;
        flow.formerly.union_with(&answers_for);
        flow.half = Half::default();
        flow.to_take.clear();
        flow.told_ahead = 0;
        let (sources, held_from) = (flow.sources(), flow.holds_from);
        let leaves_filter = orphans == 0 && core::mem::take(&mut flow.place.is_in_filter);
        self.seat.children.set_standing(at, Standing::Gone);
        cx.counters.stream_repairs += 1;
        let trace =
            TracePoint::Orphans { stream: self.terms.id, child: node, orphans, reason: reason.clone() };
        cx.effects.push_back(Effect::Trace(trace));
        if !own.is_empty() {
            self.put_away(Missing { partitions: own, node: Some(node), reason: reason.clone() });
        }
        if leaves_filter {
            sources.into_iter().for_each(|source| self.tell_filter_replaced(cx, source, Vec::new()));
        }
        if let Some(from) = held_from.filter(|_| self.gathers() && !self.terms.spec.up_filter.is_empty()) {
            self.withhold(from);
        }
        self.roll.news_due = true;
        self.report(cx, now, at, calls_back && was_there);
    }

    /// Takes a sign of life from a child.
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
                    self.hear_again(cx, now, at);
                }
            }
            None => self.turn_away(cx, from),
        }
        Ok(())
    }

    /// When the stream must be examined again.
    pub(crate) fn state_wakes_at(&mut self, cx: &Context<P>) -> Instant {
        let tick_at = self.tick_due(cx);
        let wakes_at = next_slot_due(self).map_or(tick_at, |due| due.min(tick_at));
        self.down.reach.look_at.map_or(wakes_at, |look_at| look_at.min(wakes_at))
    }

    /// How long this node waits for a silent child, and how often it sends a beat itself.
    ///
    /// The time grows with this node's own lateness, because on a crowded machine all nodes are late.
    pub(super) fn patience(&self, cx: &Context<P>) -> Patience {
        let Tuning { stream_beat: every, stream_patience, .. } = cx.config.tuning;
        Patience::Beats {
            every: every.into(),
            silence: Duration::from(stream_patience) + self.beat.held_up.mul_f64(HELD_UP_FACTOR),
        }
    }

    /// The periodic work of a stream.
    fn tick(&mut self, desk: &mut StreamDesk<'_, P>, now: Instant) -> Result<(), StreamError> {
        if let Some(since) = self.order.orphan_since
            && since.until(now) > desk.cx.config.tuning.orphan_patience.into()
        {
            return Err(StreamError::FrontLost);
        }
        self.settle_taken(desk.cx);
        self.tell_taken(desk.cx);
        self.repeat_taken(desk.cx);
        self.give_up_stuck_filter(desk.cx, now)?;
        self.look_after_operator_wants(desk, now)?;
        self.lose_silent(desk.cx, now);
        self.tell_slowness(desk.cx);
        self.move_slow(desk.cx, now);
        self.call_back_laggards(desk.cx);
        self.report_again(desk.cx, now);
        self.look_for_missed(desk, now);
        if let Parent::Node(parent) = self.seat.parent
            && self.order.orphan_since.is_none()
        {
            desk.cx.send_stream(parent, StreamMessage::Beat { stream: self.terms.id });
        }
        Ok(())
    }

    /// Gives up children that have sent no sign of life for too long.
    fn lose_silent(&mut self, cx: &mut Context<P>, now: Instant) {
        let patience = self.patience(cx);
        let is_silent = |child: &Child<P>| {
            child.is_open() && patience.silent_at(child.heard_at, child.height()).is_some_and(|at| at < now)
        };
        let mut are_some_lost = false;
        while let Some(at) = self.seat.children.iter().position(is_silent) {
            self.lose_child(cx, now, at, &Reason::Late, true);
            are_some_lost = true;
        }
        if are_some_lost {
            self.close_ranks(cx);
        }
    }
}

impl<P: Payload> StreamState<P> {
    /// Withholds settlement from the nodes below for waves that a lost node's filter may have kept.
    ///
    /// The lost node's heirs send their pieces again. The nodes below must keep these until the filter here
    /// has them.
    fn withhold(&mut self, from: u64) {
        self.row.holds_from = Some(self.row.holds_from.map_or(from, |held| held.min(from)));
        if let Some(lane) = self.row.lanes.get_mut(&GATHERED) {
            let held = lane.settled.clone().split_off(from);
            held.runs().iter().for_each(|&(first, last)| lane.withheld.insert_run(first, last));
        }
    }
}
