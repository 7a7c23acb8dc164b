//! One run: a fabric, a workload, a strategy, and what comes of them.
//!
//! # How large a result is
//!
//! The output ratio α is that of a job: its result is α times all its partial results together (§4.1, and the traces of
//! §2.1, which count whole jobs). How large a result of only *some* of its partial results is, the paper does not say,
//! and it matters most of all. [`Reduction`] has three answers. The default is that no result is larger than what went
//! into it, nor than the job's: a table of counts has no more rows for a part of the text than for the whole. Then what a
//! rack has of a large job is hardly reduced there, and the paper's own finding that relays in racks alone gain little,
//! and relays high up much (figure 12), comes out; with a ratio of α at each step it would not.
//!
//! # What is timed
//!
//! A flow is what the workload has: a worker's partial result, or what one of the others sends. It ends when what became
//! of it is where it was to go: a partial result with the last aggregate that it is in, at its job's master. So there are
//! as many under every strategy, 46 % of them aggregatable as the paper has it, and none is over because it is out of its
//! sender's hands. A partial result that is cut into parts for several trees ends with the last of them.
//!
//! The paper says "the time elapsed between the start and the end of a flow" (§2.4) and not where a flow that is
//! aggregated ends. It can also be read as each *hop*, from one machine to the next, aggregates included, so they are
//! timed too. Under that reading strategies differ in how many flows they have; each hop of a chain lasts as long as the
//! longest before it; and with α = 1, where nothing gets smaller, relays look far better than rack, which the paper denies
//! (figure 8).
//!
//! Beside both, a job is timed until its whole result is there.

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
    /// What is sent.
    pub workload: Workload,
    /// Where it is aggregated.
    pub strategy: Strategy,
    /// α: a job's result is so many times its partial results.
    pub output_ratio: f64,
    /// What that makes of a part of them.
    pub reduction: Reduction,
    /// The share of live flows that ends between two allocations.
    pub step_share: f64,
}

/// How large the result of some of a job's partial results is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// As large as what went into it, but no larger than the job's result.
    ToResult,
    /// α times the partial results in it, however often they were aggregated.
    OfPartials,
    /// α times what the aggregation received: a result that is aggregated again shrinks again.
    EachStep,
}

impl Scene {
    /// NetAgg's (§4.1) under a strategy.
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

/// What a run gave; times are ascending.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All flows, until what became of them is where it was to go, in ms.
    pub flows_ms: Vec<f64>,
    /// Those that cannot be aggregated.
    pub others_ms: Vec<f64>,
    /// What each machine sent another, aggregates included, and the others.
    pub hops_ms: Vec<f64>,
    /// Jobs until their result is there.
    pub jobs_ms: Vec<f64>,
    /// Bytes over each link between servers and switches, ascending.
    pub link_bytes: Vec<f64>,
    /// How many relays there were.
    pub relays: usize,
    /// How often rates were allocated.
    pub steps: u32,
}

/// All flows of a run, and what each is part of.
#[derive(Default)]
struct Flows {
    flows: Vec<Flow>,
    /// Those of each job, from here to here.
    jobs: Vec<Range<usize>>,
    /// From here on they are others.
    others: usize,
    /// For each flow the first one of the partial result that it is a part of; itself, if of none.
    whole: Vec<u32>,
    /// Whether a partial result, or one of the others, starts with each flow.
    has_own: Vec<bool>,
}

impl Scene {
    /// Runs the scene with the traffic that `seed` names.
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

    /// How large what each stop sends is.
    fn sizes(&self, plan: &Plan, job_bytes: f64) -> Vec<f64> {
        let so_many = plan.stops.len();
        let result_bytes = self.output_ratio * job_bytes / f64::from(plan.trees.max(1));
        // Of what reaches each stop, its own included: the partial results in it, and its bytes as they come.
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

    /// When what became of each flow was at its end: with the root of its tree, which ends last.
    fn delivered_s(&self, ended: &fluid::Ended) -> Vec<f64> {
        let mut delivered_s = ended.at_s.clone();
        for (at, flow) in self.flows.iter().enumerate() {
            if let Some(into) = flow.into {
                delivered_s[at] = delivered_s[into as usize];
            }
        }
        delivered_s
    }

    /// The times of those flows that `is_one`, parts of one partial result being one that takes as long as its longest.
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

    /// Of several seeds together, as sizes have a heavy tail.
    fn p99(scene: &Scene) -> f64 {
        let flows_ms = |seed| scene.run(seed).flows_ms;
        let mut all: Vec<f64> = (1..9).flat_map(flows_ms).collect();
        all.sort_unstable_by(f64::total_cmp);
        quantile(&all, 0.99)
    }

    #[test]
    fn on_path_is_far_below_what_servers_aggregate() {
        let on_path = p99(&small(Strategy::OnPath(4)));
        for strategy in [RACK, Strategy::Edge(2), Strategy::Edge(1)] {
            let other = p99(&small(strategy));
            assert!(on_path < 0.5 * other, "{on_path} ms, {strategy:?} {other} ms");
        }
    }

    #[test]
    fn where_nothing_gets_smaller_relays_gain_little() {
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
    fn every_strategy_has_the_flows_of_the_workload_and_no_others() {
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
    fn a_flow_ends_when_what_became_of_it_is_at_the_master() {
        let topology = Topology::new(small(RACK).fabric);
        let flow = |into| Flow { path: Path::new([0]), bytes: 1.0, starts_s: 1.0, into };
        // An aggregate of two partial results, one of which is cut into two parts, and another flow.
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
    fn larger_steps_change_little_and_the_same_seed_gives_the_same() {
        let fine = Scene { step_share: 0.001, ..small(RACK) }.run(2);
        let (coarse, again) = (small(RACK).run(2), small(RACK).run(2));
        for q in [0.5, 0.9, 0.99] {
            let (fine, coarse) = (quantile(&fine.flows_ms, q), quantile(&coarse.flows_ms, q));
            assert!((coarse / fine - 1.0).abs() < 0.02, "{coarse} and {fine} ms at {q}");
        }
        assert_eq!(coarse.flows_ms, again.flows_ms);
    }
}
