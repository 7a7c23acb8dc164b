//! Faults of real processes: nodes that are killed, or stopped in the middle of their work.
//!
//! A stopped process keeps its sockets open and answers nothing. A simulation cannot show how the kernel
//! behaves then.

use crate::real::{NodeProcess, run_args, treefold, wait_for_members};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Stdio;
use tempfile::TempDir;

const NODES: u32 = 8;
const PARTITIONS: u32 = 16;

/// Returns a node's argument of `--serve`.
///
/// A partition lives on the node with its number and on the next ones round the ring.
fn serve(service: &str, node: u32, nodes: u32, replicas: u32) -> String {
    let hosts = |id: &u32| (0..replicas).any(|replica| (id + replica) % nodes == node);
    let ids: Vec<String> = (0..PARTITIONS).filter(hosts).map(|id| id.to_string()).collect();
    format!("{service}:partitions={}/{PARTITIONS}", ids.join(","))
}

/// Starts nodes that know each other and serve these services, each in sixteen partitions.
fn cluster(nodes: u32, replicas: u32, services: &[&str]) -> Vec<NodeProcess> {
    let mut all: Vec<NodeProcess> = Vec::new();
    for node in 0..nodes {
        let served: Vec<String> =
            services.iter().map(|service| serve(service, node, nodes, replicas)).collect();
        let mut args: Vec<&str> = served.iter().flat_map(|served| ["--serve", served]).collect();
        let first = all.first().map(|first| first.addr.clone());
        args.extend(first.iter().flat_map(|first| ["--join", first]));
        all.push(NodeProcess::start(&args));
    }
    all.iter().for_each(|node| wait_for_members(&node.addr, nodes as usize));
    all
}

/// Returns a node of the tree that has a parent and children.
fn inner_node(tree: &Value) -> &Value {
    let children = tree["children"].as_array().expect("a list");
    let has_children = |node: &&Value| node["children"].as_array().is_some_and(|below| !below.is_empty());
    children.iter().find(has_children).expect("a binary tree of eight nodes is three levels deep")
}

/// Calls all partitions through a node, down a tree in the order of the nodes' names.
fn call(at: &str, rest: &[&str]) -> crate::real::Ended {
    let common = ["call", "micro/sum", "--at", at, "--shape", "kary:2", "--deadline", "300ms", "-o", "json"];
    run_args(&[&common, rest].concat())
}

/// Stops an inner node of the tree that a call goes down, and calls again.
///
/// Also returns the node's name and partitions.
fn call_with_a_stopped_inner_node(nodes: &[NodeProcess]) -> (crate::real::Ended, String, BTreeSet<u64>) {
    let before = call(&nodes[0].addr, &["--explain"]);
    assert_eq!(before.code, 0, "{}", before.stdout);
    let answer = before.json();
    let inner = inner_node(&answer["tree"]);
    let addr = inner["node"].as_str().expect("a name").to_owned();
    let own = inner["partitions"].as_array().expect("a list").iter();
    let own = own.map(|id| id.as_u64().expect("a number")).collect();
    // The stopped node can't be the front.
    let front = nodes.iter().find(|node| node.addr != addr).expect("eight nodes");
    let stopped = nodes.iter().find(|node| node.addr == addr).expect("a node of this test");
    stopped.signal(libc::SIGSTOP);
    (call(&front.addr, &["--min-coverage", "0.5"]), addr, own)
}

#[test]
fn a_stopped_inner_node_costs_exactly_its_own_partitions() {
    let nodes = cluster(NODES, 1, &["micro"]);
    let (ended, addr, own) = call_with_a_stopped_inner_node(&nodes);
    assert_eq!(ended.code, 3, "{} {}", ended.stdout, ended.stderr);
    let answer = ended.json();
    let missing = answer["missing"].as_array().unwrap();
    let lost: BTreeSet<u64> = missing.iter().map(|lost| lost["partition"].as_u64().unwrap()).collect();
    assert_eq!(lost, own, "{answer}");
    assert!(missing.iter().all(|lost| lost["node"] == addr && lost["reason"] == "late"), "{answer}");
    let all: u64 = (0..u64::from(PARTITIONS)).sum();
    assert_eq!(answer["value"], json!(all - own.iter().sum::<u64>()));
}

#[test]
fn with_a_replica_a_stopped_inner_node_costs_nothing() {
    let nodes = cluster(NODES, 2, &["micro"]);
    let (ended, ..) = call_with_a_stopped_inner_node(&nodes);
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert_eq!(ended.json()["value"], json!((0..PARTITIONS).sum::<u32>()));
}

/// A small folder of texts in which documents have different or equal scores, as in real folders.
fn texts() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for number in 0..60 {
        let animal = ["otter", "heron", "beaver", "newt"][number % 4];
        let words = "river stone reed ".repeat(1 + number % 7);
        let text = format!("# Note {number}\n\nBy the {words}there lives one {animal}, then an otter.\n");
        std::fs::write(folder.path().join(format!("note-{number:02}.md")), text).expect("a writable file");
    }
    folder
}

#[test]
fn every_shape_gives_the_same_answer_as_one_node() {
    let (folder, data) = (texts(), TempDir::new().expect("a temporary folder"));
    let search = format!("search={}", folder.path().display());
    let data = format!(":data={}", data.path().display());
    let alone = NodeProcess::start(&[
        "--serve",
        &format!("{}{data}", serve(&search, 0, 1, 1)),
        "--serve",
        &serve("micro", 0, 1, 1),
    ]);
    let mut many: Vec<NodeProcess> = Vec::new();
    for node in 0..NODES {
        let (texts, sums) =
            (format!("{}{data}", serve(&search, node, NODES, 2)), serve("micro", node, NODES, 2));
        let mut args = vec!["--serve", &texts, "--serve", &sums];
        let first = many.first().map(|first| first.addr.clone());
        args.extend(first.iter().flat_map(|first| ["--join", first]));
        many.push(NodeProcess::start(&args));
    }
    many.iter().for_each(|node| wait_for_members(&node.addr, NODES as usize));
    for (kind, params) in [("micro/sum", "null"), ("search/topk", r#"{"query": "otter river", "k": 20}"#)] {
        let value_at = |addr: &str, rest: &[&str]| {
            let common = ["call", kind, "--at", addr, "--params", params, "--deadline", "20s", "-o", "json"];
            let ended = run_args(&[&common, rest].concat());
            assert_eq!(ended.code, 0, "{kind} {rest:?}: {} {}", ended.stdout, ended.stderr);
            ended.json()["value"].clone()
        };
        let expected = value_at(&alone.addr, &[]);
        for shape in ["adaptive", "earliest-ready", "binomial", "kary:2", "kary:3", "chain", "flat", "base"] {
            for way in [&["--shape", shape][..], &["--shape", shape, "--direct"]] {
                assert_eq!(value_at(&many[3].addr, way), expected, "{kind} {way:?}");
            }
        }
    }
}

#[test]
fn node_whose_log_nobody_reads_any_more_goes_on() {
    let mut command = treefold();
    command.env("TREEFOLD_LOG", "debug").stderr(Stdio::piped());
    let mut node = NodeProcess::of(command, &["--serve", "micro:partitions=0/1"]);
    node.close_log();
    let other = NodeProcess::start(&["--join", &node.addr]);
    wait_for_members(&node.addr, 2);
    for at in [&node, &other] {
        assert_eq!(run_args(&["call", "micro/sum", "--at", &at.addr]).code, 0);
    }
}
