//! Runs many simulations on a few threads and returns their results in a fixed order.
//!
//! A point of an experiment is the mean over [`Plan::repeat`] runs, each with its own seed. All runs are
//! independent. They form one queue, and every thread takes the next run from it. The results are sorted by
//! the order of the jobs, so they do not depend on the number of threads.
//!
//! The runs of one seed differ between series only in the compared setting (common random numbers). So the
//! difference of two means is more certain than either mean. The standard error of a mean is kept beside it;
//! [`with_intervals`] adds an interval to each figure.

use super::point::{Point, Value, mean};
use super::{Plan, Progress};
use crate::world::ink::mixed;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Name of the standard error of the mean response time over the seeds, in ms. A point has it if there are
/// two seeds or more.
pub const ERROR: &str = "response_ms_error";

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

/// Runs every job with each of the plan's seeds and returns its points, each the mean over the seeds.
///
/// # Panics
///
/// Panics if a job returns a different number of points with different seeds. The points may differ only in
/// their figures.
pub fn averaged<T: Sync>(
    plan: &Plan,
    progress: &dyn Progress,
    jobs: &[T],
    run: impl Fn(&T, u64) -> Vec<Point> + Sync,
) -> Vec<Point> {
    averaged_over(plan, progress, jobs, |_| plan.repeat, run)
}

/// Like [`averaged`], with its own number of seeds for each job. At least one seed is used, and always the
/// plan's first ones.
pub fn averaged_over<T: Sync>(
    plan: &Plan,
    progress: &dyn Progress,
    jobs: &[T],
    seeds: impl Fn(&T) -> u32,
    run: impl Fn(&T, u64) -> Vec<Point> + Sync,
) -> Vec<Point> {
    let seeds: Vec<u32> = jobs.iter().map(|job| seeds(job).max(1)).collect();
    let runs: Vec<(usize, u64)> = (seeds.iter().enumerate())
        .flat_map(|(job, &seeds)| (0..seeds).map(move |nth| (job, seed_of(plan, nth))))
        .collect();
    let points = in_parallel(plan, progress, &runs, |&(job, seed)| run(&jobs[job], seed));
    let mut rest = points.as_slice();
    let mut of_job = |&seeds: &u32| {
        let (own, others) = rest.split_at(seeds as usize);
        rest = others;
        means(own)
    };
    seeds.iter().flat_map(&mut of_job).collect()
}

/// The fewest seeds of an experiment whose figures have intervals.
pub const SEEDS_MIN: u32 = 10;
/// The same in a quick run.
const SEEDS_MIN_QUICK: u32 = 3;

/// Like [`averaged`], with [`SEEDS_MIN`] seeds at least, and with the 95 % interval of each mean of an
/// experiment's own figure `NAME` as `NAME_low` and `NAME_high` ([`treefold_figures::mean_interval`]). A figure
/// that is the same with every seed has none.
pub fn with_intervals<T: Sync>(
    plan: &Plan,
    progress: &dyn Progress,
    jobs: &[T],
    run: impl Fn(&T, u64) -> Vec<Point> + Sync,
) -> Vec<Point> {
    let repeat = plan.repeat.max(if plan.quick { SEEDS_MIN_QUICK } else { SEEDS_MIN });
    let runs: Vec<(usize, u64)> =
        (0..jobs.len()).flat_map(|job| (0..repeat).map(move |nth| (job, seed_of(plan, nth)))).collect();
    let points = in_parallel(plan, progress, &runs, |&(job, seed)| run(&jobs[job], seed));
    let of_job = |seeds: &[Vec<Point>]| {
        let means = means(seeds).into_iter().enumerate();
        let with_ends = |(at, mean): (usize, Point)| {
            let names: Vec<String> = mean.more.keys().cloned().collect();
            names.iter().fold(mean, |mean, name| {
                let figures = finite(seeds.iter().filter_map(|points| points[at].figure(name)));
                let varies = figures.iter().any(|figure| *figure != figures[0]);
                match treefold_figures::mean_interval(&figures).filter(|_| varies) {
                    Some(ends) => {
                        mean.with(&format!("{name}_low"), ends.low).with(&format!("{name}_high"), ends.high)
                    }
                    None => mean,
                }
            })
        };
        means.map(with_ends).collect::<Vec<Point>>()
    };
    points.chunks(repeat as usize).flat_map(of_job).collect()
}

