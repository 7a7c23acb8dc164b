//! How long requests take on this node, by how busy they found it (Prequal, NSDI'24, §4).
//!
//! A caller that compares replicas by latency needs to know how long its request would take, which depends on
//! the number of requests that are already here. So a node groups the durations of its requests by the number
//! in flight that each found on arrival. It reports the median of the requests that found about as many as
//! there are now. It reports a median because one slow partition should not determine the figure of the whole
//! node.
//!
//! The duration is the time from a call's arrival until the last of its locals on this node was done. It
//! includes queueing, but not the network and the children. A request that lost a local is not counted,
//! because failures are fast. One that was cancelled counts if it had taken longer than expected by then: a node that
//! replicas always beat would otherwise seem to have had no requests.
//!
//! * Numbers in flight are grouped by half octaves: 0, 1, 2, 3, 4–5, 6–7, 8–11, 12–15, 16–23, …
//! * Each group keeps its last [`SAMPLES_MAX`] samples. If none of the last [`STALE_AFTER`] requests fell
//!   into a group, the group is stale, and its nearest fresh neighbour is used instead.
//! * The structure is bounded and needs no clock: on an idle node, the last figures remain the best guess.

use crate::time::Duration;
use alloc::vec::Vec;

/// The number of recent requests that a group keeps.
pub const SAMPLES_MAX: usize = 15;

/// A group is stale after this many requests to other groups.
pub const STALE_AFTER: u64 = 1_024;

/// The number of groups. The last one holds everything from 3,072 in flight.
pub const GROUPS_MAX: usize = 24;

/// Durations of recent requests, by the number in flight that they found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Has entries up to the highest group that a request fell into.
    groups: Vec<Group>,
    /// The number of requests so far.
    completions: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    /// In the order in which they came; the oldest is replaced next.
    samples: [Duration; SAMPLES_MAX],
    /// The same samples, ascending.
    sorted: [Duration; SAMPLES_MAX],
    /// The number of valid samples.
    filled: usize,
    /// The index of the sample that is replaced next.
    next: usize,
    /// The value of [`Latencies::completions`] when the newest sample was added.
    newest: u64,
}

impl Latencies {
    /// No requests yet.
    pub const fn new() -> Self {
        Self { groups: Vec::new(), completions: 0 }
    }

    /// A request that found `in_flight` others had its locals done after `took`.
    pub fn observe(&mut self, in_flight: u32, took: Duration) {
        let at = group_of(in_flight);
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, Group::default);
        }
        self.completions += 1;
        // Zero would mean that the latency is unknown.
        self.groups[at].put(took.max(Duration::from_nanos(1)), self.completions);
    }

    /// A request that found `in_flight` others was cancelled after `took`.
    pub fn observe_at_least(&mut self, in_flight: u32, took: Duration) {
        if took > self.expected(in_flight) {
            self.observe(in_flight, took);
        }
    }

    /// The expected duration of a request that finds `in_flight` others; zero if there are no samples at all.
    pub fn expected(&self, in_flight: u32) -> Duration {
        let at = group_of(in_flight);
        let groups = self.groups.iter().enumerate();
        let fresh = groups.filter(|(_, group)| group.filled > 0 && !self.is_stale(group));
        fresh.min_by_key(|(group, _)| group.abs_diff(at)).map_or(Duration::ZERO, |(_, group)| group.median())
    }

    fn is_stale(&self, group: &Group) -> bool {
        self.completions - group.newest >= STALE_AFTER
    }
}

impl Group {
    fn put(&mut self, took: Duration, completion: u64) {
        let oldest = core::mem::replace(&mut self.samples[self.next], took);
        self.next = (self.next + 1) % SAMPLES_MAX;
        self.newest = completion;
        // The free place is that of the oldest sample, or behind all.
        let free = if self.filled < SAMPLES_MAX {
            self.filled += 1;
            self.filled - 1
        } else {
            self.sorted.partition_point(|&sample| sample < oldest)
        };
        let below = self.sorted[..free].partition_point(|&sample| sample <= took);
        if below < free {
            self.sorted.copy_within(below..free, below + 1);
            self.sorted[below] = took;
        } else {
            let above = &self.sorted[free + 1..self.filled];
            let end = free + above.partition_point(|&sample| sample < took);
            self.sorted.copy_within(free + 1..=end, free);
            self.sorted[end] = took;
        }
    }

