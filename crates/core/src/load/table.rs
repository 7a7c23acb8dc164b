//! What this node knows of the others' load.
//!
//! The last figure of each, with the time it came in. It may have come on a partial, by gossip or in answer
//! to a poll; the newer replaces the older. The table is bounded by the number of peers, and when a stranger
//! comes to a full table, what was heard longest ago goes: it says the least.
//!
//! A front that has just placed work on a node knows better than the node's last figure. What it *anticipates*
//! by that is added to the figure, by one plain rule:
//! * placed work counts from the moment it is placed;
//! * it runs off at the node's full speed, since a queue does: without that, a node that never has reason to
//!   announce anything would be held for ever busier;
//! * a figure that became true after the placing has it in, and puts an end to the addition; one that is newer
//!   than the last but older than the placing replaces the figure and keeps the addition.

use super::announce::corrected;
use super::figure::LoadFigure;
use crate::id::NodeId;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;

/// A figure and when it was true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What the node said.
    pub figure: LoadFigure,
    /// When it was heard, by this node's clock.
    pub as_of: Instant,
}

/// What this node has itself placed on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Placed {
    work: Duration,
    waves: u32,
    processors: u32,
    at: Instant,
}

impl Placed {
    /// What is left of it now.
    fn left(&self, now: Instant) -> Self {
        let done = self.at.until(now).mul_f64(f64::from(self.processors.max(1)));
        let work = self.work.saturating_sub(done);
        Self { work, waves: if work.is_zero() { 0 } else { self.waves }, ..*self }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Row {
    known: Option<Known>,
    placed: Placed,
}

/// The last figure of each other node, and what has been placed there since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTable {
    rows: BTreeMap<NodeId, Row>,
    peers_max: usize,
}

impl LoadTable {
    /// An empty table for up to `peers_max` nodes, at least one.
    pub fn new(peers_max: usize) -> Self {
        Self { rows: BTreeMap::new(), peers_max: peers_max.max(1) }
    }

    /// Takes in what was heard of `node`; something older than what is known changes nothing.
    pub fn learn(&mut self, node: NodeId, figure: LoadFigure, as_of: Instant) {
        let row = self.row(node);
        if row.known.is_some_and(|known| known.as_of > as_of) {
            return;
        }
        row.known = Some(Known { figure, as_of });
        if as_of > row.placed.at {
            row.placed = Placed::default();
        }
    }

    /// This node has just placed a wave of so much predicted `work` on `node`, which has so many processors.
    pub fn anticipate(&mut self, node: NodeId, work: Duration, processors: u32, now: Instant) {
        let row = self.row(node);
        let left = row.placed.left(now);
        row.placed =
            Placed { work: left.work + work, waves: left.waves.saturating_add(1), processors, at: now };
    }

    fn row(&mut self, node: NodeId) -> &mut Row {
        if !self.rows.contains_key(&node) && self.rows.len() >= self.peers_max {
            let silent_longest = self.rows.iter().min_by_key(|(_, row)| row.known.map(|known| known.as_of));
            let silent_longest = silent_longest.map(|(&node, _)| node);
            silent_longest.map(|node| self.rows.remove(&node));
        }
        self.rows.entry(node).or_default()
    }

    /// Forgets a node that has left or died.
    pub fn forget(&mut self, node: NodeId) {
        self.rows.remove(&node);
    }

    /// What `node` said last, and when.
    pub fn of(&self, node: NodeId) -> Option<Known> {
        self.rows.get(&node)?.known
    }

    /// What `node` is taken to be loaded with: what it said last, and what is anticipated. `None` when it never
    /// said anything and nothing is.
    pub fn figure(&self, node: NodeId, now: Instant) -> Option<LoadFigure> {
        let row = self.rows.get(&node)?;
        row.with_placed(row.known.map(|known| known.figure), now)
    }

