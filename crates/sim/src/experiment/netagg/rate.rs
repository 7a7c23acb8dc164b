//! Varies the rate of a relay (NetAgg §2.4, figure 2).

use super::cases::{Case, ON_PATH, RACK, RELATIVE, SETTING, finding, relative_chart, run_and};
use crate::evaluation::Finding;
use crate::experiment::point::find;
use crate::experiment::{Experiment, Plan, Point, Progress, shown};

/// Varies R from 1 to 10 Gbit/s.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-rate",
    about: "How much a relay can take in, from 1 to 10 Gbit/s, at 1:4 and 1:1: flow completion of on-path relative to rack",
    paper: "NetAgg §2.4, figure 2: 1 Gbit/s per relay already takes more than 74 % off at 1:4 and 63 % at 1:1, 8 Gbit/s \
            88 % and 90 %",
    charts: &[relative_chart("netagg-rate", "Flow completion by what a relay can take in", "R (Gbit/s)")
        .beside(&[("1:4", &[(1.0, 0.26), (8.0, 0.12)]), ("1:1", &[(1.0, 0.37), (8.0, 0.10)])])],
    cost_s: 100.0,
    run: points,
    findings,
};

const RATES_GBPS: [f64; 6] = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];

/// Over-subscriptions, each with its name.
const SETTINGS: [(&str, f64); 2] = [("1:4", 4.0), ("1:1", 1.0)];

/// The x of rack's single run, because rack has no relays and so no rate.
const ANY_RATE: f64 = 0.0;

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let mut cases = Vec::new();
    for (setting, oversubscription) in SETTINGS {
        let case = |series, x| {
            let case =
                Case::paper(plan, series, x).fabric(|fabric| fabric.oversubscription = oversubscription);
            Case { setting: Some(setting), ..case }
        };
        cases.push(case(RACK, ANY_RATE));
        let every = if plan.quick { 4 } else { 1 };
        let at = |&rate| case(ON_PATH, rate).fabric(|fabric| fabric.relay_rate_gbps = rate);
        cases.extend(RATES_GBPS.iter().step_by(every).map(at));
    }
    run_and(plan, progress, &cases, |points| beside_single_rack(&points))
}

/// Names each point after its setting, adds its figure relative to rack's single one in the setting, and leaves rack
/// out. The chart has a curve for each setting, and rack's would be 1 everywhere.
fn beside_single_rack(points: &[Point]) -> Vec<Point> {
    let relative = |point: &Point| {
        let setting = point.word(SETTING)?;
        let rack = find(points, RACK, ANY_RATE, &[(SETTING, setting)])?.figure("fct_ms_p99")?;
        let relative = point.figure("fct_ms_p99")? / rack;
        let point = Point { series: setting.into(), ..point.clone() };
        (point.x > ANY_RATE).then(|| point.with(RELATIVE, relative))
    };
    points.iter().filter_map(relative).collect()
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let at = |setting: &str, rate: f64| {
        find(points, setting, rate, &[])
            .and_then(|point| shown::relative(point, RELATIVE))
            .unwrap_or_default()
    };
    let rows = [("1:4", 1.0, "−74 %"), ("1:1", 1.0, "−63 %"), ("1:4", 8.0, "−88 %"), ("1:1", 8.0, "−90 %")];
    let row = |(setting, rate, paper): (&str, f64, &str)| {
        finding(format!("on-path against rack, {setting}, R = {rate} Gbit/s"), paper, at(setting, rate))
    };
    rows.into_iter().filter_map(row).collect()
}
