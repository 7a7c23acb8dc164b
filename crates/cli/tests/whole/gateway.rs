//! The gateway of a node, as its users run it: with curl, with tokens, until a signal; and the examples of its page.

use crate::real::{
    NodeProcess, is_installed, micro_cluster, run_args, wait_for_folding, wait_for_members, wait_until,
};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts a node with a gateway and returns the address of the gateway.
fn start(args: &[&str]) -> (NodeProcess, String) {
    let mut node = NodeProcess::start(&[&["--gateway", "127.0.0.1:0"], args].concat());
    let line = node.line();
    let addr = line.strip_prefix("gateway at http://").unwrap_or_else(|| panic!("it printed {line:?}"));
    let addr = addr.to_owned();
    (node, addr)
}

/// Sends a request and returns its connection.
fn send(addr: &str, method: &str, path: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Reads an answer to its end, and returns its status and its body.
fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn ask(addr: &str, method: &str, path: &str, headers: &str) -> (u16, String) {
    answer(send(addr, method, path, headers))
}

#[test]
fn answers_are_those_of_the_commands() {
    let (node, gateway) = start(&["--serve", "micro:partitions=0-3/4"]);
    let without_times = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value.as_object_mut().unwrap().retain(|name, _| name != "elapsed_us" && name != "counters");
        value["node"].as_object_mut().into_iter().for_each(|node| node.retain(|name, _| name == "services"));
        value
    };
    let called = run_args(&["call", "micro/sum", "--at", &node.addr, "-o", "json"]).stdout;
    let (status, posted) = ask(&gateway, "POST", "/v1/call/micro/sum", "");
    assert_eq!((status, without_times(&posted)), (200, without_times(&called)));
    let shown = run_args(&["status", "--at", &node.addr, "-o", "json"]).stdout;
    assert_eq!(without_times(&ask(&gateway, "GET", "/v1/status", "").1), without_times(&shown));
}

#[test]
fn token_of_the_command_opens_the_gateway_of_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens.toml");
    let file = file.to_str().unwrap();
    let make = |name: &str, services: &str| {
        run_args(&[
            "gateway",
            "token",
            name,
            "--file",
            file,
            "--services",
            services,
            "--rights",
            "call,read",
            "-o",
            "json",
        ])
    };
    let made = make("dashboard", "micro");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let token = made.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(make("other", "faces").code, 0);
    let again = make("dashboard", "micro");
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(again.stderr.contains("another token has this name"), "{}", again.stderr);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(!text.contains(&token) && text.matches("[[token]]").count() == 2, "{text}");
    let (_node, gateway) = start(&["--serve", "micro:partitions=0/1", "--gateway-tokens", file]);
    assert_eq!(ask(&gateway, "POST", "/v1/call/micro/sum", "").0, 401);
    let bearer = format!("authorization: Bearer {token}\r\n");
    assert_eq!(ask(&gateway, "POST", "/v1/call/micro/sum", &bearer).0, 200);
    assert_eq!(ask(&gateway, "GET", "/v1/status", &bearer).0, 200);
}

#[test]
fn gateway_beyond_this_machine_or_with_half_of_its_settings_is_refused() {
    for (args, words) in [
        (&["--gateway", "0.0.0.0:0"][..], "give it tokens and a certificate"),
        (&["--gateway", "0.0.0.0:0", "--gateway-tokens", "t.toml"], "tokens would be readable on the way"),
        (&["--gateway", "127.0.0.1:0", "--gateway-tls-cert", "cert.pem"], "together"),
        (&["--gateway-cors", "https://example.org"], "give it one with --gateway"),
        (&["--gateway", "127.0.0.1"], "gateway is 127.0.0.1; allowed: HOST:PORT"),
    ] {
        let refused = run_args(&[&["node", "--listen", "127.0.0.1:0"], args].concat());
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(words), "{args:?}: {}", refused.stderr);
    }
}

