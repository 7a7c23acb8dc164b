//! The load figures of other nodes, and how this node brings them up to date.
//!
//! For each node, the table keeps the last figure and the time at which it was true. The figure may come on a
//! partial, on another node's partial, by gossip or in the answer to a poll. A newer figure replaces an older
//! one.
//!
//! A figure is about a tenth of a second old when it is used, and by then the queue of a node with
//! fine-grained work has changed: trees formed from uncorrected figures are worse than random ones
//! (`treefold sim run calls-homogeneous`, series `adaptive:gossip`). So a figure is brought *up to date* with
//! the facts that this node knows:
//!
//! ```text
//!   queued │╲            placed here: the queue grows
//!          │ ╲        │╲╱
//!          │  ╲  ┌────╯ ╲        between: it runs off, a millisecond per millisecond and processor
//!          │   ╲╱        ╲__
//!          └──────────────────▶
//!          as of           now
//! ```
//!
//! Work that this node has placed since the figure was true is added from then on. The figure already
//! includes work placed before. Work placed by other nodes is unknown. For that, the figure is [corrected at
//! random](super::announce::corrected), more strongly the older it is, so that callers do not flock.
//!
//! The table is bounded by the number of peers. If a new node comes to a full table, the row that was updated
//! longest ago is evicted, because it says the least. A root may learn of more nodes than the table holds,
//! each once a wave. So one walk through the table collects a share of the oldest rows, and later evictions
//! take them one by one, unless they were updated in between. For each node, the last [`PLACED_MAX`]
//! placements are kept.

use super::announce::corrected;
use super::figure::LoadFigure;
use super::placed::Placed;
use crate::id::NodeId;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The number of placements that are remembered for a node.
pub const PLACED_MAX: usize = 64;

/// One walk through a full table collects one row in this many.
const OLDEST_IN: usize = 16;

/// A figure and the time at which it was true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The node's figure.
    pub figure: LoadFigure,
    /// The time at which it was true, by this node's clock.
    pub as_of: Instant,
}

/// One node's last figure, and the work placed there since.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Row {
    known: Option<Known>,
    placed: Placed,
}

/// The last figure of each other node, and the work placed there since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTable {
    rows: BTreeMap<NodeId, Row>,
    /// The oldest rows at the last walk through the table, with the time of each; the oldest is at the end.
    oldest: Vec<(Option<Instant>, NodeId)>,
    peers_max: usize,
    keeps_up: bool,
}

impl LoadTable {
    /// An empty table for up to `peers_max` nodes, at least one.
    pub fn new(peers_max: usize) -> Self {
        Self { rows: BTreeMap::new(), oldest: Vec::new(), peers_max: peers_max.max(1), keeps_up: true }
    }

    /// The same table, but without bringing figures up to date.
    #[must_use]
    pub fn as_told(self) -> Self {
        Self { keeps_up: false, ..self }
    }

    /// Stores a figure of `node`. A figure that is older than the stored one changes nothing.
    pub fn learn(&mut self, node: NodeId, figure: LoadFigure, as_of: Instant) {
        let row = self.row(node);
        if row.known.is_none_or(|known| known.as_of <= as_of) {
            row.known = Some(Known { figure, as_of });
            row.placed.include(as_of, figure.processors);
        }
    }

    /// This node has placed a wave with this predicted `work` on `node`. If there is no figure of the node, `processors` tells
    /// how many it has.
    pub fn anticipate(
        &mut self,
        node: NodeId,
        work: Duration,
        processors: impl FnOnce() -> u32,
        now: Instant,
    ) {
        if !self.keeps_up {
            return;
        }
        let row = self.row(node);
        let processors = row.known.map_or_else(processors, |known| known.figure.processors);
        row.placed.add(now, work, row.as_of(), processors);
    }

    fn row(&mut self, node: NodeId) -> &mut Row {
        if self.rows.len() >= self.peers_max && !self.rows.contains_key(&node) {
            self.evict();
        }
        self.rows.entry(node).or_default()
    }

    /// Evicts one of the rows that were updated longest ago.
    fn evict(&mut self) {
        while let Some((as_of, node)) = self.oldest.pop() {
            if self.rows.get(&node).is_some_and(|row| row.as_of() == as_of) {
                self.rows.remove(&node);
                return;
            }
        }
        let mut all: Vec<(Option<Instant>, NodeId)> =
            self.rows.iter().map(|(&node, row)| (row.as_of(), node)).collect();
        let few = all.len() / OLDEST_IN;
        if few < all.len() {
            all.select_nth_unstable(few);
        }
        all.truncate(few + 1);
        all.sort_unstable_by(|a, b| b.cmp(a));
        if let Some((_, node)) = all.pop() {
            self.rows.remove(&node);
        }
        self.oldest = all;
    }

    /// Forgets a node that has left or died.
    pub fn forget(&mut self, node: NodeId) {
        self.rows.remove(&node);
    }

    /// The last figure of `node`, and its time.
    pub fn of(&self, node: NodeId) -> Option<Known> {
        self.rows.get(&node)?.known
    }

    /// The load of `node`, brought up to date. `None` if there is no figure and all work placed there is done
    /// by now.
    pub fn figure(&self, node: NodeId, now: Instant) -> Option<LoadFigure> {
        let row = self.rows.get(&node)?;
        if self.keeps_up { row.placed.by_now(row.known, now) } else { row.known.map(|known| known.figure) }
    }

