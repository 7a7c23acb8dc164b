//! Topologies: the processes of a stream network, their hosts, and their parents.
//!
//! A call's tree is formed from the current load and lasts as long as the call. A stream network lasts as
//! long as the tool that uses it, and its user chooses the hosts of its processes: MRNet's *process topology*
//! (Roth, Arnold, Miller, SC'03, §2.6). The front-end is the root, back-ends are the leaves, and the inner
//! processes between them fold the waves.
//!
//! This module opens no sockets or files. Its inputs are texts; its outputs are topologies, problems and
//! drawings.
//!
//! - [`parse`]: parses a topology file to a [`Topology`] or to all of its problems ([`problem`],
//!   [`excerpt`]). `lex` has the tokens, and `graph` builds the tree from the parents.
//! - [`mod@write`]: writes a topology as a text that parses to the same topology.
//! - [`host`]: names and ranges of them (`node[01-16]`). `runs` finds such ranges in a row of processes.
//! - [`generate`]: topologies of a given layout over given hosts. [`ssh_config`] reads hosts from an ssh
//!   configuration.
//! - [`draw`]: drawings as text, DOT or SVG. [`stats`]: counts.
//!
//! Like core's tree, a topology is a row of processes in preorder, each with the size of its subtree. A
//! subtree is therefore a slice of the same row. Giving an inner process its part copies nothing, and a long
//! chain cannot overflow a stack.

pub mod draw;
pub mod excerpt;
pub mod generate;
mod graph;
pub mod host;
mod lex;
pub mod parse;
pub mod problem;
mod runs;
pub mod ssh_config;
pub mod stats;
pub mod write;

pub use problem::{Place, Problem, ProblemKind, Problems};

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use treefold_core::limits::Limits;
use treefold_core::tree::TREE_NODES_MAX;

/// Limits of a topology and of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most processes.
    pub processes_max: usize,
    /// The most children of one process.
    pub fan_out_max: usize,
    /// The most bytes of a topology file.
    pub text_bytes_max: usize,
}

impl Bounds {
    /// As many processes as one tree may have nodes, and as many children as a node can have peers besides
    /// its parent.
    pub const DEFAULT: Self = Self {
        processes_max: TREE_NODES_MAX as usize,
        fan_out_max: Limits::DEFAULT.peers_max - 1,
        text_bytes_max: 16 << 20,
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The root, which opens streams and receives their results.
    FrontEnd,
    /// A process between the root and the leaves, which folds its children's packets.
    Inner,
    /// A leaf, which answers the front-end.
    BackEnd,
}

impl Role {
    /// The role's name for people and scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::FrontEnd => "front-end",
            Self::Inner => "inner",
            Self::BackEnd => "back-end",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A process. Its host and its number on that host together are its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The host's name or address, without brackets.
    pub host: Arc<str>,
    /// Number of the process on its host. The numbers of a host need not be consecutive.
    pub index: u32,
    /// The role in the whole topology, of which this may be a part.
    pub role: Role,
    /// Number of processes in its subtree, itself included; at least 1.
    pub size: u32,
}

impl Process {
    /// The process's name, as in a topology file.
    pub fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.host, self.index)
    }
}

/// Writes `host:index`, with brackets around an IPv6 address, because its colons would be ambiguous.
fn write_name(f: &mut impl fmt::Write, host: &str, index: u32) -> fmt::Result {
    if host.contains(':') { write!(f, "[{host}]:{index}") } else { write!(f, "{host}:{index}") }
}

/// A tree of processes, or a part of one. It has at least one process.
#[derive(Clone)]
pub struct Topology {
    row: Arc<[Process]>,
    start: u32,
}

impl Topology {
    /// All processes in preorder, the root first. The other methods take positions in this row.
    pub fn processes(&self) -> &[Process] {
        let start = self.start as usize;
        &self.row[start..start + self.row[start].size as usize]
    }

    /// The topmost process: the front-end, unless this is a part.
    pub fn root(&self) -> &Process {
        &self.row[self.start as usize]
    }

