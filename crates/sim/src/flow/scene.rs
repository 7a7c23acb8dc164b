//! One run: a fabric, a workload and a strategy, and their results.
//!
//! # The size of a result
//!
//! The output ratio α is the ratio of a job: its result is α times all its partial results together (§4.1,
//! and the traces of §2.1, which count whole jobs). The paper does not give the size of a result of only
//! *some* partial results, and this matters more than any other assumption. [`Reduction`] has three answers.
//! By default, a result is not larger than its inputs, and not larger than the job's result: a table of
//! counts has no more rows for a part of the text than for the whole text. Then the part of a large job in
//! one rack is hardly reduced there. This reproduces the paper's finding that relays in racks alone gain
//! little and relays higher up gain much (figure 12). With a ratio of α at each step it would not be
//! reproduced.
//!
//! # The measured times
//!
//! A flow is one of the workload's flows: a worker's partial result, or one of the other flows. It ends when
//! its data, possibly in an aggregate, has reached its destination. For a partial result this is the arrival
//! of the last aggregate that contains it at its job's master. So every strategy has the same number of
//! flows, 46 % of them aggregatable as in the paper, and a flow does not end when it leaves its sender. A
//! partial result that is cut into parts for several trees ends with the last part.
//!
//! The paper says "the time elapsed between the start and the end of a flow" (§2.4) and does not say where an
//! aggregated flow ends. It can also mean each *hop* from one machine to the next, aggregates included, so
//! hops are timed too. Under that reading, strategies have different numbers of flows, and each hop of a
//! chain lasts as long as the longest hop before it. With α = 1, where no result is smaller than its inputs,
//! relays would then look far better than rack, which contradicts the paper (figure 8).
//!
//! In addition, a job is timed until its whole result has arrived.

use super::fluid::{self, Flow, STEP_SHARE};
use super::route::{Way, route};
use super::strategy::{Plan, Strategy};
use super::topology::{Fabric, Place, Topology};
use super::workload::{Job, Traffic, Workload};
use crate::world::ink::mixed;
use std::ops::Range;

/// One run as a plain value.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The data centre.
    pub fabric: Fabric,
    /// The jobs and other flows.
    pub workload: Workload,
    /// The strategy of aggregation.
    pub strategy: Strategy,
    /// α: the size of a job's result relative to all its partial results.
    pub output_ratio: f64,
    /// The rule for the size of results of some of the partial results.
    pub reduction: Reduction,
    /// The share of live flows that ends between two allocations.
    pub step_share: f64,
}

/// The rule for the size of a result of some of a job's partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// As large as its inputs, but not larger than the job's result.
    ToResult,
    /// α times the partial results in it, in however many steps they were aggregated.
    OfPartials,
    /// α times the inputs of the aggregation. A result shrinks again when it is aggregated again.
    EachStep,
}

impl Scene {
    /// Creates NetAgg's scene (§4.1) with a strategy.
    pub fn paper(strategy: Strategy) -> Self {
        Self {
            fabric: Fabric::PAPER,
            workload: Workload::PAPER,
            strategy,
            output_ratio: 0.1,
            reduction: Reduction::ToResult,
            step_share: STEP_SHARE,
        }
    }
}

/// The result of a run. All lists are ascending.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Times of all flows of the workload, until their data has reached its destination, in ms.
    pub flows_ms: Vec<f64>,
    /// Times of the flows that cannot be aggregated.
    pub others_ms: Vec<f64>,
    /// Times of all hops, aggregates included, and of the other flows.
    pub hops_ms: Vec<f64>,
    /// Times of jobs, until their result has arrived.
    pub jobs_ms: Vec<f64>,
    /// Bytes over each link between servers and switches.
    pub link_bytes: Vec<f64>,
    /// Number of relays.
    pub relays: usize,
    /// Number of allocations of rates.
    pub steps: u32,
}

impl Outcome {
    /// Pools the figures of two runs of the same fabric.
    #[must_use]
    pub fn pooled(mut self, other: Self) -> Self {
        let pairs = [
            (&mut self.flows_ms, other.flows_ms),
            (&mut self.others_ms, other.others_ms),
            (&mut self.hops_ms, other.hops_ms),
            (&mut self.jobs_ms, other.jobs_ms),
            (&mut self.link_bytes, other.link_bytes),
        ];
        for (ours, theirs) in pairs {
            ours.extend(theirs);
            ours.sort_unstable_by(f64::total_cmp);
        }
        self.steps += other.steps;
        self
    }
}

