//! Decodes headers to messages.
//!
//! No input is trusted. Protobuf's decoder checks the form; then every column, count, name and set is checked
//! against its limit before it becomes part of a message. Decoding produces a whole message or an error.

use crate::wire::columns::set_alone;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::fields::Fields as _;
use crate::wire::frame::Kind;
use crate::wire::header::{
    CallHeader, GossipHeader, NumberHeader, OfferHeader, OperatorReplyHeader, OperatorWantHeader,
    PartialHeader, PlacementReplyHeader, PlacementRequestHeader, ReplyHeader, RequestHeader,
    SharesReplyHeader, SharesRequestHeader, StatusHeader,
};
use crate::wire::kept::KeptTrees;
use crate::wire::loads::{loads_of, took_of};
use crate::wire::names::Names;
use crate::wire::operators::{operator_id_of, operator_reply_of};
use crate::wire::outcome::{given_up_of, missing_of, options_of, outcome_of, slice_of, waiting_of};
use crate::wire::params::params_of;
use crate::wire::placement::{placement_ask_of, placement_reply_of};
use crate::wire::push::{push_of, push_request_of};
use crate::wire::reduces::reduces_of;
use crate::wire::refusal::answer_to;
use crate::wire::report::report_of;
use crate::wire::shares::{ACCOUNTS_MAX, settings_of, shares_reply_of};
use crate::wire::status::{cards_of, status_of};
use crate::wire::stream::decode::{StreamDecoder, put_stream_payload};
use crate::wire::{LONG_HEADER_BYTES, NAME_BYTES_MAX, members_max};
use bytes::Bytes;
use prost::Message as _;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use treefold_core::id::Tag;
use treefold_core::limits::Limits;
use treefold_core::load::figure::{CostFigure, LoadFigure};
use treefold_core::membership::card::SERVICES_MAX;
use treefold_core::membership::config::DATAGRAM_BYTES_MAX;
use treefold_core::message::{Call, CallTimes, Message, Partial, Request};
use treefold_core::push::message::PushMessage;
use treefold_core::schedule::share::SETTINGS_MAX;
use treefold_core::stream::OperatorId;
use treefold_core::time::Duration;

/// Reads headers. Reuses the header structures of `Call` and `Partial`, the two kinds that waves consist of.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) limits: Limits,
    names: Names,
    call: CallHeader,
    partial: PartialHeader,
    stream: StreamDecoder,
    /// The trees that are kept for the peer.
    trees: KeptTrees,
    /// The answer to the sender of the last message that could not be read.
    answer: Option<Message<Bytes>>,
}

impl Decoder {
    pub(super) fn new(limits: Limits) -> Self {
        let (names, call, partial, stream, trees) = Default::default();
        Self { limits, names, call, partial, stream, trees, answer: None }
    }

    /// Takes the answer to the message that could not be read, if its sender waits for one.
    pub(super) fn take_answer(&mut self) -> Option<Message<Bytes>> {
        self.answer.take()
    }

    /// Decodes a message of any kind except `Hello`, `Fault` and `Chunk`.
    pub(super) fn message(
        &mut self,
        kind: Kind,
        tag: Tag,
        header: &[u8],
        payload: Option<Bytes>,
    ) -> Result<Message<Bytes>, WireError> {
        let has_payload = payload.is_some();
        let message = self.read(kind, tag, header, payload);
        if let Err(error) = &message {
            self.answer = answer_to(kind, tag, header, has_payload, error);
        }
        message
    }

