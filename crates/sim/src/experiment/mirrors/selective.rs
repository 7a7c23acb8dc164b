//! Total time over the load of requests, by mirroring function (mirroring §4.2, figure 7).

use super::seen::TOTAL;
use super::system::System;
use super::workload::{Rules, Setting};
use super::{CHANGE, EVENTS, EVENTS_QUICK, against_simple};
use crate::evaluation::Finding;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mirror-selective",
    about: "Requests per second at one mirror: time until 100,000 events of 1 KB and all requests are done, mirroring every \
            event (simple), one of 20 positions (selective), and the same with half the checkpoints",
    paper: "Mirroring §4.2, figure 7: under high request loads selective mirroring takes 30 % less than simple, and with \
            half the checkpoints more than 40 % less",
    charts: &[Chart::new(
        "mirror-selective",
        "Time for all events and requests, one mirror",
        "requests per second",
        Measure::More(TOTAL),
    )
    .labelled("time (s)")],
    cost_s: 100.0,
    run,
    findings,
};

const LOADS: [f64; 7] = [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0];
const LOADS_QUICK: [f64; 2] = [0.0, 200.0];
const SIZE_KB: f64 = 1.0;
const COMPARED: [Rules; 3] = [Rules::Simple, Rules::Selective, Rules::SelectiveHalf];

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let loads = if plan.quick { LOADS_QUICK.as_slice() } else { &LOADS };
    let events = if plan.quick { EVENTS_QUICK } else { EVENTS };
    runs::with_intervals(plan, progress, loads, |&per_s, seed| {
        let setting = |rules| Setting::new(1, rules, events, SIZE_KB, seed).requested(per_s);
        against_simple(&COMPARED, TOTAL, |rules| System::run(setting(rules)).point(rules.name(), per_s))
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let best = |rules: Rules, paper: &str| {
        let of_rules = points.iter().filter(|point| point.series == rules.name());
        let least = of_rules.min_by(|a, b| {
            let change = |point: &Point| point.figure(CHANGE).unwrap_or(f64::INFINITY);
            change(a).total_cmp(&change(b))
        })?;
        let ours = format!("{} at {}/s", shown::change(least, CHANGE)?, least.x);
        Some(Finding::new(
            format!("{} against simple, at the load where it gains most: total time", rules.name()),
            paper,
            ours,
        ))
    };
    let rows = [
        best(Rules::Selective, "−30 % and more under high load"),
        best(Rules::SelectiveHalf, "−40 % and more under high load"),
    ];
    rows.into_iter().flatten().collect()
}
