//! The place where every input about a stream arrives.
//!
//! For each input, the state of the stream is taken out of the table, changed, advanced as far as possible, and put back.
//! So no order of inputs can leave a stream with work that nothing will pick up.

use super::StreamId;
use super::error::StreamError;
use super::message::StreamMessage;
use super::state::StreamState;
use super::table::{StreamDesk, Streams};
use crate::id::NodeId;
use crate::message::{Message, Payload};
use crate::node::context::Context;
use crate::time::Instant;
use crate::timer::Wake;
use alloc::boxed::Box;

impl<P: Payload> Streams<P> {
    /// Handles a message about a stream.
    pub(crate) fn handle_stream(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        message: StreamMessage<P>,
    ) {
        let stream = message.stream();
        let message = match message {
            StreamMessage::Open(open) if !self.states.contains_key(&stream) => {
                return self.begin_state(cx, now, from, open);
            }
            message => message,
        };
        let Some(mut state) = self.states.remove(&stream) else {
            return cx.turn_away_stray(from, &message);
        };
        state.note_stall(cx, now);
        let lives = match message {
            StreamMessage::Open(open) => {
                state.reseat(&mut StreamDesk { cx, streams: self }, now, from, &open)
            }
            StreamMessage::Up(up) => state.take_up(cx, now, from, up),
            StreamMessage::Down(down) => state.take_down(cx, from, down),
            StreamMessage::Run(run) => state.take_run(cx, from, run),
            StreamMessage::Missed { first, last, .. } => state.take_missed(cx, from, first, last),
            StreamMessage::Settled(settled) => state.take_settled(cx, from, settled),
            StreamMessage::Taken { upto, .. } => state.take_taken(cx, now, from, upto),
            StreamMessage::News(news) => state.take_news(cx, now, from, &news),
            StreamMessage::Report(report) => state.take_report(cx, now, from, report),
            StreamMessage::Ahead { tag, .. } => state.take_ahead(cx, from, tag),
            StreamMessage::WantOperator { id, .. } => {
                state.take_operator_want(&mut StreamDesk { cx, streams: self }, now, from, id)
            }
            StreamMessage::Operator { id, payload, .. } => {
                state.take_operator(&mut StreamDesk { cx, streams: self }, from, id, payload)
            }
            StreamMessage::Beat { .. } => state.take_beat(cx, now, from),
            StreamMessage::Close { reason, .. } => state.take_close(cx, now, from, reason),
        };
        state.put_back(&mut StreamDesk { cx, streams: self }, now, lives);
    }

    /// Changes the state of a stream in the table.
    pub(crate) fn with_state(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: StreamId,
        change: impl FnOnce(&mut StreamState<P>, &mut StreamDesk<'_, P>) -> Result<(), StreamError>,
    ) {
        if let Some(mut state) = self.states.remove(&stream) {
            state.note_stall(cx, now);
            let mut desk = StreamDesk { cx, streams: self };
            let lives = change(&mut state, &mut desk);
            state.put_back(&mut desk, now, lives);
        }
    }
}

impl<P: Payload> StreamState<P> {
    /// Advances a stream as far as possible and puts it back into the table, unless it is over.
    pub(crate) fn put_back(
        mut self: Box<Self>,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        lives: Result<(), StreamError>,
    ) {
        if let Err(reason) = lives {
            return self.end_state(desk, &reason);
        }
        self.look_whether_some_lag(desk.cx, now);
        self.advance(desk.cx, now);
        if self.roll.is_opening {
            self.look_whether_opened();
        }
        if self.roll.news_due && !self.roll.is_opening {
            self.tell_news(desk.cx);
        }
        let at = self.state_wakes_at(desk.cx);
        desk.cx.timers.rearm(&mut self.beat.armed, Some(at), Wake::Stream(self.terms.id));
        desk.streams.states.insert(self.terms.id, self);
    }
}

impl<P: Payload> Context<P> {
    pub(crate) fn send_stream(&mut self, to: NodeId, message: StreamMessage<P>) {
        self.send(to, Message::Stream(Box::new(message)));
    }
}
