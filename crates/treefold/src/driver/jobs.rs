//! Jobs run on the loop if they take microseconds, on a worker if they compute longer, and as a future if
//! they wait.

use super::{Done, Loop};
use crate::job::{Guarded, Yielded, execute};
use crate::workers::{Finished, Task, TaskId, Unwanted};
use bytes::Bytes;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use treefold_core::effect::{Job, Place};
use treefold_core::error::JobError;
use treefold_core::id::JobId;
use treefold_core::input::Input;

/// An operator's future that the loop drives.
pub(super) struct Driven {
    task: AbortHandle,
    started: Instant,
}

impl Driven {
    /// Drops the future. Returns its cost until now.
    fn abort(&self) -> Duration {
        self.task.abort();
        self.started.elapsed()
    }
}

impl Loop {
    pub(super) fn run_job(self: &Rc<Self>, job: Job<Bytes>) {
        if self.registry.is_sent(job.kind) {
            return self.run_sent(job);
        }
        match job.place {
            Place::Worker => self.workers.submit(Task::Job(job)),
            Place::Inline | Place::Async => self.run_here(job),
        }
    }

    /// Runs an operator on the loop.
    fn run_here(self: &Rc<Self>, job: Job<Bytes>) {
        let (id, kind) = (job.id, job.kind as usize);
        let began = self.meters[kind].begin();
        match execute(&self.registry, job, self.identity.limits.message_bytes_max) {
            Yielded::Ready(result) => {
                let mut cost = self.meters[kind].cost(began, self.inline_cost_max);
                if let Some(delay) = self.slowness.delay_after(cost) {
                    std::thread::sleep(delay);
                    cost += delay;
                }
                self.job_done(id, result, cost);
            }
            Yielded::Slices(result) => {
                let cost = self.meters[kind].cost(began, self.inline_cost_max);
                self.feed(Input::SlicesDone { job: id, result, cost: cost.into() });
            }
            Yielded::Later(future) => self.drive(id, future, Instant::now()),
        }
    }

    /// Drives an operator's future. Its cost is the elapsed time.
    fn drive(self: &Rc<Self>, id: JobId, future: Guarded, started: Instant) {
        let this = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            let result = future.await;
            if let Some(delay) = this.slowness.delay_after(started.elapsed()) {
                tokio::time::sleep(delay).await;
            }
            this.futures.borrow_mut().remove(&id);
            this.job_done(id, result, started.elapsed());
        });
        let future = Driven { task: task.abort_handle(), started };
        self.futures.borrow_mut().insert(id, future);
    }

    pub(super) fn abandon_job(self: &Rc<Self>, id: JobId, replace_worker: bool) {
        if self.take_waiting(id) {
            return self.end_cancelled(id, Duration::ZERO);
        }
        let future = self.futures.borrow_mut().remove(&id);
        match future {
            // Core has handed this job to a worker, which returned a future. Core still waits for its end.
            Some(future) if replace_worker => self.end_cancelled(id, future.abort()),
            Some(future) => {
                future.abort();
            }
            None => {
                self.workers.abandon(TaskId::Job(id), replace_worker);
            }
        }
    }

    /// Ends a job whose result nobody wants, or tells its operator.
    pub(super) fn cancel_job(self: &Rc<Self>, id: JobId) {
        if self.take_waiting(id) {
            return self.end_cancelled(id, Duration::ZERO);
        }
        let future = self.futures.borrow_mut().remove(&id);
        if let Some(future) = future {
            return self.end_cancelled(id, future.abort());
        }
        match self.workers.cancel(TaskId::Job(id)) {
            Unwanted::Removed => self.end_cancelled(id, Duration::ZERO),
            Unwanted::Told => _ = self.cancelled.borrow_mut().insert(id),
        }
    }

    fn end_cancelled(self: &Rc<Self>, id: JobId, cost: Duration) {
        self.job_done(id, Err(JobError::Failed("cancelled".into())), cost);
    }

    /// The task that collects the results of workers.
    pub(super) async fn collect_finished(self: Rc<Self>) {
        let mut finished = Vec::new();
        loop {
            self.workers.finished(&mut finished).await;
            for Done { finished, cost } in finished.drain(..) {
                match finished {
                    // A future that nobody waits for is dropped before it begins.
                    Finished::Job(job, Yielded::Later(_)) if self.cancelled.borrow_mut().remove(&job) => {
                        self.end_cancelled(job, cost);
                    }
                    Finished::Job(job, Yielded::Ready(result)) => {
                        self.cancelled.borrow_mut().remove(&job);
                        self.job_done(job, result, cost);
                    }
                    Finished::Job(job, Yielded::Slices(result)) => {
                        self.cancelled.borrow_mut().remove(&job);
                        self.feed(Input::SlicesDone { job, result, cost: cost.into() });
                    }
                    Finished::Job(job, Yielded::Later(future)) => self.drive(job, future, Instant::now()),
                    Finished::Filter { stream, run, filters, result } => {
                        self.filter_returned(stream, run, filters, result, cost);
                    }
                    Finished::Opened { stream, ticket, result } => {
                        self.filters_opened(stream, ticket, result);
                    }
                    Finished::Loaded { ticket, result } => self.operator_loaded(ticket, result),
                }
            }
        }
    }
}
