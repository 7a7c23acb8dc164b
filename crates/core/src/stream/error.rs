//! Reasons why a stream could not be opened, or ended.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Why a stream could not be opened, or why it ended.
///
/// A node that receives this error no longer has state for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StreamError {
    /// The front-end closed it.
    Closed,
    /// The front-end is lost.
    FrontLost,
    /// A field of the request is outside its limits.
    BadField {
        /// The field's name.
        field: String,
        /// The value given.
        given: String,
        /// The values allowed.
        limit: String,
    },
    /// No member of the cluster provides that service.
    UnknownService {
        /// The service's name.
        service: Arc<str>,
    },
    /// A node does not know a filter of that name, or the filter rejected its parameters.
    Filter {
        /// The message from the filter's registry.
        problem: Arc<str>,
    },
    /// A table of the node has reached its limit.
    Full {
        /// The limit's name.
        limit: Arc<str>,
    },
    /// The node is shutting down.
    ShuttingDown,
    /// The opener's certificate does not give it the right.
    Denied {
        /// The right.
        right: Arc<str>,
        /// The service; empty if the right is about none.
        service: Arc<str>,
    },
}

impl StreamError {
    /// The error's name in JSON and in the wire's texts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::FrontLost => "front_lost",
            Self::BadField { .. } => "bad_field",
            Self::UnknownService { .. } => "unknown_service",
            Self::Filter { .. } => "filter",
            Self::Full { .. } => "full",
            Self::ShuttingDown => "shutting_down",
            Self::Denied { .. } => "denied",
        }
    }

    /// Creates the error for a field outside its limits.
    pub fn bad_field(field: &str, given: impl fmt::Display, limit: impl fmt::Display) -> Self {
        use alloc::string::ToString;
        Self::BadField { field: field.into(), given: given.to_string(), limit: limit.to_string() }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the front-end closed the stream"),
            Self::FrontLost => f.write_str("the stream's front-end is lost"),
            Self::BadField { field, given, limit } => write!(f, "{field} is {given}; allowed: {limit}"),
            Self::UnknownService { service } => {
                write!(f, "no node in sight provides the service {service:?}")
            }
            Self::Filter { problem } => write!(f, "the filter: {problem}"),
            Self::Full { limit } => write!(f, "the node has reached its limit {limit}"),
            Self::ShuttingDown => f.write_str("the node is shutting down"),
            Self::Denied { right, service } => crate::error::write_denied(f, right, service),
        }
    }
}

impl core::error::Error for StreamError {}
