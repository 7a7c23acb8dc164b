//! Runs many simulations on a few threads and returns their results in a fixed order.
//!
//! A point of an experiment is the mean over [`Plan::repeat`] seeds, and each of its figures has the bootstrap's
//! 95 % interval over the seeds beside it. All runs are independent. They form one queue, and every thread takes
//! the next run from it. The results are sorted by the order of the jobs, so they do not depend on the number of
//! threads.
//!
//! The runs of one seed differ between series only in the compared setting (common random numbers: the same
//! arrivals, and the same work for the same call). So a comparison is made within each seed ([`compared`]), and its
//! interval is that of the change over the seeds. Such an interval is much narrower than the intervals of the two
//! figures.

use super::point::{FIGURES, Point, Value, mean};
use super::{Plan, Progress};
use crate::world::ink::mixed;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Runs every job on the planned number of threads. The results are in the order of the jobs.
pub fn in_parallel<T: Sync, R: Send>(
    plan: &Plan,
    progress: &dyn Progress,
    jobs: &[T],
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    progress.total(jobs.len());
    let (next, run) = (&AtomicUsize::new(0), &run);
    let (done, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.clamp(1, jobs.len().max(1)) {
            let done = done.clone();
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    done.send((at, run(job))).expect("invariant: results are received after the last thread");
                    progress.done();
                }
            });
        }
    });
    drop(done);
    let mut results: Vec<(usize, R)> = results.into_iter().collect();
    results.sort_unstable_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The seeds of a point, unless a user asks for another number.
pub const SEEDS: u32 = 10;
/// The same in a quick run.
pub const SEEDS_QUICK: u32 = 3;

/// Runs every job with each of the plan's seeds and returns its points.
///
/// Each point is the mean over the seeds. Beside each figure `NAME` it has the ends of the 95 % interval of that mean,
/// `NAME_low` and `NAME_high` ([`treefold_figures::mean_interval`]). A figure that is the same with every seed has no
/// interval. Seeds without a figure, for instance without any answer, are left out of its mean and of its interval.
///
/// # Panics
///
/// Panics if a job returns a different number of points with different seeds. The points may differ only in
/// their figures.
pub fn with_intervals<T: Sync>(
    plan: &Plan,
    progress: &dyn Progress,
    jobs: &[T],
    run: impl Fn(&T, u64) -> Vec<Point> + Sync,
) -> Vec<Point> {
    compared(plan, progress, jobs, run, |points| points)
}

/// Like [`with_intervals`]. In addition, `compare` gets all points of one seed, in the order of the jobs, and adds
/// figures that compare them. It may change, remove and reorder points, in the same way for every seed.
///
/// # Panics
///
/// As [`with_intervals`].
pub fn compared<T: Sync>(
    plan: &Plan,
    progress: &dyn Progress,
    jobs: &[T],
    run: impl Fn(&T, u64) -> Vec<Point> + Sync,
    compare: impl Fn(Vec<Point>) -> Vec<Point>,
) -> Vec<Point> {
    let repeat = plan.repeat.max(1);
    let runs: Vec<(usize, u64)> =
        (0..jobs.len()).flat_map(|job| (0..repeat).map(move |nth| (job, seed_of(plan, nth)))).collect();
    let points = in_parallel(plan, progress, &runs, |&(job, seed)| run(&jobs[job], seed));
    let of_seed = |nth: u32| {
        let of_jobs = points.iter().skip(nth as usize).step_by(repeat as usize);
        compare(of_jobs.flatten().cloned().collect())
    };
    over_seeds(&(0..repeat).map(of_seed).collect::<Vec<_>>())
}

/// Returns the seed of a plan's `nth` run of every point.
pub fn seed_of(plan: &Plan, nth: u32) -> u64 {
    mixed(plan.seed).wrapping_add(mixed(u64::from(nth)))
}

/// Returns the mean of each point over the seeds, with intervals.
fn over_seeds(seeds: &[Vec<Point>]) -> Vec<Point> {
    let places = seeds.first().map_or(0, Vec::len);
    assert!(
        seeds.iter().all(|points| points.len() == places),
        "a job returned a different number of points with another seed"
    );
    let of_place = |at: usize| seeds.iter().map(|points| &points[at]).collect::<Vec<&Point>>();
    (0..places).map(|at| mean_point(&of_place(at))).collect()
}

fn mean_point(points: &[&Point]) -> Point {
    let finite = |name: &str| -> Vec<f64> {
        points.iter().filter_map(|point| point.figure(name)).filter(|figure| figure.is_finite()).collect()
    };
    let mut of_all = points[0].clone();
    let fields: BTreeMap<&String, &Value> = points.iter().rev().flat_map(|point| &point.more).collect();
    for (name, value) in fields {
        let value = match value {
            Value::Number(_) => Value::Number(mean(&finite(name))),
            Value::Text(text) => Value::Text(text.clone()),
        };
        of_all.more.insert(name.clone(), value);
    }
    [of_all.response_ms_mean, of_all.response_ms_p99, of_all.throughput_per_s, of_all.coverage_mean] =
        FIGURES.map(|name| mean(&finite(name)));
    let numbers = of_all.more.iter().filter(|(_, value)| value.number().is_some());
    let names: Vec<String> =
        FIGURES.iter().map(|&name| name.to_owned()).chain(numbers.map(|(name, _)| name.clone())).collect();
    for name in names {
        let figures = finite(&name);
        let varies = figures.iter().any(|figure| *figure != figures[0]);
        if let Some(ends) = treefold_figures::mean_interval(&figures).filter(|_| varies) {
            of_all = of_all.with(&low_of(&name), ends.low).with(&high_of(&name), ends.high);
        }
    }
    of_all
}

