//! Results that are read slice by slice, over real processes: the command prints the slices as they come, over relays, and while
//! nodes are killed or stand still.

use crate::real::{NodeProcess, relays, run_args, treefold, wait_for_folding, wait_for_members, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

const TOTAL: u32 = 4;
const SLICES: usize = 40;
/// Numbers in each slice of a partition.
const ROWS: usize = 25;

/// A service of numbers: each partition has the same ones. The command makes the slice that it is asked for.
fn serve(node: u32, replicas: u32) -> String {
    let ids: Vec<String> = (0..replicas).map(|replica| ((node + replica) % TOTAL).to_string()).collect();
    let script = format!("seq -f %06.0f $(($0 * {ROWS})) $(($0 * {ROWS} + {ROWS} - 1))");
    format!(
        "exec=numbers:partitions={}/{TOTAL}:reduce=merge-sorted:command=sh -c '{script}' {{slice}} {{slices}}",
        ids.join(",")
    )
}

fn cluster(replicas: u32, relays: &[NodeProcess]) -> Vec<NodeProcess> {
    let mut nodes: Vec<NodeProcess> = Vec::new();
    for at in 0..TOTAL {
        let served = serve(at, replicas);
        let mut args = vec!["--serve", &served, "--rack", "r0"];
        let first = relays.first().or(nodes.first()).map(|first| first.addr.clone());
        args.extend(first.iter().flat_map(|first| ["--join", first]));
        nodes.push(NodeProcess::start(&args));
    }
    nodes.iter().for_each(|node| wait_for_members(&node.addr, nodes.len() + relays.len()));
    nodes
}

/// The lines of a slice: each number from each of so many partitions.
fn lines(slice: usize, partitions: usize) -> String {
    (slice * ROWS..(slice + 1) * ROWS).flat_map(|row| vec![format!("{row:06}\n"); partitions]).collect()
}

/// A command that reads slices.
struct Reader {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Reader {
    fn start(at: &NodeProcess, more: &[&str]) -> Self {
        let slices = SLICES.to_string();
        let mut child = treefold()
            .args(["call", "numbers/run", "--at", &at.addr, "--slices", &slices, "--each", "-o", "json"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, lines }
    }

    /// The next line of JSON.
    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("there is a line").expect("it can be read");
        serde_json::from_str(&line).expect("it is JSON")
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn slices_are_printed_as_they_come_over_relays_and_directly() {
    let relays = relays(2, 1);
    let nodes = cluster(1, &relays);
    wait_for_folding(&nodes[0], &relays[0], "numbers");
    let (slices, all) = (SLICES.to_string(), (0..SLICES).map(|slice| lines(slice, 4)).collect::<String>());
    for more in [&[][..], &["--direct", "--window", "1"]] {
        let call = ["call", "numbers/run", "--at", &nodes[0].addr, "--slices", &slices, "--deadline", "60s"];
        let ended = run_args(&[&call, &["--each"][..], more].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (0, all.as_str()), "{}", ended.stderr);
        let says = format!("{slices} of {slices} slices, full: coverage 1.000 (4 of 4 partitions)");
        assert!(ended.stderr.contains(&says), "{}", ended.stderr);
    }
    let mut reader = Reader::start(&nodes[1], &["--deadline", "60s"]);
    for slice in 0..SLICES {
        assert_eq!(reader.next(), json!({"slice": slice, "value": lines(slice, 4)}));
    }
    let outcome = reader.next();
    assert_eq!(outcome["status"], "full");
    assert_eq!(outcome["slices"], json!({"asked": SLICES, "taken": SLICES}));
    assert_eq!(outcome["coverage"], json!({"asked": 4, "contributed": 4}));
    assert_eq!(reader.code(), Some(0));
    // A call of the whole asks for slice 0 of 1.
    let whole = run_args(&["call", "numbers/run", "--at", &nodes[0].addr, "--deadline", "60s"]);
    assert!(whole.stdout.starts_with(&lines(0, 4)), "{}", whole.stdout);
}

#[test]
fn reader_that_leaves_cancels_what_is_in_flight() {
    let nodes = cluster(1, &[]);
    let mut reader = Reader::start(&nodes[0], &["--deadline", "60s"]);
    assert_eq!(reader.next()["slice"], 0);
    // It writes into a pipe that nobody reads any longer.
    drop(reader.lines);
    assert_eq!(reader.child.wait().unwrap().code(), Some(0));
    for node in &nodes {
        wait_until("nothing is left", || {
            let status = run_args(&["status", "--at", &node.addr, "-o", "json"]).json();
            let open = &status["open"];
            [&open["calls"], &open["waves"], &open["held_bytes"], &open["jobs_running"]]
                .iter()
                .all(|size| **size == 0)
        });
    }
}

#[test]
fn killed_and_stopped_nodes_cost_no_slice_that_a_replica_can_make() {
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        let relays = relays(2, 1);
        let nodes = cluster(2, &relays);
        wait_for_folding(&nodes[0], &relays[0], "numbers");
        let mut reader = Reader::start(&nodes[0], &["--deadline", "60s"]);
        for slice in 0..SLICES {
            if slice == 10 {
                nodes[2].signal(signal);
                relays[1].signal(signal);
            }
            assert_eq!(reader.next(), json!({"slice": slice, "value": lines(slice, 4)}));
        }
        let outcome = reader.next();
        assert_eq!((&outcome["status"], reader.code()), (&json!("full"), Some(0)), "{outcome}");
    }
}

#[test]
fn without_replicas_the_slices_end_with_what_is_missing() {
    for (signal, more) in [
        (libc::SIGKILL, &["--deadline", "60s"][..]),
        (libc::SIGSTOP, &["--deadline", "20s"]),
        (libc::SIGKILL, &["--deadline", "60s", "--min-coverage", "0.5"]),
    ] {
        let nodes = cluster(1, &[]);
        let mut reader = Reader::start(&nodes[0], more);
        for slice in 0..10 {
            assert_eq!(reader.next(), json!({"slice": slice, "value": lines(slice, 4)}));
        }
        nodes[2].signal(signal);
        let mut slice = 10;
        let outcome = loop {
            let line = reader.next();
            if line["slice"].is_null() {
                break line;
            }
            // Slices that were made before the fault are whole.
            let value = line["value"].as_str().unwrap();
            assert!(value == lines(slice, 4) || value == lines(slice, 3), "{line}");
            slice += 1;
        };
        assert_eq!(outcome["slices"], json!({"asked": SLICES, "taken": slice}));
        let missing = outcome["missing"].as_array().unwrap();
        let is_named = |lost: &Value| lost["partition"] == 2 && lost["node"] == nodes[2].addr;
        assert!(missing.iter().any(is_named), "{outcome}");
        let (status, code) = if more.len() > 2 { ("partial", 3) } else { ("insufficient", 4) };
        assert_eq!((&outcome["status"], reader.code()), (&json!(status), Some(code)), "{outcome}");
        assert_eq!(slice == SLICES, code == 3);
        if code == 3 {
            assert_eq!(outcome["coverage"], json!({"asked": 4, "contributed": 3}));
        }
    }
}

#[test]
fn slices_that_cannot_be_read_one_by_one_are_refused() {
    let whole = "exec=whole:partitions=0/1:reduce=append:command=echo all";
    let node = NodeProcess::start(&["--serve", whole]);
    let refused = |more: &[&str]| {
        let ended = run_args(&[&["call", "whole/run", "--at", &node.addr], more].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{more:?}");
        ended.stderr
    };
    assert!(refused(&["--slices", "2", "--each"]).contains("does not make its partials in slices"));
    assert!(refused(&["--each"]).contains("--slices"));
    assert!(refused(&["--slices", "2", "--window", "3"]).contains("--each"));
    assert!(
        refused(&["--slices", "2", "--each", "--window", "0"]).contains("window is 0; allowed: 1 to 256")
    );
    assert!(refused(&["--slices", "2", "--each", "--explain"]).contains("--explain"));
    let one = run_args(&["call", "whole/run", "--at", &node.addr, "--slices", "1", "--each"]);
    assert_eq!((one.code, one.stdout.as_str()), (0, "all\n"), "{}", one.stderr);
}
