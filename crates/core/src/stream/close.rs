//! The end of a stream at a node, and how a node tells a former child that it is no longer its parent.

use super::error::StreamError;
use super::message::StreamMessage;
use super::spec::{NoFilter, StreamEvent};
use super::state::{Filter, StreamState};
use super::table::{StreamDesk, Streams};
use crate::config::Placement;
use crate::effect::{Effect, FilterEffect};
use crate::error::Reason;
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::Parent;
use crate::time::Instant;
use crate::timer::Wake;
use alloc::sync::Arc;

impl<P: Payload> StreamState<P> {
    /// Handles a `Close`: the parent ends the stream or leaves it, or a child can't take part.
    pub(crate) fn take_close(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        reason: StreamError,
    ) -> Result<(), StreamError> {
        if self.seat.parent == Parent::Node(from) {
            if reason != StreamError::ShuttingDown {
                return Err(reason);
            }
            // Only this parent leaves the stream, or no longer has this child: another parent will follow.
            self.order.orphan_since.get_or_insert(now);
            return Ok(());
        }
        let Some(at) = self.child_at(from) else { return Ok(()) };
        let reason = match reason {
            StreamError::Filter { .. } if self.roll.is_opening => return Err(reason),
            // Every other child would say the same.
            StreamError::Denied { .. } => return Err(reason),
            StreamError::Filter { problem } => Reason::FilterFailed(problem),
            StreamError::Full { limit } => Reason::Full(limit),
            StreamError::ShuttingDown => Reason::ShuttingDown,
            _ => Reason::Lost,
        };
        self.give_up(cx, now, at, &reason, false);
        Ok(())
    }

    /// Answers a node that is not a child of this node. It was given up, and has another parent or will get
    /// one.
    pub(crate) fn turn_away(&self, cx: &mut Context<P>, from: NodeId) {
        if self.seat.parent != Parent::Node(from) {
            let close = StreamMessage::Close { stream: self.terms.id, reason: StreamError::ShuttingDown };
            cx.send_stream(from, close);
        }
    }

    /// Ends the stream here: informs everyone concerned, and leaves nothing behind.
    pub(crate) fn end_state(&mut self, desk: &mut StreamDesk<'_, P>, reason: &StreamError) {
        desk.cx.timers.rearm(&mut self.beat.armed, None, Wake::Stream(self.terms.id));
        desk.streams.operators.forget(self.terms.id);
        if let Filter::Busy(busy) = &mut self.filtering.state {
            desk.cx.abandon_run(self.terms.id, busy);
        }
        if self.terms.spec.has_filter() {
            desk.cx.effects.push_back(Effect::Filter(FilterEffect::Close { stream: self.terms.id }));
        }
        for child in self.seat.children.iter() {
            let close = StreamMessage::Close { stream: self.terms.id, reason: reason.clone() };
            desk.cx.send_stream(child.node, close);
        }
        for own in &self.own {
            desk.streams.close_own(desk.cx, self.terms.id, own, reason);
        }
        match self.seat.parent {
            Parent::Top => {
                self.tell_user(desk.cx, StreamEvent::Closed(reason.clone()));
                if let Some(front) = &self.front {
                    desk.streams.fronts.remove(&front.request);
                }
            }
            // A parent that ended the stream has no state of it any more, and needs no answer.
            Parent::Node(parent) if !matches!(reason, StreamError::Closed | StreamError::FrontLost) => {
                desk.cx.send_stream(
                    parent,
                    StreamMessage::Close { stream: self.terms.id, reason: reason.clone() },
                );
            }
            Parent::Node(_) => {}
        }
    }
}

impl<P: Payload> StreamState<P> {
    /// Refuses to do without the stream's filter where something must be folded, or if the parent does not fold it.
    pub(crate) fn check_filter(&self) -> Result<(), StreamError> {
        match &self.filtering.unknown {
            Some(problem) if !self.filtering.may_lack || !self.seat.children.is_empty() => {
                Err(StreamError::Filter { problem: Arc::clone(problem) })
            }
            _ => Ok(()),
        }
    }
}

impl<P: Payload> Context<P> {
    /// Answers a message about a stream that this node has no state for.
    ///
    /// A message that crosses with the end of a stream is no fault. But a node that takes this one for its
    /// parent must look for another.
    pub(crate) fn turn_away_stray(&mut self, from: NodeId, message: &StreamMessage<P>) {
        let is_child = match message {
            StreamMessage::Up(_)
            | StreamMessage::Taken { .. }
            | StreamMessage::News(_)
            | StreamMessage::Report(_)
            | StreamMessage::Beat { .. } => true,
            StreamMessage::Open(_)
            | StreamMessage::Down(_)
            | StreamMessage::Run(_)
            | StreamMessage::Missed { .. }
            | StreamMessage::Settled(_)
            | StreamMessage::Ahead { .. }
            | StreamMessage::WantOperator { .. }
            | StreamMessage::Operator { .. }
            | StreamMessage::Close { .. } => false,
        };
        if is_child {
            let close = StreamMessage::Close { stream: message.stream(), reason: StreamError::ShuttingDown };
            self.send_stream(from, close);
        }
    }
}

impl<P: Payload> Streams<P> {
    /// The driver has created the filter, or has failed to.
    pub(crate) fn handle_filter_opened(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: super::StreamId,
        result: Result<Placement, NoFilter>,
    ) {
        self.with_state(cx, now, stream, |state, _| match result {
            Ok(placement) => {
                state.filtering.placement = placement;
                if matches!(state.filtering.state, Filter::Opening) {
                    state.filtering.state = Filter::Idle;
                }
                Ok(())
            }
            Err(NoFilter::Unknown(problem)) => {
                state.filtering.unknown = Some(problem);
                state.filtering.state = Filter::None;
                state.check_filter()
            }
            Err(NoFilter::Refused(problem)) => Err(StreamError::Filter { problem }),
        });
    }
}
