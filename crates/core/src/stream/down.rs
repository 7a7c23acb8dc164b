//! The way down: packets of the front-end to all endpoints, or to some of them.
//!
//! Each packet has the front-end's sequence number. A node keeps a packet that it passed on until everyone
//! below has taken it, so that it can give a child of a lost node the packets that the child lacks. It also
//! acknowledges to its parent the packets that all below have taken; these acknowledgements bound what the
//! front-end may send.

use super::StreamError;
use super::descent::{Content, Descending, Descent, Due};
use super::lane::{PACKET_BYTES, weight};
use super::message::{RUN_BYTES_MAX, RUN_PACKETS_MAX, StreamDown, StreamMessage, StreamRun};
use super::spec::EndpointEvent;
use super::state::StreamState;
use super::table::Streams;
use crate::error::Reason;
use crate::id::{NodeId, RequestId};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::{Parent, Standing};
use crate::time::Instant;
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::{SmallVec, smallvec};

/// The part of the front-end's window that one run may fill. A run is acknowledged as a whole.
const RUN_WINDOW_SHARE: usize = 16;

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
            state.send_one_down(desk.cx, tag, to, payload);
            Ok(())
        });
    }

    /// The front-end's user sends packets to all endpoints.
    pub(crate) fn send_run_down(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        request: RequestId,
        packets: Vec<(u64, P)>,
    ) {
        let Some(&stream) = self.fronts.get(&request) else { return };
        self.with_state(cx, now, stream, |state, desk| {
            state.send_all_down(desk.cx, packets);
            Ok(())
        });
    }
}

impl<P: Payload> StreamState<P> {
    fn send_one_down(&mut self, cx: &mut Context<P>, tag: u64, to: Option<PartitionSet>, payload: P) {
        if payload.len() > cx.config.limits.payload_bytes_max {
            // No child could receive it. It counts as taken, because otherwise the user's window would never
            // have room again.
            cx.note_lost_down(&Reason::Full("payload_bytes_max".into()));
            return self.count_taken(cx, 1, weight(core::slice::from_ref(&payload)));
        }
        let sequence = self.down.received.saturating_add(1);
        let packet = StreamDown { stream: self.terms.id, sequence, tag, to, payload: None, more: false };
        self.pass_down(cx, packet, smallvec![payload]);
    }

    /// Divides packets into runs. A packet that passes a filter, or that is as large as a run, goes alone.
    fn send_all_down(&mut self, cx: &mut Context<P>, packets: Vec<(u64, P)>) {
        let bytes_max = RUN_BYTES_MAX.min(cx.config.limits.chunk_bytes);
        let weight_max = (self.terms.window_bytes / RUN_WINDOW_SHARE).min(self.acknowledge_bytes() as usize);
        let mut run: Vec<(u64, P)> = Vec::new();
        let (mut bytes, mut weight) = (0, 0);
        for (tag, payload) in packets {
            let len = payload.len();
            let has_room = run.len() < RUN_PACKETS_MAX
                && bytes + len <= bytes_max
                && weight + PACKET_BYTES + len <= weight_max;
            if !has_room {
                self.send_run(cx, core::mem::take(&mut run));
                (bytes, weight) = (0, 0);
            }
            if len > bytes_max || !self.terms.spec.down_filter.is_empty() {
                self.send_one_down(cx, tag, None, payload);
            } else {
                bytes += len;
                weight += PACKET_BYTES + len;
                run.push((tag, payload));
            }
        }
        self.send_run(cx, run);
    }

    fn send_run(&mut self, cx: &mut Context<P>, mut packets: Vec<(u64, P)>) {
        if packets.len() > 1 {
            let first = self.down.received.saturating_add(1);
            self.pass_run(cx, Arc::new(StreamRun { stream: self.terms.id, first, packets }));
        } else if let Some((tag, payload)) = packets.pop() {
            self.send_one_down(cx, tag, None, payload);
        }
    }

    /// True if this node's packets are taken, and its word that some have passed over this one. Once the connection to the
    /// parent has broken, packets may be lost that the parent sent over it, and the parent may not know yet: later ones are
    /// taken when the parent has asked this node anew, and sends again what it lacks.
    pub(crate) fn takes_from(&self, from: NodeId) -> bool {
        self.seat.parent == Parent::Node(from) && self.order.orphan_since.is_none()
    }

