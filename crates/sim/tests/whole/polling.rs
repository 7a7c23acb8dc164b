//! Tests the orderings that the random polling paper found, with short runs of its experiments.

use std::sync::OnceLock;
use treefold_sim::experiment::point::Point;
use treefold_sim::experiment::polling::load_inaccuracy::bound;
use treefold_sim::experiment::{ALL, Plan, Unwatched};

fn run(name: &str, seed: u64, repeat: u32) -> Vec<Point> {
    let experiment =
        ALL.iter().find(|experiment| experiment.name == name).expect("there is such an experiment");
    (experiment.run)(&Plan { seed, repeat, threads: 2, quick: true }, &Unwatched)
}

fn at<'a>(points: &'a [Point], series: &str, x: f64, words: &[&str]) -> &'a Point {
    let bears = |point: &Point, word: &str| point.more.values().any(|value| value.text() == Some(word));
    let found = points.iter().find(|point| {
        point.series == series && (point.x - x).abs() < 1e-9 && words.iter().all(|word| bears(point, word))
    });
    found.unwrap_or_else(|| panic!("no point {series} at {x} with {words:?}"))
}

fn more(point: &Point, name: &str) -> f64 {
    point.figure(name).expect("the experiment adds this figure")
}

fn poll_size() -> &'static [Point] {
    static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
    POINTS.get_or_init(|| run("poll-size", 1, 1))
}

fn poll_discard() -> &'static [Point] {
    static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
    POINTS.get_or_init(|| run("poll-discard", 1, 1))
}

fn replica_policies() -> &'static [Point] {
    static POINTS: OnceLock<Vec<Point>> = OnceLock::new();
    POINTS.get_or_init(|| run("replica-policies", 1, 1))
}

#[test]
fn error_of_a_load_figure_stays_below_its_bound() {
    let points = run("load-inaccuracy", 1, 2);
    for (series, load) in [("50%", 0.5), ("90%", 0.9)] {
        let of_exp: Vec<f64> = (points.iter())
            .filter(|point| point.series == series && point.word("workload") == Some("poisson-exp"))
            .map(|point| more(point, "inaccuracy"))
            .collect();
        assert!(of_exp.iter().all(|&inaccuracy| inaccuracy < 1.1 * bound(load)), "{series}: {of_exp:?}");
        assert!(
            of_exp[0] < 0.5 * of_exp[of_exp.len() - 1],
            "{series}: the error must grow with age: {of_exp:?}"
        );
    }
    let after_ten = |series| more(at(&points, series, 10.0, &["poisson-exp"]), "inaccuracy");
    assert!(after_ten("90%") > 2.0 * after_ten("50%"), "a busy server's figure ages faster");
}

#[test]
fn rare_announcements_are_worse_and_the_announced_policy_helps() {
    let points = run("broadcast", 1, 1);
    let normalised = |series, x, workload| more(at(&points, series, x, &[workload]), "normalised");
    for workload in ["poisson-exp", "fine-grain", "medium-grain"] {
        let (often, rarely) = (normalised("90%", 31.25, workload), normalised("90%", 1_000.0, workload));
        assert!(rarely > 2.0 * often && rarely > 3.0, "{workload}: {rarely} and {often} times ideal");
        let ours = normalised("90% announced", 1_000.0, workload);
        assert!(ours < 0.7 * rarely, "{workload}: {ours} and {rarely} times ideal");
    }
}

#[test]
fn two_polls_give_most_of_the_gain_and_more_give_little() {
    for workload in ["poisson-exp", "fine-grain", "medium-grain"] {
        let of = |series| at(poll_size(), series, 0.9, &[workload, "free"]).response_ms_mean;
        let gained = (of("random") - of("2")) / (of("random") - of("ideal"));
        assert!(gained > 0.75, "{workload}: two polls have {gained} of the gain of perfect knowledge");
        assert!(of("2") < 0.6 * of("random") && of("8") <= of("2"), "{workload}");
    }
}

#[test]
fn eight_costly_polls_are_too_many_for_a_fine_grain_service() {
    let of = |series, workload| at(poll_size(), series, 0.9, &[workload, "real"]).response_ms_mean;
    assert!(of("8", "fine-grain") > 1.4 * of("2", "fine-grain"));
    assert!(of("8", "medium-grain") < of("2", "medium-grain"), "polls cost little compared with 209 ms");
}

#[test]
fn dropping_late_answers_saves_polling_time() {
    let points = poll_discard();
    for (x, workload) in [(22.2, "fine-grain"), (50.0, "poisson-exp"), (208.9, "medium-grain")] {
        let polling_ms = |series| more(at(points, series, x, &[workload]), "polling_ms");
        assert!(polling_ms("optimized") < 0.6 * polling_ms("original"), "{workload}");
        assert!(more(at(points, "optimized", x, &[workload]), "later_than_10ms") < 0.01, "{workload}");
    }
}

#[test]
fn policies_with_load_information_are_far_better_than_random() {
    let points = replica_policies();
    for scene in ["homogeneous", "heterogeneous", "antagonists", "failing-fast", "partitioned"] {
        let of = |series| at(points, series, 0.9, &[scene]);
        let blind = of("random").response_ms_mean;
        for series in ["2", "3", "prequal_inline", "ideal"] {
            let mean = of(series).response_ms_mean;
            assert!(mean < 0.7 * blind, "{scene}, {series}: {mean} beside {blind} ms");
        }
        // If a front calls often, probes that were answered before the call are fresh, and are no worse than
        // two polls that the call waits for. Otherwise a policy whose probes are waited for is compared.
        let probes = if scene == "partitioned" { "prequal_inline" } else { "prequal" };
        let (prequal, two) = (of(probes).response_ms_p99, of("2").response_ms_p99);
        assert!(prequal < 1.25 * two, "{scene}: {prequal} and {two} ms at the 99th percentile");
    }
    let lost = |series| 1.0 - at(points, series, 0.9, &["failing-fast"]).coverage_mean;
    assert!(
        lost("prequal") < 0.5 * lost("random") && lost("2") < 0.5 * lost("random"),
        "a server that fails fast must be ejected"
    );
}

#[test]
fn costly_polls_slow_only_policies_that_poll() {
    let (free, costly) = (replica_policies(), run("replica-policies-costly", 1, 1));
    for scene in ["homogeneous", "partitioned"] {
        let mean = |points: &[Point], series| at(points, series, 0.9, &[scene]).response_ms_mean;
        for series in ["ideal", "random", "peak_ewma", "announced"] {
            assert_eq!(mean(&costly, series), mean(free, series), "{scene}, {series}: it does not poll");
        }
        for series in ["2", "3", "prequal"] {
            assert!(mean(&costly, series) > mean(free, series), "{scene}, {series}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_points() {
    assert_eq!(run("poll-discard", 1, 1), poll_discard());
    assert_ne!(run("poll-discard", 4, 1), poll_discard());
}
