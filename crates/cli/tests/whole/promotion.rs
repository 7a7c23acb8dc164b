//! Feeds whose origin dies or stands still, and another one takes over.

use crate::real::{self, NodeProcess, run, wait_for_members, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

const KEYS: u64 = 7;

/// Three mirrors that keep their promises in a directory.
fn mirrors(directory: &tempfile::TempDir) -> Vec<NodeProcess> {
    let mut nodes: Vec<NodeProcess> = Vec::new();
    for number in 0..3 {
        let promises = directory.path().join(format!("promises-{number}"));
        let serve = format!("mirror=flights:partitions={number}/3:promises={}", promises.display());
        let mut args = vec!["--serve", &serve];
        let first = nodes.first().map(|first| first.addr.clone());
        args.extend(first.iter().flat_map(|first| ["--join", first]));
        nodes.push(NodeProcess::start(&args));
    }
    wait_for_members(&nodes[0].addr, 3);
    nodes
}

/// A feed's command.
struct Feed {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Feed {
    fn start(at: &NodeProcess, more: &[&str]) -> Self {
        let mut child = real::treefold()
            .args(["mirror", "feed", "flights", "tcp:127.0.0.1:0", "--copies", "2", "--at", &at.addr])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// Waits for a line of its standard error, and returns the part behind `text`.
    fn line(&mut self, text: &str) -> String {
        for line in self.lines.by_ref() {
            if let Some((_, rest)) = line.expect("UTF-8").split_once(text) {
                return rest.to_owned();
            }
        }
        panic!("it ended before it printed {text}");
    }

    fn source(&mut self) -> Source {
        let addr = self.line("events are taken at tcp:");
        let socket = TcpStream::connect(addr).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        Source { answers: BufReader::new(socket.try_clone().expect("a clone")), socket, line: String::new() }
    }

    fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill touches no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Source {
    socket: TcpStream,
    answers: BufReader<TcpStream>,
    line: String,
}

impl Source {
    /// Sends events; an error means that the origin has gone.
    fn send(&mut self, numbers: std::ops::RangeInclusive<u64>) {
        for number in numbers {
            let key = number % KEYS;
            let _ = writeln!(
                self.socket,
                r#"{{"stream":"faa","number":{number},"key":"DL{key}","type":"position","fields":{{"n":{number}}}}}"#
            );
        }
    }

    /// Reads what has arrived, and returns the last acknowledged number in it.
    fn acknowledged(&mut self) -> Option<u64> {
        let mut last = None;
        while self.answers.read_line(&mut self.line).is_ok_and(|bytes| bytes > 0) {
            let answer: serde_json::Value = serde_json::from_str(&self.line).expect("JSON");
            last = answer["acknowledged"]["faa"].as_u64().or(last);
            self.line.clear();
        }
        last
    }

    fn wait_for(&mut self, number: u64) -> u64 {
        let mut last = 0;
        wait_until("events are acknowledged", || {
            last = self.acknowledged().unwrap_or(last);
            last >= number
        });
        last
    }
}

/// Waits until each mirror has the last value of each key.
fn expect_values(at: &NodeProcess, last: u64) {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("DL{key}")).collect();
    let params = serde_json::json!({ "keys": keys }).to_string();
    for mirror in ["0", "1", "2"] {
        wait_until("the mirror has the last values", || {
            let args = ["call", "flights/get", "--at", &at.addr, "--params", &params, "--partitions", mirror];
            let found = real::run_args(&[&args[..], &["-o", "json"]].concat());
            let Ok(found) = serde_json::from_str::<serde_json::Value>(&found.stdout) else { return false };
            let Some(rows) = found["value"]["rows"].as_array() else { return false };
            let is_last = |row: &serde_json::Value| {
                let n = row["fields"]["n"].as_u64().expect("a number");
                n + KEYS > last && n <= last
            };
            rows.len() as u64 == KEYS && rows.iter().all(is_last)
        });
    }
}

#[test]
fn standby_takes_over_from_a_killed_origin_and_keeps_acknowledged_events() {
    let directory = tempfile::tempdir().expect("a directory");
    let nodes = mirrors(&directory);
    let mut old = Feed::start(&nodes[0], &[]);
    let mut source = old.source();
    source.send(1..=500);
    source.wait_for(500);
    let mut standby = Feed::start(&nodes[1], &["--standby", "--silence", "2s"]);
    standby.line("stands by");
    // It dies while it has events that are nowhere else.
    source.send(501..=1_500);
    old.signal(libc::SIGKILL);
    let acknowledged = source.acknowledged().unwrap_or(500);
    let mut source = standby.source();
    source.send(acknowledged + 1..=2_000);
    assert_eq!(source.wait_for(2_000), 2_000);
    expect_values(&nodes[2], 2_000);
    let status = run(&format!("mirror status flights --at {} -o json", nodes[0].addr)).json();
    for mirror in status["mirrors"].as_array().expect("mirrors") {
        assert_eq!(mirror["epoch"], 2, "{status}");
        assert_eq!(mirror["position"], 2_000, "each event once: {status}");
    }
}

#[test]
fn origin_that_stood_still_acknowledges_nothing_after_a_standby_took_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let nodes = mirrors(&directory);
    let mut old = Feed::start(&nodes[0], &[]);
    let mut source = old.source();
    source.send(1..=100);
    source.wait_for(100);
    let mut standby = Feed::start(&nodes[1], &["--standby", "--silence", "2s"]);
    standby.line("stands by");
    old.signal(libc::SIGSTOP);
    // These wait in the socket.
    source.send(101..=200);
    let mut next = standby.source();
    next.send(101..=150);
    assert_eq!(next.wait_for(150), 150);
    old.signal(libc::SIGCONT);
    wait_until("the old origin ends", || old.child.try_wait().is_ok_and(|ended| ended.is_some()));
    old.line("a newer origin (epoch 2) has taken over");
    assert_eq!(old.child.wait().expect("it ends").code(), Some(1));
    assert_eq!(source.acknowledged(), None, "the old origin acknowledges nothing more");
    next.send(151..=200);
    assert_eq!(next.wait_for(200), 200);
    expect_values(&nodes[2], 200);
}

#[test]
fn take_over_by_hand_says_which_mirrors_it_needs() {
    let directory = tempfile::tempdir().expect("a directory");
    let nodes = mirrors(&directory);
    let ended = run(&format!("mirror feed flights - --copies 1 --standby --at {}", nodes[0].addr));
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("feed with --copies 2 or more, or take over by hand"), "{}", ended.stderr);
    let ended = run(&format!("mirror feed flights - --copies 2 --take-over --at {}", nodes[0].addr));
    assert_eq!(ended.code, 1);
    let needs = "2 of the feed's 3 mirrors must promise epoch 1 and have a state; these do: none; without a state: 0, 1, 2";
    assert!(ended.stderr.contains(needs), "{}", ended.stderr);

    let mut old = Feed::start(&nodes[0], &[]);
    let mut source = old.source();
    source.send(1..=100);
    source.wait_for(100);
    old.signal(libc::SIGKILL);
    let mut next = Feed::start(&nodes[0], &["--take-over"]);
    let mut source = next.source();
    source.send(90..=110);
    assert_eq!(source.wait_for(110), 110);
    expect_values(&nodes[1], 110);
}
