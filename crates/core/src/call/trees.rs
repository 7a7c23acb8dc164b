//! The trees that a caller has formed, for its next calls.
//!
//! Forming a tree takes a caller longer than everything else that it does for a call: it finds each partition's node,
//! each node's card and figure, and sorts them. So the tree is kept, and the next call that asks the same partitions
//! of the same aggregation in the same shape uses it again, the same row of seats in memory. A tree is kept until
//! the caller's view changes, and each shape has its own rule ([`Reuse`]):
//!
//! | shape | the tree is used |
//! |---|---|
//! | base, chain, kary:K | always |
//! | flat, binomial | in turn with others, which have other roots: no root gets all calls, and yet a large cluster does not need a connection between any two nodes ([`drawn_max`]) |
//! | adaptive, earliest-ready, auto | while no load and no delay has changed enough to matter ([`Reforming`]); if none does, in turn with others too |
//! | on-path | always, if no relay is drawn and no rack's tree depends on loads; otherwise for one call |
//!
//! A call with a choice of replicas, with pushed results or with slices forms its own trees.
//!
//! Invariants: a tree here is the one that its call would form anew, except for draws and loads. Up to [`KINDS_MAX`]
//! kinds of calls have trees here, with up to [`SEATS_MAX`] seats in all; the kind that was used longest ago is evicted.

use super::CallOptions;
use super::caller::OpenCall;
use crate::id::NodeId;
use crate::load::Loads;
use crate::load::announce::worth_announcing;
use crate::load::figure::LoadFigure;
use crate::load::launches::Share;
use crate::message::Payload;
use crate::node::context::Context;
use crate::partitions::PartitionSet;
use crate::random::Random;
use crate::time::{Duration, Instant};
use crate::tree::Tree;
use crate::tree::shape::Shape;
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Kinds of calls that have trees here.
pub(super) const KINDS_MAX: usize = 32;

/// The least number of trees that are drawn for a kind of call.
const DRAWN_LEAST: usize = 8;

/// The greatest number of trees that are drawn for a kind of call.
const DRAWN_MOST: usize = 64;

/// Seats of the trees that are drawn for a kind of call, if there are more than [`DRAWN_LEAST`] trees. Each seat may
/// need a connection that no other one needs.
const DRAWN_SEATS: usize = 4_096;

/// Seats of all trees: as many as [`DRAWN_LEAST`] trees of the largest size have.
const SEATS_MAX: usize = DRAWN_LEAST * crate::tree::TREE_NODES_MAX as usize;

/// The number of trees that are drawn for calls of so many nodes: one for each root, as far as there may be as many.
fn drawn_max(nodes: usize) -> usize {
    (DRAWN_SEATS / nodes.max(1)).clamp(DRAWN_LEAST, DRAWN_MOST).min(nodes.max(1))
}

/// When a tree that depends on loads is formed anew.
///
/// The load of a node has *moved* if the node would announce its new figure: by a tenth and half a millisecond. A round
/// trip moves by a quarter and a millisecond ([`delays`](crate::load::delays)). A tree is not used again if a load or a
/// round trip has moved and the tree is older than `fresh`, or if its own calls have moved a load, by `work`. If nothing
/// moves, the next of several trees is used after every `turn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reforming {
    /// The reductions that may wait at the tree's busiest node because of the tree's calls. They run off with time.
    pub work: Duration,
    /// The time for which a tree is used although loads move.
    pub fresh: Duration,
    /// The time for which a tree is used while no load moves.
    pub turn: Duration,
    /// True if every call forms its own tree, in every shape, as the callers of the papers do.
    pub each_call: bool,
}

impl Reforming {
    /// The bounds that the simulator judged (docs/evaluation.md, "Formed trees used again").
    pub const DEFAULT: Self = Self {
        work: Duration::from_micros(100),
        fresh: Duration::from_millis(10),
        turn: Duration::from_millis(100),
        each_call: false,
    };
}

impl Default for Reforming {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// When a formed tree may be used again, as long as the view stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// It was formed for one call.
    Never,
    /// It depends on the view alone.
    Always,
    /// It depends on the view and on the relays' ejections, of which there were none.
    WithoutEjections,
    /// It was drawn.
    InTurn,
    /// It depends on loads.
    ByLoad,
}

impl Reuse {
    /// The rule of a shape other than on-path.
    pub(crate) fn of(shape: Shape) -> Self {
        match shape {
            Shape::Base | Shape::Chain | Shape::KAry(_) => Self::Always,
            Shape::Flat | Shape::Binomial => Self::InTurn,
            Shape::Auto | Shape::Adaptive | Shape::EarliestReady | Shape::OnPath(_) | Shape::Topology => {
                Self::ByLoad
            }
        }
    }

