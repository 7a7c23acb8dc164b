//! Slow nodes, as real processes: calls choose by time, so a slow replica gets hardly any partitions.

use crate::real::{NodeProcess, run, run_args, wait_for_folding, wait_for_members, while_hardly_running};
use crate::up::{hosts, mark, open, options, processes_with, signal, sum_of_ones};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use treefold::Stream;
use treefold_network::Network;

/// Starts a node with two of the four partitions of a tool whose locals leave a line in `log`, and take `seconds`.
fn serving(partitions: &str, seconds: &str, log: &Path, seed: Option<&NodeProcess>) -> NodeProcess {
    let script = format!("echo run >> {}; sleep {seconds}; echo 1", log.display());
    let serve = format!("exec=tool:command=sh -c '{script}':reduce=sum-lines:partitions={partitions}/4");
    let mut args = vec!["--serve", &serve, "--processors", "2"];
    args.extend(seed.iter().flat_map(|seed| ["--join", &seed.addr]));
    NodeProcess::start(&args)
}

fn runs(log: &Path) -> usize {
    std::fs::read_to_string(log).map_or(0, |text| text.lines().count())
}

#[test]
fn idle_slow_replica_is_avoided_by_every_policy_that_learns() {
    const CALLS: usize = 20;
    for policy in ["polled:3", "prequal", "prequal_inline", "announced"] {
        let directory = tempfile::tempdir().expect("a directory");
        let log = |name: &str| directory.path().join(name);
        let first = serving("0-1", "0", &log("a"), None);
        let others = [
            serving("0-1", "0", &log("b"), Some(&first)),
            serving("2-3", "0", &log("c"), Some(&first)),
            serving("2-3", "0.3", &log("d"), Some(&first)),
        ];
        wait_for_members(&first.addr, 1 + others.len());
        for _ in 0..CALLS {
            let args = [
                "call",
                "tool/run",
                "--at",
                &first.addr,
                "--params",
                "null",
                "--policy",
                policy,
                "--deadline",
                "20s",
            ];
            let ended = run_args(&args);
            assert_eq!(ended.stdout.lines().next(), Some("4"), "{policy}: {} {}", ended.stdout, ended.stderr);
        }
        let (c, d) = (runs(&log("c")), runs(&log("d")));
        let hedges: usize =
            std::iter::once(&first).chain(&others).map(|node| count_of(node, "hedges") as usize).sum();
        let most = 2 * CALLS + 2 * hedges;
        assert!((2 * CALLS..=most).contains(&(c + d)), "{policy}: {c} and {d} with {hedges} hedges");
        assert!(d <= 6, "{policy}: the slow replica ran {d} of {} locals", 2 * CALLS);
    }
}

/// Calls six partitions that take 50 ms each, over one of the relays.
fn call_over_relays(front: &NodeProcess) -> Value {
    let params = r#"{"local_ms":50}"#;
    let line = ["call", "micro/hold", "--at", &front.addr, "--params", params, "--deadline", "4s"];
    let ended = run_args(&[&line[..], &["--shape", "on-path", "-o", "json"]].concat());
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    ended.json()
}

fn count_of(node: &NodeProcess, counter: &str) -> u64 {
    let status = run(&format!("status --at {} -o json", node.addr)).json();
    status["counters"][counter].as_u64().expect("a count")
}

fn repairs(front: &NodeProcess) -> u64 {
    count_of(front, "repairs")
}

#[test]
fn relay_that_hardly_runs_is_taken_over_and_then_passed_over() {
    const NODES: u32 = 6;
    let mut nodes: Vec<NodeProcess> = Vec::new();
    for id in 0..NODES {
        let serve = format!("micro:partitions={id}/{NODES}");
        let mut args = vec!["--serve", &serve];
        args.extend(nodes.first().into_iter().flat_map(|first| ["--join", &first.addr]));
        nodes.push(NodeProcess::start(&args));
    }
    let relays = [0, 1].map(|_| NodeProcess::start(&["--relay", "--join", &nodes[0].addr]));
    nodes.iter().for_each(|node| wait_for_members(&node.addr, nodes.len() + relays.len()));
    nodes.iter().for_each(|node| relays.iter().for_each(|relay| wait_for_folding(node, relay, "micro")));
    let front = &nodes[0];
    for _ in 0..40 {
        assert_eq!(call_over_relays(front)["status"], json!("full"));
    }
    assert_eq!(repairs(front), 0, "nobody was late");
    let took: Vec<u64> = while_hardly_running(
        // Longer than a front waits for a relay, also one that is late to look itself.
        Duration::from_millis(480),
        |kind| relays[0].signal(kind),
        || {
            let took = |_| call_over_relays(front)["elapsed_us"].as_u64().expect("a time");
            (0..40).map(took).collect()
        },
    );
    let status = run(&format!("status --at {} -o json", front.addr)).json();
    let slow: Vec<&Value> = status["slow"].as_array().expect("a list").iter().collect();
    assert_eq!(slow.len(), 1, "{status}");
    assert_eq!((&slow[0]["addr"], &slow[0]["aggregation"]), (&json!(relays[0].addr), &json!("")), "{status}");
    let shown = run(&format!("status --at {}", front.addr)).stdout;
    assert!(shown.contains(&format!("{} as a relay takes", relays[0].addr)), "{shown}");
    let repaired = repairs(front);
    assert!((1..=10).contains(&repaired), "{repaired} repairs, times in µs {took:?}");
}

#[test]
fn inner_process_that_hardly_runs_leaves_the_streams_and_no_wave_misses_anybody() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let text = hosts("edge", "HOST:0 => HOST:1 HOST:2; HOST:1 => HOST:[3-4]; HOST:2 => HOST:[5-6];");
    let topology = text.parse().expect("a topology");
    let up = async {
        let network = Network::up(topology, options()).await.expect("it comes up");
        let stream = open(&network).await;
        (network, stream)
    };
    let (network, mut stream) = runtime.block_on(up);
    let seats =
        |stream: &Stream| -> Vec<usize> { stream.trees().iter().map(|tree| tree.seats().len()).collect() };
    assert_eq!(seats(&stream), [3, 3]);
    let inner = processes_with(&format!("{}:1\0", mark("edge")));
    let (shape, took) = while_hardly_running(
        Duration::from_millis(180),
        |kind| signal(inner[0], kind),
        || {
            runtime.block_on(async {
                let give_up_at = Instant::now() + Duration::from_secs(60);
                let mut took = Vec::new();
                while seats(&stream) == [3, 3] && Instant::now() < give_up_at {
                    let began = Instant::now();
                    assert_eq!(sum_of_ones(&mut stream).await, (4, 4), "it is slow, not away");
                    took.push(began.elapsed());
                }
                (seats(&stream), took)
            })
        },
    );
    assert_eq!(shape.iter().sum::<usize>(), 5, "{shape:?} after waves that took {took:?}");
    runtime.block_on(async {
        assert_eq!(sum_of_ones(&mut stream).await, (4, 4));
        drop(stream);
        network.down(Duration::from_secs(30)).await;
    });
}
