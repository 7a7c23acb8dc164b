//! Python functions as locals and reduces.
//!
//! They run on a node's worker threads, which attach to the interpreter for one run and never on the node's loop: an
//! aggregation whose reduce is Python is placed in the pool, and the loop runs only ready reduces, which are Rust. An exception
//! becomes the operator's error, and costs the partition.

use crate::ending;
use crate::error::raise;
use crate::payload;
use crate::sample::{self, Samples};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyTracebackMethods;
use std::sync::Arc;
use treefold::operators::codec::Codec;
use treefold::operators::erased::Outcome;
use treefold::operators::{Declared, ReduceParams, ready};
use treefold::{Operator, OperatorError, Placement, Slice};

/// One partition of a service, as a local sees it.
///
/// `id` is its number, `total` the number of partitions of the service, `service` the service's name, and `data` the value
/// that was given for it. `slice` is the number of the part that is asked for, of `slices`: 0 of 1 for all of it.
#[pyclass(frozen, module = "treefold", get_all)]
pub(crate) struct Partition {
    service: String,
    id: u32,
    total: u32,
    data: Py<PyAny>,
    slice: u32,
    slices: u32,
}

#[pymethods]
impl Partition {
    #[new]
    #[pyo3(signature = (service, id, total, data, slice = 0, slices = 1))]
    fn new(service: String, id: u32, total: u32, data: Py<PyAny>, slice: u32, slices: u32) -> Self {
        Self { service, id, total, data, slice, slices }
    }

    fn __repr__(&self) -> String {
        format!("Partition({:?}, {} of {})", self.service, self.id, self.total)
    }
}

/// The data of a partition in a node's registry.
pub(crate) struct Data(pub(crate) Py<PyAny>);

/// True if nobody waits for the result of the local that runs on this thread.
#[pyfunction]
pub(crate) fn cancelled() -> bool {
    treefold::cancelled()
}

/// The ready reduces' names.
#[pyfunction]
pub(crate) fn reduces() -> Vec<&'static str> {
    ready::reduces().map(|(name, _)| name).collect()
}

/// An aggregation, as the package's Python part describes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct AggregationSpec {
    name: String,
    /// `None` for an aggregation whose partials are pushed.
    local: Option<Py<PyAny>>,
    /// A function; otherwise the reduce is ready-made.
    reduce: Option<Py<PyAny>>,
    ready: Option<String>,
    ready_params: Py<PyAny>,
    /// The field of each call's parameters that has the ready reduce's parameters.
    ready_field: Option<String>,
    /// True if the functions take and give bytes, because a worker process runs them.
    raw: bool,
    /// True if the local makes the slice that its partition names.
    slices: bool,
    /// How parameters and partials are read.
    decode: String,
}

impl AggregationSpec {
    /// The operator, and the aggregation's name.
    ///
    /// # Errors
    /// If no ready reduce has that name, or its parameters are not valid.
    pub(crate) fn operator(self, py: Python<'_>) -> PyResult<(String, Arc<dyn Operator>)> {
        let how = payload::How::of(&self.decode)?;
        let Self { local, reduce, raw, slices, .. } = self;
        let functions = Functions { local, reduce, raw, slices, how };
        let Some(ready) = self.ready else { return Ok((self.name, Arc::new(functions))) };
        if functions.local.is_none() {
            let mut reduces = ready::reduces();
            let (_, reduce) = reduces
                .find(|(name, _)| *name == ready)
                .ok_or_else(|| raise("InvalidOption", format!("no ready reduce is named {ready:?}")))?;
            return Ok((self.name, reduce));
        }
        let params = match self.ready_field {
            Some(field) => ReduceParams::Field(field),
            None => sample::fixed(self.ready_params.bind(py))?,
        };
        let samples = Samples::of_reduce(&ready, params)?;
        Ok((self.name, Arc::new(Sampling { functions, samples })))
    }
}

/// A function that gives samples, with the ready reduce that folds them.
struct Sampling {
    functions: Functions,
    samples: Samples,
}

impl Operator for Sampling {
    fn local(&self, partition: &treefold::Partition, params: &Bytes) -> Outcome {
        self.local_slice(partition, Slice::WHOLE, params, params)
    }

    fn gives_slices(&self) -> bool {
        self.functions.slices
    }

