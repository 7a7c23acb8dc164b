//! The exporter: a bounded queue of calls, and a thread that makes spans of them and hands them to the targets.
//!
//! A front never waits for it. The queue has two bounds, calls and spans; a call that finds no room is counted as dropped. The
//! thread has a runtime of its own, so that neither a large tree nor a slow file delays the node's event loop.

use crate::call::{EndedCall, Side};
use crate::collector::Collector;
use crate::file::TraceFile;
use crate::settings::{Resource, TraceSettings};
use crate::spans;
use crate::traces::{Counts, StartError};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use treefold::{Client, NodeId};

/// Most calls that wait.
const QUEUE_CALLS_MAX: usize = 2_048;
/// Most spans of the calls that wait. The largest tree has 16,384 nodes.
const QUEUE_SPANS_MAX: usize = 64 << 10;
/// Time from the first call of a batch until it is sent.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Spans from which on a batch is sent at once.
const BATCH_SPANS: usize = 512;
/// Most spans of one request. A larger batch is sent in several.
const REQUEST_SPANS_MAX: usize = 4_096;
/// Age at which the nodes' zones are asked for again, and time for the answer.
const ZONES_AGE_MAX: Duration = Duration::from_secs(10);
const ZONES_WITHIN: Duration = Duration::from_millis(500);
/// Time for calls that wait when the exporter is dropped and not finished.
const DROPPED_WITHIN: Duration = Duration::from_secs(1);
/// The thread's stack. A report is as deep as its tree, and is freed level by level.
const STACK_BYTES: usize = 8 << 20;

/// The front's side of the exporter.
#[derive(Debug)]
pub(crate) struct Exporter {
    queue: mpsc::Sender<EndedCall>,
    /// Spans of the calls that wait.
    waiting: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    /// The moment by which the thread must end, once it is known.
    stop: watch::Sender<Option<Instant>>,
    ended: watch::Receiver<()>,
}

/// The thread's side.
struct Worker {
    calls: mpsc::Receiver<EndedCall>,
    waiting: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    stop: watch::Receiver<Option<Instant>>,
    targets: Targets,
    side: Side,
    zones: Zones,
    /// Calls that are being exported.
    in_hand: usize,
}

/// The collector and the file.
struct Targets {
    collector: Option<Collector>,
    file: Option<TraceFile>,
    /// Everything of a request but its spans.
    frame: ResourceSpans,
    /// True if the last batch has not arrived everywhere.
    is_failing: bool,
}

/// The zones of the nodes in sight.
struct Zones {
    client: Client,
    asked: Option<Instant>,
    known: BTreeMap<NodeId, String>,
}

impl Exporter {
    pub(crate) fn start(
        settings: &TraceSettings,
        side: Side,
        client: Client,
        counts: Arc<Counts>,
    ) -> Result<Self, StartError> {
        let (queue, calls) = mpsc::channel(QUEUE_CALLS_MAX);
        let (stop, stopped) = watch::channel(None);
        let (tell_ended, ended) = watch::channel(());
        let waiting = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            calls,
            waiting: Arc::clone(&waiting),
            counts: Arc::clone(&counts),
            stop: stopped,
            targets: Targets::open(settings)?,
            side,
            zones: Zones { client, asked: None, known: BTreeMap::new() },
            in_hand: 0,
        };
        // A runtime must not be dropped on a thread of the caller's runtime. It is built when nothing else can fail.
        let (hand_over, handed) = std::sync::mpsc::channel::<(Runtime, Worker)>();
        let run = move || {
            let Ok((runtime, mut worker)) = handed.recv() else { return };
            runtime.block_on(worker.run());
            drop(worker);
            drop(tell_ended);
            // A name may still be looked up on a thread of the runtime.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("treefold-traces".to_owned()).stack_size(STACK_BYTES);
        thread.spawn(run).map_err(StartError::Thread)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        // The thread waits for exactly this.
        let _ = hand_over.send((runtime, worker));
        Ok(Self { queue, waiting, counts, stop, ended })
    }

    pub(crate) fn take(&self, call: EndedCall) {
        let spans = call.spans();
        let reserve = |waiting: usize| Some(waiting + spans).filter(|all| *all <= QUEUE_SPANS_MAX);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_err() {
            self.counts.dropped(1);
        } else if self.queue.try_send(call).is_err() {
            self.waiting.fetch_sub(spans, Ordering::Relaxed);
            self.counts.dropped(1);
        }
    }

    pub(crate) async fn finish(&self, within: Duration) {
        let until = Instant::now() + within;
        self.stop.send_replace(Some(until));
        // The thread ends by itself at that moment. The rest is for its last steps.
        let _ = timeout_at(until + ZONES_WITHIN, self.ended.clone().changed()).await;
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let until = Instant::now() + DROPPED_WITHIN;
        self.stop.send_if_modified(|stop| stop.is_none().then(|| *stop = Some(until)).is_some());
    }
}

