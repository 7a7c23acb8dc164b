//! The calls of which this node is the front.

use super::caller::{OpenCall, Requester};
use super::quota::OpenWaves;
use super::trees::FormedTrees;
use crate::id::WaveId;
use crate::time::Instant;
use alloc::collections::BTreeMap;

/// The calls of which this node is the front.
#[derive(Debug)]
pub(crate) struct Calls<P> {
    pub(crate) open: BTreeMap<WaveId, OpenCall<P>>,
    /// The number of waves.
    pub(crate) waves: OpenWaves,
    pub(crate) requests: BTreeMap<Requester, WaveId>,
    /// Calls and slices of calls since the node's start.
    pub(crate) started: u64,
    /// When a call last asked for the loads of the nodes that answer.
    pub(crate) news_asked_at: Option<Instant>,
    /// The trees for the next calls.
    pub(super) trees: FormedTrees,
}

impl<P> Default for Calls<P> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            waves: OpenWaves::default(),
            requests: BTreeMap::new(),
            started: 0,
            news_asked_at: None,
            trees: FormedTrees::default(),
        }
    }
}
