//! Answers a message that was dropped because it cannot be read.
//!
//! Some senders wait for an answer: a client with a request, a parent that opens a stream, a worker that
//! attaches. They receive the name of the wrong field and its allowed values, as for a field that core
//! refuses. Otherwise they would wait for their deadline. For that, the necessary part of the header is read
//! again. If even the request's id cannot be read, no answer is sent.

use crate::wire::decode::decoded;
use crate::wire::error::WireError;
use crate::wire::frame::Kind;
use crate::wire::header::{NumberHeader, RequestHeader};
use bytes::Bytes;
use treefold_core::call::Outcome;
use treefold_core::error::CallError;
use treefold_core::id::Tag;
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;
use treefold_core::replica::{POLICY_NAMES, POLLS_PER_PARTITION_MAX};
use treefold_core::stream::message::StreamMessage;
use treefold_core::stream::{StreamError, StreamId};
use treefold_core::tree::TREE_NODES_MAX;

/// The answer to a message of `kind` that was dropped because of `error`, if its sender waits for one.
pub(super) fn answer_to(
    kind: Kind,
    tag: Tag,
    header: &[u8],
    has_payload: bool,
    error: &WireError,
) -> Option<Message<Bytes>> {
    match kind {
        Kind::Request => {
            let id = decoded::<NumberHeader>(header).ok()?.id;
            let (field, given, limit) = of_request(header, has_payload, error)?;
            let outcome = Outcome::rejected(CallError::bad_field(field, given, limit));
            Some(Message::Reply { id, outcome: Box::new(outcome) })
        }
        Kind::StreamOpen => {
            let (field, given, limit) = of_any(has_payload, error)?;
            let stream = StreamId { origin: tag.wave.origin, sequence: tag.wave.sequence };
            let reason = StreamError::bad_field(field, given, limit);
            Some(Message::Stream(Box::new(StreamMessage::Close { stream, reason })))
        }
        Kind::PushAttach => {
            let (field, given, limit) = of_any(has_payload, error)?;
            let problem = format!("{field} is {given}; allowed: {limit}");
            Some(Message::Push(Box::new(PushMessage::Attached { result: Err(problem.into()) })))
        }
        Kind::SharesRequest => {
            let id = decoded::<NumberHeader>(header).ok()?.id;
            Some(Message::SharesReply { id, result: Err(error.to_string().into()) })
        }
        Kind::PlacementRequest => {
            let id = decoded::<NumberHeader>(header).ok()?.id;
            Some(Message::PlacementReply { id, result: Err(error.to_string().into()) })
        }
        _ => None,
    }
}

/// The wrong field of a request, its given value, and the allowed values.
fn of_request(header: &[u8], has_payload: bool, error: &WireError) -> Option<(&'static str, String, String)> {
    let WireError::Malformed { field } = error else { return of_any(has_payload, error) };
    let Ok(header) = decoded::<RequestHeader>(header) else { return of_any(has_payload, error) };
    let (given, limit) = match *field {
        "shape" => {
            let limit = format!(
                "auto, base, flat, chain, kary:K (K from 1 to {TREE_NODES_MAX}), binomial, adaptive, earliest-ready, \
                 on-path, on-path:T"
            );
            (format!("{:?}", header.shape), limit)
        }
        "policy" => {
            let limit = format!("{POLICY_NAMES} (D from 1 to {POLLS_PER_PARTITION_MAX}), or empty");
            (format!("{:?}", header.policy), limit)
        }
        "waiting" => {
            let given = format!("{} ({} to {})", header.waiting, header.slope_min, header.slope_max);
            (given, "1 to 5; with 4, 0 ≤ slope_min ≤ slope_max ≤ 1".to_owned())
        }
        _ => return of_any(has_payload, error),
    };
    Some((field, given, limit))
}

/// As [`of_request`] for any message, from the error alone.
fn of_any(has_payload: bool, error: &WireError) -> Option<(&'static str, String, String)> {
    match error {
        WireError::TooLarge { field, limit, got } => {
            Some((field, got.to_string(), format!("at most {limit}")))
        }
        WireError::Malformed { field: "payload" } => {
            let (given, limit) = if has_payload { ("there", "none") } else { ("not there", "one") };
            Some(("payload", given.to_owned(), limit.to_owned()))
        }
        WireError::Malformed { field } => {
            Some((field, "malformed".to_owned(), "what docs/protocol.md says".to_owned()))
        }
        _ => None,
    }
}
