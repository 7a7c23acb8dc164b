//! Shares the processors of one agg box between tasks of 34 ms and tasks of 2 ms (NetAgg §4.2.3, figures 25
//! and 26).
//!
//! The paper runs a Solr and a Hadoop application on one box, each with a share of 50 %. With fixed weights
//! the short tasks starve. With adaptive weights both applications get equal time. This experiment also
//! changes the shares while the box runs (at 20 s, to 3:1), and the task times (at 40 s, with equal shares
//! again: 5 and 20 ms), which a moving average has to learn. Task times are exponential. The box has eight
//! processors, and both applications always have tasks.

use super::node::{Demand, Node};
use super::policy::Policy;
use crate::evaluation::Finding;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fair-shares",
    about: "Two applications whose tasks take 34 ms and 2 ms on one node: their parts of the processor time over time, by \
            lottery with fixed and with adaptive weights and by start-time fair queueing on measured cost, while shares \
            (at 20 s, 3:1) and tasks (at 40 s, equal shares, 5 ms and 20 ms) change",
    paper: "NetAgg §4.2.3, figures 25 and 26: at shares of 50 % each, fixed weights starve the application of short \
            tasks; weights adapted by measured times split the processors fairly",
    charts: &[Chart::new(
        "fair-shares",
        "The 34 ms application's part of the processors: 1:1, then 3:1, then 1:1 with other tasks",
        "time (s)",
        Measure::More(PART),
    )
    .labelled("part of the processor time")],
    run,
    findings,
};

/// Name of the long application's part of the processor time in an interval.
const PART: &str = "part";
/// Name of the part that its share entitles it to.
const DUE: &str = "due";
/// Name of its part since the last change.
const SINCE: &str = "part_since_change";

const PROCESSORS: usize = 8;
/// Time between two points, in s.
const INTERVAL_S: f64 = 0.5;
/// Length of a phase, in s.
const PHASE_S: f64 = 20.0;
/// Time after a change for which parts do not count as steady, in s.
const WARM_UP_S: f64 = 1.0;
/// Largest deviation from the due part at which a policy has converged.
const CLOSE: f64 = 0.02;

/// The phases: the shares, the mean task times in ms, and the due part of the first application.
const PHASES: [([f64; 2], [f64; 2], f64); 3] =
    [([1.0, 1.0], [34.0, 2.0], 0.5), ([3.0, 1.0], [34.0, 2.0], 0.75), ([1.0, 1.0], [5.0, 20.0], 0.5)];

fn demand(phase: usize) -> Demand {
    let (shares, task_ms, _) = PHASES[phase];
    Demand { shares: shares.to_vec(), task_ms: task_ms.to_vec() }
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let phase_s = if plan.quick { 4.0 } else { PHASE_S };
    runs::averaged(plan, progress, &Policy::ALL, |&policy, seed| points_of(policy, seed, phase_s))
}

fn points_of(policy: Policy, seed: u64, phase_s: f64) -> Vec<Point> {
    let mut node = Node::new(policy, PROCESSORS, demand(0), seed);
    let mut points = Vec::new();
    let mut before = vec![0.0, 0.0];
    for (number, &(_, _, due)) in PHASES.iter().enumerate() {
        if number > 0 {
            node.demand(demand(number));
        }
        let at_change = before.clone();
        let begins_s = phase_s * number as f64;
        for interval in 1..=(phase_s / INTERVAL_S) as u32 {
            let at_s = begins_s + INTERVAL_S * f64::from(interval);
            let had = node.run_until(at_s * 1e3);
            let part_since = |from: &[f64]| (had[0] - from[0]) / (had[0] - from[0] + had[1] - from[1]);
            // There are no calls and so no response times, only parts of the processor time.
            let point = Point::of_calls(policy.name(), at_s, Vec::new(), f64::NAN, f64::NAN);
            let point = point.with(PART, part_since(&before)).with(SINCE, part_since(&at_change));
            points.push(point.with(DUE, due).with("phase", number as f64));
            before = had;
        }
    }
    points
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let titles = [
        "shares 1:1, tasks 34 and 2 ms",
        "shares changed to 3:1",
        "tasks changed to 5 and 20 ms, shares 1:1",
    ];
    for policy in Policy::ALL {
        for (number, title) in titles.into_iter().enumerate() {
            let in_phase = |point: &&Point| {
                point.series == policy.name() && point.figure("phase") == Some(number as f64)
            };
            let phase: Vec<&Point> = points.iter().filter(in_phase).collect();
            let Some(figures) = Figures::of(&phase) else { continue };
            let paper = match (policy, number) {
                (Policy::FixedLottery, 0) => "short tasks starve",
                (Policy::AdaptiveLottery, 0) => "split fairly",
                _ => "–",
            };
            let what = format!(
                "{}, {title}: steady part of the first, and its due part; error; time until within 2 points",
                policy.name()
            );
            findings.push(Finding::new(what, paper, figures.to_string()));
        }
    }
    findings
}

/// The result of one phase.
struct Figures {
    steady: f64,
    due: f64,
    /// The standard deviation of the intervals' parts from the due part.
    spread: f64,
    converged_s: Option<f64>,
}

impl Figures {
    fn of(phase: &[&Point]) -> Option<Self> {
        let begins_s = phase.first()?.x - INTERVAL_S;
        let due = phase.first()?.figure(DUE)?;
        let steady_row = phase.iter().filter(|point| point.x > begins_s + WARM_UP_S);
        let parts: Vec<f64> = steady_row.filter_map(|point| point.figure(PART)).collect();
        let steady = parts.iter().sum::<f64>() / parts.len() as f64;
        let squares: f64 = parts.iter().map(|part| (part - due).powi(2)).sum();
        let is_close = |point: &&&Point| point.figure(SINCE).is_some_and(|part| (part - due).abs() <= CLOSE);
        let converged_s = phase.iter().rev().take_while(is_close).last().map(|point| point.x - begins_s);
        Some(Self { steady, due, spread: (squares / parts.len() as f64).sqrt(), converged_s })
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { steady, due, spread, converged_s } = self;
        let error = 100.0 * (steady - due);
        let converged = converged_s.map_or("never".to_owned(), |s| format!("within {s} s"));
        write!(
            f,
            "{:.1} %, due {:.0} %; {error:+.2} points, half-seconds spread by {:.1}; {converged}",
            100.0 * steady,
            100.0 * due,
            100.0 * spread
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Unwatched;

    #[test]
    fn fair_queueing_converges_within_a_second_after_changes() {
        let plan = Plan { seed: 1, repeat: 1, threads: 2, quick: false };
        let points = run(&plan, &Unwatched);
        let figures = |policy: Policy, number: usize| {
            let in_phase = |point: &&Point| {
                point.series == policy.name() && point.figure("phase") == Some(number as f64)
            };
            Figures::of(&points.iter().filter(in_phase).collect::<Vec<_>>()).expect("it has points")
        };
        for number in 0..PHASES.len() {
            let ours = figures(Policy::Fair, number);
            assert!((ours.steady - ours.due).abs() < 0.005, "{ours}");
            assert!(ours.converged_s.is_some_and(|s| s <= 1.0), "{ours}");
            let lottery = figures(Policy::AdaptiveLottery, number);
            assert!(ours.spread < lottery.spread, "{ours}, and {lottery}");
            assert_eq!(figures(Policy::FixedLottery, number).converged_s, None);
        }
        assert!(figures(Policy::FixedLottery, 0).steady > 0.9, "short tasks starve");
    }
}
