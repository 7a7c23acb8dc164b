//! The overhead of mirroring over the size of events, and over the number of mirrors (mirroring §4.1, figures 4
//! and 5).

use super::seen::TOTAL;
use super::system::System;
use super::workload::{Rules, Setting};
use super::{EVENTS, EVENTS_QUICK};
use crate::evaluation::Finding;
use crate::experiment::compared::change_percent;
use crate::experiment::point::find;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mirror-overhead",
    about: "Time to process 100,000 events that enter as fast as they are taken: over their size without mirrors and with \
            one, mirroring every event (simple) or one of 20 positions (selective); and with 1 to 8 mirrors at 1 KB",
    paper: "Mirroring §4.1, figures 4 and 5: one mirror adds 15 to 20 %, more for larger events, and much less if it is \
            selective; each further mirror adds less than 10 %; four mirrors cost 30 % (§1)",
    charts: &[
        Chart::new(
            "mirror-overhead-size",
            "Execution time by size of events",
            "size of an event (KB)",
            Measure::More(TOTAL),
        )
        .labelled("time (s)")
        .only(VARIES, "size"),
        Chart::new(
            "mirror-overhead-mirrors",
            "Overhead by number of mirrors, events of 1 KB",
            "mirrors",
            Measure::More(OVERHEAD),
        )
        .labelled("additional time (%)")
        .only(VARIES, "mirrors"),
    ],
    cost_s: 100.0,
    run,
    findings,
};

/// Name of the word that says which of the two settings a point varies.
const VARIES: &str = "varies";
/// Name of the additional time against no mirrors, in percent.
const OVERHEAD: &str = "overhead_percent";
/// Name of the additional time against one mirror less, in percent.
const FURTHER: &str = "further_percent";

const SIZES_KB: [f64; 6] = [0.1, 1.0, 2.0, 4.0, 6.0, 8.0];
const SIZES_KB_QUICK: [f64; 2] = [0.1, 8.0];
const MIRRORS_MAX: usize = 8;
const MIRRORS_MAX_QUICK: usize = 4;
/// The size of events while the number of mirrors varies.
const SIZE_KB: f64 = 1.0;
const NONE: &str = "no mirror";
const COMPARED: [Rules; 2] = [Rules::Simple, Rules::Selective];

/// A comparison of runs with the same events.
#[derive(Clone, Copy)]
enum Job {
    Size(f64),
    Mirrors(Rules, usize),
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let sizes = if plan.quick { SIZES_KB_QUICK.as_slice() } else { &SIZES_KB };
    let mirrors = if plan.quick { MIRRORS_MAX_QUICK } else { MIRRORS_MAX };
    let events = if plan.quick { EVENTS_QUICK } else { EVENTS };
    let by_mirrors = COMPARED.into_iter().map(|rules| Job::Mirrors(rules, mirrors));
    let jobs: Vec<Job> = sizes.iter().map(|&kb| Job::Size(kb)).chain(by_mirrors).collect();
    runs::with_intervals(plan, progress, &jobs, |job, seed| match *job {
        Job::Size(kb) => by_size(events, kb, seed),
        Job::Mirrors(rules, most) => by_mirrors_of(rules, most, events, seed),
    })
}

fn by_size(events: u64, kb: f64, seed: u64) -> Vec<Point> {
    let point = |series: &str, mirrors, rules| {
        System::run(Setting::new(mirrors, rules, events, kb, seed)).point(series, kb).with(VARIES, "size")
    };
    let none = point(NONE, 0, Rules::Simple);
    let of_none = total(&none);
    let mirrored = COMPARED.map(|rules| {
        let point = point(rules.name(), 1, rules);
        let overhead = change_percent(of_none, total(&point));
        point.with(OVERHEAD, overhead)
    });
    [none].into_iter().chain(mirrored).collect()
}

fn by_mirrors_of(rules: Rules, most: usize, events: u64, seed: u64) -> Vec<Point> {
    let seen = |mirrors| System::run(Setting::new(mirrors, rules, events, SIZE_KB, seed));
    let none = total(&seen(0).point(NONE, 0.0));
    let mut before = none;
    let points = (1..=most).map(|mirrors| {
        let point = seen(mirrors).point(rules.name(), mirrors as f64).with(VARIES, "mirrors");
        let total = total(&point);
        let further = change_percent(std::mem::replace(&mut before, total), total);
        let point = point.with(OVERHEAD, change_percent(none, total));
        if mirrors > 1 { point.with(FURTHER, further) } else { point }
    });
    points.collect()
}

fn total(point: &Point) -> f64 {
    point.figure(TOTAL).expect("invariant: every run has a total time")
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rules in COMPARED {
        for (kb, paper) in [(0.1, "about 15 % (calibrated)"), (1.0, "–"), (8.0, "about 20 % (calibrated)")]
        {
            let paper = if rules == Rules::Simple { paper } else { "reduced significantly" };
            let point = find(points, rules.name(), kb, &[(VARIES, "size")]);
            let Some(ours) = point.and_then(|point| shown::figure(point, OVERHEAD, 1, " %")) else {
                continue;
            };
            findings.push(Finding::new(
                format!("one mirror, {}, events of {kb} KB: additional time", rules.name()),
                paper,
                ours,
            ));
        }
    }
    for rules in COMPARED {
        let at = |mirrors: usize| find(points, rules.name(), mirrors as f64, &[(VARIES, "mirrors")]);
        let simple = rules == Rules::Simple;
        let Some(ours) = at(4).and_then(|point| shown::figure(point, OVERHEAD, 1, " %")) else { continue };
        let what = format!("four mirrors, {}, events of 1 KB: additional time", rules.name());
        findings.push(Finding::new(what, if simple { "30 %" } else { "–" }, ours));
        let further =
            (2..=MIRRORS_MAX).filter_map(|mirrors| at(mirrors).filter(|p| p.figure(FURTHER).is_some()));
        let of = |point: &Point| point.figure(FURTHER).unwrap_or(f64::NAN);
        let Some(most) = further.max_by(|a, b| of(a).total_cmp(&of(b))) else { continue };
        let Some(ours) = shown::figure(most, FURTHER, 1, " %") else { continue };
        let what = format!("a further mirror, {}, at most", rules.name());
        let ours = format!("{ours}, of {} mirrors", most.x);
        findings.push(Finding::new(what, if simple { "less than 10 %" } else { "–" }, ours));
    }
    findings
}
