//! Errors of the built-in filters.
//!
//! Each of these errors costs the wave, not the filter: it is found before any lasting state changes, so the
//! next wave finds the filter unchanged. To tell errors apart by type:
//! `error.cause()?.downcast_ref::<FilterError>()`.

use super::Source;
use crate::packet::PacketError;
use std::fmt;

/// The reason why a filter sent nothing for a wave, or was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The parameters, or one of them, can't be read or are invalid; the stream is not opened.
    #[error("{}: {why}", Parameters(field))]
    Parameter {
        /// The field in the parameters; empty if the error concerns all of them.
        field: String,
        /// The value found, and the allowed values.
        why: String,
    },
    /// A packet is not a typed packet, or lacks a field.
    #[error("the packet of {from}")]
    Packet {
        /// The sender of the packet.
        from: Source,
        /// The error in the packet.
        #[source]
        cause: PacketError,
    },
    /// A packet has other types than expected.
    #[error("{from} sends `{given}`, but {wanted} is expected")]
    Format {
        /// The sender of the packet.
        from: Source,
        /// The packet's format.
        given: String,
        /// The expected format, or a description of it.
        wanted: String,
    },
    /// Arrays to be folded element by element differ in length.
    #[error("field {field} of {from} has {given} elements, where the others have {wanted}")]
    Length {
        /// The sender of the array with the other length.
        from: Source,
        /// The field.
        field: usize,
        /// Number of its elements.
        given: usize,
        /// Number of elements in the other packets.
        wanted: usize,
    },
    /// A child's packet has the right types but an impossible content.
    #[error("the packet of {from} can't come from this filter: {why}")]
    Impossible {
        /// The sender of the packet.
        from: Source,
        /// The contradiction in its content.
        why: &'static str,
    },
    /// A whole number does not fit into the bits of its type.
    #[error("overflow: the {figure} does not fit into {bits} bits")]
    Overflow {
        /// The figure that overflows.
        figure: String,
        /// Bits of its type.
        bits: usize,
    },
    /// An interval begins too far ahead of this node's clock.
    #[error(
        "{from} sends an interval that begins at {start_ns} ns, more than `intervals_max` intervals ({ahead_ns_max} ns) after \
         this node's clock, {now_ns} ns"
    )]
    Ahead {
        /// The sender of the interval.
        from: Source,
        /// Start of the interval, in ns since the Unix epoch.
        start_ns: u64,
        /// The time of this node's clock.
        now_ns: u64,
        /// Most nanoseconds that an interval may begin after that time.
        ahead_ns_max: u64,
    },
    /// A result or state has more bytes than allowed.
    #[error("{bytes} bytes are above the limit `{limit}` of {bytes_max}")]
    TooManyBytes {
        /// The limit's name.
        limit: &'static str,
        /// Number of bytes that would be needed.
        bytes: u64,
        /// Number of bytes allowed.
        bytes_max: u64,
    },
    /// The keys of a run don't ascend.
    #[error("the keys of {from} don't ascend: entry {entry} is less than the one before it")]
    Descending {
        /// The sender of the run.
        from: Source,
        /// Index of the offending entry in its chunk, from 0.
        entry: usize,
    },
    /// A run continues after its end.
    #[error("{from} sends entries after the end of its run")]
    AfterEnd {
        /// The sender of the run.
        from: Source,
    },
}

/// Formats the place of an error in the parameters.
struct Parameters<'a>(&'a String);

impl fmt::Display for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("parameters") } else { write!(f, "parameter `{}`", self.0) }
    }
}

impl FilterError {
    /// Creates an error of an invalid parameter.
    pub(crate) fn parameter(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Parameter { field: field.into(), why: why.into() }
    }

    /// Converts a packet's error to a filter's error that names the sender.
    pub(crate) fn packet(from: Source) -> impl Fn(PacketError) -> Self {
        move |cause| Self::Packet { from, cause }
    }
}