impl Worker {
    /// Exports calls until the end, and counts the rest.
    async fn run(&mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = self.work() => {}
            () = passed(stop) => {}
        }
        self.counts.failed(self.in_hand);
        self.calls.close();
        while self.calls.try_recv().is_ok() {
            self.counts.dropped(1);
        }
    }

    async fn work(&mut self) {
        while let Some(batch) = self.batch().await {
            self.in_hand = batch.len();
            self.zones.look().await;
            let zones = &self.zones.known;
            let spans = batch.into_iter().flat_map(|call| spans::of(call, self.side, zones)).collect();
            let is_delivered = self.targets.deliver(spans).await;
            let calls = std::mem::take(&mut self.in_hand);
            if is_delivered { self.counts.exported(calls) } else { self.counts.failed(calls) }
        }
    }

    /// The next calls. Returns `None` when all are exported and there will be no more.
    async fn batch(&mut self) -> Option<Vec<EndedCall>> {
        let first = self.next().await?;
        let (due, mut spans, mut batch) = (Instant::now() + BATCH_DELAY, first.spans(), vec![first]);
        while spans < BATCH_SPANS {
            let Ok(Some(call)) = timeout_at(due, self.next()).await else { break };
            spans += call.spans();
            batch.push(call);
        }
        Some(batch)
    }

    async fn next(&mut self) -> Option<EndedCall> {
        let call = tokio::select! {
            biased;
            call = self.calls.recv() => call,
            () = told(&mut self.stop) => {
                self.calls.close();
                self.calls.recv().await
            }
        }?;
        self.waiting.fetch_sub(call.spans(), Ordering::Relaxed);
        Some(call)
    }
}

/// Waits until the thread is told to end. An error means that the front is gone, and the queue closed.
async fn told(stop: &mut watch::Receiver<Option<Instant>>) {
    let _ = stop.wait_for(Option::is_some).await;
}

/// Waits for the moment by which the thread must end.
async fn passed(mut stop: watch::Receiver<Option<Instant>>) {
    let until = stop.wait_for(Option::is_some).await.ok().and_then(|until| *until);
    sleep_until(until.unwrap_or_else(Instant::now)).await;
}

impl Targets {
    fn open(settings: &TraceSettings) -> Result<Self, StartError> {
        let TraceSettings { collector, file, resource: Resource(attributes), .. } = settings;
        let file = file.as_deref().map(|path| {
            let refuse = |error| StartError::File { path: path.to_owned(), error };
            TraceFile::open(path).map_err(refuse)
        });
        Ok(Self {
            collector: collector.clone().map(Collector::new),
            file: file.transpose()?,
            frame: spans::frame(attributes),
            is_failing: false,
        })
    }

    /// Hands spans to all targets. Returns false if one has not taken all.
    async fn deliver(&mut self, mut spans: Vec<Span>) -> bool {
        let mut problem = None;
        while !spans.is_empty() {
            let rest = spans.split_off(spans.len().min(REQUEST_SPANS_MAX));
            let request = spans::request(&self.frame, std::mem::replace(&mut spans, rest));
            if let Some(file) = &mut self.file
                && let Err(error) = file.append(&request)
            {
                problem = Some(format!("{}: {error}", file.path().display()));
            }
            if let Some(collector) = &self.collector
                && let Err(refusal) = collector.deliver(&request).await
            {
                problem = Some(format!("{}: {refusal}", collector.endpoint()));
                // A target that does not take a request would not take the next one either.
                break;
            }
        }
        match &problem {
            Some(problem) if !self.is_failing => {
                tracing::warn!("traces are lost: {problem} (further losses are counted in /metrics)");
            }
            None if self.is_failing => tracing::info!("traces are exported again"),
            _ => {}
        }
        self.is_failing = problem.is_some();
        !self.is_failing
    }
}

impl Zones {
    /// Asks for the zones if they are old. If there is no answer, the known ones stay.
    async fn look(&mut self) {
        if self.asked.is_some_and(|asked| asked.elapsed() < ZONES_AGE_MAX) {
            return;
        }
        self.asked = Some(Instant::now());
        if let Ok(Ok(status)) = timeout(ZONES_WITHIN, self.client.status()).await {
            let others = status.members.iter().map(|member| &member.card);
            let cards = std::iter::once(&status.card).chain(others).filter(|card| !card.zone.is_empty());
            self.known = cards.map(|card| (card.node, card.zone.clone())).collect();
        }
    }
}
