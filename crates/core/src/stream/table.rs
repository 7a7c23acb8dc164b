//! The streams that this node takes part in, and the parts that a stream borrows while it changes.

use super::StreamId;
use super::error::StreamError;
use super::operator::Operators;
use super::state::StreamState;
use crate::id::{NodeId, RequestId};
use crate::node::context::Context;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

/// The streams that this node takes part in.
#[derive(Debug)]
pub(crate) struct Streams<P> {
    #[allow(clippy::vec_box)]
    pub(crate) states: BTreeMap<StreamId, Box<StreamState<P>>>,
    pub(crate) operators: Operators<P>,
    /// Streams of which this node is the front-end.
    pub(crate) fronts: BTreeMap<RequestId, StreamId>,
    /// Streams that this node's user has opened since the node started.
    pub(crate) opened: u64,
    /// Largest number of packets that one endpoint of this node sent to a stream that is closed.
    pub(crate) serials_used: u64,
}

impl<P> Default for Streams<P> {
    fn default() -> Self {
        Self {
            states: BTreeMap::new(),
            operators: Operators::default(),
            fronts: BTreeMap::new(),
            opened: 0,
            serials_used: 0,
        }
    }
}

impl<P> Streams<P> {
    /// Checks that a further stream of the front-end `origin` fits. One front-end may have as many streams here as remain
    /// free for others.
    pub(crate) fn check_room(&self, origin: u64, open_max: usize) -> Result<(), StreamError> {
        let full = |limit: &str| Err(StreamError::Full { limit: limit.into() });
        let free = open_max.saturating_sub(self.states.len());
        if free == 0 {
            return full("streams_open_max");
        }
        let of_origin = StreamId { origin, sequence: 0 }..=StreamId { origin, sequence: u64::MAX };
        // The streams are counted only if they may be too many.
        if self.states.len() >= free && self.states.range(of_origin).count() >= free {
            return full("streams_open_max, the part of one front-end");
        }
        Ok(())
    }

    /// The nodes and clients that have opened streams here, or parts of streams.
    pub(crate) fn parents(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.states.values().filter_map(|state| state.seat.parent.node())
    }
}

/// Parts of the node that a stream borrows while it is out of its table and changes.
pub(crate) struct StreamDesk<'n, P> {
    pub(crate) cx: &'n mut Context<P>,
    pub(crate) streams: &'n mut Streams<P>,
}
