//! The terms of the call that a wave belongs to.

use crate::params::Params;
use crate::push::PushRequest;
use crate::time::Instant;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::sync::Arc;

/// The terms of a wave, the same at every node of its tree.
///
/// Fourteen fields, because all of them come from one message. None changes but `whole`, if another parent asks.
#[derive(Clone, Debug)]
pub(crate) struct Ask<P> {
    pub(crate) slice: Slice,
    pub(crate) name: Arc<str>,
    /// The aggregation's index in the node's table; `None` at a caller that does not have the aggregation.
    pub(crate) kind: Option<u32>,
    /// The account of its application.
    pub(crate) account_id: usize,
    pub(crate) params: Params<P>,
    pub(crate) deadline_at: Instant,
    pub(crate) waiting: Waiting,
    /// The number of lost partitions above which the call is pointless.
    pub(crate) losses_max: u32,
    /// True if replicas of nodes that take longer than the 95th percentile must be asked too.
    pub(crate) hedge: bool,
    pub(crate) explain: bool,
    /// True if the answer must carry the loads of the nodes below.
    pub(crate) loads_wanted: bool,
    /// Set if workers push the locals' results, instead of this node running locals.
    pub(crate) push: Option<PushRequest>,
    /// Of the origin's waves, this many may be open, up to this one. 0 if it is not known.
    pub(crate) in_flight: u32,
    /// True if the parent cannot fold, and needs one partial.
    pub(crate) whole: bool,
}
