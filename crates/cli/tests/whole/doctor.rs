//! `treefold doctor` on real nodes with real defects: each is named, with the thing to do about it.

use crate::real::{NodeProcess, micro_cluster, run, run_args, treefold};
use serde_json::Value;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

/// The findings of a check, as pairs of level and text.
fn findings(report: &Value, check: &str) -> Vec<(String, String)> {
    let of = |finding: &Value| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        (finding["check"] == check).then(|| (text("level"), format!("{}; {}", text("found"), text("do"))))
    };
    report["findings"].as_array().expect("a list").iter().filter_map(of).collect()
}

fn failed(report: &Value, check: &str) -> String {
    let found = findings(report, check);
    let failed = found.iter().find(|(level, _)| level == "fail");
    failed.unwrap_or_else(|| panic!("{check} has not failed: {report}")).1.clone()
}

#[test]
fn a_sound_cluster_has_no_failed_check() {
    let nodes = micro_cluster(3, 6);
    let ended = run(&format!("doctor --at {} -o json", nodes[0].addr));
    let report = ended.json();
    assert_eq!((ended.code, &report["fail"]), (0, &Value::from(0)), "{}", ended.stdout);
    assert!(findings(&report, "tcp")[0].1.starts_with("3 nodes can be reached"), "members are asked too");
    assert!(findings(&report, "udp")[0].1.starts_with("datagrams reach 3 nodes and come back"));
    assert!(findings(&report, "members")[0].1.starts_with("3 nodes asked, and each sees the same 3 members"));
    assert!(
        findings(&report, "clocks")[0]
            .1
            .starts_with("the clocks of 3 nodes and of this machine differ by no more than")
    );
    assert_eq!(findings(&report, "builds")[0].1, format!("{} (3 nodes); ", env!("CARGO_PKG_VERSION")));
    let text = run(&format!("doctor --at {} --nodes 1", nodes[0].addr));
    assert!(
        text.stdout.lines().any(|line| line.starts_with("warn  nodes: 1 of 3 nodes are asked; ")),
        "{}",
        text.stdout
    );
}

#[test]
fn another_cluster_and_another_token_are_named() {
    let node = NodeProcess::start(&["--cluster", "blue"]);
    let ended = run(&format!("doctor --at {} --cluster green -o json", node.addr));
    assert_eq!(ended.code, 1);
    let problem = failed(&ended.json(), "greeting");
    assert!(problem.contains("another cluster") && problem.contains("--cluster"), "{problem}");
    let node = NodeProcess::start(&["--token", "right"]);
    let mut command = treefold();
    command.args(["doctor", "--at", &node.addr, "-o", "json"]).env("TREEFOLD_TOKEN", "wrong");
    let report: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let problem = failed(&report, "greeting");
    assert!(problem.contains("give the token of the cluster in TREEFOLD_TOKEN"), "{problem}");
    let report = run(&format!("doctor --at {} -o json", node.addr)).json();
    let problem = failed(&report, "greeting");
    assert!(problem.contains("give this host what the nodes have"), "{problem}");
}

/// A port for TCP that leads to a node, as a container has it whose UDP port is not published.
fn tcp_only(node: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, node) = (listener.local_addr().unwrap().to_string(), node.to_owned());
    std::thread::spawn(move || {
        for taken in listener.incoming() {
            let (Ok(from), Ok(to)) = (taken, TcpStream::connect(&node)) else { continue };
            for (mut from, mut to) in [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)] {
                std::thread::spawn(move || {
                    // A side that has closed ends the copy.
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    addr
}

#[test]
fn a_node_without_udp_is_named() {
    let node = NodeProcess::start(&[]);
    let addr = tcp_only(&node.addr);
    let ended = run(&format!("doctor --at {addr} -o json"));
    let report = ended.json();
    let problem = failed(&report, "udp");
    assert!(problem.contains(&addr) && problem.contains("no program has its UDP port"), "{problem}");
    assert_eq!(findings(&report, "greeting")[0].0, "ok", "TCP works: {report}");
    assert_eq!(ended.code, 1);
}

#[test]
fn a_dead_address_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = run(&format!("doctor --at {free}"));
    let line = ended.stdout.lines().find(|line| line.starts_with("fail  tcp: ")).unwrap();
    assert!(
        line.contains(&free.to_string()) && line.contains("start the node, or correct the address"),
        "{line}"
    );
    assert!(ended.stderr.contains("checks failed"), "{}", ended.stderr);
}

#[test]
fn a_low_limit_of_open_files_is_named() {
    let script = format!("ulimit -n 200; exec {} doctor -o json", env!("CARGO_BIN_EXE_treefold"));
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problem = failed(&report, "files");
    assert!(problem.contains("can open 200 files") && problem.contains("LimitNOFILE"), "{problem}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_file_is_checked_against_this_host() {
    let node = NodeProcess::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    let write = |text: String| std::fs::write(&path, text).unwrap();
    let doctor = || run_args(&["doctor", "--config", path.to_str().unwrap(), "-o", "json"]);
    write(format!("listen = '{}'\nserve = ['search=/no/such/folder:partitions=0/1']\n", node.addr));
    let report = doctor().json();
    let taken: Vec<_> =
        findings(&report, "listen").into_iter().filter(|(level, _)| level == "fail").collect();
    assert_eq!(taken.len(), 2, "TCP and UDP: {report}");
    assert!(failed(&report, "folder").contains("/no/such/folder can't be read"), "{report}");
    write(format!("listen = '{0}'\njoin = ['{0}']\n", node.addr));
    let report = doctor().json();
    assert_eq!(findings(&report, "listen")[0].0, "ok", "the node itself has the port: {report}");
    write("listem = '127.0.0.1:7700'\n".to_owned());
    assert!(failed(&doctor().json(), "config").contains("unknown key `listem`"));
}
