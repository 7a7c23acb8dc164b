//! Makes the network ten times as fast and places more relays per switch (NetAgg §4.1, figure 13).

use super::cases::{Case, ON_PATH, RACK, changes, finding, relative_chart, run};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress};
use crate::flow::deployment::Deployment;

/// Compares one, two and four relays beside each switch, with 10 Gbit/s to each server.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-10g",
    about: "Servers and relays both with links of 10 Gbit/s, over-subscription from 1:1 to 1:10, and one, two or four relays \
            beside each switch: flow completion relative to rack",
    paper: "NetAgg §4.1, figure 13: at low over-subscription one relay per switch is the bottleneck; two reduce it by up to 85 %",
    charts: &[relative_chart("netagg-10g", "Flow completion at 10 Gbit/s", "over-subscription (1:x)")],
    cost_s: 110.0,
    run: points,
    findings,
};

const AT: [f64; 4] = [1.0, 2.0, 4.0, 10.0];

/// Series, each with its relays per switch.
const SERIES: [(&str, u32); 4] = [(RACK, 0), (ON_PATH, 1), ("on-path, 2 each", 2), ("on-path, 4 each", 4)];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let every = if plan.quick { 2 } else { 1 };
    let of = |(series, relays): (&'static str, u32)| {
        AT.iter().step_by(every).map(move |&x| {
            let strategy = if relays == 0 { RACK } else { ON_PATH };
            let case = Case::paper(plan, strategy, x).fabric(|fabric| {
                (fabric.edge_gbps, fabric.oversubscription) = (10.0, x);
                fabric.relays = if relays == 0 { Deployment::NONE } else { Deployment::full(relays) };
            });
            Case { series, ..case }
        })
    };
    run(plan, progress, &SERIES.into_iter().flat_map(of).collect::<Vec<Case>>())
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let row = |&(series, relays): &(&str, u32)| {
        let paper = if relays == 2 { "up to −85 %" } else { "–" };
        finding(
            format!("{series}, against rack"),
            paper,
            changes(points, series, &AT, &[], |x| format!("1:{x}")),
        )
    };
    SERIES[1..].iter().filter_map(row).collect()
}
