//! Acknowledgements on the way down: which packets everyone below has taken.
//!
//! A node acknowledges to its parent the packets that all below have taken, and forgets them. The acknowledgements
//! bound what the front-end may send. A packet counts with its weight, so an acknowledgement is due after a part of the
//! window, however small the packets are.

use super::StreamError;
use super::child::Child;
use super::descent::Due;
use super::message::StreamMessage;
use super::spec::StreamEvent;
use super::state::{AtWork, Busy, Filter, StreamState};
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::seat::Parent;
use crate::time::Instant;

impl<P: Payload> StreamState<P> {
    /// Notes that a child's endpoints have taken all packets up to one.
    pub(crate) fn take_taken(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        from: NodeId,
        upto: u64,
    ) -> Result<(), StreamError> {
        if let Some(at) = self.child_at(from) {
            let child = &mut self.seat.children[at];
            child.heard_at = now;
            child.more.taken_upto = child.more.taken_upto.max(upto);
            let bytes = child.more.to_take.take(upto);
            self.forget_taken(cx);
            self.down.reach.unseen_bytes += bytes;
        }
        Ok(())
    }

    /// Notes that an endpoint here has taken all packets up to one.
    pub(crate) fn take_endpoint_taken(&mut self, cx: &mut Context<P>, endpoint: u32, upto: u64) {
        let Some(at) = self.own_at(endpoint) else { return };
        let bytes = self.own[at].to_take.take(upto);
        self.forget_taken(cx);
        self.down.reach.unseen_bytes += bytes;
    }

    /// True if a child or endpoint below has not taken this packet or an earlier one.
    ///
    /// A child that has not yet said that it takes part may lack all packets that are kept. In a stream with a lag
    /// limit it is not waited for beyond that limit.
    fn is_untaken(&mut self, due: Due) -> bool {
        let is_past = self.is_beyond_lag(due);
        let is_behind = |child: &Child<P>| {
            !is_past && child.is_awaited() || child.is_open() && child.more.to_take.lags(due.last)
        };
        self.seat.children.any_again(is_behind) || self.own.iter().any(|own| own.to_take.lags(due.last))
    }

    /// Last down-sequence number that everyone below has taken. A run is taken as a whole.
    fn taken_upto(&mut self) -> u64 {
        for at in 0..self.down.kept.len() {
            let due = self.down.kept[at].due;
            if self.is_untaken(due) {
                return due.first - 1;
            }
        }
        let waiting = self.down.waiting.front().map(|packet| packet.sequence);
        let at_work = match &self.filtering.state {
            Filter::Busy(Busy { what: AtWork::Packet(packet), .. }) => Some(packet.sequence),
            _ => None,
        };
        waiting.into_iter().chain(at_work).min().map_or(self.down.received, |sequence| sequence - 1)
    }

    /// Drops the packets that everyone below has taken.
    pub(crate) fn forget_taken(&mut self, cx: &mut Context<P>) {
        let mut bytes = 0;
        let mut packets = 0;
        while let Some(due) = self.down.kept.front().map(|packets| packets.due)
            && !self.is_untaken(due)
        {
            bytes += self.down.kept.pop_front().map_or(0, |packet| packet.bytes);
            packets += 1;
        }
        self.down.held_bytes -= bytes;
        if packets > 0 {
            self.count_taken(cx, packets, bytes);
        }
    }

    pub(crate) fn count_taken(&mut self, cx: &mut Context<P>, packets: usize, bytes: usize) {
        self.down.untold_bytes += bytes;
        self.down.untold_packets += packets;
        if self.down.untold_bytes >= self.untold_bytes_max() || self.front.is_some() {
            self.tell_taken(cx);
        }
    }

    /// Taken bytes after which the parent is told at once.
    ///
    /// Each level of the tree may withhold so much. All levels together withhold less than half of a window, so that
    /// the front-end never waits for packets that are taken.
    fn untold_bytes_max(&self) -> usize {
        let share = self.terms.window_bytes / (2 * (self.terms.levels as usize + 1));
        if self.terms.spec.lag_bytes_max.is_some() {
            share.min(self.acknowledge_bytes() as usize)
        } else {
            share
        }
    }

    /// Tells a new parent the last packet that everyone below has taken.
    pub(crate) fn tell_taken_again(&mut self, cx: &mut Context<P>) {
        if let Parent::Node(parent) = self.seat.parent {
            self.down.told_taken = self.taken_upto();
            let upto = self.down.told_taken;
            cx.send_stream(parent, StreamMessage::Taken { stream: self.terms.id, upto });
        }
    }

    /// Reports packets taken since the last report to the parent, or to the front-end's user.
    pub(crate) fn tell_taken(&mut self, cx: &mut Context<P>) {
        if self.down.untold_packets == 0 {
            return;
        }
        let bytes = core::mem::take(&mut self.down.untold_bytes) as u64;
        self.down.untold_packets = 0;
        match self.seat.parent {
            Parent::Top => self.tell_user(cx, StreamEvent::Taken { bytes }),
            Parent::Node(parent) => {
                let upto = self.taken_upto();
                if self.order.orphan_since.is_none() && upto > self.down.told_taken {
                    self.down.told_taken = upto;
                    cx.send_stream(parent, StreamMessage::Taken { stream: self.terms.id, upto });
                }
            }
        }
    }
}
