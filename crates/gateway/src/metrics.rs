//! Counters of the node and of the gateway, in Prometheus' text format. docs/gateway.md lists their names.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::site::Site;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use treefold::NodeStatus;
use treefold_core::status::OpenWork;

/// The content type of Prometheus' text format.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// Upper ends of the buckets of call durations, in milliseconds.
const BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 60_000];

/// Counters of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Answers by status. The gateway has about twenty statuses.
    answers: Mutex<BTreeMap<u16, u64>>,
    connections: AtomicUsize,
    connections_refused: AtomicU64,
    calls: AtomicUsize,
    streams: AtomicUsize,
    waves_dropped: AtomicU64,
    /// RPCs by the number of their status. There are seventeen.
    #[cfg(feature = "grpc")]
    rpcs: Mutex<BTreeMap<i32, u64>>,
    durations: Durations,
}

/// Durations of calls.
#[derive(Debug, Default)]
struct Durations {
    /// Calls up to each bucket's end and above that of the bucket before; the last one has the longer calls.
    buckets: [AtomicU64; BUCKETS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// Something that is open, counted until this is dropped.
pub(crate) struct Opened<'a>(&'a AtomicUsize);

impl<'a> Opened<'a> {
    fn count(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open stream, counted until this is dropped.
pub(crate) struct OpenedStream(Arc<Site>);

impl OpenedStream {
    pub(crate) fn count(site: &Arc<Site>) -> Self {
        site.metrics.streams.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(site))
    }
}

impl Drop for OpenedStream {
    fn drop(&mut self) {
        self.0.metrics.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn count_dropped_waves(&self, waves: u64) {
        self.waves_dropped.fetch_add(waves, Ordering::Relaxed);
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn count_rpc(&self, code: tonic::Code) {
        let mut rpcs = self.rpcs.lock().unwrap_or_else(PoisonError::into_inner);
        *rpcs.entry(code as i32).or_default() += 1;
    }

    pub(crate) fn count_answer(&self, status: StatusCode) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status.as_u16()).or_default() += 1;
    }

    pub(crate) fn count_refused_connection(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_opened(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn call_opened(&self) -> Opened<'_> {
        Opened::count(&self.calls)
    }

    pub(crate) fn count_call(&self, took: Duration) {
        let at =
            BUCKETS_MS.iter().position(|&end| took <= Duration::from_millis(end)).unwrap_or(BUCKETS_MS.len());
        self.durations.buckets[at].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.durations.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

/// Shows all counters.
pub(crate) async fn metrics(
    State(site): State<Arc<Site>>,
    Caller(tenant): Caller,
) -> Result<impl IntoResponse, Problem> {
    tenant.may_read()?;
    let status = site.client.status().await?;
    let mut page = Page::default();
    node(&mut page, &status);
    gateway(&mut page, &site.metrics);
    Ok(([(header::CONTENT_TYPE, TEXT)], page.0))
}

/// A page in Prometheus' text format.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, figure: impl Display) {
        self.family(name, kind, help);
        self.line(format_args!("{name} {figure}"));
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("invariant: writing to a String cannot fail");
    }
}

fn node(page: &mut Page, status: &NodeStatus) {
    for (name, count) in status.counters.iter() {
        let help = format!("The node's counter {name} since its start.");
        page.single(&format!("treefold_{name}_total"), "counter", &help, count);
    }
    // Every field is named, so that code that leaves out a table does not compile.
    let OpenWork {
        calls,
        waves,
        waves_kept,
        kept_bytes,
        held_bytes,
        jobs_queued,
        jobs_running,
        jobs_stuck,
        streams,
        stream_bytes,
        workers,
    } = status.open;
    let open = [
        ("calls", calls),
        ("waves", waves),
        ("waves_kept", waves_kept),
        ("kept_bytes", kept_bytes),
        ("held_bytes", held_bytes),
        ("jobs_queued", jobs_queued),
        ("jobs_running", jobs_running),
        ("jobs_stuck", jobs_stuck),
        ("streams", streams),
        ("stream_bytes", stream_bytes),
        ("workers", workers),
    ];
    for (name, count) in open {
        let help = format!("The present size of the node's {name}, as in its status.");
        page.single(&format!("treefold_open_{name}"), "gauge", &help, count);
    }
    let members = status.members.len() + 1;
    page.single("treefold_members", "gauge", "Members in sight, the node included.", members);
    let load = treefold_forms::json::load_ms_per_processor(status.load);
    let help = "Predicted milliseconds of queued work, per processor.";
    page.single("treefold_load_milliseconds", "gauge", help, load);
}

fn gateway(page: &mut Page, metrics: &Metrics) {
    let help = "Answers, by their HTTP status.";
    page.family("treefold_gateway_answers_total", "counter", help);
    for (status, count) in metrics.answers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.line(format_args!("treefold_gateway_answers_total{{status=\"{status}\"}} {count}"));
    }
    let open = metrics.connections.load(Ordering::Relaxed);
    page.single("treefold_gateway_connections", "gauge", "Open connections.", open);
    let refused = metrics.connections_refused.load(Ordering::Relaxed);
    let help = "Connections refused because connections_max were open.";
    page.single("treefold_gateway_connections_refused_total", "counter", help, refused);
    let calls = metrics.calls.load(Ordering::Relaxed);
    page.single("treefold_gateway_calls", "gauge", "Open calls.", calls);
    let streams = metrics.streams.load(Ordering::Relaxed);
    page.single("treefold_gateway_streams", "gauge", "Open streams of readers.", streams);
    let dropped = metrics.waves_dropped.load(Ordering::Relaxed);
    let help = "Waves dropped because their reader is slow.";
    page.single("treefold_gateway_waves_dropped_total", "counter", help, dropped);
    #[cfg(feature = "grpc")]
    rpcs(page, metrics);
    let name = "treefold_gateway_call_seconds";
    page.family(name, "histogram", "Durations of calls that the node has answered.");
    let mut sum = 0;
    let ends = BUCKETS_MS.iter().map(|&end| (end as f64 / 1e3).to_string()).chain(["+Inf".to_owned()]);
    for (end, count) in ends.zip(&metrics.durations.buckets) {
        sum += count.load(Ordering::Relaxed);
        page.line(format_args!("{name}_bucket{{le=\"{end}\"}} {sum}"));
    }
    page.line(format_args!("{name}_sum {}", metrics.durations.sum_us.load(Ordering::Relaxed) as f64 / 1e6));
    page.line(format_args!("{name}_count {sum}"));
}

#[cfg(feature = "grpc")]
fn rpcs(page: &mut Page, metrics: &Metrics) {
    let name = "treefold_gateway_rpcs_total";
    page.family(name, "counter", "Answers over gRPC, by the number of their status.");
    for (code, count) in metrics.rpcs.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        page.line(format_args!("{name}{{code=\"{code}\"}} {count}"));
    }
}
