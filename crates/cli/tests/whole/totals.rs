//! Nodes without a declared total of partitions, and nodes with contradicting totals.

use crate::real::{NodeProcess, run_args, wait_for_members};
use serde_json::json;

#[test]
fn killed_node_without_declared_total_is_reported_missing() {
    let first = NodeProcess::start(&["--serve", "micro:partitions=0-3"]);
    let second = NodeProcess::start(&["--serve", "micro:partitions=4-7", "--join", &first.addr]);
    wait_for_members(&first.addr, 2);
    let call = |rest: &[&str]| run_args(&[&["call", "micro/sum", "--at", &first.addr], rest].concat());
    let full = call(&[]);
    let verdict = "full: coverage 1.000 (8 of 8 partitions, and that total is a guess)";
    assert!(full.code == 0 && full.stdout.contains(verdict), "{}", full.stdout);
    drop(second);
    wait_for_members(&first.addr, 1);
    let lacking = call(&["--min-coverage", "0.5", "-o", "json"]);
    assert_eq!(lacking.code, 3, "{}", lacking.stdout);
    let answer = lacking.json();
    assert_eq!(answer["coverage"], json!({"asked": 8, "contributed": 4}));
    assert_eq!((&answer["value"], &answer["total_is_guess"]), (&json!(6), &json!(true)));
    let status = run_args(&["status", "--at", &first.addr]);
    assert!(status.stdout.contains("micro: the total is a guess: 8 partitions"), "{}", status.stdout);
}

#[test]
fn node_with_contradicting_total_does_not_start() {
    let first = NodeProcess::start(&["--serve", "micro:partitions=0-3/8"]);
    let start =
        |serve: &str| run_args(&["node", "--listen", "127.0.0.1:0", "--join", &first.addr, "--serve", serve]);
    let differing = start("micro:partitions=4-7/16");
    assert_eq!(differing.code, 1, "{}", differing.stdout);
    let said = &differing.stderr;
    assert!(
        said.contains("micro") && said.contains("16 (declared)") && said.contains("8 (declared)"),
        "{said}"
    );
    let beyond = start("micro:partitions=4-8");
    assert_eq!(beyond.code, 1, "{}", beyond.stdout);
    assert!(
        beyond.stderr.contains("--serve micro gives no total: assuming 9 partitions"),
        "{}",
        beyond.stderr
    );
    assert!(beyond.stderr.contains("9 (a guess)"), "{}", beyond.stderr);
}

#[test]
fn status_lists_members_with_refused_totals() {
    let first = NodeProcess::start(&["--serve", "micro:partitions=0-3/8"]);
    let second = NodeProcess::start(&["--serve", "micro:partitions=4-7/8", "--join", &first.addr]);
    let stranger = NodeProcess::start(&["--serve", "micro:partitions=0/1"]);
    let both = format!("{},{}", first.addr, stranger.addr);
    let third = NodeProcess::start(&["--serve", "micro:partitions=0-7/8", "--join", &first.addr]);
    // No seed can refuse a node without a total of its own, so it makes the stranger known.
    let bridge = NodeProcess::start(&["--join", &both]);
    wait_for_members(&first.addr, 5);
    let status = run_args(&["status", "--at", &first.addr, "-o", "json"]).json();
    let refused = json!([{"node": stranger.addr, "total": 1, "declared": true}]);
    assert_eq!(status["totals"]["micro"], json!({"total": 8, "declared": true, "refused": refused}));
    let text = run_args(&["status", "--at", &first.addr]).stdout;
    let line = format!(
        "micro: {} is refused: its total is 1 (declared), but the cluster's is 8 (declared)",
        stranger.addr
    );
    assert!(text.contains(&line), "{text}");
    // Until the stranger knows the others, it is a cluster of its own with one partition.
    wait_for_members(&stranger.addr, 5);
    let answer = run_args(&["call", "micro/sum", "--at", &stranger.addr, "-o", "json"]).json();
    assert_eq!((&answer["value"], &answer["total_is_guess"]), (&json!(28), &json!(false)));
    drop((second, third, bridge));
}