    fn median(&self) -> Duration {
        self.sorted[self.filled / 2]
    }
}

/// The group of half octaves: two groups for each doubling.
fn group_of(in_flight: u32) -> usize {
    let group = match in_flight.checked_ilog2() {
        None => 0,
        Some(0) => 1,
        Some(octave) => 2 * octave + ((in_flight >> (octave - 1)) & 1),
    };
    (group as usize).min(GROUPS_MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_node_that_has_done_nothing_knows_nothing() {
        assert_eq!(Latencies::new().expected(3), Duration::ZERO);
    }

    #[test]
    fn busier_is_slower() {
        let mut latencies = Latencies::new();
        for _ in 0..20 {
            latencies.observe(0, ms(5));
            latencies.observe(8, ms(45));
        }
        assert_eq!((latencies.expected(0), latencies.expected(10)), (ms(5), ms(45)));
        assert_eq!(latencies.expected(1), ms(5), "the nearest that is known");
        assert_eq!(latencies.expected(1_000_000), ms(45));
    }

    #[test]
    fn cancelled_request_counts_only_if_it_took_longer_than_expected() {
        let mut latencies = Latencies::new();
        latencies.observe_at_least(0, ms(20));
        assert_eq!(latencies.expected(0), ms(20));
        (0..9).for_each(|_| latencies.observe_at_least(0, ms(3)));
        assert_eq!(latencies.expected(0), ms(20));
    }

    #[test]
    fn one_slow_partition_does_not_change_the_median() {
        let mut latencies = Latencies::new();
        (0..10).for_each(|i| latencies.observe(0, if i == 4 { ms(900) } else { ms(5) }));
        assert_eq!(latencies.expected(0), ms(5));
    }

    #[test]
    fn stale_groups_and_old_samples_no_longer_count() {
        let mut latencies = Latencies::new();
        latencies.observe(0, ms(900));
        (0..STALE_AFTER).for_each(|_| latencies.observe(4, ms(5)));
        assert_eq!(latencies.expected(0), ms(5));
        latencies.observe(0, ms(3));
        (0..SAMPLES_MAX).for_each(|_| latencies.observe(0, ms(2)));
        assert_eq!(latencies.expected(0), ms(2), "new samples replace old ones");
    }

    #[test]
    fn groups_are_half_octaves() {
        let groups: Vec<usize> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16].map(group_of).into();
        assert_eq!(groups, [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]);
        assert_eq!((group_of(3_071), group_of(3_072), group_of(u32::MAX)), (22, 23, 23));
    }

    proptest! {
        #[test]
        fn an_expectation_was_once_observed(
            seen in prop::collection::vec((any::<u32>(), 1_u64..1_000), 1..200),
            asked: u32,
        ) {
            let mut latencies = Latencies::new();
            seen.iter().for_each(|&(in_flight, millis)| latencies.observe(in_flight, ms(millis)));
            let expected = latencies.expected(asked);
            prop_assert!(seen.iter().any(|&(_, millis)| ms(millis) == expected));
            prop_assert!(latencies.groups.len() <= GROUPS_MAX);
        }

        #[test]
        fn a_group_reports_the_median_of_its_last_samples(millis in prop::collection::vec(1_u64..20, 1..60)) {
            let mut latencies = Latencies::new();
            for (at, &newest) in millis.iter().enumerate() {
                latencies.observe(7, ms(newest));
                let mut last = millis[(at + 1).saturating_sub(SAMPLES_MAX)..=at].to_vec();
                last.sort_unstable();
                prop_assert_eq!(latencies.expected(7), ms(last[last.len() / 2]), "after {:?}", &millis[..=at]);
            }
        }
    }
}
