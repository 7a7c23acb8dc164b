//! The way down: packets of the front-end to all endpoints, or to some.
//!
//! Each bears the front-end's count. A node keeps what it passed on until everyone below has taken it, so that a child
//! that comes from a lost node can be given what it lacks; and tells its parent up to where all is taken, which is what
//! bounds the front-end.

use super::StreamError;
use super::child::Child;
use super::lane::{PACKET_BYTES, weight};
use super::message::{StreamDown, StreamMessage};
use super::share::{AtWork, Busy, Descending, Descent, Down, Filter, Share};
use super::spec::{EndpointEvent, StreamEvent};
use super::table::Streams;
use crate::effect::{Effect, Event};
use crate::error::Reason;
use crate::id::{NodeId, RequestId};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
use crate::time::Instant;
use alloc::collections::VecDeque;
use smallvec::{SmallVec, smallvec};

/// So many packets that were taken are told at once, however small they are.
const UNTOLD_PACKETS_MAX: usize = 64;

impl<P: Payload> Streams<P> {
    /// The front-end's user sends a packet.
    pub(crate) fn send_down(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        request: RequestId,
        tag: u64,
        to: Option<PartitionSet>,
        payload: P,
    ) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_share(cx, now, stream, |share, desk| {
            if payload.len() > desk.cx.config.limits.payload_bytes_max {
                // No child would be given it, and the user's window would never have room again.
                desk.cx.note_lost_down(&Reason::Full("payload_bytes_max".into()));
                share.count_taken(desk.cx, 1, weight(core::slice::from_ref(&payload)));
                return Ok(());
            }
            let sequence = share.down.received.saturating_add(1);
            let packet = StreamDown { stream, sequence, tag, to, payload: None, more: false };
            share.pass_down(desk.cx, packet, smallvec![payload]);
            Ok(())
        });
    }
}

impl<P> Down<P> {
    /// True when this node has dropped a packet with a later sequence number, because every awaited child took it.
    pub(crate) fn has_forgotten_after(&self, sequence: u64) -> bool {
        let kept = self.kept.front().map(|packet| packet.sequence);
        let waiting = self.waiting.front().map(|packet| packet.sequence);
        kept.or(waiting).unwrap_or(self.received.saturating_add(1)) > sequence.saturating_add(1)
    }
}

impl<P: Payload> Share<P> {
    /// The parent sends a packet.
    pub(crate) fn take_down(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        mut packet: StreamDown<P>,
    ) -> Result<(), StreamError> {
        // A new parent sends again what the old one may have sent.
        if self.seat.parent != Parent::Node(from) || packet.sequence <= self.down.received {
            return Ok(());
        }
        let down = &mut self.down;
        down.half_bytes += PACKET_BYTES + packet.payload.as_ref().map_or(0, Payload::len);
        if down.half_bytes.saturating_add(down.held_bytes) > cx.config.limits.held_bytes_max {
            cx.note_bad_message(from, "down: more bytes than may wait here (held_bytes_max)");
            return Err(StreamError::Full { limit: "held_bytes_max".into() });
        }
        down.half.extend(packet.payload.take());
        if !packet.more {
            down.half_bytes = 0;
            let packets = core::mem::take(&mut down.half);
            self.pass_down(cx, packet, packets);
        }
        Ok(())
    }

    /// A whole packet is on its way down: to the filter, or on.
    fn pass_down(&mut self, cx: &mut Context<P>, packet: StreamDown<P>, packets: SmallVec<[P; 1]>) {
        self.down.received = packet.sequence;
        self.down.tag_max = self.down.tag_max.max(packet.tag);
        let StreamDown { sequence, tag, to, .. } = packet;
        let (bytes, left, made) = (weight(&packets), SmallVec::new(), packets);
        let mut descent = Descent { sequence, tag, to, bytes, left, made };
        self.down.held_bytes += bytes;
        if self.terms.spec.down_filter.is_empty() {
            return self.forward(cx, descent);
        }
        descent.left = core::mem::take(&mut descent.made);
        descent.left.reverse();
        self.down.waiting.push_back(descent);
    }

    /// Sends on what has become of a packet here.
    pub(crate) fn forward(&mut self, cx: &mut Context<P>, descent: Descent<P>) {
        let Descent { sequence, tag, to, bytes, made: packets, .. } = descent;
        let descending = Descending { sequence, tag, to, packets, bytes };
        let mut is_awaited = false;
        for at in 0..self.seat.children.len() {
            if self.seat.children[at].standing() == Standing::There {
                is_awaited |= self.send_descending(cx, at, &descending);
            }
            // One that has been asked gets it with what it lacks, once it has said that it is there; so do orphans.
            is_awaited |= self.seat.children[at].is_awaited();
        }
        let is_for = |endpoint: u32| descending.to.as_ref().is_none_or(|to| to.contains(endpoint));
        for own in self.own.iter_mut().filter(|own| is_for(own.endpoint)) {
            for payload in &descending.packets {
                let event = EndpointEvent::Packet { sequence, tag, payload: payload.clone() };
                let event = Event::Endpoint { stream: self.terms.id, endpoint: own.endpoint, event };
                cx.effects.push_back(Effect::Deliver(event));
            }
            if !descending.packets.is_empty() {
                own.to_take.push_back(sequence);
                is_awaited = true;
            }
        }
        if is_awaited || !self.down.kept.is_empty() {
            self.down.kept.push_back(descending);
        } else {
            self.down.held_bytes -= bytes;
            self.count_taken(cx, 1, bytes);
        }
    }

