//! Places relays beside some of the switches only (NetAgg §4.1, figure 12).

use super::cases::{Case, ON_PATH, RACK, RELATIVE, finding, run};
use crate::evaluation::Finding;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, shown};
use crate::flow::deployment::Deployment;

/// Compares relays beside single tiers, and 64 relays placed in three ways.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-deployments",
    about: "Relays beside every switch, beside those of one tier, and 64 in three ways: flow completion relative to rack",
    paper: "NetAgg §4.1, figure 12: relays at the racks alone reduce it by 38 %, at the aggregation switches by 83 %, at the \
            core by 75 %; 64 relays spread over aggregation switches by 29 %, over these and the core by 43 %",
    charts: &[Chart::new(
        "netagg-deployments",
        "Flow completion by where relays are",
        "relays",
        Measure::More(RELATIVE),
    )
    .labelled("99th percentile of flow completion, rack = 1")],
    cost_s: 50.0,
    run: points,
    findings,
};

/// Deployments, each with its name and the paper's figure.
const DEPLOYMENTS: [(&str, Deployment, &str); 6] = [
    ("everywhere", Deployment::full(1), "−88 %"),
    ("racks", Deployment::RACKS, "−38 %"),
    ("aggregation", Deployment::PODS, "−83 %"),
    ("core", Deployment::CORES, "−75 %"),
    ("half of aggregation", Deployment::HALF_OF_PODS, "−29 %"),
    ("aggregation and core", Deployment::PODS_AND_CORES, "−43 %"),
];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let of = |(series, relays, _)| {
        let case = Case::paper(plan, ON_PATH, 0.0).fabric(|fabric| fabric.relays = relays);
        Case { series, ..case }
    };
    let cases: Vec<Case> = [Case::paper(plan, RACK, 0.0)].into_iter().chain(DEPLOYMENTS.map(of)).collect();
    let mut points = run(plan, progress, &cases);
    points.iter_mut().for_each(|point| point.x = point.figure("relays").unwrap_or_default());
    points
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let row = |(series, _, paper): (&str, Deployment, &str)| {
        let point = points.iter().find(|point| point.series == series)?;
        let relays = point.figure("relays")?;
        finding(format!("{relays} relays: {series}"), paper, shown::relative(point, RELATIVE)?)
    };
    DEPLOYMENTS.into_iter().filter_map(row).collect()
}
