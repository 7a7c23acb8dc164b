//! Relays as real processes: calls run over them, and over the remaining nodes if one is killed or stopped.

use crate::real::{Ended, NodeProcess, micro_cluster, run_args, wait_for_folding, wait_for_members};
use serde_json::{Value, json};

const PARTITIONS: u32 = 8;

/// Starts four nodes in two racks that serve `micro`, and a relay for each rack.
fn cluster() -> (Vec<NodeProcess>, Vec<NodeProcess>) {
    let nodes = micro_cluster(4, PARTITIONS);
    let relay = |rack| NodeProcess::start(&["--relay", "--rack", rack, "--join", &nodes[0].addr]);
    let relays = vec![relay("r0"), relay("r1")];
    nodes.iter().for_each(|node| wait_for_members(&node.addr, nodes.len() + relays.len()));
    for node in &nodes {
        relays.iter().for_each(|relay| wait_for_folding(node, relay, "micro"));
    }
    (nodes, relays)
}

fn call(at: &NodeProcess, more: &[&str]) -> Ended {
    let args = ["call", "micro/sum", "--at", &at.addr, "--params", "null", "--explain", "-o", "json"];
    run_args(&[&args[..], more].concat())
}

/// Returns the nodes that had children.
pub(crate) fn inner(answer: &Value) -> Vec<String> {
    let (mut open, mut inner) = (vec![&answer["tree"]], Vec::new());
    while let Some(node) = open.pop() {
        let children = node["children"].as_array().expect("children");
        if !children.is_empty() {
            inner.push(node["node"].as_str().expect("a name").to_owned());
        }
        open.extend(children);
    }
    inner.sort_unstable();
    inner
}

#[test]
fn calls_run_over_relays_where_there_are_any() {
    let (nodes, relays) = cluster();
    let mut expected: Vec<String> = relays.iter().map(|relay| relay.addr.clone()).collect();
    expected.sort_unstable();
    for node in &nodes {
        let ended = call(node, &[]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let answer = ended.json();
        assert_eq!((&answer["value"], &answer["status"]), (&json!(28), &json!("full")));
        assert_eq!(inner(&answer), expected, "{answer}");
    }
    let answer = call(&nodes[0], &["--shape", "adaptive"]).json();
    assert!(inner(&answer).iter().all(|node| !expected.contains(node)), "another shape was requested");
    let drawn = run_args(&["call", "micro/sum", "--at", &nodes[0].addr, "--explain"]);
    assert!(drawn.stdout.contains("relay"), "{}", drawn.stdout);
    let status = run_args(&["status", "--at", &nodes[0].addr, "-o", "json"]).stdout;
    assert_eq!(status.matches("\"relay\"").count(), 2, "{status}");
}

#[test]
fn killed_or_stopped_relays_lose_no_partition() {
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let (nodes, relays) = cluster();
        for (round, relay) in relays.iter().enumerate() {
            relay.signal(signal);
            for front in &nodes {
                let answer = call(front, &[]).json();
                assert_eq!(
                    answer["value"],
                    json!(28),
                    "signal {signal}, {} relays fewer: {answer}",
                    round + 1
                );
            }
        }
    }
}

#[test]
fn invalid_relay_and_share_arguments_are_refused() {
    let refused = run_args(&["node", "--relay", "--serve", "echo:partitions=0/1"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let refused = run_args(&["tree", "--nodes", "4", "--shape", "on-path"]);
    assert!(refused.code == 2 && refused.stderr.contains("places of nodes"), "{}", refused.stderr);
    let refused = run_args(&["node", "--share", "search"]);
    assert!(refused.code == 2 && refused.stderr.contains("as in search=3"), "{}", refused.stderr);
}
