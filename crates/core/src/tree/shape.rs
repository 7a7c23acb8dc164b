//! The shapes of trees, and how a call's tree gets its shape.
//!
//! A [`Shape`] is a plain value, chosen per call. [`form`] turns it and the [`Candidate`]s, the nodes that
//! take part, into the caller's children. Sources: DAC §4.1 (base, flat, hierarchical) and §4.2
//! (load-adaptive); chain, k-ary and binomial are the shapes of message-passing libraries, kept for
//! comparison and for streams.
//!
//! Invariants: every candidate has exactly one seat. The result depends on the candidates and the generator's
//! seed, not on the order of the candidates. Invalid figures (NaN, negative, infinite) are replaced first, so
//! no shape has to handle them.
//!
//! Among nodes that look alike, the load-aware shapes choose at random. If they chose by name, every caller
//! of an idle cluster would choose the same root until the next figures arrive, which is the flocking of
//! which DAC §4.5 warns. A random correction cannot help there, because it leaves a load of zero at zero.

use super::plant::plant;
use super::{TREE_NODES_MAX, Tree, adaptive, earliest_ready};
use crate::id::NodeId;
use crate::partitions::PartitionSet;
use crate::random::Random;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The least cost of one reduction in ms. At a cost of zero, one node would be given every reduction of the
/// tree.
pub const REDUCE_MS_MIN: f64 = 0.001;

/// The largest load or cost in ms: eleven days. Larger figures are cut to it.
pub const COST_MS_MAX: f64 = 1e9;

/// A node that takes part in a call, with the figures that decide the tree's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The node. No two candidates of a call are the same node.
    pub node: NodeId,
    /// The partitions whose locals it runs; empty for a relay.
    pub partitions: PartitionSet,
    /// `L`: the load index, in ms of queued work per processor.
    pub load_ms: f64,
    /// `s`: the ms per processor of the locals for this call, for all its partitions together.
    pub local_ms: f64,
    /// `a`: the ms per processor of one binary reduction.
    pub reduce_ms: f64,
}

impl Candidate {
    /// A node for a shape that does not look at load.
    pub(crate) fn idle(node: NodeId, partitions: PartitionSet) -> Self {
        Self { node, partitions, load_ms: 0.0, local_ms: 0.0, reduce_ms: 0.0 }
    }

    /// `L + s`: when the node's own partial is ready, in ms from now.
    pub fn own_ready_ms(&self) -> f64 {
        self.load_ms + self.local_ms
    }

    /// Returns the candidate with valid figures: a negative one becomes zero, and one that is too large
    /// [`COST_MS_MAX`].
    ///
    /// NaN becomes [`COST_MS_MAX`] too, because a node with a broken estimate should not attract work.
    #[must_use]
    pub fn sane(mut self) -> Self {
        let within =
            |ms: f64, least: f64| if ms.is_nan() { COST_MS_MAX } else { ms.clamp(least, COST_MS_MAX) };
        self.load_ms = within(self.load_ms, 0.0);
        self.local_ms = within(self.local_ms, 0.0);
        self.reduce_ms = within(self.reduce_ms, REDUCE_MS_MIN);
        self
    }
}

/// The shape of a call's tree.
///
/// Written as `auto`, `base`, `flat`, `chain`, `kary:K`, `binomial`, `adaptive`, `earliest-ready`, `on-path`,
/// `on-path:T` and `topology`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Shape {
    /// No tree: the caller asks all nodes and folds their partials itself.
    Base,
    /// A random root over all others.
    Flat,
    /// Each node below the one before it, by name.
    Chain,
    /// Each node over up to K others, filled level by level, by name.
    KAry(u32),
    /// The binomial tree, with random places.
    Binomial,
    /// For a stream in a network that was started from a topology, the topology. Else the on-path tree, if this node sees
    /// relays that know the service; otherwise the load-adaptive tree, or `kary:8` for a stream.
    #[default]
    Auto,
    /// The load-adaptive tree, LAT: see [`adaptive`].
    Adaptive,
    /// The two partials that are ready first meet first: see [`earliest_ready`].
    EarliestReady,
    /// Relays fold where the network path runs: see [`on_path`](super::on_path).
    ///
    /// The number is that of disjoint trees; with 0, as many as each place has relays.
    OnPath(u32),
    /// The processes of a network stand as in the topology from which it was started, and the inner ones fold: see
    /// [`topology`](super::topology).
    Topology,
}

/// The shape of a stream's tree if the user asks for none and there are no relays.
pub const STREAM_SHAPE: Shape = Shape::KAry(8);

