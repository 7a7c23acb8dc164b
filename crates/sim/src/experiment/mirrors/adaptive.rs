//! Update delay over time while requests come in bursts, with and without adaptation (mirroring §4.3, figure 9).

use super::seen::{AGE, DELAY, Seen, mean_ms_between};
use super::system::System;
use super::workload::{Requests, Rules, Setting};
use super::{change_percent, written};
use crate::evaluation::Finding;
use crate::experiment::point::{find, mean};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mirror-adaptive",
    about: "Three bursts of requests, 200, 400 and 600 per second for ten seconds each, at two mirrors while 2,000 events of \
            1 KB enter per second: the update delay over time. Fixed rules coalesce up to 10 events and make a checkpoint \
            every 50; adaptive ones change under load to one of 20 positions and a checkpoint every 100; ten seeds",
    paper: "Mirroring §4.3, figure 9: adaptation reduces the update delay in bursts by up to 40 %, and it varies much less",
    charts: &[
        Chart::new(
            "mirror-adaptive",
            "Update delay while requests come in bursts",
            "time (s)",
            Measure::More(DELAY),
        )
        .labelled("mean delay (ms)"),
        Chart::new(
            "mirror-adaptive-age",
            "Age of values, with the events that rules hold back",
            "time (s)",
            Measure::More(AGE),
        )
        .labelled("mean age (ms)"),
    ],
    run,
    findings,
};

/// Name of the rate of requests at a point.
const REQUESTS: &str = "requests_per_s";

const MIRRORS: usize = 2;
const EVENTS_PER_S: f64 = 2_000.0;
const SIZE_KB: f64 = 1.0;
/// The rates of the bursts.
const BURSTS: [f64; 3] = [200.0, 400.0, 600.0];
/// Length of a burst, and of the time before each and after the last, in s.
const PHASE_S: f64 = 10.0;
const PHASE_S_QUICK: f64 = 3.0;
const COMPARED: [Rules; 2] = [Rules::Fixed, Rules::Adaptive];

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let phase_s = if plan.quick { PHASE_S_QUICK } else { PHASE_S };
    runs::with_intervals(plan, progress, &COMPARED, |&rules, seed| points_of(rules, phase_s, seed))
}

/// Returns the points of a run, one a second of entry.
fn points_of(rules: Rules, phase_s: f64, seed: u64) -> Vec<Point> {
    let phases = 2 * BURSTS.len() + 1;
    let rate_in = |phase: usize| if phase % 2 == 1 { BURSTS[phase / 2] } else { 0.0 };
    let bursts = (0..phases).map(|phase| Requests {
        from_s: phase_s * phase as f64,
        until_s: phase_s * (phase + 1) as f64,
        per_s: rate_in(phase),
    });
    let seconds = phase_s * phases as f64;
    let events = (seconds * EVENTS_PER_S) as u64;
    let mut setting = Setting::new(MIRRORS, rules, events, SIZE_KB, seed).paced(EVENTS_PER_S);
    setting.requests = bursts.collect();
    let seen = System::run(setting);
    let at = |second: u32| {
        let from_s = f64::from(second);
        let phase = (from_s / phase_s) as usize;
        point_at(&seen, rules, from_s).with(REQUESTS, rate_in(phase)).with("phase", phase as f64)
    };
    (0..seconds as u32).map(at).collect()
}

fn point_at(seen: &Seen, rules: Rules, from_s: f64) -> Point {
    let until_s = from_s + 1.0;
    let is_in = |from: f64| (from_s..until_s).contains(&from);
    let requests = seen.requests.iter().filter(|span| is_in(super::seen::seconds(span.from)));
    let changes = seen.changes.iter().filter(|&&at| is_in(super::seen::seconds(at))).count();
    let response_ms: Vec<f64> = requests.map(|span| span.ms()).collect();
    let per_s = response_ms.len() as f64;
    Point::of_calls(rules.name(), from_s, response_ms, per_s, f64::NAN)
        .with(DELAY, mean_ms_between(&seen.updates, from_s, until_s))
        .with(AGE, mean_ms_between(&seen.values, from_s, until_s))
        .with("mode_changes", changes as f64)
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, per_s) in BURSTS.into_iter().enumerate() {
        let phase = (2 * number + 1) as f64;
        let of_burst = |rules: Rules| {
            let is_in =
                move |point: &&Point| point.series == rules.name() && point.figure("phase") == Some(phase);
            points.iter().filter(is_in)
        };
        let pairs: Vec<(&Point, &Point)> = of_burst(Rules::Fixed)
            .filter_map(|fixed| Some((fixed, find(points, Rules::Adaptive.name(), fixed.x, &[])?)))
            .collect();
        if pairs.is_empty() {
            continue;
        }
        let mean_of = |figure: &dyn Fn(&(&Point, &Point)) -> Option<f64>| {
            mean(&pairs.iter().filter_map(figure).collect::<Vec<f64>>())
        };
        let changes: Vec<f64> = pairs
            .iter()
            .filter_map(|(fixed, adaptive)| {
                Some(change_percent(fixed.figure(DELAY)?, adaptive.figure(DELAY)?))
            })
            .collect();
        let (best, worst) = (
            changes.iter().copied().fold(f64::INFINITY, f64::min),
            changes.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        let (fixed, adaptive) =
            (mean_of(&|pair| pair.0.figure(DELAY)), mean_of(&|pair| pair.1.figure(DELAY)));
        let paper = if number + 1 == BURSTS.len() { "up to −40 %" } else { "–" };
        findings.push(Finding::new(
            format!("burst of {per_s} requests/s: mean update delay, adaptive against fixed"),
            paper,
            format!(
                "{} %: {adaptive:.1} of {fixed:.1} ms; single seconds {} to {} %",
                written(change_percent(fixed, adaptive)),
                written(best),
                written(worst)
            ),
        ));
        let (fixed, adaptive) = (mean_of(&|pair| pair.0.figure(AGE)), mean_of(&|pair| pair.1.figure(AGE)));
        let ours = format!("adaptive {adaptive:.0} ms, fixed {fixed:.0} ms");
        findings.push(Finding::new(
            format!("burst of {per_s} requests/s: mean age of values"),
            "not measured",
            ours,
        ));
    }
    findings
}
