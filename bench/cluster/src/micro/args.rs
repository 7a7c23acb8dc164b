//! Parameters of a run, and which combinations are valid.

use super::blocking::Trees;
use super::caller::Asks;
use super::slowing::{Slowing, slowing};
use super::stopping::{Stopping, stopping};
use crate::load::args::{LARGE_NODES, LoadArgs, ideal_per_s, processors_of};
use crate::load::point::{Cell, Point, Scene};
use clap::Args;
use treefold::{CallError, ReplicaPolicy, Shape, Waiting};
use treefold_cli::exit::Failure;
use treefold_cli::fleet::NODES_MAX;
use treefold_cli::parse;
use treefold_micro::{Distribution, Emulation, PROCESSORS_MAX};

/// Measure response time and throughput of tree shapes under load, on emulated processors
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchMicro {
    /// Number of nodes; each is one process and has one partition. Give several, separated by commas, to
    /// measure scaling
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "24", value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    pub(super) nodes: Vec<u32>,

    /// Tree shapes to compare, separated by commas: adaptive, earliest-ready, binomial, kary:K, chain, flat, base
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', default_value = "adaptive", value_parser = parse::shape)]
    pub(super) shape: Vec<Shape>,

    #[command(flatten)]
    pub(super) load: LoadArgs,

    #[command(flatten)]
    work: WorkArgs,

    /// Numbers of workers, separated by commas: measure nodes of so many workers too, each of which waits for its
    /// children and does nothing else meanwhile
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=WORKERS_MAX),
          conflicts_with_all = ["waiting", "policy", "stop"])]
    pub(super) blocking: Vec<u32>,

    /// Trees of blocking nodes, separated by commas: random (binomial, one deadline for all nodes), pruned (slow nodes are leaves
    /// below the root, and a child's deadline is before its parent's)
    #[arg(
        long,
        value_name = "TREE",
        value_delimiter = ',',
        default_value = "random",
        requires = "blocking",
        value_enum
    )]
    pub(super) blocking_trees: Vec<Trees>,

    /// Minimum coverage of an answer, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1.0", value_parser = parse::min_coverage)]
    min_coverage: f64,

    /// Rule by which nodes wait for their children: staged, uniform
    #[arg(long, value_name = "RULE", value_parser = parse::waiting)]
    waiting: Option<Waiting>,

    /// Policy by which replicas are picked: random, round_robin, polled:D
    #[arg(long, value_name = "POLICY", value_parser = parse::policy)]
    policy: Option<ReplicaPolicy>,

    /// Number of nodes, counted from the first, at which calls are made in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    pub(super) fronts: u32,

    /// Nodes that are slow for a time after measuring began, as in 1:5x@10s-30s,2:5x@20s-40s
    #[arg(long, value_name = "NODE:FACTOR[@FROM-TO]", value_delimiter = ',', value_parser = slowing)]
    pub(super) slow: Vec<Slowing>,

    /// Nodes whose processes are stopped (SIGSTOP) for a time after measuring began, as in 1@10s-30s,2@20s-40s
    #[arg(long, value_name = "NODE@FROM-TO", value_delimiter = ',', value_parser = stopping)]
    pub(super) stop: Vec<Stopping>,

    /// Turn off repair in all nodes, as in the paper: they send no signs of life, and ask no node again
    #[arg(long)]
    pub(super) no_repair: bool,

    /// Length of the intervals, in seconds, that get one point each, from the calls that ended in them
    #[arg(long, value_name = "S", value_parser = parse::seconds)]
    every: Option<f64>,
}

/// The emulated work of a call, and the processors that it takes.
#[derive(Debug, Args)]
struct WorkArgs {
    /// Number of emulated processors of each node
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=i64::from(PROCESSORS_MAX)))]
    processors: u32,

    /// Give the last four nodes four processors each
    #[arg(long)]
    heterogeneous: bool,

    /// Mean duration of a local, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 25.0)]
    local_ms: f64,

    /// Mean duration of a reduction, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5.0)]
    reduce_ms: f64,

    /// Distribution of durations about their means: exponential, fixed
    #[arg(long, value_name = "NAME", default_value = "exponential", value_parser = distribution)]
    distribution: Distribution,
}

/// Most workers of a node that block.
const WORKERS_MAX: i64 = 256;

const EXAMPLES: &str = "\
Calls arrive as a Poisson process, 30 per second unless --rate or --load is given. A local takes one of its node's emulated processors for 25 ms on average, a
reduction for 5 ms; reductions go first and nothing is interrupted. Shapes get the same arrivals and the same
costs. Every sum is checked. Blocking nodes have binomial trees, and their series is blocking:N, or blocking:N,pruned.
Pruned trees know at once which nodes are slow. If partial answers count, the caller of blocking nodes waits 200 ms beyond the
deadline, so that the root's answer can arrive. With -o json, an array of points:
  {series, x, response_ms_mean, response_ms_p99, throughput_per_s, coverage_mean, quality_per_s, nodes, processors,
   rate_per_s, load, calls, answered, refused, silent, late_us_mean, late_share, sent_late_us_mean, cpu_busy, cpu_own}
