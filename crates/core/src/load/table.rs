//! What this node knows of the others' load.
//!
//! The last figure of each, with the time it came in. It may have come on a partial, by gossip or in answer
//! to a poll; the newer replaces the older. The table is bounded by the number of peers, and when a stranger
//! comes to a full table, what was heard longest ago goes: it says the least.

use super::announce::corrected;
use super::figure::LoadFigure;
use crate::id::NodeId;
use crate::random::Random;
use crate::time::Instant;
use alloc::collections::BTreeMap;

/// A figure and when it was true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What the node said.
    pub figure: LoadFigure,
    /// When it was heard, by this node's clock.
    pub as_of: Instant,
}

/// The last figure of each other node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTable {
    known: BTreeMap<NodeId, Known>,
    peers_max: usize,
}

impl LoadTable {
    /// An empty table for up to `peers_max` nodes, at least one.
    pub fn new(peers_max: usize) -> Self {
        Self { known: BTreeMap::new(), peers_max: peers_max.max(1) }
    }

    /// Takes in what was heard of `node`; something older than what is known changes nothing.
    pub fn learn(&mut self, node: NodeId, figure: LoadFigure, as_of: Instant) {
        if let Some(known) = self.known.get_mut(&node) {
            if known.as_of <= as_of {
                *known = Known { figure, as_of };
            }
            return;
        }
        if self.known.len() >= self.peers_max {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.as_of);
            let oldest = oldest.map(|(&node, _)| node);
            oldest.map(|node| self.known.remove(&node));
        }
        self.known.insert(node, Known { figure, as_of });
    }

    /// Forgets a node that has left or died.
    pub fn forget(&mut self, node: NodeId) {
        self.known.remove(&node);
    }

    /// What is known of `node`.
    pub fn of(&self, node: NodeId) -> Option<Known> {
        self.known.get(&node).copied()
    }

    /// The load index of `node` in ms per processor, corrected for its age.
    pub fn load_ms(&self, node: NodeId, now: Instant, random: &mut Random) -> Option<f64> {
        self.of(node).map(|known| corrected(known.figure.load_ms(), now.since(known.as_of), random))
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True when nothing is known of anybody.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn node(number: u8) -> NodeId {
        NodeId::new(([10, 0, 0, number], 7700).into(), 1)
    }

    fn figure(queued_ms: u64) -> LoadFigure {
        LoadFigure { queued: Duration::from_millis(queued_ms), in_flight: 1, processors: 2 }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    #[test]
    fn the_newer_figure_counts() {
        let mut table = LoadTable::new(8);
        table.learn(node(1), figure(10), at(5));
        table.learn(node(1), figure(99), at(4));
        assert_eq!(table.of(node(1)), Some(Known { figure: figure(10), as_of: at(5) }));
        table.learn(node(1), figure(20), at(6));
        assert_eq!(
            table.load_ms(node(1), at(6), &mut Random::new(1)),
            Some(10.0),
            "fresh, so taken at its word"
        );
        assert_ne!(table.load_ms(node(1), at(900), &mut Random::new(1)), Some(10.0), "stale, so corrected");
        table.forget(node(1));
        assert!(table.is_empty());
        assert_eq!(table.load_ms(node(1), at(6), &mut Random::new(1)), None);
    }

    #[test]
    fn a_stranger_takes_the_place_of_who_was_silent_longest() {
        let mut table = LoadTable::new(2);
        table.learn(node(1), figure(1), at(1));
        table.learn(node(2), figure(2), at(2));
        table.learn(node(1), figure(1), at(3));
        table.learn(node(3), figure(3), at(4));
        assert!(table.of(node(2)).is_none());
        assert!(table.of(node(1)).is_some() && table.of(node(3)).is_some());
    }

    proptest! {
        #[test]
        fn it_never_outgrows_its_bound(heard: Vec<(u8, u16)>, peers_max in 0_usize..9) {
            let mut table = LoadTable::new(peers_max);
            for (number, millis) in heard {
                table.learn(node(number), figure(1), at(u64::from(millis)));
                prop_assert!(table.len() <= peers_max.max(1));
            }
        }
    }
}
