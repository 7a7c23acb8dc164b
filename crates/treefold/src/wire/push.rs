//! Push waves: the messages between an application's workers and the nodes to which they attach, and the
//! announcement of a request in `Request` and `Call`.

use crate::wire::decode::decoded;
use crate::wire::encode::{Shell, Track, append};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::frame::{Kind, NO_TAG};
use crate::wire::header::{
    PushAttachHeader, PushAttachedHeader, PushEndedHeader, PushFailedHeader, PushHeader, PushRequestHeader,
    PushTakenHeader, PushWantedHeader,
};
use crate::wire::names::Names;
use crate::wire::outcome::clipped;
use bytes::{Bytes, BytesMut};
use treefold_core::limits::Limits;
use treefold_core::membership::card::NAME_BYTES_MAX;
use treefold_core::push::PushRequest;
use treefold_core::push::message::PushMessage;
use treefold_core::time::Duration;

/// Encodes a call's request for pushes.
pub(super) fn push_request_header(push: Option<PushRequest>) -> Option<PushRequestHeader> {
    push.map(|PushRequest { request, patience }| PushRequestHeader {
        request,
        patience_us: patience.as_micros(),
    })
}

/// Decodes a call's request for pushes.
pub(super) fn push_request_of(header: Option<PushRequestHeader>) -> Option<PushRequest> {
    header.map(|PushRequestHeader { request, patience_us }| PushRequest {
        request,
        patience: Duration::from_micros(patience_us),
    })
}

/// Appends the header of `message` to `out`.
pub(super) fn put_push<'a>(
    message: &'a PushMessage<Bytes>,
    limits: &Limits,
    out: &mut BytesMut,
) -> Result<Shell<'a>, WireError> {
    let of_request = |kind, request: &u64, payload| Shell {
        kind,
        tag: NO_TAG,
        payload,
        track: Some(Track::Push(*request)),
    };
    Ok(match message {
        PushMessage::Attach { application, worker } => {
            within("application", NAME_BYTES_MAX, application.len())?;
            append(&PushAttachHeader { application: application.as_ref().to_owned(), worker: *worker }, out);
            Shell::bare(Kind::PushAttach)
        }
        PushMessage::Attached { result } => {
            let window_bytes = *result.as_ref().unwrap_or(&0);
            let problem = result.as_ref().err().map(|problem| clipped(problem, limits).to_owned());
            append(&PushAttachedHeader { window_bytes, problem }, out);
            Shell::bare(Kind::PushAttached)
        }
        PushMessage::Push { request, sequence, last, payload } => {
            sequence_within(*sequence)?;
            append(&PushHeader { request: *request, sequence: *sequence, last: *last }, out);
            of_request(Kind::Push, request, Some(payload))
        }
        PushMessage::Failed { request, problem } => {
            let problem = clipped(problem, limits).to_owned();
            append(&PushFailedHeader { request: *request, problem }, out);
            of_request(Kind::PushFailed, request, None)
        }
        PushMessage::Wanted { request, after, again } => {
            append(&PushWantedHeader { request: *request, after: *after, again: *again }, out);
            of_request(Kind::PushWanted, request, None)
        }
        PushMessage::Taken { request, upto } => {
            append(&PushTakenHeader { request: *request, upto: *upto }, out);
            of_request(Kind::PushTaken, request, None)
        }
        PushMessage::Ended { request } => {
            append(&PushEndedHeader { request: *request }, out);
            of_request(Kind::PushEnded, request, None)
        }
    })
}

/// Decodes a message of one of the push kinds.
pub(super) fn push_of(
    kind: Kind,
    header: &[u8],
    payload: Option<Bytes>,
    limits: &Limits,
    names: &mut Names,
) -> Result<PushMessage<Bytes>, WireError> {
    Ok(match kind {
        Kind::PushAttach => {
            let PushAttachHeader { application, worker } = decoded(header)?;
            within("application", NAME_BYTES_MAX, application.len())?;
            PushMessage::Attach { application: names.intern(&application), worker }
        }
        Kind::PushAttached => {
            let PushAttachedHeader { window_bytes, problem } = decoded(header)?;
            let result = match problem {
                Some(_) if window_bytes != 0 => return Err(malformed("window_bytes")),
                Some(problem) => Err(text_within(problem, limits)?.into()),
                None => Ok(window_bytes),
            };
            PushMessage::Attached { result }
        }
        Kind::Push => {
            let PushHeader { request, sequence, last } = decoded(header)?;
            sequence_within(sequence)?;
            let payload = payload.ok_or(malformed("payload"))?;
            PushMessage::Push { request, sequence, last, payload }
        }
        Kind::PushFailed => {
            let PushFailedHeader { request, problem } = decoded(header)?;
            PushMessage::Failed { request, problem: text_within(problem, limits)?.into() }
        }
        Kind::PushWanted => {
            let PushWantedHeader { request, after, again } = decoded(header)?;
            PushMessage::Wanted { request, after, again }
        }
        Kind::PushTaken => {
            let PushTakenHeader { request, upto } = decoded(header)?;
            PushMessage::Taken { request, upto }
        }
        Kind::PushEnded => PushMessage::Ended { request: decoded::<PushEndedHeader>(header)?.request },
        kind => return Err(WireError::UnknownKind { kind: kind as u8 }),
    })
}

fn sequence_within(sequence: u32) -> Result<(), WireError> {
    if sequence == 0 { Err(malformed("sequence")) } else { Ok(()) }
}

fn text_within(text: String, limits: &Limits) -> Result<String, WireError> {
    within("problem", limits.message_bytes_max, text.len())?;
    Ok(text)
}
