//! Encodes messages to headers.
//!
//! An [`Encoder`] reuses the header structures, and so the memory of their columns, of `Call` and `Partial`,
//! the two kinds that waves consist of. The headers of streams are in [`super::stream`].

use crate::wire::columns::put_set;
use crate::wire::error::{WireError, within};
use crate::wire::fields;
use crate::wire::frame::{Kind, NO_TAG};
use crate::wire::header::{
    CallHeader, GossipHeader, NumberHeader, OfferHeader, OperatorWantHeader, PartialHeader, RequestHeader,
};
use crate::wire::kept::SentTrees;
use crate::wire::loads::{put_loads, took_number};
use crate::wire::operators::operator_reply_header;
use crate::wire::outcome::{
    given_up_column, missing_headers, put_options, reply_header, slice_numbers, waiting_numbers,
};
use crate::wire::params::{ReduceParams, own_params_header};
use crate::wire::placement::{placement_reply_header, placement_request_header};
use crate::wire::push::{push_request_header, put_push};
use crate::wire::reduces::reduces_header;
use crate::wire::report::report_columns;
use crate::wire::shares::{shares_reply_header, shares_request_header};
use crate::wire::status::{cards_header, status_header};
use crate::wire::stream::encode::StreamEncoder;
use crate::wire::tree::put_tree;
use crate::wire::{LONG_HEADER_BYTES, NAME_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use prost::Message as _;
use treefold_core::id::{Tag, WaveId};
use treefold_core::limits::Limits;
use treefold_core::membership::config::DATAGRAM_BYTES_MAX;
use treefold_core::message::{Call, Message, Partial, Request};
use treefold_core::stream::StreamId;
use treefold_core::time::Duration;

/// A group of messages that must not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Track {
    /// Messages about one wave.
    Wave(WaveId),
    /// Messages about one request of a client.
    Request(u64),
    /// Messages about one stream, except signs of life and reports.
    Stream(StreamId),
    /// Messages about one request that a worker pushes for.
    Push(u64),
}

/// A message without its header: its kind and tag for the frame's prefix, its payload, and its track.
pub(super) struct Shell<'a> {
    pub(super) kind: Kind,
    pub(super) tag: Tag,
    pub(super) payload: Option<&'a Bytes>,
    pub(super) track: Option<Track>,
}

impl<'a> Shell<'a> {
    fn of_wave(kind: Kind, tag: Tag, payload: Option<&'a Bytes>) -> Self {
        Self { kind, tag, payload, track: Some(Track::Wave(tag.wave)) }
    }

    fn of_request(kind: Kind, id: u64, payload: Option<&'a Bytes>) -> Self {
        Self { kind, tag: NO_TAG, payload, track: Some(Track::Request(id)) }
    }

    pub(super) fn of_stream(kind: Kind, stream: StreamId, payload: Option<&'a Bytes>) -> Self {
        let StreamId { origin, sequence } = stream;
        let tag = Tag { wave: WaveId { origin, sequence }, branch: 0 };
        Self { kind, tag, payload, track: Some(Track::Stream(stream)) }
    }

    /// The shell of a sign of life or of a report about a lost child, which is in no track. A sign of life
    /// must not wait behind the payload whose sending keeps its sender silent. A report must not wait behind
    /// messages that depend on its answer. The meaning of both is independent of their order.
    pub(super) fn out_of_turn(kind: Kind, stream: StreamId) -> Self {
        Self { track: None, ..Self::of_stream(kind, stream, None) }
    }

    pub(super) fn bare(kind: Kind) -> Self {
        Self { kind, tag: NO_TAG, payload: None, track: None }
    }
}

/// Writes headers.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    call: CallHeader,
    partial: PartialHeader,
    stream: StreamEncoder,
    /// The trees that the peer keeps.
    pub(super) trees: SentTrees,
    /// The peer's knowledge of parameters of the reduce.
    pub(super) reduce_params: ReduceParams,
    /// The bytes of one header.
    row: Vec<u8>,
}

