//! Events over HTTP: a request body of events, answered when all of them are acknowledged.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/feeds/FEED/events` | counts, acknowledged numbers, the first refusals |
//! | `POST /v1/feeds/FEED/events?acknowledge=false` | the same, as soon as the origin has the events |
//! | `GET /v1/feeds/FEED/acknowledged` | acknowledged numbers by stream |
//!
//! A body has an event a line, or is a JSON array or one JSON object. It is read as a stream, so it may have any length:
//! a busy origin stops the reading. The origin keeps the events that it took before an error, and the answer counts
//! them, so a client can repeat a whole request: repeated events are counted and not taken twice.
//!
//! | status | meaning |
//! |---|---|
//! | 200 | the origin has all events, and they are acknowledged |
//! | 202 | as 200, but not yet acknowledged, because the request does not ask for it |
//! | 207 | some events were refused, see `refusals` |
//! | 400 | the body is no text or no JSON document, or the header `Host` is wrong |
//! | 403 | a page in a browser makes the request, or a name in `Host` that is not one of this machine |
//! | 404 | no such feed |
//! | 408 | the body, or one of its lines, took too long |
//! | 413 | a line is too long |
//! | 415 | the body is compressed |
//! | 429 | the origin, or this listener, is busy; try again after `Retry-After` |
//! | 503 | the origin has ended or stops, or the events were not acknowledged in time |

mod answer;
mod body;
mod listener;
mod post;

pub use listener::serve;

use crate::feeder::Feeder;
use crate::intake::Intake;
use crate::reply::Numbers;
use answer::{Answer, Problem};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post as posted};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The feeds of one listener, shared by all of its requests.
struct Shared<I> {
    /// The feed's name, and the way to it.
    feed: String,
    feeder: Feeder<I>,
    /// Requests that may be read at one time.
    requests: Arc<Semaphore>,
    /// Long lines that may be received at one time.
    long_lines: Arc<Semaphore>,
}

/// The routes of one feed. Merge the routers of several feeds, or of readers, into one.
pub fn routes<I: Intake>(feed: &str, feeder: Feeder<I>) -> Router {
    let requests = Arc::new(Semaphore::new(feeder.limits.connections_max));
    let long_lines = Arc::new(Semaphore::new(feeder.limits.long_lines_max));
    let shared = Arc::new(Shared { feed: feed.to_owned(), feeder, requests, long_lines });
    Router::new()
        .route("/v1/feeds/{feed}/events", posted(post::events::<I>))
        .route("/v1/feeds/{feed}/acknowledged", get(acknowledged::<I>))
        .with_state(shared)
}

async fn acknowledged<I: Intake>(
    State(shared): State<Arc<Shared<I>>>,
    Path(feed): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Some(refused) = shared.refuse(&feed, &headers) {
        return refused;
    }
    #[derive(serde::Serialize)]
    struct Acknowledged {
        acknowledged: Numbers,
    }
    let acknowledged = Numbers::all(&shared.feeder.intake.acknowledged().borrow());
    answer::json(StatusCode::OK, &Acknowledged { acknowledged })
}

impl<I: Intake> Shared<I> {
    /// The answer to a request of a page in a browser, or for another feed.
    fn refuse(&self, feed: &str, headers: &HeaderMap) -> Option<Response> {
        let problem = if is_of_a_page(headers) {
            Problem::Page
        } else if feed != self.feed {
            Problem::UnknownFeed { given: feed.to_owned(), known: self.feed.clone() }
        } else {
            return None;
        };
        Some(Answer::failed(problem).into_response())
    }
}

/// True if a browser says that a page makes the request. There is no page here, so it is one of another site, or one
/// whose name leads to this address now.
fn is_of_a_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    headers.contains_key(header::ORIGIN) || site.is_some_and(|site| site != "none")
}
