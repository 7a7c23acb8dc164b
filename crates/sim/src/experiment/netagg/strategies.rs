//! Compares the strategies in the paper's setting: the times of all flows, the times of flows that cannot be
//! aggregated, and the traffic on links (NetAgg §4.1, figures 6, 7 and 9).

use super::cases::{BINARY, CHAIN, Case, HOPS, ON_PATH, RELATIVE, STRATEGIES, beside_rack, finding, summary};
use crate::evaluation::Finding;
use crate::experiment::compared::{change_name, compare};
use crate::experiment::point::{find, quantile};
use crate::experiment::{Chart, Experiment, Measure, Plan, Point, Progress, runs, shown};

/// Measures the three distributions and their summaries.
pub const EXPERIMENT: Experiment = Experiment {
    name: "netagg-strategies",
    about: "1,024 servers under 320 switches, 1:4, α = 10 %, 46 % of flows aggregatable: flow completion times and the \
            traffic on links, by aggregation strategy; a model of flows, not of packets, under the interpretations of the \
            paper's text that netagg-model lists, which were chosen because they give on-path's figures; four draws of \
            traffic for each seed",
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
    cost_s: 22.0,
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
        let outcome = case.outcome(seed);
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
    runs::compared(plan, progress, &cases, views, |points| {
        let mut points = beside_rack(&points);
        for other in [BINARY, CHAIN] {
            compare(&mut points, [ON_PATH, other], "fct_ms_p99", &[VIEW]);
        }
        points
    })
}

fn findings(points: &[Point]) -> Vec<Finding> {
    let of = |series: &str| find(points, series, 0.0, &[(VIEW, SUMMARY)]);
    let changed = |series: &str, name: &str| of(series).and_then(|point| shown::relative(point, name));
    let all_changed = |series: &[&str], name: &str| {
        series
            .iter()
            .map(|series| changed(series, name))
            .collect::<Option<Vec<String>>>()
            .map(|all| all.join("; "))
    };
    let against = |other: &str| shown::change(of(ON_PATH)?, &change_name("fct_ms_p99", other));
    let times = |series: &str, [p50, p99]: [&str; 2]| {
        let point = of(series)?;
        Some(format!("{}; {}", shown::figure(point, p50, 1, " ms")?, shown::figure(point, p99, 1, " ms")?))
    };
    let links = |series: &&str| Some(format!("×{}", shown::figure(of(series)?, "relative_link_p50", 1, "")?));
    let links = [BINARY, CHAIN].iter().map(links).collect::<Option<Vec<String>>>();
    let mut all = vec![
        ("on-path's 99th percentile against rack's".to_owned(), "−88 %", changed(ON_PATH, RELATIVE)),
        ("on-path's against binary's".into(), "−80 %, or −40 %*", against(BINARY)),
        ("on-path's against chain's".into(), "−52 %, or −75 %*", against(CHAIN)),
        (
            "binary's and chain's against rack's".into(),
            "−40 % and −75 %, or −80 % and −52 %*",
            all_changed(&[BINARY, CHAIN], RELATIVE),
        ),
        (
            "binary's and chain's median against rack's".into(),
            "longer",
            all_changed(&[BINARY, CHAIN], "relative_p50"),
        ),
        ("on-path's median against rack's".into(), "shorter", changed(ON_PATH, "relative_p50")),
        (
            "flows that cannot be aggregated (figure 7): on-path's median against rack's".into(),
            "shorter",
            gain_of_others(of(ON_PATH), "relative_others_p50"),
        ),
        (
            "flows that cannot be aggregated (figure 7): on-path's 99th percentile against rack's".into(),
            "shorter",
            gain_of_others(of(ON_PATH), "relative_others_p99"),
        ),
        (
            "99th percentile of hops, each from one machine to the next, against rack's: binary, chain, on-path".into(),
            "–",
            all_changed(&[BINARY, CHAIN, ON_PATH], HOPS),
        ),
        (
            "median traffic on a link beside rack's, binary and chain".into(),
            "×2.5 and ×4",
            links.map(|links| links.join("; ")),
        ),
    ];
    for series in STRATEGIES {
        let of_all = times(series, ["fct_ms_p50", "fct_ms_p99"]);
        all.push((format!("flow completion, median and 99th percentile, {series}"), "–", of_all));
        let of_others = times(series, ["others_fct_ms_p50", "others_fct_ms_p99"]);
        all.push((format!("the same, flows that cannot be aggregated, {series}"), "–", of_others));
    }
    all.into_iter().filter_map(|(what, paper, ours)| finding(what, paper, ours.unwrap_or_default())).collect()
}

/// Formats on-path's figure of the flows that cannot be aggregated relative to rack's, and judges the paper's claim
/// that it is lower. The paper does not say by how much.
fn gain_of_others(on_path: Option<&Point>, name: &str) -> Option<String> {
    let shown = shown::relative(on_path?, name)?;
    let relative = on_path?.figure(name)?;
    let (low, high) = shown::ends(on_path?, name).unwrap_or((relative, relative));
    let verdict = if high < 1.0 {
        "lower, as in the paper"
    } else if low > 1.0 {
        "contradicted"
    } else {
        "the paper's gain is not confirmed"
    };
    Some(format!("{shown}: {verdict}"))
}
