//! Measures the partitions that k unresponsive nodes cost, by waiting rule (DAC §4.4).
//!
//! With uniform waiting, all nodes have the same time. A node that waits for a slow child until its time is
//! up then answers too late for its parent. The whole subtree is lost with the child, up to the root. With
//! staged waiting, the slow node's parent gives up on it and still has time to pass on the rest, so k
//! unresponsive nodes cost k partitions. For uniform waiting the paper gives `min(2^(⌈log k⌉+1) − 1, n − 1)`,
//! for trees that place the unresponsive nodes lowest.
//!
//! LAT makes leaves of nodes that are slow without end, but not always leaves directly below the root, as the
//! paper's formula assumes. The deeper such a leaf is, the more of its ancestors answer too late. So ours
//! loses more than the formula with *uniform*.
//!
//! Nodes fail in two ways. The paper's nodes are *slow*: they take part, and their work never ends. Their
//! load shows this, and LAT makes leaves of them. A *stopped* node (kill -STOP) does and sends nothing. Its
//! last message makes it look idle, so it can be anywhere in the tree, and the nodes below it are never
//! called. Repair handles this case.

use super::cluster::{Cluster, NODES, Scheme};
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::find;
use crate::experiment::trial::Deed;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// Most unresponsive nodes.
const UNRESPONSIVE_MAX: usize = 8;
/// Requests per second: a third of the capacity, so that all responsive nodes answer in time.
const PER_S: f64 = 20.0;
/// Factor of a slow node's work times: 25 ms become four minutes.
const SLOWNESS: f64 = 10_000.0;
/// Time at which the fault begins. By then nodes know the cost of their work. The rest of the warm-up shows
/// which are slow.
const FROM: Duration = Duration::from_secs(4);
/// Any coverage is an answer, because the lost partitions are measured.
const MIN_COVERAGE: f64 = 0.01;

/// Measures one to eight nodes that do not respond.
pub const EXPERIMENT: Experiment = Experiment {
    name: "staged",
    about: "1 to 8 of 24 nodes do not respond because they are slow without end, or stopped: partitions lost per call, by \
            waiting rule, and with repair; runs of 40 s",
    paper: "DAC §4.4: with staged waiting k unresponsive nodes cost exactly k partitions, with uniform waiting \
            min(2^(⌈log k⌉+1) − 1, n − 1)",
    charts: &[
        chart("staged-slow", "Partitions lost to nodes that are slow without end, 24 nodes", Fault::Slow)
            .beside(&[("uniform", &UNIFORM_LOSES), ("staged", &EXACTLY)]),
        chart("staged-stopped", "Partitions lost to stopped nodes (kill -STOP), 24 nodes", Fault::Stopped)
            .beside(&[("staged", &EXACTLY)]),
    ],
    cost_s: 150.0,
    run,
    findings,
};

const fn chart(file: &'static str, title: &'static str, fault: Fault) -> Chart {
    Chart::new(file, title, "unresponsive nodes", Measure::More(PARTITIONS_LOST))
        .labelled("partitions lost per call")
        .only("fault", fault.name())
}

/// The series that the others are compared with.
const STAGED: &str = "staged";
/// The numbers of unresponsive nodes in the table.
const SHOWN: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// The name of the measured figure.
const PARTITIONS_LOST: &str = "partitions_lost";

/// The paper's formula for uniform waiting at 24 nodes.
const UNIFORM_LOSES: [(f64, f64); UNRESPONSIVE_MAX] =
    [(1.0, 1.0), (2.0, 3.0), (3.0, 7.0), (4.0, 7.0), (5.0, 15.0), (6.0, 15.0), (7.0, 15.0), (8.0, 15.0)];
/// The paper's claim for staged waiting.
const EXACTLY: [(f64, f64); UNRESPONSIVE_MAX] =
    [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0), (6.0, 6.0), (7.0, 7.0), (8.0, 8.0)];

/// The way in which a node does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Slow,
    Stopped,
}

impl Fault {
    const fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Stopped => "stopped",
        }
    }

    /// Returns the action that makes the first `count` nodes stop responding.
    fn deed(self, count: usize) -> Deed {
        Box::new(move |world| {
            (0..count).for_each(|node| match self {
                Self::Slow => world.slow_down(node, SLOWNESS),
                Self::Stopped => world.stop(node),
            });
        })
    }
}

fn schemes() -> Vec<Scheme> {
    let waiting = |name, rule| Scheme::new(name, Shape::Adaptive).still().without_repair().waiting(rule);
    vec![
        waiting("uniform", Waiting::Uniform),
        waiting(STAGED, Waiting::Staged),
        waiting("staged-reversed", Waiting::StagedReversed),
        Scheme::new("repair", Shape::Adaptive).still(),
    ]
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let (counts, seconds): (&[usize], f64) =
        if plan.quick { (&[1, 4], 10.0) } else { (&[1, 2, 3, 4, 5, 6, 7, 8], 40.0) };
    let mut jobs: Vec<(Scheme, Fault, usize)> = Vec::new();
    for scheme in schemes() {
        for fault in [Fault::Slow, Fault::Stopped] {
            jobs.extend(counts.iter().map(|&count| (scheme.clone(), fault, count)));
        }
    }
    let one = |(scheme, fault, count): &(Scheme, Fault, usize), seed| {
        let mut trial = Cluster::HOMOGENEOUS.trial(scheme, seed, PER_S, seconds);
        trial.options.min_coverage = MIN_COVERAGE;
        trial.script = vec![(FROM, fault.deed(*count))];
        let point = trial.run().point(scheme.name, *count as f64);
        let lost = (1.0 - point.coverage_mean) * f64::from(NODES);
        vec![point.with(PARTITIONS_LOST, lost).with("fault", fault.name())]
    };
    runs::compared(plan, progress, &jobs, one, |mut points| {
        let series: Vec<&str> = schemes().iter().map(|scheme| scheme.name).collect();
        let others = series.iter().filter(|series| **series != STAGED);
        others.for_each(|series| compare(&mut points, [series, STAGED], PARTITIONS_LOST, &["fault"]));
        points
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |what, paper: &str, ours: Vec<String>| {
        if !ours.is_empty() {
            findings.push(Finding::new(what, paper, ours.join("; ")));
        }
    };
    for fault in [Fault::Slow, Fault::Stopped] {
        for series in schemes().iter().map(|scheme| scheme.name) {
            let at = |count: f64| find(points, series, count, &[("fault", fault.name())]);
            let lost = |&count: &f64| {
                Some(format!("{} at {count}", shown::figure(at(count)?, PARTITIONS_LOST, 1, "")?))
            };
            let paper = match (fault, series) {
                (Fault::Slow, "uniform") => "1 at 1, 3 at 2, 7 at 4, 15 at 8",
                (Fault::Slow, STAGED) => "1 at 1, 2 at 2, 4 at 4, 8 at 8",
                _ => "–",
            };
            let what = format!("partitions lost to {} nodes, {series}", fault.name());
            add(what, paper, SHOWN.iter().filter_map(lost).collect());
            let change = |&count: &f64| {
                let change = shown::change(at(count)?, &change_name(PARTITIONS_LOST, STAGED))?;
                Some(format!("{change} at {count}"))
            };
            let what = format!("the same, against {STAGED}");
            add(what, "–", SHOWN.iter().filter_map(change).collect());
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_curve_follows_the_formula() {
        for (k, lost) in UNIFORM_LOSES {
            let formula = 2_f64.powf(k.log2().ceil() + 1.0) - 1.0;
            assert_eq!(formula.min(f64::from(NODES - 1)), lost, "{k}");
        }
    }
}
