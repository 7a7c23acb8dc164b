//! Varies the share of workers that start late (NetAgg §4.1, figure 14).

use super::cases::{STRATEGIES, changes, finding, relative_chart, run, sweep};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress};

/// Varies the share from none to half of the workers.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-stragglers",
    about: "The share of workers that start late, from none to half: flow completion by strategy, relative to rack",
    paper: "NetAgg §4.1, figure 14: on-path gains for reasonable shares, and gains less if there are more stragglers",
    charts: &[relative_chart(
        "netagg-stragglers",
        "Flow completion by the share of stragglers",
        "share of workers that start late",
    )],
    cost_s: 140.0,
    run: points,
    findings,
};

const AT: [f64; 5] = [0.0, 0.05, 0.1, 0.25, 0.5];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    run(plan, progress, &sweep(plan, &STRATEGIES, &AT, |scene, x| scene.workload.stragglers = x))
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let paper = |series: &str| match series {
        "on-path" => "less with more stragglers",
        _ => "–",
    };
    let row = |&series: &&str| {
        let ours = changes(points, series, &AT, &[], |x| format!("{:.0} %", x * 100.0));
        finding(format!("{series} against rack"), paper(series), ours)
    };
    STRATEGIES[1..].iter().filter_map(row).collect()
}
