//! The library's errors as exceptions of the package.
//!
//! The exceptions are Python classes in `treefold.errors`, so that they have documentation and attributes like any other.

use pyo3::prelude::*;
use treefold::{CallError, Error, StartError};

/// The exception `treefold.errors.<class>` with this message.
pub(crate) fn raise(class: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    let made = Python::try_attach(|py| {
        let class = py.import("treefold.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message.as_str(),))?))
    });
    match made {
        Some(Ok(error)) => error,
        Some(Err(error)) => error,
        None => pyo3::exceptions::PyRuntimeError::new_err(message),
    }
}

/// The exception for a call or a query without an outcome.
pub(crate) fn of_call(error: Error) -> PyErr {
    let class = match &error {
        Error::Rejected(CallError::BadField { .. } | CallError::UnknownService { .. }) => "InvalidCall",
        Error::UnknownAggregation { .. } | Error::InvalidParams { .. } => "InvalidCall",
        Error::Rejected(CallError::Denied { .. }) => "Denied",
        Error::Rejected(_) => "Busy",
        Error::Connect { .. }
        | Error::Handshake { .. }
        | Error::Lost
        | Error::FrontSilent { .. }
        | Error::NoMembers { .. } => "Unreachable",
        Error::Contradiction { .. } | Error::Body(_) => "InvalidReply",
        Error::Start(_) => "StartFailed",
        Error::Closed => "Closed",
        _ => "TreefoldError",
    };
    raise(class, error.to_string())
}

/// The exception for a node that could not be started.
pub(crate) fn of_start(error: &StartError) -> PyErr {
    raise("StartFailed", error.to_string())
}
