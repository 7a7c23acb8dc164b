//! The state that mirrors keep.
//!
//! A state is a function of the mirrored events in their order, so all mirrors have the same. It is told the
//! origin's clock, and reads none of its own.

use crate::event::{Event, EventRef};
use bytes::Bytes;

/// The place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The event's position in its feed.
    pub position: u64,
    /// The origin's clock when it sent the event, in ms since the Unix epoch.
    pub sent_ms: u64,
}

/// An application's state, with its business logic.
pub trait State {
    /// A state at one moment, which stays as it is while events go on. It can be encoded on another thread.
    type Frozen: Frozen;

    /// Applies an event, and pushes the events that follow from it ("all boarded") to `derived`.
    fn apply(&mut self, at: Moment, event: EventRef<'_>, derived: &mut Vec<Event>);

    /// Freezes the state. This should not copy the whole of it.
    fn freeze(&self) -> Self::Frozen;
}

/// A frozen state.
pub trait Frozen: Send + 'static {
    /// Encodes the state in pieces of about `bytes` each, in the order of the keys: each piece begins with its least
    /// key, and readers of few keys skip pieces.
    fn encode(&self, bytes: usize) -> Vec<Bytes>;
}
