//! The sizes of a node's state for a stream, for tests and monitors that check bounds on growth.

use super::StreamId;
use super::lane::GATHERED;
use super::state::StreamState;
use super::table::Streams;
use crate::message::Payload;

/// The sizes of a node's state for a stream now.
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
    /// The sizes of each stream's state.
    pub(crate) fn work(&self) -> impl Iterator<Item = StreamWork> + '_ {
        self.states.values().map(|state| work_of(state))
    }
}

fn work_of<P: Payload>(state: &StreamState<P>) -> StreamWork {
    StreamWork {
        stream: state.terms.id,
        children: state.seat.children.len(),
        window_bytes: state.terms.window_bytes,
        unsettled_bytes: state.window.unsettled_bytes,
        held_bytes: state.window.held_bytes,
        waves_open: state.row.lanes.get(&GATHERED).map_or(0, |lane| lane.slots.len()),
        waves_begun: state.row.opened.len(),
        packets_kept: state.down.kept.len() + state.down.waiting.len(),
        cohorts: state.roll.cohorts.len(),
    }
}