/// All flows of a run, with the jobs and partial results that they belong to.
#[derive(Default)]
struct Flows {
    flows: Vec<Flow>,
    /// The range of flows of each job.
    jobs: Vec<Range<usize>>,
    /// The index of the first flow that cannot be aggregated.
    others: usize,
    /// For each flow, the first flow of the partial result that it is a part of, or the flow itself.
    whole: Vec<u32>,
    /// For each flow, whether it carries a partial result of its sender, or is one of the other flows.
    has_own: Vec<bool>,
}

impl Scene {
    /// Runs the scene with the traffic drawn from `seed`.
    pub fn run(&self, seed: u64) -> Outcome {
        let topology = Topology::new(self.fabric.clone());
        let traffic = self.workload.draw(&self.fabric, seed);
        let flows = self.flows(&topology, &traffic, seed);
        let ended = fluid::run(topology.capacity(), &flows.flows, self.step_share);
        flows.outcome(&topology, &ended)
    }

    fn flows(&self, topology: &Topology, traffic: &Traffic, seed: u64) -> Flows {
        let mut all = Flows::default();
        for job in &traffic.jobs {
            let first = all.flows.len();
            let plan = self.strategy.plan(topology, job, seed);
            self.add_job(topology, job, &plan, seed, &mut all.flows);
            all.whole.extend(plan.wholes().into_iter().map(|of_plan| first as u32 + of_plan));
            all.has_own.extend(plan.stops.iter().map(|stop| stop.own_bytes > 0.0));
            all.jobs.push(first..all.flows.len());
        }
        all.others = all.flows.len();
        all.whole.extend((0..traffic.others.len()).map(|nth| (all.others + nth) as u32));
        all.has_own.extend(traffic.others.iter().map(|_| true));
        for (nth, other) in (0..).zip(&traffic.others) {
            let way = Way::hashed(topology.fabric(), mixed(seed ^ 0x6f74_6865) ^ nth);
            let path = route(topology, Place::Server(other.from), Place::Server(other.to), way);
            all.flows.push(Flow { path, bytes: other.bytes, starts_s: other.starts_s, into: None });
        }
        all
    }

    fn add_job(&self, topology: &Topology, job: &Job, plan: &Plan, seed: u64, flows: &mut Vec<Flow>) {
        let first = flows.len() as u32;
        let bytes = self.sizes(plan, job.bytes());
        for (nth, (stop, bytes)) in plan.stops.iter().zip(bytes).enumerate() {
            let to = stop.to.map_or(Place::Server(job.master), |to| plan.stops[to as usize].at);
            let own =
                Way::hashed(topology.fabric(), mixed(seed ^ mixed(job.number)).wrapping_add(nth as u64));
            let way = stop.way.unwrap_or(own);
            let path = route(topology, stop.at, to, way);
            let starts_s = job.starts_s + stop.late_s;
            flows.push(Flow { path, bytes, starts_s, into: stop.to.map(|to| first + to) });
        }
    }

    /// Returns the size of the flow that each stop sends.
    fn sizes(&self, plan: &Plan, job_bytes: f64) -> Vec<f64> {
        let so_many = plan.stops.len();
        let result_bytes = self.output_ratio * job_bytes / f64::from(plan.trees.max(1));
        // For each stop, its own data and its inputs together: the partial results in them, and their bytes
        // as received.
        let mut partials: Vec<f64> = plan.stops.iter().map(|stop| stop.own_bytes).collect();
        let mut coming = partials.clone();
        let mut is_fed = vec![false; so_many];
        let mut sizes = vec![0.0; so_many];
        for at in (0..so_many).rev() {
            sizes[at] = match self.reduction {
                _ if !is_fed[at] => coming[at],
                Reduction::ToResult => partials[at].min(result_bytes),
                Reduction::OfPartials => self.output_ratio * partials[at],
                Reduction::EachStep => self.output_ratio * coming[at],
            };
            if let Some(to) = plan.stops[at].to {
                let to = to as usize;
                is_fed[to] = true;
                partials[to] += partials[at];
                coming[to] += sizes[at];
            }
        }
        sizes
    }
}

