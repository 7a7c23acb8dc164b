//! A call whose result is read slice by slice, because it is larger than memory.
//!
//! Over HTTP the lines are those of `treefold call --each -o json`: a line for each slice as soon as it is there, and the outcome of all of
//! them as the last one. A body without it was cut off. Over gRPC the slices and the outcome are messages. A client that does
//! not read holds up the slices behind its window, because the next one begins when one has been taken.

use crate::answer::headers_of;
use crate::body::Parameters;
use crate::parameters::Params;
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
use treefold::{EachSlice, Error, Raw};
use treefold_forms::json::{SliceAnswer, SlicesAnswer};
use treefold_http::messages::Framing;

/// A call that is being read. Dropping it cancels the slices in flight.
pub(crate) struct Reading {
    site: Arc<Site>,
    each: EachSlice<Raw>,
    /// The first slice, which was awaited for the status of the answer.
    first: Option<Option<Raw>>,
    has_ended: bool,
    _open: OpenCall,
}

/// A part of the result.
#[derive(Debug)]
pub(crate) enum Part {
    /// A slice with its number.
    Slice(u32, Raw),
    /// All slices were read, or further ones would have too little coverage.
    Outcome,
}

impl Reading {
    /// Makes the call, and waits for its first slice.
    pub(crate) async fn begin(
        site: Arc<Site>,
        open: OpenCall,
        (service, aggregation): (&str, &str),
        params: Params,
        wishes: &Wishes,
    ) -> Result<Self, Problem> {
        let call = site.client.call_raw(&format!("{service}/{aggregation}"), params.common.clone());
        let mut each = wishes.apply(params.apply(call), &site.limits)?.each_slice();
        if let Some(window) = wishes.window()? {
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
        Ok(Self { site, each, first: Some(first), has_ended: false, _open: open })
    }

    /// The next part; none after the outcome, and after an error.
    pub(crate) async fn next(&mut self) -> Option<Result<Part, Problem>> {
        if self.has_ended {
            return None;
        }
        let next = match self.first.take() {
            Some(first) => Ok(first),
            None => self.each.next().await,
        };
        if let Ok(Some(value)) = next {
            return Some(Ok(Part::Slice(self.each.taken() - 1, value)));
        }
        self.has_ended = true;
        Some(match next {
            Err(Error::NoValue { .. }) | Ok(_) => {
                let reply = self.each.so_far();
                self.site.metrics.count_call(reply, reply.elapsed);
                Ok(Part::Outcome)
            }
            Err(error) => Err(error.into()),
        })
    }

    /// The slices, with the account of those so far.
    pub(crate) fn each(&self) -> &EachSlice<Raw> {
        &self.each
    }
}

/// Makes the call. An error before the first slice is the answer; a later one is its last line.
pub(crate) async fn answer(
    site: Arc<Site>,
    open: OpenCall,
    named: (&str, &str),
    Parameters { params, _permits }: Parameters,
    wishes: &Wishes,
) -> Result<Response, Problem> {
    let reading = Reading::begin(site, open, named, params, wishes).await?;
    let lines = unfold((reading, _permits), |(mut reading, permits)| async move {
        let line = match reading.next().await? {
            Ok(Part::Slice(number, value)) => line(&SliceAnswer::of(number, &value)),
            Ok(Part::Outcome) => line(&SlicesAnswer::of(reading.each())),
            Err(problem) => {
                let mut text = problem.to_json().trim_ascii_end().to_vec();
                text.push(b'\n');
                Ok(text.into())
            }
        };
        Some((line, (reading, permits)))
    });
    Ok((Framing::Lines.headers(), Body::from_stream(lines)).into_response())
}

fn line(content: &impl Serialize) -> Result<Bytes, Infallible> {
    let mut out = serde_json::to_vec(content).expect("invariant: answers can be written to a vector");
    out.push(b'\n');
    Ok(out.into())
}