    /// The most trees of one kind of call, with so many nodes each.
    fn trees_max(self, nodes: usize) -> usize {
        match self {
            Self::Never => 0,
            Self::Always | Self::WithoutEjections => 1,
            Self::InTurn => drawn_max(nodes),
            Self::ByLoad => DRAWN_LEAST,
        }
    }
}

/// The caller's children for a call.
#[derive(Debug)]
pub(crate) struct Formed {
    pub(crate) trees: Vec<Tree>,
    /// The partitions that no node holds.
    pub(crate) unplaced: PartitionSet,
    pub(crate) relays: SmallVec<[NodeId; 4]>,
    /// The work of each node but the caller.
    pub(crate) shares: Arc<[Share]>,
    pub(crate) reuse: Reuse,
    /// The most reductions of one node.
    reductions_max: u32,
}

impl Formed {
    pub(crate) fn new(me: NodeId, trees: Vec<Tree>, unplaced: PartitionSet, reuse: Reuse) -> Self {
        // Each call that uses them again asks the same of them.
        let trees = match reuse {
            Reuse::Never => trees,
            _ => trees.into_iter().map(Tree::examined).collect(),
        };
        let seats = || trees.iter().flat_map(Tree::seats);
        let relays = seats().filter(|seat| seat.is_relay()).map(|seat| seat.node).collect();
        let shares: Vec<Share> = trees.iter().flat_map(|tree| shares_of(tree, me)).collect();
        let reductions_max = shares.iter().map(|share| share.reductions).max().unwrap_or(0);
        Self { relays, shares: shares.into(), unplaced, reuse, reductions_max, trees }
    }

    fn seats(&self) -> usize {
        self.trees.iter().map(|tree| tree.seats().len()).sum()
    }
}

/// Exchanges the root of a drawn tree for another node at random if it is the root of another tree already.
pub(crate) fn with_other_root(tree: Tree, taken: &[NodeId], random: &mut Random) -> Tree {
    if !taken.contains(&tree.root().node) {
        return tree;
    }
    let mut seats = tree.seats().to_vec();
    let free: Vec<usize> = (1..seats.len()).filter(|&at| !taken.contains(&seats[at].node)).collect();
    if free.is_empty() {
        return tree;
    }
    seats.swap(0, free[random.below(free.len())]);
    // Places keep their sizes, only the nodes change.
    seats.iter_mut().zip(tree.seats()).for_each(|(seat, place)| seat.size = place.size);
    Tree::from_preorder(seats).expect("invariant: the sizes are those of a tree")
}

/// The share of each node of a tree. This node's load index gets its work when the call reaches it.
fn shares_of(tree: &Tree, me: NodeId) -> impl Iterator<Item = Share> + '_ {
    let seats = tree.seats();
    let mut children = alloc::vec![0_usize; seats.len()];
    let mut open: Vec<usize> = Vec::new();
    for (at, seat) in seats.iter().enumerate() {
        while open.last().is_some_and(|&above| above + seats[above].size as usize <= at) {
            open.pop();
        }
        if let Some(&parent) = open.last() {
            children[parent] += 1;
        }
        if seat.size > 1 {
            open.push(at);
        }
    }
    seats.iter().zip(children).filter(move |(seat, _)| seat.node != me).map(|(seat, children)| {
        let locals = seat.partitions.len();
        let reductions = (locals + children).saturating_sub(1);
        Share { node: seat.node, locals: locals as u32, reductions: reductions as u32 }
    })
}

/// The trees of all kinds of calls.
#[derive(Debug, Default)]
pub(crate) struct FormedTrees {
    kinds: Vec<Kind>,
    /// The version of the view that they were formed by.
    version: u64,
    seats: usize,
    uses: u64,
}

/// The trees of one kind of call.
#[derive(Debug)]
struct Kind {
    name: Arc<str>,
    asked: PartitionSet,
    shape: Shape,
    reuse: Reuse,
    /// They are empty only while the next one is formed.
    trees: Vec<Arc<Formed>>,
    /// The tree that was used last.
    at: usize,
    used: u64,
    loads: Seen,
}

/// The loads that trees were formed by.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When the last tree was formed.
    formed_at: Instant,
    /// Of loads, of delays and of speeds.
    moves: [u64; 3],
    own: LoadFigure,
    /// Since when the present tree is used.
    turn_at: Instant,
    /// The work that waits at the present tree's busiest node after its last use, if its calls are the only ones.
    waiting: Duration,
    used_at: Instant,
}

