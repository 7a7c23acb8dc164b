//! The least loaded replica by announced load figures (random polling paper §2.1; DESIGN 4.2).
//!
//! The policy sends no polls and does not wait. It uses every figure that came at no cost, on partials and in
//! gossip. The value of a figure falls with its age, and there are two ways to deal with that:
//! * `announced` corrects a figure at random for its age ([`crate::load::announce`]), so that callers with
//!   the same figures do not all choose the same node.
//! * `announced_raw` uses figures as they are, like the paper's broadcast policy. Between two announcements,
//!   every caller chooses the node that was idle last, until it is no longer idle (flocking). The policy
//!   exists for comparison.
//!
//! A node without a figure counts as idle, because idle nodes have nothing to announce. Both policies add the
//! work that this front has placed on a node since, unless `Tuning::anticipate` is off.

use super::choice::{Choice, Wanted};
use super::least_loaded::{Among, Cost, Pace, choose as choose_least};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::load::table::LoadTable;
use crate::random::Random;
use crate::time::{Duration, Instant};

/// The loads that a front knows without polling.
#[derive(Clone, Copy, Debug)]
pub struct Announced<'a> {
    /// The figures of other nodes, settled.
    pub loads: &'a LoadTable,
    /// The front itself, which may hold replicas too, and its figure, which is never stale.
    pub own: (NodeId, LoadFigure),
    /// The present time.
    pub now: Instant,
}

/// How a figure is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As it was announced.
    Raw,
    /// Corrected at random for its age.
    Corrected,
}

impl Announced<'_> {
    /// The load of `node`, as the policy reads it.
    pub fn figure(&self, node: NodeId, reading: Reading, random: &mut Random) -> LoadFigure {
        let Self { loads, own, now } = *self;
        if node == own.0 {
            return own.1;
        }
        let figure = match reading {
            Reading::Raw => loads.figure(node, now),
            Reading::Corrected => loads.corrected_figure(node, now, random),
        };
        figure.unwrap_or_default()
    }

    /// The latency that `node` reports of itself; zero if it has reported none.
    pub fn latency(&self, node: NodeId) -> Duration {
        if node == self.own.0 {
            return self.own.1.latency;
        }
        self.loads.of(node).map_or(Duration::ZERO, |known| known.figure.latency)
    }

    /// Chooses for each partition the replica with the least load; see [`choose_least`].
    pub fn choose<'w>(
        &self,
        wanted: impl Wanted<'w>,
        reading: Reading,
        pace: Pace<'_>,
        random: &mut Random,
    ) -> Choice {
        let cost =
            |node, random: &mut Random| Some(Cost::of_load(node, self.figure(node, reading, random), pace));
        choose_least(wanted, Among::All, cost, random)
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::tests::{Service, assert_honours, node, services, wanted};
    use super::*;
    use crate::load::launches::{Launch, Share};
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use proptest::prelude::*;

    fn busy(queued_ms: u64) -> LoadFigure {
        LoadFigure { queued: Duration::from_millis(queued_ms), processors: 1, ..LoadFigure::default() }
    }

    fn at(millis: u64) -> Instant {
        Instant::START + Duration::from_millis(millis)
    }

    /// The nodes chosen for one partition by callers with different seeds.
    fn chosen(loads: &LoadTable, replicas: &[u8], reading: Reading, millis: u64) -> BTreeSet<NodeId> {
        let service: Service = vec![(0, replicas.iter().map(|&number| node(number)).collect())];
        let announced = Announced { loads, own: (node(99), busy(0)), now: at(millis) };
        let one =
            |seed| announced.choose(wanted(&service), reading, Pace::alike(1.0), &mut Random::new(seed));
        (0..100).flat_map(|seed| one(seed).by_node.into_keys()).collect()
    }

    fn three() -> LoadTable {
        let mut loads = LoadTable::new(9, 7);
        for (number, queued_ms) in [(1, 10), (2, 12), (3, 500)] {
            loads.learn(node(number), busy(queued_ms), at(0));
        }
        loads
    }

    #[test]
    fn fresh_figures_are_not_corrected() {
        assert_eq!(chosen(&three(), &[1, 2, 3], Reading::Corrected, 0), [node(1)].into());
    }

    #[test]
    fn stale_figures_spread_callers_and_raw_ones_make_them_flock() {
        let loads = three().as_told();
        assert_eq!(chosen(&loads, &[1, 2, 3], Reading::Raw, 900), [node(1)].into());
        let spread = chosen(&loads, &[1, 2, 3], Reading::Corrected, 900);
        assert!(spread.contains(&node(1)) && spread.contains(&node(2)));
        assert!(!spread.contains(&node(3)), "a factor of fifty is not forgotten in a second");
    }

    #[test]
    fn a_node_without_figure_counts_as_idle() {
        assert_eq!(chosen(&three(), &[1, 2, 7], Reading::Raw, 0), [node(7)].into());
    }

    #[test]
    fn work_that_was_just_placed_counts() {
        let mut loads = three();
        let shares = [Share { node: node(1), locals: 1, reductions: 0 }].into();
        loads.launched(Launch { at: at(0), local: Duration::from_millis(5), reduce: Duration::ZERO, shares });
        loads.settle(|_| 1);
        assert_eq!(chosen(&loads, &[1, 2], Reading::Raw, 0), [node(2)].into());
    }

    #[test]
    fn the_front_knows_its_own_load() {
        let mut loads = three();
        loads.learn(node(99), busy(700), at(0));
        assert_eq!(chosen(&loads, &[1, 99], Reading::Corrected, 0), [node(99)].into());
    }

    proptest! {
        #[test]
        fn a_choice_honours_where_the_partitions_lie(service in services(), raw: bool, seed: u64) {
            let loads = three();
            let announced = Announced { loads: &loads, own: (node(4), busy(3)), now: at(300) };
            let reading = if raw { Reading::Raw } else { Reading::Corrected };
            let choice = announced.choose(wanted(&service), reading, Pace::alike(1.0), &mut Random::new(seed));
            assert_honours(&choice, &service);
        }
    }
}
