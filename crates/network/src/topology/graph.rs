//! The parents of processes as a file states them, and the check that they form a tree.
//!
//! A process keeps the first parent that it is given, so that one mistake is reported once. If each process
//! has at most one parent, the processes form trees and cycles: one tree for each process without a parent,
//! and one cycle for each walk upwards that meets itself. A topology is one tree without a cycle. The check
//! visits each process once.

use super::problem::{Findings, ProblemKind, Span};
use super::{Bounds, Topology, write_name};
use std::collections::HashMap;
use std::sync::Arc;

/// The most processes of a cycle in its error message. The middle of a longer cycle is omitted.
const CYCLE_NAMES_MAX: usize = 8;

/// A process, by the order of first mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member(u32);

/// Processes and their parents.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Used for look-ups only. It is never iterated, because its order is random.
    by_name: HashMap<(Arc<str>, u32), Member>,
    nodes: Vec<Node>,
    children: Vec<Vec<u32>>,
}

#[derive(Debug)]
struct Node {
    host: Arc<str>,
    index: u32,
    /// The process's first mention.
    named_at: Span,
    /// The process's parent, and the place that states it.
    parent: Option<(Member, Span)>,
}

impl Graph {
    /// Returns the process of this name, and adds it if it is new.
    pub(super) fn member(&mut self, host: &Arc<str>, index: u32, at: Span) -> Member {
        let Self { by_name, nodes, children } = self;
        *by_name.entry((host.clone(), index)).or_insert_with(|| {
            nodes.push(Node { host: host.clone(), index, named_at: at, parent: None });
            children.push(Vec::new());
            Member(nodes.len() as u32 - 1)
        })
    }

    /// Number of processes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A process's name.
    pub(super) fn name(&self, member: Member) -> String {
        let node = self.node(member);
        let mut name = String::new();
        write_name(&mut name, &node.host, node.index).expect("invariant: writing to a String never fails");
        name
    }

    /// Makes `child` a child of `parent`, unless it already has a parent.
    pub(super) fn link(&mut self, parent: Member, child: Member, at: Span, findings: &mut Findings<'_>) {
        match self.node(child).parent {
            None => {
                self.nodes[child.0 as usize].parent = Some((parent, at));
                self.children[parent.0 as usize].push(child.0);
            }
            Some((known, before)) => {
                let process = self.name(child);
                let kind = if known == parent {
                    ProblemKind::DuplicateProcess { process, parent: self.name(parent) }
                } else {
                    ProblemKind::TwoParents { process, first: self.name(known), second: self.name(parent) }
                };
                findings.add_beside(at, kind, before, "listed here before");
            }
        }
    }

    /// Notes everything that prevents the processes from being a topology. Returns the root if there is no
    /// problem.
    pub(super) fn check(&self, bounds: &Bounds, findings: &mut Findings<'_>) -> Option<Member> {
        if self.nodes.is_empty() {
            findings.add(Span::WHOLE, ProblemKind::Empty);
            return None;
        }
        self.check_fan_outs(bounds, findings);
        let root = self.check_roots(findings);
        self.check_cycles(findings);
        root.filter(|_| findings.is_empty())
    }

    fn check_fan_outs(&self, bounds: &Bounds, findings: &mut Findings<'_>) {
        for (member, children) in self.members().zip(&self.children) {
            if children.len() > bounds.fan_out_max {
                let (parent, limit) = (self.name(member), bounds.fan_out_max);
                let kind = ProblemKind::FanOutTooLarge { parent, children: children.len(), limit };
                findings.add(self.node(member).named_at, kind);
            }
        }
    }

    /// Returns the first process with children and no parent, or else the first without a parent. Reports
    /// other roots.
    fn check_roots(&self, findings: &mut Findings<'_>) -> Option<Member> {
        let roots: Vec<Member> =
            self.members().filter(|&member| self.node(member).parent.is_none()).collect();
        let leads = |member: &Member| !self.children[member.0 as usize].is_empty();
        let Some(root) = roots.iter().copied().find(leads).or(roots.first().copied()) else {
            findings.add(self.nodes[0].named_at, ProblemKind::NoRoot);
            return None;
        };
        for &other in roots.iter().filter(|&&other| other != root) {
            let at = self.node(other).named_at;
            let root_at = self.node(root).named_at;
            if leads(&other) {
                let kind = ProblemKind::SeveralRoots { root: self.name(root), other: self.name(other) };
                findings.add_beside(at, kind, root_at, "the other one");
            } else {
                findings.add(at, ProblemKind::Orphan { process: self.name(other) });
            }
        }
        Some(root)
    }

    /// Walks up from each process until it reaches a root, a process of an earlier walk, or a process of the
    /// same walk.
    fn check_cycles(&self, findings: &mut Findings<'_>) {
        const UNSEEN: u32 = u32::MAX;
        let mut walk_of = vec![UNSEEN; self.nodes.len()];
        for start in self.members() {
            let mut at = Some(start);
            while let Some(member) = at.filter(|member| walk_of[member.0 as usize] == UNSEEN) {
                walk_of[member.0 as usize] = start.0;
                at = self.node(member).parent.map(|(parent, _)| parent);
            }
            if let Some(met) = at.filter(|met| walk_of[met.0 as usize] == start.0) {
                self.tell_cycle(met, findings);
            }
        }
    }

    fn tell_cycle(&self, member: Member, findings: &mut Findings<'_>) {
        let parent = |member: Member| self.node(member).parent.map(|(parent, _)| parent);
        let above = std::iter::successors(parent(member), |&at| parent(at)).take_while(|&at| at != member);
        let mut path: Vec<String> = above.map(|at| self.name(at)).collect();
        path.push(self.name(member));
        path.reverse();
        if path.len() > CYCLE_NAMES_MAX {
            path.splice(CYCLE_NAMES_MAX - 2..path.len() - 1, ["…".to_owned()]);
        }
        path.push(path[0].clone());
        let (_, said_at) = self.node(member).parent.expect("invariant: a process in a cycle has a parent");
        findings.add(said_at, ProblemKind::Cycle { path });
    }

    /// The tree below `root`, which [`Self::check`] returned.
    pub(super) fn into_topology(self, root: Member) -> Topology {
        let Self { nodes, children, .. } = self;
        Topology::assemble(root.0, &children, |number| {
            let node = &nodes[number as usize];
            (node.host.clone(), node.index)
        })
    }

    fn node(&self, member: Member) -> &Node {
        &self.nodes[member.0 as usize]
    }

    fn members(&self) -> impl Iterator<Item = Member> {
        (0..self.nodes.len() as u32).map(Member)
    }
}
