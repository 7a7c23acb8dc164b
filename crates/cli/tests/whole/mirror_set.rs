//! `treefold mirror set` on a running feed: rules are switched while events flow, and bad ones harm nothing.

use crate::real::{
    Ended, NodeProcess, run, run_args, run_with_input, treefold, wait_for_members, wait_until,
};
use serde_json::Value;
use std::process::{Child, Stdio};

/// Starts mirror `number` of two of the feed `flights`.
fn mirror(number: u32, join: Option<&NodeProcess>) -> NodeProcess {
    let serve = format!("mirror=flights:partitions={number}/2");
    let mut args = vec!["--serve", &serve];
    args.extend(join.iter().flat_map(|first| ["--join", &first.addr]));
    NodeProcess::start(&args)
}

/// A running origin, killed when dropped.
struct Feed(Child);

impl Feed {
    /// Starts an origin that plays a trace at the times of its recording.
    fn start(at: &NodeProcess, trace: &std::path::Path, more: &[&str]) -> Self {
        let mut command = treefold();
        command.args(["mirror", "feed", "flights", trace.to_str().expect("a path"), "--as-recorded"]);
        let command = command.args(["--at", &at.addr]).args(more).stdout(Stdio::null());
        Self(command.spawn().expect("the program can be started"))
    }

    fn signal(&mut self, signal: i32) -> Option<i32> {
        let pid = libc::pid_t::try_from(self.0.id()).expect("a process id");
        // SAFETY: kill touches no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        self.0.wait().expect("it ends").code()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn trace(directory: &tempfile::TempDir) -> std::path::PathBuf {
    let path = directory.path().join("trace.jsonl");
    std::fs::write(&path, run("mirror flights --events 100000").stdout).expect("a file");
    path
}

fn set(at: &NodeProcess, args: &[&str]) -> Ended {
    run_args(&[&["mirror", "set", "flights", "--at", &at.addr, "-o", "json"], args].concat())
}

fn status(at: &NodeProcess) -> Value {
    run_args(&["mirror", "status", "flights", "--at", &at.addr, "-o", "json"]).json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is a number"))
}

/// Two mirrors with an origin that has sent them events.
fn running_feed(trace: &std::path::Path, more: &[&str]) -> (NodeProcess, NodeProcess, Feed) {
    let first = mirror(0, None);
    let second = mirror(1, Some(&first));
    wait_for_members(&first.addr, 2);
    let feed = Feed::start(&first, trace, more);
    wait_until("both mirrors have events", || {
        let status = status(&second);
        let mirrors = status["origin"]["mirrors"].as_array().map_or(0, Vec::len);
        mirrors == 2
            && status["mirrors"]
                .as_array()
                .is_some_and(|all| all.iter().all(|one| number(&one["position"]) > 0))
    });
    (first, second, feed)
}

#[test]
fn rules_are_switched_while_events_flow_at_one_position_everywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = trace(&directory);
    let (first, second, mut feed) = running_feed(&trace, &[]);
    // A reader of each mirror notes the version of the rules with each snapshot; the mirrors' answers have it too.
    let rules = directory.path().join("rules.toml");
    std::fs::write(&rules, "[[rule]]\nname = 'no'\ndiscard = { type = 'position' }\n").expect("a file");
    let rules = rules.to_str().expect("a path");
    // The other node is asked: it finds the origin.
    let answer = set(&second, &["--rules", rules]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let answer = answer.json();
    assert_eq!((number(&answer["epoch"]), number(&answer["rules_version"])), (1, 2), "{answer}");
    let from = number(&answer["position"]);
    wait_until("both mirrors have the new version", || {
        let status = status(&first);
        let mirrors = status["mirrors"].as_array().expect("mirrors");
        for one in mirrors {
            let (position, version) = (number(&one["position"]), number(&one["rules_version"]));
            assert_eq!(version, if position < from { 1 } else { 2 }, "{status} with {answer}");
        }
        mirrors.iter().all(|one| one["rules_version"] == 2)
    });
    let shown = set(&first, &["--show"]).json();
    assert!(shown["rules"].as_str().is_some_and(|text| text.contains("discard")), "{shown}");
    let report = status(&first);
    assert!(number(&report["origin"]["rules"][0]["suppressed"]) > 0, "{report}");
    // Parameters change in the present rules.
    let answer = set(&first, &["--checkpoint-every", "7", "--overwrite", "status=3", "--show"]).json();
    let text = answer["rules"].as_str().expect("rules");
    assert!(
        text.contains("every_events = 7") && text.contains("discard") && text.contains("run = 3"),
        "{text}"
    );
    assert_eq!(feed.signal(libc::SIGINT), Some(0));
    // The feed has no origin any more, and its mirrors still answer.
    let answer = set(&first, &["--mode", "loaded"]);
    assert_eq!(answer.code, 5, "{}", answer.stdout);
    let told = answer.stdout + &answer.stderr;
    assert!(told.contains("has no running origin") || told.contains("does not answer"), "{told}");
    assert_eq!(status(&first)["origin"], Value::Null);
}

#[test]
fn bad_rules_are_refused_and_harm_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = trace(&directory);
    let (first, _second, _feed) = running_feed(&trace, &[]);
    let bad = "[[rule]]\nname = \"run\"\noverwrite = { type = \"position\", run = 1 }\n";
    let args = ["mirror", "set", "flights", "--at", &first.addr, "--rules", "-"];
    let refused = run_with_input(&args, bad);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("standard input:2:8: rule `run`: run is 1"), "{}", refused.stderr);
    // Rules that only the origin can judge: the file is valid, and the origin lacks the function.
    let unknown = "[[rule]]\nname = \"own\"\nfunction = { name = \"own\", type = \"position\" }\n";
    let refused = run_with_input(&args, unknown);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("rule `own`: function `own` is unknown here"), "{}", refused.stderr);
    for (args, code, told) in [
        (&["--overwrite", "position=0"][..], 1, "run is 0; allowed: 2 to 1000000"),
        (&["--checkpoint-every", "0"], 1, "every_events is 0"),
        (&["--adapt", "ready_queue=3:9"], 1, "primary is 3, secondary 9"),
        (&["--adapt", "load=3:1"], 2, "ready_queue, backup_queue or pending_requests"),
        (&["--if-version", "1"], 2, "--if-version needs a change"),
    ] {
        let refused = set(&first, args);
        let text = refused.stdout + &refused.stderr;
        assert_eq!(refused.code, code, "{args:?}: {text}");
        assert!(text.contains(told), "{args:?}: {text}");
    }
    let before = status(&first);
    assert_eq!(before["origin"]["rules_version"], 1, "{before}");
    wait_until("events still flow", || status(&first)["origin"]["position"] != before["origin"]["position"]);
}