    /// Sends a packet to a child that it concerns.
    fn send_descending(&mut self, cx: &mut Context<P>, at: usize, packet: &Descending<P>) -> bool {
        let child = &mut self.seat.children[at];
        if packet.sequence <= child.more.taken_upto || !is_for(packet, &child.answers_for) {
            return false;
        }
        child.more.to_take.push_back(packet.sequence);
        let node = child.node;
        let down = |payload: Option<P>, more: bool| StreamDown {
            stream: self.terms.id,
            sequence: packet.sequence,
            tag: packet.tag,
            to: packet.to.clone(),
            payload,
            more,
        };
        let last = packet.packets.len().saturating_sub(1);
        for (number, payload) in packet.packets.iter().enumerate() {
            cx.send_stream(node, StreamMessage::Down(down(Some(payload.clone()), number < last)));
        }
        if packet.packets.is_empty() {
            cx.send_stream(node, StreamMessage::Down(down(None, false)));
        }
        true
    }

    /// Gives a child that has just come what it lacks. What it has received it may not have taken; it will say so.
    pub(crate) fn send_down_again(&mut self, cx: &mut Context<P>, at: usize, received: u64) {
        let kept = core::mem::take(&mut self.down.kept);
        self.seat.children[at].more.to_take.clear();
        for packet in &kept {
            let child = &mut self.seat.children[at];
            if packet.sequence > received {
                self.send_descending(cx, at, packet);
            } else if packet.sequence > child.more.taken_upto && is_for(packet, &child.answers_for) {
                child.more.to_take.push_back(packet.sequence);
            }
        }
        self.down.kept = kept;
    }

    /// A child's endpoints have taken everything up to a packet.
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
            while child.more.to_take.front().is_some_and(|&sequence| sequence <= upto) {
                child.more.to_take.pop_front();
            }
            self.forget_taken(cx);
        }
        Ok(())
    }

    /// An endpoint here has taken everything up to a packet.
    pub(crate) fn take_endpoint_taken(&mut self, cx: &mut Context<P>, endpoint: u32, upto: u64) {
        let Some(at) = self.own_at(endpoint) else { return };
        let own = &mut self.own[at];
        while own.to_take.front().is_some_and(|&sequence| sequence <= upto) {
            own.to_take.pop_front();
        }
        self.forget_taken(cx);
    }

    /// True if somebody below has yet to take a packet, or one before it. A child that has yet to say that it takes part may
    /// lack all that is kept.
    fn is_untaken(&mut self, sequence: u64) -> bool {
        let lags = |to_take: &VecDeque<u64>| to_take.front().is_some_and(|&first| first <= sequence);
        let is_behind = |child: &Child<P>| child.is_awaited() || child.is_open() && lags(&child.more.to_take);
        self.seat.children.any_again(is_behind) || self.own.iter().any(|own| lags(&own.to_take))
    }

    /// Up to where everyone below has taken what came.
    fn taken_upto(&mut self) -> u64 {
        for at in 0..self.down.kept.len() {
            let sequence = self.down.kept[at].sequence;
            if self.is_untaken(sequence) {
                return sequence - 1;
            }
        }
        let waiting = self.down.waiting.front().map(|packet| packet.sequence);
        let at_work = match &self.filtering.state {
            Filter::Busy(Busy { what: AtWork::Packet(packet), .. }) => Some(packet.sequence),
            _ => None,
        };
        waiting.into_iter().chain(at_work).min().map_or(self.down.received, |sequence| sequence - 1)
    }

    /// Forgets what all have taken.
    pub(crate) fn forget_taken(&mut self, cx: &mut Context<P>) {
        let mut bytes = 0;
        let mut packets = 0;
        while let Some(first) = self.down.kept.front().map(|packet| packet.sequence)
            && !self.is_untaken(first)
        {
            bytes += self.down.kept.pop_front().map_or(0, |packet| packet.bytes);
            packets += 1;
        }
        self.down.held_bytes -= bytes;
        if packets > 0 {
            self.count_taken(cx, packets, bytes);
        }
    }

    fn count_taken(&mut self, cx: &mut Context<P>, packets: usize, bytes: usize) {
        self.down.untold_bytes += bytes;
        self.down.untold_packets += packets;
        let is_much = self.down.untold_bytes >= self.terms.window_bytes / 4
            || self.down.untold_packets >= UNTOLD_PACKETS_MAX;
        if is_much || self.front.is_some() {
            self.tell_taken(cx);
        }
    }

    /// Tells a new parent how far all below have taken what they were given.
    pub(crate) fn tell_taken_again(&mut self, cx: &mut Context<P>) {
        if let Parent::Node(parent) = self.seat.parent {
            self.down.told_taken = self.taken_upto();
            let upto = self.down.told_taken;
            cx.send_stream(parent, StreamMessage::Taken { stream: self.terms.id, upto });
        }
    }

    /// Tells the parent, or the front-end's user, of what has been taken since it was last told.
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

/// True when a packet is for some of these endpoints.
pub(crate) fn is_for<P>(packet: &Descending<P>, endpoints: &PartitionSet) -> bool {
    packet.to.as_ref().is_none_or(|to| to.intersects(endpoints))
}
