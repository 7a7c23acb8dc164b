//! An index of nearest neighbours: a hierarchical navigable small world graph (Y. Malkov, D. Yashunin,
//! *Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small World
//! graphs*, 2016).
//!
//! Every row is linked to rows near it in several directions. A search walks the links greedily towards the
//! query, first on sparse upper levels, then on the base level, where it keeps the best `ef` rows. It
//! compares a few hundred rows of a million, and may miss some of the nearest.
//!
//! The graph holds links only and shares the rows with the exact search. It is ours because replicas must
//! answer alike and a call can end early: the same rows give the same graph on every machine, a walk asks
//! whether its result is still wanted, any metric is allowed (the libraries at hand reject negative
//! distances), and a filter applies while walking.
//!
//! - `build` inserts the rows (algorithms 1, 3 and 4 of the paper).
//! - `file` keeps a graph on disk.

mod build;
mod file;

pub(crate) use build::build;
pub(crate) use file::{read, write};

use crate::near::{Near, Space};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use treefold_operators::{OperatorError, Result, cancelled};

/// Levels above the base.
pub(crate) const LEVELS_MAX: u8 = 15;
/// Rows that a walk expands before it asks whether its result is still wanted.
const STEPS_PER_CHECK: usize = 64;

/// The parameters of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphOptions {
    /// Links of a row on each upper level; twice as many on the base. `M` of the paper.
    pub links: u32,
    /// Breadth of the search for a new row's neighbours. `efConstruction` of the paper.
    pub breadth: u32,
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self { links: 16, breadth: 128 }
    }
}

/// The links between the rows of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    links: usize,
    /// The row at which every search begins: one of the highest.
    entry: u32,
    /// Highest level of each row.
    levels: Vec<u8>,
    /// For each row: a number of links, and room for twice `links` of them.
    base: Vec<u32>,
    /// For each row and each of its upper levels: a number of links, and room for `links` of them.
    upper: Vec<u32>,
    /// The index of each row's first entry in `upper`, in units of one entry.
    upper_at: Vec<u32>,
}

impl Graph {
    /// A graph of rows without links.
    fn new(links: usize, levels: Vec<u8>) -> Self {
        let mut upper_at = Vec::with_capacity(levels.len());
        let mut entries = 0u32;
        for level in &levels {
            upper_at.push(entries);
            entries += u32::from(*level);
        }
        let base = vec![0; levels.len() * (2 * links + 1)];
        let upper = vec![0; entries as usize * (links + 1)];
        Self { links, entry: 0, levels, base, upper, upper_at }
    }

    /// The entry of a row on a level: the number of its links, and room for them.
    fn slot(&self, at: u32, level: u8) -> &[u32] {
        match level {
            0 => {
                let stride = 2 * self.links + 1;
                &self.base[at as usize * stride..][..stride]
            }
            _ => {
                let stride = self.links + 1;
                let entry = self.upper_at[at as usize] as usize + usize::from(level) - 1;
                &self.upper[entry * stride..][..stride]
            }
        }
    }

    fn slot_mut(&mut self, at: u32, level: u8) -> &mut [u32] {
        match level {
            0 => {
                let stride = 2 * self.links + 1;
                &mut self.base[at as usize * stride..][..stride]
            }
            _ => {
                let stride = self.links + 1;
                let entry = self.upper_at[at as usize] as usize + usize::from(level) - 1;
                &mut self.upper[entry * stride..][..stride]
            }
        }
    }

    fn neighbours(&self, at: u32, level: u8) -> &[u32] {
        let slot = self.slot(at, level);
        &slot[1..=slot[0] as usize]
    }

    /// Walks to a row of a level that is nearer than its neighbours.
    fn descend(&self, space: Space<'_>, query: &[f32], from: Near, level: u8, compared: &mut u64) -> Near {
        let mut near = from;
        loop {
            let mut nearest = near;
            for &at in self.neighbours(near.at, level) {
                *compared += 1;
                nearest = nearest.min(Near { distance: space.rank(query, at), at });
            }
            if nearest == near {
                return near;
            }
            near = nearest;
        }
    }