series is the shape. x is the rate; with several --nodes at one rate or load the number of nodes; with --every the
seconds since measuring began. Response times are for answered calls and count from the planned instant of a call.
quality_per_s is the throughput with each answer weighted by its coverage; load is a share of the ideal throughput.
late_us_mean and late_share are the error of the emulation: by how much jobs ended later than due, and that as a
share of all jobs' durations. cpu_busy is the busy share of this machine's processors, cpu_own the share that nodes
and caller used. If cpu_busy is not well below 1, the figures measure the machine and not the trees.

Examples:
  bench-cluster micro --shape adaptive,binomial,flat --rate 20,30,40,50
  bench-cluster micro --shape binomial,adaptive --blocking 2,4,16 --rate 40,50,55,60,65,70
  bench-cluster micro --nodes 4,8,12,16,20,24 --load 0.5 -o json
  bench-cluster micro --heterogeneous --shape adaptive,binomial,flat --load 0.5,0.7,0.9 --rounds 3
  bench-cluster micro --rate 45 --seconds 60 --every 2 --min-coverage 0 --slow 1:5x@10s-30s,2:5x@20s-40s
  bench-cluster micro --rate 45 --seconds 60 --every 2 --min-coverage 0 --no-repair --shape binomial \\
    --waiting uniform --slow 1:5x@10s-30s,2:5x@20s-40s
  bench-cluster micro --rate 45 --seconds 60 --every 2 --min-coverage 0 --no-repair --blocking 8 \\
    --blocking-trees random,pruned --slow 1:5x@10s-30s,2:5x@20s-40s
  bench-cluster micro --rate 45 --seconds 60 --every 2 --min-coverage 0 --stop 1@10s-30s,2@20s-40s";

/// Rate if neither rates nor loads are given.
const RATE_DEFAULT_PER_S: f64 = 30.0;

impl BenchMicro {
    /// Checks the combination of the arguments.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let least = self.nodes.iter().copied().min().expect("invariant: clap gives the default otherwise");
        self.emulation(least).check().map_err(|error| Failure::usage(error.to_string()))?;
        if self.work.local_ms + self.work.reduce_ms <= 0.0 {
            return Err(Failure::usage(
                "local_ms and reduce_ms are both 0: set one of them, or use `treefold bench call`",
            ));
        }
        if self.work.heterogeneous && least <= LARGE_NODES {
            return Err(Failure::usage(format!(
                "{least} nodes can't be heterogeneous: {LARGE_NODES} are the larger ones; give more nodes"
            )));
        }
        if self.fronts > least {
            return Err(Failure::usage(format!(
                "{} fronts are more than the {least} nodes; give at most as many fronts as nodes",
                self.fronts
            )));
        }
        if let Some(slowing) = self.slow.iter().find(|slowing| slowing.node >= least) {
            let node = slowing.node;
            return Err(Failure::usage(format!(
                "there is no node {node} to slow down; the {least} nodes are counted from 0"
            )));
        }
        if let Some(stopping) =
            self.stop.iter().find(|stopping| !(self.fronts..least).contains(&stopping.node))
        {
            let node = stopping.node;
            return Err(Failure::usage(format!(
                "node {node} can't be stopped: {least} nodes are counted from 0, and the first {} of them are fronts",
                self.fronts
            )));
        }
        Ok(())
    }

    /// Returns the number of processors of each of `nodes` nodes.
    pub(super) fn processors_of(&self, nodes: u32) -> Vec<u32> {
        processors_of(nodes, self.work.processors, self.work.heterogeneous)
    }

    /// Returns the work of every call.
    ///
    /// The seed is set for each call.
    pub(super) fn emulation(&self, nodes: u32) -> Emulation {
        let usual = self.work.processors;
        // Node i hosts partition i, so the partition's id also names the node.
        let others = (0..nodes).zip(self.processors_of(nodes)).filter(|&(_, processors)| processors != usual);
        Emulation {
            local_ms: self.work.local_ms,
            reduce_ms: self.work.reduce_ms,
            distribution: self.work.distribution,
            processors: usual,
            processors_of: others.collect(),
            ..Emulation::default()
        }
    }

    /// Returns the settings of every call, beside the work.
    pub(super) fn asks(&self) -> Asks {
        let Self { min_coverage, waiting, policy, .. } = *self;
        Asks { deadline: self.load.deadline, min_coverage, waiting, policy }
    }

    /// Returns the rates at which calls are made of `nodes` nodes.
    pub(super) fn rates_per_s(&self, nodes: u32) -> Vec<f64> {
        self.load.rates_per_s(self.ideal_per_s(nodes)).unwrap_or_else(|| vec![RATE_DEFAULT_PER_S])
    }

    /// Returns the points of one shape at one rate.
    pub(super) fn points_of(&self, cell: &Cell, nodes: u32) -> Vec<Point> {
        let scales = self.nodes.len() > 1 && self.rates_per_s(nodes).len() == 1;
        let scene = Scene {
            nodes,
            processors: self.processors_of(nodes).iter().sum(),
            ideal_per_s: self.ideal_per_s(nodes),
            rounds: self.load.rounds,
            seconds: self.load.seconds,
        };
        match self.every {
            Some(every) => cell.points_over_time(&scene, every),
            None => vec![cell.point(&scene, if scales { f64::from(nodes) } else { cell.rate_per_s })],
        }
    }

    /// Returns the calls per second at which all processors of `nodes` nodes would always be busy.
    fn ideal_per_s(&self, nodes: u32) -> f64 {
        ideal_per_s(&self.processors_of(nodes), self.work.local_ms, self.work.reduce_ms)
    }
}