/// A function that mirrors the events with even numbers, and traps at every hundredth event.
const EVEN: &str = r#"(module (memory (export "memory") 2)
    (func (export "treefold_abi_v1"))
    (func (export "treefold_alloc") (param i32) (result i32) (i32.const 4096))
    (func (export "treefold_filter_open") (param i32 i32) (result i64) (i64.const 0))
    (func (export "treefold_filter_up") (param $pieces i32) (param i32) (param $tag i64) (param i64) (result i64)
        (if (i64.eqz (i64.rem_u (local.get $tag) (i64.const 100))) (then (unreachable)))
        (if (i64.eq (i64.and (local.get $tag) (i64.const 1)) (i64.const 1)) (then (return (i64.const 0))))
        (i64.store (i32.const 512) (i64.load offset=8 (local.get $pieces)))
        (i64.const 0x200_0000_0001)))"#;

#[test]
fn function_in_webassembly_is_sent_to_the_running_origin() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = trace(&directory);
    let (rules, module) = (directory.path().join("rules.toml"), directory.path().join("even.wasm"));
    let text = "[[rule]]\nname = \"own\"\nfunction = { name = \"even\", type = \"position\" }\n";
    std::fs::write(&rules, text).expect("a file");
    std::fs::write(&module, wat::parse_str(EVEN).expect("a module")).expect("a file");
    let function = format!("even={}", module.display());
    let rules = rules.to_str().expect("a path");
    let played =
        ["mirror", "replay", trace.to_str().expect("a path"), "--rules", rules, "--function", &function];
    let played = run_args(&[&played[..], &["-o", "json"]].concat()).json();
    let errors = number(&played["rules"][0]["errors"]);
    assert!(errors > 0 && number(&played["rules"][0]["suppressed"]) > 10 * errors, "{played}");

    let (first, second, mut feed) = running_feed(&trace, &[]);
    let answer = set(&second, &["--rules", rules, "--function", &function]);
    assert_eq!(answer.code, 0, "{}{}", answer.stdout, answer.stderr);
    wait_until("the function has failed, and the origin goes on", || {
        let status = status(&first);
        let rule = &status["origin"]["rules"][0];
        let error = status["origin"]["function_error"].as_str().unwrap_or_default();
        number(&rule["suppressed"]) > 0 && number(&rule["errors"]) > 0 && error.contains("unreachable")
    });
    let text = run_args(&["mirror", "status", "flights", "--at", &first.addr]).stdout;
    assert!(text.contains("origin: rule own: the function failed on "), "{text}");
    // A module that is none is refused, and the function stays.
    let wrong = format!("even={rules}");
    let refused = set(&first, &["--function", &wrong]).json();
    assert_eq!(refused["refused"]["reason"], "function", "{refused}");
    assert_eq!(feed.signal(libc::SIGINT), Some(0));

    // The command takes functions from the beginning too.
    let mut started =
        Feed::start(&first, &trace, &["--epoch", "2", "--rules", rules, "--function", &function]);
    wait_until("the function has dropped events", || {
        let origin = &status(&first)["origin"];
        origin["epoch"] == 2 && origin["rules"][0]["suppressed"].as_u64() > Some(0)
    });
    assert_eq!(started.signal(libc::SIGINT), Some(0));
    let line = format!("mirror feed flights {} --function {function} --at {}", trace.display(), first.addr);
    let refused = run(&line);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("no rule uses the function `even`"), "{}", refused.stderr);
}

