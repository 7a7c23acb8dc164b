//! Traces and slow calls of real processes.

use crate::real::{NodeProcess, run_args, treefold};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// The spans of a file of traces.
fn spans(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_line =
        |line: Value| line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    lines.flat_map(of_line).collect()
}

#[test]
fn command_traces_its_call_below_its_caller() {
    let node = NodeProcess::start(&["--serve", "micro:partitions=0-3/4", "--rack", "r1", "--zone", "z1"]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("traces");
    let call = |parent: Option<&str>| {
        let mut command = treefold();
        command.args(["call", "micro/sum", "--at", &node.addr, "-o", "json", "--trace-file"]).arg(&path);
        if let Some(parent) = parent {
            command.env("TRACEPARENT", parent);
        }
        let output = command.env("OTEL_SERVICE_NAME", "tests").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&answer["value"], answer.get("tree")), (&6.into(), None));
    };
    call(Some(&format!("00-{TRACE}-{CALLER}-01")));
    let [own, below] = spans(&path).try_into().unwrap();
    assert_eq!((&own["traceId"], &own["parentSpanId"]), (&TRACE.into(), &CALLER.into()));
    assert_eq!((&own["name"], &own["kind"]), (&"micro/sum".into(), &3.into()), "a client's span");
    assert_eq!((&below["name"], &below["parentSpanId"]), (&"node".into(), &own["spanId"]));
    let line = std::fs::read_to_string(&path).unwrap();
    for attribute in [r#""tests""#, r#""r1""#, r#""z1""#] {
        assert!(line.contains(attribute), "{attribute} in {line}");
    }
    call(Some(&format!("00-{TRACE}-{CALLER}-00")));
    assert_eq!(spans(&path).len(), 2, "a caller that does not trace gets no spans");
    call(Some("malformed"));
    call(None);
    let traces = spans(&path);
    assert_eq!(traces.len(), 6);
    assert!(traces[2..].iter().all(|span| span["traceId"] != TRACE), "calls without a place begin traces");
}

#[test]
fn targets_and_places_that_cannot_be_used_are_refused() {
    let refused = |option: &str, given: &str| {
        let ended = run_args(&["call", "micro/sum", "--at", "127.0.0.1:1", option, given]);
        assert_eq!(ended.code, 2, "{}", ended.stderr);
        ended.stderr
    };
    assert!(refused("--trace-parent", "00-0-0-01").contains("allowed: a traceparent"));
    assert!(refused("--otlp", "https://collector:4318").contains("http://HOST:PORT"));
    for (option, given) in [("--otlp", "collector"), ("--trace-sample", "1.5"), ("--slow-call", "200")] {
        let ended = run_args(&["node", "--listen", "127.0.0.1:0", "--gateway", "127.0.0.1:0", option, given]);
        assert_eq!(ended.code, 2, "{option}: {}", ended.stderr);
    }
    let ended = run_args(&["node", "--listen", "127.0.0.1:0", "--otlp", "http://127.0.0.1:4318"]);
    assert!(ended.code == 2 && ended.stderr.contains("no address"), "{}", ended.stderr);
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn slow_call_is_one_json_event_with_its_tree() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut command = treefold();
    command.args(["node", "--listen", "127.0.0.1:0", "--gateway", "127.0.0.1:0", "--slow-call", "0ms"]);
    command.args(["--serve", "micro:partitions=0-3/4", "--log-format", "json"]);
    command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
    let mut node = Killed(command.spawn().unwrap());
    let mut lines = BufReader::new(node.0.stdout.take().unwrap()).lines();
    let gateway = lines.find_map(|line| line.unwrap().strip_prefix("gateway at http://").map(str::to_owned));
    let gateway = gateway.expect("the address of the gateway");
    let mut stream = TcpStream::connect(&gateway).unwrap();
    let head = format!(
        "POST /v1/call/micro/sum HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntraceparent: 00-{TRACE}-{CALLER}-01\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("\"tree\""), "{answer}");
    let text = std::fs::read_to_string(&log).unwrap();
    let event: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&event["level"], &event["target"]), (&"warn".into(), &"treefold::slow_call".into()));
    let call = &event["document"];
    assert_eq!(
        (&call["service"], &call["status"], &call["trace_id"]),
        (&"micro".into(), &"full".into(), &TRACE.into())
    );
    assert_eq!(call["tree"]["partitions"], serde_json::json!([0, 1, 2, 3]));
}
