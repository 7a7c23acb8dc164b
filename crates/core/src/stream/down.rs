//! The way down: packets of the front-end to all endpoints, or to some of them.
//!
//! Each packet has the front-end's sequence number. A node keeps a packet that it passed on until everyone
//! below has taken it, so that it can give a child of a lost node the packets that the child lacks. It also
//! acknowledges to its parent the packets that all below have taken; these acknowledgements bound what the
//! front-end may send.

use super::StreamError;
use super::child::Child;
use super::lane::{PACKET_BYTES, weight};
use super::message::{StreamDown, StreamMessage};
use super::spec::{EndpointEvent, StreamEvent};
use super::state::{AtWork, Busy, Descending, Descent, Down, Filter, StreamState};
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

/// After this many taken packets the parent is told at once, however small the packets are.
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
        self.with_state(cx, now, stream, |state, desk| {
            if payload.len() > desk.cx.config.limits.payload_bytes_max {
                // No child could receive it. It counts as taken, because otherwise the user's window would
                // never have room again.
                desk.cx.note_lost_down(&Reason::Full("payload_bytes_max".into()));
                state.count_taken(desk.cx, 1, weight(core::slice::from_ref(&payload)));
                return Ok(());
            }
            let sequence = state.down.received.saturating_add(1);
            let packet = StreamDown { stream, sequence, tag, to, payload: None, more: false };
            state.pass_down(desk.cx, packet, smallvec![payload]);
            Ok(())
        });
    }
}

impl<P> Down<P> {
    /// True if this node has dropped a packet with a later sequence number, because every awaited child took
    /// it.
    pub(crate) fn has_forgotten_after(&self, sequence: u64) -> bool {
        let kept = self.kept.front().map(|packet| packet.sequence);
        let waiting = self.waiting.front().map(|packet| packet.sequence);
        kept.or(waiting).unwrap_or(self.received.saturating_add(1)) > sequence.saturating_add(1)
    }
}

impl<P: Payload> StreamState<P> {
    /// Takes a packet from the parent.
    pub(crate) fn take_down(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        mut packet: StreamDown<P>,
    ) -> Result<(), StreamError> {
        // A new parent sends again the packets that the old parent may have sent.
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

    /// Passes a complete packet on: to the filter, or to everyone below.
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

    /// Sends the result of a packet to everyone below.
    pub(crate) fn forward(&mut self, cx: &mut Context<P>, descent: Descent<P>) {
        let Descent { sequence, tag, to, bytes, made: packets, .. } = descent;
        let descending = Descending { sequence, tag, to, packets, bytes };
        let mut is_awaited = false;
        for at in 0..self.seat.children.len() {
            if self.seat.children[at].standing() == Standing::There {
                is_awaited |= self.send_descending(cx, at, &descending);
            }
            // A child that has been asked receives the packet after it has said that it is there. So do
            // orphans.
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

    /// Sends a packet to a child, if it is for an endpoint of its subtree.
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

    /// Sends a child that has just joined the packets that it lacks.
    ///
    /// The child may not have taken all that it has received; it acknowledges those packets later.
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
            while child.more.to_take.front().is_some_and(|&sequence| sequence <= upto) {
                child.more.to_take.pop_front();
            }
            self.forget_taken(cx);
        }
        Ok(())
    }

    /// Notes that an endpoint here has taken all packets up to one.
    pub(crate) fn take_endpoint_taken(&mut self, cx: &mut Context<P>, endpoint: u32, upto: u64) {
        let Some(at) = self.own_at(endpoint) else { return };
        let own = &mut self.own[at];
        while own.to_take.front().is_some_and(|&sequence| sequence <= upto) {
            own.to_take.pop_front();
        }
        self.forget_taken(cx);
    }

    /// True if a child or endpoint below has not taken this packet or an earlier one.
    ///
    /// A child that has not yet said that it takes part may lack all packets that are kept.
    fn is_untaken(&mut self, sequence: u64) -> bool {
        let lags = |to_take: &VecDeque<u64>| to_take.front().is_some_and(|&first| first <= sequence);
        let is_behind = |child: &Child<P>| child.is_awaited() || child.is_open() && lags(&child.more.to_take);
        self.seat.children.any_again(is_behind) || self.own.iter().any(|own| lags(&own.to_take))
    }

    /// Last down-sequence number that everyone below has taken.
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

    /// Drops the packets that everyone below has taken.
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

/// True if a packet is for some of these endpoints.
pub(crate) fn is_for<P>(packet: &Descending<P>, endpoints: &PartitionSet) -> bool {
    packet.to.as_ref().is_none_or(|to| to.intersects(endpoints))
}
