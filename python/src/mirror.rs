//! Readers of feeds.

use crate::detached::Detached;
use crate::error::{self, raise};
use crate::inbox::{Inbox, Source, ready, seconds};
use crate::payload;
use crate::pending::{Finish, Pending};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use treefold_feed::Update;
use treefold_feed::follow::{ReaderBuilder, ReaderError};
use treefold_mirror::VectorTime;

/// A reader's options, as the package's Python part passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReaderOptions {
    keys: Vec<String>,
    prefixes: Vec<String>,
    types: Vec<String>,
    after: Option<String>,
    window_bytes: Option<u64>,
    patience: Option<f64>,
}

impl ReaderOptions {
    /// # Errors
    /// If the time is no vector time, or the patience no time.
    pub(crate) fn apply(self, mut builder: ReaderBuilder) -> PyResult<ReaderBuilder> {
        builder = self.keys.into_iter().fold(builder, ReaderBuilder::key);
        builder = self.prefixes.into_iter().fold(builder, ReaderBuilder::prefix);
        builder = self.types.into_iter().fold(builder, ReaderBuilder::kind);
        if let Some(text) = self.after {
            let time: VectorTime =
                text.parse().map_err(|error| raise("InvalidOption", format!("after: {error}")))?;
            builder = builder.from(Some(time));
        }
        if let Some(bytes) = self.window_bytes {
            builder = builder.window_bytes(bytes);
        }
        if let Some(patience) = self.patience {
            builder = builder.patience(seconds(patience)?);
        }
        Ok(builder)
    }
}

/// Starts the reader.
pub(crate) fn start(builder: ReaderBuilder) -> PyResult<Pending> {
    Ok(Pending::new(async move {
        let started = builder.start().await;
        let finish: Finish = Box::new(|py| {
            let reader = started.map_err(|error| of_reader(&error))?;
            let given = Arc::new(Mutex::new(reader.time().cloned()));
            let followed = Followed { reader, given: Arc::clone(&given) };
            Ok(Py::new(py, Reader { inbox: Detached::new(Inbox::new(followed)), given })?.into_any())
        });
        finish
    }))
}

fn of_reader(error: &ReaderError) -> PyErr {
    let class = match error {
        ReaderError::NoMirror { .. } => "Unreachable",
        ReaderError::Feed(_) | ReaderError::Filter(_) | ReaderError::From { .. } => "InvalidOption",
    };
    raise(class, error.to_string())
}

/// A reader, and the time of the last update that left the inbox.
struct Followed {
    reader: treefold_feed::Reader,
    given: Arc<Mutex<Option<VectorTime>>>,
}

type Updated = Result<Update, ReaderError>;

impl Source for Followed {
    type Item = Updated;

    async fn next(&mut self) -> Updated {
        // The update that this waits for stays in the inbox; until it is taken, this time counts.
        lock(&self.given).clone_from(&self.reader.time().cloned());
        self.reader.next().await
    }

    fn now(&mut self) -> Option<Updated> {
        // Without an update, the reader may need the runtime's clock.
        if self.reader.has_updates() { ready(self.reader.next()) } else { None }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A reader of a feed.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Reader {
    inbox: Detached<Arc<Inbox<Followed>>>,
    given: Arc<Mutex<Option<VectorTime>>>,
}

#[pymethods]
impl Reader {
    /// Takes an update that is there, as a tuple that begins with its name.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(update) = self.inbox.take() else { return Ok(None) };
        tuple(py, update.map_err(|error| of_reader(&error))?).map(Some)
    }

    /// Waits until an update is there or the reader is closed.
    fn fill(&self, timeout: Option<f64>) -> PyResult<Pending> {
        self.inbox.fill(timeout)
    }

    /// The time after the last update that was taken.
    fn time(&self) -> Option<String> {
        self.latest().map(|time| time.to_string())
    }

    /// The mirror that it follows; `None` while it looks for one, and while somebody waits for an update.
    fn mirror(&self) -> Option<u32> {
        self.inbox.peek(|source| source.reader.mirror())?
    }

    fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    fn close(&self) -> PyResult<()> {
        let latest = self.latest();
        *lock(&self.given) = latest;
        self.inbox.close(drop)
    }
}

impl Reader {
    fn latest(&self) -> Option<VectorTime> {
        // The source ends a moment later, and what it has fetched is not taken any more.
        if self.inbox.is_closed() {
            return lock(&self.given).clone();
        }
        // The reader is locked while somebody waits for its next update; it has not moved then.
        let latest = self.inbox.peek(|source| source.reader.time().cloned());
        // To be asked afterwards: what was waited for is put into the inbox before the reader is free.
        let is_waiting = !self.inbox.arrived().is_empty();
        latest.filter(|_| !is_waiting).unwrap_or_else(|| lock(&self.given).clone())
    }
}

/// An update: its name, then what it has.
fn tuple(py: Python<'_>, update: Update) -> PyResult<Py<PyAny>> {
    let tuple = match update {
        Update::Moved { mirror, because } => ("moved", mirror, because).into_pyobject(py)?.into_any(),
        Update::Begins(begins) => {
            let because = begins.because.map(|because| because.to_string());
            ("begins", begins.cut.epoch, begins.cut.position, because).into_pyobject(py)?.into_any()
        }
        Update::Row(row) => {
            let (fields, body) = (fields(py, row.fields.as_bytes())?, payload::bytes_object(py, &row.body));
            let (position, sent_ms) = (row.changed.position, row.changed.sent_ms);
            ("row", &*row.key, fields, body, position, sent_ms).into_pyobject(py)?.into_any()
        }
        Update::Complete(time) => ("complete", time.to_string()).into_pyobject(py)?.into_any(),
        Update::Event { at, sent_ms, event } => {
            let fields = fields(py, event.fields.as_bytes())?;
            let body = payload::bytes_object(py, &event.body);
            let place = (at.epoch, at.position, sent_ms);
            let (stream, kind) = (&*event.stream, &*event.kind);
            ("event", &*event.key, kind, fields, body, stream, event.number, place)
                .into_pyobject(py)?
                .into_any()
        }
        Update::At { time, .. } => ("reached", time.to_string()).into_pyobject(py)?.into_any(),
        Update::Lagging(because) => ("lagging", because.to_string()).into_pyobject(py)?.into_any(),
    };
    Ok(tuple.unbind())
}

fn fields<'py>(py: Python<'py>, encoded: &Bytes) -> PyResult<Bound<'py, PyAny>> {
    if encoded.is_empty() {
        return Ok(PyDict::new(py).into_any());
    }
    payload::one_value(py, encoded).ok_or_else(|| error::raise("InvalidReply", "fields that can't be read"))
}
