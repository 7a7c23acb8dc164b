//! Streams, from the front-end's side.

use crate::detached::Detached;
use crate::error;
use crate::inbox::{Inbox, Source, ready, seconds, within};
use crate::payload;
use crate::pending::{Finish, Pending};
use crate::reply;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::sync::Arc;
use treefold::{
    CallError, Error, PartitionSet, Raw, StreamBuilder, StreamEvent, StreamSender, Synchronisation,
};

const SYNCHRONISATIONS: &str = "wait-for-all, do-not-wait, or the seconds of a time-out";

/// A stream's options, as the package's Python part passes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct StreamOptions {
    up_filter: Option<String>,
    down_filter: Option<String>,
    filter_params: Py<PyAny>,
    params: Py<PyAny>,
    sync: Sync,
    endpoints: Option<Vec<u32>>,
    shape: Option<String>,
    window_bytes: Option<u64>,
    lag_bytes_max: Option<u64>,
}

/// When a wave is complete.
#[derive(FromPyObject)]
enum Sync {
    Seconds(f64),
    Named(String),
}

impl StreamOptions {
    /// # Errors
    /// If an option has no such value, or the parameters cannot travel.
    pub(crate) fn apply(self, py: Python<'_>, mut builder: StreamBuilder) -> PyResult<StreamBuilder> {
        builder = builder
            .filter_params(&Raw(params(py, &self.filter_params)?))
            .params(&Raw(params(py, &self.params)?))
            .synchronisation(self.sync.read()?);
        if let Some(name) = self.up_filter {
            builder = builder.up_filter(name);
        }
        if let Some(name) = self.down_filter {
            builder = builder.down_filter(name);
        }
        if let Some(endpoints) = self.endpoints {
            builder = builder.endpoints(endpoints.into_iter().collect());
        }
        if let Some(shape) = self.shape {
            builder = builder.shape(crate::client::shape(&shape).map_err(rejected)?);
        }
        if let Some(bytes) = self.window_bytes {
            builder = builder.window_bytes(bytes);
        }
        if let Some(bytes) = self.lag_bytes_max {
            builder = builder.lag_bytes_max(bytes);
        }
        Ok(builder)
    }
}

/// Parameters; `None` is no bytes.
pub(crate) fn params(py: Python<'_>, params: &Py<PyAny>) -> PyResult<Bytes> {
    if params.is_none(py) { Ok(Bytes::new()) } else { payload::value(params.bind(py)) }
}

fn rejected(error: CallError) -> PyErr {
    error::of_call(Error::Rejected(error))
}

impl Sync {
    fn read(self) -> PyResult<Synchronisation> {
        match self {
            Self::Seconds(time) => Ok(Synchronisation::TimeOut(seconds(time)?)),
            Self::Named(name) => match name.as_str() {
                "wait-for-all" => Ok(Synchronisation::WaitForAll),
                "do-not-wait" => Ok(Synchronisation::DoNotWait),
                _ => Err(rejected(CallError::bad_field("sync", name, SYNCHRONISATIONS))),
            },
        }
    }
}

/// Opens a stream of a client, which lives at least as long as the stream.
pub(crate) fn open(builder: StreamBuilder, client: treefold::Client) -> PyResult<Pending> {
    Ok(Pending::new(async move {
        let opened = builder.open().await;
        let finish: Finish = Box::new(|py| {
            let stream = opened.map_err(error::of_call)?;
            let (id, sender) = (stream.id().to_string(), stream.sender());
            let endpoints = stream.endpoints().iter().collect::<Vec<_>>().into_pyobject(py)?.unbind();
            let missing = reply::losses(py, stream.missing())?.into_any().unbind();
            let opened = Stream {
                id,
                endpoints,
                missing,
                sender,
                inbox: Detached::new(Inbox::new(stream)),
                _client: Detached::new(client),
            };
            Ok(Py::new(py, opened)?.into_any())
        });
        finish
    }))
}

impl Source for treefold::Stream {
    type Item = Result<StreamEvent<Bytes>, Error>;

    fn next(&mut self) -> impl Future<Output = Self::Item> + Send {
        treefold::Stream::next(self)
    }

    fn now(&mut self) -> Option<Self::Item> {
        ready(treefold::Stream::next(self))
    }
}

/// A stream's front-end.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Stream {
    #[pyo3(get)]
    id: String,
    /// The endpoints that took part when it was opened.
    #[pyo3(get)]
    endpoints: Py<PyAny>,
    /// The others, with reasons.
    #[pyo3(get)]
    missing: Py<PyAny>,
    sender: StreamSender,
    inbox: Detached<Arc<Inbox<treefold::Stream>>>,
    _client: Detached<treefold::Client>,
}

#[pymethods]
impl Stream {
    /// Takes an event that is there: ("wave", tag, packets, contributors, missing) or ("changed", endpoints, missing).
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(event) = self.inbox.take() else { return Ok(None) };
        Ok(Some(match event.map_err(error::of_call)? {
            StreamEvent::Wave(wave) => {
                let packets = wave.packets.iter().map(|packet| payload::bytes_object(py, packet));
                let packets = PyList::new(py, packets.collect::<Vec<_>>())?;
                let contributors: Vec<_> = wave.contributors.iter().collect();
                let missing = reply::losses(py, &wave.missing)?;
                ("wave", wave.tag, packets, contributors, missing).into_pyobject(py)?.into_any().unbind()
            }
            StreamEvent::Changed { endpoints, away, .. } => {
                let endpoints: Vec<_> = endpoints.iter().collect();
                let away = reply::losses(py, &away)?;
                ("changed", endpoints, away).into_pyobject(py)?.into_any().unbind()
            }
            _ => return Ok(None),
        }))
    }

    /// Waits until an event is there or the stream is closed.
    fn fill(&self, timeout: Option<f64>) -> PyResult<Pending> {
        self.inbox.fill(timeout)
    }

    /// Sends a packet down. Its result is the packet's tag.
    fn send(
        &self,
        value: &Bound<'_, PyAny>,
        to: Option<Vec<u32>>,
        tag: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<Pending> {
        let (payload, sender) = (payload::value(value)?, self.sender.clone());
        let (to, timeout) = (to.map(PartitionSet::from_iter), timeout.map(seconds).transpose()?);
        Pending::begin(async move {
            let sending = async {
                match (to, tag) {
                    (Some(to), Some(tag)) => sender.send_to(to, tag, payload).await.map(|()| tag),
                    (None, Some(tag)) => sender.send_tagged(tag, payload).await.map(|()| tag),
                    _ => sender.send(payload).await,
                }
            };
            let sent = within(timeout, sending).await;
            let finish: Finish = Box::new(move |py| match sent {
                Some(tag) => Ok(tag.map_err(error::of_call)?.into_pyobject(py)?.into_any().unbind()),
                None => Err(error::raise("TimedOut", "the stream's window was full all that time")),
            });
            finish
        })
    }

    fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Ends the stream at all its nodes.
    fn close(&self) -> PyResult<()> {
        self.inbox.close(drop)
    }
}
