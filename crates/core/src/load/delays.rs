//! How long a message takes to another node and back, for trees over slow links.
//!
//! A front measures its own round trips: from a probe of a member to its acknowledgement (SWIM), and from a poll to its
//! answer, if the poll's number tells when it was sent. A client that forms its own trees polls a peer every second. A front
//! knows nothing of the delay between two other nodes, and nodes do not tell each other. The median of its round trips
//! to the nodes of a call stands for each pair of them (`between_ms`). In one building, and among sites of
//! equal distance, that is the truth. If a part of the nodes is near and another far, it is one of the two, and a tree that is
//! formed by it has a level too many or too few.
//!
//! A delay speaks for fewer levels, and bulky partials for more: the more a node receives, the longer its link is busy, and no
//! node knows how fast its link is. So delays count only for aggregations whose partials come in one flight of packets
//! ([`FLIGHT_BYTES`]). Otherwise the tree is formed as if none were known.
//!
//! A member can answer late, or guess the number of a probe and answer early. It moves its own round trip by that, which is
//! at most [`DELAY_MAX`], and the median only together with half of the call's nodes. Then a tree is flatter or deeper than it
//! should be; it costs no more to form.

use crate::id::NodeId;
use crate::time::Duration;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A shorter round trip changes no tree. Within a building the cost of a level is work, and a busy machine answers a probe
/// some tenths of a millisecond late.
pub const DELAY_MIN: Duration = Duration::from_millis(1);

/// A longer round trip counts as this.
pub const DELAY_MAX: Duration = Duration::from_secs(1);

/// The largest partial that a connection without recent traffic sends at once: ten segments of 1,460 bytes (RFC 6928).
pub const FLIGHT_BYTES: usize = 14_600;

/// The median counts if it is over half of a call's nodes, or over this many.
const KNOWN_LEAST: usize = 8;

/// A round trip has moved if it changed by more than this share, and by more than [`DELAY_MIN`].
const CHANGE_SHARE_MIN: f64 = 0.25;

/// This node's knowledge of the time that levels of a tree cost.
#[derive(Debug)]
pub(crate) struct Delays {
    round_trips: BTreeMap<NodeId, Duration>,
    /// The number of round trips from [`DELAY_MIN`] on.
    slow: usize,
    /// For each aggregation, the size of the last result, which is the partial that the root sends.
    result_bytes: BTreeMap<Arc<str>, usize>,
    moves: u64,
    peers_max: usize,
}

impl Delays {
    /// Nothing is known. Round trips to up to `peers_max` nodes are kept.
    pub(crate) fn new(peers_max: usize) -> Self {
        Self { round_trips: BTreeMap::new(), slow: 0, result_bytes: BTreeMap::new(), moves: 0, peers_max }
    }

    /// A node has answered after `took`.
    pub(crate) fn learn(&mut self, node: NodeId, took: Duration) {
        let took = took.min(DELAY_MAX);
        if self.round_trips.len() >= self.peers_max && !self.round_trips.contains_key(&node) {
            return;
        }
        let before = self.round_trips.insert(node, took).unwrap_or_default();
        self.slow += usize::from(took >= DELAY_MIN);
        self.slow -= usize::from(before >= DELAY_MIN);
        let (most, least) = (before.max(took), before.min(took));
        let change = most.saturating_sub(least);
        self.moves += u64::from(change > DELAY_MIN && change > most.mul_f64(CHANGE_SHARE_MIN));
    }

    /// Forgets a node that has left or died.
    pub(crate) fn forget(&mut self, node: NodeId) {
        let before = self.round_trips.remove(&node).unwrap_or_default();
        self.slow -= usize::from(before >= DELAY_MIN);
    }

    /// A call of this node has a result of this size.
    pub(crate) fn note_result(&mut self, name: &Arc<str>, bytes: usize) {
        let is_bulky = |bytes: usize| bytes > FLIGHT_BYTES;
        let is_other = if let Some(before) = self.result_bytes.get_mut(name) {
            is_bulky(core::mem::replace(before, bytes)) != is_bulky(bytes)
        } else {
            let has_room = self.result_bytes.len() < super::COSTS_HEARD_MAX;
            has_room && self.result_bytes.insert(name.clone(), bytes).is_none()
        };
        // Without slow links, the size of partials changes no tree.
        self.moves += u64::from(is_other && self.slow > 0);
    }

