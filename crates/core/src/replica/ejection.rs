//! Nodes that fail repeatedly are passed over for a while (Envoy's outlier ejection; Prequal, NSDI'24, §4).
//!
//! A node that fails fast looks idle: it has nothing queued, nothing in flight, and answers at once. Every
//! policy that compares nodes would send it everything. So a front counts each node's consecutive errors, and
//! after [`ERRORS_MAX`] errors the node is *ejected*: passed over for one second, then, if it continues to
//! fail, for two, four, up to half a minute. The first success after an ejection resets the error count. The
//! number of ejections is forgotten once the node has worked well for [`EJECTED_MAX`].
//!
//! The front itself may be at fault (a parameter that every local rejects, a partitioned network). So of the
//! replicas of one partition at most half are passed over: those with the longest remaining ejection. A
//! partition's only replica is always asked.

use super::choice::Wanted;
use crate::id::{NodeId, PartitionId};
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// The number of consecutive errors that eject a node.
pub const ERRORS_MAX: u32 = 5;

/// The duration of a node's first ejection. Each further one lasts twice as long.
pub const EJECTED_FIRST: Duration = Duration::from_secs(1);

/// The longest duration of an ejection.
pub const EJECTED_MAX: Duration = Duration::from_secs(30);

/// The number of doublings after which the duration is [`EJECTED_MAX`] in any case.
const DOUBLINGS_MAX: u32 = 5;

/// Nodes that have failed, and nodes that are passed over for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Only nodes with errors or ejections.
    records: BTreeMap<NodeId, Record>,
    /// The end of the last ejection. After it, no lookups are necessary.
    all_clear_at: Instant,
    /// The number of errors that a node keeps when its ejection ends.
    errors_kept: u32,
    peers_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    errors: u32,
    ejections: u32,
    ejected_until: Instant,
    last_at: Instant,
}

impl Ejection {
    /// No failures yet. Up to `peers_max` nodes are remembered.
    pub fn new(peers_max: usize) -> Self {
        Self {
            records: BTreeMap::new(),
            all_clear_at: Instant::START,
            errors_kept: 0,
            peers_max: peers_max.max(1),
        }
    }

    /// Like [`Ejection::new`], but a node that returns is ejected again at its first error, until it has
    /// succeeded once.
    pub fn with_probation(peers_max: usize) -> Self {
        Self { errors_kept: ERRORS_MAX - 1, ..Self::new(peers_max) }
    }

    /// The number of nodes that are remembered.
    pub fn remembered(&self) -> usize {
        self.records.len()
    }

    /// Records that `node` has failed. Returns true if this ejects it.
    pub fn note_error(&mut self, node: NodeId, now: Instant) -> bool {
        if !self.records.contains_key(&node) && self.records.len() >= self.peers_max {
            let oldest = self.records.iter().min_by_key(|(_, record)| record.last_at).map(|(&node, _)| node);
            oldest.map(|node| self.records.remove(&node));
        }
        let fresh = Record { errors: 0, ejections: 0, ejected_until: Instant::START, last_at: now };
        let record = self.records.entry(node).or_insert(fresh);
        record.last_at = now;
        if now < record.ejected_until {
            // The node was asked although it is ejected, because at most half of the replicas are passed
            // over.
            return false;
        }
        record.errors += 1;
        if record.errors < ERRORS_MAX {
            return false;
        }
        let doubled = EJECTED_FIRST.mul_f64(f64::from(1_u32 << record.ejections.min(DOUBLINGS_MAX)));
        record.ejected_until = now + doubled.min(EJECTED_MAX);
        record.ejections += 1;
        record.errors = self.errors_kept;
        self.all_clear_at = self.all_clear_at.max(record.ejected_until);
        true
    }

    /// Records that `node` has succeeded.
    pub fn note_success(&mut self, node: NodeId, now: Instant) {
        let Some(record) = self.records.get_mut(&node) else { return };
        record.errors = 0;
        if record.ejections == 0 || record.ejected_until + EJECTED_MAX <= now {
            self.records.remove(&node);
        }
    }

    /// Forgets a node that has left or died.
    pub fn forget(&mut self, node: NodeId) {
        self.records.remove(&node);
    }

    /// True while `node` is ejected.
    pub fn is_ejected(&self, node: NodeId, now: Instant) -> bool {
        self.ejected_until(node, now).is_some()
    }

    /// True if no node is ejected.
    pub fn is_clear(&self, now: Instant) -> bool {
        now >= self.all_clear_at
    }

    /// The partitions with their replicas, without the replicas that are passed over. `None` while no node is
    /// ejected, which is nearly always; then no partition is looked at.
    pub fn spare<'a>(&self, wanted: impl Wanted<'a>, now: Instant) -> Option<Spared> {
        if self.is_clear(now) {
            return None;
        }
        let mut spared = Spared { nodes: Vec::new(), rows: Vec::new() };
        for (partition, replicas) in wanted {
            let start = spared.nodes.len();
            spared.nodes.extend_from_slice(replicas);
            self.pass_over(&mut spared.nodes, start, now);
            spared.rows.push((partition, start..spared.nodes.len()));
        }
        Some(spared)
    }

    /// Removes ejected nodes from `nodes[start..]`, at most half of them.
    fn pass_over(&self, nodes: &mut Vec<NodeId>, start: usize, now: Instant) {
        let replicas = &nodes[start..];
        let mut out: Vec<(Instant, NodeId)> =
            replicas.iter().filter_map(|&node| Some((self.ejected_until(node, now)?, node))).collect();
        out.sort_unstable_by_key(|&row| Reverse(row));
        out.truncate(replicas.len() / 2);
        if out.is_empty() {
            return;
        }
        let mut kept = start;
        for at in start..nodes.len() {
            if !out.iter().any(|&(_, node)| node == nodes[at]) {
                nodes.swap(kept, at);
                kept += 1;
            }
        }
        nodes.truncate(kept);
    }

    fn ejected_until(&self, node: NodeId, now: Instant) -> Option<Instant> {
        self.records.get(&node).map(|record| record.ejected_until).filter(|&until| now < until)
    }
}

