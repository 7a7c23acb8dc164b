//! The gateway of a node, as its users run it: with curl, with tokens, until a signal; and the examples of its page.

use crate::real::{NodeProcess, is_installed, run_args, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
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
