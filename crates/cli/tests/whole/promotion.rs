//! Feeds whose origin dies or stands still, and another one takes over.

use crate::real::{self, NodeProcess, run, wait_for_members, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

const KEYS: u64 = 7;

/// Three mirrors that keep their promises in a directory.
fn mirrors(directory: &tempfile::TempDir) -> Vec<NodeProcess> {
    some_mirrors(directory, 3)
}

fn some_mirrors(directory: &tempfile::TempDir, total: u32) -> Vec<NodeProcess> {
    let mut nodes: Vec<NodeProcess> = Vec::new();
    for number in 0..total {
        std::fs::create_dir(directory.path().join(number.to_string())).expect("a directory of its own");
        nodes.push(mirror(directory, number, total, nodes.first()));
    }
    wait_for_members(&nodes[0].addr, total as usize);
    nodes
}

fn promises(directory: &tempfile::TempDir, number: u32) -> std::path::PathBuf {
    directory.path().join(number.to_string()).join("promises")
}

fn mirror(
    directory: &tempfile::TempDir,
    number: u32,
    total: u32,
    first: Option<&NodeProcess>,
) -> NodeProcess {
    let promises = promises(directory, number);
    let serve = format!("mirror=flights:partitions={number}/{total}:promises={}", promises.display());
    let mut args = vec!["--serve", &serve];
    args.extend(first.iter().flat_map(|first| ["--join", &first.addr]));
    NodeProcess::start(&args)
}

/// A feed's command.
struct Feed {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Feed {
    fn start(at: &NodeProcess, more: &[&str]) -> Self {
        let mut child = real::treefold()
            .args(["mirror", "feed", "flights", "tcp:127.0.0.1:0", "--at", &at.addr])
            .args(if more.contains(&"--copies") { &[][..] } else { &["--copies", "2"] })
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
    for _ in 0..5 {
        expect_origin(&nodes[1], 1);
    }
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
    expect_set(&nodes[0], 2);
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
    next.line("takes over flights at 2.100");
    let mut source = next.source();
    source.send(90..=110);
    assert_eq!(source.wait_for(110), 110);
    expect_values(&nodes[1], 110);
    expect_set(&nodes[1], 2);
}

/// The origin, as `mirror status` shows it.
fn origin(at: &NodeProcess) -> serde_json::Value {
    run(&format!("mirror status flights --at {} -o json", at.addr)).json()["origin"].clone()
}

fn expect_origin(at: &NodeProcess, epoch: u64) {
    wait_until("the origin is shown", || origin(at)["epoch"] == epoch);
}

/// Changes the rules of the origin of an epoch.
fn expect_set(at: &NodeProcess, epoch: u64) {
    expect_origin(at, epoch);
    let set = run(&format!("mirror set flights --overwrite position=4 --at {}", at.addr));
    assert_eq!(set.code, 0, "{}", set.stderr);
    wait_until("the new rules hold", || {
        origin(at)["rules"].as_array().is_some_and(|rules| !rules.is_empty())
    });
}

#[test]
fn last_of_two_mirrors_takes_over_only_by_the_dangerous_option() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut nodes = some_mirrors(&directory, 2);
    let mut old = Feed::start(&nodes[0], &[]);
    let mut source = old.source();
    source.send(1..=100);
    source.wait_for(100);
    let dangerous = ["--take-over", "--without-majority"];
    let mut needless = Feed::start(&nodes[0], &dangerous);
    needless.line("mirrors [0, 1] answer and have a state, and 2 are enough");
    // kill -9: the origin stands still, and one mirror is gone for good.
    old.signal(libc::SIGSTOP);
    drop(nodes.pop());
    let mut refused = Feed::start(&nodes[0], &["--take-over"]);
    refused.line("2 of the feed's 2 mirrors must promise epoch 2 and have a state; these do: 0");
    let mut next = Feed::start(&nodes[0], &["--copies", "1", "--take-over", "--without-majority"]);
    next.line("takes over flights at 2.100 from mirrors [0] alone");
    let mut next_source = next.source();
    next_source.send(101..=150);
    assert_eq!(next_source.wait_for(150), 150);
    source.send(101..=200);
    old.signal(libc::SIGCONT);
    wait_until("the old origin ends", || old.child.try_wait().is_ok_and(|ended| ended.is_some()));
    old.line("a newer origin (epoch 2) has taken over");
    assert_eq!(source.acknowledged(), None, "the old origin acknowledges nothing more");
}

#[test]
fn living_origin_keeps_its_mirrors_after_a_candidate_gave_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let nodes = mirrors(&directory);
    let mut old = Feed::start(&nodes[0], &["--copies", "3"]);
    let mut source = old.source();
    source.send(1..=100);
    source.wait_for(100);
    // With one copy the candidate needs all three mirrors, and one of them can't write its promise.
    std::fs::remove_dir_all(directory.path().join("2")).expect("it is there");
    let mut candidate = Feed::start(&nodes[0], &["--copies", "1", "--take-over"]);
    candidate.line("3 of the feed's 3 mirrors must promise epoch 2 and have a state; these do: 0, 1");
    wait_until("the candidate gives up", || candidate.child.try_wait().is_ok_and(|ended| ended.is_some()));
    source.send(101..=200);
    assert_eq!(source.wait_for(200), 200, "it has all of its mirrors again");
    expect_values(&nodes[1], 200);
}

/// A candidate is killed when two of three mirrors have promised, while it waits for the third, which stands still. That one
/// is then started anew, and follows the old origin, which lives.
fn killed_candidate(directory: &tempfile::TempDir, nodes: &mut Vec<NodeProcess>) -> (Feed, Source) {
    let mut old = Feed::start(&nodes[0], &[]);
    let mut source = old.source();
    source.send(1..=100);
    source.wait_for(100);
    nodes[2].signal(libc::SIGSTOP);
    let candidate = Feed::start(&nodes[0], &["--take-over"]);
    let has_promised =
        |number| std::fs::read_to_string(promises(directory, number)).is_ok_and(|text| text.contains("\n2 "));
    wait_until("two mirrors have promised", || has_promised(0) && has_promised(1));
    candidate.signal(libc::SIGKILL);
    drop((candidate, nodes.pop()));
    nodes.push(mirror(directory, 2, 3, nodes.first()));
    source.send(101..=200);
    wait_until("the new mirror has the old origin's events", || {
        let status = run(&format!("mirror status flights --at {} -o json", nodes[0].addr)).json();
        let mirrors = status["mirrors"].as_array().expect("mirrors");
        mirrors.iter().any(|mirror| mirror["mirror"] == 2 && mirror["position"] == 200)
    });
    assert_eq!(source.acknowledged(), None, "the old origin has one of two copies");
    assert!(old.child.try_wait().is_ok_and(|ended| ended.is_none()), "it lives");
    (old, source)
}

/// The next origin takes over in epoch 3, and the old one ends.
fn expect_third_epoch(nodes: &[NodeProcess], mut old: Feed, mut source: Source, mut next: Feed) {
    let mut next_source = next.source();
    // Events 101 to 200 are part of the feed already if the mirror that has them promised too.
    next_source.send(101..=250);
    assert_eq!(next_source.wait_for(250), 250);
    old.line("a newer origin (epoch 3) has taken over");
    assert_eq!(old.child.wait().expect("it ends").code(), Some(1));
    assert_eq!(source.acknowledged(), None, "the old origin has acknowledged nothing more");
    expect_values(&nodes[0], 250);
    expect_origin(&nodes[1], 3);
}

#[test]
fn standby_takes_over_when_a_killed_candidate_has_left_promises_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut nodes = mirrors(&directory);
    let (old, source) = killed_candidate(&directory, &mut nodes);
    let next = Feed::start(&nodes[1], &["--standby", "--silence", "2s"]);
    expect_third_epoch(&nodes, old, source, next);
}

