//! The trees of the gateway's latest calls.
//!
//! The gateway keeps the trees of calls that asked for them (`explain`), and of a few others a second, for which it asks
//! itself. For the rest, the only cost is a look at one number. Trees have no parameters and no values. The oldest leave
//! when there are too many, or when they hold too many bytes.
//!
//! **Rights**: a token with the right `read` sees all trees; another one sees those of the services that it may call, since
//! it could ask for such trees itself.

use crate::answer::json;
use crate::caller::Caller;
use crate::limits::Limits;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use treefold::{Raw, Reply};
use treefold_core::message::Report;
use treefold_forms::json::{Account, Coverage};

/// The reason why a call's tree is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The caller asked for it.
    Asked,
    /// The gateway asked for it, and the caller does not get it.
    Sampled,
}

/// The kept trees.
#[derive(Debug)]
pub(crate) struct Trees {
    started: Instant,
    /// Time between two samples; `None` if none are taken.
    pause: Option<Duration>,
    /// The time of the next sample, in microseconds since the start.
    next_us: AtomicU64,
    calls_max: usize,
    bytes_max: usize,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// The last number that was given.
    latest: u64,
    bytes: usize,
    calls: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    line: Line,
    document: Bytes,
}

/// A call whose tree is kept.
#[derive(Clone, Debug, Serialize)]
struct Named {
    /// Its number at this gateway.
    call: u64,
    /// When it ended, in Unix milliseconds.
    at_ms: u64,
    service: String,
    aggregation: String,
    status: &'static str,
    /// True if the gateway asked for the tree, and the caller did not.
    sampled: bool,
    /// Nodes in the tree.
    nodes: usize,
}

/// A call in the list.
#[derive(Clone, Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    named: Named,
    coverage: Coverage,
    elapsed_us: u64,
}

/// A call with its tree.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    named: &'a Named,
    #[serde(flatten)]
    account: &'a Account,
}

#[derive(Serialize)]
struct List {
    trees: Vec<Line>,
}

impl Trees {
    pub(crate) fn new(limits: &Limits) -> Self {
        let rate = limits.trees_per_s;
        Self {
            started: Instant::now(),
            pause: (rate > 0).then(|| Duration::from_secs(1) / rate),
            next_us: AtomicU64::new(0),
            calls_max: limits.trees_max,
            bytes_max: limits.trees_bytes_max,
            book: Mutex::default(),
        }
    }

    /// Tells whether the tree of a call that begins now is kept.
    pub(crate) fn choose(&self, is_asked: bool) -> Option<Kept> {
        if self.calls_max == 0 {
            return None;
        }
        if is_asked {
            return Some(Kept::Asked);
        }
        self.is_sample(self.started.elapsed()).then_some(Kept::Sampled)
    }

