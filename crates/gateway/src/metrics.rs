//! Counters of the node, of the gateway and of the process, in Prometheus' text format. docs/metrics.md explains each family.

use crate::caller::Caller;
use crate::problem::Problem;
use crate::site::Site;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use page::Page;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use treefold::Reply;

mod node;
mod observers;
mod page;
mod process;
mod services;

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
    partitions: Partitions,
}

/// Partitions of the calls that the node has answered.
#[derive(Debug, Default)]
struct Partitions {
    asked: AtomicU64,
    contributed: AtomicU64,
    /// Missing partitions by the names of their reasons. There are about twenty.
    missing: Mutex<BTreeMap<&'static str, u64>>,
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

    pub(crate) fn count_call<T>(&self, reply: &Reply<T>, took: Duration) {
        self.partitions.count(reply);
        let at =
            BUCKETS_MS.iter().position(|&end| took <= Duration::from_millis(end)).unwrap_or(BUCKETS_MS.len());
        self.durations.buckets[at].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.durations.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Partitions {
    fn count<T>(&self, reply: &Reply<T>) {
        self.asked.fetch_add(reply.asked.len() as u64, Ordering::Relaxed);
        self.contributed.fetch_add(reply.contributed.len() as u64, Ordering::Relaxed);
        if reply.missing.is_empty() {
            return;
        }
        let mut counts = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        for missing in &reply.missing {
            *counts.entry(missing.reason.name()).or_default() += missing.partitions.len() as u64;
        }
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
    node::show(&mut page, &status);
    services::show(&mut page, &status);
    gateway(&mut page, &site.metrics);
    observers::show(&mut page, &site.observers);
    process::show(&mut page);
    Ok(([(header::CONTENT_TYPE, TEXT)], page.into_text()))
}

fn gateway(page: &mut Page, metrics: &Metrics) {
    let answers = metrics.answers.lock().unwrap_or_else(PoisonError::into_inner);
    page.labelled(
        "treefold_gateway_answers_total",
        "counter",
        "Answers, by their HTTP status.",
        "status",
        &*answers,
    );
    drop(answers);
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
    {
        let rpcs = metrics.rpcs.lock().unwrap_or_else(PoisonError::into_inner);
        let help = "Answers over gRPC, by the number of their status.";
        page.labelled("treefold_gateway_rpcs_total", "counter", help, "code", &*rpcs);
    }
    partitions(page, &metrics.partitions);
    durations(page, &metrics.durations);
}

fn partitions(page: &mut Page, partitions: &Partitions) {
    let asked = partitions.asked.load(Ordering::Relaxed);
    let help = "Partitions that answered calls asked for.";
    page.single("treefold_gateway_partitions_asked_total", "counter", help, asked);
    let contributed = partitions.contributed.load(Ordering::Relaxed);
    let help = "Partitions whose data is in the answers.";
    page.single("treefold_gateway_partitions_contributed_total", "counter", help, contributed);
    let missing = partitions.missing.lock().unwrap_or_else(PoisonError::into_inner);
    let help = "Partitions that are missing from the answers, by reason.";
    page.labelled("treefold_gateway_partitions_missing_total", "counter", help, "reason", &*missing);
}

fn durations(page: &mut Page, durations: &Durations) {
    let name = "treefold_gateway_call_duration_seconds";
    page.family(name, "histogram", "Durations of calls that the node has answered.");
    let mut sum = 0;
    let ends = BUCKETS_MS.iter().map(|&end| (end as f64 / 1e3).to_string()).chain(["+Inf".to_owned()]);
    for (end, count) in ends.zip(&durations.buckets) {
        sum += count.load(Ordering::Relaxed);
        page.line(format_args!("{name}_bucket{{le=\"{end}\"}} {sum}"));
    }
    page.line(format_args!("{name}_sum {}", durations.sum_us.load(Ordering::Relaxed) as f64 / 1e6));
    page.line(format_args!("{name}_count {sum}"));
}