/// Why a text is not a [`Shape`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// No shape has that name.
    Unknown {
        /// The text.
        text: String,
    },
    /// The K of `kary:K`, or the T of `on-path:T`, is not a number, or is out of bounds.
    Number {
        /// Which of the two it is.
        of: &'static str,
        /// The text of the number.
        text: String,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text } => write!(
                f,
                "no tree shape is called {text:?}; the shapes are auto, base, flat, chain, kary:K, binomial, \
                 adaptive, earliest-ready, on-path, on-path:T and topology"
            ),
            Self::Number { of, text } => {
                write!(f, "the {of} must be a whole number from 1 to {TREE_NODES_MAX}, but is {text:?}")
            }
        }
    }
}

impl core::error::Error for ShapeError {}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Base => f.pad("base"),
            Self::Flat => f.pad("flat"),
            Self::Chain => f.pad("chain"),
            Self::KAry(fan_out) => write!(f, "kary:{fan_out}"),
            Self::Binomial => f.pad("binomial"),
            Self::Adaptive => f.pad("adaptive"),
            Self::EarliestReady => f.pad("earliest-ready"),
            Self::OnPath(0) => f.pad("on-path"),
            Self::Topology => f.pad("topology"),
            Self::OnPath(trees) => write!(f, "on-path:{trees}"),
        }
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        Ok(match text {
            "auto" => Self::Auto,
            "base" => Self::Base,
            "flat" => Self::Flat,
            "chain" => Self::Chain,
            "binomial" => Self::Binomial,
            "adaptive" => Self::Adaptive,
            "earliest-ready" => Self::EarliestReady,
            "on-path" => Self::OnPath(0),
            "topology" => Self::Topology,
            _ => match text.split_once(':') {
                Some(("kary", fan_out)) => Self::KAry(number(fan_out, "K of kary:K")?),
                Some(("on-path", trees)) => Self::OnPath(number(trees, "T of on-path:T")?),
                _ => return Err(ShapeError::Unknown { text: text.into() }),
            },
        })
    }
}

fn number(text: &str, of: &'static str) -> Result<u32, ShapeError> {
    // `u32::from_str` would also take a leading `+`, and one shape should have one spelling.
    let number =
        if text.starts_with(|first: char| first.is_ascii_digit()) { text.parse().ok() } else { None };
    number
        .filter(|number| (1..=TREE_NODES_MAX).contains(number))
        .ok_or_else(|| ShapeError::Number { of, text: text.into() })
}

/// Forms the caller's children: one leaf per candidate for [`Shape::Base`], otherwise a single tree.
///
/// Without candidates there are none. Siblings are ordered by the size of their subtrees, largest first.
pub fn form(shape: Shape, candidates: Vec<Candidate>, random: &mut Random) -> Vec<Tree> {
    form_with_delay(shape, candidates, 0.0, random)
}

/// As [`form`], if a round trip between any two candidates takes `delay_ms`; 0 if it is not known. The shapes that look at
/// load look at it too.
pub fn form_with_delay(
    shape: Shape,
    candidates: Vec<Candidate>,
    delay_ms: f64,
    random: &mut Random,
) -> Vec<Tree> {
    // `f64::max` returns zero for NaN as well.
    let delay_ms = if delay_ms > 0.0 { delay_ms.min(COST_MS_MAX) } else { 0.0 };
    let mut candidates: Vec<Candidate> = candidates.into_iter().map(Candidate::sane).collect();
    candidates.sort_unstable_by_key(|candidate| candidate.node);
    let count = candidates.len();
    if count == 0 {
        return Vec::new();
    }
    let tree = match shape {
        Shape::Base => {
            return candidates.into_iter().map(|leaf| Tree::leaf(leaf.node, leaf.partitions)).collect();
        }
        Shape::Flat => {
            candidates[..].swap(0, random.below(count));
            candidates[1..].sort_unstable_by_key(|candidate| candidate.node);
            plant(candidates, &k_ary_parents(count, TREE_NODES_MAX.max(count as u32)))
        }
        Shape::Chain => plant(candidates, &k_ary_parents(count, 1)),
        Shape::KAry(fan_out) => plant(candidates, &k_ary_parents(count, fan_out.max(1))),
        Shape::Binomial => {
            random.shuffle(&mut candidates);
            plant(candidates, &binomial_parents(count))
        }
        // Only callers know places, relays and parents. Without them there is no path.
        Shape::Auto | Shape::OnPath(_) | Shape::Topology | Shape::Adaptive => {
            random.shuffle(&mut candidates);
            adaptive::form(candidates, delay_ms)
        }
        Shape::EarliestReady => {
            random.shuffle(&mut candidates);
            earliest_ready::form(candidates, delay_ms)
        }
    };
    vec![tree]
}

