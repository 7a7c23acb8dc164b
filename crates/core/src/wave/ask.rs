//! What a wave was asked: the terms of its call, which never change.

use crate::push::PushRequest;
use crate::time::Instant;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::sync::Arc;

/// The terms of a wave, the same at every node of its tree.
///
/// Twelve fields, because they are what one message says, and nothing changes any of them afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Ask<P> {
    pub(crate) slice: Slice,
    pub(crate) name: Arc<str>,
    /// The aggregation's place in the node's table; `None` at a caller that does not have it.
    pub(crate) kind: Option<u32>,
    /// Its application's.
    pub(crate) lane: usize,
    pub(crate) params: P,
    pub(crate) deadline_at: Instant,
    pub(crate) waiting: Waiting,
    /// How many partitions may be lost before the call is pointless.
    pub(crate) losses_max: u32,
    /// True when replicas of what is late shall be asked as well.
    pub(crate) hedge: bool,
    pub(crate) explain: bool,
    /// True when the answer shall bear the loads of those below.
    pub(crate) loads_wanted: bool,
    /// Set when locals are not run but pushed.
    pub(crate) push: Option<PushRequest>,
}