    /// Takes a run of packets from the parent.
    pub(crate) fn take_run(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        run: Arc<StreamRun<P>>,
    ) -> Result<(), StreamError> {
        if !self.takes_from(from) || run.packets.is_empty() || run.last() <= self.down.received {
            return Ok(());
        }
        if run.first.checked_add(run.packets.len() as u64).is_none() {
            cx.note_bad_message(from, "run.first: above the largest sequence number");
            return Ok(());
        }
        // A new parent sends again the packets that the old parent may have sent.
        let run = if run.first <= self.down.received { Arc::new(run.after(self.down.received)) } else { run };
        if run.weight().saturating_add(self.down.held_bytes) > cx.config.limits.held_bytes_max {
            cx.note_bad_message(from, "run: more bytes than may wait here (held_bytes_max)");
            return Err(StreamError::Full { limit: "held_bytes_max".into() });
        }
        self.pass_run(cx, run);
        Ok(())
    }

    /// Passes a run on: to everyone below, or packet by packet to the filter.
    fn pass_run(&mut self, cx: &mut Context<P>, run: Arc<StreamRun<P>>) {
        if !self.terms.spec.down_filter.is_empty() {
            for (sequence, tag, payload) in run.iter() {
                let packet =
                    StreamDown { stream: run.stream, sequence, tag, to: None, payload: None, more: false };
                self.pass_down(cx, packet, smallvec![payload.clone()]);
            }
            return;
        }
        self.down.received = run.last();
        let tag_max = run.packets.iter().map(|&(tag, _)| tag).max().unwrap_or(0);
        self.down.tag_max = self.down.tag_max.max(tag_max);
        let bytes = run.weight();
        self.down.held_bytes += bytes;
        self.traffic.pass_down(run.packets.len(), bytes);
        let due = self.due(run.first, run.last(), bytes);
        self.pass_on(cx, Descending { due, content: Content::Run(run), bytes });
    }

