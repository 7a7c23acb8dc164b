//! Makes two nodes five times as slow and lets them recover, one after the other (DAC §5.5, figure 20).
//!
//! The measured figure is the *quality-aware* throughput: an answer with nine tenths of the partitions counts
//! as 0.9. Four schemes are the paper's. *Eager pruning* (EP) means load-adaptive trees and staged waiting;
//! without it trees are binomial and waiting is uniform. *Event-driven* (ED) means workers that are released
//! while they wait; without it they block. The paper's nodes repair nothing, so repair is off in these four.
//! `ours` is Treefold with its defaults: EP, ED and repair.

use super::cluster::{Cluster, Scheme};
use super::event_driven::BLOCKING_THREADS;
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{COVERAGE, find, mean};
use crate::experiment::trial::{Deed, Ended, Ledger, Trial, WARM_UP};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// Requests per second: three quarters of the capacity by the paper's count.
const PER_S: f64 = 45.0;
/// Factor of a slow node's work times.
const SLOWNESS: f64 = 5.0;
/// The slow nodes, each with its first and its last slow second.
const SLOW: [(usize, u64, u64); 2] = [(1, 10, 30), (2, 20, 40)];
/// Seconds that a figure covers.
const WINDOW_S: u64 = 2;
/// The last second of the charts.
const END_S: u64 = 60;
/// Seconds by which counting begins earlier, so that calls that end in the first window are counted.
const LEAD_IN_S: u64 = 4;
/// Any coverage is an answer, because its quality is measured.
const MIN_COVERAGE: f64 = 0.01;

/// The paper's four schemes, and ours.
pub const EXPERIMENT: Experiment = Experiment {
    name: "unresponsive",
    about: "45 calls per second at 24 nodes; node 1 is five times as slow from second 10 to 30, node 2 from 20 to 40: \
            throughput weighted by coverage, and coverage, over windows of 2 s",
    paper: "DAC §5.5, figure 20: without event-driven workers throughput collapses, without eager pruning partitions \
            of healthy nodes are lost, with both only partitions of the slow nodes are lost",
    charts: &[
        chart("unresponsive-throughput", QUALITY).labelled("answers per second × coverage"),
        chart("unresponsive-coverage", Measure::Coverage),
    ],
    cost_s: 50.0,
    run,
    findings,
};

const fn chart(file: &'static str, y: Measure) -> Chart {
    Chart::new(file, "Two of 24 nodes five times as slow: 10–30 s and 20–40 s", "second", y)
}

/// Answers per second, each weighted by its coverage.
const QUALITY_PER_S: &str = "quality_throughput_per_s";
const QUALITY: Measure = Measure::More(QUALITY_PER_S);

fn schemes() -> Vec<Scheme> {
    let pruning = |name| Scheme::new(name, Shape::Adaptive).still();
    let plain = |name| Scheme::new(name, Shape::Binomial).still().waiting(Waiting::Uniform);
    vec![
        plain("none").without_repair().blocking(BLOCKING_THREADS),
        pruning("ep").without_repair().blocking(BLOCKING_THREADS),
        plain("ed").without_repair(),
        pruning("ep+ed").without_repair(),
        pruning("ours"),
    ]
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let one = |scheme: &Scheme, seed| {
        let ledger = trial(scheme, seed).run();
        let window = |until| window(&ledger, scheme.name, until);
        (WINDOW_S..=END_S).step_by(WINDOW_S as usize).map(window).collect()
    };
    runs::compared(plan, progress, &schemes(), one, with_spells)
}

fn trial(scheme: &Scheme, seed: u64) -> Trial {
    let mut trial = Cluster::HOMOGENEOUS.trial(scheme, seed, PER_S, (LEAD_IN_S + END_S) as f64);
    trial.options.min_coverage = MIN_COVERAGE;
    let mut script: Vec<(Duration, Deed)> = Vec::new();
    for (node, from_s, until_s) in SLOW {
        let at = |second| WARM_UP + Duration::from_secs(LEAD_IN_S + second);
        script.push((at(from_s), Box::new(move |world| world.slow_down(node, SLOWNESS))));
        script.push((at(until_s), Box::new(move |world| world.slow_down(node, 1.0))));
    }
    script.sort_by_key(|&(at, _)| at);
    trial.script = script;
    trial
}

