//! Measures the error of a load figure by its age (random polling §2.1, figure 2).
//!
//! The experiment has one server and measures the mean of |q(t) − q(t + delay)|, where q is the length of its
//! queue. After a long delay the two lengths are independent, and for Poisson/Exp their mean difference can
//! be computed. In a single queue the probability of length k is (1 − ρ)ρᵏ. For two independent lengths, with
//! r = 1 − ρ,
//!
//! ```text
//!   E|X − Y| = Σ_{d≥1} d · 2 Σ_k P(k) P(k + d)
//!            = Σ_{d≥1} 2d · r²ρᵈ · Σ_k ρ²ᵏ  =  2r²/(1 − ρ²) · Σ_{d≥1} d·ρᵈ
//!            = 2r²/(1 − ρ²) · ρ/r²          =  2ρ/(1 − ρ²)
//! ```
//!
//! which is 1.33 at 50 % and 9.47 at 90 %. After a few service times, a busy server's figure is worth little.
//! An idle server's figure is never far off.

use super::cluster::{DEADLINE, setting};
use super::workload::Workload;
use crate::evaluation::Finding;
use crate::experiment::chart::Reference;
use crate::experiment::point::{find, mean};
use crate::experiment::trial::still;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use crate::world::ink::Ink;
use crate::world::place::Spec;
use crate::world::{Polling, Watch, World};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::id::RequestId;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::{Duration, Instant};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "load-inaccuracy",
    about: "The age of a load figure, in mean service times: the error of the figure, in requests; runs of 100,000 mean \
            service times",
    paper: "random polling §2.1, figure 2: at 50 % the error soon reaches its bound, 1.33 for Poisson/Exp, and does \
            little harm; at 90 % it is about 3 after 10 service times",
    charts: &[
        chart("load-inaccuracy-poisson-exp", "Poisson/Exp, one server", "poisson-exp").beside(BOUNDS),
        chart("load-inaccuracy-fine-grain", "Fine-grain, one server", "fine-grain"),
        chart("load-inaccuracy-medium-grain", "Medium-grain, one server", "medium-grain"),
    ],
    cost_s: 30.0,
    run,
    findings,
};

const BOUNDS: Reference = &[
    ("bound at 50 %", &[(0.5, 4.0 / 3.0), (100.0, 4.0 / 3.0)]),
    ("bound at 90 %", &[(0.5, 180.0 / 19.0), (100.0, 180.0 / 19.0)]),
];

const fn chart(file: &'static str, title: &'static str, workload: &'static str) -> Chart {
    Chart::new(file, title, "delay (mean service times)", Measure::More("inaccuracy"))
        .labelled("mean difference of queue length (requests)")
        .only("workload", workload)
}

/// The loads, by series.
const LOADS: [(&str, f64); 2] = [("50%", 0.5), ("90%", 0.9)];
/// Samples of the queue's length per mean service time.
const LOOKS: usize = 4;
/// The delays, in samples.
const DELAYS: [usize; 9] = [2, 4, 8, 20, 40, 80, 160, 240, 400];
/// Length of a run in mean service times. It is many times the longest delay, because the length of a queue
/// that is 90 % busy stays correlated for hundreds of service times.
const SPAN: usize = 100_000;
const SPAN_QUICK: usize = 10_000;

/// Returns the mean difference for Poisson/Exp after a long delay; see the module's documentation.
pub fn bound(load: f64) -> f64 {
    2.0 * load / (1.0 - load * load)
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let span = if plan.quick { SPAN_QUICK } else { SPAN };
    let jobs: Vec<(Workload, (&str, f64))> =
        Workload::ALL.into_iter().flat_map(|workload| LOADS.map(|load| (workload.clone(), load))).collect();
    runs::with_intervals(plan, progress, &jobs, |(workload, load), seed| measure(workload, *load, span, seed))
}

/// Samples the queue length of one server and returns a point for each delay.
fn measure(workload: &Workload, (series, load): (&str, f64), span: usize, seed: u64) -> Vec<Point> {
    let mut world = World::new(setting(seed, workload.service.clone(), Polling::FREE));
    let spec = Spec { processors: 1, tuning: still(), ..Spec::holding(PartitionSet::first(1)) };
    let front = world.start(Spec { partitions: PartitionSet::new(), ..spec.clone() });
    let server = world.start(spec);
    world.introduce_fronts(&[front]);

    let start = world.now();
    let per_s = load * 1_000.0 / workload.mean_ms();
    let mut arrivals = workload.arrivals(seed, per_s, start).enumerate().peekable();
    let options = CallOptions { deadline: DEADLINE, ..CallOptions::default() };
    let look_ms = workload.mean_ms() / LOOKS as f64;
    let mut responses = Responses::default();
    let mut lengths = Vec::with_capacity(span * LOOKS);
    for look in 1..=span * LOOKS {
        let at = start + Duration::from_millis_f64(look_ms * look as f64);
        while let Some((number, when)) = arrivals.next_if(|&(_, when)| when < at) {
            world.call_at(when, front, Ink::params(number as u64, 1.0), options.clone());
        }
        world.run_until(at, &mut responses);
        lengths.push(world.place(server).node().load_figure().in_flight);
    }
    let throughput_per_s = responses.ms.len() as f64 / (span as f64 * workload.mean_ms() / 1_000.0);
    let of_any_delay =
        Point::of_calls(series, 0.0, responses.ms, throughput_per_s, 1.0).with("workload", workload.name);
    let point = |delay: usize| {
        let point = Point { x: delay as f64 / LOOKS as f64, ..of_any_delay.clone() };
        point.with("inaccuracy", inaccuracy(&lengths, delay))
    };
    DELAYS.into_iter().map(point).collect()
}

/// Returns the mean of |q(t) − q(t + delay)|.
fn inaccuracy(lengths: &[u32], delay: usize) -> f64 {
    let pairs = lengths.iter().zip(lengths.iter().skip(delay));
    let differences: Vec<f64> = pairs.map(|(&now, &then)| f64::from(now.abs_diff(then))).collect();
    mean(&differences)
}

/// The response times of calls.
#[derive(Default)]
struct Responses {
    ms: Vec<f64>,
}

impl Watch for Responses {
    fn outcome(&mut self, _now: Instant, _at: usize, _request: RequestId, outcome: &Outcome<Ink>) {
        self.ms.push(outcome.elapsed.as_millis_f64());
    }
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let inaccuracy = |series, x, workload, decimals| {
        let point = find(points, series, x, &[("workload", workload)])?;
        shown::figure(point, "inaccuracy", decimals, "")
    };
    let mut findings = Vec::new();
    if let Some(found) = inaccuracy("50%", 100.0, "poisson-exp", 2) {
        let what = "error of a load figure 100 service times old, Poisson/Exp, 50 %";
        findings.push(Finding::new(what, "1.33 at most", found));
    }
    for workload in Workload::ALL {
        if let Some(found) = inaccuracy("90%", 10.0, workload.name, 2) {
            let what = format!("error of a load figure 10 service times old, {}, 90 %", workload.name);
            findings.push(Finding::new(what, "about 3", found));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_equals_the_papers() {
        assert!((bound(0.5) - 1.33).abs() < 0.01 && (bound(0.9) - 9.47).abs() < 0.01);
    }

    #[test]
    fn an_alternating_queue_differs_from_itself_at_odd_delays_only() {
        let lengths: Vec<u32> = (0..1_000).map(|look| look % 2 * 3).collect();
        assert_eq!((inaccuracy(&lengths, 1), inaccuracy(&lengths, 2)), (3.0, 0.0));
    }
}
