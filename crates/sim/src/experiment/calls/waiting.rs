//! Compares waiting rules if some calls are slow as a whole (DAC §4.4; Vespa; Cedar, EuroSys'16 §5).
//!
//! If the distribution of times never changes, a fixed division of the deadline is as good as any other rule.
//! So here calls differ: a log-normal factor multiplies the work of each. *Learned* waiting is made for a
//! tree of two levels with ten children at each node. With fewer children it equals *staged*.
//!
//! There are two views. In `deadline`, the deadline is tight and any coverage is an answer; the view shows
//! the coverage reached by the deadline. In `coverage`, the deadline is ample and a share of the partitions
//! suffices; the view shows the slowest answers of rules that may give up the other partitions, and the
//! coverage of these answers.

use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{COVERAGE as COVERED, RESPONSE_P99, find};
use crate::experiment::trial::{Trial, still};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};
use crate::world::distribution::Distribution;
use crate::world::place::{Operators, Spec};
use crate::world::{Setting, World};
use treefold_core::time::Duration;
use treefold_core::tree::shape::Shape;
use treefold_core::wave::wait::Waiting;

/// A root, its children and its grandchildren.
const NODES: u32 = 1 + FAN_OUT + FAN_OUT * FAN_OUT;
const FAN_OUT: u32 = 10;
/// A tenth of the capacity, so that calls wait for work and not for queues.
const PER_S: f64 = 8.0;
/// Times of locals, as skewed as Cedar's search trace.
const LOCAL: Distribution = Distribution::LogNormal { mean_ms: 25.0, deviation_ms: 25.0 };
/// Times of reductions, which vary as much.
const REDUCE: Distribution = Distribution::LogNormal { mean_ms: 3.0, deviation_ms: 3.0 };
/// The factor by which a call's work differs from the usual.
const SCALE: Distribution = Distribution::LogNormal { mean_ms: 1.0, deviation_ms: 0.7 };
/// The tight deadlines, in ms.
const DEADLINES_MS: [f64; 6] = [100.0, 120.0, 160.0, 200.0, 300.0, 450.0];
/// The shares of the partitions that suffice.
const COVERAGES: [f64; 5] = [0.5, 0.7, 0.8, 0.9, 0.95];
/// The ample deadline.
const AMPLE: Duration = Duration::from_secs(1);

/// Compares waiting rules if calls differ.
pub const EXPERIMENT: Experiment = Experiment {
    name: "waiting",
    about: "111 nodes in two levels of ten, calls whose work differs by a log-normal factor: coverage by deadline, and \
            the slowest answers by the coverage that is enough, by waiting rule; runs of 40 s after 10 s of warm-up",
    paper: "Cedar, EuroSys'16 §5: waiting that learns from arrivals improves quality at equal deadlines by 10 to 100 % \
            over fixed divisions where calls differ; Vespa: the slope trades the last few per cent for the tail",
    charts: &[
        Chart::new(
            "waiting-deadline",
            "Coverage by the deadline, 111 nodes in two levels",
            "deadline (ms)",
            Measure::Coverage,
        )
        .only("view", DEADLINE),
        when_a_share_is_enough("waiting-tail", Measure::ResponseP99).log_y(),
        when_a_share_is_enough("waiting-coverage", Measure::Coverage),
    ],
    cost_s: 250.0,
    run,
    findings,
};

const fn when_a_share_is_enough(file: &'static str, y: Measure) -> Chart {
    Chart::new(file, "The slowest answers when a share of the partitions is enough", "minimum coverage", y)
        .only("view", COVERAGE)
}

const DEADLINE: &str = "deadline";
const COVERAGE: &str = "coverage";

/// The series that the others are compared with.
const STAGED: &str = "staged";

/// The compared rules.
const RULES: [(&str, Waiting); 4] = [
    ("uniform", Waiting::Uniform),
    (STAGED, Waiting::Staged),
    ("slope", Waiting::SLOPE),
    ("learned", Waiting::Learned),
];

/// The setting of one point in one of the two views.
#[derive(Clone, Copy, Debug)]
struct Job {
    name: &'static str,
    rule: Waiting,
    deadline: Duration,
    min_coverage: f64,
    view: &'static str,
    x: f64,
}

