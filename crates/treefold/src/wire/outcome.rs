//! Missing partitions, verdicts and call options: the parts of `Partial`, `Request`, `Reply` and a stream's
//! frames that are not columns.
//!
//! Shapes and replica policies are sent in their text form (`kary:8`, `polled:2`). Only a client's request
//! contains them, and a new one then needs no new number here. Fields that every call carries are numbers.

use crate::wire::columns::{node_alone, put_node, put_set, set_alone};
use crate::wire::error::{WireError, malformed, within};
use crate::wire::header::{MissingHeader, Rejection, ReplyHeader, RequestHeader, SliceAloneHeader};
use crate::wire::push::{push_request_header, push_request_of};
use crate::wire::report::{report_columns, report_of};
use bytes::Bytes;
use std::sync::Arc;
use treefold_core::call::{CallOptions, Outcome, Status};
use treefold_core::error::{CallError, Missing, Reason};
use treefold_core::id::NodeId;
use treefold_core::limits::{Limits, SLICES_ALONE_MAX};
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;
use treefold_core::wave::slice::Slice;
use treefold_core::wave::wait::Waiting;

/// The longest name of a shape or a policy.
const RULE_BYTES_MAX: usize = 64;

/// The number of a waiting rule, with its factors, or zeros if it has none.
pub(super) fn waiting_numbers(waiting: Waiting) -> (u32, f64, f64) {
    let (f_min, f_max) =
        if let Waiting::Slope { f_min, f_max } = waiting { (f_min, f_max) } else { (0.0, 0.0) };
    (waiting.code(), f_min, f_max)
}

/// The waiting rule of a number and its factors.
pub(super) fn waiting_of(number: u32, f_min: f64, f_max: f64) -> Result<Waiting, WireError> {
    Waiting::from_code(number, f_min, f_max).ok_or(malformed("waiting"))
}

/// Encodes a set as a row outside a column.
pub(super) fn set_row(
    set: &PartitionSet,
    limits: &Limits,
    field: &'static str,
) -> Result<Vec<u8>, WireError> {
    let mut row = Vec::new();
    put_set(&mut row, set, limits.partitions_max, field)?;
    Ok(row)
}

/// Encodes missing partitions.
pub(super) fn missing_headers(missing: &[Missing], limits: &Limits) -> Result<Vec<MissingHeader>, WireError> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    within("missing", limits.missing_max, missing.len())?;
    let header = |loss: &Missing| {
        let mut node = Vec::new();
        if let Some(name) = loss.node {
            put_node(&mut node, name);
        }
        Ok(MissingHeader {
            partitions: set_row(&loss.partitions, limits, "missing.partitions")?,
            node,
            reason: reason_number(&loss.reason)?,
            detail: clipped(loss.reason.detail().unwrap_or_default(), limits).to_owned(),
        })
    };
    missing.iter().map(header).collect()
}

/// Decodes missing partitions.
pub(super) fn missing_of(
    headers: &mut Vec<MissingHeader>,
    limits: &Limits,
) -> Result<Vec<Missing>, WireError> {
    if headers.is_empty() {
        return Ok(Vec::new());
    }
    within("missing", limits.missing_max, headers.len())?;
    let loss = |header: MissingHeader| {
        within("missing.detail", limits.message_bytes_max, header.detail.len())?;
        let node =
            if header.node.is_empty() { None } else { Some(node_alone(&header.node, "missing.node")?) };
        Ok(Missing {
            partitions: set_alone(&header.partitions, limits.partitions_max, "missing.partitions")?,
            node,
            reason: reason_of(header.reason, header.detail)?,
        })
    };
    headers.drain(..).map(loss).collect()
}

/// Encodes the relays that a partial reports as given up.
pub(super) fn given_up_column(given_up: &[NodeId], limits: &Limits) -> Result<Vec<Vec<u8>>, WireError> {
    if given_up.is_empty() {
        return Ok(Vec::new());
    }
    within("given_up", limits.missing_max, given_up.len())?;
    let name = |&relay: &NodeId| {
        let mut name = Vec::new();
        put_node(&mut name, relay);
        name
    };
    Ok(given_up.iter().map(name).collect())
}

/// Decodes the relays that a partial reports as given up.
pub(super) fn given_up_of(names: &mut Vec<Vec<u8>>, limits: &Limits) -> Result<Vec<NodeId>, WireError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    within("given_up", limits.missing_max, names.len())?;
    names.drain(..).map(|name| node_alone(&name, "given_up")).collect()
}

/// The number of the last reason that this version knows.
const LAST_REASON: u32 = 16;