#[test]
fn signal_ends_open_calls_before_the_node() {
    let (mut node, gateway) = start(&["--serve", "micro:partitions=0/1"]);
    let body = r#"{"local_ms": 1500}"#;
    let headers = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let mut open = send(&gateway, "POST", "/v1/call/micro/hold?deadline=10s", &headers);
    open.write_all(body.as_bytes()).unwrap();
    wait_until("the call is open", || {
        let status = run_args(&["status", "--at", &node.addr, "-o", "json"]).json();
        status["open"]["calls"] == 1
    });
    node.signal(libc::SIGTERM);
    wait_until("it is not ready", || ask(&gateway, "GET", "/readyz", "").0 == 503);
    let (status, body) = answer(open);
    assert_eq!(status, 200, "{body}");
    assert_eq!(node.wait(), Some(0));
}

/// A partition that is missing, and the reason.
fn loss_of(loss: &Value) -> (u64, String) {
    (loss["partition"].as_u64().unwrap(), loss["reason"].as_str().unwrap().to_owned())
}

/// The answer to a call over HTTP of all partitions, with any coverage: the partitions that contributed, and the missing ones
/// with their reasons.
fn called(gateway: &str) -> (u64, Vec<(u64, String)>) {
    let path = "/v1/call/micro/sum?deadline=3s&min_coverage=0";
    let (status, body) = ask(gateway, "POST", path, "");
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    let mut missing: Vec<(u64, String)> =
        answer["missing"].as_array().into_iter().flatten().map(loss_of).collect();
    missing.sort();
    let contributed = answer["coverage"]["contributed"].as_u64().unwrap();
    assert_eq!(contributed + missing.len() as u64, 8, "every partition is accounted for: {body}");
    let lost: u64 = missing.iter().map(|(partition, _)| partition).sum();
    let value = answer["value"].as_u64().or_else(|| answer["value"]["sum"].as_u64());
    assert!(contributed == 0 || value == Some(28 - lost), "the sum of those that contributed: {body}");
    (contributed, missing)
}

#[test]
fn callers_over_http_get_honest_answers_while_nodes_stop_and_die() {
    let nodes = micro_cluster(4, 8);
    let (front, gateway) = start(&["--join", &nodes[0].addr]);
    let relay = NodeProcess::start(&["--relay", "--rack", "r1", "--join", &nodes[0].addr]);
    wait_for_members(&front.addr, 6);
    wait_for_folding(&front, &relay, "micro");
    assert_eq!(called(&gateway), (8, vec![]));
    relay.signal(libc::SIGKILL);
    assert_eq!(called(&gateway), (8, vec![]), "a relay holds no partitions");
    nodes[3].signal(libc::SIGSTOP);
    let without = |two: [u64; 2], reasons: &[&str]| {
        let (contributed, missing) = called(&gateway);
        assert_eq!(contributed, 6);
        assert!(missing.iter().map(|(partition, _)| *partition).eq(two), "{missing:?}");
        assert!(missing.iter().all(|(_, reason)| reasons.contains(&&**reason)), "{missing:?}");
    };
    without([3, 7], &["late", "lost"]);
    nodes[3].signal(libc::SIGCONT);
    wait_until("it contributes again", || called(&gateway) == (8, vec![]));
    nodes[1].signal(libc::SIGKILL);
    without([1, 5], &["lost", "no_replica"]);
    nodes.iter().for_each(|node| node.signal(libc::SIGKILL));
    let (contributed, missing) = called(&gateway);
    assert_eq!((contributed, missing.len()), (0, 8));
    assert!(missing.iter().all(|(_, reason)| ["lost", "no_replica"].contains(&&**reason)), "{missing:?}");
    assert_eq!(ask(&gateway, "GET", "/v1/status", "").0, 200, "the gateway lives");
}

