//! Those who give to a share: children with what lies below them, and endpoints that live here.

use super::lane::ByKey;
use super::places::Places;
use crate::error::Missing;
use crate::partitions::PartitionSet;
use crate::seat::{self, Standing};
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Packets of a part whose last frame has not come.
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

/// What a stream keeps of a child.
#[derive(Debug)]
pub(crate) struct Flow<P> {
    pub(crate) source: u32,
    /// Endpoints that it accounted for before: they may be in what is on its way.
    pub(crate) formerly: PartitionSet,
    /// Those of its endpoints that give nothing now, and why.
    pub(crate) away: Vec<Missing>,
    pub(crate) half: Half<P>,
    /// Packets sent down to it and not taken.
    pub(crate) to_take: VecDeque<u64>,
    /// All below it have taken what was sent down up to here, or need not.
    pub(crate) taken_upto: u64,
    /// What its filter has not given all of.
    pub(crate) holds_from: Option<u64>,
    /// Waves, by first and last key, that a lost node's filter may have kept: what comes of them is for the filter
    /// here, even where the wave is gone.
    pub(crate) carries: Option<(u64, u64)>,
    /// Up to which wave it has been told that it is behind.
    pub(crate) told_ahead: u64,
    pub(crate) place: Placed,
}

/// Where the layout has a child.
#[derive(Debug)]
pub(crate) struct Placed {
    /// Its subtree, as it was last told.
    pub(crate) places: Places,
    /// The epoch with which it was told.
    pub(crate) epoch: u64,
    /// True until it has said that it is there, when it begins anew or is new: until then nobody waits for it.
    pub(crate) begins: bool,
    /// Waves with earlier tags do not wait for the child's endpoints. Packets with those tags went down before it joined.
    pub(crate) first_tag: u64,
    /// True while the filter knows it.
    pub(crate) is_in_filter: bool,
    /// When the front-end was last told that it is gone, or heard again.
    pub(crate) reported_at: Option<Instant>,
}

/// A child in a stream, and what lies below it. No two have an endpoint in common, and none takes itself any.
pub(crate) type Child<P> = seat::Child<Flow<P>>;

impl<P> Child<P> {
    /// True while everyone waits for it to say that it takes part, or for those below it to have another parent.
    pub(crate) fn is_awaited(&self) -> bool {
        self.standing() == Standing::Asked && !self.more.place.begins || self.leaves_orphans()
    }

    /// True when it is lost, and the layout has yet to say whose its children are.
    pub(crate) fn leaves_orphans(&self) -> bool {
        self.standing() == Standing::Gone && !self.is_leaf()
    }

    /// True when what these have sent may come from it: they are its, or were until just now.
    pub(crate) fn accounted_for(&self, contributors: &PartitionSet) -> bool {
        contributors.is_subset(&self.answers_for)
            || contributors.difference(&self.answers_for).is_subset(&self.more.formerly)
    }

    /// True when it may have sent something in this lane.
    pub(crate) fn has_lane(&self, lane: u32) -> bool {
        let Some(endpoint) = lane.checked_sub(1) else { return true };
        self.answers_for.contains(endpoint) || self.more.formerly.contains(endpoint)
    }

    /// The layout has another subtree for it.
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

/// An endpoint that lives here.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) endpoint: u32,
    pub(crate) next_tag: u64,
    pub(crate) next_serial: u64,
    /// The bytes of what it sent and is not settled.
    pub(crate) in_flight: ByKey<usize>,
    pub(crate) in_flight_bytes: usize,
    /// What it has sent since its last packet that was marked as urgent.
    pub(crate) unmarked_bytes: usize,
    /// Packets that it has been given and not taken.
    pub(crate) to_take: VecDeque<u64>,
}