    fn is_sample(&self, now: Duration) -> bool {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (Some(pause), now_us) = (self.pause, micros(now)) else { return false };
        let due_us = self.next_us.load(Ordering::Relaxed);
        let next_us = now_us.saturating_add(micros(pause));
        now_us >= due_us
            && self.next_us.compare_exchange(due_us, next_us, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Keeps the tree of a call, and returns the call's number.
    pub(crate) fn keep(
        &self,
        kept: Kept,
        (service, aggregation): (&str, &str),
        reply: &Reply<Raw>,
    ) -> Option<u64> {
        let nodes = nodes_of(reply.report.as_ref()?);
        let mut account = Account::of(reply);
        // An operator's text may quote the parameters of its caller.
        account.missing.iter_mut().for_each(|lost| lost.detail = None);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let named = Named {
            call: self.lock().next(),
            at_ms: u64::try_from(unix.as_millis()).unwrap_or(u64::MAX),
            service: service.to_owned(),
            aggregation: aggregation.to_owned(),
            status: reply.status.name(),
            sampled: kept == Kept::Sampled,
            nodes,
        };
        // A large tree takes its time, so no lock is held meanwhile.
        let document = serde_json::to_vec(&Document { named: &named, account: &account })
            .expect("invariant: trees can be written to a vector");
        if document.len() > self.bytes_max {
            return None;
        }
        let call = named.call;
        let line = Line { named, coverage: account.coverage, elapsed_us: account.elapsed_us };
        let mut book = self.lock();
        book.add(Entry { line, document: document.into() });
        book.shrink(self.calls_max, self.bytes_max);
        Some(call)
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest call whose tree is kept.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.lock().calls.back().map(|entry| entry.line.named.call)
    }
}

impl Book {
    /// The number of a further call.
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    fn add(&mut self, entry: Entry) {
        self.bytes += entry.document.len();
        // A large tree may be written after that of a later call.
        let call = entry.line.named.call;
        let at = self.calls.partition_point(|other| other.line.named.call < call);
        self.calls.insert(at, entry);
    }

    /// Drops the oldest trees until the rest is within the limits.
    fn shrink(&mut self, calls_max: usize, bytes_max: usize) {
        while self.calls.len() > calls_max || self.bytes > bytes_max {
            let Some(oldest) = self.calls.pop_front() else { return };
            self.bytes -= oldest.document.len();
        }
    }
}

/// Counts the nodes of a tree.
fn nodes_of(root: &Report) -> usize {
    let (mut count, mut open) = (0, vec![root]);
    while let Some(report) = open.pop() {
        count += 1;
        open.extend(&report.children);
    }
    count
}

/// The latest calls whose trees are kept, latest first.
pub(crate) async fn list(State(site): State<Arc<Site>>, Caller(tenant): Caller) -> Response {
    let book = site.trees.lock();
    let visible = book.calls.iter().rev().filter(|entry| tenant.may_see_calls_of(&entry.line.named.service));
    let trees = visible.map(|entry| entry.line.clone()).collect();
    drop(book);
    json(StatusCode::OK, &List { trees })
}

/// One call with its tree.
pub(crate) async fn tree(
    State(site): State<Arc<Site>>,
    Caller(tenant): Caller,
    call: Result<Path<u64>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(call) = call.map_err(|error| {
        Problem::new(Kind::BadField, error.body_text()).about("call").limit("a number from /v1/trees")
    })?;
    let book = site.trees.lock();
    let entry = book.calls.iter().rev().find(|entry| entry.line.named.call == call);
    let document = entry
        .filter(|entry| tenant.may_see_calls_of(&entry.line.named.service))
        .map(|entry| entry.document.clone());
    drop(book);
    let document = document.ok_or_else(|| {
        let detail = format!("no tree of the call {call} is kept: it is too old, or it was never kept");
        Problem::new(Kind::UnknownCall, detail).about("call").given(call.to_string())
    })?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], document).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::{PartitionSet, Status};
    use treefold_core::id::NodeId;

    fn reply(rack: &str) -> Reply<Raw> {
        let zero = Duration::ZERO;
        let report = Report {
            node: NodeId::new(([127, 0, 0, 1], 7).into(), 1),
            rack: rack.to_owned(),
            partitions: PartitionSet::first(1),
            queue: zero,
            local: zero,
            reduce: zero,
            wait: zero,
            total: zero,
            replaced: Vec::new(),
            children: Vec::new(),
        };
        Reply {
            status: Status::Full,
            value: None,
            asked: PartitionSet::first(1),
            contributed: PartitionSet::first(1),
            missing: Vec::new(),
            total_is_guess: false,
            elapsed: zero,
            report: Some(report),
        }
    }

    fn kept(trees: &Trees) -> Vec<u64> {
        trees.book.lock().unwrap().calls.iter().map(|entry| entry.line.named.call).collect()
    }

    #[test]
    fn samples_are_a_pause_apart() {
        let trees = Trees::new(&Limits { trees_per_s: 4, ..Limits::default() });
        let taken = (0..2_000).filter(|&ms| trees.is_sample(Duration::from_millis(ms))).count();
        assert_eq!(taken, 8);
        let none = Trees::new(&Limits { trees_per_s: 0, ..Limits::default() });
        assert_eq!((none.choose(false), none.choose(true)), (None, Some(Kept::Asked)));
        let off = Trees::new(&Limits { trees_max: 0, ..Limits::default() });
        assert_eq!((off.choose(false), off.choose(true)), (None, None));
    }

    #[test]
    fn oldest_trees_leave_by_number_and_by_bytes() {
        let trees = Trees::new(&Limits { trees_max: 3, trees_bytes_max: 2_000, ..Limits::default() });
        let keep = |rack: &str| trees.keep(Kept::Asked, ("sums", "sum"), &reply(rack));
        (1..=5).for_each(|call| assert_eq!(keep("a"), Some(call)));
        assert_eq!(kept(&trees), [3, 4, 5]);
        assert_eq!(keep(&"b".repeat(1_200)), Some(6));
        assert_eq!(kept(&trees), [5, 6], "a large tree needs the room of two");
        assert_eq!(keep(&"c".repeat(2_000)), None, "a tree that can't fit takes no other's room");
        assert_eq!((kept(&trees), trees.latest()), (vec![5, 6], Some(6)));
    }
}
