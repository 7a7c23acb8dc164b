//! Packets on their way down, as a node holds them: waiting for the filter, or kept until everyone below has taken
//! them.
//!
//! Packets that arrive together stay together. A run is kept, passed on and acknowledged as a whole, so that its cost
//! hardly depends on the number of its packets.

use super::message::StreamRun;
use crate::partitions::PartitionSet;
use crate::time::Instant;
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
    /// If this stands for packets that passed over this node: the first of them. `sequence` is the last.
    pub(crate) missed_from: Option<u64>,
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
    /// Packets that passed over this node.
    Missed,
}

impl<P> Descending<P> {
    /// True if a packet is for some of these endpoints.
    pub(crate) fn is_for(&self, endpoints: &PartitionSet) -> bool {
        match &self.content {
            Content::One { to, .. } => to.as_ref().is_none_or(|to| to.intersects(endpoints)),
            Content::Run(_) | Content::Missed => true,
        }
    }
}

/// Packets that must be taken: their sequence numbers, and their place among all bytes that the node passed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Weight of all packets that the node had passed on before the first of these.
    pub(crate) begins_at: u64,
    /// The same after the last of them.
    pub(crate) ends_at: u64,
}

/// Packets that a child or an endpoint was given and has not taken, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct ToTake {
    dues: VecDeque<Due>,
    /// Set while packets pass over the child or the endpoint, which then holds up nobody.
    passed: Option<Passed>,
    /// Since when it has been too far behind, and the packet that it works on if that one alone makes it so.
    behind: Option<(Instant, Option<u64>)>,
    /// The last packet that it was given, was told it missed, or that had gone down before it was there.
    gone_upto: u64,
    /// The place from which on it can be behind: it missed the packets before, or has just got them from a new parent.
    counts_from: u64,
}

/// The place at which packets began to pass over a child or an endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    /// The last packet that it was given.
    pub(crate) after: u64,
    ends_at: u64,
    /// True if a packet for it has passed over it.
    pub(crate) has_missed: bool,
}

impl ToTake {
    /// The packets of an endpoint that begins after this one. Earlier ones may still wait for the filter.
    pub(crate) fn after(upto: u64) -> Self {
        Self { gone_upto: upto, ..Self::default() }
    }

    /// The last packet that it needs no more.
    pub(crate) fn gone_upto(&self) -> u64 {
        self.gone_upto
    }

    pub(crate) fn push(&mut self, due: Due) {
        self.gone_upto = due.last;
        self.dues.push_back(due);
    }

    /// Notes that it is told it missed packets up to this one.
    pub(crate) fn miss(&mut self, upto: u64) {
        self.gone_upto = self.gone_upto.max(upto);
    }

    /// Forgives that it is behind this place.
    pub(crate) fn count_from(&mut self, place: u64) {
        self.counts_from = place;
    }

    /// Forgets all packets, and that some passed over it.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes all packets up to one. Returns the weight of the removed ones.
    pub(crate) fn take(&mut self, upto: u64) -> u64 {
        let mut bytes = 0;
        while let Some(due) = self.dues.front().filter(|due| due.last <= upto) {
            bytes += due.ends_at - due.begins_at;
            self.dues.pop_front();
        }
        if let Some(due) = self.dues.front_mut() {
            due.first = due.first.max(upto.saturating_add(1));
        }
        bytes
    }

    /// True if this packet or an earlier one has not been taken and must be.
    pub(crate) fn lags(&self, sequence: u64) -> bool {
        self.passed.is_none() && self.dues.front().is_some_and(|due| due.first <= sequence)
    }

    /// True while packets pass over it.
    pub(crate) fn is_passed(&self) -> bool {
        self.passed.is_some()
    }

    /// If packets pass over it, notes that one did, and returns true.
    pub(crate) fn passes(&mut self) -> bool {
        self.passed.iter_mut().for_each(|passed| passed.has_missed = true);
        self.passed.is_some()
    }

