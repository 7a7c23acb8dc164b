//! The rule of placement: which nodes hold a partition, as a pure function of the candidates.
//!
//! Weighted rendezvous hashing: each candidate draws a score for each partition from a hash of both names, and the
//! partition belongs to the candidates with the best scores. A candidate that joins takes partitions only for itself, and
//! a candidate that leaves gives up only its own; no partition moves between two others. A candidate with twice the
//! weight gets twice the partitions: its score is `-ln(u) / weight` for a uniform `u`, and the lowest one wins (the
//! minimum of exponential variables with these rates).
//!
//! Replicas are chosen one after the other. The next one is the best candidate outside the zones of those before it; if
//! there is none, the best one outside their racks; if there is none either, the best one.

use crate::id::{NodeId, PartitionId};
use crate::partitions::PartitionSet;
use crate::random::hashed;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

/// A node that can hold partitions of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// The hash of its lasting name.
    pub key: u64,
    /// Its zone; empty if unknown.
    pub zone: String,
    /// Its rack; empty if unknown.
    pub rack: String,
    /// Its share of the partitions: its processors.
    pub weight: u32,
    /// Partitions that an operator has placed on it.
    pub pinned: PartitionSet,
    /// Partitions that it must not hold.
    pub refused: PartitionSet,
}

/// The hash of a node's lasting name: of `name`, or of its address if that is empty.
pub fn key_of(name: &str, node: NodeId) -> u64 {
    if name.is_empty() { hash_of(&node.addr.to_string()) } else { hash_of(name) }
}

fn hash_of(text: &str) -> u64 {
    text.bytes().fold(1, |hash, byte| hashed([hash, u64::from(byte)]))
}

/// The candidates of each partition of a service, the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Indexes of candidates; partition `p` has those from `ends[p - 1]` to `ends[p]`.
    chosen: Vec<u16>,
    ends: Vec<u32>,
}

impl Assignment {
    /// Assigns each of `total` partitions to as many as `replicas` of the candidates.
    ///
    /// The order of the candidates does not matter. Fewer are chosen if there are fewer that do not refuse a partition.
    pub fn new(service: &str, total: u32, replicas: u32, candidates: &[Candidate]) -> Self {
        let candidates = &candidates[..candidates.len().min(u16::MAX.into())];
        let service = hash_of(service);
        let is_even = candidates.windows(2).all(|pair| pair[0].weight == pair[1].weight);
        let weigh = |candidate: &Candidate, partition: PartitionId| {
            // 53 bits above 0 and below 1
            let hash = hashed([service, candidate.key, partition.into()]) >> 11;
            let uniform = (hash as f64 + 0.5) / (1u64 << 53) as f64;
            if is_even { -uniform } else { -libm::log(uniform) / f64::from(candidate.weight.max(1)) }
        };
        let mut assignment = Self::default();
        let mut scores = Vec::with_capacity(candidates.len());
        for partition in 0..total {
            scores.clear();
            scores.extend(candidates.iter().map(|candidate| weigh(candidate, partition)));
            let from = assignment.chosen.len();
            for _ in 0..replicas {
                let before = &assignment.chosen[from..];
                let Some(next) = next_best(candidates, &scores, before, partition) else { break };
                assignment.chosen.push(next);
            }
            assignment.ends.push(assignment.chosen.len() as u32);
        }
        assignment
    }

    /// Indexes of the candidates of a partition, the best first.
    pub fn of(&self, partition: PartitionId) -> &[u16] {
        let at = partition as usize;
        let Some(&end) = self.ends.get(at) else { return &[] };
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.chosen[from as usize..end as usize]
    }

    /// The partitions of one candidate.
    pub fn held_by(&self, candidate: usize) -> PartitionSet {
        let holds =
            |&partition: &PartitionId| self.of(partition).iter().any(|&at| usize::from(at) == candidate);
        (0..self.ends.len() as u32).filter(holds).collect()
    }
}

/// The best candidate for the next replica of a partition.
fn next_best(
    candidates: &[Candidate],
    scores: &[f64],
    before: &[u16],
    partition: PartitionId,
) -> Option<u16> {
    let rank = |at: usize| {
        let candidate = &candidates[at];
        let nearness = before.iter().map(|&other| nearness(candidate, &candidates[usize::from(other)])).max();
        (!candidate.pinned.contains(partition), nearness.unwrap_or(0))
    };
    let is_free = |at: &usize| {
        let candidate = &candidates[*at];
        !before.contains(&(*at as u16))
            && (candidate.pinned.contains(partition) || !candidate.refused.contains(partition))
    };
    let compare = |&a: &usize, &b: &usize| {
        let scores = scores[a].partial_cmp(&scores[b]).unwrap_or(Ordering::Equal);
        rank(a).cmp(&rank(b)).then(scores).then_with(|| candidates[a].node.cmp(&candidates[b].node))
    };
    (0..candidates.len()).filter(is_free).min_by(compare).map(|at| at as u16)
}

