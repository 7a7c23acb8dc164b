//! The demo over a small folder of real files: answers, faults, and its end.

use crate::real::{Ended, run_with_input, treefold};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// A folder with forty texts, and the folder of its index.
struct Corpus {
    folder: TempDir,
    data: TempDir,
}

impl Corpus {
    fn new() -> Self {
        let corpus = Self {
            folder: TempDir::new().expect("a temporary folder"),
            data: TempDir::new().expect("a temporary folder"),
        };
        for number in 0..40 {
            let animal = ["otter", "heron", "beaver", "newt"][number % 4];
            let text =
                format!("# Note {number}\n\nBy the river there lives one {animal}, number {number}.\n");
            std::fs::write(corpus.folder.path().join(format!("note-{number:02}.md")), text)
                .expect("a temporary folder");
        }
        corpus
    }

    fn args<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let path = |dir: &'a TempDir| Path::to_str(dir.path()).expect("a temporary path");
        let own = ["demo", "--path", path(&self.folder), "--data-dir", path(&self.data), "--nodes", "4"];
        [&own[..], &["--partitions", "8"], rest].concat()
    }

    fn demo(&self, rest: &[&str], input: &str) -> Ended {
        run_with_input(&self.args(rest), input)
    }
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn queries_on_the_command_line_are_answered_one_line_each() {
    let corpus = Corpus::new();
    let ended = corpus.demo(&["--query", "otter", "--query", "\"one heron\"", "-o", "json"], "");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let answers = lines(&ended);
    assert_eq!(answers.len(), 2);
    for (answer, (query, matched)) in answers.iter().zip([("otter", 10), ("\"one heron\"", 10)]) {
        assert_eq!(answer["query"], query);
        assert_eq!(answer["status"], "full");
        assert_eq!(answer["value"]["matched"], matched);
        assert_eq!(answer["coverage"]["contributed"], 8);
        assert!(answer["tree"]["node"].is_string());
    }
}

#[test]
fn text_shows_rank_path_title_snippet_and_coverage() {
    let shown = Corpus::new().demo(&["--query", "beaver"], "").stdout;
    for part in [
        "  1. note-",
        "Note ",
        "one beaver, number",
        "10 documents match",
        "coverage 1.000 (8 of 8 partitions)",
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour without a terminal");
}

#[test]
fn killed_node_loses_partitions_only_without_replicas() {
    let corpus = Corpus::new();
    let whole = corpus.demo(&["-o", "json", "--replicas", "2"], ":kill 1\notter\n");
    assert_eq!(whole.code, 0, "{} {}", whole.stdout, whole.stderr);
    assert_eq!(lines(&whole)[0]["value"]["matched"], 10);

    let holed = corpus.demo(&["-o", "json", "--replicas", "1"], ":kill 1\notter\n:heal\notter\n");
    assert_eq!(holed.code, 3, "{} {}", holed.stdout, holed.stderr);
    let answers = lines(&holed);
    let missing: Vec<u64> = answers[0]["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| lost["partition"].as_u64().unwrap())
        .collect();
    assert_eq!((answers[0]["status"].as_str(), missing), (Some("partial"), vec![1, 5]));
    assert_eq!(answers[1]["status"], "full", "after :heal");
}

#[test]
fn commands_from_a_pipe_are_executed() {
    let ended = Corpus::new()
        .demo(&[], "newt\n:tree\n:status\n:deadline 500ms\n:coverage 0.25\n:help\n:quit\notter\n");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for part in [
        "» newt",
        "reduce ms",
        "0=127.0.0.1:",
        "members in sight",
        "deadline of answers is 500ms",
        "at least 0.25",
        ":stall N",
    ] {
        assert!(ended.stdout.contains(part), "{part:?} is not in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("» otter"), "nothing is answered after :quit");
}

#[test]
fn samples_are_answered_without_input() {
    let corpus = Corpus::new();
    let output = treefold().args(corpus.args(&["-o", "json"])).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.lines().count() >= 2, "{text}");
}

#[test]
fn invalid_query_is_reported_once() {
    let ended = Corpus::new().demo(&["--query", &"x".repeat(1_025)], "");
    assert_eq!(ended.code, 2, "{}", ended.stdout);
    assert_eq!(ended.stderr.matches("at most 1024 are allowed").count(), 1, "{}", ended.stderr);
}

#[test]
fn invalid_input_ends_a_script_with_the_reason() {
    let corpus = Corpus::new();
    let ended = corpus.demo(&[], ":kill 9\n");
    assert_eq!(ended.code, 2);
    assert_eq!(ended.stderr, "treefold: node is 9; allowed: 0 to 3\n");
    let nowhere = run_with_input(&["demo", "--path", "/nowhere/at/all"], "");
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.stderr.contains("no such folder"), "{}", nowhere.stderr);
    let replicas = corpus.demo(&["--replicas", "9"], "");
    assert_eq!(replicas.code, 2);
    assert!(replicas.stderr.contains("replicas is 9"), "{}", replicas.stderr);
}
