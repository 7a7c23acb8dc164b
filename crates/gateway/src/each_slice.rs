//! A call whose slices are lines of one answer, for results that are larger than memory.
//!
//! The lines are those of `treefold call --each -o json`: a line for each slice as soon as it is there, and the outcome of all of them as
//! the last one. A body without it was cut off. A client that does not read holds up the slices behind its window, because
//! the next one begins when one has been taken.

use crate::answer::headers_of;
use crate::body::Parameters;
use crate::problem::Problem;
use crate::site::Site;
use crate::tenants::OpenCall;
use crate::wishes::Wishes;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use treefold::{EachSlice, Error, Raw};
use treefold_forms::json::{SliceAnswer, SlicesAnswer};
use treefold_http::messages::Framing;

/// A call that is being read. Dropping it cancels the slices in flight.
struct Reading {
    site: Arc<Site>,
    each: EachSlice<Raw>,
    /// The call's part of its caller's and the gateway's room.
    _open: (OpenCall, Option<OwnedSemaphorePermit>),
}

/// Makes the call. An error before the first slice is the answer; a later one is its last line.
pub(crate) async fn answer(
    site: Arc<Site>,
    open: OpenCall,
    (service, aggregation): (&str, &str),
    Parameters { params, _permits }: Parameters,
    wishes: &Wishes,
    window: Option<u32>,
) -> Result<Response, Problem> {
    let call = site.client.call_raw(&format!("{service}/{aggregation}"), params.common.clone());
    let mut each = wishes.apply(params.apply(call), &site.limits)?.each_slice();
    if let Some(window) = window {
        each = each.window(window);
    }
    let first = match each.next().await {
        Ok(first) => first,
        Err(Error::NoValue { .. }) => {
            let reply = each.so_far();
            site.metrics.count_call(reply, reply.elapsed);
            return Err(Problem::coverage(reply, headers_of(reply)));
        }
        Err(error) => return Err(error.into()),
    };
    let reading = Reading { site, each, _open: (open, _permits) };
    Ok((Framing::Lines.headers(), body(reading, first)).into_response())
}

/// The lines, until the last one.
fn body(reading: Reading, first: Option<Raw>) -> Body {
    let lines = unfold(Some((reading, Some(Ok(first)))), |state| async move {
        let (mut reading, first) = state?;
        let next = match first {
            Some(first) => first,
            None => reading.each.next().await,
        };
        let each = &reading.each;
        match next {
            Ok(Some(value)) => {
                Some((line(&SliceAnswer::of(each.taken() - 1, &value)), Some((reading, None))))
            }
            Ok(None) | Err(Error::NoValue { .. }) => {
                reading.site.metrics.count_call(each.so_far(), each.so_far().elapsed);
                Some((line(&SlicesAnswer::of(each)), None))
            }
            Err(error) => {
                let mut text = Problem::from(error).to_json().trim_ascii_end().to_vec();
                text.push(b'\n');
                Some((Ok(text.into()), None))
            }
        }
    });
    Body::from_stream(lines)
}

fn line(content: &impl Serialize) -> Result<Bytes, Infallible> {
    let mut out = serde_json::to_vec(content).expect("invariant: answers can be written to a vector");
    out.push(b'\n');
    Ok(out.into())
}
