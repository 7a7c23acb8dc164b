//! Trees under load on emulated processors: the command checks every sum itself, and fails if one is wrong.

use crate::real::run;

#[test]
fn shapes_are_compared_over_real_processes() {
    let ended =
        run("micro --nodes 4 --shape adaptive,flat --rate 20 --seconds 1 --warm-up 0.5 --local-ms 4 \
                     --reduce-ms 1 -o json");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let points = ended.json();
    let series: Vec<&str> =
        points.as_array().unwrap().iter().map(|p| p["series"].as_str().unwrap()).collect();
    assert_eq!(series, ["adaptive", "flat"]);
    for point in points.as_array().unwrap() {
        // At a tenth of the nodes' capacity and with two seconds for each call, all calls are answered in
        // full.
        assert!(point["calls"].as_u64() > Some(0), "{point}");
        assert_eq!((&point["answered"], &point["coverage_mean"]), (&point["calls"], &1.0.into()), "{point}");
        assert_eq!(
            (&point["nodes"], &point["processors"], &point["x"]),
            (&4.into(), &8.into(), &20.0.into())
        );
    }
    assert_eq!(points[0]["calls"], points[1]["calls"], "shapes are compared on the same arrivals");
}

#[test]
fn heterogeneous_cluster_runs_with_larger_and_slow_nodes() {
    let ended = run("micro --nodes 5 --heterogeneous --rate 10 --seconds 1 --warm-up 0.2 --local-ms 4 \
                     --reduce-ms 1 --fronts 2 --no-repair --slow 1:2x@0.2s-0.5s --every 0.5 --csv");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "a header and two windows: {lines:?}");
    let at = lines[0].split(',').position(|name| name == "processors").unwrap();
    assert_eq!(lines[1].split(',').nth(at), Some("18"), "one node of two and four of four");
}

#[test]
fn calls_go_on_while_a_node_is_stopped() {
    let ended = run(
        "micro --nodes 4 --rate 20 --seconds 1 --warm-up 0.2 --local-ms 4 --reduce-ms 1 --min-coverage 0 \
                     --stop 2@0.3s-30s -o json",
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let point = &ended.json()[0];
    assert_eq!(point["answered"], point["calls"], "any coverage is an answer");
    assert!(point["coverage_mean"].as_f64() < Some(1.0), "the stopped node's partition is missing: {point}");
}

#[test]
fn nodes_whose_workers_block_answer_while_there_are_enough_workers() {
    let ended = run(
        "micro --nodes 5 --shape binomial --blocking 8 --rate 10 --seconds 1 --warm-up 0.2 --local-ms 4 \
                     --reduce-ms 1 -o json",
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let points = ended.json();
    assert_eq!((&points[0]["series"], &points[1]["series"]), (&"binomial".into(), &"blocking:8".into()));
    // Both have the same arrivals. Few calls are open at once, so no node runs out of workers.
    assert_eq!(points[0]["calls"], points[1]["calls"]);
    assert_eq!((&points[1]["answered"], &points[1]["coverage_mean"]), (&points[1]["calls"], &1.0.into()));
}

#[test]
fn blocking_nodes_answer_without_a_node_that_is_too_slow() {
    let ended = run(
        "micro --nodes 5 --shape binomial --blocking 8 --blocking-trees random,pruned --rate 10 --seconds 1 \
                     --warm-up 0.2 --deadline 500ms --local-ms 4 --reduce-ms 1 --distribution fixed --min-coverage 0 \
                     --slow 2:200x -o json",
    );
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let points = ended.json();
    let coverage = |at: usize| points[at]["coverage_mean"].as_f64().unwrap();
    assert_eq!(
        (&points[1]["series"], &points[2]["series"]),
        (&"blocking:8".into(), &"blocking:8,pruned".into())
    );
    assert!(coverage(1) < coverage(2), "a slow inner node's whole subtree is missing: {points}");
    assert!(coverage(2) <= 0.8, "the slow node never answers in time: {points}");
}

#[test]
fn invalid_combinations_are_refused_before_the_start() {
    let refused = run("micro --nodes 4 --heterogeneous");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("can't be heterogeneous"), "{}", refused.stderr);
    let refused = run("micro --blocking 4 --waiting uniform");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("cannot be used with '--waiting"), "{}", refused.stderr);
    assert_eq!(run("micro --blocking-trees pruned").code, 2, "there are no blocking nodes");
}
