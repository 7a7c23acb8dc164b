//! Reports, which tell the front-end which children a node has lost or heard again.
//!
//! A report climbs the tree unchanged, and no node on the way keeps it. A report that is lost with a node is
//! repeated for as long as children wait for its effect.

use super::error::StreamError;
use super::message::{StreamMessage, StreamReport};
use super::state::StreamState;
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::Parent;
use crate::time::Instant;
use alloc::vec::Vec;

impl<P: Payload> StreamState<P> {
    /// Reports a child that was given up and is heard or can be reached again, so that it may begin anew.
    pub(crate) fn hear_again(&mut self, cx: &mut Context<P>, now: Instant, at: usize) {
        let reported_at = self.seat.children[at].more.place.reported_at;
        if reported_at.is_none_or(|reported_at| reported_at.until(now) > cx.config.tuning.stream_beat.into())
        {
            self.report(cx, now, at, true);
        }
    }

    /// Tells the front-end that a child is lost, or may be called back.
    pub(crate) fn report(&mut self, cx: &mut Context<P>, now: Instant, at: usize, at_once: bool) {
        let child = &mut self.seat.children[at];
        child.more.place.reported_at = Some(now);
        let place = child.more.place.places.number().place;
        let report = StreamReport { stream: self.terms.id, node: child.node, place, at_once };
        self.pass_report(cx, now, report);
    }

    /// Repeats reports that may have been lost, for lost children whose own children still wait for a parent.
    pub(crate) fn report_again(&mut self, cx: &mut Context<P>, now: Instant) {
        let patience = cx.config.tuning.stream_patience;
        self.report_where(cx, now, |then| then.until(now) > patience.into());
    }

    /// Reports to a new parent all lost children whose own children wait for a parent.
    pub(crate) fn report_orphans(&mut self, cx: &mut Context<P>, now: Instant) {
        self.report_where(cx, now, |_| true);
    }

    fn report_where(&mut self, cx: &mut Context<P>, now: Instant, is_due: impl Fn(Instant) -> bool) {
        let mut due = Vec::new();
        for child in self.seat.children.iter().filter(|child| child.leaves_orphans()) {
            if child.more.place.reported_at.is_none_or(&is_due) {
                due.push(child.node);
            }
        }
        for node in due {
            if let Some(at) = self.child_at(node) {
                self.report(cx, now, at, true);
            }
        }
    }

    /// Takes a report from a child: a node below has lost a child, or heard it again.
    pub(crate) fn take_report(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        report: StreamReport,
    ) -> Result<(), StreamError> {
        match self.child_at(from) {
            Some(at) => {
                self.seat.children[at].heard_at = now;
                if report.node == from {
                    self.note_slow(now, at, report.place);
                } else {
                    self.pass_report(cx, now, report);
                }
            }
            None => self.turn_away(cx, from),
        }
        Ok(())
    }

    fn pass_report(&mut self, cx: &mut Context<P>, now: Instant, report: StreamReport) {
        match self.seat.parent {
            Parent::Top => self.judge(cx, now, report),
            Parent::Node(parent) if self.order.orphan_since.is_none() => {
                cx.send_stream(parent, StreamMessage::Report(report));
            }
            Parent::Node(_) => {}
        }
    }

    /// Decides at the front-end: orphans move to their grandparent, and the lost node begins anew, now or
    /// later.
    fn judge(&mut self, cx: &mut Context<P>, now: Instant, report: StreamReport) {
        let Some(front) = self.front.as_mut() else { return };
        let StreamReport { node, place, at_once, .. } = report;
        if front.layout.place_of(node) != Some(place) {
            // It has another place by now.
            return;
        }
        let (asked_at, _) = front.asked.entry(node).or_insert((now, 0));
        if at_once {
            *asked_at = now;
        }
        if front.layout.lose(node, place, at_once) {
            self.follow_layout(cx, now);
        }
    }
}
