//! Snapshots: a state at a cut, for mirrors and readers that join.
//!
//! Readers get the pieces of an encoded snapshot as messages ([`reader`](crate::reader)), and mirrors in portions
//! ([`joining`](crate::joining)).

use crate::event::Name;
use crate::vector::{Cut, Lineage};
use bytes::Bytes;

/// A state at a cut, for a mirror or a reader that joins.
#[derive(Clone, Debug)]
pub struct Snapshot<F> {
    /// The place of the state.
    pub cut: Cut,
    /// The epochs that the feed continues.
    pub past: Lineage,
    /// The version of the rules that chose the last event.
    pub rules_version: u32,
    /// The incoming streams, each with the number of its last decided event.
    pub streams: Vec<(Name, u64)>,
    /// The last packets before the place, as far as a new origin would need them: sources may repeat their events.
    pub recent: Vec<Bytes>,
    /// The state.
    pub state: F,
}

impl<F> Snapshot<F> {
    /// A state at a place of which nothing else is known: that of a mirror which has applied no event.
    pub fn beginning(cut: Cut, state: F) -> Self {
        let (streams, recent) = (Vec::new(), Vec::new());
        Self { cut, past: Lineage::default(), rules_version: 0, streams, recent, state }
    }

    /// The same place with another form of the state, for instance a restored one.
    pub fn with_state<T>(&self, state: T) -> Snapshot<T> {
        let Self { cut, rules_version, .. } = *self;
        let (past, streams, recent) = (self.past.clone(), self.streams.clone(), self.recent.clone());
        Snapshot { cut, past, rules_version, streams, recent, state }
    }
}
