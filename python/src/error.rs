//! The library's errors as exceptions of the package.
//!
//! The exceptions are Python classes in `treefold.errors`, so that they have documentation and attributes like any other.

use pyo3::prelude::*;
use treefold::push::PushError;
use treefold::{CallError, Error, StartError, StreamError};

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
        Error::Stream(
            StreamError::BadField { .. } | StreamError::UnknownService { .. } | StreamError::Filter { .. },
        ) => "InvalidCall",
        Error::Rejected(CallError::Denied { .. }) | Error::Stream(StreamError::Denied { .. }) => "Denied",
        Error::Rejected(_) | Error::Stream(StreamError::Full { .. }) => "Busy",
        Error::Stream(_) => "Closed",
        Error::PacketTooLarge { .. } => "InvalidValue",
        Error::Placement { .. } => "InvalidOption",
        Error::NoLoop => return raise("InvalidCall", NO_LOOP),
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

const NO_LOOP: &str = "this client passes its requests on to a node, but a stream or a reader needs a loop of its own: \
     use treefold.connect(..., direct=True), or the client() of a node";

/// The exception for a push, or for a worker that could not attach.
pub(crate) fn of_push(error: PushError) -> PyErr {
    let class = match &error {
        PushError::Field { field: "payload", .. } => "InvalidValue",
        PushError::Field { field: "timeout", .. } => "Unreachable",
        PushError::Field { .. } => "InvalidOption",
        PushError::Unreachable { .. } | PushError::Refused { .. } => "Unreachable",
        PushError::Over { .. } => "RequestOver",
        PushError::Detached { .. } => "Closed",
        _ => "TreefoldError",
    };
    raise(class, error.to_string())
}

/// The exception for a node that could not be started.
pub(crate) fn of_start(error: &StartError) -> PyErr {
    raise("StartFailed", error.to_string())
}
