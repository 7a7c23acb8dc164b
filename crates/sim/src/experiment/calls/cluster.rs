//! MICRO's cluster, and the schemes that experiments compare on it.

use crate::experiment::trial::Trial;
use crate::world::place::Spec;
use crate::world::{Setting, World};
use treefold_core::call::CallOptions;
use treefold_core::config::Tuning;
use treefold_core::membership::MembershipConfig;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// Mean of a local of MICRO, in ms (DAC §5.1).
pub const LOCAL_MS: f64 = 25.0;
/// Mean of a reduction of MICRO, in ms (DAC §5.1).
pub const REDUCE_MS: f64 = 5.0;
/// Nodes of the paper's cluster.
pub const NODES: u32 = 24;
/// Processors of the paper's usual node.
const DUAL: u32 = 2;
/// Processors of the paper's larger node.
const QUAD: u32 = 4;

/// A cluster of nodes with one partition each, and front-ends without partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes with two processors.
    pub duals: u32,
    /// Nodes with four processors.
    pub quads: u32,
}

/// A compared scheme: how trees are formed, how nodes wait for each other, and how nodes run work.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// The series' name.
    pub name: &'static str,
    /// The shape of the trees.
    pub shape: Shape,
    /// The rule by which nodes wait for their children.
    pub waiting: Waiting,
    /// Worker threads that block while their wave waits; `None` for event-driven nodes.
    pub blocking_threads: Option<usize>,
    /// The number of front-ends, which make the calls in turn.
    pub fronts: usize,
    /// The other settings of the nodes.
    pub tuning: Tuning,
}

impl Scheme {
    /// Creates the scheme of Treefold's defaults, with trees of this shape.
    ///
    /// Flat and binomial trees are drawn for each call, as in the paper, and do not take turns.
    pub fn new(name: &'static str, shape: Shape) -> Self {
        let mut tuning = Tuning::LAN;
        tuning.reforming.each_call = matches!(shape, Shape::Flat | Shape::Binomial);
        Self { name, shape, waiting: Waiting::Staged, blocking_threads: None, fronts: 1, tuning }
    }

    /// Sets the waiting rule.
    #[must_use]
    pub fn waiting(self, waiting: Waiting) -> Self {
        Self { waiting, ..self }
    }

    /// Makes the worker threads block.
    #[must_use]
    pub fn blocking(self, threads: usize) -> Self {
        Self { blocking_threads: Some(threads), ..self }
    }

    /// Sets the number of front-ends.
    #[must_use]
    pub fn fronts(self, fronts: usize) -> Self {
        Self { fronts, ..self }
    }

    /// Switches repair off, as in the paper: parents never time their children out.
    #[must_use]
    pub fn without_repair(mut self) -> Self {
        // Signs of life and patience are shares of a wave's time. With shares above 1 they never come.
        (self.tuning.sign_of_life, self.tuning.patience) = (2.0, 2.0);
        self.tuning.tries_max = 1;
        self
    }

    /// Switches gossip off, for a cluster that never changes and that all nodes know.
    #[must_use]
    pub fn still(mut self) -> Self {
        self.tuning.membership = MembershipConfig::still();
        self
    }

    /// Lets loads arrive only by gossip. Fronts still subtract finished work and add the work that they have
    /// placed.
    #[must_use]
    pub fn by_gossip(mut self) -> Self {
        self.tuning.waves_bear_loads = false;
        self
    }

    /// Makes fronts use loads as received, without a correction for their age.
    #[must_use]
    pub fn as_told(mut self) -> Self {
        self.tuning.anticipate = false;
        self
    }

    /// Combines each of `schemes` with each of `rates`.
    pub fn at_rates(schemes: &[Self], rates: &[f64]) -> Vec<(Self, f64)> {
        let at_rates = |scheme: &Self| rates.iter().map(|&rate| (scheme.clone(), rate)).collect::<Vec<_>>();
        schemes.iter().flat_map(at_rates).collect()
    }

    /// Returns the options of the scheme's calls.
    pub fn options(&self) -> CallOptions {
        CallOptions { shape: self.shape, waiting: self.waiting, ..CallOptions::default() }
    }
}

impl Cluster {
    /// The paper's cluster of 24 nodes with two processors.
    pub const HOMOGENEOUS: Self = Self::duals(NODES);
    /// The paper's cluster of 20 nodes with two processors and four with four.
    pub const HETEROGENEOUS: Self = Self { duals: 20, quads: 4 };

    /// Creates a cluster of nodes with two processors.
    pub const fn duals(duals: u32) -> Self {
        Self { duals, quads: 0 }
    }

    /// Returns the number of nodes that hold a partition.
    pub const fn nodes(self) -> u32 {
        self.duals + self.quads
    }

    /// Returns the capacity of all processors in calls per second: `n·k / (n·s + (n−1)·r)` with k processors
    /// per node (DAC §5.6).
    pub fn ideal_per_s(self) -> f64 {
        let nodes = f64::from(self.nodes());
        let processors = f64::from(self.duals * DUAL + self.quads * QUAD);
        processors / ((nodes * LOCAL_MS + (nodes - 1.0) * REDUCE_MS) / 1_000.0)
    }

    /// Creates a trial that calls `scheme`'s cluster at its fronts in turn, `per_s` times a second for `seconds`
    /// seconds.
    pub fn trial(self, scheme: &Scheme, seed: u64, per_s: f64, seconds: f64) -> Trial {
        let setting = Setting::micro(seed, self.nodes());
        let mut world = World::new(setting.clone());
        for at in 0..self.nodes() {
            let mut spec = Spec::holding([at].into_iter().collect());
            spec.processors = if at < self.duals { DUAL } else { QUAD };
            spec.blocking_threads = scheme.blocking_threads;
            spec.tuning = scheme.tuning.clone();
            world.start(spec);
        }
        let front = Spec { tuning: scheme.tuning.clone(), ..Spec::front() };
        let fronts: Vec<usize> = (0..scheme.fronts).map(|_| world.start(front.clone())).collect();
        if scheme.tuning.membership.gossips {
            world.introduce_all();
        } else {
            world.introduce_fronts(&fronts);
        }
        let mut trial = Trial::poisson(world, &setting, fronts, per_s, seconds);
        trial.options = scheme.options();
        trial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_throughput_equals_the_papers() {
        // By the paper's own count, 45 calls per second are 75 % of the capacity; by its formula they are 67
        // %.
        assert!((Cluster::HOMOGENEOUS.ideal_per_s() - 67.13).abs() < 0.01);
        assert!((Cluster::HETEROGENEOUS.ideal_per_s() - 78.32).abs() < 0.01);
        assert!((Cluster::duals(512).ideal_per_s() - 66.69).abs() < 0.01);
    }

    #[test]
    fn a_cluster_answers_in_full() {
        let scheme = Scheme::new("adaptive", Shape::Adaptive).still();
        let ledger = Cluster::duals(4).trial(&scheme, 1, 20.0, 5.0).run();
        let point = ledger.point("adaptive", 20.0);
        assert_eq!(point.coverage_mean, 1.0);
        assert!(point.throughput_per_s > 15.0 && point.response_ms_mean > LOCAL_MS);
    }
}