#[test]
fn of_two_concurrent_changes_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = trace(&directory);
    let (first, second, _feed) = running_feed(&trace, &[]);
    let start = |at: &NodeProcess, every: &str| {
        let mut command = treefold();
        command.args(["mirror", "set", "flights", "--at", &at.addr, "-o", "json"]);
        command.args(["--if-version", "1.1", "--checkpoint-every", every]).stdout(Stdio::piped());
        command.spawn().expect("the program can be started")
    };
    let both = [start(&first, "11"), start(&second, "12")];
    let answers = both.map(|one| {
        let ended = one.wait_with_output().expect("it ends");
        let answer: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
        (ended.status.code(), answer)
    });
    let won: Vec<usize> = (0..2).filter(|&at| answers[at].0 == Some(0)).collect();
    let &[winner] = &won[..] else { panic!("{answers:?}") };
    let refused = &answers[1 - winner].1;
    assert_eq!(refused["refused"]["reason"], "version", "{refused}");
    assert_eq!(refused["rules_version"], 2, "{refused}");
    let shown = set(&first, &[]).json();
    let every = ["every_events = 11", "every_events = 12"][winner];
    assert!(shown["rules"].as_str().is_some_and(|text| text.contains(every)), "{shown}");
}

#[test]
fn restarted_origin_has_the_rules_of_its_command_and_a_later_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = trace(&directory);
    let journal = directory.path().join("journal");
    let journal = ["--journal", journal.to_str().expect("a path")];
    let (first, _second, mut feed) = running_feed(&trace, &journal);
    assert_eq!(set(&first, &["--checkpoint-every", "9"]).json()["rules_version"], 2);
    let position = number(&status(&first)["origin"]["position"]);
    wait_until("events were sent under the new rules", || {
        number(&status(&first)["origin"]["position"]) > position
    });
    feed.signal(libc::SIGKILL);
    let _feed = Feed::start(&first, &trace, &journal);
    wait_until("the new origin has both mirrors", || {
        let origin = &status(&first)["origin"];
        origin["epoch"] == 2 && origin["mirrors"].as_array().is_some_and(|all| all.len() == 2)
    });
    let shown = set(&first, &[]).json();
    assert_eq!((&shown["epoch"], &shown["rules_version"]), (&2.into(), &3.into()), "{shown}");
    assert!(shown["rules"].as_str().is_some_and(|text| text.contains("every_events = 50")), "{shown}");
    // A version of the former origin does not name these rules.
    let refused = set(&first, &["--if-version", "1.3", "--mode", "loaded"]).json();
    assert_eq!(refused["refused"]["reason"], "version", "{refused}");
}