    /// Finds about the `breadth` rows of a level that are nearest to the query and that `accept` allows, nearest first.
    fn walk(
        &self,
        walk: &mut Walk<'_>,
        from: &[Near],
        level: u8,
        accept: impl Fn(u32) -> bool,
    ) -> Result<Vec<Near>> {
        let Walk { space, query, breadth, visited, compared } = walk;
        visited.clear();
        let mut open: BinaryHeap<Reverse<Near>> = BinaryHeap::new();
        let mut best: BinaryHeap<Near> = BinaryHeap::with_capacity(*breadth + 1);
        for near in from {
            if visited.is_new(near.at) {
                open.push(Reverse(*near));
                if accept(near.at) {
                    best.push(*near);
                }
            }
        }
        let mut steps = 0usize;
        while let Some(Reverse(near)) = open.pop() {
            let is_full = best.len() >= *breadth;
            if is_full && best.peek().is_some_and(|worst| near.distance > worst.distance) {
                break;
            }
            steps += 1;
            if steps.is_multiple_of(STEPS_PER_CHECK) && cancelled() {
                return Err(OperatorError::cancelled());
            }
            for &at in self.neighbours(near.at, level) {
                if !visited.is_new(at) {
                    continue;
                }
                **compared += 1;
                let next = Near { distance: space.rank(query, at), at };
                if best.len() < *breadth || best.peek().is_some_and(|worst| next < *worst) {
                    open.push(Reverse(next));
                    if accept(at) {
                        best.push(next);
                        if best.len() > *breadth {
                            best.pop();
                        }
                    }
                }
            }
        }
        Ok(best.into_sorted_vec())
    }

    /// Finds about the `k` nearest rows that `accept` allows, nearest first, and the number of compared rows.
    /// `breadth` is at least `k`: the more, the fewer are missed.
    ///
    /// # Errors
    /// If nobody waits for the result any longer.
    pub(crate) fn search(
        &self,
        space: Space<'_>,
        query: &[f32],
        (k, breadth): (usize, usize),
        accept: impl Fn(u32) -> bool,
    ) -> Result<(Vec<Near>, u64)> {
        if self.levels.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let mut near = Near { distance: space.rank(query, self.entry), at: self.entry };
        let mut compared = 1;
        for level in (1..=self.levels[self.entry as usize]).rev() {
            near = self.descend(space, query, near, level, &mut compared);
        }
        let mut visited = Visited::new(self.levels.len());
        let breadth = breadth.max(k);
        let mut walk = Walk { space, query, breadth, visited: &mut visited, compared: &mut compared };
        let mut found = self.walk(&mut walk, &[near], 0, accept)?;
        // Distances, and their order, are those of the exact search.
        for near in &mut found {
            near.distance = space.metric.distance(query, space.row(near.at));
        }
        found.sort_unstable();
        found.truncate(k);
        Ok((found, compared))
    }
}

/// The parameters of one walk.
struct Walk<'a> {
    space: Space<'a>,
    query: &'a [f32],
    breadth: usize,
    visited: &'a mut Visited,
    compared: &'a mut u64,
}

/// The rows that a walk has seen. Starting again costs nothing.
struct Visited {
    marks: Vec<u32>,
    walk: u32,
}

impl Visited {
    fn new(rows: usize) -> Self {
        Self { marks: vec![0; rows], walk: 0 }
    }

    fn clear(&mut self) {
        self.walk = self.walk.checked_add(1).unwrap_or_else(|| {
            self.marks.fill(0);
            1
        });
    }

    /// Marks a row. Returns false if it was marked already.
    fn is_new(&mut self, at: u32) -> bool {
        let mark = &mut self.marks[at as usize];
        let is_new = *mark != self.walk;
        *mark = self.walk;
        is_new
    }
}

#[cfg(test)]
mod tests;