fn reason_number(reason: &Reason) -> Result<u32, WireError> {
    Ok(match reason {
        Reason::NoReplica => 1,
        Reason::Lost => 2,
        Reason::Late => 3,
        Reason::TooBusy => 4,
        Reason::Full(_) => 5,
        Reason::UnknownAggregation => 6,
        Reason::NotHosted => 7,
        Reason::LocalFailed(_) => 8,
        Reason::LocalPanicked(_) => 9,
        Reason::ReduceFailed(_) => 10,
        Reason::Overlap => 11,
        Reason::Cancelled => 12,
        Reason::ShuttingDown => 13,
        Reason::FilterFailed(_) => 14,
        Reason::Lagging => 15,
        Reason::InvalidParams(_) => 16,
        Reason::Other { code, .. } if *code > LAST_REASON => *code,
        _ => return Err(WireError::Inexpressible { field: "missing.reason" }),
    })
}

fn reason_of(number: u32, detail: String) -> Result<Reason, WireError> {
    let detail: Arc<str> = detail.into();
    Ok(match number {
        1 => Reason::NoReplica,
        2 => Reason::Lost,
        3 => Reason::Late,
        4 => Reason::TooBusy,
        5 => Reason::Full(detail),
        6 => Reason::UnknownAggregation,
        7 => Reason::NotHosted,
        8 => Reason::LocalFailed(detail),
        9 => Reason::LocalPanicked(detail),
        10 => Reason::ReduceFailed(detail),
        11 => Reason::Overlap,
        12 => Reason::Cancelled,
        13 => Reason::ShuttingDown,
        14 => Reason::FilterFailed(detail),
        15 => Reason::Lagging,
        16 => Reason::InvalidParams(detail),
        // a newer peer's: its partitions are missing all the same
        code if code > LAST_REASON => Reason::Other { code, detail },
        _ => return Err(malformed("missing.reason")),
    })
}

/// Cuts a text to the longest allowed length, between two characters.
pub(super) fn clipped<'a>(text: &'a str, limits: &Limits) -> &'a str {
    &text[..text.floor_char_boundary(limits.message_bytes_max)]
}

/// The number of slices in a request for one alone, where older versions look for it. They have no call with so many, so
/// they reject the request instead of answering it with all slices.
const SLICES_OF_ONE_ALONE: u32 = u32::MAX;

/// Encodes a slice: its index, the number of slices, and whether the call asks for it alone. The numbers are 0 for whole
/// partials.
pub(super) fn slice_numbers(slice: Slice) -> (u32, u32, bool) {
    if slice.is_whole() { (0, 0, false) } else { (slice.index(), slice.of(), slice.is_alone()) }
}

/// Decodes a slice.
pub(super) fn slice_of((index, of, is_alone): (u32, u32, bool), limits: &Limits) -> Result<Slice, WireError> {
    let (slices_max, slice) = match is_alone {
        true => (SLICES_ALONE_MAX, Slice::alone(index, of.max(1))),
        false => (limits.slices_max, Slice::new(index, of.max(1))),
    };
    within("slices", slices_max as usize, of as usize)?;
    slice.ok_or_else(|| malformed("slice"))
}

/// Fills a request's header with the call's options.
pub(super) fn put_options(
    header: &mut RequestHeader,
    options: &CallOptions,
    limits: &Limits,
) -> Result<(), WireError> {
    header.deadline_us = options.deadline.as_micros();
    header.min_coverage = options.min_coverage;
    header.shape = options.shape.to_string();
    header.policy = options.policy.map(|policy| policy.to_string()).unwrap_or_default();
    (header.waiting, header.slope_min, header.slope_max) = waiting_numbers(options.waiting);
    header.hedge = options.hedge;
    header.slices = match options.only_slice {
        Some(_) => SLICES_OF_ONE_ALONE,
        None if options.slices == 1 => 0,
        None => options.slices,
    };
    header.alone = options.only_slice.map(|slice| SliceAloneHeader { slice, slices: options.slices });
    header.explain = options.explain;
    header.push = push_request_header(options.push);
    header.chosen = options.partitions.is_some();
    if let Some(partitions) = &options.partitions {
        header.partitions = set_row(partitions, limits, "partitions")?;
    }
    within("shape", RULE_BYTES_MAX, header.shape.len())?;
    within("policy", RULE_BYTES_MAX, header.policy.len())
}

