//! Readers as real processes: mirrors that are killed or stopped under them, and HTTP.

use crate::real::{NodeProcess, run, run_args, treefold, wait_for_members, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Bound on a wait for one line. It is not measured.
const WITHIN: Duration = Duration::from_secs(30);

/// A running command that is killed when dropped, and its lines.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(line: &str) -> Self {
        let mut child = treefold()
            .args(line.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    fn json(&self) -> Value {
        let line = self.lines.recv_timeout(WITHIN).expect("a line in time");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Positions of events up to `last`, and the other lines.
    fn events_up_to(&self, last: u64) -> (Vec<u64>, Vec<Value>) {
        let (mut positions, mut others) = (Vec::new(), Vec::new());
        while positions.last() != Some(&last) {
            let line = self.json();
            match line["event"]["position"].as_u64() {
                Some(position) => positions.push(position),
                None => others.push(line),
            }
        }
        (positions, others)
    }

    fn signal(&self, number: i32) {
        signal(&self.child, number);
    }
}

fn signal(child: &Child, number: i32) {
    let pid = libc::pid_t::try_from(child.id()).expect("a process id");
    // SAFETY: kill touches no memory; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, number) }, 0);
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An origin whose events the test writes.
struct Source {
    running: Running,
    stdin: Option<ChildStdin>,
    number: u64,
}

impl Source {
    fn start(at: &str) -> Self {
        let mut running = Running::start(&format!("mirror feed flights - --at {at}"));
        let stdin = running.child.stdin.take();
        Self { running, stdin, number: 0 }
    }

    fn write(&mut self, count: u64) {
        let stdin = self.stdin.as_mut().expect("a pipe");
        for _ in 0..count {
            self.number += 1;
            let (number, key) = (self.number, self.number % 20);
            let event = format!(
                r#"{{"stream":"faa","number":{number},"key":"DL{key}","type":"position","fields":{{"at":{number}}}}}"#
            );
            writeln!(stdin, "{event}").expect("it reads its input");
        }
        stdin.flush().expect("it reads its input");
    }

    /// Ends the events, and waits until the mirrors have them.
    fn finish(mut self) {
        self.stdin = None;
        assert_eq!(self.running.child.wait().expect("it ends").code(), Some(0));
    }
}

fn mirror(number: u32, total: u32, join: Option<&NodeProcess>) -> NodeProcess {
    let serve = format!("mirror=flights:partitions={number}/{total}:http=127.0.0.1:0");
    let mut args = vec!["--serve", &serve];
    args.extend(join.iter().flat_map(|first| ["--join", &first.addr]));
    NodeProcess::start(&args)
}

fn status(at: &str) -> Value {
    run_args(&["mirror", "status", "flights", "--at", at, "-o", "json"]).json()
}

fn wait_until_current(at: &str, mirrors: usize) {
    wait_until("all mirrors are current", || {
        let status = status(at);
        let mut rows = status["mirrors"].as_array().expect("mirrors").iter();
        rows.len() == mirrors && rows.all(|row| row["is_current"] == true)
    });
}

/// The mirror that has a reader.
fn serving(at: &str) -> usize {
    let status = status(at);
    let rows = status["mirrors"].as_array().expect("mirrors");
    let serving = rows.iter().find(|row| row["readers"] == 1).and_then(|row| row["mirror"].as_u64());
    serving.unwrap_or_else(|| panic!("{status}")) as usize
}

#[test]
fn reader_goes_on_at_other_mirrors_after_one_was_killed_and_one_was_stopped() {
    let hub = NodeProcess::start(&[]);
    let mut mirrors: Vec<_> = (0..3).map(|number| Some(mirror(number, 3, Some(&hub)))).collect();
    wait_for_members(&hub.addr, 4);
    let mut source = Source::start(&hub.addr);
    source.write(100);
    wait_until_current(&hub.addr, 3);
    let watch = Running::start(&format!("mirror watch flights --at {} -o json", hub.addr));
    assert!(watch.json().get("begins").is_some());
    while watch.json().get("complete").is_none() {}
    let mut last = 100;
    for signal in [libc::SIGKILL, libc::SIGSTOP] {
        source.write(50);
        watch.events_up_to(last + 50);
        let victim = serving(&hub.addr);
        mirrors[victim].as_ref().expect("it lives").signal(signal);
        source.write(50);
        let (positions, others) = watch.events_up_to(last + 100);
        assert_eq!(positions, (last + 51..=last + 100).collect::<Vec<_>>(), "{others:?}");
        let moved = others.iter().any(|line| line.get("moved").is_some());
        assert!(moved, "{victim} was lost: {others:?} {}", status(&hub.addr));
        last += 100;
        if signal == libc::SIGKILL {
            mirrors[victim] = None;
        }
    }
    watch.signal(libc::SIGINT);
    let mut ended = watch.json();
    while ended.get("ended").is_none() {
        ended = watch.json();
    }
    let time = ended["ended"]["at"].as_str().expect("a time").to_owned();
    assert!(time.starts_with(&format!("flights=1.{last}")), "{time}");
    // A later run resumes there.
    source.write(10);
    let again = Running::start(&format!("mirror watch flights --at {} --from {time} -o json", hub.addr));
    let (positions, others) = again.events_up_to(last + 10);
    assert_eq!(positions, (last + 1..=last + 10).collect::<Vec<_>>(), "{others:?}");
}

#[test]
fn stopped_reader_is_told_that_it_lags_and_the_others_go_on() {
    let hub = mirror(0, 1, None);
    let mut source = Source::start(&hub.addr);
    source.write(10);
    wait_until_current(&hub.addr, 1);
    let stopped = Running::start(&format!("mirror watch flights --at {} -o json", hub.addr));
    let regular = Running::start(&format!("mirror watch flights --at {} -o json", hub.addr));
    for watch in [&stopped, &regular] {
        while watch.json().get("complete").is_none() {}
    }
    stopped.signal(libc::SIGSTOP);
    // More than the mirror keeps for readers that resume: 16 MiB and what is not committed.
    source.write(200_000);
    regular.events_up_to(200_010);
    stopped.signal(libc::SIGCONT);
    let mut before = 10;
    loop {
        let line = stopped.json();
        if let Some(position) = line["event"]["position"].as_u64() {
            assert_eq!(position, before + 1, "no gap");
            before = position;
        }
        if line["begins"].is_object() {
            assert!(line["begins"]["because"].is_object(), "{line}");
            break;
        }
        if before == 200_010 {
            break;
        }
    }
}

#[test]
fn watch_whose_output_nobody_reads_obeys_a_signal() {
    let hub = mirror(0, 1, None);
    let mut source = Source::start(&hub.addr);
    source.write(20_000);
    wait_until_current(&hub.addr, 1);
    let mut watch = treefold()
        .args(["mirror", "watch", "flights", "-o", "json", "--at", &hub.addr])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut stdout = BufReader::new(watch.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    assert!(line.contains("begins"), "{line}");
    // The pipe and the command's buffer hold far less than these events. Nobody reads the pipe from here on.
    source.write(100_000);
    wait_until("all events are mirrored", || {
        let shown = run(&format!("mirror status flights --at {} -o json", hub.addr));
        shown.stdout.contains("120000")
    });
    signal(&watch, libc::SIGTERM);
    let ended = watch.wait().expect("it ends although nobody reads");
    assert_eq!(ended.code(), Some(0));
    let mut said = String::new();
    watch.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(said.contains("nobody reads standard output"), "{said}");
}

#[test]
fn people_read_rows_events_and_the_time_to_resume_from() {
    let hub = mirror(0, 1, None);
    let mut source = Source::start(&hub.addr);
    source.write(40);
    wait_until_current(&hub.addr, 1);
    let watch = Running::start(&format!("mirror watch flights --at {} --key DL7 --timeout 5s", hub.addr));
    let line = || watch.lines.recv_timeout(WITHIN).expect("a line in time");
    assert!(line().starts_with("snapshot at 1."));
    assert_eq!(line(), r#"DL7 {"at":27}"#);
    assert!(line().starts_with("complete at flights=1."));
    source.write(20);
    assert_eq!(line(), r#"1.47 DL7 position {"at":47}"#);
    watch.signal(libc::SIGINT);
    let last = line();
    assert!(last.starts_with("resume with --from 'flights=1."), "{last}");
    source.finish();
    let shown = run(&format!("mirror status flights --at {}", hub.addr));
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    // The origin and the names of the columns stand above the row.
    let row: Vec<_> = shown.stdout.lines().nth(2).expect("a row").split_whitespace().collect();
    assert_eq!(row[..5], ["0", "1", "60", "0", "yes"], "{}", shown.stdout);
}

#[test]
fn watch_without_mirrors_or_with_an_invalid_filter_fails() {
    let hub = NodeProcess::start(&[]);
    let failed = run(&format!("mirror watch flights --at {} --timeout 100ms", hub.addr));
    assert_eq!(failed.code, 4, "{}", failed.stderr);
    let failed = run(&format!("mirror watch flights --at {} --from flights=x", hub.addr));
    assert_eq!(failed.code, 2, "{}", failed.stderr);
    assert!(failed.stderr.contains("expected FEED=EPOCH.POSITION"), "{}", failed.stderr);
    let failed = run(&format!("mirror watch flights --at {} --from prices=1.1", hub.addr));
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let failed = run(&format!("mirror status flights --at {}", hub.addr));
    assert_ne!(failed.code, 0, "{}", failed.stdout);
}

#[test]
fn node_serves_readers_over_http_until_it_is_told_to_end() {
    let mut hub = mirror(0, 1, None);
    let announced = hub.line();
    let url = announced.strip_prefix("readers of flights at http://").expect("an address");
    let (addr, path) = url.split_once('/').expect("a path");
    let mut source = Source::start(&hub.addr);
    source.write(5);
    wait_until_current(&hub.addr, 1);
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(WITHIN)).expect("a time-out");
    write!(stream, "GET /{path}?key=DL3 HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it reads");
    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains(r#"{"complete":{"#)));
    source.finish();
    hub.signal(libc::SIGTERM);
    assert!(
        lines.by_ref().any(|line| line.starts_with(r#"{"reached":{"at":"flights=1.5"#)),
        "the last place"
    );
    assert_eq!(hub.wait(), Some(0));
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_ok(), "the connection has ended in order");
}

/// The mirror's node must notice nothing but its silence: the feed goes on, and the mirror catches up.
#[test]
fn stopped_mirror_slows_no_other_and_catches_up_with_a_snapshot() {
    let hub = mirror(0, 2, None);
    let stopped = mirror(1, 2, Some(&hub));
    wait_for_members(&hub.addr, 2);
    let mut source = Source::start(&hub.addr);
    source.write(10);
    wait_until_current(&hub.addr, 2);
    let regular = Running::start(&format!("mirror watch flights --at {} -o json", hub.addr));
    while regular.json().get("complete").is_none() {}
    stopped.signal(libc::SIGSTOP);
    // Far more than the stream's window.
    source.write(100_000);
    stopped.signal(libc::SIGCONT);
    wait_until_current(&hub.addr, 2);
    source.write(10);
    wait_until("both mirrors have all events", || {
        let status = status(&hub.addr);
        let rows = status["mirrors"].as_array().expect("mirrors");
        rows.len() == 2 && rows.iter().all(|row| row["at"] == rows[0]["at"] && row["is_current"] == true)
    });
}
