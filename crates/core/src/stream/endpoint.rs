//! The lower end of a stream: packets that endpoints of this node send and take.

use super::StreamId;
use super::error::StreamError;
use super::gather::Address;
use super::lane::{GATHERED, PACKET_BYTES, Piece};
use super::settle::marks_quarter;
use super::spec::{EndpointEvent, Source};
use super::table::Streams;
use crate::error::{Missing, Reason};
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::time::Instant;
use crate::wave::contributors::Part;
use alloc::vec::Vec;
use smallvec::smallvec;

impl<P: Payload> Streams<P> {
    /// Sends a packet from an endpoint. Without a tag, the packet has the endpoint's next tag.
    ///
    /// If the packet is too large to forward, the endpoint is missing from that wave, and the packet counts
    /// as settled.
    pub(crate) fn send_from_endpoint(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: StreamId,
        endpoint: u32,
        tag: Option<u64>,
        payload: P,
    ) {
        self.with_state(cx, now, stream, |state, desk| {
            let gathers = state.gathers();
            let Some(at) = state.own_at(endpoint) else { return Ok(()) };
            let own = &mut state.own[at];
            let tag = tag.unwrap_or(own.next_tag);
            own.next_tag = own.next_tag.max(tag.saturating_add(1));
            let serial = own.next_serial;
            own.next_serial = own.next_serial.saturating_add(1);
            let address = if gathers {
                Address { lane: GATHERED, key: tag, tag }
            } else {
                Address { lane: endpoint + 1, key: serial, tag }
            };
            let contributors = PartitionSet::from_range(endpoint..endpoint + 1);
            let bytes = PACKET_BYTES + payload.len();
            if payload.len() > desk.cx.config.limits.payload_bytes_max {
                let reason = Reason::Full("payload_bytes_max".into());
                let loss = Missing { partitions: contributors, node: Some(desk.cx.me), reason };
                state.take_piece(desk.cx, now, address, None, alloc::vec![loss], false);
                desk.cx.tell_endpoint(stream, endpoint, EndpointEvent::Settled { bytes: bytes as u64 });
                return Ok(());
            }
            own.in_flight.insert(address.key, bytes);
            own.in_flight_bytes += bytes;
            let urgent = marks_quarter(&mut own.unmarked_bytes, bytes, state.terms.window_bytes);
            let piece =
                Piece { source: Source::Endpoint(endpoint), endpoint: None, packets: smallvec![payload] };
            let part = Some(Part { payload: piece, contributors });
            state.take_piece(desk.cx, now, address, part, Vec::new(), urgent);
            Ok(())
        });
    }

    /// Notes that an endpoint has taken all packets up to this one.
    pub(crate) fn note_endpoint_took(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: StreamId,
        endpoint: u32,
        sequence: u64,
    ) {
        self.with_state(cx, now, stream, |state, desk| {
            state.take_endpoint_taken(desk.cx, endpoint, sequence);
            Ok(())
        });
    }

    /// Removes an endpoint. It stays in the group as missing until it is given a place again.
    pub(crate) fn lose_endpoint(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        stream: StreamId,
        endpoint: u32,
        reason: Reason,
    ) {
        self.with_state(cx, now, stream, |state, desk| {
            let Some(at) = state.own_at(endpoint) else { return Ok(()) };
            let own = state.own.remove(at);
            desk.streams.close_own(desk.cx, stream, &own, &StreamError::Closed);
            state.tell_filter_replaced(desk.cx, Source::Endpoint(endpoint), Vec::new());
            let partitions = PartitionSet::from_range(endpoint..endpoint + 1);
            state.put_away(Missing { partitions, node: Some(desk.cx.me), reason });
            state.close_ranks(desk.cx);
            Ok(())
        });
    }
}