/// Returns the seed of a plan's `nth` run of every point.
pub fn seed_of(plan: &Plan, nth: u32) -> u64 {
    mixed(plan.seed).wrapping_add(mixed(u64::from(nth)))
}

/// Returns the points of one job, averaged over all seeds.
fn means(seeds: &[Vec<Point>]) -> Vec<Point> {
    let places = seeds.first().map_or(0, Vec::len);
    assert!(
        seeds.iter().all(|points| points.len() == places),
        "a job returned a different number of points with another seed"
    );
    let of_place = |at: usize| seeds.iter().map(|points| &points[at]).collect::<Vec<&Point>>();
    (0..places).map(|at| mean_point(&of_place(at))).collect()
}

fn mean_point(points: &[&Point]) -> Point {
    let first = points[0];
    let over = |figure: &dyn Fn(&Point) -> f64| mean(&finite(points.iter().map(|point| figure(point))));
    let more = first.more.iter().map(|(name, value)| {
        let number = |point: &Point| point.figure(name).unwrap_or(f64::NAN);
        let value = match value {
            Value::Number(_) => Value::Number(over(&number)),
            Value::Text(text) => Value::Text(text.clone()),
        };
        (name.clone(), value)
    });
    let of_all = Point {
        series: first.series.clone(),
        x: first.x,
        response_ms_mean: over(&|point| point.response_ms_mean),
        response_ms_p99: over(&|point| point.response_ms_p99),
        throughput_per_s: over(&|point| point.throughput_per_s),
        coverage_mean: over(&|point| point.coverage_mean),
        more: more.collect(),
    };
    match standard_error(&finite(points.iter().map(|point| point.response_ms_mean))) {
        Some(error) => of_all.with(ERROR, error),
        None => of_all,
    }
}

/// Returns the finite figures.
fn finite(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    figures.filter(|figure| figure.is_finite()).collect()
}

fn standard_error(figures: &[f64]) -> Option<f64> {
    if figures.len() < 2 {
        return None;
    }
    let (count, mean) = (figures.len() as f64, mean(figures));
    let squares = figures.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    Some((squares / (count - 1.0) / count).sqrt())
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

    #[test]
    fn a_point_is_the_mean_over_seeds_with_its_standard_error() {
        let plan = plan(2, 3);
        let figure =
            |seed: u64| 10.0 * (1 + (0..3).position(|nth| seed_of(&plan, nth) == seed).unwrap()) as f64;
        let points = averaged(&plan, &Unwatched, &[1.0, 2.0], |&x, seed| vec![point(x, figure(seed))]);
        assert_eq!(points.len(), 2);
        let mean = &points[1];
        assert_eq!((mean.x, mean.response_ms_mean, mean.response_ms_p99), (2.0, 20.0, 40.0));
        assert_eq!((mean.figure("lost"), mean.word("view")), (Some(21.0), Some("all")));
        assert!((mean.figure(ERROR).unwrap() - 10.0 / 3.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn figures_have_intervals_over_ten_seeds_or_more() {
        let plan = Plan { quick: false, ..plan(2, 1) };
        let seeds: Vec<u64> = (0..SEEDS_MIN).map(|nth| seed_of(&plan, nth)).collect();
        let run = |&x: &f64, seed: u64| {
            let nth = seeds.iter().position(|known| *known == seed).unwrap() as f64;
            vec![point(x, 1.0).with("lost", nth).with("same", 5.0)]
        };
        let points = with_intervals(&plan, &Unwatched, &[1.0, 2.0], run);
        assert_eq!(points.iter().map(|point| point.x).collect::<Vec<_>>(), [1.0, 2.0]);
        let figure = |name| points[1].figure(name);
        assert_eq!((figure("lost"), figure("same"), figure("same_low")), (Some(4.5), Some(5.0), None));
        let (low, high) = (figure("lost_low").unwrap(), figure("lost_high").unwrap());
        assert!(1.5 < low && low < 4.0 && 5.0 < high && high < 7.5, "{low} to {high}");
    }

    #[test]
    fn a_run_without_answers_is_left_out_of_the_mean() {
        let none = point(1.0, f64::NAN);
        let mean = means(&[vec![none.clone()], vec![point(1.0, 30.0)]]);
        assert_eq!(mean[0].response_ms_mean, 30.0);
        assert!(means(&[vec![none]])[0].response_ms_mean.is_nan());
    }
}