/// Forms the children of a node that is the root itself, such as a stream's front-end.
///
/// If the shape limits a node's children, the root has no more than that. A flat tree has no level in
/// between.
pub fn form_below(shape: Shape, candidates: Vec<Candidate>, random: &mut Random) -> Vec<Tree> {
    let fan_out = match shape {
        Shape::Base | Shape::Flat => return form(Shape::Base, candidates, random),
        Shape::KAry(fan_out) => fan_out.max(1),
        Shape::Auto => return form_below(STREAM_SHAPE, candidates, random),
        Shape::Chain => 1,
        Shape::Binomial | Shape::Adaptive | Shape::EarliestReady | Shape::OnPath(_) | Shape::Topology => {
            return form(shape, candidates, random);
        }
    };
    let mut seats: Vec<Candidate> = candidates.into_iter().map(Candidate::sane).collect();
    seats.sort_unstable_by_key(|candidate| candidate.node);
    let root = Candidate {
        node: NodeId::LEAST,
        partitions: PartitionSet::new(),
        load_ms: 0.0,
        local_ms: 0.0,
        reduce_ms: 0.0,
    };
    seats.insert(0, root);
    let parents = k_ary_parents(seats.len(), fan_out);
    plant(seats, &parents).children().collect()
}

/// Each node's parent if every node has up to `fan_out` children, filled level by level.
fn k_ary_parents(count: usize, fan_out: u32) -> Vec<Option<usize>> {
    (0..count).map(|at| at.checked_sub(1).map(|before| before / fan_out as usize)).collect()
}

