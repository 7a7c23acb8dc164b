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
//! A flow is what one machine sends another, results on their way included, from its start to its end; a partial result
//! that is cut into parts for several trees is one flow, and ends with the last of them. Beside it a job
//! is timed until its whole result is there, and, *end to end*, each flow as the user sees it: aggregatable ones until
//! their job's result is there.

use super::fluid::{self, Flow, STEP_SHARE};
use super::route::{Way, route};
use super::strategy::{Plan, Strategy};
use super::topology::{Fabric, Place, Topology};
use super::workload::{Job, Traffic, Workload};
use crate::world::ink::mixed;

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
    /// All flows, in ms.
    pub flows_ms: Vec<f64>,
    /// Those that cannot be aggregated.
    pub others_ms: Vec<f64>,
    /// All flows as users see them.
    pub end_to_end_ms: Vec<f64>,
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
    /// Those of each job, from here to here, and how many of them are partial results.
    jobs: Vec<(std::ops::Range<usize>, usize)>,
    /// From here on they are others.
    others: usize,
    /// For each flow the first one of the partial result that it is a part of; itself, if of none.
    whole: Vec<u32>,
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
            all.jobs.push((first..all.flows.len(), job.workers.len()));
        }
        all.others = all.flows.len();
        all.whole.extend((0..traffic.others.len()).map(|nth| (all.others + nth) as u32));
        for (nth, other) in (0..).zip(&traffic.others) {
            let way = Way::hashed(topology.fabric(), mixed(seed ^ 0x6f74_6865) ^ nth);
            let path = route(topology, Place::Server(other.from), Place::Server(other.to), way);
            all.flows.push(Flow { path, bytes: other.bytes, starts_s: 0.0, into: None });
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
            flows.push(Flow { path, bytes, starts_s: stop.starts_s, into: stop.to.map(|to| first + to) });
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
        let ms = |at: usize| (ended.at_s[at] - self.flows[at].starts_s) * 1e3;
        let mut outcome = Outcome { relays: topology.relays(), steps: ended.steps, ..Outcome::default() };
        let mut wholes_ms = vec![f64::NEG_INFINITY; self.flows.len()];
        for (at, &whole) in self.whole.iter().enumerate() {
            let whole_ms = &mut wholes_ms[whole as usize];
            *whole_ms = whole_ms.max(ms(at));
        }
        outcome.flows_ms = wholes_ms.into_iter().filter(|ms| ms.is_finite()).collect();
        outcome.others_ms = (self.others..self.flows.len()).map(ms).collect();
        outcome.end_to_end_ms = outcome.others_ms.clone();
        for (flows, partials) in self.jobs.iter().filter(|(flows, _)| !flows.is_empty()) {
            let job_ms = flows.clone().map(|at| ended.at_s[at] * 1e3).fold(0.0, f64::max);
            outcome.jobs_ms.push(job_ms);
            outcome.end_to_end_ms.extend(std::iter::repeat_n(job_ms, *partials));
        }
        let mut link_bytes = vec![0.0; topology.capacity().len()];
        for flow in &self.flows {
            flow.path.links().for_each(|link| link_bytes[link] += flow.bytes);
        }
        link_bytes.truncate(topology.network_links());
        outcome.link_bytes = link_bytes;
        let Outcome { flows_ms, others_ms, end_to_end_ms, jobs_ms, link_bytes, .. } = &mut outcome;
        for figures in [flows_ms, others_ms, end_to_end_ms, jobs_ms, link_bytes] {
            figures.sort_unstable_by(f64::total_cmp);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::point::quantile;
    use crate::flow::deployment::Deployment;
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

    #[test]
    fn on_path_is_quicker_than_rack_and_puts_less_on_the_links() {
        let (rack, on_path) = (small(RACK).run(1), small(Strategy::OnPath(4)).run(1));
        let p99 = |outcome: &Outcome| quantile(&outcome.flows_ms, 0.99);
        assert!(p99(&on_path) < 0.9 * p99(&rack), "{} and {} ms", p99(&on_path), p99(&rack));
        let jobs = |outcome: &Outcome| quantile(&outcome.jobs_ms, 0.99);
        assert!(jobs(&on_path) < jobs(&rack), "{} and {} ms", jobs(&on_path), jobs(&rack));
        let bytes = |outcome: &Outcome| outcome.link_bytes.iter().sum::<f64>();
        assert!(bytes(&on_path) < bytes(&rack));
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
