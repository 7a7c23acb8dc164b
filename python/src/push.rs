//! Workers of an application that push their results.
//!
//! A worker of an application with a ready reduce pushes what a local of that reduce returns.

use crate::detached::{Detached, drop_detached};
use crate::error::{self, raise};
use crate::inbox::{seconds, within};
use crate::options::Secrets;
use crate::payload;
use crate::pending::{Finish, Pending};
use crate::sample::{self, Samples};
use bytes::Bytes;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;
use treefold::operators::ready;
use treefold::push::PushError;

/// A worker's settings, as the package's Python part passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct WorkerSpec {
    application: String,
    number: u32,
    addrs: Vec<String>,
    /// The reduce of its requests; if it is a ready one, values are samples for it.
    reduce: Option<String>,
    reduce_params: Py<PyAny>,
    spread: bool,
    timeout: f64,
    kept_bytes_max: Option<usize>,
    secrets: Secrets,
}

/// Attaches a worker. Its result is the worker.
#[pyfunction]
pub(crate) fn attach(py: Python<'_>, spec: WorkerSpec) -> PyResult<Pending> {
    let pieces = Pieces::of(py, spec.reduce.as_deref(), &spec.reduce_params)?;
    let mut builder = treefold::push::Worker::builder(spec.application, spec.number)
        .at(spec.addrs)
        .cluster(spec.secrets.options()?)
        .timeout(seconds(spec.timeout)?);
    if spec.spread {
        builder = builder.spread();
    }
    if let Some(bytes) = spec.kept_bytes_max {
        builder = builder.kept_bytes_max(bytes);
    }
    Ok(Pending::new(async move {
        let attached = builder.attach().await;
        let finish: Finish = Box::new(|py| {
            let worker = attached.map_err(error::of_push)?;
            Ok(Py::new(
                py,
                Worker {
                    worker: Detached::new(Mutex::new(Some(worker))),
                    closed: watch::Sender::new(false),
                    pieces,
                },
            )?
            .into_any())
        });
        finish
    }))
}

/// The form of pushed pieces: samples for a ready reduce, or values.
struct Pieces(Option<Samples>);

impl Pieces {
    fn of(py: Python<'_>, reduce: Option<&str>, reduce_params: &Py<PyAny>) -> PyResult<Self> {
        let ready = reduce.filter(|name| ready::reduces().any(|(ready, _)| ready == *name));
        let samples = |name| Samples::of_reduce(name, sample::fixed(reduce_params.bind(py))?);
        Ok(Self(ready.map(samples).transpose()?))
    }

    fn write(&self, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        match &self.0 {
            Some(samples) => samples
                .partial(0, samples.sample(value)?, &Bytes::new())
                .map_err(|error| raise("InvalidValue", error.to_string())),
            None if value.is_none() => Ok(Bytes::new()),
            None => payload::value(value),
        }
    }
}

/// Waits until something is done, or the worker is closed.
async fn unless_closed(
    mut closed: watch::Receiver<bool>,
    wait: impl Future<Output = Result<(), PushError>>,
) -> Option<Result<(), PushError>> {
    tokio::select! {
        biased;
        _ = closed.wait_for(|closed| *closed) => None,
        done = wait => Some(done),
    }
}

fn told(done: Option<Result<(), PushError>>) -> Finish {
    Box::new(|py| match done {
        Some(done) => done.map(|()| py.None()).map_err(error::of_push),
        None => Err(closed_worker()),
    })
}

fn late() -> Finish {
    Box::new(|_| Err(raise("TimedOut", "requests were open all that time")))
}

fn closed_worker() -> PyErr {
    raise("Closed", "the worker is closed")
}

/// A worker that is attached to a node.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Worker {
    worker: Detached<Mutex<Option<treefold::push::Worker>>>,
    closed: watch::Sender<bool>,
    pieces: Pieces,
}

impl Worker {
    fn open(&self) -> PyResult<treefold::push::Worker> {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        worker.ok_or_else(closed_worker)
    }
}

#[pymethods]
impl Worker {
    /// Pushes a piece of the result of a request; `last` completes the result.
    fn push(&self, request: u64, value: &Bound<'_, PyAny>, last: bool) -> PyResult<Pending> {
        let (worker, closed) = (self.open()?, self.closed.subscribe());
        let payload = self.pieces.write(value)?;
        Ok(Pending::new(async move {
            let pushed = async {
                match last {
                    true => worker.push_last(request, payload).await,
                    false => worker.push(request, payload).await,
                }
            };
            told(unless_closed(closed, pushed).await)
        }))
    }

    /// Reports that the result of a request will not come.
    fn fail(&self, request: u64, why: String) -> PyResult<Pending> {
        let (worker, closed) = (self.open()?, self.closed.subscribe());
        Ok(Pending::new(async move { told(unless_closed(closed, worker.fail(request, why)).await) }))
    }

    /// Waits until every request with pushes has ended.
    fn idle(&self, timeout: Option<f64>) -> PyResult<Pending> {
        let (worker, closed) = (self.open()?, self.closed.subscribe());
        let timeout = timeout.map(seconds).transpose()?;
        Ok(Pending::new(async move {
            within(timeout, unless_closed(closed, worker.idle())).await.map_or_else(late, told)
        }))
    }

    /// Detaches the worker at once. Everything that waits for it ends.
    fn close(&self) {
        self.closed.send_replace(true);
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop_detached(worker);
    }
}
