//! News in circulation: each piece is passed on a fixed number of times, attached to datagrams that are sent
//! anyway.
//!
//! foca can carry custom broadcasts itself. It is not used for that, for four reasons: its handler lives
//! inside it, out of reach without a lock; a datagram with a garbage tail would already have changed the
//! members; cards and load figures would share one count of transmissions; and each arrival walks the whole
//! backlog, while a hundred nodes announce two hundred figures a second.
//!
//! There is one piece per node: a newer one replaces the older one. The piece sent least often goes first,
//! then the oldest.

use super::datagram::Draft;
use crate::id::NodeId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Pieces that may be passed over in one datagram because they do not fit.
const MISFITS_MAX: usize = 8;

/// Times sent, then order of arrival.
type Rank = (u8, u64);

/// Pieces of news of one kind, at most one per node.
pub(super) struct Rumours<T> {
    queue: BTreeMap<Rank, (NodeId, T)>,
    ranks: BTreeMap<NodeId, Rank>,
    arrivals: u64,
}

impl<T> Rumours<T> {
    pub(super) const fn new() -> Self {
        Self { queue: BTreeMap::new(), ranks: BTreeMap::new(), arrivals: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Starts to pass on `piece`. An earlier piece about `node` is dropped.
    pub(super) fn insert(&mut self, node: NodeId, piece: T) {
        self.remove(&node);
        let rank = (0, self.arrivals);
        self.arrivals += 1;
        self.queue.insert(rank, (node, piece));
        self.ranks.insert(node, rank);
    }

    pub(super) fn remove(&mut self, node: &NodeId) {
        if let Some(rank) = self.ranks.remove(node) {
            self.queue.remove(&rank);
        }
    }

    /// Adds to `draft` the pieces that fit. A piece that was added `transmissions` times is dropped.
    pub(super) fn fill(
        &mut self,
        draft: &mut Draft,
        transmissions: u8,
        mut put: impl FnMut(&mut Vec<u8>, &NodeId, &T),
    ) {
        let mut taken = Vec::new();
        let mut misfits = 0;
        for (&rank, (node, piece)) in &self.queue {
            if draft.add(|out| put(out, node, piece)) {
                taken.push(rank);
            } else {
                misfits += 1;
                if misfits > MISFITS_MAX {
                    break;
                }
            }
        }
        for rank in taken {
            let (node, piece) = self.queue.remove(&rank).expect("taken from this very queue");
            let rank = (rank.0 + 1, rank.1);
            if rank.0 < transmissions {
                self.ranks.insert(node, rank);
                self.queue.insert(rank, (node, piece));
            } else {
                self.ranks.remove(&node);
            }
        }
    }
}