/// Reads waves of a stream over HTTP until one has these contributors and these missing endpoints, as texts.
fn read_until(lines: &mut impl Iterator<Item = String>, contributors: &str, missing: &[(u64, &str)]) {
    let mut seen = Vec::new();
    while let Some(line) = lines.next().filter(|_| seen.len() < 200) {
        let said = serde_json::from_str::<Value>(&line).unwrap_or_default();
        let Some(wave) = said.get("wave") else {
            seen.push(line);
            continue;
        };
        let missed: Vec<(u64, String)> =
            wave["missing"].as_array().into_iter().flatten().map(loss_of).collect();
        let is_missing = missed.iter().map(|(which, why)| (*which, &**why)).eq(missing.iter().copied());
        if wave["contributors"] == contributors && is_missing {
            return;
        }
        seen.push(line);
    }
    panic!("no wave of {contributors} without {missing:?}: {seen:?}");
}

#[test]
fn a_stream_over_http_goes_on_while_nodes_stop_and_die() {
    let mut nodes: Vec<NodeProcess> = Vec::new();
    for endpoint in 0..4 {
        let serve = format!("echo:partitions={endpoint}/4");
        let join = nodes.first().map(|first| first.addr.clone());
        let joins = join.iter().flat_map(|addr| ["--join", addr]);
        nodes.push(NodeProcess::start(&["--serve", &serve].into_iter().chain(joins).collect::<Vec<_>>()));
    }
    let (front, gateway) = start(&["--join", &nodes[0].addr]);
    wait_for_members(&front.addr, 5);
    let path = "/v1/streams/echo?filter=count&send=%22x%22&every=50ms&sync=time-out:200";
    let stream = send(&gateway, "GET", path, "accept: application/x-ndjson\r\n");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    read_until(&mut lines, "0-3", &[]);
    nodes[3].signal(libc::SIGKILL);
    read_until(&mut lines, "0-2", &[(3, "lost")]);
    nodes[2].signal(libc::SIGSTOP);
    read_until(&mut lines, "0-1", &[(2, "late"), (3, "lost")]);
    nodes[2].signal(libc::SIGCONT);
    read_until(&mut lines, "0-2", &[(3, "lost")]);
    nodes.iter().for_each(|node| node.signal(libc::SIGKILL));
    wait_until("the gateway lives without them", || ask(&gateway, "GET", "/v1/status", "").0 == 200);
}

/// The commands of a page's console blocks that ask the page's first gateway with curl, each with the output below it.
/// Streams and gRPC have tests of their own.
fn examples(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    blocks
        .flat_map(|block| block.strip_prefix("$ ").unwrap().split("\n$ "))
        .map(|example| {
            let (command, output) = example.split_once('\n').unwrap();
            (command.to_owned(), output.to_owned())
        })
        .filter(|(command, _)| command.starts_with("curl ") && command.contains("127.0.0.1:8080"))
        .collect()
}

/// Replaces times and addresses, which differ from run to run.
fn steady(text: &str, node: &str) -> String {
    let mut parts = text.split("\"elapsed_us\":");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts
        .map(|part| format!("\"elapsed_us\":N{}", part.trim_start_matches(|c: char| c.is_ascii_digit())));
    let text: String = std::iter::once(first).chain(rest).collect();
    text.replace(node, "127.0.0.1:7700").replace('\r', "").trim().to_owned()
}

#[test]
fn examples_of_the_page_give_their_output() {
    if !is_installed("curl", "--version", "curl") {
        return;
    }
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md")).unwrap();
    let examples = examples(&page);
    assert!(examples.len() >= 5, "{examples:?}");
    let (node, gateway) = start(&["--serve", "micro:partitions=0-15/16"]);
    for (command, output) in examples {
        let command = command.replace("127.0.0.1:8080", &gateway);
        let ran = Command::new("sh").args(["-c", &command]).stdin(Stdio::null()).output().unwrap();
        let found = String::from_utf8(ran.stdout).unwrap();
        assert_eq!(steady(&found, &node.addr), steady(&output, &node.addr), "{command}");
    }
}