    fn read(
        &mut self,
        kind: Kind,
        tag: Tag,
        header: &[u8],
        payload: Option<Bytes>,
    ) -> Result<Message<Bytes>, WireError> {
        within("header", self.limits.header_bytes_max, header.len())?;
        if payload.is_some() && !may_have_payload(kind) {
            return Err(malformed("payload"));
        }
        let limits = &self.limits;
        Ok(match kind {
            Kind::Call => Message::Call(Box::new(self.call(tag, header, payload)?)),
            Kind::Partial => Message::Partial(Box::new(self.partial(tag, header, payload)?)),
            Kind::Offer => Message::Offer { tag, bytes: decoded::<OfferHeader>(header)?.bytes },
            Kind::Grant => Message::Grant { tag },
            Kind::Cancel => Message::Cancel { tag },
            Kind::Request => Message::Request(Box::new(self.request(header, payload)?)),
            Kind::Reply => {
                few_enough(header, 6, "missing", limits.missing_max)?;
                let header: ReplyHeader = decoded(header)?;
                let id = header.id;
                Message::Reply { id, outcome: Box::new(outcome_of(header, payload, limits)?) }
            }
            Kind::CancelRequest => Message::CancelRequest { id: decoded::<NumberHeader>(header)?.id },
            Kind::Cards => {
                few_enough(header, 1, "cards", members_max(limits))?;
                few_enough(header, 2, "totals", SERVICES_MAX)?;
                Message::Cards(cards_of(decoded(header)?, limits)?)
            }
            Kind::WantCards => Message::WantCards,
            Kind::Gossip => {
                let datagram = decoded::<GossipHeader>(header)?.datagram;
                within("datagram", DATAGRAM_BYTES_MAX, datagram.len())?;
                Message::Gossip { datagram }
            }
            Kind::StatusRequest => Message::StatusRequest { id: decoded::<NumberHeader>(header)?.id },
            Kind::Status => {
                few_enough(header, 6, "members", members_max(limits))?;
                let header: StatusHeader = decoded(header)?;
                Message::Status { id: header.id, status: Box::new(status_of(header, limits)?) }
            }
            Kind::OperatorRequest => {
                Message::OperatorRequest { id: decoded::<NumberHeader>(header)?.id, payload }
            }
            Kind::OperatorReply => {
                few_enough(header, 3, "operators", limits.operators_max)?;
                let header: OperatorReplyHeader = decoded(header)?;
                Message::OperatorReply { id: header.id, result: operator_reply_of(header, limits)? }
            }
            Kind::OperatorWant => Message::OperatorWant { id: operator_of(header)? },
            Kind::OperatorLent => Message::OperatorLent { id: operator_of(header)?, payload },
            Kind::ReducesWant => Message::ReducesWant,
            Kind::Reduces => Message::Reduces { reduces: reduces_of(header)? },
            Kind::SharesRequest => shares_request(header)?,
            Kind::SharesReply => shares_reply(header, limits)?,
            Kind::PlacementRequest => {
                let header: PlacementRequestHeader = decoded(header)?;
                Message::PlacementRequest { id: header.id, ask: placement_ask_of(header, limits)? }
            }
            Kind::PlacementReply => {
                few_enough(header, 5, "services", SERVICES_MAX)?;
                let header: PlacementReplyHeader = decoded(header)?;
                Message::PlacementReply { id: header.id, result: placement_reply_of(header, limits)? }
            }
            Kind::StreamOpen
            | Kind::StreamUp
            | Kind::StreamDown
            | Kind::StreamRun
            | Kind::StreamMissed
            | Kind::StreamSettled
            | Kind::StreamTaken
            | Kind::StreamNews
            | Kind::StreamReport
            | Kind::StreamBeat
            | Kind::StreamAhead
            | Kind::StreamWantOperator
            | Kind::StreamOperator
            | Kind::StreamClose => {
                let names = &mut self.names;
                Message::Stream(Box::new(self.stream.message(kind, tag, header, payload, limits, names)?))
            }
            // `push_of` rejects every kind that is not a push message.
            kind => Message::Push(Box::new(push_of(kind, header, payload, limits, &mut self.names)?)),
        })
    }

    fn call(&mut self, tag: Tag, bytes: &[u8], params: Option<Bytes>) -> Result<Call<Bytes>, WireError> {
        let header = &mut self.call;
        header.clear();
        header.take(bytes)?;
        // First, because the sender counts on it that the tree is kept, even if the call itself is refused.
        let tree = self.trees.take_tree(header, &self.limits)?;
        within("name", NAME_BYTES_MAX, header.name.len())?;
        let params = match (params, header.own.take()) {
            (Some(common), own) => Some(params_of(common, own, &self.limits)?),
            (None, Some(_)) => return Err(malformed("params.own")),
            (None, None) => None,
        };
        let call = Call {
            tag,
            name: self.names.intern(&header.name),
            params,
            times: CallTimes {
                deadline_left: Duration::from_micros(header.deadline_left_us),
                answer_left: Duration::from_micros(header.answer_left_us),
                sign_after: (header.sign_after_us > 0).then(|| Duration::from_micros(header.sign_after_us)),
            },
            waiting: waiting_of(header.waiting, header.slope_min, header.slope_max)?,
            losses_max: header.losses_max,
            spare: header.spare,
            hedge: header.hedge,
            tree,
            explain: header.explain,
            loads_wanted: header.loads_wanted,
            slice: slice_of((header.slice, header.slices, header.alone), &self.limits)?,
            push: push_request_of(header.push),
            in_flight: header.in_flight,
            whole: header.whole,
        };
        if bytes.len() > LONG_HEADER_BYTES {
            self.call = CallHeader::default();
        }
        Ok(call)
    }

