//! Compares upgrades of the same network by effect and cost (NetAgg §2.4, figure 3): wider links, or relays.

use super::cases::{Case, ON_PATH, RACK, RELATIVE, finding, run};
use crate::evaluation::Finding;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, shown};
use crate::flow::cost::{Prices, Upgrade};
use crate::flow::deployment::Deployment;
use crate::flow::topology::Fabric;

/// Compares flow completion and cost of the upgrades.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-configurations",
    about: "The base (1 Gbit/s, 1:4, rack) upgraded to wider networks under rack, or to relays: flow completion beside the \
            base, and the cost of the upgrade by the prices assumed in crates/sim/src/flow/cost.rs (a 1 Gbit/s port $100, a \
            10 Gbit/s port $450, a 10 Gbit/s card $150, a relay $2,500); costs are counted, so they are the same with every \
            seed",
    paper: "NetAgg §2.4, figure 3: relays everywhere reduce it by 88 %, at 18 % of the cost of FullBisec-10G (−92 %) and \
            22 % of the cost of Oversub-10G (−87 %); 64 relays reduce it by 75 %, at 4 % of the cost of Oversub-10G; \
            FullBisec-1G reduces it by 24 %",
    charts: &[Chart::new(
        "netagg-configurations",
        "Flow completion by the cost of the upgrade",
        "cost (thousand dollars)",
        Measure::More(RELATIVE),
    )
    .labelled("99th percentile of flow completion, base = 1")],
    cost_s: 40.0,
    run: points,
    findings,
};

/// Name of the upgrade's cost, in thousand dollars.
const COST: &str = "cost_kusd";

/// A configuration: its name, the strategy, the change to the base's fabric, and the paper's figure.
type Configuration = (&'static str, &'static str, fn(&mut Fabric), &'static str);

const CONFIGURATIONS: [Configuration; 5] = [
    ("FullBisec-10G", RACK, |fabric| (fabric.edge_gbps, fabric.oversubscription) = (10.0, 1.0), "−92 %"),
    ("Oversub-10G", RACK, |fabric| fabric.edge_gbps = 10.0, "−87 %"),
    ("FullBisec-1G", RACK, |fabric| fabric.oversubscription = 1.0, "−24 %"),
    ("NetAgg", ON_PATH, |_| (), "−88 %"),
    ("Incremental-NetAgg", ON_PATH, |fabric| fabric.relays = Deployment::CORES, "−75 %"),
];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let of = |(series, strategy, change, _): Configuration| Case {
        series,
        ..Case::paper(plan, strategy, 0.0).fabric(change)
    };
    let base = Case::paper(plan, RACK, 0.0);
    let cases: Vec<Case> = [base.clone()].into_iter().chain(CONFIGURATIONS.map(of)).collect();
    let mut points = run(plan, progress, &cases);
    for (point, case) in points.iter_mut().zip(&cases) {
        let upgrade = Upgrade::between(&base.scene.fabric, &case.scene.fabric);
        let cost = upgrade.dollars(&Prices::ASSUMED) / 1e3;
        point.x = cost;
        point.more.insert(COST.into(), cost.into());
        for (part, so_many, _) in upgrade.parts(&Prices::ASSUMED) {
            point.more.insert(part.into(), so_many.into());
        }
    }
    points
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let of = |series: &str| points.iter().find(|point| point.series == series);
    let cost = |series: &str| of(series).and_then(|point| point.figure(COST));
    let share = |ours: &str, other: &str| {
        let share = cost(ours).zip(cost(other)).map(|(ours, other)| ours / other * 100.0);
        share.map(|per_cent| format!("{per_cent:.0} %")).unwrap_or_default()
    };
    let row = |(series, _, _, paper): Configuration| {
        let point = of(series)?;
        let counted: Vec<String> = (Upgrade::default().parts(&Prices::ASSUMED).iter())
            .filter_map(|&(part, _, _)| Some((part, point.figure(part).filter(|&so_many| so_many > 0.0)?)))
            .map(|(part, so_many)| format!("{so_many} {part}"))
            .collect();
        let cost = format!(
            "{}, ${:.0},000 ({})",
            shown::relative(point, RELATIVE)?,
            point.figure(COST)?,
            counted.join(", ")
        );
        finding(format!("{series}: flow completion against the base, and cost"), paper, cost)
    };
    let costs = [
        finding("cost of NetAgg, relative to FullBisec-10G", "18 %", share("NetAgg", "FullBisec-10G")),
        finding("cost of NetAgg, relative to Oversub-10G", "22 %", share("NetAgg", "Oversub-10G")),
        finding(
            "cost of Incremental-NetAgg, relative to Oversub-10G",
            "4 %",
            share("Incremental-NetAgg", "Oversub-10G"),
        ),
    ];
    CONFIGURATIONS.into_iter().filter_map(row).chain(costs.into_iter().flatten()).collect()
}
