//! Encodes why a stream has ended: a number and the error's texts.
//!
//! Texts are clipped like those of every error. A clipped name is still useful, because only people read
//! these texts.

use super::header::CloseHeader;
use crate::wire::error::{WireError, malformed, within};
use crate::wire::outcome::clipped;
use treefold_core::limits::Limits;
use treefold_core::stream::StreamError;

/// Encodes `error` as a header.
pub(super) fn close_header(error: &StreamError, limits: &Limits) -> Result<CloseHeader, WireError> {
    let text = |text: &str| clipped(text, limits).to_owned();
    let none = CloseHeader::default();
    Ok(match error {
        StreamError::Closed => CloseHeader { error: 1, ..none },
        StreamError::FrontLost => CloseHeader { error: 2, ..none },
        StreamError::BadField { field, given, limit } => {
            CloseHeader { error: 3, field: text(field), given: text(given), limit: text(limit), ..none }
        }
        StreamError::UnknownService { service } => CloseHeader { error: 4, service: text(service), ..none },
        StreamError::Filter { problem } => CloseHeader { error: 5, problem: text(problem), ..none },
        StreamError::Full { limit } => CloseHeader { error: 6, limit: text(limit), ..none },
        StreamError::ShuttingDown => CloseHeader { error: 7, ..none },
        StreamError::Denied { right, service } => {
            CloseHeader { error: 8, right: text(right), service: text(service), ..none }
        }
        _ => return Err(WireError::Inexpressible { field: "reason" }),
    })
}

/// Decodes the error of a header.
pub(super) fn stream_error_of(header: CloseHeader, limits: &Limits) -> Result<StreamError, WireError> {
    let CloseHeader { error, field, given, limit, service, problem, right } = header;
    for text in [&field, &given, &limit, &service, &problem, &right] {
        within("reason", limits.message_bytes_max, text.len())?;
    }
    Ok(match error {
        1 => StreamError::Closed,
        2 => StreamError::FrontLost,
        3 => StreamError::BadField { field, given, limit },
        4 => StreamError::UnknownService { service: service.into() },
        5 => StreamError::Filter { problem: problem.into() },
        6 => StreamError::Full { limit: limit.into() },
        7 => StreamError::ShuttingDown,
        8 => StreamError::Denied { right: right.into(), service: service.into() },
        _ => return Err(malformed("reason")),
    })
}