    fn partial(
        &mut self,
        tag: Tag,
        bytes: &[u8],
        payload: Option<Bytes>,
    ) -> Result<Partial<Bytes>, WireError> {
        let limits = &self.limits;
        few_enough(bytes, 8, "missing", limits.missing_max)?;
        few_enough(bytes, 14, "given_up", limits.missing_max)?;
        let header = &mut self.partial;
        header.clear();
        header.take(bytes)?;
        let report = header.report.take().map(|columns| report_of(columns, limits).map(Box::new));
        let partial = Partial {
            tag,
            payload,
            contributors: set_alone(&header.contributors, limits.partitions_max, "contributors")?,
            missing: missing_of(&mut header.missing, limits)?,
            last: header.last,
            load: LoadFigure {
                queued: Duration::from_micros(header.load_queued_us),
                in_flight: header.load_in_flight,
                processors: header.load_processors,
                latency: Duration::from_micros(header.load_latency_us),
            },
            own: took_of(header.own_us),
            served: (header.served_us > 0).then(|| Duration::from_micros(header.served_us)),
            loads: loads_of(header, limits)?,
            cost: CostFigure {
                local: header.cost_local_ns.map(Duration::from_nanos),
                reduce: header.cost_reduce_ns.map(Duration::from_nanos),
            },
            given_up: given_up_of(&mut header.given_up, limits)?,
            report: report.transpose()?,
        };
        if bytes.len() > LONG_HEADER_BYTES {
            self.partial = PartialHeader::default();
        }
        Ok(partial)
    }

    fn request(&mut self, bytes: &[u8], params: Option<Bytes>) -> Result<Request<Bytes>, WireError> {
        let mut header: RequestHeader = decoded(bytes)?;
        within("name", NAME_BYTES_MAX, header.name.len())?;
        Ok(Request {
            id: header.id,
            name: self.names.intern(&header.name),
            params: params_of(params.ok_or(malformed("payload"))?, header.own.take(), &self.limits)?,
            options: options_of(&header, &self.limits)?,
        })
    }
}

fn shares_request(header: &[u8]) -> Result<Message<Bytes>, WireError> {
    few_enough(header, 2, "settings", SETTINGS_MAX)?;
    let header: SharesRequestHeader = decoded(header)?;
    Ok(Message::SharesRequest { id: header.id, settings: settings_of(header)? })
}

fn operator_of(header: &[u8]) -> Result<OperatorId, WireError> {
    operator_id_of(&decoded::<OperatorWantHeader>(header)?.operator)
}

fn shares_reply(header: &[u8], limits: &Limits) -> Result<Message<Bytes>, WireError> {
    few_enough(header, 6, "services", ACCOUNTS_MAX)?;
    let header: SharesReplyHeader = decoded(header)?;
    Ok(Message::SharesReply { id: header.id, result: shares_reply_of(header, limits)? })
}

/// Decodes a header's bytes.
pub(super) fn decoded<H: prost::Message + Default>(header: &[u8]) -> Result<H, WireError> {
    H::decode(header).map_err(|_| malformed("header"))
}

fn may_have_payload(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Call
            | Kind::Partial
            | Kind::Request
            | Kind::Reply
            | Kind::StreamOpen
            | Kind::StreamUp
            | Kind::StreamDown
            | Kind::StreamRun
            | Kind::StreamMissed
            | Kind::StreamOperator
            | Kind::OperatorRequest
            | Kind::OperatorLent
            | Kind::Push
    )
}

/// Attaches a payload that arrived in chunks to its message, whose header was read before.
pub(super) fn put_payload(message: &mut Message<Bytes>, payload: Bytes) {
    match message {
        Message::Call(call) => match &mut call.params {
            Some(params) => params.common = payload,
            None => call.params = Some(payload.into()),
        },
        Message::Partial(partial) => partial.payload = Some(payload),
        Message::Request(request) => request.params.common = payload,
        Message::Reply { outcome, .. } => outcome.value = Some(payload),
        Message::OperatorRequest { payload: place, .. } | Message::OperatorLent { payload: place, .. } => {
            *place = Some(payload);
        }
        Message::Stream(message) => put_stream_payload(message, payload),
        Message::Push(message) => {
            if let PushMessage::Push { payload: place, .. } = &mut **message {
                *place = payload;
            }
        }
        _ => unreachable!("invariant: a message of a kind without payload is refused when it is read"),
    }
}

/// Refuses a long header with more than `max` occurrences of a field, before it is decoded. An empty element
/// takes two bytes on the wire and about a hundred in memory.
pub(super) fn few_enough(header: &[u8], field: u32, name: &'static str, max: usize) -> Result<(), WireError> {
    if header.len() <= LONG_HEADER_BYTES {
        return Ok(());
    }
    let (mut rest, mut count) = (header, 0);
    while !rest.is_empty() {
        let (at, wire_type) = decode_key(&mut rest).map_err(|_| malformed("header"))?;
        count += usize::from(at == field);
        within(name, max, count)?;
        skip_field(wire_type, at, &mut rest, DecodeContext::default()).map_err(|_| malformed("header"))?;
    }
    Ok(())
}
