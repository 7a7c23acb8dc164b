//! The way down: packets of the front-end to all endpoints, or to some.
//!
//! Each bears the front-end's count. A node keeps what it passed on until everyone below has taken it, so that a child
//! that comes from a lost node can be given what it lacks; and tells its parent up to where all is taken, which is what
//! bounds the front-end.

use super::StreamError;
use super::branch::{Branch, Standing};
use super::lane::{PACKET_BYTES, weight};
use super::message::{StreamDown, StreamMessage};
use super::share::{AtWork, Busy, Descending, Descent, Filter, Parent, Share};
use super::spec::{EndpointEvent, StreamEvent};
use crate::effect::{Effect, Event};
use crate::error::Reason;
use crate::id::{NodeId, RequestId};
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use alloc::boxed::Box;
use smallvec::{SmallVec, smallvec};

/// So many packets that were taken are told at once, however small they are.
const UNTOLD_PACKETS_MAX: usize = 64;

impl<P: Payload> Node<P> {
    /// The front-end's user sends a packet.
    pub(crate) fn send_down(
        &mut self,
        now: Instant,
        request: RequestId,
        tag: u64,
        to: Option<PartitionSet>,
        payload: P,
    ) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_share(now, stream, |node, share| {
            if payload.len() > node.config.limits.payload_bytes_max {
                // No child would be given it, and the user's window would never have room again.
                node.note_lost_down(&Reason::Full("payload_bytes_max".into()));
                node.count_taken(share, 1, weight(core::slice::from_ref(&payload)));
                return Ok(());
            }
            let sequence = share.down.received.saturating_add(1);
            let packet = StreamDown { stream, sequence, tag, to, payload: None, more: false };
            node.pass_down(share, packet, smallvec![payload]);
            Ok(())
        });
    }

    /// The parent sends a packet.
    pub(crate) fn take_down(
        &mut self,
        share: &mut Share<P>,
        from: NodeId,
        mut packet: StreamDown<P>,
    ) -> Result<(), StreamError> {
        // A new parent sends again what the old one may have sent.
        if share.parent != Parent::Node(from) || packet.sequence <= share.down.received {
            return Ok(());
        }
        let down = &mut share.down;
        down.half_bytes += PACKET_BYTES + packet.payload.as_ref().map_or(0, Payload::len);
        if down.half_bytes.saturating_add(down.held_bytes) > self.config.limits.held_bytes_max {
            self.note_bad_message(from, "down: more bytes than may wait here (held_bytes_max)");
            return Err(StreamError::Full { limit: "held_bytes_max".into() });
        }
        down.half.extend(packet.payload.take());
        if !packet.more {
            down.half_bytes = 0;
            let packets = core::mem::take(&mut down.half);
            self.pass_down(share, packet, packets);
        }
        Ok(())
    }

    /// A whole packet is on its way down: to the filter, or on.
    fn pass_down(&mut self, share: &mut Share<P>, packet: StreamDown<P>, packets: SmallVec<[P; 1]>) {
        share.down.received = packet.sequence;
        share.down.tag_max = share.down.tag_max.max(packet.tag);
        let StreamDown { sequence, tag, to, .. } = packet;
        let (bytes, left, made) = (weight(&packets), SmallVec::new(), packets);
        let mut descent = Descent { sequence, tag, to, bytes, left, made };
        share.down.held_bytes += bytes;
        if share.spec.down_filter.is_empty() {
            return self.forward(share, descent);
        }
        descent.left = core::mem::take(&mut descent.made);
        descent.left.reverse();
        share.down.waiting.push_back(descent);
    }

    /// Sends on what has become of a packet here.
    pub(crate) fn forward(&mut self, share: &mut Share<P>, descent: Descent<P>) {
        let Descent { sequence, tag, to, bytes, made: packets, .. } = descent;
        let descending = Descending { sequence, tag, to, packets, bytes };
        let mut is_awaited = false;
        for at in 0..share.branches.len() {
            if share.branches[at].standing == Standing::There {
                is_awaited |= self.send_descending(share, at, &descending);
            }
            // One that has been asked gets it with what it lacks, once it has said that it is there.
            is_awaited |= share.branches[at].is_awaited();
        }
        let is_for = |endpoint: u32| descending.to.as_ref().is_none_or(|to| to.contains(endpoint));
        for own in share.own.iter_mut().filter(|own| is_for(own.endpoint)) {
            for payload in &descending.packets {
                let event = EndpointEvent::Packet { sequence, tag, payload: payload.clone() };
                let event = Event::Endpoint { stream: share.id, endpoint: own.endpoint, event };
                self.effects.push_back(Effect::Deliver(event));
            }
            if !descending.packets.is_empty() {
                own.to_take.push_back(sequence);
                is_awaited = true;
            }
        }
        if is_awaited || !share.down.kept.is_empty() {
            share.down.kept.push_back(descending);
        } else {
            share.down.held_bytes -= bytes;
            self.count_taken(share, 1, bytes);
        }
    }

    /// Sends a packet to a child that it concerns.
    fn send_descending(&mut self, share: &mut Share<P>, at: usize, packet: &Descending<P>) -> bool {
        let branch = &mut share.branches[at];
        if !is_for(packet, &branch.endpoints) {
            return false;
        }
        branch.to_take.push_back(packet.sequence);
        let node = branch.node;
        let down = |payload: Option<P>, more: bool| StreamDown {
            stream: share.id,
            sequence: packet.sequence,
            tag: packet.tag,
            to: packet.to.clone(),
            payload,
            more,
        };
        let last = packet.packets.len().saturating_sub(1);
        for (number, payload) in packet.packets.iter().enumerate() {
            self.send_stream(node, StreamMessage::Down(down(Some(payload.clone()), number < last)));
        }
        if packet.packets.is_empty() {
            self.send_stream(node, StreamMessage::Down(down(None, false)));
        }
        true
    }

    /// Gives a child that has just come what it lacks. What it has received it may not have taken; it will say so.
    pub(crate) fn send_down_again(&mut self, share: &mut Share<P>, at: usize, received: u64) {
        let kept = core::mem::take(&mut share.down.kept);
        share.branches[at].to_take.clear();
        for packet in &kept {
            if packet.sequence > received {
                self.send_descending(share, at, packet);
            } else if is_for(packet, &share.branches[at].endpoints) {
                share.branches[at].to_take.push_back(packet.sequence);
            }
        }
        share.down.kept = kept;
    }

    /// A child's endpoints have taken everything up to a packet.
    pub(crate) fn take_taken(
        &mut self,
        now: Instant,
        share: &mut Share<P>,
        from: NodeId,
        upto: u64,
    ) -> Result<(), StreamError> {
        if let Some(at) = share.branch_at(from) {
            let branch = &mut share.branches[at];
            branch.heard_at = now;
            while branch.to_take.front().is_some_and(|&sequence| sequence <= upto) {
                branch.to_take.pop_front();
            }
            self.forget_taken(share);
        }
        Ok(())
    }

    /// An endpoint here has taken everything up to a packet.
    pub(crate) fn take_endpoint_taken(&mut self, share: &mut Share<P>, endpoint: u32, upto: u64) {
        let Some(at) = share.own_at(endpoint) else { return };
        let own = &mut share.own[at];
        while own.to_take.front().is_some_and(|&sequence| sequence <= upto) {
            own.to_take.pop_front();
        }
        self.forget_taken(share);
    }

    /// Up to where everyone below has taken what came.
    fn taken_upto(share: &Share<P>) -> u64 {
        let is_asked = share.branches.iter().any(Branch::is_awaited);
        let waits =
            share.live().map(|branch| &branch.to_take).chain(share.own.iter().map(|own| &own.to_take));
        let first = waits.filter_map(|to_take| to_take.front()).min();
        let kept = share.down.kept.front().map(|packet| packet.sequence).filter(|_| is_asked);
        let waiting = share.down.waiting.front().map(|packet| packet.sequence);
        let at_work = match &share.filter {
            Filter::Busy(Busy { what: AtWork::Packet(packet), .. }) => Some(packet.sequence),
            _ => None,
        };
        let open = first.copied().into_iter().chain(kept).chain(waiting).chain(at_work).min();
        open.map_or(share.down.received, |sequence| sequence - 1)
    }

    /// Forgets what all have taken.
    pub(crate) fn forget_taken(&mut self, share: &mut Share<P>) {
        let upto = Self::taken_upto(share);
        let mut bytes = 0;
        let mut packets = 0;
        while share.down.kept.front().is_some_and(|packet| packet.sequence <= upto) {
            bytes += share.down.kept.pop_front().map_or(0, |packet| packet.bytes);
            packets += 1;
        }
        share.down.held_bytes -= bytes;
        if packets > 0 {
            self.count_taken(share, packets, bytes);
        }
    }

    fn count_taken(&mut self, share: &mut Share<P>, packets: usize, bytes: usize) {
        share.down.untold_bytes += bytes;
        share.down.untold_packets += packets;
        let is_much = share.down.untold_bytes >= share.window_bytes / 4
            || share.down.untold_packets >= UNTOLD_PACKETS_MAX;
        if is_much || share.front.is_some() {
            self.tell_taken(share);
        }
    }

    /// Tells a new parent how far all below have taken what they were given.
    pub(crate) fn tell_taken_again(&mut self, share: &mut Share<P>) {
        if let Parent::Node(parent) = share.parent {
            share.down.told_taken = Self::taken_upto(share);
            let upto = share.down.told_taken;
            self.send_stream(parent, StreamMessage::Taken { stream: share.id, upto });
        }
    }

    /// Tells the parent, or the front-end's user, of what has been taken since it was last told.
    pub(crate) fn tell_taken(&mut self, share: &mut Share<P>) {
        if share.down.untold_packets == 0 {
            return;
        }
        let bytes = core::mem::take(&mut share.down.untold_bytes) as u64;
        share.down.untold_packets = 0;
        match share.parent {
            Parent::Front(request) => {
                let event = Box::new(StreamEvent::Taken { bytes });
                self.effects.push_back(Effect::Deliver(Event::Stream { request, event }));
            }
            Parent::Node(parent) => {
                let upto = Self::taken_upto(share);
                if share.orphan_since.is_none() && upto > share.down.told_taken {
                    share.down.told_taken = upto;
                    share.has_spoken = true;
                    self.send_stream(parent, StreamMessage::Taken { stream: share.id, upto });
                }
            }
        }
    }
}

/// True when a packet is for some of these endpoints.
pub(crate) fn is_for<P>(packet: &Descending<P>, endpoints: &PartitionSet) -> bool {
    packet.to.as_ref().is_none_or(|to| to.intersects(endpoints))
}
