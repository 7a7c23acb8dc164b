//! Worker threads, which run locals and expensive reductions, and the handling of those that never return.
//!
//! Core decides when each job runs. It releases about as many jobs as the node has processors, so the queue
//! here is short and has no priorities. If there is a job and no idle thread, a thread is started, up to a
//! limit. A job that panics affects only itself. A thread whose job is given up as stuck is *written off*: it
//! is no longer counted, so another thread may replace it. If the job returns later, core is informed that it
//! has ended (no call waits for the result), and the thread ends. DAC §4.3 isolates service code in the same
//! way, with processes.
//!
//! Results go into one list. The loop is woken only by the result that finds the list empty. Further results
//! are collected with it.

use crate::filter::{Filters, Kinds};
use crate::foreign::{Loading, Sent};
use crate::isolated;
use crate::job::{Done, Filtering, Yielded, execute, execute_sent};
use crate::sent_reduce::SentJob;
use crate::service::Registry;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use treefold_core::config::Placement;
use treefold_core::effect::{Job, Work};
use treefold_core::error::JobError;
use treefold_core::id::JobId;
use treefold_core::stream::StreamId;
use treefold_core::stream::spec::Filtered;
use treefold_operators::cancel::Cancellation;

/// The factor by which each job is slowed down: an injected fault, shared by loop and workers.
#[derive(Debug)]
pub(crate) struct Slowness(AtomicU64);

impl Slowness {
    pub(crate) fn none() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1f64.to_bits())))
    }

    /// Sets the factor. A factor below 1, or NaN, counts as 1.
    pub(crate) fn set(&self, factor: f64) {
        self.0.store(factor.max(1.0).to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn factor(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// The delay after work that took `took`; `None` at full speed.
    pub(crate) fn delay_after(&self, took: Duration) -> Option<Duration> {
        let factor = self.factor();
        (factor > 1.0)
            .then(|| Duration::try_from_secs_f64(took.as_secs_f64() * (factor - 1.0)).ok())
            .flatten()
    }
}

/// A node's worker threads. If dropped, the threads end after their current jobs, and queued jobs are
/// discarded.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    registry: Arc<Registry>,
    slowness: Arc<Slowness>,
    message_bytes_max: usize,
    threads_max: usize,
    state: Mutex<State>,
    wanted: Condvar,
    done: Mutex<Vec<Done>>,
    news: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Task>,
    running: HashMap<TaskId, Running>,
    idle: usize,
    threads: usize,
    threads_started: usize,
    closed: bool,
}

impl State {
    /// Removes a task from the queue. Returns true if it was there.
    fn remove_queued(&mut self, id: TaskId) -> bool {
        let before = self.queue.len();
        self.queue.retain(|task| task.id() != id);
        self.queue.len() < before
    }
}

/// A worker's task.
pub(crate) enum Task {
    /// A local or a reduction.
    Job(Job<Bytes>),
    /// A reduction by an operator that was sent.
    Sent(Box<SentJob>),
    /// A run of a stream's filters, which are returned with the result.
    Filter(Box<Filtering>),
    /// Opening of filters of which one is a sent operator.
    Open(Box<OpeningFilters>),
    /// Making an operator of bytes.
    Load(Box<Loading>),
}

/// Filters to open.
pub(crate) struct OpeningFilters {
    pub(crate) stream: StreamId,
    pub(crate) ticket: u64,
    pub(crate) kinds: Kinds,
}

/// A task's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TaskId {
    /// A job.
    Job(JobId),
    /// A run of a stream's filters.
    Filter(StreamId, u64),
    /// A task with a ticket.
    Ticket(u64),
}

impl Task {
    fn id(&self) -> TaskId {
        match self {
            Self::Job(job) => TaskId::Job(job.id),
            Self::Sent(sent) => TaskId::Job(sent.job.id),
            Self::Filter(run) => TaskId::Filter(run.stream, run.run),
            Self::Open(opening) => TaskId::Ticket(opening.ticket),
            Self::Load(loading) => TaskId::Ticket(loading.ticket),
        }
    }

    fn execute(self, registry: &Registry, message_bytes_max: usize) -> Finished {
        match self {
            Self::Job(job) => Finished::Job(job.id, execute(registry, job, message_bytes_max)),
            Self::Sent(sent) => {
                let SentJob { job, sent } = *sent;
                Finished::Job(job.id, execute_sent(&sent, job, message_bytes_max))
            }
            Self::Filter(filtering) => filtering.run(message_bytes_max),
            Self::Open(opening) => {
                let OpeningFilters { stream, ticket, kinds } = *opening;
                Finished::Opened { stream, ticket, result: kinds.open() }
            }
            Self::Load(loading) => Finished::Loaded { ticket: loading.ticket, result: loading.load() },
        }
    }

    fn failed(self, reason: &Arc<str>) -> Finished {
        let error = JobError::Failed(Arc::clone(reason));
        match self {
            Self::Job(job) if matches!(job.work, Work::Slices { .. }) => {
                Finished::Job(job.id, Yielded::Slices(Err(error)))
            }
            Self::Job(job) => Finished::Job(job.id, Yielded::Ready(Err(error))),
            Self::Sent(sent) => Finished::Job(sent.job.id, Yielded::Ready(Err(error))),
            Self::Filter(filtering) => {
                let Filtering { stream, run, filters, .. } = *filtering;
                Finished::Filter { stream, run, filters, result: Err(error) }
            }
            Self::Open(opening) => {
                let OpeningFilters { stream, ticket, .. } = *opening;
                Finished::Opened { stream, ticket, result: Err(Arc::clone(reason)) }
            }
            Self::Load(loading) => {
                Finished::Loaded { ticket: loading.ticket, result: Err(Arc::clone(reason)) }
            }
        }
    }
}

