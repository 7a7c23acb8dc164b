//! The reasons why an origin refuses an event.

use crate::event::{EventError, Name};

/// The reason why an origin refuses an event. Its state has not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The event is invalid.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The origin has had this event already. The source can go on behind `last`.
    #[error("event {given} of stream `{stream}` is a repetition; the last one was {last}")]
    Repeated {
        /// The stream.
        stream: Name,
        /// The event's number.
        given: u64,
        /// The last number of the stream.
        last: u64,
    },
    /// Events are missing before this one.
    #[error("event {given} of stream `{stream}` leaves a gap; expected {expected}")]
    Jump {
        /// The stream.
        stream: Name,
        /// The event's number.
        given: u64,
        /// The number that follows the last one.
        expected: u64,
    },
    /// A further stream is one too many.
    #[error("stream `{stream}` is one too many; allowed: {limit}")]
    Streams {
        /// The stream.
        stream: Name,
        /// The limit `streams_max`.
        limit: usize,
    },
    /// A queue is full. The source should offer the event again later.
    #[error("busy: the {queue} queue has {bytes} bytes; allowed: {limit}")]
    Busy {
        /// `ready` or `backup`.
        queue: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The limit `ready_bytes_max` or `backup_bytes_max`.
        limit: usize,
    },
}
