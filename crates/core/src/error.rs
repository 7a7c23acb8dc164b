//! Errors of a call, in types that name the field or partition, the place and the limit.

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Why a call was rejected before any partition was asked. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum CallError {
    /// A field of the call is outside its limits.
    BadField {
        /// The field's name.
        field: String,
        /// The value that was given.
        given: String,
        /// The values that are allowed.
        limit: String,
    },
    /// The name is not `service/aggregation`, or no node in sight provides the service.
    UnknownService {
        /// The service's name.
        service: String,
    },
    /// The front has reached its limit of open calls.
    TooManyCalls {
        /// `Limits::calls_open_max`.
        limit: usize,
    },
    /// The front has given one client as many calls as it may. Other clients still find room.
    TooManyCallsOfClient {
        /// The calls that a client may have open there now: as many as are free of `Limits::calls_open_max`.
        limit: usize,
    },
    /// The node is shutting down and takes no new calls.
    ShuttingDown,
    /// The sender's certificate does not give it the right.
    Denied {
        /// The right.
        right: String,
        /// The service; empty if the right is about none.
        service: String,
    },
}

impl CallError {
    /// The error for a field outside its limits.
    pub fn bad_field(field: &str, given: impl fmt::Display, limit: impl fmt::Display) -> Self {
        use alloc::string::ToString;
        Self::BadField { field: field.to_string(), given: given.to_string(), limit: limit.to_string() }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadField { field, given, limit } => write!(f, "{field} is {given}; allowed: {limit}"),
            Self::UnknownService { service } => {
                write!(f, "no node in sight provides the service {service:?}")
            }
            Self::TooManyCalls { limit } => write!(f, "the front has its limit of {limit} calls open"),
            Self::TooManyCallsOfClient { limit } => {
                write!(
                    f,
                    "this client has its part of the front's calls_open_max open; that is {limit} calls now"
                )
            }
            Self::ShuttingDown => write!(f, "the node is shutting down"),
            Self::Denied { right, service } => write_denied(f, right, service),
        }
    }
}

impl core::error::Error for CallError {}

/// Writes that a process lacks a right.
pub(crate) fn write_denied(f: &mut fmt::Formatter<'_>, right: &str, service: &str) -> fmt::Result {
    write!(f, "the certificate does not give the right to {right}")?;
    if service.is_empty() { Ok(()) } else { write!(f, " for the service {service:?}") }
}

/// Partitions that did not contribute, where they were lost, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Missing {
    /// The partitions.
    pub partitions: PartitionSet,
    /// The node that held them; `None` if no node did.
    pub node: Option<NodeId>,
    /// Why they are missing.
    pub reason: Reason,
}

/// Why a partition is missing from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reason {
    /// No node in sight holds the partition.
    NoReplica,
    /// The connection to the node broke, or the node left.
    Lost,
    /// The node did not answer in time.
    Late,
    /// The node refused at once: its queue would not have left enough time before the deadline.
    TooBusy,
    /// A queue or table of the node was at its limit; the limit's name.
    Full(Arc<str>),
    /// The node does not know the aggregation.
    UnknownAggregation,
    /// The node does not hold the partition, or no longer holds it.
    NotHosted,
    /// The local returned an error.
    LocalFailed(Arc<str>),
    /// The local panicked.
    LocalPanicked(Arc<str>),
    /// The aggregation does not accept the call's parameters. The text says why.
    InvalidParams(Arc<str>),
    /// A reduce that included the partition's partial failed or panicked.
    ReduceFailed(Arc<str>),
    /// A stream's filter that included the endpoint's packet failed, panicked, or took too long.
    FilterFailed(Arc<str>),
    /// The partial overlapped partials that were already merged, and could not be separated from them.
    Overlap,
    /// The call was cancelled, or its minimum coverage was out of reach.
    Cancelled,
    /// The node is shutting down.
    ShuttingDown,
    /// The endpoint is so far behind the others of its stream that packets pass over it
    /// ([`lag_bytes_max`](crate::stream::StreamSpec::lag_bytes_max)).
    Lagging,
    /// A reason of a newer version, which this version does not know.
    Other {
        /// Its number in the protocol.
        code: u32,
        /// The newer version's text.
        detail: Arc<str>,
    },
}

impl Reason {
    /// The reason's name, as command lines and JSON show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoReplica => "no_replica",
            Self::Lost => "lost",
            Self::Late => "late",
            Self::TooBusy => "too_busy",
            Self::Full(_) => "full",
            Self::UnknownAggregation => "unknown_aggregation",
            Self::NotHosted => "not_hosted",
            Self::LocalFailed(_) => "local_failed",
            Self::LocalPanicked(_) => "local_panicked",
            Self::InvalidParams(_) => "invalid_params",
            Self::ReduceFailed(_) => "reduce_failed",
            Self::FilterFailed(_) => "filter_failed",
            Self::Overlap => "overlap",
            Self::Cancelled => "cancelled",
            Self::ShuttingDown => "shutting_down",
            Self::Lagging => "lagging",
            Self::Other { .. } => "other",
        }
    }

    /// The operator's message or the limit's name, for reasons that have one.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Full(text)
            | Self::LocalFailed(text)
            | Self::LocalPanicked(text)
            | Self::InvalidParams(text)
            | Self::ReduceFailed(text)
            | Self::FilterFailed(text)
            | Self::Other { detail: text, .. } => Some(text),
            _ => None,
        }
    }

    /// True if the reason counts against the node that held the partitions. A front remembers such failures
    /// when it chooses replicas. A local may fail because of the call itself. A front can therefore be wrong
    /// about a node, which is why it passes over at most half of a partition's replicas.
    pub fn is_fault_of_node(&self) -> bool {
        match self {
            Self::Lost
            | Self::Late
            | Self::TooBusy
            | Self::Full(_)
            | Self::UnknownAggregation
            | Self::NotHosted
            | Self::LocalFailed(_)
            | Self::LocalPanicked(_)
            | Self::ShuttingDown => true,
            Self::NoReplica
            | Self::InvalidParams(_)
            | Self::ReduceFailed(_)
            | Self::FilterFailed(_)
            | Self::Overlap
            | Self::Cancelled
            | Self::Lagging
            | Self::Other { .. } => false,
        }
    }

    /// True if another replica may succeed where this one failed.
    pub fn is_worth_a_retry(&self) -> bool {
        !matches!(
            self,
            Self::LocalFailed(_)
                | Self::InvalidParams(_)
                | Self::ReduceFailed(_)
                | Self::FilterFailed(_)
                | Self::Cancelled
                | Self::NoReplica
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.detail().map_or(Ok(()), |detail| write!(f, ": {detail}"))
    }
}

/// Why a job gave no result. The job is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum JobError {
    /// The operator returned an error.
    Failed(Arc<str>),
    /// The operator panicked; the driver caught it.
    Panicked(Arc<str>),
    /// The operator does not accept the parameters.
    InvalidParams(Arc<str>),
    /// The reduce refuses the partial `a`, and has nothing against `b`.
    RefusedA(Arc<str>),
    /// The reduce refuses the partial `b`, and has nothing against `a`.
    RefusedB(Arc<str>),
}

impl JobError {
    /// The operator's text.
    pub fn into_text(self) -> Arc<str> {
        match self {
            Self::Failed(text)
            | Self::Panicked(text)
            | Self::InvalidParams(text)
            | Self::RefusedA(text)
            | Self::RefusedB(text) => text,
        }
    }
}
