//! Compares shapes of trees over links with a delay.
//!
//! ```text
//! cargo run --profile lean -p treefold-sim --example tree_delay [SEEDS [SECONDS [LOAD,… [HOP_MS,…]]]]
//! ```
//!
//! The paper's cluster of 24 nodes serves calls of MICRO (locals of 25 ms, reductions of 5 ms). Every message takes HOP_MS. The
//! program prints for each load, each delay and each shape the mean response time of calls and its 95 % interval over SEEDS
//! runs, and the change of the mean against adaptive trees that know no delays, with its 95 % interval over pairs of runs with
//! the same arrivals and costs.

#![allow(clippy::print_stdout, reason = "a program that prints its table")]

use core::time::Duration as Time;
use treefold_core::membership::MembershipConfig;
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_figures::mean_interval;
use treefold_sim::experiment::calls::cluster::{Cluster, Scheme};
use treefold_sim::experiment::runs::in_parallel;
use treefold_sim::experiment::trial::Trial;
use treefold_sim::experiment::{Plan, Unwatched};
use treefold_sim::world::network::Links;
use treefold_sim::world::place::Spec;
use treefold_sim::world::{Setting, World};

/// A run's time before the measurement, in which the front probes the members.
const WARM_UP: Duration = Duration::from_secs(12);

/// The series with which all others are compared.
const BLIND: &str = "adaptive, no delay known";

/// The results of one run.
#[derive(Clone, Copy)]
struct Run {
    mean_ms: f64,
    per_s: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: f64| {
        args.get(at).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number")))
    };
    let numbers = |at: usize, usual: &str| -> Vec<f64> {
        let text = args.get(at).map_or(usual, String::as_str);
        text.split(',')
            .map(|part| part.parse().unwrap_or_else(|_| panic!("{part:?} is not a number")))
            .collect()
    };
    let (seeds, seconds) = (number(0, 10.0) as u64, number(1, 30.0));
    let (loads, hops_ms) = (numbers(2, "0.05,0.5,0.85"), numbers(3, "0.17,2,4,10,20,40"));
    let series = series();
    let mut jobs = Vec::new();
    for &load in &loads {
        for &hop_ms in &hops_ms {
            for scheme in &series {
                jobs.extend((0..seeds).map(|seed| (load, hop_ms, scheme.clone(), seed)));
            }
        }
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan { seed: 0, repeat: 1, threads, quick: false };
    let runs = in_parallel(&plan, &Unwatched, &jobs, |(load, hop_ms, scheme, seed)| {
        let per_s = load * Cluster::HOMOGENEOUS.ideal_per_s();
        let point = trial(scheme, 1 + seed, *hop_ms, per_s, seconds).run().point("", per_s);
        Run { mean_ms: point.response_ms_mean, per_s: point.throughput_per_s }
    });
    println!("{seeds} seeds, {seconds} s each");
    println!(
        "load  hop ms  shape                     mean ms  interval           change              answers/s"
    );
    let of_each_seed: Vec<&[Run]> = runs.chunks(seeds as usize).collect();
    let mut compared: &[Run] = &[];
    for (job, of_seeds) in jobs.chunks(seeds as usize).zip(of_each_seed) {
        let (load, hop_ms, scheme, _) = &job[0];
        if scheme.name == BLIND {
            compared = of_seeds;
        }
        let means: Vec<f64> = of_seeds.iter().map(|run| run.mean_ms).collect();
        let changes: Vec<f64> = of_seeds
            .iter()
            .zip(compared)
            .map(|(run, other)| (run.mean_ms / other.mean_ms - 1.0) * 100.0)
            .collect();
        let interval = |of: &[f64], unit: &str, signed: bool| {
            mean_interval(of).map_or(String::new(), |interval| match signed {
                true => format!("{:+.1} to {:+.1}{unit}", interval.low, interval.high),
                false => format!("{:.1} to {:.1}{unit}", interval.low, interval.high),
            })
        };
        println!(
            "{load:4}  {hop_ms:6}  {:24} {:8.1}  {:17}  {:18} {:10.1}",
            scheme.name,
            means.iter().sum::<f64>() / means.len() as f64,
            interval(&means, "", false),
            interval(&changes, " %", true),
            of_seeds.iter().map(|run| run.per_s).sum::<f64>() / seeds as f64,
        );
    }
}

/// The shapes. Where nodes do not gossip, the front measures no round trips.
fn series() -> Vec<Scheme> {
    let membership = MembershipConfig {
        probe_period: Time::from_millis(400),
        probe_timeout: Time::from_millis(190),
        ..MembershipConfig::lan()
    };
    let gossiping = |name, shape| {
        let mut scheme = Scheme::new(name, shape);
        scheme.tuning.membership = membership;
        scheme
    };
    vec![
        Scheme::new(BLIND, Shape::Adaptive).still(),
        gossiping("adaptive", Shape::Adaptive),
        Scheme::new("earliest-ready, no delay", Shape::EarliestReady).still(),
        gossiping("earliest-ready", Shape::EarliestReady),
        Scheme::new("flat", Shape::Flat).still(),
        Scheme::new("binomial", Shape::Binomial).still(),
    ]
}

fn trial(scheme: &Scheme, seed: u64, hop_ms: f64, per_s: f64, seconds: f64) -> Trial {
    let hop = Duration::from_millis_f64(hop_ms);
    let mut setting = Setting::micro(seed, Cluster::HOMOGENEOUS.nodes());
    setting.links = Links { stream_delay: hop, datagram_delay: hop, ..Links::DAC };
    let mut world = World::new(setting.clone());
    for at in 0..Cluster::HOMOGENEOUS.nodes() {
        let spec = Spec::holding([at].into_iter().collect());
        world.start(Spec { processors: 2, tuning: scheme.tuning.clone(), ..spec });
    }
    let front = world.start(Spec { tuning: scheme.tuning.clone(), ..Spec::front() });
    if scheme.tuning.membership.gossips {
        world.introduce_all();
    } else {
        world.introduce_fronts(&[front]);
    }
    let mut trial =
        Trial::poisson(world, &setting, vec![front], per_s, seconds + WARM_UP.as_millis_f64() / 1e3);
    trial.warm_up = WARM_UP;
    trial.options = scheme.options();
    trial
}