impl Encoder {
    /// Appends the header of `message` to `out`. A call may name its tree only if its frame is sent directly after
    /// the frames that were encoded before.
    ///
    /// # Errors
    /// If a part of the message is above its limit or cannot be expressed. `out` may then contain part of the
    /// header.
    pub(super) fn put_header<'a>(
        &mut self,
        message: &'a Message<Bytes>,
        may_name: bool,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Shell<'a>, WireError> {
        Ok(match message {
            Message::Call(call) => {
                let payload = self.put_call(call, may_name, limits, out)?;
                Shell::of_wave(Kind::Call, call.tag, payload)
            }
            Message::Partial(partial) => {
                self.put_partial(partial, limits, out)?;
                Shell::of_wave(Kind::Partial, partial.tag, partial.payload.as_ref())
            }
            Message::Offer { tag, bytes } => {
                append(&OfferHeader { bytes: *bytes }, out);
                Shell::of_wave(Kind::Offer, *tag, None)
            }
            Message::Grant { tag } => Shell::of_wave(Kind::Grant, *tag, None),
            Message::Cancel { tag } => Shell::of_wave(Kind::Cancel, *tag, None),
            Message::Request(request) => {
                self.reduce_params.check(&request.params)?;
                append(&request_header(request, limits)?, out);
                Shell::of_request(Kind::Request, request.id, Some(&request.params.common))
            }
            Message::Reply { id, outcome } => {
                append(&reply_header(*id, outcome, limits)?, out);
                Shell::of_request(Kind::Reply, *id, outcome.value.as_ref())
            }
            Message::CancelRequest { id } => {
                append(&NumberHeader { id: *id }, out);
                Shell::of_request(Kind::CancelRequest, *id, None)
            }
            Message::Cards(cards) => {
                append(&cards_header(cards, limits)?, out);
                Shell::bare(Kind::Cards)
            }
            Message::WantCards => Shell::bare(Kind::WantCards),
            Message::Gossip { datagram } => {
                within("datagram", DATAGRAM_BYTES_MAX, datagram.len())?;
                append(&GossipHeader { datagram: datagram.clone() }, out);
                Shell::bare(Kind::Gossip)
            }
            Message::Stream(message) => self.stream.put_header(message, limits, out)?,
            Message::Push(message) => put_push(message, limits, out)?,
            Message::OperatorRequest { id, payload } => {
                append(&NumberHeader { id: *id }, out);
                Shell::of_request(Kind::OperatorRequest, *id, payload.as_ref())
            }
            Message::OperatorReply { id, result } => {
                append(&operator_reply_header(*id, result, limits)?, out);
                Shell::of_request(Kind::OperatorReply, *id, None)
            }
            Message::OperatorWant { id } => {
                append(&OperatorWantHeader { operator: id.0.to_vec() }, out);
                Shell::bare(Kind::OperatorWant)
            }
            Message::OperatorLent { id, payload } => {
                append(&OperatorWantHeader { operator: id.0.to_vec() }, out);
                let [track, ..] = id.0.as_chunks::<8>().0 else {
                    unreachable!("invariant: an id has 32 bytes")
                };
                Shell::of_request(Kind::OperatorLent, u64::from_be_bytes(*track), payload.as_ref())
            }
            Message::ReducesWant => Shell::bare(Kind::ReducesWant),
            Message::Reduces { reduces } => {
                append(&reduces_header(reduces)?, out);
                Shell::bare(Kind::Reduces)
            }
            Message::SharesRequest { id, settings } => {
                append(&shares_request_header(*id, settings)?, out);
                Shell::of_request(Kind::SharesRequest, *id, None)
            }
            Message::SharesReply { id, result } => {
                append(&shares_reply_header(*id, result, limits)?, out);
                Shell::of_request(Kind::SharesReply, *id, None)
            }
            Message::PlacementRequest { id, ask } => {
                append(&placement_request_header(*id, ask, limits)?, out);
                Shell::of_request(Kind::PlacementRequest, *id, None)
            }
            Message::PlacementReply { id, result } => {
                append(&placement_reply_header(*id, result, limits)?, out);
                Shell::of_request(Kind::PlacementReply, *id, None)
            }
            Message::StatusRequest { id } => {
                append(&NumberHeader { id: *id }, out);
                Shell::bare(Kind::StatusRequest)
            }
            Message::Status { id, status } => {
                append(&status_header(*id, status, limits)?, out);
                Shell::bare(Kind::Status)
            }
        })
    }

    /// Appends the header of a call, and returns its payload.
    fn put_call<'a>(
        &mut self,
        call: &'a Call<Bytes>,
        may_name: bool,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<Option<&'a Bytes>, WireError> {
        within("name", NAME_BYTES_MAX, call.name.len())?;
        let header = &mut self.call;
        header.clear();
        header.name.push_str(&call.name);
        header.deadline_left_us = call.times.deadline_left.as_micros();
        header.answer_left_us = call.times.answer_left.as_micros();
        header.whole = call.whole;
        header.sign_after_us = call.times.sign_after.map_or(0, |after| after.as_micros().max(1));
        (header.waiting, header.slope_min, header.slope_max) = waiting_numbers(call.waiting);
        header.losses_max = call.losses_max;
        header.spare = call.spare;
        header.hedge = call.hedge;
        header.explain = call.explain;
        header.loads_wanted = call.loads_wanted;
        (header.slice, header.slices, header.alone) = slice_numbers(call.slice);
        header.push = push_request_header(call.push);
        header.in_flight = call.in_flight;
        let (payload, own) = self.reduce_params.written(call, limits)?;
        header.own = own;
        if may_name {
            self.trees.put_tree(header, &call.tree, limits)?;
        } else {
            put_tree(header, &call.tree, limits)?;
        }
        match header.own {
            // They may be long, so they are not copied twice.
            Some(_) => append(header, out),
            None => fields::append(header, &mut self.row, out),
        }
        header.own = None;
        if header.nodes.len() > LONG_HEADER_BYTES {
            (self.call, self.row) = Default::default();
        }
        Ok(payload)
    }

    fn put_partial(
        &mut self,
        partial: &Partial<Bytes>,
        limits: &Limits,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        let header = &mut self.partial;
        header.clear();
        header.last = partial.last;
        put_set(&mut header.contributors, &partial.contributors, limits.partitions_max, "contributors")?;
        header.load_queued_us = partial.load.queued.as_micros();
        header.load_in_flight = partial.load.in_flight;
        header.load_processors = partial.load.processors;
        header.load_latency_us = partial.load.latency.as_micros();
        header.cost_local_ns = partial.cost.local.map(Duration::as_nanos);
        header.cost_reduce_ns = partial.cost.reduce.map(Duration::as_nanos);
        header.missing = missing_headers(&partial.missing, limits)?;
        header.given_up = given_up_column(&partial.given_up, limits)?;
        header.report = partial.report.as_deref().map(|report| report_columns(report, limits)).transpose()?;
        put_loads(header, &partial.loads, limits)?;
        header.own_us = took_number(partial.own);
        header.served_us = partial.served.map_or(0, |served| served.as_micros().max(1));
        fields::append(header, &mut self.row, out);
        if self.row.len() > LONG_HEADER_BYTES {
            (self.partial, self.row) = Default::default();
        }
        Ok(())
    }
}

fn request_header(request: &Request<Bytes>, limits: &Limits) -> Result<RequestHeader, WireError> {
    within("name", NAME_BYTES_MAX, request.name.len())?;
    let mut header =
        RequestHeader { id: request.id, name: request.name.as_ref().to_owned(), ..RequestHeader::default() };
    put_options(&mut header, &request.options, limits)?;
    header.own = own_params_header(&request.params, limits)?;
    Ok(header)
}

/// Appends a header's bytes to `out`.
pub(super) fn append(header: &impl prost::Message, out: &mut BytesMut) {
    header.encode(out).expect("invariant: a BytesMut grows as needed");
}
