//! The place where every input about a share arrives.
//!
//! For each input, the share is taken out of the table, changed, advanced as far as possible, and put back.
//! So no order of inputs can leave a share with work that nothing will pick up.

use super::StreamId;
use super::error::StreamError;
use super::message::StreamMessage;
use super::share::Share;
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
            StreamMessage::Open(open) if !self.shares.contains_key(&stream) => {
                return self.begin_share(cx, now, from, open);
            }
            message => message,
        };
        let Some(mut share) = self.shares.remove(&stream) else {
            return cx.turn_away_stray(from, &message);
        };
        share.note_stall(cx, now);
        let lives = match message {
            StreamMessage::Open(open) => {
                share.reseat(&mut StreamDesk { cx, streams: self }, now, from, &open)
            }
            StreamMessage::Up(up) => share.take_up(cx, now, from, up),
            StreamMessage::Down(down) => share.take_down(cx, from, down),
            StreamMessage::Settled(settled) => share.take_settled(cx, from, settled),
            StreamMessage::Taken { upto, .. } => share.take_taken(cx, now, from, upto),
            StreamMessage::News(news) => share.take_news(cx, now, from, &news),
            StreamMessage::Report(report) => share.take_report(cx, now, from, report),
            StreamMessage::Ahead { tag, .. } => share.take_ahead(cx, from, tag),
            StreamMessage::WantOperator { id, .. } => {
                share.take_operator_want(&mut StreamDesk { cx, streams: self }, now, from, id)
            }
            StreamMessage::Operator { id, payload, .. } => {
                share.take_operator(&mut StreamDesk { cx, streams: self }, from, id, payload)
            }
            StreamMessage::Beat { .. } => share.take_beat(cx, now, from),
            StreamMessage::Close { reason, .. } => share.take_close(cx, now, from, reason),
        };
        share.put_back(&mut StreamDesk { cx, streams: self }, now, lives);
    }

    /// Changes a share of the table.
    pub(crate) fn with_share(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: StreamId,
        change: impl FnOnce(&mut Share<P>, &mut StreamDesk<'_, P>) -> Result<(), StreamError>,
    ) {
        if let Some(mut share) = self.shares.remove(&stream) {
            share.note_stall(cx, now);
            let mut desk = StreamDesk { cx, streams: self };
            let lives = change(&mut share, &mut desk);
            share.put_back(&mut desk, now, lives);
        }
    }
}

impl<P: Payload> Share<P> {
    /// Advances a share as far as possible and puts it back into the table, unless it is over.
    pub(crate) fn put_back(
        mut self: Box<Self>,
        desk: &mut StreamDesk<'_, P>,
        now: Instant,
        lives: Result<(), StreamError>,
    ) {
        if let Err(reason) = lives {
            return self.end_share(desk, &reason);
        }
        self.advance(desk.cx, now);
        if self.roll.is_opening {
            self.look_whether_opened();
        }
        if self.roll.news_due && !self.roll.is_opening {
            self.tell_news(desk.cx);
        }
        let at = self.share_wakes_at(desk.cx);
        desk.cx.timers.rearm(&mut self.beat.armed, Some(at), Wake::Stream(self.terms.id));
        desk.streams.shares.insert(self.terms.id, self);
    }
}

impl<P: Payload> Context<P> {
    pub(crate) fn send_stream(&mut self, to: NodeId, message: StreamMessage<P>) {
        self.send(to, Message::Stream(Box::new(message)));
    }
}