#[test]
fn next_candidate_by_hand_wins_over_the_promises_of_a_killed_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut nodes = mirrors(&directory);
    let (old, source) = killed_candidate(&directory, &mut nodes);
    let next = Feed::start(&nodes[1], &["--take-over"]);
    expect_third_epoch(&nodes, old, source, next);
}

#[test]
fn last_mirror_goes_on_without_a_majority_after_the_origin_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut nodes = mirrors(&directory);
    let mut old = Feed::start(&nodes[0], &["--copies", "3"]);
    let mut source = old.source();
    source.send(1..=100);
    source.wait_for(100);
    old.signal(libc::SIGKILL);
    drop(old);
    nodes.truncate(1);
    let mut refused = Feed::start(&nodes[0], &["--take-over"]);
    refused.line("2 of the feed's 3 mirrors must promise epoch 2 and have a state; these do: 0");
    let mut next = Feed::start(&nodes[0], &["--copies", "1", "--take-over", "--without-majority"]);
    next.line("takes over flights at 2.100 from mirrors [0] alone");
    let mut source = next.source();
    // Its source repeats events that the feed has.
    source.send(90..=150);
    assert_eq!(source.wait_for(150), 150);
    // Another mirror that returns takes the feed's state.
    nodes.push(mirror(&directory, 1, 3, nodes.first()));
    nodes.push(mirror(&directory, 2, 3, nodes.first()));
    expect_values(&nodes[0], 150);
    expect_origin(&nodes[0], 2);
}
