//! Measures how long a caller may use a load-adaptive tree again.
//!
//! ```text
//! cargo run --profile lean -p treefold-sim --example formed_trees [PARTS [FRONTS [SEEDS [SECONDS [LOAD,…]]]]]
//! ```
//!
//! The paper's clusters of 24 nodes serve calls of MICRO (locals of 25 ms, reductions of 5 ms), whose costs are divided by
//! PARTS (1 by default); there are PARTS times as many calls. FRONTS nodes without partitions call in turn, each with trees
//! of its own. The program prints for each cluster, each load and each rule the mean response time, its 99th percentile
//! and the answered calls per second, and the change of the mean against trees that are formed for each call, with its
//! 95 % interval over SEEDS pairs of runs.

#![allow(clippy::print_stdout, reason = "a program that prints its table")]

use treefold_core::call::Reforming;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_figures::mean_interval;
use treefold_sim::experiment::calls::cluster::{Cluster, LOCAL_MS, REDUCE_MS, Scheme};
use treefold_sim::experiment::runs::in_parallel;
use treefold_sim::experiment::trial::Trial;
use treefold_sim::experiment::{Plan, Unwatched};
use treefold_sim::world::distribution::Distribution;
use treefold_sim::world::place::Spec;
use treefold_sim::world::{Setting, World};

/// The name of the rule with which all others are compared.
const EACH_CALL: &str = "each call";

/// The results of one run.
#[derive(Clone, Copy)]
struct Run {
    mean_ms: f64,
    p99_ms: f64,
    per_s: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: f64| {
        args.get(at).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number")))
    };
    let (parts, fronts, seeds, seconds) =
        (number(0, 1.0), number(1, 1.0) as u32, number(2, 10.0) as u64, number(3, 60.0));
    let loads = args.get(4).map_or("0.5,0.7,0.85,1", String::as_str);
    let loads: Vec<f64> = loads.split(',').map(|load| load.parse().expect("a load is a number")).collect();
    let series = series();
    let clusters = [("equal", Cluster::HOMOGENEOUS), ("unequal", Cluster::HETEROGENEOUS)];
    let mut jobs = Vec::new();
    for (nodes, cluster) in clusters {
        for &load in &loads {
            for (name, scheme) in &series {
                jobs.extend(
                    (0..seeds).map(|seed| (nodes, cluster, load, name.clone(), scheme.clone(), seed)),
                );
            }
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan { seed: 0, repeat: 1, threads, quick: false };
    let runs = in_parallel(&plan, &Unwatched, &jobs, |(_, cluster, load, _, scheme, seed)| {
        let per_s = load * cluster.ideal_per_s() * parts;
        let ledger = trial(*cluster, scheme, 1 + seed, parts, fronts, per_s, seconds).run();
        let point = ledger.point("", per_s);
        Run { mean_ms: point.response_ms_mean, p99_ms: point.response_ms_p99, per_s: point.throughput_per_s }
    });
    println!("costs of MICRO / {parts}, {fronts} fronts, {seeds} seeds, {seconds} s each");
    println!("nodes    load  rule                       mean ms  change             p99 ms  answers/s");
    let of_each_seed: Vec<&[Run]> = runs.chunks(seeds as usize).collect();
    let mut compared: &[Run] = &[];
    for (job, of_seeds) in jobs.chunks(seeds as usize).zip(of_each_seed) {
        let (nodes, _, load, name, ..) = &job[0];
        if name == EACH_CALL {
            compared = of_seeds;
        }
        let mean = |of: fn(&Run) -> f64| of_seeds.iter().map(of).sum::<f64>() / of_seeds.len() as f64;
        let changes: Vec<f64> = of_seeds
            .iter()
            .zip(compared)
            .map(|(run, other)| (run.mean_ms / other.mean_ms - 1.0) * 100.0)
            .collect();
        let change = mean_interval(&changes)
            .map_or(String::new(), |interval| format!("{:+.1} to {:+.1} %", interval.low, interval.high));
        println!(
            "{nodes:8} {load:4}  {name:24} {:9.3}  {change:18} {:7.3} {:9.1}",
            mean(|run| run.mean_ms),
            mean(|run| run.p99_ms),
            mean(|run| run.per_s)
        );
    }
}

/// The rules: a tree for each call, other bounds one by one, and two shapes that do not look at load.
fn series() -> Vec<(String, Scheme)> {
    let adaptive = |name: String, reforming| {
        let mut scheme = Scheme::new("adaptive", Shape::Adaptive).still();
        scheme.tuning.reforming = reforming;
        (name, scheme)
    };
    let usual = Reforming::DEFAULT;
    let mut series = vec![adaptive(EACH_CALL.into(), Reforming { each_call: true, ..usual })];
    for us in [20, 100, 500, 5_000] {
        let work = Duration::from_micros(us);
        series.push(adaptive(format!("work {us} us, fresh 10 ms"), Reforming { work, ..usual }));
    }
    for ms in [2, 50] {
        let fresh = Duration::from_millis(ms);
        series.push(adaptive(format!("work 100 us, fresh {ms} ms"), Reforming { fresh, ..usual }));
    }
    for (name, shape) in [("binomial", Shape::Binomial), ("flat", Shape::Flat)] {
        let mut in_turn = Scheme::new(name, shape).still();
        in_turn.tuning.reforming = usual;
        series.push((name.into(), in_turn));
    }
    series
}

fn trial(
    cluster: Cluster,
    scheme: &Scheme,
    seed: u64,
    parts: f64,
    fronts: u32,
    per_s: f64,
    seconds: f64,
) -> Trial {
    let mut setting = Setting::micro(seed, cluster.nodes());
    setting.operators[0].local = Distribution::Exponential(LOCAL_MS / parts);
    setting.operators[0].reduce = Distribution::Exponential(REDUCE_MS / parts);
    let mut world = World::new(setting.clone());
    for at in 0..cluster.nodes() {
        let processors = if at < cluster.duals { 2 } else { 4 };
        world.start(Spec {
            processors,
            tuning: scheme.tuning.clone(),
            ..Spec::holding([at].into_iter().collect())
        });
    }
    let front = || Spec { tuning: scheme.tuning.clone(), ..Spec::front() };
    let fronts: Vec<usize> = (0..fronts).map(|_| world.start(front())).collect();
    world.introduce_fronts(&fronts);
    let mut trial = Trial::poisson(world, &setting, fronts, per_s, seconds);
    trial.warm_up = Duration::from_millis_f64(seconds * 1_000.0 / 4.0);
    trial.options = scheme.options();
    trial
}
