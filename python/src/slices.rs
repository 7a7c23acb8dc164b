//! Calls whose slices are read one after another.

use crate::error;
use crate::inbox::{Inbox, Source};
use crate::payload;
use crate::pending::Pending;
use crate::reply;
use pyo3::prelude::*;
use std::sync::Arc;
use treefold::{EachSlice, Error, Raw, Reply};

/// A slice, or the end of them.
type Item = Result<Piece, Error>;

pub(crate) enum Piece {
    Slice(Raw),
    /// The outcome of all slices, or of those before the one that fell below the minimum coverage.
    End(Reply<Raw>),
}

struct Reading(EachSlice<Raw>);

impl Source for Reading {
    type Item = Item;

    async fn next(&mut self) -> Item {
        match self.0.next().await {
            Ok(Some(value)) => Ok(Piece::Slice(value)),
            Ok(None) | Err(Error::NoValue { .. }) => {
                let Reply { status, asked, contributed, missing, total_is_guess, elapsed, .. } =
                    self.0.so_far().clone();
                let (value, report) = (None, None);
                Ok(Piece::End(Reply {
                    status,
                    value,
                    asked,
                    contributed,
                    missing,
                    total_is_guess,
                    elapsed,
                    report,
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// A slice needs the runtime.
    fn now(&mut self) -> Option<Item> {
        None
    }
}

/// The slices of a call.
#[pyclass(frozen, module = "treefold._native")]
pub(crate) struct Slices {
    inbox: Arc<Inbox<Reading>>,
}

impl Slices {
    pub(crate) fn of(each: EachSlice<Raw>) -> Self {
        Self { inbox: Inbox::new(Reading(each)) }
    }
}

#[pymethods]
impl Slices {
    /// Takes what is there: a pair of a slice's bytes and `None`, or of `None` and the fields of the reply.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let pair = match self.inbox.take() {
            None => return Ok(None),
            Some(Err(error)) => return Err(error::of_call(error)),
            Some(Ok(Piece::Slice(Raw(bytes)))) => (Some(payload::bytes_object(py, &bytes)), None),
            Some(Ok(Piece::End(reply))) => (None, Some(reply::tuple(py, reply)?)),
        };
        Ok(Some(pair.into_pyobject(py)?.into_any().unbind()))
    }

    /// Waits until something is there, for at most `timeout` seconds.
    fn fill(&self, timeout: Option<f64>) -> PyResult<Pending> {
        self.inbox.fill(timeout)
    }

    fn is_closed(&self) -> bool {
        self.inbox.is_closed()
    }

    /// Cancels the slices in flight.
    fn close(&self) -> PyResult<()> {
        self.inbox.close(drop)
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        let _ = self.inbox.close(drop);
    }
}
