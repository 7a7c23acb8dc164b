//! The way down: packets of the front-end to all endpoints, or to some.
//!
//! Each bears the front-end's count. A node keeps what it passed on until everyone below has taken it, so that a child
//! that comes from a lost node can be given what it lacks; and tells its parent up to where all is taken, which is what
//! bounds the front-end.

use super::StreamError;
use super::message::{StreamDown, StreamMessage};
use super::share::{Descending, Parent, Share, Standing, weight};
use super::spec::{EndpointEvent, StreamEvent};
use crate::effect::{Effect, Event};
use crate::id::{NodeId, RequestId};
use crate::message::Payload;
use crate::node::Node;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use alloc::boxed::Box;
use smallvec::SmallVec;

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
            let sequence = share.down.received + 1;
            let packet = StreamDown { stream, sequence, tag, to, payload: Some(payload), more: false };
            node.pass_down(share, packet);
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
        share.down.half.extend(packet.payload.take());
        if packet.more {
            return Ok(());
        }
        let packets = core::mem::take(&mut share.down.half);
        if !share.spec.down_filter.is_empty() && packets.len() == 1 {
            packet.payload = packets.into_iter().next();
            self.pass_down(share, packet);
        } else {
            self.note_received(share, &packet);
            self.forward(share, packet, packets);
        }
        Ok(())
    }

    /// A whole packet is on its way down: to the filter, or on.
    fn pass_down(&mut self, share: &mut Share<P>, mut packet: StreamDown<P>) {
        self.note_received(share, &packet);
        if share.spec.down_filter.is_empty() {
            let packets = packet.payload.take().into_iter().collect();
            self.forward(share, packet, packets);
        } else {
            share.down.waiting.push_back(packet);
        }
    }

    fn note_received(&mut self, share: &mut Share<P>, packet: &StreamDown<P>) {
        share.down.received = packet.sequence;
        share.down.tag_max = share.down.tag_max.max(packet.tag);
    }

    /// Sends on what has become of a packet here.
    pub(crate) fn forward(&mut self, share: &mut Share<P>, packet: StreamDown<P>, packets: SmallVec<[P; 1]>) {
        let StreamDown { sequence, tag, to, .. } = packet;
        let bytes = weight(&packets);
        let descending = Descending { sequence, tag, to, packets, bytes };
        let mut is_awaited = false;
        for at in 0..share.branches.len() {
            if share.branches[at].standing == Standing::There {
                is_awaited |= self.send_descending(share, at, &descending);
            }
            // One that has been asked gets it with what it lacks, once it has said that it is there.
            is_awaited |= share.branches[at].standing == Standing::Asked;
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
            self.count_taken(share, bytes);
        }
    }

    /// Sends a packet to a child that it concerns.
    fn send_descending(&mut self, share: &mut Share<P>, at: usize, packet: &Descending<P>) -> bool {
        let branch = &mut share.branches[at];
        if packet.to.as_ref().is_some_and(|to| !to.intersects(&branch.endpoints)) {
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

    /// Gives a child that has just come what it lacks.
    pub(crate) fn send_down_again(&mut self, share: &mut Share<P>, at: usize, received: u64) {
        let kept = core::mem::take(&mut share.down.kept);
        for packet in kept.iter().filter(|packet| packet.sequence > received) {
            self.send_descending(share, at, packet);
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
        let Some(own) = share.own.iter_mut().find(|own| own.endpoint == endpoint) else { return };
        while own.to_take.front().is_some_and(|&sequence| sequence <= upto) {
            own.to_take.pop_front();
        }
        self.forget_taken(share);
    }

    /// Up to where everyone below has taken what came.
    fn taken_upto(share: &Share<P>) -> u64 {
        let is_asked = share.branches.iter().any(|branch| branch.standing == Standing::Asked);
        let waits =
            share.live().map(|branch| &branch.to_take).chain(share.own.iter().map(|own| &own.to_take));
        let first = waits.filter_map(|to_take| to_take.front()).min();
        let kept = share.down.kept.front().map(|packet| packet.sequence).filter(|_| is_asked);
        let waiting = share.down.waiting.front().map(|packet| packet.sequence);
        let open = first.copied().into_iter().chain(kept).chain(waiting).min();
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
        if packets > 0 {
            share.down.untold_packets += packets - 1;
            self.count_taken(share, bytes);
        }
    }

    fn count_taken(&mut self, share: &mut Share<P>, bytes: usize) {
        share.down.untold_bytes += bytes;
        share.down.untold_packets += 1;
        let is_much = share.down.untold_bytes >= share.window_bytes / 4
            || share.down.untold_packets >= UNTOLD_PACKETS_MAX;
        if is_much || share.front.is_some() {
            self.tell_taken(share);
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
