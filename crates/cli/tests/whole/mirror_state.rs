//! Keys that mirrors remove, and the checks of `treefold mirror check` and `feed` that concern a mirror's state.

use crate::real::{NodeProcess, run, run_args, run_with_input, treefold, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// An origin whose events the test writes, killed when dropped.
struct Source(Child);

impl Source {
    fn start(at: &NodeProcess) -> Self {
        let mut command = treefold();
        command.args(["mirror", "feed", "flights", "-", "--at", &at.addr]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("the program can be started"))
    }

    fn write(&mut self, number: u64, key: &str, kind: &str) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        let event = format!(
            r#"{{"stream":"faa","number":{number},"key":"{key}","type":"{kind}","fields":{{"at":1}}}}"#
        );
        writeln!(stdin, "{event}").expect("it reads its input");
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status code of the mirror's answer about a key.
fn answer(http: &str, key: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("it listens");
    write!(
        stream,
        "GET /v1/feeds/flights/keys/{key} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text.split(' ').nth(1).expect("a status code").to_owned()
}

/// The keys that a new reader has once it knows of `last`: those of its snapshot, which may be older, without the ones that
/// later events delete.
fn watched(at: &NodeProcess, last: &str) -> BTreeSet<String> {
    let mut watch = treefold()
        .args(["mirror", "watch", "flights", "-o", "json", "--at", &at.addr])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let (mut keys, mut is_complete) = (BTreeSet::new(), false);
    while !is_complete || !keys.contains(last) {
        let line = lines.next().expect("a line").expect("UTF-8");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        is_complete |= line.get("complete").is_some();
        keys.extend(line["row"]["key"].as_str().map(str::to_owned));
        let event = &line["event"];
        if let (Some(key), Some(kind)) = (event["key"].as_str(), event["type"].as_str()) {
            if ["departed", "cancelled"].contains(&kind) {
                keys.remove(key);
            } else {
                keys.insert(key.to_owned());
            }
        }
    }
    watch.kill().expect("it can be ended");
    watch.wait().expect("it can be waited for");
    keys
}

#[test]
fn deleted_and_expired_keys_are_gone_for_readers() {
    let serve = "mirror=flights:partitions=0/1:http=127.0.0.1:0:deletes=departed,cancelled:retention=2s";
    let mut node = NodeProcess::start(&["--serve", serve]);
    let announced = node.line();
    let url = announced.strip_prefix("readers of flights at http://").expect("an address");
    let http = url.split_once('/').expect("a path").0.to_owned();
    let mut source = Source::start(&node);
    source.write(1, "DL1", "position");
    source.write(2, "DL2", "position");
    source.write(3, "DL3", "position");
    wait_until("the keys are there", || answer(&http, "DL3") == "200" && answer(&http, "DL1") == "200");
    assert!(watched(&node, "DL3").contains("DL1"));
    source.write(4, "DL1", "departed");
    source.write(5, "DL2", "cancelled");
    wait_until("the deleted keys are gone", || {
        answer(&http, "DL1") == "404" && answer(&http, "DL2") == "404"
    });
    // A key goes by the origin's clock, which the events of the other keys bring.
    let mut number = 5;
    wait_until("the key that does not change is gone", || {
        number += 1;
        source.write(number, "DL4", "position");
        answer(&http, "DL3") == "404"
    });
    source.write(number + 1, "DL5", "position");
    let keys = watched(&node, "DL5");
    assert!(!keys.contains("DL1") && !keys.contains("DL2"), "{keys:?}");
}

#[test]
fn state_in_a_file_of_rules_is_named_as_words_for_the_mirrors() {
    let directory = tempfile::tempdir().expect("a directory");
    let rules = directory.path().join("rules.toml");
    std::fs::write(&rules, "[state]\ndeletes = [\"departed\"]\nretention_ms = 1500\n").expect("a file");
    let rules = rules.to_str().expect("a path");
    let hint = "[state] has no effect on mirrors that run: start each with `--serve mirror=…:deletes=departed:retention=1500ms`";
    let node = NodeProcess::start(&["--serve", "mirror=flights:partitions=0/1"]);
    let event = r#"{"stream":"faa","number":1,"key":"DL1","type":"position"}"#;
    let fed =
        run_with_input(&["mirror", "feed", "flights", "-", "--rules", rules, "--at", &node.addr], event);
    assert_eq!(fed.code, 0, "{}", fed.stderr);
    assert!(fed.stderr.contains(hint), "{}", fed.stderr);

    let _source = Source::start(&node);
    let set = run_args(&["mirror", "set", "flights", "--rules", rules, "--at", &node.addr]);
    assert!(set.stderr.contains(hint), "{}", set.stderr);
}

#[cfg(feature = "wasm")]
#[test]
fn check_loads_the_modules_that_rules_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a path").to_owned();
    let (rules, module, wrong) = (path("rules.toml"), path("none.wasm"), path("wrong.wasm"));
    std::fs::write(&rules, "[[rule]]\nname = \"own\"\nfunction = { name = \"even\", type = \"position\" }\n")
        .expect("a file");
    let text = r#"(module (memory (export "memory") 2)
        (func (export "treefold_abi_v1"))
        (func (export "treefold_alloc") (param i32) (result i32) (i32.const 4096))
        (func (export "treefold_filter_open") (param i32 i32) (result i64) (i64.const 0))
        (func (export "treefold_filter_up") (param i32 i32 i64 i64) (result i64) (i64.const 0)))"#;
    std::fs::write(&module, wat::parse_str(text).expect("a module")).expect("a file");
    std::fs::write(&wrong, wat::parse_str("(module)").expect("a module")).expect("a file");
    let check = |function: String| run_args(&["mirror", "check", &rules, "--function", &function]);
    let valid = check(format!("even={module}"));
    assert_eq!((valid.code, valid.stderr.as_str()), (0, ""));
    assert!(valid.stdout.contains("valid, 1 rules"), "{}", valid.stdout);
    for (function, problem) in [
        (format!("even={wrong}"), "function `even`: "),
        (format!("even={rules}"), "function `even`: "),
        (format!("odd={module}"), "no rule uses the function `odd`"),
        (format!("even={}", path("missing.wasm")), "can't read "),
    ] {
        let refused = check(function);
        assert_eq!(refused.code, 1, "{problem}: {}", refused.stderr);
        assert!(refused.stderr.contains(problem), "{problem}: {}", refused.stderr);
    }
    assert_eq!(run(&format!("mirror check {rules} --function even")).code, 2, "NAME=FILE is expected");
}