/// Partitions and their replicas, without the replicas that are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spared {
    /// The replicas of all partitions, one row after the other.
    nodes: Vec<NodeId>,
    rows: Vec<(PartitionId, Range<usize>)>,
}

impl Spared {
    /// The input for a policy.
    pub fn wanted(&self) -> impl Wanted<'_> {
        self.rows.iter().map(|(partition, row)| (*partition, &self.nodes[row.clone()]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{Service, node, services, wanted};
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    /// Reports errors until the node is ejected.
    fn eject(ejection: &mut Ejection, number: u8, millis: u64) {
        while !ejection.note_error(node(number), at(millis)) {}
    }

    /// How long an ejection at this time lasts.
    fn lasts(ejection: &Ejection, number: u8, millis: u64) -> Duration {
        at(millis).until(ejection.ejected_until(node(number), at(millis)).expect("it is ejected"))
    }

    #[test]
    fn on_probation_one_error_is_enough_until_the_first_success() {
        let mut ejection = Ejection::with_probation(8);
        eject(&mut ejection, 1, 0);
        assert!(ejection.note_error(node(1), at(1_001)), "it came back after a second, and failed at once");
        assert_eq!(lasts(&ejection, 1, 1_001), EJECTED_FIRST.mul_f64(2.0));
        ejection.note_success(node(1), at(3_002));
        assert!(!ejection.note_error(node(1), at(3_003)), "it has succeeded in between");
    }

    #[test]
    fn five_errors_in_a_row_eject() {
        let mut ejection = Ejection::new(8);
        for error in 1..=5 {
            assert_eq!(ejection.note_error(node(1), at(0)), error == 5);
        }
        assert!(ejection.is_ejected(node(1), at(999)) && !ejection.is_ejected(node(1), at(1_000)));
        let mut not_in_a_row = Ejection::new(8);
        for _ in 0..20 {
            (0..4).for_each(|_| assert!(!not_in_a_row.note_error(node(1), at(0))));
            not_in_a_row.note_success(node(1), at(0));
        }
    }

    #[test]
    fn each_ejection_lasts_twice_as_long_up_to_half_a_minute() {
        let mut ejection = Ejection::new(8);
        let mut millis = 0;
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            eject(&mut ejection, 1, millis);
            assert_eq!(lasts(&ejection, 1, millis), Duration::from_secs(seconds));
            millis += 1_000 * seconds;
        }
        ejection.note_success(node(1), at(millis + 1_000));
        eject(&mut ejection, 1, millis + 2_000);
        assert_eq!(
            lasts(&ejection, 1, millis + 2_000),
            EJECTED_MAX,
            "one success does not shorten the next ejection"
        );
        ejection.note_success(node(1), at(millis + 70_000));
        eject(&mut ejection, 1, millis + 71_000);
        assert_eq!(lasts(&ejection, 1, millis + 71_000), EJECTED_FIRST, "half a minute of success does");
    }

    #[test]
    fn the_longest_ejections_are_passed_over_first() {
        let mut ejection = Ejection::new(8);
        eject(&mut ejection, 1, 0);
        eject(&mut ejection, 2, 100);
        let service: Service = vec![
            (0, vec![node(1)]),
            (1, vec![node(1), node(2)]),
            (2, vec![node(1), node(2), node(3), node(4)]),
            (3, vec![node(3), node(4)]),
            (4, vec![]),
        ];
        let spared = ejection.spare(wanted(&service), at(200)).expect("some nodes are ejected");
        let rows: Vec<Vec<NodeId>> = spared.wanted().map(|(_, row)| row.to_vec()).collect();
        let expected: [&[u8]; 5] = [&[1], &[1], &[3, 4], &[3, 4], &[]];
        assert_eq!(rows, expected.map(|row| row.iter().map(|&number| node(number)).collect::<Vec<_>>()));
        assert_eq!(ejection.spare(wanted(&service), at(5_000)), None, "no node is ejected any longer");
    }

    proptest! {
        #[test]
        fn at_most_half_of_the_replicas_are_passed_over(
            service in services(),
            failing in prop::collection::vec((0_u8..12, 0_u64..900), 0..12),
        ) {
            let mut ejection = Ejection::new(64);
            failing.iter().for_each(|&(number, millis)| {
                (0..ERRORS_MAX).for_each(|_| { ejection.note_error(node(number), at(millis)); });
            });
            let Some(spared) = ejection.spare(wanted(&service), at(900)) else { return Ok(()) };
            prop_assert_eq!(spared.wanted().count(), service.len());
            for ((partition, left), (wanted, replicas)) in spared.wanted().zip(&service) {
                prop_assert_eq!(partition, *wanted);
                prop_assert!(left.len() >= replicas.len().div_ceil(2));
                prop_assert!(left.iter().all(|node| replicas.contains(node)));
                let healthy = replicas.iter().filter(|node| !ejection.is_ejected(**node, at(900)));
                prop_assert!(healthy.into_iter().all(|node| left.contains(node)), "only ejected nodes are passed over");
            }
        }

        #[test]
        fn it_never_outgrows_its_bound(errors: Vec<(u8, u16)>, peers_max in 0_usize..9) {
            let mut ejection = Ejection::new(peers_max);
            for (number, millis) in errors {
                ejection.note_error(node(number), at(millis.into()));
                prop_assert!(ejection.records.len() <= peers_max.max(1));
            }
        }
    }
}