    /// Like [`LoadTable::figure`], with the node's figure corrected at random for its age. Work that this
    /// node has placed is known exactly and is not corrected.
    pub fn corrected_figure(&self, node: NodeId, now: Instant, random: &mut Random) -> Option<LoadFigure> {
        let row = self.rows.get(&node)?;
        let known = row.known.map(|Known { figure, as_of }| {
            let queued_ms = corrected(figure.queued.as_millis_f64(), now.since(as_of), random);
            let queued = Duration::from_millis_f64(queued_ms);
            Known { figure: LoadFigure { queued, ..figure }, as_of }
        });
        if self.keeps_up { row.placed.by_now(known, now) } else { known.map(|known| known.figure) }
    }

    /// The load index of `node` in ms per processor, by [`LoadTable::corrected_figure`].
    pub fn load_ms(&self, node: NodeId, now: Instant, random: &mut Random) -> Option<f64> {
        self.corrected_figure(node, now, random).map(|figure| figure.load_ms())
    }

    /// The number of nodes in the table.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Row {
    /// When the last figure was true.
    fn as_of(&self) -> Option<Instant> {
        self.known.map(|known| known.as_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            "a fresh figure is not corrected"
        );
        let stale = table.load_ms(node(1), at(8), &mut Random::new(1));
        assert_ne!(stale, Some(8.0), "a stale figure is corrected");
        assert_eq!(
            table.load_ms(node(1), at(900), &mut Random::new(1)),
            Some(0.0),
            "the queue has emptied by then"
        );
        table.forget(node(1));
        assert!(table.is_empty());
        assert_eq!(table.load_ms(node(1), at(6), &mut Random::new(1)), None);
    }

    #[test]
    fn a_new_node_evicts_the_row_that_was_updated_longest_ago() {
        let mut table = LoadTable::new(2);
        table.learn(node(1), figure(1), at(1));
        table.learn(node(2), figure(2), at(2));
        table.learn(node(1), figure(1), at(3));
        table.learn(node(3), figure(3), at(4));
        assert!(table.of(node(2)).is_none());
        assert!(table.of(node(1)).is_some() && table.of(node(3)).is_some());
    }

    #[test]
    fn evictions_in_a_row_spare_rows_that_were_updated() {
        let mut table = LoadTable::new(64);
        for number in 0..64 {
            table.learn(node(number), figure(1), at(u64::from(number)));
        }
        table.learn(node(100), figure(1), at(100));
        table.learn(node(1), figure(1), at(101));
        table.learn(node(102), figure(1), at(102));
        let gone: Vec<u8> = (0..64).filter(|&number| table.of(node(number)).is_none()).collect();
        assert_eq!((gone, table.len()), (alloc::vec![0, 2], 64));
    }

    fn queued_ms(table: &LoadTable, millis: u64) -> u64 {
        table.figure(node(1), at(millis)).map_or(0, |figure| figure.queued.as_millis())
    }

    #[test]
    fn queued_work_drains_and_placed_work_is_added() {
        let mut table = LoadTable::new(8);
        table.learn(node(1), figure(40), at(0));
        assert_eq!(queued_ms(&table, 5), 30, "two processors");
        table.anticipate(node(1), Duration::from_millis(20), || 2, at(5));
        assert_eq!((queued_ms(&table, 5), queued_ms(&table, 10)), (50, 40));
        assert_eq!(queued_ms(&table, 90), 0);
        table.anticipate(node(1), Duration::from_millis(20), || 2, at(90));
        assert_eq!(queued_ms(&table, 95), 10, "an idle queue does not fall below zero");
        assert_eq!(
            table.of(node(1)).map(|known| known.figure),
            Some(figure(40)),
            "the figure itself is kept"
        );
    }

    #[test]
    fn a_figure_includes_only_work_placed_before_it() {
        let mut table = LoadTable::new(8);
        table.learn(node(1), figure(10), at(0));
        table.anticipate(node(1), Duration::from_millis(20), || 2, at(2));
        table.anticipate(node(1), Duration::from_millis(30), || 2, at(6));
        table.learn(node(1), figure(26), at(4));
        assert_eq!(queued_ms(&table, 6), 22 + 30);
    }

    #[test]
    fn a_table_as_told_does_not_update_figures() {
        let mut table = LoadTable::new(8).as_told();
        table.learn(node(1), figure(40), at(0));
        table.anticipate(node(1), Duration::from_millis(20), || 2, at(5));
        assert_eq!(queued_ms(&table, 900), 40);
    }

    #[test]
    fn a_node_without_figure_is_unknown_again_after_its_work() {
        let mut table = LoadTable::new(8);
        table.anticipate(node(1), Duration::from_millis(20), || 1, at(0));
        assert_eq!(table.load_ms(node(1), at(5), &mut Random::new(1)), Some(15.0));
        assert_eq!(table.figure(node(1), at(20)), None);
    }

    proptest! {
        #[test]
        fn it_never_outgrows_its_bound(heard: Vec<(u8, u16)>, peers_max in 0_usize..9) {
            let mut table = LoadTable::new(peers_max);
            for (number, millis) in heard {
                table.learn(node(number), figure(1), at(u64::from(millis)));
                table.anticipate(node(number / 2), Duration::from_millis(1), || 1, at(u64::from(millis)));
                prop_assert!(table.len() <= peers_max.max(1));
            }
        }
    }
}
