//! Endpoints whose packets come from Python.

use crate::error::{self, raise};
use crate::inbox::{Inbox, Source, seconds, within};
use crate::payload::{self, How};
use crate::pending::{Finish, Pending};
use crate::row::Form;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use treefold::endpoint::{Arrival, EndpointSender, EndpointStream, Packet};

/// Gives the streams that are opened to the endpoints of a node, or of the nodes of an embedded cluster.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Acceptor(pub(crate) Arc<treefold::endpoint::Acceptor>);

#[pymethods]
impl Acceptor {
    /// Waits for the next stream. Its result is `None` once the node has ended.
    fn accept(&self) -> PyResult<Pending> {
        let acceptor = Arc::clone(&self.0);
        Ok(Pending::new(async move {
            let accepted = acceptor.accept().await;
            let finish: Finish = Box::new(|py| match accepted {
                Some(stream) => Ok(Py::new(py, Endpoint::new(stream))?.into_any()),
                None => Ok(py.None()),
            });
            finish
        }))
    }
}

/// A stream's packets, and how many of them were missed so far.
struct Packets {
    stream: EndpointStream,
    missed: Arc<AtomicU64>,
}

impl Source for Packets {
    type Item = Option<Packet>;

    async fn next(&mut self) -> Option<Packet> {
        loop {
            let arrival = self.stream.next().await;
            self.missed.store(self.stream.missed(), Ordering::Relaxed);
            match arrival? {
                Arrival::Packet(packet) => return Some(packet),
                // The wait for the next packet goes on.
                Arrival::Missed(_) => {}
            }
        }
    }

    fn now(&mut self) -> Option<Option<Packet>> {
        let packet = self.stream.try_recv();
        self.missed.store(self.stream.missed(), Ordering::Relaxed);
        packet.ok().map(Some)
    }
}

/// One endpoint's part in one stream.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Endpoint {
    form: Form,
    sender: EndpointSender,
    inbox: Arc<Inbox<Packets>>,
    #[pyo3(get)]
    number: u32,
    #[pyo3(get)]
    service: String,
    #[pyo3(get)]
    stream: String,
    #[pyo3(get)]
    up_filter: String,
    params: bytes::Bytes,
    missed: Arc<AtomicU64>,
}

impl Endpoint {
    fn new(stream: EndpointStream) -> Self {
        let (opening, missed) = (stream.opening(), Arc::new(AtomicU64::new(0)));
        Self {
            form: Form::of_filter(&opening.spec.up_filter),
            number: opening.endpoint,
            service: opening.spec.service.to_string(),
            stream: opening.stream.to_string(),
            up_filter: opening.spec.up_filter.to_string(),
            params: opening.spec.params.clone(),
            sender: stream.sender(),
            missed: Arc::clone(&missed),
            inbox: Inbox::new(Packets { stream, missed }),
        }
    }
}

#[pymethods]
impl Endpoint {
    /// The stream's parameters for endpoints.
    fn params(&self, py: Python<'_>, decode: &str) -> PyResult<Py<PyAny>> {
        Ok(payload::read(py, &self.params, How::of(decode)?)?.unbind())
    }

    /// Takes a packet that is there: its tag and its payload. `False` once the stream is over.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(match self.inbox.take() {
            None => None,
            Some(None) => Some(false.into_pyobject(py)?.to_owned().into_any().unbind()),
            Some(Some(packet)) => {
                let payload = payload::bytes_object(py, &packet.payload);
                Some((packet.tag, payload).into_pyobject(py)?.into_any().unbind())
            }
        })
    }

    /// Waits until a packet is there or the stream is over.
    fn fill(&self, timeout: Option<f64>) -> PyResult<Pending> {
        self.inbox.fill(timeout)
    }

    /// Packets that passed over this endpoint, because it lagged.
    fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Sends a packet up.
    fn send(&self, value: &Bound<'_, PyAny>, tag: Option<u64>, timeout: Option<f64>) -> PyResult<Pending> {
        let (payload, sender) = (self.form.write(value)?, self.sender.clone());
        let timeout = timeout.map(seconds).transpose()?;
        Pending::begin(async move {
            let sending = async {
                match tag {
                    Some(tag) => sender.send_tagged(tag, payload).await,
                    None => sender.send(payload).await,
                }
            };
            let sent = within(timeout, sending).await;
            let finish: Finish = Box::new(move |py| match sent {
                Some(sent) => sent.map(|()| py.None()).map_err(error::of_call),
                None => Err(raise("TimedOut", "the stream's window was full all that time")),
            });
            finish
        })
    }

    fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Takes the endpoint out of the stream; waves list it as missing with the reason `why`.
    fn leave(&self, why: String) -> PyResult<()> {
        self.inbox.close(move |packets| packets.stream.leave(why))
    }
}
