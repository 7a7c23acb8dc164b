//! Varies the width of the racks' uplinks (NetAgg §4.1, figure 11).

use super::cases::{STRATEGIES, changes, finding, relative_chart, run, sweep};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress};

/// Varies over-subscription from full bisection to 1:10.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-oversubscription",
    about: "Over-subscription from 1:1 to 1:10: flow completion by strategy, relative to rack",
    paper: "NetAgg §4.1, figure 11: on-path gains most where over-subscription is high, and gains at full bisection too",
    charts: &[relative_chart(
        "netagg-oversubscription",
        "Flow completion by over-subscription",
        "over-subscription (1:x)",
    )
    .beside(&[("on-path", &[(1.0, 0.10), (4.0, 0.12)])])],
    cost_s: 140.0,
    run: points,
    findings,
};

const AT: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 10.0];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    run(plan, progress, &sweep(plan, &STRATEGIES, &AT, |scene, x| scene.fabric.oversubscription = x))
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let paper = |series: &str| match series {
        "on-path" => "−90 % at 1:1 (figure 2), −88 % at 1:4",
        _ => "–",
    };
    let row = |&series: &&str| {
        let ours = changes(points, series, &AT, &[], |x| format!("1:{x}"));
        finding(format!("{series} against rack"), paper(series), ours)
    };
    STRATEGIES[1..].iter().filter_map(row).collect()
}