    /// Takes a packet from the parent.
    pub(crate) fn take_down(
        &mut self,
        cx: &mut Context<P>,
        from: NodeId,
        mut packet: StreamDown<P>,
    ) -> Result<(), StreamError> {
        // A new parent sends again the packets that the old parent may have sent.
        if !self.takes_from(from) || packet.sequence <= self.down.received {
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
        let mut descent = Descent { sequence, tag, to, bytes, left, made, missed_from: None };
        self.down.held_bytes += bytes;
        self.traffic.pass_down(descent.made.len(), bytes);
        if self.terms.spec.down_filter.is_empty() {
            return self.forward(cx, descent);
        }
        descent.left = core::mem::take(&mut descent.made);
        descent.left.reverse();
        self.down.waiting.push_back(descent);
    }

    /// Sends the result of a packet to everyone below.
    pub(crate) fn forward(&mut self, cx: &mut Context<P>, descent: Descent<P>) {
        let Descent { sequence, tag, to, bytes, made: packets, missed_from, .. } = descent;
        if let Some(first) = missed_from {
            return self.pass_missed(cx, first, sequence);
        }
        let due = self.due(sequence, sequence, bytes);
        self.pass_on(cx, Descending { due, content: Content::One { tag, to, packets }, bytes });
    }

    /// The place of packets that are passed on next.
    pub(crate) fn due(&self, first: u64, last: u64, bytes: usize) -> Due {
        let begins_at = self.down.reach.sent_bytes;
        Due { first, last, begins_at, ends_at: begins_at + bytes as u64 }
    }

    /// Sends packets to everyone below, and keeps them until they are taken.
    pub(crate) fn pass_on(&mut self, cx: &mut Context<P>, descending: Descending<P>) {
        let Due { last, begins_at, ends_at, .. } = descending.due;
        (self.down.reach.sent_bytes, self.down.reach.sent_upto) = (ends_at, last);
        let mut is_awaited = false;
        for at in 0..self.seat.children.len() {
            if self.seat.children[at].standing() == Standing::There {
                is_awaited |= self.send_descending(cx, at, &descending);
            }
            // A child that has been asked receives the packet after it has said that it is there. So do
            // orphans.
            is_awaited |= self.seat.children[at].is_awaited();
        }
        is_awaited |= self.give_to_own(cx, &descending);
        if is_awaited || !self.down.kept.is_empty() {
            self.down.kept.push_back(descending);
        } else {
            self.down.held_bytes -= descending.bytes;
            self.count_taken(cx, 1, descending.bytes);
        }
        self.down.reach.unseen_bytes += ends_at - begins_at;
    }

    /// Gives packets to endpoints hosted by this node. Returns true if there is something to take.
    fn give_to_own(&mut self, cx: &mut Context<P>, descending: &Descending<P>) -> bool {
        let mut is_awaited = false;
        let Due { first, last, .. } = descending.due;
        for own in &mut self.own {
            let gone_upto = own.to_take.gone_upto();
            match &descending.content {
                _ if last <= gone_upto => continue,
                Content::One { to, packets, .. }
                    if packets.is_empty() || to.as_ref().is_some_and(|to| !to.contains(own.endpoint)) =>
                {
                    continue;
                }
                _ if own.to_take.passes() => continue,
                Content::One { tag, packets, .. } => {
                    for payload in packets {
                        let (sequence, tag, payload) = (first, *tag, payload.clone());
                        let event = EndpointEvent::Packet { sequence, tag, payload };
                        cx.tell_endpoint(self.terms.id, own.endpoint, event);
                    }
                }
                Content::Run(run) => {
                    let run =
                        if first > gone_upto { Arc::clone(run) } else { Arc::new(run.after(gone_upto)) };
                    cx.tell_endpoint(self.terms.id, own.endpoint, EndpointEvent::Packets(run));
                }
                Content::Missed => {
                    let first = first.max(gone_upto.saturating_add(1));
                    own.to_take.miss(last);
                    cx.tell_endpoint(self.terms.id, own.endpoint, EndpointEvent::Missed { first, last });
                    continue;
                }
            }
            own.to_take.push(descending.due);
            is_awaited = true;
        }
        is_awaited
    }

    /// Sends packets to a child, if one is for an endpoint of its subtree.
    fn send_descending(&mut self, cx: &mut Context<P>, at: usize, descending: &Descending<P>) -> bool {
        let child = &mut self.seat.children[at];
        if descending.due.last <= child.more.taken_upto || !descending.is_for(&child.answers_for) {
            return false;
        }
        if child.more.to_take.passes() {
            return false;
        }
        if matches!(descending.content, Content::Missed) {
            let Due { first, last, .. } = descending.due;
            self.tell_missed(cx, at, first, last);
            return false;
        }
        child.more.to_take.push(descending.due);
        let node = child.node;
        match &descending.content {
            Content::One { tag, to, packets } => {
                let down = |payload: Option<P>, more: bool| StreamDown {
                    stream: self.terms.id,
                    sequence: descending.due.first,
                    tag: *tag,
                    to: to.clone(),
                    payload,
                    more,
                };
                let last = packets.len().saturating_sub(1);
                for (number, payload) in packets.iter().enumerate() {
                    cx.send_stream(node, StreamMessage::Down(down(Some(payload.clone()), number < last)));
                }
                if packets.is_empty() {
                    cx.send_stream(node, StreamMessage::Down(down(None, false)));
                }
            }
            Content::Run(run) => cx.send_stream(node, StreamMessage::Run(Arc::clone(run))),
            Content::Missed => {}
        }
        true
    }

    /// Sends a child that has just joined the packets that it lacks.
    ///
    /// The child may not have taken all that it has received; it acknowledges those packets later. Of a run that it
    /// has received in part, it drops the packets that it knows.
    pub(crate) fn send_down_again(&mut self, cx: &mut Context<P>, at: usize, received: u64) {
        let kept = core::mem::take(&mut self.down.kept);
        self.seat.children[at].more.to_take.clear();
        let sent_bytes = self.down.reach.sent_bytes;
        self.seat.children[at].more.to_take.count_from(sent_bytes);
        for descending in &kept {
            let child = &mut self.seat.children[at];
            if descending.due.last > received {
                self.send_descending(cx, at, descending);
            } else if descending.due.last > child.more.taken_upto && descending.is_for(&child.answers_for) {
                child.more.to_take.push(descending.due);
            }
        }
        self.down.kept = kept;
    }
}