fn distribution(text: &str) -> Result<Distribution, CallError> {
    match text {
        "exponential" => Ok(Distribution::Exponential),
        "fixed" => Ok(Distribution::Fixed),
        _ => Err(CallError::bad_field("distribution", text, "exponential, fixed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        micro: BenchMicro,
    }

    fn parsed(line: &str) -> Result<BenchMicro, String> {
        let words = std::iter::once("micro").chain(line.split_whitespace());
        let micro = Alone::try_parse_from(words).map_err(|error| error.to_string())?.micro;
        micro.check().map_err(|failure| failure.to_string())?;
        Ok(micro)
    }

    #[test]
    fn defaults_are_the_papers_cluster() {
        let paper = parsed("").unwrap();
        assert_eq!((paper.nodes.as_slice(), paper.processors_of(24)), ([24].as_slice(), vec![2; 24]));
        assert_eq!(paper.shape, [Shape::Adaptive]);
        let usual = Emulation { processors_of: Vec::new(), ..Emulation::default() };
        assert_eq!(paper.emulation(24), usual);
        assert!((paper.ideal_per_s(24) - 67.13).abs() < 0.01, "48 processors, 715 ms a call");
    }

    #[test]
    fn heterogeneous_cluster_ends_with_four_larger_nodes() {
        let mixed = parsed("--heterogeneous").unwrap();
        let processors = mixed.processors_of(24);
        assert_eq!((&processors[..20], &processors[20..]), ([2; 20].as_slice(), [4; 4].as_slice()));
        assert_eq!(mixed.emulation(24).processors_of, [(20, 4), (21, 4), (22, 4), (23, 4)]);
        assert!((mixed.ideal_per_s(24) - 78.32).abs() < 0.01, "56 processors");
    }

    #[test]
    fn lists_are_read_and_loads_become_rates() {
        let lists = parsed("--nodes 4,8 --shape adaptive,kary:8,flat --load 0.5,0.9").unwrap();
        assert_eq!((lists.nodes.len(), lists.shape.len()), (2, 3));
        let rates = lists.rates_per_s(4);
        assert!((rates[0] - 0.5 * 8.0 / 0.115).abs() < 1e-9 && rates[1] > rates[0]);
        assert_eq!(parsed("--rate 20,30.5").unwrap().rates_per_s(24), [20.0, 30.5]);
        assert_eq!(parsed("").unwrap().rates_per_s(24), [30.0]);
    }

    #[test]
    fn invalid_arguments_are_refused_with_the_valid_range() {
        for (line, complaint) in [
            ("--rate 0", "above 0, at most 10000 calls/s"),
            ("--load NaN", "above 0, at most 10"),
            ("--rate 3 --load 0.5", "cannot be used with"),
            ("--distribution normal", "allowed: exponential, fixed"),
            ("--shape adaptive,star", "shape is star"),
            ("--local-ms=-1", "local_ms is -1"),
            ("--local-ms 0 --reduce-ms 0", "bench call"),
            ("--nodes 24,4 --heterogeneous", "4 nodes can't be heterogeneous"),
            ("--nodes 4 --fronts 5", "5 fronts are more than the 4 nodes"),
            ("--nodes 4 --slow 4:5x", "no node 4"),
            ("--nodes 4 --stop 4@1s-2s", "node 4 can't be stopped"),
            ("--nodes 4 --fronts 2 --stop 1@1s-2s", "the first 2 of them are fronts"),
            ("--stop 1@2s-1s", "stop is 1@2s-1s"),
            ("--nodes 0", "0 is not in 1..="),
        ] {
            let refused = parsed(line).unwrap_err();
            assert!(refused.contains(complaint), "{line}: {refused}");
        }
    }
}
