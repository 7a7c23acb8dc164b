//! Tests with real processes: trees start, sums are right (the launcher checks every one), and no process
//! outlives its tree.

#![allow(clippy::unwrap_used, reason = "a test cannot continue without it")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

fn floor(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treefold-floor"));
    command.args(arguments.split_whitespace());
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn every_shape_gives_its_figures() {
    for kind in ["blocking", "told", "events", "events-root"] {
        let trees = "--nodes 2,9,20 --fanout 1,2,flat --rounds 50 --waves 100 --depth 8";
        let output = floor(&format!("{trees} --kind {kind} -o json")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = stdout(&output).lines().collect();
        assert_eq!(lines.len(), 9, "three sizes, three shapes");
        let first = format!(r#"{{"nodes":2,"shape":"kary:1","kind":"{kind}","#);
        assert!(lines[0].starts_with(&first), "{}", lines[0]);
        let last = format!(r#"{{"nodes":20,"shape":"flat","kind":"{kind}","#);
        assert!(lines[8].starts_with(&last), "{}", lines[8]);
        for figure in [
            "startup_ms",
            "roundtrip_us_p50",
            "roundtrip_us_p99",
            "roundtrip_cpu_us",
            "client_roundtrip_cpu_us",
            "waves_per_s",
            "cpu_us_per_wave",
            "client_cpu_us_per_wave",
        ] {
            assert!(lines.iter().all(|line| line.contains(figure)), "{figure} is missing");
        }
    }
}

#[test]
fn text_has_a_line_for_every_kind_and_says_how_cpu_is_divided() {
    let output =
        floor("--nodes 3 --fanout 2 --kind events,blocking --rounds 10 --waves 10").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert!(lines[0].starts_with("-- tree ---"), "{}", lines[0]);
    for (line, kind) in lines[2..].iter().zip(["events", "blocking"]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((cells[..3].join(" "), cells.len()), (format!("3 kary:2 {kind}"), 12));
    }
    assert!(lines[4].contains("all processes but the launcher"), "{}", lines[4]);
}

#[test]
fn an_event_driven_tree_keeps_the_most_waves_in_flight() {
    let output = floor("--nodes 9,40 --fanout 2,flat --kind events --rounds 10 --waves 3000 --depth 1024")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts one node whose parent is this test: node 2 of the binary tree of three nodes, which is a leaf.
fn leaf() -> (Child, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let seat = format!("--seat 2/3/2/events/{port}/0/{}", std::process::id());
    let process = floor(&seat).stderr(Stdio::piped()).spawn().unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_nodelay(true).unwrap();
    let mut below = [0; 8];
    socket.read_exact(&mut below).unwrap();
    assert_eq!(u64::from_le_bytes(below), 1, "a leaf reports itself only");
    (process, socket)
}

/// Bytes 0 to 7 are the number of the wave, 8 to 11 the fan-out and 12 to 15 the nodes of its tree.
fn header(wave: u8, nodes: u8) -> [u8; 16] {
    [wave, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, nodes, 0, 0, 0]
}

/// An order of the kind 1, to add `value` and the number of the node.
fn order(wave: u8, nodes: u8, value: u8) -> Vec<u8> {
    let mut frame = [&header(wave, nodes)[..], &[0; 32]].concat();
    (frame[16], frame[24]) = (1, value);
    frame
}

#[test]
fn a_node_answers_orders_that_arrive_in_pieces() {
    let (mut process, mut socket) = leaf();
    let orders = [order(0, 3, 10), order(1, 3, 20), order(2, 3, 30)].concat();
    for piece in orders.chunks(31) {
        socket.write_all(piece).unwrap();
    }
    let mut sums = [0; 3 * 24];
    socket.read_exact(&mut sums).unwrap();
    let expected: Vec<u8> = [(0, 12), (1, 22), (2, 32)]
        .into_iter()
        .flat_map(|(wave, sum)| [&header(wave, 3)[..], &[sum, 0, 0, 0, 0, 0, 0, 0]].concat())
        .collect();
    assert_eq!(sums[..], expected[..]);
    drop(socket);
    assert!(process.wait().unwrap().success(), "the end of the stream is no failure");
}

#[test]
fn a_node_refuses_an_order_of_another_tree() {
    let (process, mut socket) = leaf();
    socket.write_all(&order(0, 4, 10)).unwrap();
    let mut sum = Vec::new();
    socket.read_to_end(&mut sum).unwrap();
    assert!(sum.is_empty());
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(
        reported.contains("expected a frame of tree 0x300000002, found one of 0x400000002"),
        "{reported}"
    );
}

#[test]
fn an_invalid_command_line_is_a_usage_error() {
    let output = floor("--nodes 0").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--nodes: 0 is not within"));
}

/// These tests need the kernel's list of a process's children, so they run on Linux only.
#[cfg(target_os = "linux")]
mod lost_processes {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn children(process: u32) -> Vec<u32> {
        let listed = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        listed.unwrap_or_default().split_whitespace().map(|child| child.parse().unwrap()).collect()
    }

    /// Polls until `look` finds something. Gives up after a number of polls, so that a defect fails instead
    /// of hanging.
    fn look_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..30_000 {
            if let Some(seen) = look() {
                return seen;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("expected to see {what}, but gave up");
    }

    /// Waits for both processes below the launcher.
    fn wait_for_chain(launcher: u32) -> [u32; 2] {
        look_for("the chain", || {
            let [inner] = children(launcher)[..] else { return None };
            let [leaf] = children(inner)[..] else { return None };
            Some([inner, leaf])
        })
    }

    fn wait_for_end(process: u32) {
        look_for("a process's end", || match std::fs::read_to_string(format!("/proc/{process}/stat")) {
            // A zombie has ended; its new parent has not reaped it yet.
            Ok(status) if !status.contains(") Z ") => None,
            _ => Some(()),
        });
    }

    fn kill(process: u32) {
        let status = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Starts a launcher and a chain of two other processes.
    fn endless_chain(kind: &str) -> Child {
        let nodes = if kind == "events" { 2 } else { 3 };
        floor(&format!("--nodes {nodes} --fanout 1 --kind {kind} --rounds 1000000"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    const KINDS: [&str; 4] = ["blocking", "told", "events", "events-root"];

    #[test]
    fn a_killed_launcher_leaves_no_process() {
        for kind in KINDS {
            let mut launcher = endless_chain(kind);
            let below = wait_for_chain(launcher.id());
            launcher.kill().unwrap();
            launcher.wait().unwrap();
            below.into_iter().for_each(wait_for_end);
        }
    }

    #[test]
    fn a_killed_node_ends_the_tree_with_a_failure() {
        for kind in KINDS {
            let launcher = endless_chain(kind);
            let below = wait_for_chain(launcher.id());
            kill(below[1]);
            let output = launcher.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(1));
            let reported = String::from_utf8_lossy(&output.stderr);
            assert_eq!(reported.lines().count(), 1, "only the launcher must report it: {reported}");
            below.into_iter().for_each(wait_for_end);
        }
    }
}
