//! Update delay over the load of requests, simple against selective (mirroring §4.2, figure 8).

use super::seen::{AGE, DELAY};
use super::system::System;
use super::workload::{Rules, Setting};
use super::{CHANGE, EVENTS, EVENTS_QUICK, against_simple};
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mirror-delay",
    about: "Requests per second at one mirror while 2,000 events of 1 KB enter per second, 100,000 in all: the time from an \
            event's entry until a regular reader of the mirror gets it (delay), and until it has the event's value or a later \
            one, counting events that rules hold back or drop (age); simple and selective",
    paper: "Mirroring §4.2, figure 8: where selective mirroring takes 40 % less time in all, the mean update delay is more \
            than 50 % less",
    charts: &[
        Chart::new(
            "mirror-delay",
            "Update delay of mirrored events, one mirror",
            "requests per second",
            Measure::More(DELAY),
        )
        .labelled("mean delay (ms)")
        .log_y(),
        Chart::new(
            "mirror-delay-age",
            "Age of values, with the events that rules hold back",
            "requests per second",
            Measure::More(AGE),
        )
        .labelled("mean age (ms)")
        .log_y(),
    ],
    cost_s: 60.0,
    run,
    findings,
};

const EVENTS_PER_S: f64 = 2_000.0;
const LOADS: [f64; 6] = [0.0, 25.0, 50.0, 75.0, 100.0, 150.0];
const LOADS_QUICK: [f64; 2] = [0.0, 100.0];
const SIZE_KB: f64 = 1.0;
const COMPARED: [Rules; 2] = [Rules::Simple, Rules::Selective];

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let loads = if plan.quick { LOADS_QUICK.as_slice() } else { &LOADS };
    let events = if plan.quick { EVENTS_QUICK } else { EVENTS };
    runs::with_intervals(plan, progress, loads, |&per_s, seed| {
        let setting =
            |rules| Setting::new(1, rules, events, SIZE_KB, seed).paced(EVENTS_PER_S).requested(per_s);
        against_simple(&COMPARED, DELAY, |rules| System::run(setting(rules)).point(rules.name(), per_s))
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let selective: Vec<&Point> =
        points.iter().filter(|point| point.series == Rules::Selective.name()).collect();
    for (number, point) in selective.iter().enumerate() {
        let Some(simple) = find(points, Rules::Simple.name(), point.x, &[]) else { continue };
        let Some(change) = shown::change(point, CHANGE) else { continue };
        let ms = |point: &Point, name| shown::figure(point, name, 1, " ms").unwrap_or_default();
        let is_last = number + 1 == selective.len();
        let paper = if is_last { "more than −50 %" } else { "–" };
        let (of_simple, ours) = (ms(simple, DELAY), ms(point, DELAY));
        let what = format!("{} requests/s: mean delay of mirrored events, selective against simple", point.x);
        findings.push(Finding::new(what, paper, format!("{change}: {ours}, and {of_simple}")));
        if number == 0 || is_last {
            let (of_simple, ours) = (ms(simple, AGE), ms(point, AGE));
            let what = format!("{} requests/s: mean age of values", point.x);
            let ours = format!("selective {ours}, simple {of_simple}");
            findings.push(Finding::new(what, "not measured", ours));
        }
    }
    findings
}
