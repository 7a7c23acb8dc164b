//! Packets on their way down, as a node holds them: waiting for the filter, or kept until everyone below has taken
//! them.
//!
//! Packets that arrive together stay together. A run is kept, passed on and acknowledged as a whole, so that its cost
//! hardly depends on the number of its packets.

use super::message::StreamRun;
use crate::partitions::PartitionSet;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use smallvec::SmallVec;

/// A packet on its way down that waits for the filter, or is in it.
#[derive(Debug)]
pub(crate) struct Descent<P> {
    pub(crate) sequence: u64,
    pub(crate) tag: u64,
    pub(crate) to: Option<PartitionSet>,
    /// Weight of the packet on arrival.
    pub(crate) bytes: usize,
    /// Received packets that the filter has not finished, in reverse order.
    ///
    /// The parent's filter may have made several packets of one, or none.
    pub(crate) left: SmallVec<[P; 1]>,
    /// Packets that the filter has made so far.
    pub(crate) made: SmallVec<[P; 1]>,
}

/// Packets with consecutive sequence numbers, kept until every endpoint and child below has taken them.
#[derive(Debug)]
pub(crate) struct Descending<P> {
    /// The first and the last sequence number.
    pub(crate) due: Due,
    pub(crate) content: Content<P>,
    /// Weight of the packets on arrival, before the filter changed them: the front-end's user counts these
    /// bytes.
    pub(crate) bytes: usize,
}

/// The content of packets on their way down.
#[derive(Debug)]
pub(crate) enum Content<P> {
    /// The packets that the filters made of one packet, for some endpoints or for all.
    One { tag: u64, to: Option<PartitionSet>, packets: SmallVec<[P; 1]> },
    /// Packets for all endpoints.
    Run(Arc<StreamRun<P>>),
}

impl<P> Descending<P> {
    /// True if a packet is for some of these endpoints.
    pub(crate) fn is_for(&self, endpoints: &PartitionSet) -> bool {
        match &self.content {
            Content::One { to, .. } => to.as_ref().is_none_or(|to| to.intersects(endpoints)),
            Content::Run(_) => true,
        }
    }
}

/// The sequence numbers of packets that must be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Packets that a child or an endpoint was given and has not taken, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct ToTake(VecDeque<Due>);

impl ToTake {
    pub(crate) fn push(&mut self, due: Due) {
        self.0.push_back(due);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes all packets up to one.
    pub(crate) fn take(&mut self, upto: u64) {
        while self.0.front().is_some_and(|due| due.last <= upto) {
            self.0.pop_front();
        }
        if let Some(due) = self.0.front_mut() {
            due.first = due.first.max(upto.saturating_add(1));
        }
    }

    /// True if this packet or an earlier one has not been taken.
    pub(crate) fn lags(&self, sequence: u64) -> bool {
        self.0.front().is_some_and(|due| due.first <= sequence)
    }
}

/// The way down at one node.
///
/// Twelve fields, because a packet passes through all of them: packets that have arrived, packets that wait,
/// packets kept until they are taken, and what the parent has been told about them.
#[derive(Debug)]
pub(crate) struct Down<P> {
    /// Last down-sequence number sent before this node joined.
    pub(crate) packets_before: u64,
    /// Last down-sequence number that the front-end had sent when it made the layout that this node knows.
    ///
    /// This node need not have received all packets up to it.
    pub(crate) before_layout: u64,
    /// Last down-sequence number received from the parent, or sent by the front-end's user.
    pub(crate) received: u64,
    /// Frames of a packet whose last frame has not arrived.
    pub(crate) half: SmallVec<[P; 1]>,
    pub(crate) half_bytes: usize,
    /// Packets that wait for the filter.
    pub(crate) waiting: VecDeque<Descent<P>>,
    pub(crate) kept: VecDeque<Descending<P>>,
    /// Bytes of waiting and kept packets, by their weight on arrival.
    pub(crate) held_bytes: usize,
    /// Last down-sequence number acknowledged to the parent.
    pub(crate) told_taken: u64,
    /// Bytes that all below have taken and that have not been acknowledged yet.
    pub(crate) untold_bytes: usize,
    /// The same in packets. It shows whether there is something to acknowledge.
    pub(crate) untold_packets: usize,
    /// The largest tag that went down.
    pub(crate) tag_max: u64,
}

impl<P> Default for Down<P> {
    fn default() -> Self {
        Self {
            packets_before: 0,
            before_layout: 0,
            received: 0,
            half: SmallVec::new(),
            half_bytes: 0,
            waiting: VecDeque::new(),
            kept: VecDeque::new(),
            held_bytes: 0,
            told_taken: 0,
            untold_bytes: 0,
            untold_packets: 0,
            tag_max: 0,
        }
    }
}

impl<P> Down<P> {
    /// True if this node has dropped a packet with a later sequence number, because every awaited child took
    /// it.
    pub(crate) fn has_forgotten_after(&self, sequence: u64) -> bool {
        let kept = self.kept.front().map(|packet| packet.due.first);
        let waiting = self.waiting.front().map(|packet| packet.sequence);
        kept.or(waiting).unwrap_or(self.received.saturating_add(1)) > sequence.saturating_add(1)
    }
}
