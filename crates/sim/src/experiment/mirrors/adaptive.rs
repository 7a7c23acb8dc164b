//! Update delay over time while requests come in bursts, with and without adaptation (mirroring §4.3, figure 9).

use super::seen::{AGE, DELAY, Seen, mean_ms_between};
use super::system::System;
use super::workload::{Requests, Rules, Setting};
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::mean;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mirror-adaptive",
    about: "Three bursts of requests, 200, 400 and 600 per second for ten seconds each, at two mirrors while 2,000 events of \
            1 KB enter per second: the update delay over time. Fixed rules coalesce up to 10 events and make a checkpoint \
            every 50; adaptive ones change under load to one of 20 positions and a checkpoint every 100",
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
    cost_s: 60.0,
    run,
    findings,
};

/// Name of the rate of requests at a point.
const REQUESTS: &str = "requests_per_s";
/// Name of the number of a point's phase, from 0; bursts are odd.
const PHASE: &str = "phase";
/// Name of the mean update delay of a burst, at the point of its first second.
const BURST_DELAY: &str = "burst_delay_ms";
/// Name of the mean age of values in a burst, at the point of its first second.
const BURST_AGE: &str = "burst_age_ms";

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
    runs::compared(plan, progress, &COMPARED, |&rules, seed| points_of(rules, phase_s, seed), beside_fixed)
}

/// Adds the means of each burst to the point of its first second, and the changes of adaptive rules against fixed
/// ones, of single seconds and of bursts.
fn beside_fixed(mut points: Vec<Point>) -> Vec<Point> {
    for (figure, of_burst) in [(DELAY, BURST_DELAY), (AGE, BURST_AGE)] {
        let means: Vec<Option<f64>> = (0..points.len()).map(|at| burst_from(&points, at, figure)).collect();
        for (point, mean) in points.iter_mut().zip(means) {
            if let Some(mean) = mean {
                point.more.insert(of_burst.into(), mean.into());
            }
        }
    }
    let pair = [Rules::Adaptive.name(), Rules::Fixed.name()];
    for figure in [DELAY, BURST_DELAY, BURST_AGE] {
        compare(&mut points, pair, figure, &[]);
    }
    points
}

/// Returns the mean of a figure over the burst that begins with the point at `first`, or `None` if none begins there.
fn burst_from(points: &[Point], first: usize, figure: &str) -> Option<f64> {
    let phase = points[first].figure(PHASE)?;
    let same = |point: &&Point| point.series == points[first].series && point.figure(PHASE) == Some(phase);
    let begins = points.iter().find(same).is_some_and(|point| point.x == points[first].x);
    let figures = || points.iter().filter(same).filter_map(|point| point.figure(figure));
    let figures = figures().filter(|figure| figure.is_finite());
    (begins && phase % 2.0 == 1.0).then(|| mean(&figures.collect::<Vec<f64>>()))
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
        point_at(&seen, rules, from_s).with(REQUESTS, rate_in(phase)).with(PHASE, phase as f64)
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
    let fixed_name = Rules::Fixed.name();
    for (number, per_s) in BURSTS.into_iter().enumerate() {
        let of = |rules: Rules| {
            let phase = Some((2 * number + 1) as f64);
            points.iter().filter(move |point| point.series == rules.name() && point.figure(PHASE) == phase)
        };
        let (Some(fixed), Some(adaptive)) = (of(Rules::Fixed).next(), of(Rules::Adaptive).next()) else {
            continue;
        };
        let ms = |point, name| shown::figure(point, name, 1, " ms").unwrap_or_default();
        let of_seconds =
            of(Rules::Adaptive).filter_map(|point| point.figure(&change_name(DELAY, fixed_name)));
        let (best, worst) = of_seconds.fold((f64::INFINITY, f64::NEG_INFINITY), |(best, worst), change| {
            (best.min(change), worst.max(change))
        });
        if let Some(change) = shown::change(adaptive, &change_name(BURST_DELAY, fixed_name)) {
            let what = format!("burst of {per_s} requests/s: mean update delay, adaptive against fixed");
            let paper = if number + 1 == BURSTS.len() { "up to −40 %" } else { "–" };
            let ours = format!(
                "{change}: {}, and {}; single seconds {} to {} %",
                ms(adaptive, BURST_DELAY),
                ms(fixed, BURST_DELAY),
                shown::written(best, 1),
                shown::written(worst, 1)
            );
            findings.push(Finding::new(what, paper, ours));
        }
        let what = format!("burst of {per_s} requests/s: mean age of values");
        let ours = format!("adaptive {}, fixed {}", ms(adaptive, BURST_AGE), ms(fixed, BURST_AGE));
        findings.push(Finding::new(what, "not measured", ours));
    }
    findings
}