/// 2 in one rack, 1 in one zone, 0 apart. Unknown places are apart.
fn nearness(a: &Candidate, b: &Candidate) -> u8 {
    let shares_zone = a.zone == b.zone;
    if shares_zone && !a.rack.is_empty() && a.rack == b.rack {
        2
    } else {
        u8::from(shares_zone && !a.zone.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec;
    use proptest::prelude::*;

    fn candidate(number: u16, zone: &str, weight: u32) -> Candidate {
        let node =
            NodeId::new(core::net::SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 7700)), 1);
        Candidate {
            node,
            key: key_of("", node),
            zone: zone.into(),
            rack: String::new(),
            weight,
            pinned: PartitionSet::default(),
            refused: PartitionSet::default(),
        }
    }

    /// The nodes that hold each partition.
    fn holders(total: u32, replicas: u32, candidates: &[Candidate]) -> Vec<BTreeSet<NodeId>> {
        let assignment = Assignment::new("search", total, replicas, candidates);
        let nodes =
            |partition| assignment.of(partition).iter().map(|&at| candidates[usize::from(at)].node).collect();
        (0..total).map(nodes).collect()
    }

    proptest! {
        #[test]
        fn nobody_but_a_newcomer_gains_partitions(nodes in 1u16..12, replicas in 1u32..4, zones in 1u16..4, uneven: bool) {
            let weight = |number: u16| if uneven { 1 + u32::from(number) % 3 } else { 4 };
            let all: Vec<_> = (0..=nodes)
                .map(|number| candidate(number, &format!("z{}", number % zones), weight(number)))
                .collect();
            let (newcomer, before) = all.split_last().unwrap();
            if zones > 1 {
                // Zones must be spread again when one gets its first node.
                prop_assume!(before.len() >= usize::from(zones));
            }
            let (was, is) = (holders(64, replicas, before), holders(64, replicas, &all));
            for (was, is) in was.iter().zip(&is) {
                let gained: Vec<_> = is.difference(was).filter(|&&node| node != newcomer.node).collect();
                // With zones, a newcomer may put another zone's node into the place of the one it has replaced.
                prop_assert!(gained.is_empty() || zones > 1 && gained.len() < replicas as usize, "{gained:?}");
                prop_assert!(is.len() == (replicas as usize).min(all.len()));
            }
        }

        #[test]
        fn order_of_the_candidates_does_not_matter(nodes in 1u16..10, turn in 0usize..10, replicas in 1u32..4) {
            let mut all: Vec<_> = (0..nodes).map(|number| candidate(number, "", 1 + u32::from(number))).collect();
            let before = holders(32, replicas, &all);
            all.rotate_left(turn % usize::from(nodes));
            prop_assert_eq!(before, holders(32, replicas, &all));
        }
    }

    #[test]
    fn replicas_are_in_different_zones_and_racks_while_there_are_enough() {
        let mut all: Vec<_> =
            (0..9).map(|number| candidate(number, ["a", "b", "c"][usize::from(number % 3)], 1)).collect();
        for (number, candidate) in all.iter_mut().enumerate() {
            candidate.rack = format!("r{}", number / 3);
        }
        let zone = |node: &NodeId| all.iter().find(|candidate| candidate.node == *node).unwrap().zone.clone();
        for held in holders(200, 3, &all) {
            assert_eq!(held.iter().map(zone).collect::<BTreeSet<_>>().len(), 3);
        }
        let place = |node: &NodeId| {
            let at = all.iter().find(|candidate| candidate.node == *node).unwrap();
            (at.zone.clone(), at.rack.clone())
        };
        for held in holders(200, 6, &all) {
            assert_eq!(held.iter().map(place).collect::<BTreeSet<_>>().len(), 6, "all racks differ");
        }
    }

    #[test]
    fn weights_are_shares() {
        let all = vec![candidate(0, "", 1), candidate(1, "", 2), candidate(2, "", 5)];
        let assignment = Assignment::new("search", 16_000, 1, &all);
        let shares: Vec<f64> = (0..3).map(|at| assignment.held_by(at).len() as f64 / 16_000.0).collect();
        for (share, expected) in shares.iter().zip([0.125, 0.25, 0.625]) {
            assert!((share - expected).abs() < 0.02, "{shares:?}");
        }
    }

    #[test]
    fn pins_go_first_and_refusals_are_kept() {
        let mut all: Vec<_> = (0..4).map(|number| candidate(number, "", 1)).collect();
        all[2].pinned = PartitionSet::first(8);
        all[0].refused = PartitionSet::first(64);
        let assignment = Assignment::new("search", 64, 2, &all);
        assert!((0..8).all(|partition| assignment.of(partition)[0] == 2));
        assert!(assignment.held_by(0).is_empty());
        let spared = Assignment::new("search", 64, 2, &all[3..]);
        assert_eq!(spared.of(0), [0], "fewer candidates than replicas");
        all.iter_mut().for_each(|candidate| candidate.refused = PartitionSet::first(64));
        assert_eq!(Assignment::new("search", 64, 2, &all).of(0), [2], "a pin outweighs a refusal");
        assert!(Assignment::new("search", 64, 2, &all).of(63).is_empty());
        assert!(Assignment::new("search", 64, 2, &[]).of(0).is_empty());
    }

    #[test]
    fn a_name_outlives_its_address() {
        let (before, after) = (candidate(1, "", 1).node, candidate(2, "", 1).node);
        assert_eq!(key_of("pod-1", before), key_of("pod-1", after));
        assert_ne!(key_of("", before), key_of("", after));
    }
}
