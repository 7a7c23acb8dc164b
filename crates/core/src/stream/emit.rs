//! The way up, second half: the result of a wave goes to the parent, or to the front-end's user.
//!
//! A node keeps what it sent until it is settled, so that it can send it again if its parent is replaced.

use super::lane::{GATHERED, Sent, Slot, piece_bytes_max, weight};
use super::message::{StreamMessage, StreamUp};
use super::settle::{marks_quarter, settle_again};
use super::spec::{StreamEvent, StreamWave};
use super::state::StreamState;
use crate::error::{Missing, Reason};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::seat::Parent;
use crate::wave::losses::note;
use alloc::vec::Vec;
use smallvec::SmallVec;

impl<P: Payload> StreamState<P> {
    /// Sends the result of a wave to the parent, or hands it to the front-end's user.
    pub(crate) fn emit(
        &mut self,
        cx: &mut Context<P>,
        lane: u32,
        slot: &Slot<P>,
        mut packets: SmallVec<[P; 1]>,
        mut failure: Option<Reason>,
    ) {
        if self.row.lanes.get(&lane).is_some_and(|waves| waves.settled.contains(slot.key)) {
            // The front-end already has this wave, so the nodes above would drop it.
            cx.counters.stream_pieces_late += 1;
            settle_again(self, lane, slot.key);
            return;
        }
        let is_sent = matches!(self.seat.parent, Parent::Node(_));
        if is_sent && self.has_moved(lane) {
            // It would overtake earlier packets, which the endpoint sends again from its new place.
            cx.counters.stream_pieces_late += 1;
            return;
        }
        if is_sent && weight(&packets) > piece_bytes_max(&cx.config.limits) {
            // It is too large to send. An empty wave goes up instead, so that the nodes above do not wait for
            // ever.
            packets.clear();
            failure = Some(Reason::Full("payload_bytes_max".into()));
        }
        let mut missing = self.missing_from(cx.me, slot, cx.config.limits.missing_max);
        let mut contributors = slot.parts.claimed().clone();
        if let Some(reason) = failure {
            let partitions = core::mem::take(&mut contributors);
            let loss = Missing { partitions, node: Some(cx.me), reason };
            note(&mut missing, loss, cx.config.limits.missing_max);
        }
        let bytes = weight(&packets);
        let urgent =
            marks_quarter(&mut self.window.unmarked_bytes, bytes, self.terms.window_bytes) || slot.urgent;
        let sent = Sent { key: slot.key, tag: slot.tag, packets, contributors, missing, bytes, urgent };
        self.window.unsettled_bytes += bytes;
        cx.counters.stream_waves += 1;
        self.traffic.send_up(sent.packets.len(), bytes);
        let kept = match self.seat.parent {
            Parent::Top => {
                let front = self.front.as_mut().expect("invariant: a front-end's state says so");
                front.delivered.push_back((lane, sent.key, sent.bytes, urgent));
                let Sent { key, tag, packets, contributors, missing, .. } = sent;
                let kept = Sent {
                    key,
                    tag,
                    packets: SmallVec::new(),
                    contributors: contributors.clone(),
                    missing: Vec::new(),
                    bytes,
                    urgent,
                };
                let wave = StreamWave { tag, packets: packets.into_vec(), contributors, missing };
                self.tell_user(cx, StreamEvent::Wave(wave));
                kept
            }
            Parent::Node(_) => {
                self.send_sent(cx, lane, &sent);
                sent
            }
        };
        let lane = self.row.lanes.entry(lane).or_default();
        lane.sent.insert(kept.key, kept);
    }

    fn send_sent(&mut self, cx: &mut Context<P>, lane: u32, sent: &Sent<P>) {
        let Parent::Node(parent) = self.seat.parent else { return };
        if self.order.orphan_since.is_some() {
            return;
        }
        let last = sent.packets.len().saturating_sub(1);
        let up = |payload: Option<P>, more: bool| StreamUp {
            stream: self.terms.id,
            lane,
            tag: sent.tag,
            serial: if lane == GATHERED { 0 } else { sent.key },
            payload,
            more,
            urgent: sent.urgent,
            contributors: if more { PartitionSet::new() } else { sent.contributors.clone() },
            missing: if more { Vec::new() } else { sent.missing.clone() },
            holds_from: self.row.holds_from,
        };
        for (at, packet) in sent.packets.iter().enumerate() {
            cx.send_stream(parent, StreamMessage::Up(up(Some(packet.clone()), at < last)));
        }
        if sent.packets.is_empty() {
            cx.send_stream(parent, StreamMessage::Up(up(None, false)));
        }
    }

    /// Sends everything that is not settled to a new parent.
    pub(crate) fn send_again(&mut self, cx: &mut Context<P>) {
        let lanes = core::mem::take(&mut self.row.lanes);
        for (&lane, waves) in &lanes {
            for sent in waves.sent.iter() {
                self.send_sent(cx, lane, sent);
            }
        }
        self.row.lanes = lanes;
    }
}
