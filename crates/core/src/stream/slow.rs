//! A slow inner node moves to the edge.
//!
//! All waves of a subtree pass through its root, so a root that runs for a tenth of the time only delays them all. A node sees
//! by its own timers that it is not served, and if that lasts, it reports itself to its parent. The parent compares: if it is
//! served itself, and so are most of its children, it reports the slow one to the front-end, which moves it as a lost one: its
//! children go to its parent, and it begins anew as a leaf, or leaves the stream if it has no endpoints. If all are slow alike,
//! nobody moves.

use super::child::Child;
use super::message::{StreamMessage, StreamReport};
use super::state::StreamState;
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::random::hashed;
use crate::seat::Parent;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

/// A node is slow while its ticks come late by this share of the beat.
const SLOW_SHARE: f64 = 0.25;
/// A node is served well while they are late by less than this share.
const SERVED_SHARE: f64 = 0.0625;
/// So many slow ticks in a row are no passing trouble: after a single pause, a node counts as late for up to twenty.
const SLOW_TICKS: u32 = 25;
/// Beats for which a child counts as slow after it has said so: somewhat longer than until it says so again.
const SLOW_BEATS: f64 = 30.0;
/// Beats for which the parent waits for others to say the same.
const COMPARE_BEATS: f64 = 5.0;
/// The largest share of a beat by which a tick comes early.
const EARLY_SHARE: f64 = 0.75;

impl<P: Payload> StreamState<P> {
    /// When this node looks after the stream again.
    ///
    /// A process that is stopped and continued at about the pace of the beat has all its looks while it runs, and does not see
    /// that it is slow. So inner nodes look earlier, by a time that is drawn.
    pub(crate) fn tick_due(&self, cx: &Context<P>) -> Instant {
        let last_at = self.beat.ticked_at;
        let due = self.patience(cx).speaks_at(last_at).unwrap_or(last_at);
        if !self.is_inner() {
            return due;
        }
        let drawn = hashed([self.terms.id.origin, Instant::START.until(last_at).as_nanos()]);
        let early = EARLY_SHARE * (drawn >> 32) as f64 / f64::from(u32::MAX);
        last_at + last_at.until(due).mul_f64(1.0 - early)
    }

    fn is_inner(&self) -> bool {
        self.front.is_none() && !self.seat.children.is_empty()
    }

    /// Reports this node to its parent if it has been slow for long.
    pub(super) fn tell_slowness(&mut self, cx: &mut Context<P>) {
        let is_slow = self.is_inner() && self.is_late_by(cx, SLOW_SHARE);
        self.beat.slow_ticks = if is_slow { self.beat.slow_ticks + 1 } else { 0 };
        if self.beat.slow_ticks < SLOW_TICKS {
            return;
        }
        self.beat.slow_ticks = 0;
        if let Parent::Node(parent) = self.seat.parent
            && self.order.orphan_since.is_none()
        {
            let place = self.order.number.place;
            let report = StreamReport { stream: self.terms.id, node: cx.me, place, at_once: true };
            cx.send_stream(parent, StreamMessage::Report(report));
        }
    }

    /// Notes that a child has reported itself.
    pub(super) fn note_slow(&mut self, now: Instant, at: usize, place: u64) {
        let flow = &mut self.seat.children[at].more;
        if flow.place.places.number().place == place {
            flow.slow_at = Some(now);
        }
    }

    /// Reports slow children that are apart from the others to the front-end.
    pub(super) fn move_slow(&mut self, cx: &mut Context<P>, now: Instant) {
        let beats = |count| Duration::from(cx.config.tuning.stream_beat).mul_f64(count);
        let (compared, forgotten) = (beats(COMPARE_BEATS), beats(SLOW_BEATS));
        let said = |child: &Child<P>| {
            let ago = child.more.slow_at?.until(now);
            (child.is_open() && !child.is_leaf() && ago < forgotten).then_some((child.node, ago))
        };
        let slow: Vec<(NodeId, Duration)> = self.seat.children.iter().filter_map(said).collect();
        if slow.len() > (self.seat.children.len() / 2).max(1) || self.is_late_by(cx, SERVED_SHARE) {
            return;
        }
        for (node, _) in slow.into_iter().filter(|&(_, ago)| ago >= compared) {
            if let Some(at) = self.child_at(node) {
                self.seat.children[at].more.slow_at = None;
                self.report(cx, now, at, true);
            }
        }
    }

    fn is_late_by(&self, cx: &Context<P>, share: f64) -> bool {
        self.beat.held_up >= Duration::from(cx.config.tuning.stream_beat).mul_f64(share)
    }
}