/// Each node's parent in a binomial tree: the parent's number is the node's number without its lowest set
/// bit.
///
/// For a count that is no power of two, it is the next larger tree without the surplus places.
pub(super) fn binomial_parents(count: usize) -> Vec<Option<usize>> {
    (0..count).map(|at| (at > 0).then(|| at & (at - 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::adaptive::tests::{any_candidates, candidates, idle, node};
    use proptest::prelude::*;
    use std::string::ToString;

    const SHAPES: [Shape; 12] = [
        Shape::Base,
        Shape::Flat,
        Shape::Chain,
        Shape::KAry(1),
        Shape::KAry(3),
        Shape::Binomial,
        Shape::Adaptive,
        Shape::EarliestReady,
        Shape::Auto,
        Shape::OnPath(0),
        Shape::OnPath(2),
        Shape::Topology,
    ];

    fn one(shape: Shape, count: usize, seed: u64) -> Tree {
        let mut trees = form(shape, idle(count), &mut Random::new(seed));
        assert_eq!(trees.len(), 1, "all shapes but base form a single tree");
        trees.remove(0)
    }

    #[test]
    fn a_shape_is_written_as_it_is_parsed() {
        let written = "base flat chain kary:1 kary:3 binomial adaptive earliest-ready auto on-path on-path:2 \
                       topology";
        for (text, shape) in written.split(' ').zip(SHAPES) {
            assert_eq!(text.parse(), Ok(shape));
            assert_eq!(shape.to_string(), text);
        }
        assert_eq!(TREE_NODES_MAX, 16_384);
        assert_eq!("kary:16384".parse(), Ok(Shape::KAry(16_384)));
    }

    #[test]
    fn an_unknown_shape_error_lists_all_shapes() {
        let message = "lat".parse::<Shape>().unwrap_err().to_string();
        assert_eq!(
            message,
            "no tree shape is called \"lat\"; the shapes are auto, base, flat, chain, kary:K, binomial, \
             adaptive, earliest-ready, on-path, on-path:T and topology"
        );
        let numbers = ["kary:0", "kary:16385", "kary:", "kary:-1", "kary:+2", "kary:4294967298", "on-path:0"];
        for text in numbers {
            let message = text.parse::<Shape>().unwrap_err().to_string();
            assert!(message.contains("from 1 to 16384"), "{text}: {message}");
        }
        assert!("kary".parse::<Shape>().is_err());
        assert!("Flat".parse::<Shape>().is_err());
    }

    #[test]
    fn base_gives_leaves_and_no_candidates_give_no_tree() {
        let trees = form(Shape::Base, idle(3), &mut Random::new(0));
        let nodes: Vec<NodeId> = trees.iter().map(|tree| tree.root().node).collect();
        assert_eq!(nodes, [node(0), node(1), node(2)]);
        for shape in SHAPES {
            assert!(form(shape, vec![], &mut Random::new(0)).is_empty());
        }
    }

    #[test]
    fn flat_draws_its_root() {
        let roots: alloc::collections::BTreeSet<NodeId> =
            (0..100).map(|seed| one(Shape::Flat, 5, seed).root().node).collect();
        assert_eq!(roots.len(), 5, "each is root now and then");
        assert_eq!(one(Shape::Flat, 5, 1).height(), 1);
    }

    #[test]
    fn chain_and_k_ary_are_the_same_for_every_call() {
        let chain = one(Shape::Chain, 4, 1);
        let order: Vec<NodeId> = chain.seats().iter().map(|seat| seat.node).collect();
        assert_eq!(order, [node(0), node(1), node(2), node(3)]);
        assert_eq!(chain.height(), 3);

        let ternary = one(Shape::KAry(3), 8, 1);
        assert_eq!(ternary, one(Shape::KAry(3), 8, 2));
        let sizes: Vec<u32> = ternary.seats().iter().map(|seat| seat.size).collect();
        assert_eq!(sizes, [8, 4, 1, 1, 1, 2, 1, 1], "root over 1, 2, 3; 1 over 4, 5, 6; 2 over 7");
    }

    #[test]
    fn form_below_gives_the_root_k_children() {
        let mut random = Random::new(1);
        let trees = form_below(Shape::KAry(3), idle(8), &mut random);
        let sizes: Vec<u32> = trees.iter().map(|tree| tree.root().size).collect();
        assert_eq!(sizes, [4, 3, 1]);
        assert_eq!(form_below(Shape::Flat, idle(8), &mut random).len(), 8);
        assert_eq!(form_below(Shape::Binomial, idle(8), &mut random).len(), 1);
        assert!(form_below(Shape::KAry(3), vec![], &mut random).is_empty());
    }

    #[test]
    fn binomial_of_eight_is_the_textbooks() {
        let sizes: Vec<u32> = one(Shape::Binomial, 8, 1).seats().iter().map(|seat| seat.size).collect();
        assert_eq!(sizes, [8, 4, 2, 1, 1, 2, 1, 1]);
        assert_eq!(one(Shape::Binomial, 1024, 1).height(), 10);
        assert_ne!(one(Shape::Binomial, 8, 1), one(Shape::Binomial, 8, 2), "the places are drawn");
    }

    #[test]
    fn an_idle_cluster_has_no_favourite_root() {
        for shape in [Shape::Adaptive, Shape::EarliestReady] {
            let roots: alloc::collections::BTreeSet<NodeId> =
                (0..200).map(|seed| one(shape, 8, seed).root().node).collect();
            assert_eq!(roots.len(), 8, "{shape}");
        }
    }

    #[test]
    fn ten_thousand_in_every_shape() {
        for shape in SHAPES {
            let trees = form(shape, idle(10_000), &mut Random::new(9));
            assert_eq!(trees.iter().map(|tree| tree.seats().len()).sum::<usize>(), 10_000, "{shape}");
        }
    }

    proptest! {
        #[test]
        fn every_candidate_sits_exactly_once(
            seed: u64,
            which in 0..SHAPES.len(),
            delay_ms in prop_oneof![Just(0.0), any::<f64>(), 0.0..100.0],
            candidates in any_candidates(60),
        ) {
            let trees = form_with_delay(SHAPES[which], candidates.clone(), delay_ms, &mut Random::new(seed));
            let seats = trees.iter().flat_map(|tree| tree.seats().iter());
            let mut seated: Vec<_> = seats.map(|seat| (seat.node, seat.partitions.clone())).collect();
            seated.sort_unstable();
            let mut asked: Vec<_> = candidates.into_iter().map(|c| (c.node, c.partitions)).collect();
            asked.sort_unstable();
            prop_assert_eq!(seated, asked);
        }

        #[test]
        fn the_order_of_candidates_does_not_matter(
            seed: u64,
            which in 0..SHAPES.len(),
            delay_ms in prop_oneof![Just(0.0), 0.0..100.0],
            candidates in candidates(40),
        ) {
            let form = |candidates| {
                form_with_delay(SHAPES[which], candidates, delay_ms, &mut Random::new(seed))
            };
            let formed = form(candidates.clone());
            let mut shuffled = candidates;
            Random::new(seed ^ 1).shuffle(&mut shuffled);
            prop_assert_eq!(formed, form(shuffled));
        }

        #[test]
        fn siblings_stand_largest_first(seed: u64, which in 1..SHAPES.len(), candidates in candidates(60)) {
            for tree in form(SHAPES[which], candidates, &mut Random::new(seed)) {
                for at in 0..tree.seats().len() {
                    let subtree = Tree::from_preorder(
                        tree.seats()[at..at + tree.seats()[at].size as usize].to_vec()
                    ).expect("a subtree is a tree");
                    let sizes: Vec<u32> = subtree.children().map(|child| child.root().size).collect();
                    prop_assert!(sizes.is_sorted_by(|a, b| a >= b));
                }
            }
        }
    }
}
