//! What the paper's text leaves open, each varied: how much of on-path's gain hangs on what was taken.
//!
//! No figure of the paper stands beside these. They say how far the others can be trusted, and which reading of the text
//! its own figures fit.

use super::cases::{Case, ON_PATH, RACK, RELATIVE, SETTING, change, finding, relative_chart, run};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress};
use crate::flow::deployment::Deployment;
use crate::flow::scene::{Reduction, Scene};
use crate::flow::strategy::Strategy;
use crate::flow::strategy::rack::Aggregators;
use crate::flow::workload::Masters;

/// Each assumption in turn.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-model",
    about: "What the paper leaves open, each varied on its own: flow completion of on-path beside rack, with relays \
            everywhere and at the racks alone, and where jobs send nothing, below which no strategy can come",
    paper: "NetAgg §4.1 says none of this; its figures for relays everywhere and at racks alone are −88 % and −38 %",
    charts: &[relative_chart(
        "netagg-model",
        "Flow completion by what is assumed",
        "assumption, in the order of the table",
    )],
    run: points,
    findings,
};

/// An assumption, and what it changes.
type Assumption = (&'static str, fn(&mut Scene));

const ASSUMPTIONS: [Assumption; 9] = [
    ("as everywhere else here", |_| ()),
    ("a result is α times the partial results in it", |scene| scene.reduction = Reduction::OfPartials),
    ("each step shrinks by α again", |scene| scene.reduction = Reduction::EachStep),
    ("one aggregator per rack for all jobs", |scene| {
        if matches!(scene.strategy, Strategy::Rack(_)) {
            scene.strategy = Strategy::Rack(Aggregators::PerRack);
        }
    }),
    ("the same, and each step shrinks by α again", |scene| {
        scene.reduction = Reduction::EachStep;
        if matches!(scene.strategy, Strategy::Rack(_)) {
            scene.strategy = Strategy::Rack(Aggregators::PerRack);
        }
    }),
    ("masters near their workers", |scene| scene.workload.masters = Masters::Near),
    ("the load of a fifth of that time", |scene| scene.workload.window_s /= 5.0),
    ("the load of twice that time", |scene| scene.workload.window_s *= 2.0),
    ("rates allocated four times as often", |scene| scene.step_share /= 4.0),
];

/// Relays at the racks alone.
const RACKS: &str = "on-path, racks alone";

/// The other flows alone.
const NOTHING: &str = "jobs send nothing";

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let mut cases = Vec::new();
    for (nth, (setting, change)) in ASSUMPTIONS.into_iter().enumerate() {
        for series in [RACK, ON_PATH, RACKS, NOTHING] {
            let mut case = Case::paper(plan, if series == RACK { RACK } else { ON_PATH }, nth as f64);
            match series {
                RACKS => case.scene.fabric.relays = Deployment::RACKS,
                NOTHING => case.scene.strategy = Strategy::Nothing,
                _ => {}
            }
            change(&mut case.scene);
            cases.push(Case { series, setting: Some(setting), ..case });
        }
    }
    run(plan, progress, &cases)
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let of = |setting: &str, series: &str| {
        let point =
            points.iter().find(|point| point.series == series && point.word(SETTING) == Some(setting))?;
        Some((point.figure("fct_ms_p99")?, point.figure(RELATIVE)?))
    };
    let row = |(setting, _): Assumption| {
        let ((rack_ms, _), (_, all), (_, racks)) =
            (of(setting, RACK)?, of(setting, ON_PATH)?, of(setting, RACKS)?);
        let (_, nothing) = of(setting, NOTHING)?;
        let ours = format!("{}, {}, {} (rack: {rack_ms:.0} ms)", change(all), change(racks), change(nothing));
        finding(format!("{setting}: relays everywhere, at racks alone, jobs sending nothing"), "–", ours)
    };
    ASSUMPTIONS.into_iter().filter_map(row).collect()
}
