//! Jobs run on the loop if they take microseconds, on a worker if they compute longer, and as a future if
//! they wait.

use super::{Done, Loop};
use crate::job::{Guarded, Yielded, execute};
use crate::workers::{Finished, Task, TaskId};
use bytes::Bytes;
use std::rc::Rc;
use std::time::Instant;
use treefold_core::effect::{Job, Place};
use treefold_core::id::JobId;
use treefold_core::input::Input;

impl Loop {
    pub(super) fn run_job(self: &Rc<Self>, job: Job<Bytes>) {
        match job.place {
            Place::Worker => self.workers.submit(Task::Job(job)),
            Place::Inline | Place::Async => self.run_here(job),
        }
    }

    /// Runs an operator on the loop.
    fn run_here(self: &Rc<Self>, job: Job<Bytes>) {
        let (id, kind, started) = (job.id, job.kind as usize, Instant::now());
        let began = self.meters[kind].begin();
        match execute(&self.registry, job, self.identity.limits.message_bytes_max) {
            Yielded::Ready(result) => {
                let mut cost = self.meters[kind].cost(began, self.inline_cost_max);
                if let Some(delay) = self.slowness.delay_after(started.elapsed()) {
                    std::thread::sleep(delay);
                    cost += delay;
                }
                self.job_done(id, result, cost);
            }
            Yielded::Slices(result) => {
                let cost = self.meters[kind].cost(began, self.inline_cost_max);
                self.feed(Input::SlicesDone { job: id, result, cost: cost.into() });
            }
            Yielded::Later(future) => self.drive(id, future, started),
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
        self.futures.borrow_mut().insert(id, task.abort_handle());
    }

    pub(super) fn abandon_job(&self, id: JobId, replace_worker: bool) {
        match self.futures.borrow_mut().remove(&id) {
            Some(future) => future.abort(),
            None => {
                self.workers.abandon(TaskId::Job(id), replace_worker);
            }
        }
    }

    /// The task that collects the results of workers.
    pub(super) async fn collect_finished(self: Rc<Self>) {
        let mut finished = Vec::new();
        loop {
            self.workers.finished(&mut finished).await;
            for Done { finished, cost } in finished.drain(..) {
                match finished {
                    Finished::Job(job, Yielded::Ready(result)) => self.job_done(job, result, cost),
                    Finished::Job(job, Yielded::Slices(result)) => {
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
