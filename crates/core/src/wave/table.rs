//! The waves that this node takes part in, and the state that a wave may borrow while it changes.

use crate::call::slices::{LocalKey, SlicedLocal};
use crate::config::NodeConfig;
use crate::id::NodeId;
use crate::message::Payload;
use crate::node::context::Context;
use crate::push::table::Pushes;
use crate::schedule::retry_budget::RetryBudget;
use crate::time::Instant;
use crate::wave::keep::Kept;
use crate::wave::open::OpenWaves;
use crate::wave::state::Wave;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The waves that this node takes part in.
pub(crate) struct Waves<P> {
    pub(crate) open: OpenWaves<P>,
    pub(crate) kept: Kept<P>,
    pub(crate) kept_armed: Option<Instant>,
    /// Locals that run once for all slices of a call.
    pub(crate) sliced: BTreeMap<LocalKey, SlicedLocal<P>>,
    pub(crate) retry_budget: RetryBudget,
    pub(crate) hedge_budget: RetryBudget,
    /// Callers' waves that have ended, which [`Calls`](crate::call::table::Calls) judges before the next
    /// input.
    pub(crate) ended: Vec<Box<Wave<P>>>,
}

impl<P: Payload> Waves<P> {
    pub(crate) fn new(config: &NodeConfig) -> Self {
        Self {
            open: OpenWaves::new(config.seed),
            kept: Kept::new(config.limits.waves_kept_max, config.limits.kept_bytes_max, config.seed),
            kept_armed: None,
            sliced: BTreeMap::new(),
            retry_budget: RetryBudget::new(),
            hedge_budget: RetryBudget::of_hedges(config.tuning.hedge_share),
            ended: Vec::new(),
        }
    }
}

impl<P> Waves<P> {
    /// The nodes and clients that wait for the answers of open waves.
    pub(crate) fn parents(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.open.iter().filter_map(|wave| wave.seat.parent.node())
    }
}

/// The state that a wave may borrow while it is out of its table and changes. Input about waves is handled
/// here.
pub(crate) struct Desk<'n, P> {
    pub(crate) cx: &'n mut Context<P>,
    pub(crate) waves: &'n mut Waves<P>,
    pub(crate) pushes: &'n mut Pushes<P>,
}
