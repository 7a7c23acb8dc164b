//! Latency times requests in flight, the better of two (finagle's and tower's *peak EWMA*, power of two
//! choices).
//!
//! A node that has become slow must be avoided at once. A node that has become fast again may be discovered
//! slowly. So the average of a node's latencies is *sensitive to peaks*: a higher sample replaces it, and a
//! lower one only pulls the average down, the more so the more time has passed since the last sample:
//!
//! ```text
//!   sample above the average:  average = sample
//!   else:                      average = average·w + sample·(1 − w),  w = exp(−elapsed / 10 s)
//! ```
//!
//! The cost of a node is this average × (this front's partitions in flight there + 1). Of two random replicas
//! of a partition, the cheaper is chosen.
//!
//! A front measures only nodes that answer it directly and only for themselves. The head of a tree answers
//! for its whole subtree, so its time says little about the head, and the other nodes answer to the head. For
//! these nodes the front uses the latency that each node reports of itself. It also does so if the node's
//! last sample is older than [`DECAY`]. If neither is known, it uses the expected cost of the call's local.

use super::choice::{Choice, Wanted};
use super::in_flight::InFlight;
use super::least_loaded::{Among, Cost, choose as choose_least};
use crate::id::NodeId;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;

/// In this time the weight of the average falls to 1/e. A node's samples that are older do not count.
pub const DECAY: Duration = Duration::from_secs(10);

/// The least latency that is assumed, so that the number in flight always makes a difference.
const LATENCY_MS_MIN: f64 = 0.001;

/// The latencies that a front has observed, by node.
#[derive(Clone, Debug, PartialEq)]
pub struct PeakEwma {
    observed: BTreeMap<NodeId, Peak>,
    peers_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Peak {
    average_ms: f64,
    as_of: Instant,
}

impl PeakEwma {
    /// No observations, for up to `peers_max` nodes.
    pub fn new(peers_max: usize) -> Self {
        Self { observed: BTreeMap::new(), peers_max: peers_max.max(1) }
    }

    /// The number of nodes that are remembered.
    pub fn remembered(&self) -> usize {
        self.observed.len()
    }

    /// Records that `node` has answered after `took`.
    pub fn observe(&mut self, node: NodeId, took: Duration, now: Instant) {
        let sample_ms = took.as_millis_f64();
        if let Some(peak) = self.observed.get_mut(&node) {
            let elapsed = peak.as_of.until(now).as_millis_f64();
            let kept = libm::exp(-elapsed / DECAY.as_millis_f64());
            let drawn_down = peak.average_ms * kept + sample_ms * (1.0 - kept);
            *peak = Peak { average_ms: drawn_down.max(sample_ms), as_of: now };
            return;
        }
        if self.observed.len() >= self.peers_max {
            let oldest = self.observed.iter().min_by_key(|(_, peak)| peak.as_of).map(|(&node, _)| node);
            oldest.map(|node| self.observed.remove(&node));
        }
        self.observed.insert(node, Peak { average_ms: sample_ms, as_of: now });
    }

    /// The latency of `node` in ms, if it was observed within [`DECAY`].
    pub fn observed_ms(&self, node: NodeId, now: Instant) -> Option<f64> {
        let peak = self.observed.get(&node)?;
        (peak.as_of.until(now) <= DECAY).then_some(peak.average_ms)
    }

    /// Forgets a node that has left or died.
    pub fn forget(&mut self, node: NodeId) {
        self.observed.remove(&node);
    }

