//! Jobs that return, fail, panic, wait, or never return.

use super::*;
use crate::service::Service;
use std::sync::mpsc;
use treefold_core::effect::{Place, Work};
use treefold_core::limits::Limits;
use treefold_operators::{Aggregation, OperatorError, Partition, Result};

/// Obeys its parameters; `wait` waits until the partition's gate opens.
struct Obedient;

type Gate = Mutex<mpsc::Receiver<()>>;

impl Aggregation for Obedient {
    type Params = String;
    type Partial = String;

    fn local(&self, partition: &Partition, order: &String) -> Result<String> {
        match order.as_str() {
            "panic" => panic!("as told"),
            "fail" => Err(OperatorError::new("as told")),
            "wait" => {
                let gate = partition.data_as::<Gate>()?.lock().unwrap();
                gate.recv()?;
                Ok("waited".to_string())
            }
            "ask" => {
                while !treefold_operators::cancelled() {
                    thread::yield_now();
                }
                Err(OperatorError::cancelled())
            }
            order => Ok(order.to_string()),
        }
    }

    fn reduce(&self, a: String, b: String, _: &String) -> Result<String> {
        Ok(a + &b)
    }
}

fn workers(threads_max: usize) -> (Workers, mpsc::Sender<()>) {
    let (open, gate) = mpsc::channel();
    let service = Service::new("test").aggregation("obey", Obedient).partition(0, Gate::new(gate));
    let registry = Registry::new(vec![service], &Limits::DEFAULT).unwrap();
    (Workers::new("test", Arc::new(registry), threads_max, 64, Slowness::none()), open)
}

fn local(id: u64, order: &str) -> Job<Bytes> {
    use treefold_operators::Body;
    let params = order.to_string().encode().unwrap();
    Job {
        id: JobId(id),
        kind: 0,
        work: Work::Local { partition: 0, params, reduce: None },
        place: Place::Worker,
    }
}

fn task(id: u64, order: &str) -> Task {
    Task::Job(local(id, order))
}

async fn next(workers: &Workers) -> (u64, std::result::Result<String, JobError>) {
    use treefold_operators::Body;
    let mut all = Vec::new();
    workers.finished(&mut all).await;
    let done = all.remove(0);
    workers.shared.done.lock().unwrap().splice(0..0, all); // the others are for later calls
    let Finished::Job(job, Yielded::Ready(result)) = done.finished else {
        panic!("this operator does not wait")
    };
    (job.0, result.map(|bytes| String::decode(&bytes).unwrap()))
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(test);
}

#[test]
fn results_errors_and_panics_come_back_as_values_from_one_thread() {
    run(async {
        let (workers, _open) = workers(1);
        workers.submit(task(1, "echo"));
        assert_eq!(next(&workers).await, (1, Ok("echo".to_string())));
        workers.submit(task(2, "fail"));
        assert_eq!(next(&workers).await, (2, Err(JobError::Failed("as told".into()))));
        workers.submit(task(3, "panic"));
        assert_eq!(next(&workers).await, (3, Err(JobError::Panicked("as told".into()))));
        workers.submit(task(4, "still alive"));
        assert_eq!(next(&workers).await, (4, Ok("still alive".to_string())));
        assert_eq!(workers.shared.lock().threads_started, 1);
    });
}

#[test]
fn a_stuck_thread_is_replaced_and_ends_when_it_returns() {
    run(async {
        let (workers, open) = workers(1);
        workers.submit(task(1, "wait"));
        while workers.shared.lock().running.is_empty() {
            thread::yield_now();
        }
        workers.submit(task(2, "behind it"));
        workers.abandon(TaskId::Job(JobId(1)), true);
        assert_eq!(next(&workers).await, (2, Ok("behind it".to_string())));
        assert_eq!(workers.shared.lock().threads, 1, "the written-off thread does not count");
        open.send(()).unwrap();
        assert_eq!(
            next(&workers).await,
            (1, Ok("waited".to_string())),
            "core is informed that the job has ended"
        );
        workers.submit(task(3, "after"));
        assert_eq!(next(&workers).await, (3, Ok("after".to_string())));
        assert_eq!(workers.shared.lock().threads, 1);
    });
}

#[test]
fn a_queued_job_that_is_abandoned_never_runs() {
    run(async {
        let (workers, open) = workers(1);
        workers.submit(task(1, "wait"));
        while workers.shared.lock().running.is_empty() {
            thread::yield_now();
        }
        workers.submit(task(2, "never"));
        workers.submit(task(3, "last"));
        assert!(workers.abandon(TaskId::Job(JobId(2)), false), "the queued job will have no result");
        assert!(!workers.abandon(TaskId::Job(JobId(1)), false), "the running job will have a result");
        open.send(()).unwrap();
        assert_eq!(next(&workers).await, (1, Ok("waited".to_string())));
        assert_eq!(next(&workers).await, (3, Ok("last".to_string())));
    });
}

#[test]
fn a_missing_partition_and_an_unknown_kind_are_errors() {
    let registry = Registry::default();
    let Yielded::Ready(Err(JobError::Failed(reason))) = execute(&registry, local(1, "echo"), 64) else {
        panic!("no such kind")
    };
    assert_eq!(&*reason, "the node has no such aggregation");
}

#[test]
fn slowness_below_one_is_none() {
    let slowness = Slowness::none();
    assert_eq!(slowness.delay_after(Duration::from_millis(2)), None);
    slowness.set(5.0);
    assert_eq!(slowness.delay_after(Duration::from_millis(2)), Some(Duration::from_millis(8)));
    slowness.set(f64::NAN);
    assert_eq!(slowness.delay_after(Duration::from_millis(2)), None);
}

#[tokio::test]
async fn cancelled_tasks_leave_the_queue_or_are_told() {
    let (workers, _open) = workers(1);
    workers.submit(task(1, "ask"));
    while workers.shared.lock().running.is_empty() {
        thread::yield_now();
    }
    workers.submit(task(2, "never run"));
    workers.submit(task(3, "three"));
    assert_eq!(workers.cancel(TaskId::Job(JobId(2))), Unwanted::Removed);
    assert_eq!(workers.cancel(TaskId::Job(JobId(1))), Unwanted::Told);
    let (job, result) = next(&workers).await;
    assert_eq!(job, 1);
    assert_eq!(result, Err(JobError::Failed(OperatorError::cancelled().to_string().into())));
    assert_eq!(next(&workers).await, (3, Ok("three".to_string())), "the next task is not cancelled");
}
