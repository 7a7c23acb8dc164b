//! Nodes that find each other by names and files which change, with a DNS server of the test.

use crate::name_server::{NameServer, Reply, Zone};
use crate::real::{NodeProcess, run_args, treefold, wait_for_members, wait_until};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

/// The name of the nodes.
const NAME: &str = "nodes.example";
/// The name of their SRV records.
const SERVICE: &str = "_treefold._tcp.nodes.example";
/// The port at which the nodes of one test listen, at addresses of their own.
const PORT: u16 = 7_700;

/// Starts a node at an address of this machine, as a pod with an address of its own.
fn pod(server: &NameServer, ip: Ipv4Addr, port: u16, join: &str) -> NodeProcess {
    let listen = format!("{ip}:{port}");
    NodeProcess::start_with(
        &[("TREEFOLD_DNS", server.addr().as_str())],
        &["--listen", &listen, "--join", join],
    )
}

/// An address of this test's own on this machine's loopback.
fn ip(test: u8, node: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 77, test, node)
}

fn ask(server: &NameServer, args: &[&str]) -> crate::real::Ended {
    crate::real::ended(treefold().env("TREEFOLD_DNS", server.addr()).args(args))
}

#[test]
fn nodes_join_by_a_name_that_appears_later_and_whose_answers_change() {
    let server = NameServer::start(Zone::default());
    let join = format!("dns:{NAME}:{PORT}");
    // No pod has an address in the name yet.
    let first = pod(&server, ip(1, 1), PORT, &join);
    let second = pod(&server, ip(1, 2), PORT, &join);
    wait_until("both have asked for the name", || server.asked() >= 4);
    server.change(|zone| zone.addrs = vec![ip(1, 1), ip(1, 2)]);
    wait_for_members(&first.addr, 2);
    wait_for_members(&second.addr, 2);

    // A pod dies and another takes its place, with a new address.
    drop(second);
    wait_for_members(&first.addr, 1);
    server.change(|zone| zone.addrs = vec![ip(1, 1), ip(1, 3)]);
    let third = pod(&server, ip(1, 3), PORT, &join);
    wait_for_members(&first.addr, 2);
    wait_for_members(&third.addr, 2);
    let at = format!("dns:{NAME}:{PORT}");
    let status = ask(&server, &["status", "--at", &at, "-o", "json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
}

#[test]
fn a_lonely_node_is_found_when_the_name_leads_to_it() {
    let server = NameServer::start(Zone { addrs: vec![ip(2, 1)], ..Zone::default() });
    let join = format!("dns:{NAME}:{PORT}");
    let first = pod(&server, ip(2, 1), PORT, &join);
    // This one knows nobody: only the others' lookups lead to it.
    let stray = pod(&server, ip(2, 2), PORT, "dns:nothing.example:7700");
    wait_until("the first one is alone", || server.asked() >= 4);
    server.change(|zone| zone.addrs = vec![ip(2, 1), ip(2, 2)]);
    wait_for_members(&first.addr, 2);
    wait_for_members(&stray.addr, 2);
}

#[test]
fn members_look_up_a_name_again_after_a_loss() {
    let server = NameServer::start(Zone { addrs: vec![ip(3, 1), ip(3, 2), ip(3, 3)], ..Zone::default() });
    let join = format!("dns:{NAME}:{PORT}");
    let nodes: Vec<NodeProcess> = (1..=3).map(|node| pod(&server, ip(3, node), PORT, &join)).collect();
    nodes.iter().for_each(|node| wait_for_members(&node.addr, 3));
    // A node that can't look up anything: the members must find it.
    let stray = pod(&server, ip(3, 9), PORT, "dns:nothing.example:7700");
    server.change(|zone| zone.addrs = vec![ip(3, 1), ip(3, 2), ip(3, 9)]);
    let mut nodes = nodes;
    drop(nodes.pop());
    nodes.iter().chain([&stray]).for_each(|node| wait_for_members(&node.addr, 3));
}

#[test]
fn nodes_join_by_srv_records_with_ports_of_their_own() {
    let server = NameServer::start(Zone::default());
    let join = format!("dns:{SERVICE}");
    let first = NodeProcess::start_with(&[("TREEFOLD_DNS", server.addr().as_str())], &["--join", &join]);
    let second = NodeProcess::start_with(&[("TREEFOLD_DNS", server.addr().as_str())], &["--join", &join]);
    let targets = [&first, &second].map(|node| node.addr.parse::<SocketAddr>().unwrap().port());
    server.change(|zone| {
        zone.addrs = vec![Ipv4Addr::LOCALHOST];
        zone.ports = targets.to_vec();
    });
    wait_for_members(&first.addr, 2);
    wait_for_members(&second.addr, 2);
    let status = ask(&server, &["status", "--at", &join, "-o", "json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    let listed = ask(&server, &["status", "--at", "dns:_other._tcp.nodes.example"]);
    assert_eq!(listed.code, 5, "{}", listed.stderr);
}

#[test]
fn nodes_join_by_a_file_that_changes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# nobody yet\n").unwrap();
    let join = format!("@{}", file.path().display());
    let first = NodeProcess::start(&["--join", &join]);
    let second = NodeProcess::start(&["--join", &join]);
    std::fs::write(file.path(), format!("{} # the first\nnot an address\n{}\n", first.addr, second.addr))
        .unwrap();
    wait_for_members(&first.addr, 2);
    wait_for_members(&second.addr, 2);
    let status = run_args(&["status", "--at", &join, "-o", "json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
}

#[test]
fn the_systems_resolver_answers_for_names() {
    let first = NodeProcess::start(&[]);
    let port = first.addr.parse::<SocketAddr>().unwrap().port();
    let second = NodeProcess::start(&["--join", &format!("dns:localhost:{port}")]);
    wait_for_members(&second.addr, 2);
}

#[test]
fn more_answers_than_are_taken_do_no_harm() {
    let mut addrs: Vec<Ipv4Addr> =
        (0..4_000_u16).map(|at| Ipv4Addr::new(127, 78, (at >> 8) as u8, at as u8)).collect();
    addrs.push(ip(5, 1));
    let server = NameServer::start(Zone { addrs, ..Zone::default() });
    let join = format!("dns:{NAME}:{PORT}");
    let node = pod(&server, ip(5, 1), PORT, &join);
    let asked = server.asked();
    wait_until("it goes on asking", || server.asked() > asked + 4);
    server.change(|zone| zone.addrs = vec![ip(5, 1), ip(5, 2)]);
    let second = pod(&server, ip(5, 2), PORT, &join);
    wait_for_members(&node.addr, 2);
    wait_for_members(&second.addr, 2);
}

#[test]
fn garbage_and_silence_are_survived_and_reported() {
    for reply in [Reply::Garbage, Reply::Silence] {
        let server = NameServer::start(Zone { addrs: vec![ip(6, 1), ip(6, 2)], reply, ..Zone::default() });
        let join = format!("dns:{NAME}:{PORT}");
        // A client has its own error, in time.
        let status = ask(&server, &["status", "--at", &join]);
        assert_eq!(status.code, 5, "{}", status.stderr);
        assert!(status.stderr.contains(&join), "{}", status.stderr);
        let first = pod(&server, ip(6, 1), PORT, &join);
        server.change(|zone| zone.reply = Reply::Honest);
        let second = pod(&server, ip(6, 2), PORT, &join);
        wait_for_members(&first.addr, 2);
        wait_for_members(&second.addr, 2);
    }
}

#[test]
fn a_node_without_a_name_server_ends_at_once_when_it_is_told_to() {
    let server = NameServer::start(Zone { reply: Reply::Silence, ..Zone::default() });
    let mut node = pod(&server, ip(7, 1), PORT, &format!("dns:{NAME}:{PORT}"));
    node.signal(libc::SIGTERM);
    assert_eq!(node.wait(), Some(0));
}

#[test]
fn commands_ask_the_nodes_that_the_environment_names() {
    let node = NodeProcess::start(&["--serve", "micro:partitions=0/1"]);
    let ended = |args: &[&str]| crate::real::ended(treefold().env("TREEFOLD_AT", &node.addr).args(args));
    for args in [
        &["status"][..],
        &["call", "micro/sum"],
        &["shares", "show"],
        &["shares", "set", "micro=2"],
        &["operator", "list"],
        &["stream", "--list-filters"],
    ] {
        let ended = ended(args);
        assert_eq!(ended.code, 0, "{args:?}: {}", ended.stderr);
    }
    let flag = ended(&["status", "--at", "127.0.0.1:1"]);
    assert_eq!(flag.code, 5, "a flag overrides the environment: {}", flag.stderr);
    let mut command = treefold();
    let none = crate::real::ended(command.env_remove("TREEFOLD_AT").arg("status").stdout(Stdio::null()));
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("--at <ADDR>"), "{}", none.stderr);
}
