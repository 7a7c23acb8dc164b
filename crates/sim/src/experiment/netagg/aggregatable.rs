//! Varies the share of traffic that can be aggregated (NetAgg §4.1, figure 10).

use super::cases::{STRATEGIES, changes, finding, relative_chart, run, sweep};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress};

/// Varies the share from a tenth of the flows to all of them.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-aggregatable",
    about: "The share of flows that can be aggregated, from 10 to 100 %: flow completion by strategy, relative to rack",
    paper: "NetAgg §4.1, figure 10: all gain with the share; beyond 60 % binary and chain gain less again, and on-path stays lowest up to 100 %",
    charts: &[relative_chart(
        "netagg-aggregatable",
        "Flow completion by the share that can be aggregated",
        "share of flows",
    )],
    cost_s: 170.0,
    run: points,
    findings,
};

const AT: [f64; 6] = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    run(plan, progress, &sweep(plan, &STRATEGIES, &AT, |scene, x| scene.workload.aggregatable = x))
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let paper = |series: &str| match series {
        "on-path" => "lowest, and falling, up to 100 %",
        "binary" => "rises again beyond 60 %",
        "chain" => "rises again beyond 60 %",
        _ => "–",
    };
    let row = |&series: &&str| {
        let ours = changes(points, series, &AT, &[], |x| format!("{:.0} %", x * 100.0));
        finding(format!("{series} against rack"), paper(series), ours)
    };
    STRATEGIES[1..].iter().filter_map(row).collect()
}
