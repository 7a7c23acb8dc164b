//! How much there is of a stream at one node: for those who watch that nothing grows without bound.

use super::StreamId;
use super::lane::GATHERED;
use super::share::Share;
use super::table::Streams;
use crate::message::Payload;

/// The sizes of a node's share of a stream now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamWork {
    /// The stream.
    pub stream: StreamId,
    /// Children, those included that were given up and may come back.
    pub children: usize,
    /// What this node may have sent up and not been told to be settled.
    pub window_bytes: usize,
    /// What it has.
    pub unsettled_bytes: usize,
    /// Bytes of pieces that wait here for others of their wave, or for the filter.
    pub held_bytes: usize,
    /// Waves that come together here.
    pub waves_open: usize,
    /// Beginnings of waves that are remembered, of some that have gone among them.
    pub waves_begun: usize,
    /// Packets down that somebody below has not taken.
    pub packets_kept: usize,
    /// Endpoints' beginnings that waves may still be older than.
    pub cohorts: usize,
}

impl<P: Payload> Streams<P> {
    /// How much there is of each.
    pub(crate) fn work(&self) -> impl Iterator<Item = StreamWork> + '_ {
        self.shares.values().map(|share| work_of(share))
    }
}

fn work_of<P: Payload>(share: &Share<P>) -> StreamWork {
    StreamWork {
        stream: share.terms.id,
        children: share.seat.children.len(),
        window_bytes: share.terms.window_bytes,
        unsettled_bytes: share.window.unsettled_bytes,
        held_bytes: share.window.held_bytes,
        waves_open: share.row.lanes.get(&GATHERED).map_or(0, |lane| lane.slots.len()),
        waves_begun: share.row.opened.len(),
        packets_kept: share.down.kept.len() + share.down.waiting.len(),
        cohorts: share.roll.cohorts.len(),
    }
}
