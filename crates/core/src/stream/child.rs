//! Those who give to a share: children with what lies below them, and endpoints that live here.

use super::lane::ByKey;
use crate::error::Missing;
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::seat::{self, Standing};
use crate::time::Instant;
use crate::tree::{Seat, Tree};
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

/// What a child was asked, and how often in vain.
#[derive(Debug)]
pub(crate) struct Asking {
    /// The term of what it was last asked. What answers an earlier one it said before it heard of that.
    pub(crate) term: u64,
    /// The term of what made it a child, again or for the first time. With the answer it sends all that is not settled,
    /// and once only, whatever it is asked besides.
    pub(crate) attach_term: u64,
    /// When it was last asked to come back, and how often in vain.
    pub(crate) back_at: Instant,
    pub(crate) times: u32,
    /// True when it has been told its part anew because it was given up, or is new.
    pub(crate) rejoins: bool,
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
    /// What its filter has not given all of.
    pub(crate) holds_from: Option<u64>,
    /// Waves, by first and last key, that a lost node's filter may have kept: what comes of them is for the filter
    /// here, even where the wave is gone.
    pub(crate) carries: Option<(u64, u64)>,
    /// Up to which wave it has been told that it is behind.
    pub(crate) told_ahead: u64,
    pub(crate) asking: Asking,
}

impl<P> Flow<P> {
    /// The child is given up: what it was about to give or take is of no use. Gives what it said of those away below it.
    pub(crate) fn forget(&mut self, now: Instant) -> Vec<Missing> {
        self.half = Half::default();
        self.to_take.clear();
        self.holds_from = None;
        self.carries = None;
        self.told_ahead = 0;
        self.asking.back_at = now;
        core::mem::take(&mut self.away)
    }
}

/// A child in a stream, and what lies below it. No two have an endpoint in common, and none takes itself any.
pub(crate) type Child<P> = seat::Child<Flow<P>>;

impl<P> Child<P> {
    /// True while everyone waits for it to say that it takes part.
    pub(crate) fn is_awaited(&self) -> bool {
        self.standing() == Standing::Asked && !self.more.asking.rejoins
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

    /// Takes endpoints from it.
    pub(crate) fn release(&mut self, gone: &PartitionSet) {
        if !self.answers_for.intersects(gone) {
            return;
        }
        self.more.formerly.union_with(&self.answers_for.intersection(gone));
        self.answers_for = self.answers_for.difference(gone);
        self.seat_below(without(self.tree(), gone));
        self.more.away.iter_mut().for_each(|loss| loss.partitions = loss.partitions.difference(gone));
        self.more.away.retain(|loss| !loss.partitions.is_empty());
    }

    /// Gives it endpoints to account for.
    pub(crate) fn grant(&mut self, endpoints: &PartitionSet) {
        self.answers_for.union_with(endpoints);
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

/// The same tree, where these endpoints are nobody's.
pub(crate) fn without(tree: &Tree, gone: &PartitionSet) -> Tree {
    let pruned = |seat: &Seat| Seat { partitions: seat.partitions.difference(gone), ..seat.clone() };
    let row = tree.seats().iter().map(pruned).collect();
    Tree::from_preorder(row).expect("invariant: who sits below whom is as it was")
}

/// The same tree without the subtrees of those who sit elsewhere, and these.
pub(crate) fn cut(tree: &Tree, is_elsewhere: impl Fn(NodeId) -> bool) -> (Tree, Vec<Tree>) {
    let row = tree.seats();
    let (mut kept, mut places, mut cut) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(seat) = row.get(at) {
        let end = at + seat.size as usize;
        if at == 0 || !is_elsewhere(seat.node) {
            kept.push(seat.clone());
            places.push(at);
            at += 1;
            continue;
        }
        let above = |place: &usize| place + row[*place].size as usize >= end;
        let above = places.iter().zip(&mut kept).filter(|(place, _)| above(place));
        above.for_each(|(_, holder)| holder.size -= seat.size);
        cut.push(
            Tree::from_preorder(row[at..end].to_vec()).expect("invariant: a subtree is a slice of the row"),
        );
        at = end;
    }
    (Tree::from_preorder(kept).expect("invariant: all that held a subtree have shrunk by it"), cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    fn node(number: u16) -> NodeId {
        NodeId::new(SocketAddr::from(([10, 0, 0, 1], number)), 1)
    }

    fn inner(number: u16, children: &[Tree]) -> Tree {
        Tree::join(node(number), [u32::from(number)].into_iter().collect(), children)
    }

    #[test]
    fn a_tree_is_cut_where_somebody_sits_elsewhere() {
        let moved = inner(3, &[inner(4, &[]), inner(5, &[])]);
        let tree = inner(1, &[inner(2, &[moved.clone(), inner(6, &[])]), inner(7, &[])]);
        let (kept, cut) = cut(&tree, |at| [node(1), node(3), node(4), node(7)].contains(&at));
        assert_eq!(kept, inner(1, &[inner(2, &[inner(6, &[])])]));
        assert_eq!(cut, [moved, inner(7, &[])]);
    }
}
