//! Runs one job. Operator code is not trusted, so each of its outcomes becomes a value.
//!
//! A panic is caught and becomes the job's error. No global hook is installed, so the program's panic hook
//! still prints it. Futures are polled under the same guard.

use crate::filter::{Filters, News};
use crate::foreign::Sent;
use crate::sent_reduce;
use crate::service::Registry;
use crate::workers::Finished;
use bytes::Bytes;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use treefold_core::effect::{Job, Work};
use treefold_core::error::JobError;
use treefold_core::id::PartitionId;
use treefold_core::stream::StreamId;
use treefold_core::stream::spec::FilterWork;
use treefold_operators::{OperatorError, Outcome, Slice, erased::Pending};

/// A task that a worker has finished, and its cost.
pub(crate) struct Done {
    pub(crate) finished: Finished,
    pub(crate) cost: Duration,
}

/// A run of a stream's filters, and the filters.
pub(crate) struct Filtering {
    pub(crate) stream: StreamId,
    pub(crate) run: u64,
    pub(crate) tag: u64,
    pub(crate) work: FilterWork<Bytes>,
    /// News that the filters receive before the run.
    pub(crate) news: Vec<News>,
    pub(crate) filters: Filters,
}

impl Filtering {
    /// Executes the run and returns its result.
    pub(crate) fn run(mut self, message_bytes_max: usize) -> Finished {
        self.filters.tell(self.news);
        let result = self.filters.run(self.tag, self.work, message_bytes_max);
        Finished::Filter { stream: self.stream, run: self.run, filters: self.filters, result }
    }
}

/// The result of running an operator.
pub(crate) enum Yielded {
    /// Its result.
    Ready(Result<Bytes, JobError>),
    /// The slices of its result.
    Slices(Result<Vec<Bytes>, JobError>),
    /// A future of its result, which the loop drives.
    Later(Guarded),
}

/// Runs a job's operator to its end, or up to its future.
pub(crate) fn execute(registry: &Registry, job: Job<Bytes>, message_bytes_max: usize) -> Yielded {
    if let Work::Slices { partition, of, params } = &job.work {
        let sliced = || cut_local(registry, job.kind, *partition, *of, params);
        let result = catch_unwind(AssertUnwindSafe(sliced))
            .map_err(|panic| panicked(panic.as_ref(), message_bytes_max))
            .and_then(|result| result.map_err(|error| failed(&error, message_bytes_max)));
        return Yielded::Slices(result);
    }
    yielded(|| invoke(registry, job), message_bytes_max)
}

/// Runs a fold by an operator that was sent.
pub(crate) fn execute_sent(sent: &Sent, job: Job<Bytes>, message_bytes_max: usize) -> Yielded {
    yielded(|| sent_reduce::invoke(sent, job), message_bytes_max)
}

fn yielded(invoke: impl FnOnce() -> Result<Outcome, &'static str>, message_bytes_max: usize) -> Yielded {
    // The operator shares only its arguments with this code, and they are dropped with the panic.
    match catch_unwind(AssertUnwindSafe(invoke)) {
        Ok(Ok(Outcome::Now(result))) => {
            Yielded::Ready(result.map_err(|error| failed(&error, message_bytes_max)))
        }
        Ok(Ok(Outcome::Later(future))) => Yielded::Later(Guarded { future, message_bytes_max }),
        Ok(Err(unknown)) => Yielded::Ready(Err(JobError::Failed(unknown.into()))),
        Err(panic) => Yielded::Ready(Err(panicked(panic.as_ref(), message_bytes_max))),
    }
}

const UNKNOWN: &str = "the node has no such aggregation";
const NOT_HERE: &str = "this node does not have the partition";

fn invoke(registry: &Registry, job: Job<Bytes>) -> Result<Outcome, &'static str> {
    let operator = registry.operator(job.kind).ok_or(UNKNOWN)?;
    match job.work {
        Work::Local { partition, params, reduce } => {
            let partition = registry.partition(job.kind, partition).ok_or(NOT_HERE)?;
            Ok(match reduce {
                Some(reduce) => operator.local_slice(&partition, Slice::WHOLE, &params, &reduce),
                None => operator.local(&partition, &params),
            })
        }
        Work::Slice { partition, slice, params, reduce } => {
            let partition = registry.partition(job.kind, partition).ok_or(NOT_HERE)?;
            Ok(operator.local_slice(&partition, slice, &params, reduce.as_ref().unwrap_or(&params)))
        }
        Work::Reduce { parts, params } => Ok(match parts.into_inner() {
            Ok([a, b]) => operator.reduce(a, b, &params),
            Err(more) => operator.reduce_all(more.into_vec(), &params),
        }),
        Work::Join { parts, params } => Ok(Outcome::Now(operator.join(parts, &params))),
        Work::Slices { .. } => Err("slices are not one result"),
    }
}

fn cut_local(
    registry: &Registry,
    kind: u32,
    partition: PartitionId,
    slices: u32,
    params: &Bytes,
) -> Result<Vec<Bytes>, OperatorError> {
    let operator = registry.operator(kind).ok_or_else(|| OperatorError::new(UNKNOWN))?;
    let partition = registry.partition(kind, partition).ok_or_else(|| OperatorError::new(NOT_HERE))?;
    operator.local_sliced(&partition, slices, params)
}

/// An operator's future that turns a panic into its result.
pub(crate) struct Guarded {
    future: Pending,
    message_bytes_max: usize,
}

impl Future for Guarded {
    type Output = Result<Bytes, JobError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let max = self.message_bytes_max;
        // A future that has panicked is never polled again, because its panic is the result and the task
        // ends.
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(context))) {
            Ok(poll) => poll.map(|result| result.map_err(|error| failed(&error, max))),
            Err(panic) => Poll::Ready(Err(panicked(panic.as_ref(), max))),
        }
    }
}

/// Converts an operator's error.
pub(crate) fn failed(error: &OperatorError, bytes_max: usize) -> JobError {
    let text = cut(&error.to_string(), bytes_max);
    match error.faulty_partial() {
        _ if error.is_of_params() => JobError::InvalidParams(text),
        Some(0) => JobError::RefusedA(text),
        Some(1) => JobError::RefusedB(text),
        _ => JobError::Failed(text),
    }
}

/// Converts an operator's panic.
pub(crate) fn panicked(panic: &(dyn Any + Send), bytes_max: usize) -> JobError {
    JobError::Panicked(cut(text_of(panic), bytes_max))
}

/// The text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

/// The first `bytes_max` bytes of `text`, cut between characters.
fn cut(text: &str, bytes_max: usize) -> Arc<str> {
    text[..text.floor_char_boundary(bytes_max)].into()
}