/// Returns the name of the lower end of a figure's interval.
pub fn low_of(name: &str) -> String {
    format!("{name}_low")
}

/// Returns the name of the upper end of a figure's interval.
pub fn high_of(name: &str) -> String {
    format!("{name}_high")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Unwatched;

    fn plan(threads: usize, repeat: u32) -> Plan {
        Plan { seed: 7, repeat, threads, quick: true }
    }

    fn point(x: f64, response_ms_mean: f64) -> Point {
        let same = Point::of_calls("s", x, vec![response_ms_mean], 1.0, 1.0);
        let figures = Point { response_ms_p99: 2.0 * response_ms_mean, ..same };
        figures.with("lost", response_ms_mean + 1.0).with("view", "all")
    }

    #[test]
    fn results_have_the_order_of_the_jobs_on_any_number_of_threads() {
        let jobs: Vec<u64> = (0..50).collect();
        for threads in [1, 2, 7, 100] {
            let squares = in_parallel(&plan(threads, 1), &Unwatched, &jobs, |job| job * job);
            assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        }
        assert!(in_parallel(&plan(2, 1), &Unwatched, &[], |job: &u64| *job).is_empty());
    }

    /// Returns a run whose figures are ten times the number of the seed, from 1.
    fn numbered(plan: &Plan) -> impl Fn(&f64, u64) -> Vec<Point> + Sync {
        let seeds: Vec<u64> = (0..plan.repeat).map(|nth| seed_of(plan, nth)).collect();
        move |&x, seed| {
            let nth =
                seeds.iter().position(|known| *known == seed).expect("invariant: the plan has this seed");
            vec![point(x, 10.0 * (nth + 1) as f64)]
        }
    }

    #[test]
    fn a_point_is_the_mean_over_seeds() {
        let plan = plan(2, 3);
        let points = with_intervals(&plan, &Unwatched, &[1.0, 2.0], numbered(&plan));
        assert_eq!(points.len(), 2);
        let mean = &points[1];
        assert_eq!((mean.x, mean.response_ms_mean, mean.response_ms_p99), (2.0, 20.0, 40.0));
        assert_eq!((mean.figure("lost"), mean.word("view")), (Some(21.0), Some("all")));
    }

    #[test]
    fn every_figure_that_varies_has_an_interval() {
        let plan = plan(2, SEEDS);
        let points = with_intervals(&plan, &Unwatched, &[1.0], numbered(&plan));
        let figure = |name: &str| points[0].figure(name);
        for (name, offset) in [("response_ms_mean", 0.0), ("lost", 1.0)] {
            assert_eq!(figure(name), Some(55.0 + offset));
            let (low, high) = (figure(&low_of(name)).unwrap(), figure(&high_of(name)).unwrap());
            assert!(25.0 < low && low < 50.0 && 60.0 < high && high < 85.0, "{name}: {low} to {high}");
        }
        assert_eq!((figure("throughput_per_s"), figure("throughput_per_s_low")), (Some(1.0), None));
        let one = with_intervals(&Plan { repeat: 1, ..plan }, &Unwatched, &[1.0], numbered(&plan));
        assert_eq!(one[0].figure("lost_low"), None, "one seed shows no variation");
    }

    #[test]
    fn points_of_one_seed_are_compared_with_each_other() {
        let plan = plan(2, SEEDS);
        let doubled = |points: Vec<Point>| {
            let ratio = points[1].response_ms_mean / points[0].response_ms_mean;
            vec![points[1].clone().with("ratio", ratio)]
        };
        let run = |x: &f64, seed| {
            let one = &numbered(&plan)(x, seed)[0];
            vec![point(*x, x * one.response_ms_mean)]
        };
        let points = compared(&plan, &Unwatched, &[1.0, 2.0], run, doubled);
        assert_eq!((points.len(), points[0].x, points[0].figure("ratio")), (1, 2.0, Some(2.0)));
        assert_eq!(points[0].figure("ratio_low"), None, "the ratio is the same with every seed");
        assert!(points[0].figure("lost_low").is_some(), "the figures themselves are not");
    }

    #[test]
    fn a_seed_without_a_figure_is_left_out_of_its_mean() {
        let none = point(1.0, f64::NAN);
        let mean = over_seeds(&[vec![none.clone()], vec![point(1.0, 30.0).with("late", 7.0)]]);
        assert_eq!((mean[0].response_ms_mean, mean[0].figure("late")), (30.0, Some(7.0)));
        assert!(over_seeds(&[vec![none]])[0].response_ms_mean.is_nan());
    }
}