    /// The positions of a process's children, first to last.
    ///
    /// # Panics
    /// If there is no process at this position.
    pub fn children_of(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.processes();
        let end = at + row[at].size as usize;
        let first = Some(at + 1).filter(|&child| child < end);
        std::iter::successors(first, move |&child| {
            Some(child + row[child].size as usize).filter(|&next| next < end)
        })
    }

    /// The position of each process's parent, in one pass; `None` for the root.
    pub fn parents(&self) -> Vec<Option<usize>> {
        let mut open: Vec<Range<usize>> = Vec::new();
        let parent_of = |(at, process): (usize, &Process)| {
            close_before(&mut open, at);
            let parent = open.last().map(|subtree| subtree.start);
            open.push(at..at + process.size as usize);
            parent
        };
        self.processes().iter().enumerate().map(parent_of).collect()
    }

    /// Number of levels between the root and each process, in one pass.
    pub fn depths(&self) -> Vec<usize> {
        let mut open: Vec<Range<usize>> = Vec::new();
        let depth_of = |(at, process): (usize, &Process)| {
            close_before(&mut open, at);
            open.push(at..at + process.size as usize);
            open.len() - 1
        };
        self.processes().iter().enumerate().map(depth_of).collect()
    }

    /// The part with the process at this position as its root. It shares this topology's memory.
    ///
    /// # Panics
    /// If there is no process at this position.
    pub fn part(&self, at: usize) -> Self {
        assert!(at < self.processes().len(), "the topology has no process at position {at}");
        Self { row: self.row.clone(), start: self.start + at as u32 }
    }

    /// The parts below the root, one for each child: the parts that the children have to start.
    pub fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        self.children_of(0).map(|at| self.part(at))
    }

    /// The same processes as a part of a larger topology, for a process that has parsed its part from a text.
    /// The root then is an inner process, or a back-end if it has no children.
    #[must_use]
    pub fn into_part(self) -> Self {
        let mut row = self.processes().to_vec();
        row[0].role = if row.len() == 1 { Role::BackEnd } else { Role::Inner };
        Self { row: row.into(), start: 0 }
    }

    /// Arranges the processes below `root` in preorder. `children` has each process's children by number, and
    /// must reach every process from `root` at most once. Numbers that are not reached are omitted.
    fn assemble(root: u32, children: &[Vec<u32>], mut name_of: impl FnMut(u32) -> (Arc<str>, u32)) -> Self {
        let mut row: Vec<Process> = Vec::with_capacity(children.len());
        // The open processes: number, position in the row, and index of the next child.
        let mut open: Vec<(u32, usize, usize)> = Vec::new();
        let mut enter = |number: u32, row: &mut Vec<Process>, open: &mut Vec<(u32, usize, usize)>| {
            let role = match children[number as usize].is_empty() {
                _ if row.is_empty() => Role::FrontEnd,
                true => Role::BackEnd,
                false => Role::Inner,
            };
            let (host, index) = name_of(number);
            open.push((number, row.len(), 0));
            row.push(Process { host, index, role, size: 0 });
        };
        enter(root, &mut row, &mut open);
        while let Some((number, place, next)) = open.last_mut() {
            let (number, place) = (*number, *place);
            if let Some(&child) = children[number as usize].get(*next) {
                *next += 1;
                enter(child, &mut row, &mut open);
            } else {
                row[place].size = (row.len() - place) as u32;
                open.pop();
            }
        }
        Self { row: row.into(), start: 0 }
    }
}

/// Removes the subtrees that end before this position.
fn close_before(open: &mut Vec<Range<usize>>, at: usize) {
    while open.last().is_some_and(|subtree| subtree.end <= at) {
        open.pop();
    }
}

impl PartialEq for Topology {
    fn eq(&self, other: &Self) -> bool {
        self.processes() == other.processes()
    }
}

impl Eq for Topology {}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topology {{ {} }}", write::to_text(self, write::Form::Terse).replace('\n', " ").trim_end())
    }
}

#[cfg(test)]
pub(crate) mod tests;
