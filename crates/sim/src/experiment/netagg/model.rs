//! Varies each assumption that the paper's text leaves open, to measure its effect on the gain of on-path.
//!
//! The rows show how far the other figures can be trusted, and which reading of the text fits the paper's own
//! figures. Two assumptions matter most: whether the partial results of a job have equal sizes, and where a
//! flow ends. The second needs no runs of its own, because every run times hops as well as flows.

use super::cases::{
    BINARY, CHAIN, Case, HOPS, ON_PATH, RACK, RELATIVE, SETTING, finding, relative_chart, run,
};
use crate::evaluation::Finding;
use crate::experiment::{Experiment, Plan, Point, Progress, shown};
use crate::flow::deployment::Deployment;
use crate::flow::scene::{Reduction, Scene};
use crate::flow::strategy::Strategy;
use crate::flow::strategy::rack::Aggregators;
use crate::flow::workload::{Masters, Partials, Starts};

/// Varies each assumption in turn.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-model",
    about: "Assumptions that the paper leaves open, each varied alone, with one draw of traffic for each seed: 99th \
            percentile of flow completion relative to rack, of binary, chain, on-path with relays everywhere and at the \
            racks alone, and of the other flows if jobs send nothing, which is a lower bound for all strategies. All \
            netagg-* experiments are computed by a model of flows, not of packets: it shares the links among the flows \
            that are alive (max-min fairness) and has no losses, no windows of TCP and no queues. The first row has the \
            interpretations that were chosen because with them on-path gains as much as in the paper: a flow ends when \
            its data is at the job's master, one size is drawn for each job, a result is at most α of the whole job, \
            and the load of 15 % is that of 20 ms. So agreement of on-path's figures with the paper in that row is \
            partly by choice; the other rows show each figure under the other interpretations",
    paper: "NetAgg §4.1 states none of them; its figures are −40 % or −80 % for binary, −75 % or −52 % for chain, −88 % and \
            −38 % for relays everywhere and at the racks alone",
    charts: &[relative_chart(
        "netagg-model",
        "Flow completion by what is assumed",
        "assumption, in the order of the table",
    )],
    cost_s: 300.0,
    run: points,
    findings,
};

/// Draws of traffic for each seed. One suffices, because the differences between rows are large.
const DRAWS: u32 = 1;

/// An assumption, and its change to the scene.
type Assumption = (&'static str, fn(&mut Scene));

const ASSUMPTIONS: [Assumption; 12] = [
    (AS_ELSEWHERE, |_| ()),
    (EACH_ITS_OWN, |scene| scene.workload.partials = Partials::Each),
    ("a result is α times the partial results in it", |scene| scene.reduction = Reduction::OfPartials),
    ("each step shrinks by α again", |scene| scene.reduction = Reduction::EachStep),
    ("one aggregator per rack for all jobs", |scene| {
        if matches!(scene.strategy, Strategy::Rack(_)) {
            scene.strategy = Strategy::Rack(Aggregators::PerRack);
        }
    }),
    ("one tree per job, and not eight", |scene| {
        if matches!(scene.strategy, Strategy::OnPath(_)) {
            scene.strategy = Strategy::OnPath(1);
        }
    }),
    ("masters near their workers", |scene| scene.workload.masters = Masters::Near),
    ("no job with more than 128 workers", |scene| scene.workload.workers_max = 128),
    ("the load of half that time", |scene| scene.workload.window_s /= 2.0),
    ("the load of five times that time", |scene| scene.workload.window_s *= 5.0),
    ("the same, starting at any moment of it", |scene| {
        scene.workload.window_s *= 5.0;
        scene.workload.starts = Starts::OverTime;
    }),
    ("rates allocated four times as often", |scene| scene.step_share /= 4.0),
];

const AS_ELSEWHERE: &str = "as everywhere else here";
const EACH_ITS_OWN: &str = "each partial result has a size of its own";

/// The series with relays at the racks alone.
const RACKS: &str = "on-path, racks alone";

/// The series with only the other flows.
const NOTHING: &str = "jobs send nothing";

const SERIES: [&str; 6] = [RACK, BINARY, CHAIN, ON_PATH, RACKS, NOTHING];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let mut cases = Vec::new();
    for (nth, (setting, change)) in ASSUMPTIONS.into_iter().enumerate() {
        for series in SERIES {
            let strategy = if matches!(series, RACKS | NOTHING) { ON_PATH } else { series };
            let mut case = Case::paper(plan, strategy, nth as f64);
            match series {
                RACKS => case.scene.fabric.relays = Deployment::RACKS,
                NOTHING => case.scene.strategy = Strategy::Nothing,
                _ => {}
            }
            change(&mut case.scene);
            case.draws = DRAWS;
            cases.push(Case { series, setting: Some(setting), ..case });
        }
    }
    run(plan, progress, &cases)
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let of = |setting: &str, series: &str| {
        points.iter().find(|point| point.series == series && point.word(SETTING) == Some(setting))
    };
    let row = |setting: &str, what: &str, ms: &str, relative: &str| {
        let rack_ms = shown::figure(of(setting, RACK)?, ms, 0, " ms")?;
        let beside = |&series: &&str| shown::relative(of(setting, series)?, relative);
        let all: Vec<String> = SERIES[1..].iter().filter_map(beside).collect();
        let ours = format!("{}; rack: {rack_ms}", all.join("; "));
        finding(format!("{what}: binary, chain, on-path, at racks alone, jobs sending nothing"), "–", ours)
    };
    let flows = |setting| row(setting, setting, "fct_ms_p99", RELATIVE);
    let hops = |setting: &str| row(setting, &format!("{setting}, each hop a flow"), "hop_ms_p99", HOPS);
    let rows = ASSUMPTIONS.into_iter().flat_map(|(setting, _)| match setting {
        AS_ELSEWHERE | EACH_ITS_OWN => vec![flows(setting), hops(setting)],
        _ => vec![flows(setting)],
    });
    rows.flatten().collect()
}