    /// Chooses for each partition the cheaper of two random replicas. `reported` is the latency that a node
    /// reports of itself, or zero. `prior_ms` is used if neither latency is known.
    pub fn choose<'a>(
        &self,
        wanted: impl Wanted<'a>,
        in_flight: &InFlight,
        reported: impl Fn(NodeId) -> Duration,
        prior_ms: f64,
        now: Instant,
        random: &mut Random,
    ) -> Choice {
        let latency_ms = |node| {
            let reported_ms = || Some(reported(node)).filter(|it| !it.is_zero()).map(Duration::as_millis_f64);
            self.observed_ms(node, now).or_else(reported_ms).unwrap_or(prior_ms).max(LATENCY_MS_MIN)
        };
        let cost = |node, _: &mut Random| {
            let step = latency_ms(node);
            Some(Cost { now: step * (f64::from(in_flight.of(node)) + 1.0), step })
        };
        choose_least(wanted, Among::Two, cost, random)
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{Service, assert_honours, node, services, wanted};
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::START + ms(millis)
    }

    #[test]
    fn the_average_rises_at_once_and_falls_with_time() {
        let mut policy = PeakEwma::new(8);
        policy.observe(node(1), ms(10), at(0));
        policy.observe(node(1), ms(90), at(1));
        assert_eq!(policy.observed_ms(node(1), at(1)), Some(90.0));
        policy.observe(node(1), ms(10), at(2));
        assert!(
            policy.observed_ms(node(1), at(2)).unwrap() > 89.9,
            "a fast answer right after a slow one changes little"
        );
        policy.observe(node(1), ms(10), at(10_002));
        let later = policy.observed_ms(node(1), at(10_002)).unwrap();
        assert!((later - (10.0 + 80.0 / core::f64::consts::E)).abs() < 0.1, "{later}");
        assert_eq!(policy.observed_ms(node(1), at(99_999)), None, "too long ago to count");
    }

    /// How many of 100 partitions on nodes 1 and 2 each node gets.
    fn shares(
        policy: &PeakEwma,
        in_flight: &InFlight,
        reported: impl Fn(NodeId) -> Duration,
    ) -> (usize, usize) {
        let service: Service = (0..100).map(|p| (p, vec![node(1), node(2)])).collect();
        let choice = policy.choose(wanted(&service), in_flight, reported, 1.0, at(5), &mut Random::new(1));
        let share =
            |number| choice.by_node.get(&node(number)).map_or(0, crate::partitions::PartitionSet::len);
        (share(1), share(2))
    }

    #[test]
    fn four_times_as_slow_gets_a_quarter_as_much() {
        let mut policy = PeakEwma::new(8);
        policy.observe(node(1), ms(10), at(0));
        policy.observe(node(2), ms(40), at(0));
        assert_eq!(shares(&policy, &InFlight::new(), |_| Duration::ZERO), (80, 20));
    }

    #[test]
    fn unobserved_latency_is_taken_from_the_nodes_report() {
        let policy = PeakEwma::new(8);
        let reported = |who| if who == node(1) { ms(10) } else { ms(40) };
        assert_eq!(shares(&policy, &InFlight::new(), reported), (80, 20));
        assert_eq!(shares(&policy, &InFlight::new(), |_| Duration::ZERO), (50, 50));
    }

    #[test]
    fn a_node_with_much_in_flight_gets_less() {
        let mut in_flight = InFlight::new();
        let by_node = [(node(1), crate::partitions::PartitionSet::first(40))].into();
        let call = in_flight.enter(&Choice { by_node, ..Choice::default() });
        assert_eq!(shares(&PeakEwma::new(8), &in_flight, |_| Duration::ZERO), (30, 70));
        in_flight.leave(call);
    }

    proptest! {
        #[test]
        fn a_choice_honours_where_the_partitions_lie(
            service in services(),
            seen in prop::collection::vec((0_u8..12, 0_u64..500), 0..30),
            seed: u64,
        ) {
            let mut policy = PeakEwma::new(4);
            for (number, millis) in seen {
                policy.observe(node(number), ms(millis), at(millis));
                prop_assert!(policy.observed.len() <= 4);
            }
            let (random, none) = (&mut Random::new(seed), |_| Duration::ZERO);
            let choice = policy.choose(wanted(&service), &InFlight::new(), none, 1.0, at(500), random);
            assert_honours(&choice, &service);
        }
    }
}
