//! Applications whose workers push, as real processes: the commands, a worker in another language, and relays
//! that are killed and stopped while workers are attached.

use crate::real::{
    Ended, blocks, is_installed, paste, relays, run_args, run_with_input, treefold, wait_until,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn example_of_the_page_prints_the_result_when_pasted() {
    let page = include_str!("../../../../docs/push.md");
    let pasted = paste(&blocks(page, "sh").concat());
    // The workers print their ends while the master prints the result.
    let lines: Vec<&str> = pasted.stdout.lines().filter(|line| line.contains('\t')).collect();
    assert_eq!(lines, ["a\t3", "b\t5", "c\t1"], "{}{}", pasted.stdout, pasted.stderr);
    assert!(pasted.stderr.contains("full: coverage 1.000 (2 of 2 workers)"), "{}", pasted.stderr);
    assert_eq!(pasted.code, 0, "{}", pasted.stderr);
}

/// A child process that is killed when this is dropped.
struct Killed(Child);

impl Killed {
    fn output(mut self) -> Ended {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let read = |pipe: Option<Box<dyn std::io::Read>>, text: &mut String| {
            if let Some(mut pipe) = pipe {
                pipe.read_to_string(text).expect("UTF-8");
            }
        };
        read(self.0.stdout.take().map(|pipe| Box::new(pipe) as _), &mut stdout);
        read(self.0.stderr.take().map(|pipe| Box::new(pipe) as _), &mut stderr);
        let code = self.0.wait().expect("it ends").code().expect("ended by itself, not by a signal");
        Ended { code, stdout, stderr }
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(mut command: Command) -> Killed {
    Killed(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started"))
}

fn master(at: &str, request: &str, expect: &str) -> Killed {
    let mut command = treefold();
    command.args(["push", "master", "words/sum-lines", "--at", at, "--request", request, "--expect", expect]);
    command.args(["--deadline", "30s", "--patience", "20s", "-o", "json"]);
    spawn(command)
}

/// A worker in Python that begins to push once `gate` exists.
struct Foreign {
    process: Killed,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Foreign {
    fn start(worker: &str, at: &str, pieces: &[&str], gate: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/pushes/worker.py");
        let mut command = Command::new("python3");
        command.args([script, "words", worker, "9", at]).args(pieces).env("PUSH_WHEN", gate);
        // Pieces that went up through a relay that died are not asked for again, and the worker waits that long for it.
        command.env("PUSH_HOLD", "10");
        let mut process = spawn(command);
        let lines = BufReader::new(process.0.stdout.take().expect("a pipe")).lines();
        Self { process, lines }
    }

    /// Returns its next line of output.
    fn said(&mut self) -> String {
        let line = self.lines.next().and_then(Result::ok);
        line.unwrap_or_else(|| panic!("it has ended: {:?}", self.process.0.try_wait()))
    }
}

#[test]
fn master_and_worker_commands_complete_a_request() {
    let relays = relays(2, 2);
    let master = master(&relays[0].addr, "7", "0-1");
    let piece = ["push", "worker", "words", "--request", "7", "--piece-lines", "1", "-o", "json"];
    let whole = ["push", "worker", "words", "--request", "7"];
    let first = [&piece[..], &["--at", &relays[0].addr, "--worker", "0"]].concat();
    let (first, second) = std::thread::scope(|scope| {
        let first = scope.spawn(|| run_with_input(&first, "a\t2\nc\t1\n"));
        let second = [&whole[..], &["--at", &relays[1].addr, "--worker", "1"]].concat();
        let second = run_with_input(&second, "a\t1\nb\t5\n");
        (first.join().expect("it does not panic"), second)
    });
    assert_eq!((first.code, second.code), (0, 0), "{} {}", first.stderr, second.stderr);
    assert_eq!(first.json()["pieces"], json!(2));
    assert_eq!(second.stdout, "request 7 has ended: 1 pieces, 8 bytes\n");
    let ended = master.output();
    let answer: Value = ended.json();
    assert_eq!((ended.code, &answer["status"]), (0, &json!("full")), "{answer}");
    assert_eq!(answer["value"], json!({"kind": "text", "text": "a\t3\nb\t5\nc\t1\n"}));
}

#[test]
fn workers_in_another_language_push_and_survive_their_relay() {
    if !is_installed("python3", "--version", "python3") {
        return;
    }
    for signal in [libc::SIGKILL, libc::SIGTERM] {
        let mut relays = relays(3, 2);
        let folder = tempfile::tempdir().expect("a folder");
        let gate = folder.path().join("gate");
        let at = format!("{},{}", relays[1].addr, relays[2].addr);
        let pieces = ["a\t1\n", "b\t1\n", "c\t1\n"];
        let mut workers = [
            Foreign::start("0", &at, &pieces, Path::new("/")),
            Foreign::start("1", &at, &["a\t10\n"], &gate),
        ];
        for worker in &mut workers {
            assert_eq!(worker.said(), format!("attached to {}", relays[1].addr));
        }
        let master = master(&relays[0].addr, "9", "0-1");
        wait_until("the relay has pushes of a request that is open", || {
            let status = run_args(&["status", "--at", &relays[1].addr, "-o", "json"]).json();
            status["counters"]["pushes"] == json!(3) && status["open"]["waves"] != json!(0)
        });
        relays[1].signal(signal);
        relays[1].wait();
        for worker in &mut workers {
            assert_eq!(worker.said(), format!("attached to {}", relays[2].addr));
        }
        std::fs::write(&gate, "").expect("it can be written");
        workers.iter_mut().for_each(|worker| assert_eq!(worker.said(), "ended"));
        let answer = master.output().json();
        let text = "a\t11\nb\t1\nc\t1\n";
        assert_eq!(answer["value"], json!({"kind": "text", "text": text}), "signal {signal}: {answer}");
    }
}

#[test]
fn errors_have_their_exit_codes() {
    let relays = relays(1, 2);
    let at = relays[0].addr.as_str();
    let master = ["push", "master", "words/sum-lines", "--request", "1", "--expect", "0-1", "--at"];
    let none = run_args(&[&master[..], &[at, "--deadline", "300ms", "--patience", "100ms"]].concat());
    assert_eq!(none.code, 4);
    assert!(none.stderr.contains("missing workers 0-1: no_replica"), "{}", none.stderr);
    let other = run_args(&["push", "master", "hits/sum", "--request", "1", "--expect", "0", "--at", at]);
    assert_eq!(other.code, 2);
    assert!(other.stderr.contains("accepts (words)"), "{}", other.stderr);
    let worker = ["push", "worker", "--worker", "0", "--request", "1", "--timeout", "300ms", "--at", at];
    let refused = run_with_input(&[&worker[..], &["hits"]].concat(), "");
    assert_eq!(refused.code, 5);
    assert!(refused.stderr.contains("accepted here: words"), "{}", refused.stderr);
    let unannounced = run_with_input(&[&worker[..], &["words"]].concat(), "a\t1\n");
    assert_eq!(unannounced.code, 1);
    assert!(unannounced.stderr.contains("check that its master has announced it"), "{}", unannounced.stderr);
    let failed = run_args(&[&worker[..], &["words", "--packet", "{}"]].concat());
    assert_eq!(failed.code, 2, "{}", failed.stderr);
}
