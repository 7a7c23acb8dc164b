//! What goes wrong in a ready-made filter.
//!
//! Each of these is the wave's loss and not the filter's: it is found before anything that lasts has been changed, so
//! the next wave finds the filter as the one before left it. Told apart by type:
//! `error.cause()?.downcast_ref::<FilterError>()`.

use super::Source;
use crate::packet::PacketError;
use std::fmt;

/// Why a filter gave nothing for a wave, or was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The parameters as a whole, or one of them, can't be read or make no sense; the stream is not opened.
    #[error("{}: {why}", Parameters(field))]
    Parameter {
        /// Where in the parameters; empty when it is the whole.
        field: String,
        /// What was met, and what is allowed.
        why: String,
    },
    /// What was sent is no typed packet, or lacks a field.
    #[error("the packet of {from}")]
    Packet {
        /// Who sent it.
        from: Source,
        /// What is wrong with it.
        #[source]
        cause: PacketError,
    },
    /// A packet has other types than it should.
    #[error("{from} sends `{given}`, where {wanted} is wanted")]
    Format {
        /// Who sent it.
        from: Source,
        /// Its format.
        given: String,
        /// The format that is wanted, or a description of it.
        wanted: String,
    },
    /// Arrays that are to be folded element by element differ in length.
    #[error("field {field} of {from} has {given} elements, where the others have {wanted}")]
    Length {
        /// Who sent the other length.
        from: Source,
        /// Which field.
        field: usize,
        /// How many elements it has.
        given: usize,
        /// How many the others have.
        wanted: usize,
    },
    /// A child's packet has the right types and an impossible content.
    #[error("the packet of {from} can't come from this filter: {why}")]
    Impossible {
        /// Who sent it.
        from: Source,
        /// What is impossible about it.
        why: &'static str,
    },
    /// A whole number leaves 64 bits.
    #[error("overflow: the {figure} is outside of what 64 bits hold")]
    Overflow {
        /// Which figure.
        figure: String,
    },
    /// An interval begins further ahead of this node's clock than its filter looks.
    #[error(
        "{from} sends an interval from {start_ns} ns on, more than `intervals_max` intervals ({ahead_ns_max} ns) after \
         this node's clock, {now_ns} ns"
    )]
    Ahead {
        /// Who sent it.
        from: Source,
        /// Where it begins, in ns since the Unix epoch.
        start_ns: u64,
        /// What this node's clock shows.
        now_ns: u64,
        /// How much later than that it may begin.
        ahead_ns_max: u64,
    },
    /// More bytes than allowed.
    #[error("{bytes} bytes are above the limit `{limit}` of {bytes_max}")]
    TooManyBytes {
        /// The limit's name.
        limit: &'static str,
        /// How many there would be.
        bytes: u64,
        /// How many there may be.
        bytes_max: u64,
    },
    /// A run that should ascend does not.
    #[error("the keys of {from} don't ascend: entry {entry} is less than the one before it")]
    Descending {
        /// Who sent it.
        from: Source,
        /// Which entry of its chunk, from 0.
        entry: usize,
    },
    /// A run goes on after its end.
    #[error("{from} sends entries after it has said that its run ends")]
    AfterEnd {
        /// Who sent it.
        from: Source,
    },
}

/// How an error says where in the parameters it was.
struct Parameters<'a>(&'a String);

impl fmt::Display for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("parameters") } else { write!(f, "parameter `{}`", self.0) }
    }
}

impl FilterError {
    /// A parameter that makes no sense.
    pub(crate) fn parameter(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Parameter { field: field.into(), why: why.into() }
    }

    /// How a packet's error becomes the filter's, which knows who sent the packet.
    pub(crate) fn packet(from: Source) -> impl Fn(PacketError) -> Self {
        move |cause| Self::Packet { from, cause }
    }
}
