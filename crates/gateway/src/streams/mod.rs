//! Streams for readers over HTTP: waves come up as they are folded, and over a WebSocket packets go down.
//!
//! ```text
//!  endpoints ─▶ tree ─▶ node ─▶ pump ─▶ queue ─▶ reader ─▶ server-sent events, lines, WebSocket, gRPC
//!                                       bounded
//! ```
//!
//! - `wishes`: the settings of a stream, as text. They are those of `treefold stream`.
//! - `reader`: a stream with its pump, a task that moves waves into the queue, and ends the stream when the gateway ends or
//!   its token is taken back. Dropping the reader closes the stream at all its nodes.
//! - `queue`: waves that wait for the reader, and the rule for a reader that is too slow ([`Slow`]).
//! - `event`: news of a stream as JSON. `socket`: the same over a WebSocket, and packets down. `frames` counts a WebSocket's
//!   frames that carry nothing.
//!
//! A stream begins anew with each request: its waves are not kept, so no reader can resume. A mirror keeps its events, and its
//! readers can (`treefold_feed`); both write messages with `treefold_http::messages`.

mod event;
mod frames;
mod queue;
mod reader;
mod socket;
mod wishes;

pub(crate) use event::Event;
pub(crate) use reader::Reader;
#[cfg(test)]
pub(crate) use wishes::OPTIONS;
pub(crate) use wishes::StreamWishes;

use crate::caller::Caller;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use socket::Upgrade;
use std::convert::Infallible;
use std::sync::Arc;
use treefold_http::Kept;
use treefold_http::messages::Framing;

/// Opens a stream, and gives its waves until the reader goes away.
pub(crate) async fn open(
    State(site): State<Arc<Site>>,
    Caller(tenant): Caller,
    named: Result<Path<String>, PathRejection>,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
    kept: Option<Extension<Kept>>,
    request: Parts,
) -> Result<Response, Problem> {
    let bad = |field: &str, detail: String| Problem::new(Kind::BadField, detail).about(field);
    let Path(service) = named.map_err(|error| bad("path", error.body_text()))?;
    let Query(query) = query.map_err(|error| bad("query", error.body_text()))?;
    let wishes = StreamWishes::of(query)?;
    if !request.headers.contains_key(header::UPGRADE) {
        let reader = Reader::open(&site, &tenant, service, wishes).await?;
        let framing = Framing::of(&request.headers);
        return Ok((framing.headers(), body(reader, framing)).into_response());
    }
    let upgrade = Upgrade::of(request).map_err(|detail| bad("upgrade", detail))?;
    let reader = Reader::open(&site, &tenant, service, wishes).await?;
    Ok(upgrade.answer(reader, tenant, &site.limits, kept.map(|Extension(kept)| kept)))
}

/// The messages of a reader, until its stream ends.
fn body(reader: Reader, framing: Framing) -> Body {
    let messages = unfold(Some((reader, 0_u64)), move |state| async move {
        let (mut reader, count) = state?;
        let mut out = Vec::new();
        let next = match reader.next().await {
            Ok(Event::Alive) => {
                out.extend_from_slice(framing.alive());
                Some((reader, count))
            }
            Ok(event) => {
                let id = format!("{}:{}", reader.id(), count + 1);
                framing.open(event.name(), Some(&id), &mut out);
                event.write(&mut out);
                framing.close(&mut out);
                Some((reader, count + 1))
            }
            Err(problem) => {
                framing.open("closed", None, &mut out);
                out.extend_from_slice(problem.to_json().trim_ascii_end());
                framing.close(&mut out);
                None
            }
        };
        Some((Ok::<Bytes, Infallible>(out.into()), next))
    });
    Body::from_stream(messages)
}
