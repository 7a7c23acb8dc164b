//! Topologies: which processes make up a stream network, on which hosts, and who is whose parent.
//!
//! A call's tree is formed from live load and lasts as long as the call. A stream network lasts as long as the tool
//! that uses it, and whoever starts it wants to say where its processes run: MRNet's *process topology* (Roth,
//! Arnold, Miller, SC'03, §2.6). The front-end is the root, back-ends are the leaves, and the inner processes
//! between them fold what climbs.
//!
//! Nothing here opens a socket or a file: texts come in, topologies, problems and drawings go out.
//!
//! - [`parse`]: a topology file into a [`Topology`], or all that is wrong with it ([`problem`], [`excerpt`]).
//!   `lex` has the tokens, `graph` turns who-is-above-whom into a tree.
//! - [`mod@write`]: the other way. What is written reads back as the same topology.
//! - [`host`]: names, and ranges of them (`node[01-16]`); `runs` finds such ranges again in a row of processes.
//! - [`generate`]: topologies of a given layout over given hosts; [`ssh_config`] is one place where hosts are listed.
//! - [`draw`]: as text, DOT or SVG. [`stats`]: counts.
//!
//! Like core's tree, a topology is a row of processes in preorder, each knowing the size of its subtree. A subtree
//! is then a slice of the same row: handing an inner process its part copies nothing, and no chain is too deep for
//! a stack.

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

/// What a topology may hold, and what a text may cost to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Processes, all told.
    pub processes_max: usize,
    /// Children of one process.
    pub fan_out_max: usize,
    /// Bytes of a topology file.
    pub text_bytes_max: usize,
}

impl Bounds {
    /// As many processes as one tree may have nodes, and as many children as a node has room for beside its parent.
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

/// What a process is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The root: it opens streams and takes their results.
    FrontEnd,
    /// Between the root and the leaves: it folds what its children send.
    Inner,
    /// A leaf: it answers.
    BackEnd,
}

impl Role {
    /// As people and scripts read it.
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

/// A process: its host, and the how-manieth it is there. Both together name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The host's name or address, without brackets.
    pub host: Arc<str>,
    /// Which of the host's processes; the numbers of a host need not be consecutive.
    pub index: u32,
    /// What it is there for, in the whole of which this may be a part.
    pub role: Role,
    /// Processes in its subtree, itself included; at least 1.
    pub size: u32,
}

impl Process {
    /// Its name, as in a topology file.
    pub fn name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.host, self.index)
    }
}

/// `host:index`, with brackets around an IPv6 address, whose colons would else be taken for the one that is meant.
fn write_name(f: &mut impl fmt::Write, host: &str, index: u32) -> fmt::Result {
    if host.contains(':') { write!(f, "[{host}]:{index}") } else { write!(f, "{host}:{index}") }
}

/// A tree of processes, or a part of one: at least one process.
#[derive(Clone)]
pub struct Topology {
    row: Arc<[Process]>,
    start: u32,
}

impl Topology {
    /// All processes in preorder, the root first. Places in this row are what the other methods are asked about.
    pub fn processes(&self) -> &[Process] {
        let start = self.start as usize;
        &self.row[start..start + self.row[start].size as usize]
    }

    /// The topmost process: the front-end, unless this is a part.
    pub fn root(&self) -> &Process {
        &self.row[self.start as usize]
    }

    /// The places of a process's children, first to last.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn children_of(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let row = self.processes();
        let end = at + row[at].size as usize;
        let first = Some(at + 1).filter(|&child| child < end);
        std::iter::successors(first, move |&child| {
            Some(child + row[child].size as usize).filter(|&next| next < end)
        })
    }

    /// The place of each process's parent, `None` for the root, in one pass.
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

    /// How many levels each process is below the root, in one pass.
    pub fn depths(&self) -> Vec<usize> {
        let mut open: Vec<Range<usize>> = Vec::new();
        let depth_of = |(at, process): (usize, &Process)| {
            close_before(&mut open, at);
            open.push(at..at + process.size as usize);
            open.len() - 1
        };
        self.processes().iter().enumerate().map(depth_of).collect()
    }

    /// The part below and including the process at this place. It shares this topology's memory.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn part(&self, at: usize) -> Self {
        assert!(at < self.processes().len(), "there is no process at {at}");
        Self { row: self.row.clone(), start: self.start + at as u32 }
    }

    /// The parts below the root, one for each of its children: what each child is told to start.
    pub fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        self.children_of(0).map(|at| self.part(at))
    }

    /// The same processes standing below a parent, for a process that read its part from a text: the root is then
    /// an inner process, or a back-end when it stands alone.
    #[must_use]
    pub fn into_part(self) -> Self {
        let mut row = self.processes().to_vec();
        row[0].role = if row.len() == 1 { Role::BackEnd } else { Role::Inner };
        Self { row: row.into(), start: 0 }
    }

    /// Lines up the processes below `root` in preorder. `children` are each process's by number, and reach every
    /// process from `root` at most once; numbers that aren't reached are left out.
    fn assemble(root: u32, children: &[Vec<u32>], mut name_of: impl FnMut(u32) -> (Arc<str>, u32)) -> Self {
        let mut row: Vec<Process> = Vec::with_capacity(children.len());
        // Who is open: its number, its place in the row, its next child.
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

/// Forgets the subtrees that end before this place.
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
