//! The demo of mirrors: its scripted scenario, its board on a terminal, and the end of its processes.

use crate::pseudo_terminal::OnTerminal;
use crate::real::{run, treefold, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn scripted_run_loses_no_event_over_kills_of_a_mirror_and_the_origin() {
    let ended = run("demo --flights --seconds 6 -o json");
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let happened = |part: &str| {
        lines.iter().any(|line| line["happened"].as_str().is_some_and(|happened| happened.contains(part)))
    };
    for part in
        ["is dead", "the board goes on at mirror", "has started again", "epoch 2 continues", "readers join"]
    {
        assert!(happened(part), "{part:?} is not in {}", ended.stdout);
    }
    let summary = &lines.last().expect("a summary")["summary"];
    assert_eq!((&summary["gaps"], &summary["kills"], &summary["epochs"]), (&0.into(), &2.into(), &2.into()));
    assert_eq!(summary["last_values_equal"], true, "{summary}");
    assert!(summary["resumed"].as_u64() >= Some(1), "{summary}");
    assert_eq!(summary["storm"]["joined"], 50, "{summary}");
    assert!(
        summary["mirrored"].as_u64() > Some(100) && summary["events"].as_u64() > Some(1_000),
        "{summary}"
    );
}

/// Processes whose command line contains all of these words.
fn processes(words: &[&str]) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("it is there").filter_map(Result::ok);
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_words = |number: &u32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        words.iter().all(|word| line.contains(word))
    };
    numbers.filter(has_words).collect()
}

/// The processes that a demo has started: they have the demo's number in the name of their cluster.
fn children(demo: u32) -> Vec<u32> {
    processes(&[&format!("--cluster bench-{demo} ")])
}

#[test]
fn killed_demo_leaves_no_process() {
    let mut demo = treefold()
        .args(["demo", "--flights", "--seconds", "60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be started");
    let mut lines = BufReader::new(demo.stdout.take().expect("a pipe")).lines();
    lines.next().expect("the board's snapshot").expect("text");
    let started = children(demo.id());
    assert_eq!(started.len(), 4, "three mirrors and the origin");
    demo.kill().expect("it lives");
    demo.wait().expect("it ends");
    wait_until("all processes have ended", || {
        started.iter().all(|number| !children(demo.id()).contains(number))
    });
}

#[test]
fn board_is_shown_on_a_terminal_which_it_restores() {
    let mut command = treefold();
    command.args(["demo", "--flights"]);
    let mut demo = OnTerminal::start(command, 120, 40);
    let id = demo.child.id();
    wait_until("flights are shown", || demo.screen().contains("in flight"));
    assert!(!demo.is_as_a_shell_wants_it());
    demo.press("0");
    wait_until("the mirror is dead", || demo.screen().contains("mirror 0 is dead"));
    demo.press("0");
    wait_until("it has started", || demo.screen().contains("mirror 0 has started again"));
    demo.press("o");
    wait_until("the origin is back", || demo.screen().contains("epoch 2 continues"));
    demo.press("j");
    wait_until("all have joined", || demo.screen().contains("200 readers have a snapshot"));
    demo.resize(60, 12);
    demo.press("?");
    wait_until("help is shown", || demo.screen().contains(" help "));
    demo.press("q");
    wait_until("it has ended", || demo.child.try_wait().expect("a child").is_some());
    assert!(demo.child.wait().expect("it ends").success(), "{}", demo.shown());
    assert!(demo.is_as_a_shell_wants_it());
    assert_eq!(children(id), [] as [u32; 0]);
    assert!(demo.shown().contains("and missed 0"), "{}", demo.shown());
}

#[test]
fn signal_ends_the_demo_and_restores_the_terminal() {
    let mut command = treefold();
    command.args(["demo", "--flights"]);
    let mut demo = OnTerminal::start(command, 80, 24);
    let id = demo.child.id();
    wait_until("flights are shown", || demo.screen().contains("in flight"));
    let pid = libc::pid_t::try_from(id).expect("a process id");
    // SAFETY: kill touches no memory; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert!(demo.child.wait().expect("it ends").success(), "{}", demo.shown());
    assert!(demo.is_as_a_shell_wants_it());
    assert_eq!(children(id), [] as [u32; 0]);
}

#[test]
fn flags_of_the_two_demos_are_not_mixed() {
    for line in ["demo --seconds 10", "demo --flights --query otter", "demo --flights --seconds 1"] {
        let refused = run(line);
        assert_eq!(refused.code, 2, "{line}: {}", refused.stderr);
    }
}