impl Flows {
    fn outcome(&self, topology: &Topology, ended: &fluid::Ended) -> Outcome {
        let since_start_ms = |at: usize, ended_s: f64| (ended_s - self.flows[at].starts_s) * 1e3;
        let hops = |at: usize| since_start_ms(at, ended.at_s[at]);
        let delivered_s = self.delivered_s(ended);
        let mut outcome = Outcome { relays: topology.relays(), steps: ended.steps, ..Outcome::default() };
        outcome.flows_ms =
            self.longest_parts(|at| self.has_own[at], |at| since_start_ms(at, delivered_s[at]));
        outcome.hops_ms = self.longest_parts(|_| true, hops);
        outcome.others_ms = (self.others..self.flows.len()).map(hops).collect();
        for flows in self.jobs.iter().filter(|flows| !flows.is_empty()) {
            let first_s = flows.clone().map(|at| self.flows[at].starts_s).fold(f64::INFINITY, f64::min);
            let last_s = flows.clone().map(|at| ended.at_s[at]).fold(0.0, f64::max);
            outcome.jobs_ms.push((last_s - first_s) * 1e3);
        }
        let mut link_bytes = vec![0.0; topology.capacity().len()];
        for flow in &self.flows {
            flow.path.links().for_each(|link| link_bytes[link] += flow.bytes);
        }
        link_bytes.truncate(topology.network_links());
        outcome.link_bytes = link_bytes;
        let Outcome { flows_ms, others_ms, hops_ms, jobs_ms, link_bytes, .. } = &mut outcome;
        for figures in [flows_ms, others_ms, hops_ms, jobs_ms, link_bytes] {
            figures.sort_unstable_by(f64::total_cmp);
        }
        outcome
    }

    /// Returns the time at which each flow's data reached its destination: the end of the root of its tree,
    /// which ends last.
    fn delivered_s(&self, ended: &fluid::Ended) -> Vec<f64> {
        let mut delivered_s = ended.at_s.clone();
        for (at, flow) in self.flows.iter().enumerate() {
            if let Some(into) = flow.into {
                delivered_s[at] = delivered_s[into as usize];
            }
        }
        delivered_s
    }