    /// As [`LoadTable::figure`], with what the node said corrected at random for its age. What is anticipated
    /// this node knows at first hand: that is not corrected.
    pub fn corrected_figure(&self, node: NodeId, now: Instant, random: &mut Random) -> Option<LoadFigure> {
        let row = self.rows.get(&node)?;
        let figure = row.known.map(|Known { figure, as_of }| {
            let queued_ms = corrected(figure.queued.as_millis_f64(), now.since(as_of), random);
            LoadFigure { queued: Duration::from_millis_f64(queued_ms), ..figure }
        });
        row.with_placed(figure, now)
    }

    /// The load index of `node` in ms per processor, by [`LoadTable::corrected_figure`].
    pub fn load_ms(&self, node: NodeId, now: Instant, random: &mut Random) -> Option<f64> {
        self.corrected_figure(node, now, random).map(|figure| figure.load_ms())
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True when nothing is known of anybody.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Row {
    /// `said` with what is anticipated.
    fn with_placed(&self, said: Option<LoadFigure>, now: Instant) -> Option<LoadFigure> {
        let left = self.placed.left(now);
        if left.waves == 0 {
            return said;
        }
        let said = said.unwrap_or(LoadFigure { processors: left.processors, ..LoadFigure::default() });
        Some(LoadFigure {
            queued: said.queued + left.work,
            in_flight: said.in_flight.saturating_add(left.waves),
            ..said
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn node(number: u8) -> NodeId {
        NodeId::new(([10, 0, 0, number], 7700).into(), 1)
    }

    fn figure(queued_ms: u64) -> LoadFigure {
        LoadFigure {
            queued: Duration::from_millis(queued_ms),
            in_flight: 1,
            processors: 2,
            ..LoadFigure::default()
        }
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

    #[test]
    fn what_was_placed_counts_at_once_and_runs_off_as_it_is_worked_on() {
        let mut table = LoadTable::new(8);
        table.learn(node(1), figure(10), at(0));
        table.anticipate(node(1), Duration::from_millis(20), 2, at(5));
        let seen = |table: &LoadTable, millis| {
            let figure = table.figure(node(1), at(millis)).unwrap();
            (figure.queued.as_millis(), figure.in_flight)
        };
        assert_eq!(seen(&table, 5), (30, 2));
        table.anticipate(node(1), Duration::from_millis(20), 2, at(10));
        assert_eq!(seen(&table, 10), (40, 3), "10 of the first 20 ms were done by two processors in 5 ms");
        assert_eq!(seen(&table, 25), (10, 1), "all that was placed is done");
        assert_eq!(table.of(node(1)).unwrap().figure, figure(10), "what it said itself is kept apart");
    }

    #[test]
    fn a_figure_from_after_the_placing_has_it_in() {
        let mut table = LoadTable::new(8);
        table.anticipate(node(1), Duration::from_millis(20), 1, at(5));
        assert_eq!(table.figure(node(1), at(5)).unwrap().queued, Duration::from_millis(20));
        table.learn(node(1), figure(7), at(4));
        assert_eq!(table.figure(node(1), at(5)).unwrap().queued, Duration::from_millis(27), "said before");
        table.learn(node(1), figure(8), at(6));
        assert_eq!(table.figure(node(1), at(6)), Some(figure(8)), "said after");
    }

    #[test]
    fn who_never_said_anything_is_unknown_again_when_what_was_placed_is_done() {
        let mut table = LoadTable::new(8);
        table.anticipate(node(1), Duration::from_millis(20), 1, at(0));
        assert_eq!(table.load_ms(node(1), at(5), &mut Random::new(1)), Some(15.0));
        assert_eq!(table.figure(node(1), at(20)), None);
    }

    proptest! {
        #[test]
        fn it_never_outgrows_its_bound(heard: Vec<(u8, u16)>, peers_max in 0_usize..9) {
            let mut table = LoadTable::new(peers_max);
            for (number, millis) in heard {
                table.learn(node(number), figure(1), at(u64::from(millis)));
                table.anticipate(node(number / 2), Duration::from_millis(1), 1, at(u64::from(millis)));
                prop_assert!(table.len() <= peers_max.max(1));
            }
        }
    }
}
