//! Total time over the size of events under a constant load of requests, by number of mirrors (mirroring §4.2,
//! figure 6).

use super::seen::TOTAL;
use super::system::System;
use super::workload::{Rules, Setting};
use super::{EVENTS, EVENTS_QUICK};
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::find;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "mirror-requests",
    about: "Size of events under 100 requests per second, spread over 1, 2 and 4 mirrors: time until 100,000 events and all \
            requests are done, mirroring every event",
    paper: "Mirroring §4.2, figure 6: above a cross-over size, more mirrors take less time in all, because the load is \
            spread over them",
    charts: &[Chart::new(
        "mirror-requests",
        "Time for all events and 100 requests per second",
        "size of an event (KB)",
        Measure::More(TOTAL),
    )
    .labelled("time (s)")],
    cost_s: 100.0,
    run,
    findings,
};

const PER_S: f64 = 100.0;
const SIZES_KB: [f64; 7] = [0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0];
const SIZES_KB_QUICK: [f64; 2] = [0.1, 4.0];
const MIRRORS: [usize; 3] = [1, 2, 4];
/// Pairs of numbers of mirrors, whose total times are compared.
const CROSSINGS: [(usize, usize); 2] = [(1, 2), (2, 4)];

fn series(mirrors: usize) -> &'static str {
    match mirrors {
        1 => "1 mirror",
        2 => "2 mirrors",
        _ => "4 mirrors",
    }
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let sizes = if plan.quick { SIZES_KB_QUICK.as_slice() } else { &SIZES_KB };
    let events = if plan.quick { EVENTS_QUICK } else { EVENTS };
    runs::with_intervals(plan, progress, sizes, |&kb, seed| {
        let point = |mirrors| {
            let setting = Setting::new(mirrors, Rules::Simple, events, kb, seed).requested(PER_S);
            System::run(setting).point(series(mirrors), kb)
        };
        let mut points = MIRRORS.map(point);
        for (few, many) in CROSSINGS {
            compare(&mut points, [series(many), series(few)], TOTAL, &[]);
        }
        points.to_vec()
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut sizes: Vec<f64> = points.iter().map(|point| point.x).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    sizes.dedup();
    let crossing = |(few, many): (usize, usize)| {
        let name = change_name(TOTAL, series(few));
        // The whole interval of the change is below zero.
        let is_less = |kb: f64| {
            let point = find(points, series(many), kb, &[]);
            point.and_then(|point| shown::ends(point, &name)).is_some_and(|(_, high)| high < 0.0)
        };
        let from = sizes.iter().position(|kb| is_less(*kb))?;
        let lasts = sizes[from..].iter().all(|kb| is_less(*kb));
        let place = match from {
            0 => format!("at {} KB already", sizes[0]),
            _ => format!("between {} and {} KB", sizes[from - 1], sizes[from]),
        };
        let ours = if lasts { place } else { format!("{place}, and not above all larger sizes") };
        let what = format!("{} take less time than {}", series(many), series(few));
        Some(Finding::new(what, "above a cross-over size", ours))
    };
    let at_ends = MIRRORS.into_iter().filter_map(|mirrors| {
        let at = |kb: &f64| shown::figure(find(points, series(mirrors), *kb, &[])?, TOTAL, 1, " s");
        let (first, last) = (sizes.first()?, sizes.last()?);
        let ours = format!("{} at {first} KB, {} at {last} KB", at(first)?, at(last)?);
        Some(Finding::new(format!("{}: total time", series(mirrors)), "–", ours))
    });
    CROSSINGS.into_iter().filter_map(crossing).chain(at_ends).collect()
}
