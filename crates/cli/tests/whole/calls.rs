//! Nodes, calls and status over real processes: their output and their exit codes.

use crate::real::{NodeProcess, micro_cluster, run, run_args, run_with_input};
use serde_json::{Value, json};

/// Calls `micro` through the node at `at`; `rest` is split at spaces.
fn call(kind: &str, at: &str, params: &str, rest: &str) -> crate::real::Ended {
    let mut args = vec!["call", kind, "--at", at, "--params", params, "-o", "json"];
    args.extend(rest.split(' ').filter(|word| !word.is_empty()));
    run_args(&args)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn a_full_answer_has_every_field_and_code_0() {
    let nodes = micro_cluster(3, 6);
    for shape in ["adaptive", "earliest-ready", "binomial", "kary:2", "chain", "flat", "base"] {
        for way in ["", "--direct"] {
            let answer = call("micro/sum", &nodes[1].addr, "null", &format!("--shape {shape} {way}"));
            assert_eq!(answer.code, 0, "{shape} {way}: {} {}", answer.stdout, answer.stderr);
            let answer = answer.json();
            assert_eq!(answer["value"], json!(15), "{shape} {way}");
            assert_eq!(answer["coverage"], json!({"asked": 6, "contributed": 6}));
            assert_eq!((&answer["status"], &answer["missing"]), (&json!("full"), &json!([])));
            assert!(answer["elapsed_us"].is_u64() && answer.get("tree").is_none());
        }
    }
}

#[test]
fn explain_adds_the_tree_with_times_per_hop() {
    let nodes = micro_cluster(3, 6);
    let answer = call("micro/sum", &nodes[0].addr, "null", "--explain --shape kary:2").json();
    let root = &answer["tree"];
    let mut expected = [
        "node",
        "rack",
        "partitions",
        "children",
        "replaced",
        "queue_us",
        "local_us",
        "reduce_us",
        "wait_us",
        "total_us",
    ];
    let mut found = keys(root);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    let (mut seen, mut open) = (Vec::new(), vec![root]);
    while let Some(node) = open.pop() {
        seen.extend(node["partitions"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()));
        assert!(node["rack"] == "r0" || node["rack"] == "r1");
        open.extend(node["children"].as_array().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    let drawn = run_args(&["call", "micro/sum", "--at", &nodes[0].addr, "--explain"]);
    assert!(drawn.stdout.contains("full: coverage 1.000 (6 of 6 partitions)"), "{}", drawn.stdout);
    assert!(drawn.stdout.contains("reduce ms"), "{}", drawn.stdout);
}

#[test]
fn failures_are_listed_by_partition_with_reason() {
    let nodes = micro_cluster(2, 4);
    let fail = r#"{"local_ms": 0, "fail": [1], "panic": [2]}"#;
    // The first backtrace of a panic reads the program's debug information, which may take long.
    let partial = call("micro/spin", &nodes[0].addr, fail, "--min-coverage 0.5 --deadline 20s");
    assert_eq!(partial.code, 3, "{}", partial.stdout);
    let answer = partial.json();
    assert_eq!(answer["status"], "partial");
    assert_eq!(answer["coverage"], json!({"asked": 4, "contributed": 2}));
    let missing = answer["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 2);
    assert_eq!((&missing[0]["partition"], &missing[0]["reason"]), (&json!(1), &json!("local_failed")));
    assert_eq!((&missing[1]["partition"], &missing[1]["reason"]), (&json!(2), &json!("local_panicked")));
    assert!(missing.iter().all(|lost| lost["node"].is_string() && lost["detail"].is_string()), "{missing:?}");

    let below = call("micro/spin", &nodes[0].addr, fail, "--min-coverage 0.75");
    assert_eq!(below.code, 4, "{}", below.stdout);
    assert_eq!((&below.json()["status"], &below.json()["value"]), (&json!("insufficient"), &Value::Null));
}

#[test]
fn some_partitions_can_be_asked() {
    let nodes = micro_cluster(2, 8);
    let answer = call("micro/sum", &nodes[0].addr, "null", "--partitions 1-3,7").json();
    assert_eq!((&answer["value"], &answer["coverage"]["asked"]), (&json!(13), &json!(4)));
}

#[test]
fn parameters_come_from_a_file_or_from_standard_input() {
    let node = &micro_cluster(1, 2)[0];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"local_ms": 0}"#).unwrap();
    let at_file = format!("@{}", file.path().display());
    assert_eq!(call("micro/spin", &node.addr, &at_file, "").code, 0);
    let args = ["call", "micro/spin", "--at", &node.addr, "--params", "-", "-o", "json"];
    assert_eq!(run_with_input(&args, r#"{"local_ms": 0}"#).code, 0);
}

#[test]
fn mistakes_in_a_call_exit_with_code_2_and_a_service_that_nobody_has_with_5() {
    let node = &micro_cluster(1, 1)[0];
    let unknown = call("faces/topk", &node.addr, "null", "");
    assert_eq!(unknown.code, 5, "its nodes may be down: {}", unknown.stdout);
    assert_eq!(unknown.json()["error"]["kind"], "unknown_service");
    assert!(unknown.stderr.contains("\"faces\""), "{}", unknown.stderr);
    let too_long = call("micro/sum", &node.addr, "null", "--deadline 100h");
    assert_eq!(too_long.code, 2);
    assert_eq!(too_long.json()["error"]["field"], "deadline");
    let mistyped = call("micro/spim", &node.addr, "null", "");
    assert_eq!((mistyped.code, mistyped.stdout.contains("micro/spim")), (2, true), "{}", mistyped.stderr);
    let wrong = call("micro/spin", &node.addr, "7", "");
    assert_eq!((wrong.code, wrong.stdout.contains("does not accept")), (2, true), "{}", wrong.stderr);
}

#[test]
fn a_node_of_another_cluster_is_not_reached() {
    let node = &micro_cluster(1, 1)[0];
    let turned_away = run(&format!("call micro/sum --at {} --cluster elsewhere -o json", node.addr));
    assert_eq!(turned_away.code, 5, "{}", turned_away.stderr);
    assert_eq!(turned_away.json()["error"]["kind"], "unreachable");
}

#[test]
fn status_lists_members_services_and_counts() {
    let nodes = micro_cluster(3, 6);
    call("micro/sum", &nodes[0].addr, "null", "");
    let status = run_args(&["status", "--at", &nodes[0].addr, "-o", "json"]).json();
    assert_eq!(status["node"]["addr"], json!(nodes[0].addr));
    assert_eq!(status["node"]["rack"], "r0");
    assert_eq!(
        status["node"]["services"]["micro"],
        json!({"partitions": [0, 3], "total": 6, "declared": true})
    );
    assert_eq!(status["members"].as_array().unwrap().len(), 2);
    assert_eq!(status["counters"]["calls_full"], json!(1));
    assert!(status["open"]["calls"].is_u64());
    let shown = run_args(&["status", "--at", &nodes[0].addr]).stdout;
    assert!(shown.starts_with("3 members in sight") && shown.contains("micro 0,3/6"), "{shown}");
}

#[test]
fn signal_ends_a_node_cleanly() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut node = NodeProcess::start(&["--serve", "micro:partitions=0/1"]);
        node.signal(signal);
        assert_eq!(node.wait(), Some(0));
    }
}

#[test]
fn a_recording_replays_to_the_recorded_hash() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let mut node = NodeProcess::start(&["--serve", "micro:partitions=0-3/4", "--record", path]);
    assert_eq!(call("micro/sum", &node.addr, "null", "").code, 0);
    node.signal(libc::SIGTERM);
    assert_eq!(node.wait(), Some(0));
    let replayed = run_args(&["replay", path, "-o", "json"]);
    assert_eq!(replayed.code, 0, "{}", replayed.stdout);
    let summary = replayed.json();
    assert_eq!(summary["equal"], json!(true));
    assert_eq!(summary["effect_hash"], summary["recorded_hash"]);
    let steps = run_args(&["replay", path, "--from", "1", "--count", "2"]).stdout;
    assert_eq!(steps.lines().filter(|line| line.contains(" @ ")).count(), 2, "{steps}");
}
