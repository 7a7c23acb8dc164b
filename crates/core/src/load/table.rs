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
//!
//! Launches wait beside the rows until the table is read ([`launches`](super::launches)): its reader calls
//! [`LoadTable::settle`] first.

use super::announce::{corrected, worth_announcing};
use super::figure::LoadFigure;
use super::launches::{Launch, Launches};
use super::placed::Placed;
use crate::hash::IdHash;
use crate::id::NodeId;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::mem;
use hashbrown::HashMap;

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
    /// The figure that was the last to move.
    moved_to: LoadFigure,
}

/// The last figure of each other node, and the work placed there since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadTable {
    rows: HashMap<NodeId, Row, IdHash>,
    /// The oldest rows at the last walk through the table, with the time of each; the oldest is at the end.
    oldest: Vec<(Option<Instant>, NodeId)>,
    /// Work that the rows lack.
    launches: Launches,
    /// Figures that have moved.
    moves: u64,
    peers_max: usize,
    keeps_up: bool,
}

impl LoadTable {
    /// An empty table for up to `peers_max` nodes, at least one. The hashes of nodes are keyed with `seed`.
    pub fn new(peers_max: usize, seed: u64) -> Self {
        Self {
            rows: HashMap::with_hasher(IdHash::new(seed)),
            oldest: Vec::new(),
            launches: Launches::default(),
            moves: 0,
            peers_max: peers_max.max(1),
            keeps_up: true,
        }
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
            if worth_announcing(row.moved_to, figure) {
                row.moved_to = figure;
                self.moves += 1;
            }
        }
    }

    /// A number that rises whenever a node's figure has moved so far that a node would announce it.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// This node has sent a wave down a tree. The work is added to the figures of the tree's nodes when the table is
    /// [settled](Self::settle). Returns true if that is due, because no more launches may wait.
    pub fn launched(&mut self, launch: Launch) -> bool {
        if self.keeps_up {
            self.launches.push(launch);
        }
        self.launches.is_full()
    }

    /// Adds the work of all launches to the rows. If there is no figure of a node, `processors` tells how many it has.
    pub fn settle(&mut self, processors: impl Fn(NodeId) -> u32) {
        if self.launches.is_empty() {
            return;
        }
        let launches = mem::take(&mut self.launches);
        launches.by_node(|node, placements| {
            // A figure includes the work that was placed before it.
            let as_of = self.rows.get(&node).and_then(Row::as_of);
            let mut later = placements.filter(|&(at, _)| as_of.is_none_or(|as_of| at >= as_of)).peekable();
            if later.peek().is_none() {
                return;
            }
            let row = self.row(node);
            let processors = row.known.map_or_else(|| processors(node), |known| known.figure.processors);
            later.for_each(|(at, work)| row.placed.add(at, work, as_of, processors));
        });
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

    /// Forgets a node that has left or died. Settle the table before; otherwise launches bring the node back.
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
mod tests;