    fn local_slice(
        &self,
        partition: &treefold::Partition,
        slice: Slice,
        params: &Bytes,
        reduce: &Bytes,
    ) -> Outcome {
        let sample = self.functions.sample(partition, slice, params, |value| self.samples.sample(value));
        Outcome::Now(sample.and_then(|sample| self.samples.partial(partition.id, sample, reduce)))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        self.samples.folded(a, b, params)
    }

    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        self.samples.folded_all(parts, params)
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> treefold::operators::Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        self.samples.reduce().reduce().placement()
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn declared(&self) -> Option<Declared> {
        Some(self.samples.declared())
    }

    fn codecs(&self) -> (Codec, Codec) {
        self.samples.reduce().reduce().codecs()
    }
}

struct Functions {
    local: Option<Py<PyAny>>,
    reduce: Option<Py<PyAny>>,
    raw: bool,
    slices: bool,
    how: payload::How,
}

impl Functions {
    fn sample(
        &self,
        partition: &treefold::Partition,
        slice: Slice,
        params: &Bytes,
        write: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Bytes>,
    ) -> Result<Bytes, OperatorError> {
        let Some(local) = &self.local else {
            return Err(OperatorError::new("the aggregation has no local: its partials are pushed"));
        };
        attached(|py| {
            let data = partition.data_as::<Data>().map(|Data(data)| data.clone_ref(py));
            let seen = Partition {
                service: partition.service.to_string(),
                id: partition.id,
                total: partition.total,
                data: data.unwrap_or_else(|_| py.None()),
                slice: slice.index(),
                slices: slice.of(),
            };
            let given = self.read(py, params)?;
            let answer = local.bind(py).call1((seen, given))?;
            if self.raw { payload::of_bytes(&answer) } else { write(&answer) }
        })
    }

    fn read<'py>(&self, py: Python<'py>, payload: &Bytes) -> PyResult<Bound<'py, PyAny>> {
        if self.raw { Ok(payload::bytes_object(py, payload)) } else { payload::read(py, payload, self.how) }
    }

    fn merged(&self, a: &Bytes, b: &Bytes, params: &Bytes) -> Result<Bytes, OperatorError> {
        let Some(reduce) = &self.reduce else {
            return Err(OperatorError::new("the aggregation has no reduce"));
        };
        attached(|py| {
            let (a, b, params) = (self.read(py, a)?, self.read(py, b)?, self.read(py, params)?);
            let merged = reduce.bind(py).call1((a, b, params))?;
            if self.raw { payload::of_bytes(&merged) } else { payload::value(&merged) }
        })
    }
}

impl Operator for Functions {
    fn local(&self, partition: &treefold::Partition, params: &Bytes) -> Outcome {
        self.local_slice(partition, Slice::WHOLE, params, params)
    }

    fn gives_slices(&self) -> bool {
        self.slices
    }

    fn local_slice(
        &self,
        partition: &treefold::Partition,
        slice: Slice,
        params: &Bytes,
        _: &Bytes,
    ) -> Outcome {
        Outcome::Now(self.sample(partition, slice, params, payload::value))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        Outcome::Now(self.merged(&a, &b, params))
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> treefold::operators::Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        Placement::Pool
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        (Codec::MessagePack, Codec::MessagePack)
    }
}

/// Runs Python on this thread. An exception becomes the error.
fn attached<T>(run: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, OperatorError> {
    let ran = ending::attach(|py| run(py).map_err(|error| OperatorError::new(text(py, &error))));
    ran.unwrap_or_else(|| Err(OperatorError::new("the interpreter is shutting down")))
}

/// The exception's type and message, and the place where it was raised. The text of a worker process's error is complete.
fn text(py: Python<'_>, error: &PyErr) -> String {
    let is_complete = error.value(py).getattr("is_complete").and_then(|flag| flag.is_truthy());
    if matches!(is_complete, Ok(true)) {
        return error.value(py).to_string();
    }
    let place = error.traceback(py).and_then(|traceback| traceback.format().ok()).and_then(|text| {
        let line = text.lines().rfind(|line| line.trim_start().starts_with("File "))?;
        Some(format!(" ({})", line.trim()))
    });
    format!("{error}{}", place.unwrap_or_default())
}