/// A task's result.
pub(crate) enum Finished {
    /// A job.
    Job(JobId, Yielded),
    /// The filters and the result of their run.
    Filter { stream: StreamId, run: u64, filters: Filters, result: Result<Filtered<Bytes>, JobError> },
    /// The opened filters and where they run.
    Opened { stream: StreamId, ticket: u64, result: Result<(Filters, Placement), Arc<str>> },
    /// The operator.
    Loaded { ticket: u64, result: Result<Arc<Sent>, Arc<str>> },
}

/// A task that a thread executes.
struct Running {
    tally: Tally,
    cancellation: Cancellation,
}

/// The state of a task that is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwanted {
    /// It was in the queue, and will have no result.
    Removed,
    /// It is running and has been told, or has just ended. Its result will come.
    Told,
}

/// Whether the thread of a running job is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tally {
    Counted,
    WrittenOff,
}

impl Workers {
    /// Workers for a node. No thread is started yet.
    pub(crate) fn new(
        name: &str,
        registry: Arc<Registry>,
        threads_max: usize,
        message_bytes_max: usize,
        slowness: Arc<Slowness>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                name: name.to_string(),
                registry,
                slowness,
                message_bytes_max,
                threads_max: threads_max.max(1),
                state: Mutex::default(),
                wanted: Condvar::new(),
                done: Mutex::default(),
                news: Notify::new(),
            }),
        }
    }

    /// Queues a task. [`finished`](Self::finished) returns its result, even if no thread can be started.
    pub(crate) fn submit(&self, task: Task) {
        let mut state = self.shared.lock();
        state.queue.push_back(task);
        if state.idle >= state.queue.len() {
            self.shared.wanted.notify_one();
        } else if state.threads < self.shared.threads_max {
            self.start_thread(&mut state);
        }
    }

    /// Abandons a task: removes it from the queue or, with `replace`, writes off the thread that runs it.
    /// Returns true if the task was still in the queue, so that it will have no result.
    pub(crate) fn abandon(&self, id: TaskId, replace: bool) -> bool {
        let mut state = self.shared.lock();
        match state.running.get_mut(&id) {
            Some(Running { tally, cancellation }) if replace && *tally == Tally::Counted => {
                *tally = Tally::WrittenOff;
                cancellation.cancel();
                state.threads -= 1;
                if state.queue.len() > state.idle {
                    self.start_thread(&mut state);
                }
                false
            }
            Some(_) => false,
            None => state.remove_queued(id),
        }
    }

    /// Ends a task whose result nobody wants, as far as possible: removes it from the queue, or tells its operator.
    pub(crate) fn cancel(&self, id: TaskId) -> Unwanted {
        let mut state = self.shared.lock();
        if let Some(running) = state.running.get(&id) {
            running.cancellation.cancel();
        } else if state.remove_queued(id) {
            return Unwanted::Removed;
        }
        Unwanted::Told
    }

    /// Waits for results and moves them into `into`. For one waiter at a time.
    pub(crate) async fn finished(&self, into: &mut Vec<Done>) {
        loop {
            {
                let mut done = self.shared.done.lock().unwrap_or_else(PoisonError::into_inner);
                if !done.is_empty() {
                    into.append(&mut done);
                    return;
                }
            }
            self.shared.news.notified().await;
        }
    }

    fn start_thread(&self, state: &mut State) {
        let shared = Arc::clone(&self.shared);
        let name = format!("{}-w{}", self.shared.name, state.threads_started);
        match thread::Builder::new().name(name).spawn(move || shared.work()) {
            Ok(_) => {
                state.threads += 1;
                state.threads_started += 1;
            }
            Err(error) if state.threads == 0 => {
                // No thread is left that could run these jobs.
                let reason: Arc<str> = format!("no worker thread could be started: {error}").into();
                for task in state.queue.drain(..) {
                    self.shared.report(Done { finished: task.failed(&reason), cost: Duration::ZERO });
                }
            }
            Err(error) => {
                tracing::warn!(%error, threads = state.threads, "no further worker thread can be started");
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.queue.clear();
        self.shared.wanted.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a service runs under this lock, so the state is consistent even if the lock is poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((task, cancellation)) = self.next_task() {
            let id = task.id();
            let (started, cpu_before) = (Instant::now(), thread_cpu_time());
            let finished = cancellation.during(|| task.execute(&self.registry, self.message_bytes_max));
            let mut cost = thread_cpu_time().saturating_sub(cpu_before) + isolated::take_spent();
            if let Some(delay) = self.slowness.delay_after(started.elapsed()) {
                thread::sleep(delay);
                cost = cost.mul_f64(self.slowness.factor());
            }
            let tally = self.lock().running.remove(&id).map(|running| running.tally);
            self.report(Done { finished, cost });
            if tally == Some(Tally::WrittenOff) {
                return;
            }
        }
    }

    fn next_task(&self) -> Option<(Task, Cancellation)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                state.threads -= 1;
                return None;
            }
            if let Some(task) = state.queue.pop_front() {
                let cancellation = Cancellation::default();
                let running = Running { tally: Tally::Counted, cancellation: cancellation.clone() };
                state.running.insert(task.id(), running);
                return Some((task, cancellation));
            }
            state.idle += 1;
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn report(&self, done: Done) {
        let was_empty = {
            let mut list = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            list.push(done);
            list.len() == 1
        };
        if was_empty {
            self.news.notify_one();
        }
    }
}

/// Processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call, and every thread has this clock.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(status, 0, "every thread has a CPU clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests;
