//! Server-sent events for watchers: the node's view and the figures of the gateway's calls, once a second.
//!
//! One task makes the snapshot of a second for all watchers. It runs only while somebody watches. A watcher that is slow
//! skips snapshots, because it always gets the latest one; each snapshot repeats the last seconds of calls, so that their
//! curve has no gap. The first event is the history of calls.

use crate::caller::{Caller, check_again};
use crate::problem::{Kind, Problem};
use crate::seconds::Second;
use crate::site::Site;
use crate::tenants::{OpenStream, Tenant};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use treefold::Error;
use treefold_forms::json::StatusView;
use treefold_forms::shares::NodeShares;
use treefold_http::messages::Framing;

/// The watchers of a gateway.
#[derive(Debug)]
pub(crate) struct Watchers {
    /// The latest event; empty while nobody watches.
    latest: watch::Sender<Bytes>,
    is_ticking: Mutex<bool>,
    places: Arc<Semaphore>,
}

/// The data of the first event.
#[derive(Serialize)]
struct History {
    seconds: Vec<Second>,
}

/// The data of an event of each second.
#[derive(Serialize)]
struct Snapshot<'a> {
    /// The end of the last complete second, in Unix milliseconds.
    at_ms: u64,
    status: StatusView,
    /// The shares of the node's services, and what they have used.
    shares: NodeShares<'a>,
    /// The seconds among the last ten that had calls.
    seconds: Vec<Second>,
    /// The latest call whose tree is kept; null if there is none.
    latest_tree: Option<u64>,
}

/// One watcher.
struct Watcher {
    first: Option<Bytes>,
    latest: watch::Receiver<Bytes>,
    ending: watch::Receiver<bool>,
    site: Arc<Site>,
    tenant: Arc<Tenant>,
    _places: (OwnedSemaphorePermit, OpenStream),
}

impl Watchers {
    pub(crate) fn new(watchers_max: usize) -> Self {
        let places = places(watchers_max);
        Self { latest: watch::channel(Bytes::new()).0, is_ticking: Mutex::new(false), places }
    }
}

/// Places for watchers of one kind.
pub(crate) fn places(watchers_max: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(watchers_max.min(Semaphore::MAX_PERMITS)))
}

/// Takes a place for a watcher, or refuses it.
pub(crate) fn take_place(
    places: &Arc<Semaphore>,
    watchers_max: usize,
) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(places).try_acquire_owned().map_err(|_| {
        let max = watchers_max;
        let detail = format!("the gateway has {max} watchers; allowed: at most {max} (watchers_max)");
        Problem::new(Kind::Busy, detail).limit(max).again_after(Duration::from_secs(1))
    })
}

/// Sends events until the watcher leaves, its token is taken back, or the gateway ends.
pub(crate) async fn watch(
    State(site): State<Arc<Site>>,
    Caller(tenant): Caller,
) -> Result<Response, Problem> {
    tenant.may_read()?;
    let place = take_place(&site.watchers.places, site.limits.watchers_max)?;
    let places = (place, tenant.open_stream()?);
    let first = event("history", &History { seconds: site.seconds.history() });
    let latest = follow(&site);
    let ending = site.ending.clone();
    let watcher = Watcher { first: Some(first), latest, ending, site, tenant, _places: places };
    let events = stream::unfold(Some(watcher), async |watcher| watcher?.next().await);
    Ok((Framing::Sent.headers(), Body::from_stream(events)).into_response())
}

/// Lets a watcher follow the events, and starts the task that makes them if it does not run.
fn follow(site: &Arc<Site>) -> watch::Receiver<Bytes> {
    // The lock keeps the task from ending between its look at the watchers and this watcher's entry.
    let mut is_ticking = site.watchers.is_ticking.lock().unwrap_or_else(PoisonError::into_inner);
    let mut latest = site.watchers.latest.subscribe();
    if *is_ticking {
        latest.mark_changed();
    } else {
        *is_ticking = true;
        tokio::spawn(tick(Arc::clone(site)));
    }
    latest
}

/// Makes an event at the end of each second, the first one at once.
async fn tick(site: Arc<Site>) {
    loop {
        let next = match look(&site).await {
            Ok(event) => event,
            Err(error) => event_of("problem", &Problem::from(error).to_json()),
        };
        site.watchers.latest.send_replace(next);
        sleep(site.seconds.until_next()).await;
        let mut is_ticking = site.watchers.is_ticking.lock().unwrap_or_else(PoisonError::into_inner);
        if site.watchers.latest.receiver_count() == 0 {
            site.watchers.latest.send_replace(Bytes::new());
            *is_ticking = false;
            return;
        }
    }
}

async fn look(site: &Site) -> Result<Bytes, Error> {
    let (status, shares) = (site.client.status().await?, site.client.shares().await?);
    let (at_ms, seconds) = site.seconds.recent();
    let node = status.card.node.to_string();
    let snapshot = Snapshot {
        at_ms,
        status: StatusView::of(&status),
        shares: NodeShares::of(&node, &shares),
        seconds,
        latest_tree: site.trees.latest(),
    };
    Ok(event("snapshot", &snapshot))
}

impl Watcher {
    /// The next event, and the watcher if more may follow.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Option<Self>)> {
        if let Some(first) = self.first.take() {
            return Some((Ok(first), Some(self)));
        }
        loop {
            tokio::select! {
                biased;
                () = treefold_http::ended(&mut self.ending) => return None,
                changed = self.latest.changed() => changed.ok()?,
            }
            let latest = self.latest.borrow_and_update().clone();
            // It is empty until the task has made its first event.
            if latest.is_empty() {
                continue;
            }
            return match check_again(&self.site, &self.tenant, Tenant::may_read) {
                Ok(()) => Some((Ok(latest), Some(self))),
                Err(problem) => Some((Ok(event_of("problem", &problem.to_json())), None)),
            };
        }
    }
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_vec(data).expect("invariant: events can be written to a vector");
    event_of(name, &data)
}

/// An event with JSON, which has no line ends within.
fn event_of(name: &str, json: &[u8]) -> Bytes {
    let mut out = Vec::new();
    Framing::Sent.open(name, None, &mut out);
    out.extend_from_slice(json.trim_ascii_end());
    Framing::Sent.close(&mut out);
    out.into()
}
