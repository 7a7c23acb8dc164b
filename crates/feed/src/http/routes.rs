//! The paths of a listener.

use super::answer::{Problem, answer};
use super::{Site, ended};
use crate::mirror::Shared;
use crate::reading::MirrorStatus;
use crate::serving::{Form, Service, Start};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream::unfold;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::Arc;
use treefold_http::messages::{Framing, LAST_EVENT_ID};
use treefold_mirror::event::Name;
use treefold_mirror::filter::{Filter, FilterError};
use treefold_mirror::follow::Follower;
use treefold_mirror::keyed::{KeyValue, KeyedState};
use treefold_mirror::vector::VectorTimeError;
use treefold_mirror::{Cut, VectorTime};

pub(super) fn routes(site: Site) -> Router {
    Router::new()
        .route("/v1/feeds/{feed}/events", get(events))
        .route("/v1/feeds/{feed}/keys/{key}", get(key))
        .route("/v1/feeds/{feed}/status", get(status))
        .route("/healthz", get(health))
        .method_not_allowed_fallback(async || Problem::method())
        .fallback(async |uri: Uri| Problem::path(uri.path()))
        .with_state(site)
}

impl Site {
    /// The mirror, if it is one of this feed.
    fn mirror(&self, feed: &str) -> Result<Arc<Shared>, Problem> {
        if feed != self.feed.as_str() {
            return Err(Problem::feed(feed, &self.feed));
        }
        self.shared.upgrade().ok_or_else(Problem::ended)
    }

    fn time(&self, held: &Follower<KeyedState>) -> String {
        held.mirror().vector_time(self.feed.clone()).to_string()
    }
}

#[derive(Serialize)]
struct Health {
    is_current: bool,
}

async fn health(State(site): State<Site>) -> Response {
    let is_current = site.shared.upgrade().is_some_and(|shared| shared.held().is_current());
    answer(StatusCode::OK, &Health { is_current })
}

#[derive(Serialize)]
struct Status {
    at: String,
    #[serde(flatten)]
    status: MirrorStatus,
}

async fn status(
    State(site): State<Site>,
    feed: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let shared = site.mirror(&path(feed)?)?;
    let at = site.time(&shared.held());
    Ok(answer(StatusCode::OK, &Status { at, status: MirrorStatus::of(&shared) }))
}

#[derive(Serialize)]
struct Found {
    at: String,
    row: KeyValue,
}

async fn key(
    State(site): State<Site>,
    asked: Result<Path<(String, String)>, PathRejection>,
) -> Result<Response, Problem> {
    let (feed, key) = path(asked)?;
    let shared = site.mirror(&feed)?;
    let held = shared.held();
    if !held.is_current() {
        return Err(Problem::not_current());
    }
    let (at, row) = (site.time(&held), held.mirror().state().value(&key));
    drop(held);
    let row = row.ok_or_else(|| Problem::key(&key))?;
    Ok(answer(StatusCode::OK, &Found { at, row }))
}

fn path<T>(asked: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    asked.map(|Path(asked)| asked).map_err(|error| Problem::query(&error.body_text()))
}

type Parameters = Query<Vec<(String, String)>>;

async fn events(
    State(site): State<Site>,
    feed: Result<Path<String>, PathRejection>,
    parameters: Result<Parameters, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let shared = site.mirror(&path(feed)?)?;
    let Query(parameters) = parameters.map_err(|error| Problem::query(&error.body_text()))?;
    let (filter, start) = wishes(&site.feed, &parameters, &headers)?;
    let feed = site.feed.clone();
    let framing = Framing::of(&headers);
    let form = match framing {
        Framing::Sent => Form::Sent(feed),
        Framing::Lines => Form::Lines(feed),
    };
    let service = Service::new(&shared, site.changed.clone(), form, filter, start);
    let service = service.map_err(|refusal| Problem::readers(&refusal))?;
    Ok((framing.headers(), body(service, site)).into_response())
}

/// The messages of a reader, until the mirror or the listener ends.
fn body(service: Service, site: Site) -> Body {
    let messages = unfold((service, site.ending), async |(mut service, mut ending)| {
        let message = tokio::select! {
            biased;
            () = ended(&mut ending) => service.farewell(),
            message = service.next() => message,
        };
        let (_, bytes) = message?;
        Some((Ok::<Bytes, Infallible>(bytes), (service, ending)))
    });
    Body::from_stream(messages)
}

/// The filter and the place of a request. A browser that reconnects sends its first request again, with the last
/// event's id as a header; so the header outranks `from`. An id that is no place in this feed is no error: a browser would
/// give up for good, and a snapshot has all that it needs.
fn wishes(
    feed: &Name,
    parameters: &[(String, String)],
    headers: &HeaderMap,
) -> Result<(Filter, Start), Problem> {
    let (mut filter, mut start) = (Filter::default(), Start::Snapshot);
    for (name, value) in parameters {
        let added = match name.as_str() {
            "key" => filter.add_key(value.as_str()),
            "prefix" => filter.add_prefix(value.as_str()),
            "type" => {
                Name::new(value.clone()).map_err(FilterError::from).and_then(|kind| filter.add_type(kind))
            }
            "from" => {
                start = Start::Place(cut_of(feed, value).map_err(|unknown| Problem::time("from", unknown))?);
                Ok(())
            }
            name => return Err(Problem::parameter(name)),
        };
        added.map_err(|error| Problem::filter(name, &error))?;
    }
    if let Some(id) = headers.get(LAST_EVENT_ID) {
        let id = id.to_str().unwrap_or("not a text");
        start = match cut_of(feed, id) {
            // An empty id means that the client has no state.
            _ if id.is_empty() => Start::Snapshot,
            Ok(cut) => Start::Place(cut),
            Err(unknown) => Start::Unknown(unknown),
        };
    }
    Ok((filter, start))
}

/// The place in the feed that a vector time names, or the reason why it names none.
fn cut_of(feed: &Name, text: &str) -> Result<Cut, String> {
    let time: VectorTime = text.parse().map_err(|error: VectorTimeError| error.to_string())?;
    time.feed(feed).ok_or_else(|| format!("the vector time has no component of the feed {feed}"))
}
