//! The sizes of a node's share of a stream, for tests and monitors that check bounds on growth.

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
    /// Children, including children that were given up and may come back.
    pub children: usize,
    /// Bytes that this node may have sent up and that are not yet settled.
    pub window_bytes: usize,
    /// Bytes that it has sent up and that are not yet settled.
    pub unsettled_bytes: usize,
    /// Bytes of pieces that wait here for the rest of their wave, or for the filter.
    pub held_bytes: usize,
    /// Waves that are coming together here.
    pub waves_open: usize,
    /// Remembered beginnings of waves, including some waves that have gone.
    pub waves_begun: usize,
    /// Packets down that some endpoint or child below has not taken.
    pub packets_kept: usize,
    /// Sets of endpoints that joined with a tag that is later than waves still open.
    pub cohorts: usize,
}

impl<P: Payload> Streams<P> {
    /// The sizes of each share.
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