    /// Returns the times of the flows for which `is_one` is true. The parts of a partial result count as one
    /// flow that takes as long as its longest part.
    fn longest_parts(&self, is_one: impl Fn(usize) -> bool, ms: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut longest_ms = vec![f64::NEG_INFINITY; self.flows.len()];
        for (at, &whole) in self.whole.iter().enumerate().filter(|&(at, _)| is_one(at)) {
            let longest_ms = &mut longest_ms[whole as usize];
            *longest_ms = longest_ms.max(ms(at));
        }
        longest_ms.into_iter().filter(|ms| ms.is_finite()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::point::quantile;
    use crate::flow::deployment::Deployment;
    use crate::flow::route::Path;
    use crate::flow::strategy::rack::Aggregators;

    const RACK: Strategy = Strategy::Rack(Aggregators::PerJob);

    fn small(strategy: Strategy) -> Scene {
        let fabric = Fabric { width: 4, relays: Deployment::full(1), ..Fabric::PAPER };
        let workload = Workload::PAPER;
        Scene { fabric, workload, ..Scene::paper(strategy) }
    }

    #[test]
    fn sizes_follow_the_reduction() {
        let mut plan = Plan::default();
        let root = plan.add(Place::Relay(0), 0.0, None);
        let middle = plan.add(Place::Relay(1), 0.0, Some(root));
        (0..2).for_each(|_| _ = plan.add(Place::Server(0), 30.0, Some(middle)));
        plan.add(Place::Server(1), 40.0, Some(root));
        let tenths = |scene: Scene| -> Vec<f64> {
            scene.sizes(&plan, 100.0).into_iter().map(|bytes| (bytes * 10.0).round() / 10.0).collect()
        };
        let sizes = |reduction| tenths(Scene { reduction, ..small(RACK) });
        assert_eq!(sizes(Reduction::ToResult), [10.0, 10.0, 30.0, 30.0, 40.0]);
        assert_eq!(sizes(Reduction::OfPartials), [10.0, 6.0, 30.0, 30.0, 40.0]);
        assert_eq!(sizes(Reduction::EachStep), [4.6, 6.0, 30.0, 30.0, 40.0]);
        let none = Scene { output_ratio: 1.0, ..small(RACK) };
        assert_eq!(tenths(none), [100.0, 60.0, 30.0, 30.0, 40.0]);
    }

    /// Returns the 99th percentile over several seeds, because sizes have a heavy tail.
    fn p99(scene: &Scene) -> f64 {
        let flows_ms = |seed| scene.run(seed).flows_ms;
        let mut all: Vec<f64> = (1..9).flat_map(flows_ms).collect();
        all.sort_unstable_by(f64::total_cmp);
        quantile(&all, 0.99)
    }

    #[test]
    fn on_path_is_far_faster_than_aggregation_on_servers() {
        let on_path = p99(&small(Strategy::OnPath(4)));
        for strategy in [RACK, Strategy::Edge(2), Strategy::Edge(1)] {
            let other = p99(&small(strategy));
            assert!(on_path < 0.5 * other, "{on_path} ms, {strategy:?} {other} ms");
        }
    }

    #[test]
    fn relays_gain_little_if_results_are_not_smaller() {
        let unreduced = |strategy| p99(&Scene { output_ratio: 1.0, ..small(strategy) });
        let (rack, on_path) = (unreduced(RACK), unreduced(Strategy::OnPath(4)));
        assert!((0.7..1.3).contains(&(on_path / rack)), "{on_path} beside {rack} ms");
    }

    #[test]
    fn on_path_puts_less_on_the_links() {
        let bytes = |strategy| small(strategy).run(1).link_bytes.iter().sum::<f64>();
        assert!(bytes(Strategy::OnPath(4)) < bytes(RACK));
    }

    #[test]
    fn every_strategy_has_exactly_the_flows_of_the_workload() {
        let scene =
            |strategy| Scene { workload: Workload { stragglers: 0.2, ..Workload::PAPER }, ..small(strategy) };
        let traffic = scene(RACK).workload.draw(&scene(RACK).fabric, 1);
        let in_jobs: usize = traffic.jobs.iter().map(|job| job.workers.len()).sum();
        let per_rack = Strategy::Rack(Aggregators::PerRack);
        for strategy in
            [RACK, per_rack, Strategy::Edge(1), Strategy::Edge(2), Strategy::OnPath(1), Strategy::OnPath(4)]
        {
            let outcome = scene(strategy).run(1);
            assert_eq!(outcome.flows_ms.len(), in_jobs + traffic.others.len(), "{strategy:?}");
            assert!(outcome.hops_ms.len() >= outcome.flows_ms.len(), "{strategy:?}");
        }
    }

    #[test]
    fn a_flow_ends_when_its_aggregate_is_at_the_master() {
        let topology = Topology::new(small(RACK).fabric);
        let flow = |into| Flow { path: Path::new([0]), bytes: 1.0, starts_s: 1.0, into };
        // An aggregate of two partial results, one of them in two parts, and one other flow.
        let flows = vec![flow(None), flow(Some(0)), flow(Some(0)), flow(None), flow(None)];
        let (whole, has_own) = (vec![0, 1, 2, 2, 4], vec![false, true, true, true, true]);
        let all = Flows { flows, jobs: std::iter::once(0..4).collect(), others: 4, whole, has_own };
        let ended = fluid::Ended { at_s: vec![4.0, 2.0, 3.0, 5.0, 1.5], steps: 1 };
        let outcome = all.outcome(&topology, &ended);
        assert_eq!(outcome.flows_ms, [500.0, 3_000.0, 4_000.0]);
        assert_eq!(outcome.hops_ms, [500.0, 1_000.0, 3_000.0, 4_000.0]);
        assert_eq!((outcome.others_ms, outcome.jobs_ms), (vec![500.0], vec![4_000.0]));
    }

    #[test]
    fn pooled_outcomes_have_the_flows_of_both_in_order() {
        let [one, other] = [1, 2].map(|seed| small(RACK).run(seed));
        let (flows, relays) = (one.flows_ms.len() + other.flows_ms.len(), one.relays);
        let both = one.pooled(other);
        assert_eq!((both.flows_ms.len(), both.relays), (flows, relays));
        for figures in [&both.flows_ms, &both.others_ms, &both.hops_ms, &both.jobs_ms, &both.link_bytes] {
            assert!(figures.is_sorted());
        }
    }

    #[test]
    fn larger_steps_change_little_and_equal_seeds_nothing() {
        let fine = Scene { step_share: 0.001, ..small(RACK) }.run(2);
        let (coarse, again) = (small(RACK).run(2), small(RACK).run(2));
        for q in [0.5, 0.9, 0.99] {
            let (fine, coarse) = (quantile(&fine.flows_ms, q), quantile(&coarse.flows_ms, q));
            assert!((coarse / fine - 1.0).abs() < 0.02, "{coarse} and {fine} ms at {q}");
        }
        assert_eq!(coarse.flows_ms, again.flows_ms);
    }
}