fn jobs(quick: bool) -> Vec<Job> {
    let every = if quick { 3 } else { 1 };
    let of_rule = |(name, rule)| {
        let tight = DEADLINES_MS.into_iter().step_by(every).map(move |ms| Job {
            name,
            rule,
            deadline: Duration::from_millis_f64(ms),
            // Any coverage is an answer, so that rules may give up early.
            min_coverage: 0.0,
            view: DEADLINE,
            x: ms,
        });
        let ample = COVERAGES.into_iter().step_by(every).map(move |coverage| Job {
            name,
            rule,
            deadline: AMPLE,
            min_coverage: coverage,
            view: COVERAGE,
            x: coverage,
        });
        tight.chain(ample)
    };
    RULES.into_iter().flat_map(of_rule).collect()
}

fn run(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let seconds = if plan.quick { 10.0 } else { 40.0 };
    let one = |job: &Job, seed| {
        let ledger = trial(job, seed, seconds).run();
        vec![ledger.point(job.name, job.x).with("view", job.view)]
    };
    runs::compared(plan, progress, &jobs(plan.quick), one, |mut points| {
        for (series, rule) in RULES {
            if rule != Waiting::Staged {
                compare(&mut points, [series, STAGED], COVERED, &["view"]);
                compare(&mut points, [series, STAGED], RESPONSE_P99, &["view"]);
            }
        }
        points
    })
}

fn trial(job: &Job, seed: u64, seconds: f64) -> Trial {
    let operators = Operators { local: LOCAL, reduce: REDUCE, ..Operators::micro() };
    let setting = Setting { operators: vec![operators], ..Setting::micro(seed, NODES) };
    let tuning = still();
    let mut world = World::new(setting.clone());
    for at in 0..NODES {
        world.start(Spec { tuning: tuning.clone(), ..Spec::holding([at].into_iter().collect()) });
    }
    let front = world.start(Spec { tuning, ..Spec::front() });
    world.introduce_fronts(&[front]);
    let mut trial = Trial::poisson(world, &setting, vec![front], PER_S, seconds);
    trial.options.shape = Shape::KAry(FAN_OUT);
    trial.options.waiting = job.rule;
    trial.options.deadline = job.deadline;
    trial.options.min_coverage = job.min_coverage;
    trial.scale = SCALE;
    trial
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (series, _) in RULES {
        let by_deadline = |of: &dyn Fn(&Point) -> Option<String>| -> String {
            let at = |&ms: &f64| {
                let point = find(points, series, ms, &[("view", DEADLINE)])?;
                Some(format!("{} at {ms}", of(point)?))
            };
            DEADLINES_MS.iter().filter_map(at).collect::<Vec<String>>().join("; ")
        };
        let by_coverage = |of: &dyn Fn(&Point) -> Option<String>| -> String {
            let at = |&enough: &f64| {
                let point = find(points, series, enough, &[("view", COVERAGE)])?;
                Some(format!("{} at {:.0} %", of(point)?, enough * 100.0))
            };
            COVERAGES.iter().filter_map(at).collect::<Vec<String>>().join("; ")
        };
        let covered = by_deadline(&|point| shown::share(point, COVERED, 1));
        findings.push(Finding::new(format!("coverage by the deadline in ms, {series}"), "–", covered));
        let against = by_deadline(&|point| shown::change(point, &change_name(COVERED, STAGED)));
        findings.push(Finding::new(format!("the same, against {STAGED}"), "–", against));
        let tails = by_coverage(&|point| {
            let ms = shown::figure(point, RESPONSE_P99, 0, " ms")?;
            Some(format!("{ms}, {} covered", shown::share(point, COVERED, 1)?))
        });
        let what = format!("99th percentile, and mean coverage, by minimum coverage, {series}");
        findings.push(Finding::new(what, "–", tails));
        let against = by_coverage(&|point| shown::change(point, &change_name(RESPONSE_P99, STAGED)));
        findings.push(Finding::new(format!("99th percentile against {STAGED}, {series}"), "–", against));
    }
    findings.retain(|finding| !finding.ours.is_empty());
    findings
}