    /// A number that rises whenever a round trip has moved, or, if there are slow links, partials have become bulky or have ceased
    /// to be.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// The round trip between any two of `nodes`, in ms, for a tree of this aggregation; 0 if it does not matter or is not
    /// known.
    pub(crate) fn between_ms<'a>(&self, name: &str, nodes: impl ExactSizeIterator<Item = &'a NodeId>) -> f64 {
        // The lower one of two medians.
        let middle = |count: usize| count.saturating_sub(1) / 2;
        let known_least = KNOWN_LEAST.min(nodes.len().div_ceil(2)).max(1);
        // In a cluster of short round trips, no node is looked up.
        let is_short = self.slow < known_least - middle(known_least);
        if is_short || self.result_bytes.get(name).is_none_or(|&bytes| bytes > FLIGHT_BYTES) {
            return 0.0;
        }
        let mut known: Vec<Duration> = nodes.filter_map(|node| self.round_trips.get(node).copied()).collect();
        if known.len() < known_least {
            return 0.0;
        }
        let at = middle(known.len());
        let median = *known.select_nth_unstable(at).1;
        if median < DELAY_MIN { 0.0 } else { median.as_millis_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::adaptive::tests::node;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// The knowledge after a small result and these round trips, in ms, of nodes 0, 1, ….
    fn known(round_trips_ms: &[u64]) -> Delays {
        let mut delays = Delays::new(99);
        delays.note_result(&"s/sum".into(), 100);
        (0..).zip(round_trips_ms).for_each(|(number, &millis)| delays.learn(node(number), ms(millis)));
        delays
    }

    fn between_ms(delays: &Delays, count: usize) -> f64 {
        let nodes: Vec<NodeId> = (0..count).map(node).collect();
        delays.between_ms("s/sum", nodes.iter())
    }

    #[test]
    fn the_lower_median_of_the_round_trips_to_a_calls_nodes_counts() {
        let delays = known(&[40, 20, 30, 900]);
        assert_eq!([1, 2, 3, 4].map(|count| between_ms(&delays, count)), [40.0, 20.0, 30.0, 30.0]);
        assert_eq!(between_ms(&delays, 8), 30.0, "half of the nodes are known");
        assert_eq!(between_ms(&delays, 9), 0.0, "less than half");
        assert_eq!(between_ms(&known(&[5; 8]), 1_000), 5.0, "eight are enough");
        assert_eq!(between_ms(&known(&[]), 1), 0.0);
    }

    #[test]
    fn short_round_trips_and_bulky_partials_change_no_tree() {
        let mut delays = known(&[40; 4]);
        assert_eq!(delays.between_ms("s/other", [node(1)].iter()), 0.0, "no partial of it has come");
        delays.note_result(&"s/sum".into(), FLIGHT_BYTES + 1);
        assert_eq!(between_ms(&delays, 4), 0.0);
        delays.note_result(&"s/sum".into(), FLIGHT_BYTES);
        assert_eq!(between_ms(&delays, 4), 40.0);
        (0..4).for_each(|number| delays.learn(node(number), Duration::from_micros(999)));
        assert_eq!(between_ms(&delays, 4), 0.0);
    }

    #[test]
    fn one_member_that_lies_does_not_move_the_median_of_three() {
        for lie in [Duration::ZERO, Duration::MAX] {
            let mut delays = known(&[20, 20, 20]);
            delays.learn(node(1), lie);
            assert_eq!(between_ms(&delays, 3), 20.0);
            assert!(between_ms(&known(&[u64::MAX / 1_000_000]), 1) <= 1_000.0, "a second at most");
        }
    }

    #[test]
    fn it_never_outgrows_its_bounds() {
        let mut delays = Delays::new(3);
        (0..9).for_each(|number| delays.learn(node(number), ms(9)));
        (0..2_000).for_each(|number| delays.note_result(&alloc::format!("s/{number}").into(), 1));
        assert_eq!((delays.round_trips.len(), delays.result_bytes.len()), (3, crate::load::COSTS_HEARD_MAX));
        delays.forget(node(1));
        delays.learn(node(7), ms(9));
        assert!(delays.round_trips.contains_key(&node(7)));
    }

    #[test]
    fn a_round_trip_moves_by_more_than_a_quarter_and_a_millisecond() {
        let mut delays = known(&[]);
        let heard = [(800, 0), (1_500, 0), (4_000, 1), (5_200, 1), (7_000, 2), (6_000, 2), (2_000, 3)];
        for (micros, moves) in heard {
            delays.learn(node(1), Duration::from_micros(micros));
            assert_eq!(delays.moves(), moves, "{micros} µs");
        }
        delays.note_result(&"s/sum".into(), FLIGHT_BYTES + 1);
        assert_eq!(delays.moves(), 4, "with slow links, the size counts too");
    }
}
