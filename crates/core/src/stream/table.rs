//! The streams that this node takes part in, and the parts that a stream borrows while it changes.

use super::StreamId;
use super::operator::Operators;
use super::state::StreamState;
use crate::id::RequestId;
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

/// Parts of the node that a stream borrows while it is out of its table and changes.
pub(crate) struct StreamDesk<'n, P> {
    pub(crate) cx: &'n mut Context<P>,
    pub(crate) streams: &'n mut Streams<P>,
}
