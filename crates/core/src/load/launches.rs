//! The work of launched waves that the load table has not yet added to its rows.
//!
//! A caller that uses a formed tree again must not walk through all nodes of the tree for each call. So a launch is
//! one entry here: its time, its costs, and the shares of all nodes, which launches of the same tree have in common. The
//! table adds the work to its rows before somebody reads them. By then, new figures include most of it, and that part is
//! passed over.

use crate::id::NodeId;
use crate::time::{Duration, Instant};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The most launches that wait for the table's next reader.
pub const LAUNCHES_MAX: usize = 1_024;

/// The part of a tree's work that one node gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The node.
    pub node: NodeId,
    /// The partitions whose locals it runs.
    pub locals: u32,
    /// The reductions that it does.
    pub reductions: u32,
}

/// A wave that was sent down a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// When it was sent.
    pub at: Instant,
    /// The expected cost of one partition's local.
    pub local: Duration,
    /// The expected cost of one reduction.
    pub reduce: Duration,
    /// The share of each node but the caller.
    pub shares: Arc<[Share]>,
}

impl Launch {
    fn work(&self, share: &Share) -> Duration {
        self.local.mul_f64(f64::from(share.locals)) + self.reduce.mul_f64(f64::from(share.reductions))
    }
}

/// Launches in the order of their times.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Launches {
    launches: Vec<Launch>,
}

impl Launches {
    pub(super) fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.launches.len() >= LAUNCHES_MAX
    }

    pub(super) fn push(&mut self, launch: Launch) {
        debug_assert!(self.launches.last().is_none_or(|last| last.at <= launch.at), "time does not run back");
        self.launches.push(launch);
    }

    /// Calls `place` once for each node, with the times and the work of all launches that gave it some.
    pub(super) fn by_node(
        &self,
        mut place: impl FnMut(NodeId, &mut dyn Iterator<Item = (Instant, Duration)>),
    ) {
        let mut rows: Vec<&Arc<[Share]>> = Vec::new();
        let mut row_of = Vec::with_capacity(self.launches.len());
        for launch in &self.launches {
            let row = rows.iter().rposition(|row| Arc::ptr_eq(row, &launch.shares)).unwrap_or(rows.len());
            if row == rows.len() {
                rows.push(&launch.shares);
            }
            row_of.push(row);
        }
        if let [shares] = &rows[..] {
            for share in shares.iter() {
                place(share.node, &mut self.launches.iter().map(|launch| (launch.at, launch.work(share))));
            }
            return;
        }
        let numbered =
            rows.iter().enumerate().flat_map(|(row, shares)| shares.iter().map(move |share| (row, share)));
        let mut shares: Vec<(usize, &Share)> = numbered.collect();
        shares.sort_unstable_by_key(|(row, share)| (share.node, *row));
        for of_node in shares.chunk_by(|(_, a), (_, b)| a.node == b.node) {
            let placements = self.launches.iter().zip(&row_of).filter_map(|(launch, row)| {
                let found = of_node.binary_search_by_key(row, |(row, _)| *row).ok()?;
                Some((launch.at, launch.work(of_node[found].1)))
            });
            place(of_node[0].1.node, &mut placements.into_iter());
        }
    }
}