    /// The place up to which it has taken everything, if `sent_bytes` have been passed on.
    pub(crate) fn place(&self, sent_bytes: u64) -> u64 {
        self.dues.front().map_or(sent_bytes, |due| due.begins_at)
    }

    /// Since when it has been at least so many bytes behind this place, as far as the node has looked.
    ///
    /// The packet that it works on counts only for as long as it works on it, so that a series of packets that are
    /// larger than the limit does not put it behind.
    pub(crate) fn behind_since(&mut self, now: Instant, place: u64, bytes: u64) -> Option<Instant> {
        let reached = |at: u64| place.saturating_sub(at.max(self.counts_from)) < bytes;
        let works_on = match self.dues.front().filter(|_| self.passed.is_none()) {
            Some(due) if !reached(due.ends_at) => None,
            Some(due) if !reached(due.begins_at) => Some(due.first),
            _ => {
                self.behind = None;
                return None;
            }
        };
        let since = match self.behind {
            Some((since, before)) if works_on.is_none() || works_on == before => since,
            _ => now,
        };
        self.behind = Some((since, works_on));
        Some(since)
    }

    /// Lets packets pass over it from now on.
    pub(crate) fn pass_over(&mut self) {
        let (after, ends_at) = (self.gone_upto, self.dues.back().map(|due| due.ends_at));
        self.passed = ends_at.map(|ends_at| Passed { after, ends_at, has_missed: false });
    }

    /// Ends the passing over if at most `bytes` of the packets that it was given are not taken. It then continues at
    /// the place `sent_bytes`.
    pub(crate) fn call_back(&mut self, bytes: u64, sent_bytes: u64) -> Option<Passed> {
        let passed = self.passed?;
        let untaken = self.dues.front().map_or(0, |due| passed.ends_at - due.begins_at);
        if untaken > bytes {
            return None;
        }
        if passed.has_missed {
            // Nobody waits for these any more, and neither does a packet behind those that it missed: an endpoint says only
            // from time to time what it has taken, and then it would hold up all until the next packet.
            self.dues.clear();
        }
        self.counts_from = sent_bytes;
        self.behind = None;
        self.passed.take()
    }
}

/// How far packets have gone at a node.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// Weight of all packets that this node has passed on.
    pub(crate) sent_bytes: u64,
    /// The last packet that it has passed on.
    pub(crate) sent_upto: u64,
    /// The place of the child or endpoint that was furthest ahead when this node last looked.
    pub(crate) ahead: u64,
    /// Weight of packets sent and taken since then.
    pub(crate) unseen_bytes: u64,
    /// When it must look again, because a child or an endpoint may have been behind for too long by then.
    pub(crate) look_at: Option<Instant>,
}

/// The way down at one node.
///
/// Fourteen fields, because a packet passes through all of them: packets that have arrived, packets that wait,
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
    /// Packets have passed over this node, and its endpoints have not begun anew since.
    pub(crate) has_missed: bool,
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
    pub(crate) reach: Reach,
}

impl<P> Default for Down<P> {
    fn default() -> Self {
        Self {
            packets_before: 0,
            before_layout: 0,
            received: 0,
            has_missed: false,
            half: SmallVec::new(),
            half_bytes: 0,
            waiting: VecDeque::new(),
            kept: VecDeque::new(),
            held_bytes: 0,
            told_taken: 0,
            untold_bytes: 0,
            untold_packets: 0,
            tag_max: 0,
            reach: Reach::default(),
        }
    }
}

impl<P> Down<P> {
    /// The last packet that this node has dropped, because every awaited child took it. It keeps all later ones.
    pub(crate) fn forgotten_upto(&self) -> u64 {
        let kept = self.kept.front().map(|packet| packet.due.first);
        let waiting = self.waiting.front().map(|packet| packet.sequence);
        kept.or(waiting).map_or(self.received, |first| first.saturating_sub(1))
    }
}