impl Seen {
    fn now(loads: &Loads, now: Instant) -> Self {
        let (moves, own) = (moves(loads), loads.index.figure());
        Self { formed_at: now, moves, own, turn_at: now, waiting: Duration::ZERO, used_at: now }
    }

    fn have_moved(&self, loads: &Loads) -> bool {
        self.moves != moves(loads) || worth_announcing(self.own, loads.index.figure())
    }
}

fn moves(loads: &Loads) -> [u64; 3] {
    [loads.table.moves(), loads.delays.moves(), loads.speeds.moves()]
}

fn is_usual<P: Payload>(cx: &Context<P>, options: &CallOptions) -> bool {
    options.push.is_none() && options.slices == 1 && !cx.config.tuning.reforming().each_call
}

impl FormedTrees {
    /// The trees for a call, if they need not be formed.
    pub(crate) fn reuse<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        call: &OpenCall<P>,
    ) -> Option<Arc<Formed>> {
        self.keep_up(cx);
        if !is_usual(cx, &call.options) {
            return None;
        }
        let at = self.position(call)?;
        self.uses += 1;
        let kind = &mut self.kinds[at];
        kind.used = self.uses;
        let (trees, seats) = (kind.trees.len(), kind.seats());
        let found = kind.next(cx, now);
        if trees > 0 && kind.trees.is_empty() {
            self.seats -= seats;
        }
        found
    }

    /// Keeps the trees of a call that had no choice of replicas.
    pub(crate) fn keep<P: Payload>(
        &mut self,
        cx: &mut Context<P>,
        now: Instant,
        call: &OpenCall<P>,
        formed: &Arc<Formed>,
    ) {
        if !is_usual(cx, &call.options) || call.has_choice || formed.reuse == Reuse::Never {
            return;
        }
        self.keep_up(cx);
        let at = self.position(call).unwrap_or_else(|| {
            self.uses += 1;
            self.kinds.push(Kind::new(call, formed.reuse, self.uses));
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[at];
        if kind.reuse != formed.reuse || kind.is_complete() {
            self.seats -= kind.seats();
            kind.trees.clear();
            kind.reuse = formed.reuse;
        }
        kind.push(cx, now, formed);
        self.seats += formed.seats();
        while self.kinds.len() > KINDS_MAX || self.seats > SEATS_MAX {
            self.evict(cx);
        }
    }

    /// The roots of the trees of a call's kind.
    pub(crate) fn roots<P>(&self, call: &OpenCall<P>) -> Vec<NodeId> {
        let kind = self.position(call).map(|at| &self.kinds[at]);
        let trees = kind.into_iter().flat_map(|kind| &kind.trees);
        trees.flat_map(|formed| &formed.trees).map(|tree| tree.root().node).collect()
    }

    /// Drops all trees if the view has changed since they were formed.
    fn keep_up<P: Payload>(&mut self, cx: &mut Context<P>) {
        let version = cx.view().version();
        if self.version != version {
            // Launches share the trees' memory.
            cx.settle_loads();
            self.kinds.clear();
            (self.version, self.seats) = (version, 0);
        }
    }

    fn position<P>(&self, call: &OpenCall<P>) -> Option<usize> {
        let is_same = |name: &Arc<str>| Arc::ptr_eq(name, &call.name) || *name == call.name;
        self.kinds.iter().position(|kind| {
            kind.shape == call.options.shape && is_same(&kind.name) && kind.asked == call.asked
        })
    }

    /// Evicts the kind that was used longest ago.
    fn evict<P: Payload>(&mut self, cx: &mut Context<P>) {
        let oldest = (0..self.kinds.len()).min_by_key(|&at| self.kinds[at].used);
        let Some(oldest) = oldest else { return };
        cx.settle_loads();
        self.seats -= self.kinds.swap_remove(oldest).seats();
    }
}

impl Kind {
    fn new<P>(call: &OpenCall<P>, reuse: Reuse, used: u64) -> Self {
        let (turn_at, own) = (Instant::START, LoadFigure::default());
        Self {
            name: Arc::clone(&call.name),
            asked: call.asked.clone(),
            shape: call.options.shape,
            reuse,
            trees: Vec::new(),
            at: 0,
            used,
            loads: Seen {
                formed_at: turn_at,
                moves: [0; 3],
                own,
                turn_at,
                waiting: Duration::ZERO,
                used_at: turn_at,
            },
        }
    }

    fn seats(&self) -> usize {
        self.trees.iter().map(|formed| formed.seats()).sum()
    }

    /// Adds trees that a call uses now.
    fn push<P: Payload>(&mut self, cx: &Context<P>, now: Instant, formed: &Arc<Formed>) {
        let waiting = self.work(cx, formed);
        if self.trees.is_empty() {
            self.loads = Seen::now(&cx.loads, now);
        }
        self.loads = Seen { formed_at: now, turn_at: now, waiting, used_at: now, ..self.loads };
        self.at = self.trees.len();
        self.trees.push(Arc::clone(formed));
    }

    /// The reductions of a call at the trees' busiest node.
    fn work<P: Payload>(&self, cx: &Context<P>, formed: &Formed) -> Duration {
        match self.reuse {
            Reuse::ByLoad => {
                cx.reduce_estimate(cx.kind_of(&self.name), &self.name).mul_f64(formed.reductions_max.into())
            }
            _ => Duration::ZERO,
        }
    }

    /// The trees that are used next; `None` if they must be formed.
    fn next<P: Payload>(&mut self, cx: &Context<P>, now: Instant) -> Option<Arc<Formed>> {
        match self.reuse {
            Reuse::Never => None,
            Reuse::Always => self.trees.first().cloned(),
            Reuse::WithoutEjections if cx.are_all_relays_fit(now) => self.trees.first().cloned(),
            Reuse::WithoutEjections => None,
            Reuse::InTurn => self.next_in_turn(),
            Reuse::ByLoad => self.next_by_load(cx, now),
        }
    }

    /// True if no more trees are formed for this kind of call.
    fn is_complete(&self) -> bool {
        self.trees.first().is_some_and(|formed| self.trees.len() >= self.reuse.trees_max(formed.seats()))
    }

    fn next_in_turn(&mut self) -> Option<Arc<Formed>> {
        if !self.is_complete() {
            return None;
        }
        self.at = (self.at + 1) % self.trees.len();
        self.trees.get(self.at).cloned()
    }

    fn next_by_load<P: Payload>(&mut self, cx: &Context<P>, now: Instant) -> Option<Arc<Formed>> {
        let bounds = cx.config.tuning.reforming();
        let formed = self.trees.get(self.at)?;
        let is_spent = self.loads.turn_at.until(now) >= bounds.turn;
        let is_old = is_spent || self.loads.formed_at.until(now) >= bounds.fresh;
        let done = self.loads.used_at.until(now);
        let waiting = self.loads.waiting.saturating_sub(done) + self.work(cx, formed);
        if waiting > bounds.work || (is_old && self.loads.have_moved(&cx.loads)) {
            self.trees.clear();
            return None;
        }
        (self.loads.waiting, self.loads.used_at) = (waiting, now);
        if !is_spent {
            return Some(Arc::clone(formed));
        }
        self.loads.turn_at = now;
        self.next_in_turn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::adaptive::tests::{idle, node};
    use crate::tree::shape::form;
    use alloc::collections::BTreeSet;

    #[test]
    fn small_clusters_have_a_tree_for_each_root_and_large_ones_a_few_trees() {
        assert_eq!([0, 1, 3, 24, 64].map(drawn_max), [1, 1, 3, 24, 64]);
        assert_eq!([65, 128, 256, 512, 10_000].map(drawn_max), [63, 32, 16, 8, 8]);
    }

    #[test]
    fn each_node_is_a_root_once() {
        for shape in [Shape::Flat, Shape::Binomial] {
            let (mut random, mut roots) = (Random::new(1), Vec::new());
            for _ in 0..9 {
                let drawn = form(shape, idle(9), &mut random).remove(0);
                let sizes: Vec<u32> = drawn.seats().iter().map(|seat| seat.size).collect();
                let tree = with_other_root(drawn, &roots, &mut random);
                assert_eq!(tree.seats().iter().map(|seat| seat.size).collect::<Vec<_>>(), sizes);
                assert_eq!(tree.partitions(), PartitionSet::first(9), "{shape}");
                roots.push(tree.root().node);
            }
            assert_eq!(roots.iter().collect::<BTreeSet<_>>().len(), 9, "{shape}");
            let tree = form(shape, idle(9), &mut random).remove(0);
            assert_eq!(with_other_root(tree.clone(), &roots, &mut random), tree, "all were roots");
        }
    }

    #[test]
    fn shares_are_the_locals_and_reductions_of_each_node_but_the_caller() {
        let tree = form(Shape::KAry(2), idle(5), &mut Random::new(1)).remove(0);
        let shares: Vec<Share> = shares_of(&tree, node(3)).collect();
        let expected = [(0, 2), (1, 2), (4, 0), (2, 0)].map(|(number, reductions)| Share {
            node: node(number),
            locals: 1,
            reductions,
        });
        assert_eq!(shares, expected, "node 1 is over 3 and 4");
    }
}
