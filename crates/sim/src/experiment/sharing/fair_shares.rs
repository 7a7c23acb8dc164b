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
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

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
    cost_s: 5.0,
    run,
    findings,
};

/// Name of the long application's part of the processor time in an interval.
const PART: &str = "part";
/// Name of the part that its share entitles it to.
const DUE: &str = "due";
/// Name of its part since the last change.
const SINCE: &str = "part_since_change";
/// Names of a phase's figures, at the phase's last point: the mean part after the warm-up; its difference from the due
/// part, and the standard deviation of the intervals' parts from it, both in points of a percentage; 1 if the part
/// came close to the due part and stayed there, otherwise 0; and the time until then.
const STEADY: &str = "steady_part";
const ERROR: &str = "error_points";
const SPREAD: &str = "spread_points";
const CONVERGED: &str = "converged";
const CONVERGED_S: &str = "converged_s";

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
    runs::with_intervals(plan, progress, &Policy::ALL, |&policy, seed| points_of(policy, seed, phase_s))
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
        let phase = &points[points.len() - (phase_s / INTERVAL_S) as usize..];
        if let Some(figures) = Figures::of(phase) {
            let last = points.pop().expect("invariant: a phase has points");
            points.push(figures.on(last));
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
            let Some(ours) = last_of(points, policy, number).and_then(described) else { continue };
            let paper = match (policy, number) {
                (Policy::FixedLottery, 0) => "short tasks starve",
                (Policy::AdaptiveLottery, 0) => "split fairly",
                _ => "–",
            };
            let what = format!(
                "{}, {title}: steady part of the first; error in points; spread of half-seconds in points; time until within 2 points",
                policy.name()
            );
            findings.push(Finding::new(what, paper, ours));
        }
    }
    findings
}

/// Returns the last point of a phase, which has the phase's figures.
fn last_of(points: &[Point], policy: Policy, phase: usize) -> Option<&Point> {
    let in_phase =
        |point: &&Point| point.series == policy.name() && point.figure("phase") == Some(phase as f64);
    points.iter().rfind(in_phase)
}

/// Formats the figures of a phase.
fn described(last: &Point) -> Option<String> {
    let share = last.figure(CONVERGED)?;
    let converged = match shown::figure(last, CONVERGED_S, 1, " s") {
        None => "never".to_owned(),
        Some(time) if share < 1.0 => format!("{time} with {:.0} % of the seeds", 100.0 * share),
        Some(time) => time,
    };
    Some(format!(
        "{}, due {:.0} %; {}; {}; {converged}",
        shown::share(last, STEADY, 1)?,
        100.0 * last.figure(DUE)?,
        shown::figure(last, ERROR, 2, "")?,
        shown::figure(last, SPREAD, 1, "")?,
    ))
}

/// The result of one phase of one run.
struct Figures {
    steady: f64,
    due: f64,
    /// The standard deviation of the intervals' parts from the due part.
    spread: f64,
    converged_s: Option<f64>,
}

impl Figures {
    fn of(phase: &[Point]) -> Option<Self> {
        let begins_s = phase.first()?.x - INTERVAL_S;
        let due = phase.first()?.figure(DUE)?;
        let steady_row = phase.iter().filter(|point| point.x > begins_s + WARM_UP_S);
        let parts: Vec<f64> = steady_row.filter_map(|point| point.figure(PART)).collect();
        let steady = parts.iter().sum::<f64>() / parts.len() as f64;
        let squares: f64 = parts.iter().map(|part| (part - due).powi(2)).sum();
        let is_close = |point: &&Point| point.figure(SINCE).is_some_and(|part| (part - due).abs() <= CLOSE);
        let converged_s = phase.iter().rev().take_while(is_close).last().map(|point| point.x - begins_s);
        Some(Self { steady, due, spread: (squares / parts.len() as f64).sqrt(), converged_s })
    }

    /// Adds the figures to a point.
    fn on(self, point: Point) -> Point {
        let point = point
            .with(STEADY, self.steady)
            .with(ERROR, 100.0 * (self.steady - self.due))
            .with(SPREAD, 100.0 * self.spread)
            .with(CONVERGED, if self.converged_s.is_some() { 1.0 } else { 0.0 });
        match self.converged_s {
            Some(s) => point.with(CONVERGED_S, s),
            None => point,
        }
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
        let figure = |policy: Policy, number: usize, name: &str| {
            last_of(&points, policy, number).and_then(|point| point.figure(name))
        };
        for number in 0..PHASES.len() {
            let ours = |name| figure(Policy::Fair, number, name);
            assert!(ours(ERROR).is_some_and(|points| points.abs() < 0.5), "{:?}", ours(ERROR));
            assert!(ours(CONVERGED_S).is_some_and(|s| s <= 1.0), "{:?}", ours(CONVERGED_S));
            assert!(ours(SPREAD) < figure(Policy::AdaptiveLottery, number, SPREAD));
            assert_eq!(figure(Policy::FixedLottery, number, CONVERGED), Some(0.0));
        }
        assert!(figure(Policy::FixedLottery, 0, STEADY) > Some(0.9), "short tasks starve");
    }
}