/// Returns the point of the window that ends at second `until_s`.
fn window(ledger: &Ledger, series: &str, until_s: u64) -> Point {
    let second = |second| Duration::from_secs(LEAD_IN_S + second);
    let ended: Vec<&Ended> = ledger.ended_between(second(until_s - WINDOW_S), second(until_s)).collect();
    let answered = || ended.iter().filter(|call| call.answered);
    let response_ms: Vec<f64> = answered().map(|call| call.response_ms()).collect();
    let coverage: f64 = answered().map(|call| call.coverage).sum();
    let per_s = |count: f64| count / WINDOW_S as f64;
    let throughput_per_s = per_s(response_ms.len() as f64);
    let coverage_mean = coverage / ended.len() as f64;
    Point::of_calls(series, until_s as f64, response_ms, throughput_per_s, coverage_mean)
        .with(QUALITY_PER_S, per_s(coverage))
}

/// The seconds in which a scheme has adapted to one slow node, and to two.
const SPELLS: [(&str, f64, f64); 2] = [("one slow node", 14.0, 20.0), ("two slow nodes", 24.0, 30.0)];

/// Name of the mean of quality per second over the windows of a spell, at the spell's last window.
pub const SPELL_QUALITY: &str = "spell_quality_throughput_per_s";
/// Name of the mean coverage over the windows of a spell, at the spell's last window.
pub const SPELL_COVERAGE: &str = "spell_coverage";

/// The pairs whose spells are compared.
const PAIRS: [[&str; 2]; 5] =
    [["ep", "none"], ["ed", "ep"], ["ep+ed", "ep"], ["ep+ed", "ed"], ["ours", "ep+ed"]];

/// Adds the means of each spell to the point of its last window, and compares the schemes by them.
fn with_spells(mut points: Vec<Point>) -> Vec<Point> {
    for (_, from, until) in SPELLS {
        for scheme in schemes() {
            let is_in = |point: &&Point| point.series == scheme.name && point.x > from && point.x <= until;
            let mean_of = |name| {
                let figures = points.iter().filter(is_in).filter_map(|point| point.figure(name));
                mean(&figures.filter(|figure| figure.is_finite()).collect::<Vec<f64>>())
            };
            let (quality, coverage) = (mean_of(QUALITY_PER_S), mean_of(COVERAGE));
            let is_last = |point: &&mut Point| point.series == scheme.name && point.x == until;
            if let Some(last) = points.iter_mut().find(is_last) {
                last.more.insert(SPELL_QUALITY.into(), quality.into());
                last.more.insert(SPELL_COVERAGE.into(), coverage.into());
            }
        }
    }
    for pair in PAIRS {
        compare(&mut points, pair, SPELL_QUALITY, &[]);
        compare(&mut points, pair, SPELL_COVERAGE, &[]);
    }
    points
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (nodes, (what, _, until)) in (1..).zip(SPELLS) {
        for series in schemes().iter().map(|scheme| scheme.name) {
            let Some(point) = find(points, series, until, &[]) else { continue };
            let quality = shown::figure(point, SPELL_QUALITY, 1, "/s");
            let Some((quality, coverage)) = quality.zip(shown::share(point, SPELL_COVERAGE, 1)) else {
                continue;
            };
            let paper = match series {
                "none" => "worst",
                "ep" if nodes == 1 => "better than none",
                "ep" => "collapses",
                "ed" => "high, partitions of healthy nodes lost",
                "ep+ed" => "best, only slow nodes' partitions lost",
                _ => "–",
            };
            let what =
                format!("{series} with {what}: quality-aware throughput of {PER_S} asked, mean coverage");
            findings.push(Finding::new(what, paper, format!("{quality}; {coverage}")));
        }
        for [ours, theirs] in PAIRS {
            let Some(point) = find(points, ours, until, &[]) else { continue };
            let change = |figure| shown::change(point, &change_name(figure, theirs));
            let Some((quality, coverage)) = change(SPELL_QUALITY).zip(change(SPELL_COVERAGE)) else {
                continue;
            };
            let paper = match ours {
                "ours" => "–",
                "ed" if nodes == 1 => "–",
                _ => "better",
            };
            let what = format!("{ours} against {theirs} with {what}: quality-aware throughput; coverage");
            findings.push(Finding::new(what, paper, format!("{quality}; {coverage}")));
        }
    }
    findings
}