/// Decodes a request's options.
pub(super) fn options_of(header: &RequestHeader, limits: &Limits) -> Result<CallOptions, WireError> {
    within("shape", RULE_BYTES_MAX, header.shape.len())?;
    within("policy", RULE_BYTES_MAX, header.policy.len())?;
    let policy = match header.policy.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| malformed("policy"))?),
    };
    let partitions = match header.chosen {
        true => Some(set_alone(&header.partitions, limits.partitions_max, "partitions")?),
        false => None,
    };
    let (slices, only_slice) = match &header.alone {
        Some(alone) => (alone.slices.max(1), Some(alone.slice)),
        None => (header.slices.max(1), None),
    };
    Ok(CallOptions {
        deadline: Duration::from_micros(header.deadline_us),
        min_coverage: header.min_coverage,
        shape: header.shape.parse().map_err(|_| malformed("shape"))?,
        policy,
        waiting: waiting_of(header.waiting, header.slope_min, header.slope_max)?,
        hedge: header.hedge,
        partitions,
        explain: header.explain,
        slices,
        only_slice,
        push: push_request_of(header.push),
    })
}

/// Encodes a reply's header.
pub(super) fn reply_header(
    id: u64,
    outcome: &Outcome<Bytes>,
    limits: &Limits,
) -> Result<ReplyHeader, WireError> {
    let (status, rejection) = match &outcome.status {
        Status::Full => (1, None),
        Status::Partial => (2, None),
        Status::Insufficient => (3, None),
        Status::Rejected(error) => (4, Some(rejection(error, limits)?)),
    };
    Ok(ReplyHeader {
        id,
        status,
        rejection,
        asked: set_row(&outcome.asked, limits, "asked")?,
        contributed: set_row(&outcome.contributed, limits, "contributed")?,
        missing: missing_headers(&outcome.missing, limits)?,
        elapsed_ns: outcome.elapsed.as_nanos(),
        total_is_guess: outcome.total_is_guess,
        report: outcome.report.as_deref().map(|report| report_columns(report, limits)).transpose()?,
    })
}

/// Decodes a call's outcome from a reply's header and payload.
pub(super) fn outcome_of(
    mut header: ReplyHeader,
    value: Option<Bytes>,
    limits: &Limits,
) -> Result<Outcome<Bytes>, WireError> {
    let status = match (header.status, header.rejection) {
        (1, None) => Status::Full,
        (2, None) => Status::Partial,
        (3, None) => Status::Insufficient,
        (4, Some(rejection)) => Status::Rejected(call_error_of(rejection, limits)?),
        _ => return Err(malformed("status")),
    };
    Ok(Outcome {
        status,
        value,
        asked: set_alone(&header.asked, limits.partitions_max, "asked")?,
        contributed: set_alone(&header.contributed, limits.partitions_max, "contributed")?,
        missing: missing_of(&mut header.missing, limits)?,
        total_is_guess: header.total_is_guess,
        elapsed: Duration::from_nanos(header.elapsed_ns),
        report: header.report.map(|columns| report_of(columns, limits).map(Box::new)).transpose()?,
    })
}

fn rejection(error: &CallError, limits: &Limits) -> Result<Rejection, WireError> {
    let text = |text: &str| clipped(text, limits).to_owned();
    let none = Rejection::default();
    Ok(match error {
        CallError::BadField { field, given, limit } => {
            Rejection { error: 1, field: text(field), given: text(given), limit: text(limit), ..none }
        }
        CallError::UnknownService { service } => Rejection { error: 2, service: text(service), ..none },
        CallError::TooManyCalls { limit } => Rejection { error: 3, calls_max: *limit as u64, ..none },
        CallError::TooManyCallsOfClient { limit } => {
            Rejection { error: 3, calls_max: *limit as u64, of_client: true, ..none }
        }
        CallError::ShuttingDown => Rejection { error: 4, ..none },
        CallError::Denied { right, service } => {
            Rejection { error: 5, right: text(right), service: text(service), ..none }
        }
        _ => return Err(WireError::Inexpressible { field: "rejection" }),
    })
}

fn call_error_of(rejection: Rejection, limits: &Limits) -> Result<CallError, WireError> {
    let Rejection { error, field, given, limit, service, calls_max, right, of_client } = rejection;
    for text in [&field, &given, &limit, &service, &right] {
        within("rejection", limits.message_bytes_max, text.len())?;
    }
    Ok(match error {
        1 => CallError::BadField { field, given, limit },
        2 => CallError::UnknownService { service },
        3 => {
            let limit = usize::try_from(calls_max).map_err(|_| malformed("rejection"))?;
            if of_client {
                CallError::TooManyCallsOfClient { limit }
            } else {
                CallError::TooManyCalls { limit }
            }
        }
        4 => CallError::ShuttingDown,
        5 => CallError::Denied { right, service },
        _ => return Err(malformed("rejection")),
    })
}
