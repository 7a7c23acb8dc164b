//! What can go wrong with a call, in types that say what, where, and by how much.

use crate::id::NodeId;
use crate::partitions::PartitionSet;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Why a call was turned away before any partition was asked. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum CallError {
    /// A field of the call is outside its limits.
    BadField {
        /// The field's name.
        field: String,
        /// What was given.
        given: String,
        /// What is allowed.
        limit: String,
    },
    /// The name is not `service/aggregation`, or nobody in sight provides that service.
    UnknownService {
        /// The service's name.
        service: String,
    },
    /// The front has as many calls open as it may.
    TooManyCalls {
        /// `Limits::calls_open_max`.
        limit: usize,
    },
    /// The node is shutting down and takes no new calls.
    ShuttingDown,
}

impl CallError {
    /// A field outside its limits.
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
            Self::ShuttingDown => write!(f, "the node is shutting down"),
        }
    }
}

impl core::error::Error for CallError {}

/// Partitions that did not contribute, where they were lost, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Missing {
    /// The partitions.
    pub partitions: PartitionSet,
    /// The node that had them; `None` when nobody did.
    pub node: Option<NodeId>,
    /// Why.
    pub reason: Reason,
}

/// Why a partition is missing from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reason {
    /// No node in sight holds it.
    NoReplica,
    /// The connection to its node broke, or its node left.
    Lost,
    /// Its node did not answer in time.
    Late,
    /// Its node refused at once: the work queued there would not fit into what was left of the deadline.
    TooBusy,
    /// Its node had a queue or table at its limit; the limit's name.
    Full(Arc<str>),
    /// Its node does not know the aggregation.
    UnknownAggregation,
    /// Its node does not hold the partition (any more).
    NotHosted,
    /// The local returned an error.
    LocalFailed(Arc<str>),
    /// The local panicked.
    LocalPanicked(Arc<str>),
    /// A reduce that had its partial in it failed or panicked.
    ReduceFailed(Arc<str>),
    /// The filter of a stream that had its packet in it failed, panicked, or took too long.
    FilterFailed(Arc<str>),
    /// Its partial came in twice, overlapping what was merged, and could not be taken apart.
    Overlap,
    /// The call was cancelled, or its minimum coverage was out of reach.
    Cancelled,
    /// Its node is shutting down.
    ShuttingDown,
    /// A reason of a newer version, which this version does not know.
    Other {
        /// Its number in the protocol.
        code: u32,
        /// What the newer version says about it.
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
            Self::ReduceFailed(_) => "reduce_failed",
            Self::FilterFailed(_) => "filter_failed",
            Self::Overlap => "overlap",
            Self::Cancelled => "cancelled",
            Self::ShuttingDown => "shutting_down",
            Self::Other { .. } => "other",
        }
    }

    /// What the operator or the limit said, where there is more to say than the name.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Full(text)
            | Self::LocalFailed(text)
            | Self::LocalPanicked(text)
            | Self::ReduceFailed(text)
            | Self::FilterFailed(text)
            | Self::Other { detail: text, .. } => Some(text),
            _ => None,
        }
    }

    /// True when it speaks against the node that had the partitions, which a front remembers when it chooses
    /// replicas. That a local fails may be the call's own fault; so may fronts be wrong about half of the replicas.
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
            | Self::ReduceFailed(_)
            | Self::FilterFailed(_)
            | Self::Overlap
            | Self::Cancelled
            | Self::Other { .. } => false,
        }
    }

    /// True when another replica may well succeed where this one did not.
    pub fn is_worth_a_retry(&self) -> bool {
        !matches!(
            self,
            Self::LocalFailed(_)
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
}
