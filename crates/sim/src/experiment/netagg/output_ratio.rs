//! Varies the ratio of an aggregation's output to its input (NetAgg §4.1, figure 8).

use super::cases::{STRATEGIES, changes, finding, relative_chart, run, sweep};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress};

/// Varies α from 5 to 100 %.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-output-ratio",
    about: "The output ratio α from 5 to 100 %: flow completion by strategy, relative to rack",
    paper: "NetAgg §4.1, figure 8: on-path is 88 % below rack at 10 %, and a little below it at 100 %; chain is worse than rack above 70 %",
    charts: &[relative_chart("netagg-output-ratio", "Flow completion by output ratio", "output ratio α")
        .beside(&[("on-path", &[(0.1, 0.12)])])],
    cost_s: 200.0,
    run: points,
    findings,
};

const AT: [f64; 7] = [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    run(plan, progress, &sweep(plan, &STRATEGIES, &AT, |scene, x| scene.output_ratio = x))
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let paper = |series: &str| match series {
        "on-path" => "−88 % at 10 %, a little at 100 %",
        "chain" => "above rack from 70 % on",
        _ => "–",
    };
    let row = |&series: &&str| {
        let ours = changes(points, series, &AT, &[], |x| format!("{:.0} %", x * 100.0));
        finding(format!("{series} against rack"), paper(series), ours)
    };
    STRATEGIES[1..].iter().filter_map(row).collect()
}
