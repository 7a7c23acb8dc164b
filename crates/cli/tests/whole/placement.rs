//! Partitions that real processes share among themselves: shown, handed over, moved by hand.

use crate::real::{NodeProcess, run_args};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn node(name: &str, join: Option<&str>) -> NodeProcess {
    let serve =
        ["--serve", "micro:partitions=auto/12:replicas=1", "--serve", "echo:partitions=0/1", "--name", name];
    let join = join.map_or(Vec::new(), |addr| vec!["--join", addr]);
    NodeProcess::start(&[&serve[..], &join].concat())
}

fn shown(at: &str) -> Value {
    run_args(&["placement", "show", "micro", "--at", at, "-o", "json"]).json()[0].clone()
}

fn held(shown: &Value, name: &str) -> u64 {
    let nodes = shown["nodes"].as_array().expect("nodes");
    let node = nodes.iter().find(|node| node["name"] == name).expect("the node is in sight");
    node["held"].as_u64().expect("a number")
}

/// Waits until all partitions are held, each by one node, and each node holds some.
fn wait_for_shares(at: &str, nodes: usize) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let placed = shown(at);
        let all = placed["nodes"].as_array().expect("nodes").clone();
        let held: Vec<u64> = all.iter().map(|node| node["held"].as_u64().expect("a number")).collect();
        if placed["missing"] == ""
            && held.len() == nodes
            && held.iter().sum::<u64>() == 12
            && !held.contains(&0)
        {
            return placed;
        }
        assert!(Instant::now() < until, "{placed}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn nodes_share_partitions_hand_them_over_and_get_them_back() {
    let first = node("a", None);
    let second = node("b", Some(&first.addr));
    let placed = wait_for_shares(&first.addr, 2);
    assert_eq!((&placed["partitions"], &placed["replicas"]), (&json!(12), &json!(1)));
    let call = ["call", "micro/sum", "--at", &first.addr, "--params", "null", "-o", "json"];
    assert_eq!(run_args(&call).code, 0);

    let drained = run_args(&["drain", &second.addr, "-o", "json"]);
    assert_eq!(drained.code, 0, "{}", drained.stderr);
    assert_eq!(drained.stderr, "", "the other node has the partition of echo too");
    let answer = drained.json();
    assert_eq!((&answer["draining"], &answer["held"]), (&json!(true), &json!([])));
    let placed = shown(&first.addr);
    assert_eq!((held(&placed, "a"), held(&placed, "b"), &placed["missing"]), (12, 0, &json!("")));
    assert_eq!(run_args(&call).code, 0);

    let text = run_args(&["placement", "show", "--at", &first.addr]);
    assert!(
        text.stdout.contains("draining") && text.stdout.contains("echo: 1 partitions, placed by hand"),
        "{}",
        text.stdout
    );
    let sections: Vec<&str> = text.stdout.trim_end().split("\n\n").collect();
    assert_eq!(sections.len(), 2, "{}", text.stdout);
    for (section, begins) in sections.iter().zip(["echo: 1 partitions", "micro: 12 partitions"]) {
        let lines: Vec<&str> = section.lines().collect();
        assert!(lines[0].starts_with(begins) && lines[1].starts_with("node "), "{}", text.stdout);
        assert_eq!(lines.len(), 4, "a heading and a line for each node: {}", text.stdout);
    }
    let last = run_args(&["drain", &first.addr, "--timeout", "30s"]);
    assert_eq!(last.code, 1);
    assert!(last.stderr.contains("no other node can take them: micro 0-11"), "{}", last.stderr);
    assert_eq!(run_args(&["drain", &first.addr, "--undo"]).code, 0);
    assert_eq!(run_args(&["drain", &second.addr, "--undo"]).code, 0);
    wait_for_shares(&first.addr, 2);
}

#[test]
fn services_without_partitions_are_not_listed() {
    let front = NodeProcess::start(&[]);
    let show = ["placement", "show", "--at", &front.addr];
    assert_eq!(run_args(&show).stdout, "no node holds partitions\n");
    assert_eq!(run_args(&[&show[..], &["-o", "json"]].concat()).json(), json!([]));
}

#[test]
fn partitions_are_moved_by_hand_and_wrong_requests_are_refused() {
    let first = node("a", None);
    let second = node("b", Some(&first.addr));
    let placed = wait_for_shares(&first.addr, 2);
    let of_first =
        placed["nodes"].as_array().expect("nodes").iter().find(|node| node["name"] == "a").expect("a");
    let some =
        of_first["partitions"].as_str().expect("text").split([',', '-']).next().expect("one").to_owned();
    let steer = |args: &[&str]| run_args(&[&["placement"][..], args].concat());
    let moved = steer(&["move", "micro", &some, "--from", &first.addr, "--to", &second.addr]);
    assert_eq!(moved.code, 0, "{}", moved.stderr);
    let placed = shown(&second.addr);
    let notes = placed.to_string();
    assert!(
        notes.contains(&format!("\"pinned\":\"{some}\""))
            && notes.contains(&format!("\"refused\":\"{some}\"")),
        "{notes}"
    );
    let both = format!("{},{}", first.addr, second.addr);
    assert_eq!(steer(&["release", "micro", &some, "--at", &both]).code, 0);

    for (args, code, word) in [
        (vec!["move", "micro", "99", "--from", &first.addr, "--to", &second.addr], 1, "12 partitions"),
        (vec!["move", "echo", "0", "--from", &first.addr, "--to", &second.addr], 1, "it does so for: micro"),
        (vec!["move", "micro", "1", "--from", &first.addr, "--to", &first.addr], 2, "give two nodes"),
        (vec!["show", "nothing", "--at", &first.addr], 2, "there are: echo, micro"),
        (vec!["move", "micro", "x", "--from", &first.addr, "--to", &second.addr], 2, "partitions"),
    ] {
        let refused = steer(&args);
        assert_eq!(refused.code, code, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(word), "{args:?}: {}", refused.stderr);
    }
}
