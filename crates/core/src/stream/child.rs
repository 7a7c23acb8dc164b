//! The contributors at this node: children with their subtrees, and endpoints hosted by this node.

use super::descent::ToTake;
use super::lane::ByKey;
use super::places::Places;
use super::spec::Source;
use crate::error::Missing;
use crate::partitions::PartitionSet;
use crate::seat::{self, Standing};
use crate::time::Instant;
use alloc::vec::Vec;

/// Packets of a part whose last frame has not arrived.
#[derive(Debug)]
pub(crate) struct Half<P> {
    pub(crate) packets: Vec<P>,
    pub(crate) bytes: usize,
}

impl<P> Default for Half<P> {
    fn default() -> Self {
        Self { packets: Vec::new(), bytes: 0 }
    }
}

/// The state that a stream keeps for a child.
///
/// Thirteen fields, because both directions need some: packets that come up in parts, and packets down that it must take.
#[derive(Debug)]
pub(crate) struct Flow<P> {
    pub(crate) source: u32,
    /// Endpoints that the child accounted for earlier. Packets in flight may still contain them.
    pub(crate) formerly: PartitionSet,
    /// Endpoints of the child that give nothing now, with reasons.
    pub(crate) away: Vec<Missing>,
    pub(crate) half: Half<P>,
    /// Packets sent down to the child that it has not taken.
    pub(crate) to_take: ToTake,
    /// Last down-sequence number that all nodes below the child have taken or do not need.
    pub(crate) taken_upto: u64,
    /// Oldest tag of which the child's filter still holds something.
    pub(crate) holds_from: Option<u64>,
    /// First and last key of the waves that a lost node's filter may have kept.
    ///
    /// Pieces of these waves go to the filter here, even if their wave has gone.
    pub(crate) carries: Option<(u64, u64)>,
    /// The last wave in an `Ahead` message sent to the child.
    pub(crate) told_ahead: u64,
    /// True if packets may pass over the child: it knows the message that says so.
    pub(crate) hears_missed: bool,
    /// The endpoints of a child without a filter, which are sources of the filter here in its place.
    pub(crate) unfiltered: Option<PartitionSet>,
    /// When the child has said that it is slow.
    pub(crate) slow_at: Option<Instant>,
    pub(crate) place: Placed,
}

impl<P> Flow<P> {
    /// The sources of the filter here that are this child's.
    pub(crate) fn sources(&self) -> Vec<Source> {
        match &self.unfiltered {
            None => alloc::vec![Source::Child(self.source)],
            Some(endpoints) => endpoints.iter().map(Source::Endpoint).collect(),
        }
    }
}

/// A child's place in the layout.
#[derive(Debug)]
pub(crate) struct Placed {
    /// The child's subtree, as last sent to it.
    pub(crate) places: Places,
    /// The epoch of that message.
    pub(crate) epoch: u64,
    /// True for a child that is new or begins anew, until it has said that it is there. No wave waits for it
    /// until then.
    pub(crate) begins: bool,
    /// Waves with earlier tags do not wait for the child's endpoints. Packets with those tags went down
    /// before it joined.
    pub(crate) first_tag: u64,
    /// True while the filter has the child as a source.
    pub(crate) is_in_filter: bool,
    /// When the front-end was last told that the child is lost, or heard again.
    pub(crate) reported_at: Option<Instant>,
}

/// A child in a stream, with its subtree. No two children have an endpoint in common, and no child adds
/// endpoints itself.
pub(crate) type Child<P> = seat::Child<Flow<P>>;

impl<P> Child<P> {
    /// True while waves wait for the child to say that it takes part, or for its children to get another
    /// parent.
    pub(crate) fn is_awaited(&self) -> bool {
        self.standing() == Standing::Asked && !self.more.place.begins || self.leaves_orphans()
    }

    /// True if the child is lost and the layout has not yet given its children another parent.
    pub(crate) fn leaves_orphans(&self) -> bool {
        self.standing() == Standing::Gone && !self.is_leaf()
    }

    /// True if a part with these contributors may come from the child: it accounts for them, or did until
    /// recently.
    pub(crate) fn accounted_for(&self, contributors: &PartitionSet) -> bool {
        contributors.is_subset(&self.answers_for)
            || contributors.difference(&self.answers_for).is_subset(&self.more.formerly)
    }

    /// True if the child may have sent something in this lane.
    pub(crate) fn has_lane(&self, lane: u32) -> bool {
        let Some(endpoint) = lane.checked_sub(1) else { return true };
        self.answers_for.contains(endpoint) || self.more.formerly.contains(endpoint)
    }

    /// Gives the child the subtree that the layout has for it.
    pub(crate) fn seat_anew(&mut self, places: Places) {
        let answers_for = places.tree().partitions();
        self.more.formerly.union_with(&self.answers_for.difference(&answers_for));
        for loss in &mut self.more.away {
            loss.partitions = loss.partitions.intersection(&answers_for);
        }
        self.more.away.retain(|loss| !loss.partitions.is_empty());
        self.answers_for = answers_for;
        self.seat_below(places.tree().clone());
        self.more.place.places = places;
    }
}

/// An endpoint hosted by this node.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) endpoint: u32,
    pub(crate) next_tag: u64,
    pub(crate) next_serial: u64,
    /// Bytes of packets that it sent and that are not settled, by key.
    pub(crate) in_flight: ByKey<usize>,
    pub(crate) in_flight_bytes: usize,
    /// Bytes sent since its last packet that was marked as urgent.
    pub(crate) unmarked_bytes: usize,
    /// Packets that it has been given and has not taken.
    pub(crate) to_take: ToTake,
}
