//! Topologies as pictures. This module arranges a topology in rows; [`text`], [`dot`] and [`svg`] draw the
//! rows.
//!
//! A row is a process, or a group of similar leaves: neighbours below one parent whose names form a range. A
//! drawing of ten thousand processes then has one or two pages, and its shape is visible. Rows are in
//! preorder. Their number is limited, and omitted processes are counted.

pub mod dot;
pub mod svg;
pub mod text;

use super::runs::runs_of;
use super::{Role, Topology};

/// Default number of rows of a drawing.
pub const ROWS_MAX: usize = 1_000;

/// Options of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether similar leaves share a row.
    pub together: bool,
    /// The most rows; at least one.
    pub rows_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { together: true, rows_max: ROWS_MAX }
    }
}

/// A topology, arranged in rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawing {
    rows: Vec<Row>,
    processes: usize,
    /// Number of processes after the last row.
    left_out: usize,
}

/// A process, or a group of similar leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    /// Number of processes in this row.
    count: usize,
    role: Role,
    depth: usize,
    /// Index of the parent's row.
    parent: Option<usize>,
    /// Whether no sibling follows.
    is_last: bool,
}

impl Row {
    /// The name, and the number of processes if there are several.
    fn label(&self) -> String {
        match self.count {
            1 => self.name.clone(),
            count => format!("{} ×{count}", self.name),
        }
    }
}

/// A row that has not been added, and the position of the process whose children follow it.
struct Pending {
    row: Row,
    place: Option<usize>,
}

impl Drawing {
    /// Arranges a topology in rows.
    pub fn of(topology: &Topology, options: Options) -> Self {
        let processes = topology.processes().len();
        let mut rows: Vec<Row> = Vec::new();
        let mut drawn = 0;
        let root = topology.root();
        let name = root.name();
        let row = Row { name, count: 1, role: root.role, depth: 0, parent: None, is_last: true };
        let mut pending = vec![Pending { row, place: Some(0) }];
        while let Some(next) = pending.pop().filter(|_| rows.len() < options.rows_max.max(1)) {
            let (at, depth) = (rows.len(), next.row.depth);
            drawn += next.row.count;
            rows.push(next.row);
            if let Some(place) = next.place {
                let mut below = rows_below(topology, place, options.together);
                below
                    .iter_mut()
                    .for_each(|child| (child.row.depth, child.row.parent) = (depth + 1, Some(at)));
                pending.extend(below.into_iter().rev());
            }
        }
        Self { rows, processes, left_out: processes - drawn }
    }

    /// The line after the last row, if processes were omitted.
    fn remainder(&self) -> Option<String> {
        match self.left_out {
            0 => None,
            left_out => Some(format!("… and {left_out} more processes")),
        }
    }
}

/// The rows directly below the process at a position. The caller sets their depth and parent.
fn rows_below(topology: &Topology, place: usize, together: bool) -> Vec<Pending> {
    let all = topology.processes();
    let children: Vec<usize> = topology.children_of(place).collect();
    let is_leaf = |&at: &usize| all[at].size == 1;
    let row = |name, count, role| Row { name, count, role, depth: 0, parent: None, is_last: false };
    let mut below: Vec<Pending> = Vec::new();
    for group in children.chunk_by(|a, b| together && is_leaf(a) && is_leaf(b)) {
        let first = &all[group[0]];
        if group.len() == 1 {
            below.push(Pending { row: row(first.name(), 1, first.role), place: Some(group[0]) });
            continue;
        }
        let runs = runs_of(group.iter().map(|&at| &all[at])).into_iter();
        below.extend(runs.map(|run| Pending { row: row(run.text, run.count, first.role), place: None }));
    }
    if let Some(last) = below.last_mut() {
        last.row.is_last = true;
    }
    below
}

#[cfg(test)]
mod tests;
