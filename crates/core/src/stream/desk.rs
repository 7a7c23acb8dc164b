//! Where what concerns a share arrives, and how the share is left afterwards.
//!
//! Whatever happens to a share, it is taken out of the table, changed, brought as far as it can go, and put back: no
//! order of inputs leaves it with work that nobody will look at.

use super::StreamId;
use super::error::StreamError;
use super::message::StreamMessage;
use super::share::Share;
use crate::id::NodeId;
use crate::message::{Message, Payload};
use crate::node::Node;
use crate::time::Instant;
use crate::timer::Wake;
use alloc::boxed::Box;

impl<P: Payload> Node<P> {
    /// Something was said about a stream.
    pub(crate) fn handle_stream(&mut self, now: Instant, from: NodeId, message: StreamMessage<P>) {
        let stream = message.stream();
        let message = match message {
            StreamMessage::Open(open) if !self.streams.contains_key(&stream) => {
                return self.begin_share(now, from, open);
            }
            message => message,
        };
        let Some(mut share) = self.streams.remove(&stream) else {
            return self.turn_away_stray(from, &message);
        };
        self.note_daze(now, &mut share);
        let lives = match message {
            StreamMessage::Open(open) => self.reopen(now, &mut share, from, &open),
            StreamMessage::Up(up) => self.take_up(now, &mut share, from, up),
            StreamMessage::Down(down) => self.take_down(&mut share, from, down),
            StreamMessage::Settled(settled) => self.take_settled(&mut share, from, settled),
            StreamMessage::Taken { upto, .. } => self.take_taken(now, &mut share, from, upto),
            StreamMessage::News(news) => self.take_news(now, &mut share, from, &news),
            StreamMessage::Ahead { tag, .. } => self.take_ahead(&mut share, from, tag),
            StreamMessage::WantOperator { id, .. } => self.take_operator_want(now, &share, from, id),
            StreamMessage::Operator { id, payload, .. } => self.take_operator(&mut share, from, id, payload),
            StreamMessage::Beat { .. } => self.take_beat(now, &mut share, from),
            StreamMessage::Close { reason, .. } => self.take_close(now, &mut share, from, reason),
        };
        self.put_back(now, share, lives);
    }

    /// Does what a share has become ready for, and puts it back into the table, unless it is over.
    pub(crate) fn put_back(
        &mut self,
        now: Instant,
        mut share: Box<Share<P>>,
        lives: Result<(), StreamError>,
    ) {
        if let Err(reason) = lives {
            return self.end_share(&mut share, &reason);
        }
        self.advance(now, &mut share);
        if share.is_opening {
            self.look_whether_opened(&mut share);
        }
        if share.news_due && !share.is_opening {
            self.tell_news(&mut share);
        }
        let at = self.share_wakes_at(&mut share);
        self.timers.rearm(&mut share.armed, Some(at), Wake::Stream(share.id));
        self.streams.insert(share.id, share);
    }

    /// Changes a share of the table.
    pub(crate) fn with_share(
        &mut self,
        now: Instant,
        stream: StreamId,
        change: impl FnOnce(&mut Self, &mut Share<P>) -> Result<(), StreamError>,
    ) {
        if let Some(mut share) = self.streams.remove(&stream) {
            self.note_daze(now, &mut share);
            let lives = change(self, &mut share);
            self.put_back(now, share, lives);
        }
    }

    pub(crate) fn send_stream(&mut self, to: NodeId, message: StreamMessage<P>) {
        self.send(to, Message::Stream(Box::new(message)));
    }
}
