//! Compares the strategies in the paper's setting: the times of all flows, the times of flows that cannot be
//! aggregated, and the traffic on links (NetAgg §4.1, figures 6, 7 and 9).

use super::cases::{
    BINARY, CHAIN, Case, HOPS, ON_PATH, RELATIVE, STRATEGIES, beside_rack, change, finding, summary,
};
use crate::evaluation::Finding;
use crate::experiment::point::{find, quantile};
use crate::experiment::runs::averaged_over;
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress};

/// Measures the three distributions and their summaries.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-strategies",
    about: "1,024 servers under 320 switches, 1:4, α = 10 %, 46 % of flows aggregatable: flow completion times and the \
            traffic on links, by aggregation strategy",
    paper: "NetAgg §4.1, figures 6, 7 and 9: on-path's 99th percentile of flow completion is 88 % below rack's; binary and \
            chain shorten the tail and lengthen the median; flows that cannot be aggregated gain from on-path too",
    charts: &[
        distribution("netagg-strategies-all", "Flow completion, all flows", "fct_ms")
            .labelled("flow completion time (ms)"),
        distribution(
            "netagg-strategies-others",
            "Flow completion, flows that cannot be aggregated",
            "others_fct_ms",
        )
        .labelled("flow completion time (ms)"),
        distribution("netagg-strategies-links", "Traffic on links between servers and switches", "link_mb")
            .labelled("traffic (MB)"),
    ],
    run: points,
    findings,
};

const fn distribution(file: &'static str, title: &'static str, figure: &'static str) -> Chart {
    Chart::new(file, title, "share at or below", Measure::More(figure)).only(VIEW, DISTRIBUTION).log_y()
}

const VIEW: &str = "view";
const SUMMARY: &str = "summary";
const DISTRIBUTION: &str = "distribution";

/// The shares at which points of the distributions are kept.
const SHARES: [f64; 14] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

fn points(plan: &Plan, progress: &dyn Progress) -> Vec<Point> {
    let cases = STRATEGIES.map(|series| Case::paper(plan, series, 0.0));
    let views = |case: &Case, seed: u64| {
        let outcome = case.scene.run(seed);
        let at = |share: f64| {
            let point =
                Point::of_calls(case.series, share, Vec::new(), f64::NAN, f64::NAN).with(VIEW, DISTRIBUTION);
            point
                .with("fct_ms", quantile(&outcome.flows_ms, share))
                .with("others_fct_ms", quantile(&outcome.others_ms, share))
                .with("link_mb", quantile(&outcome.link_bytes, share) / 1e6)
        };
        let in_short = summary(case.series, 0.0, &outcome).with(VIEW, SUMMARY);
        std::iter::once(in_short).chain(SHARES.map(at)).collect()
    };
    let all = averaged_over(plan, progress, &cases, |case| case.runs(plan), views);
    beside_rack(&all)
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let figure = |series: &str, name: &str| find(points, series, 0.0, &[(VIEW, SUMMARY)])?.figure(name);
    let changed = |series: &str, name: &str| figure(series, name).map(change).unwrap_or_default();
    let against = |other: &str| {
        let relative =
            figure(ON_PATH, RELATIVE).zip(figure(other, RELATIVE)).map(|(ours, others)| ours / others);
        relative.map(change).unwrap_or_default()
    };
    let times = |series: &str| {
        let ms = |name| figure(series, name).map(|ms| format!("{ms:.1}"));
        ms("fct_ms_p50").zip(ms("fct_ms_p99")).map(|(p50, p99)| format!("{p50}, {p99}")).unwrap_or_default()
    };
    let links =
        |series| figure(series, "relative_link_p50").map(|times| format!("×{times:.1}")).unwrap_or_default();
    let mut all = vec![
        finding("on-path's 99th percentile against rack's", "−88 %", changed(ON_PATH, RELATIVE)),
        finding("on-path's against binary's", "−80 %, or −40 %*", against(BINARY)),
        finding("on-path's against chain's", "−52 %, or −75 %*", against(CHAIN)),
        finding("binary's and chain's against rack's", "−40 % and −75 %, or −80 % and −52 %*", {
            [BINARY, CHAIN].map(|series| changed(series, RELATIVE)).join(" and ")
        }),
        finding("binary's and chain's median against rack's", "longer", {
            [BINARY, CHAIN].map(|series| changed(series, "relative_p50")).join(" and ")
        }),
        finding("on-path's median against rack's", "shorter", changed(ON_PATH, "relative_p50")),
        finding(
            "on-path's 99th percentile of flows that cannot be aggregated, against rack's",
            "shorter",
            changed(ON_PATH, "relative_others_p99"),
        ),
        finding(
            "99th percentile of hops, each from one machine to the next, against rack's: binary, chain, on-path",
            "–",
            [BINARY, CHAIN, ON_PATH].map(|series| changed(series, HOPS)).join(", "),
        ),
        finding("median traffic on a link beside rack's, binary and chain", "×2.5 and ×4", {
            [BINARY, CHAIN].map(links).join(" and ")
        }),
    ];
    for series in STRATEGIES {
        all.push(finding(
            format!("flow completion, median and 99th percentile in ms, {series}"),
            "–",
            times(series),
        ));
    }
    all.into_iter().flatten().filter(|finding| finding.ours != " and ").collect()
}
