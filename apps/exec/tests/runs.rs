//! Real processes: their arguments, their bounds, their ends.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use bytes::Bytes;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use treefold_exec::template::Template;
use treefold_exec::{Exec, Limits, Ready, Reduce, RunError, Spec};
use treefold_operators::{Body, Operator, OperatorError, Outcome, Partition, erase_async};

/// A service of this command with one partition.
fn spec(command: &str) -> Spec {
    Spec {
        command: Template::local(command).unwrap(),
        reduce: Reduce::Ready(Ready::Append),
        directory: None,
        limits: Limits::default(),
        empty: Vec::new(),
    }
}

fn operator(spec: Spec) -> Arc<dyn Operator> {
    erase_async(Exec::open(spec, [0], 1).unwrap())
}

fn partition() -> Partition {
    Partition::new("tool".into(), 0, 1, Arc::new(()))
}

async fn finished(outcome: Outcome) -> Result<String, OperatorError> {
    match outcome {
        Outcome::Later(future) => Ok(String::decode(&future.await?)?),
        Outcome::Now(_) => panic!("an exec operator returns a future"),
    }
}

fn on_a_runtime<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}

/// Runs the command of a service once.
fn run(spec: Spec, params: &Value) -> Result<String, OperatorError> {
    let operator = operator(spec);
    let params = if params.is_null() { Bytes::new() } else { params.encode().unwrap() };
    on_a_runtime(finished(operator.local(&partition(), &params)))
}

fn failure(spec: Spec) -> OperatorError {
    run(spec, &json!(null)).expect_err("the command fails")
}

fn cause(error: &OperatorError) -> &RunError {
    error.cause().and_then(|cause| cause.downcast_ref()).expect("a typed cause")
}

/// True if a process runs. A zombie does not: it has ended, and waits for the process that reaps orphans.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Returns once no process of these numbers is there; panics after a time limit.
fn wait_for_ends(pids: &[u32]) {
    let give_up_at = Instant::now() + Duration::from_secs(30);
    while let Some(pid) = pids.iter().find(|pid| lives(**pid)) {
        assert!(Instant::now() < give_up_at, "process {pid} still lives");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads the numbers of processes from a file, once it has `count` lines.
async fn pids_in(path: &Path, count: usize) -> Vec<u32> {
    let give_up_at = Instant::now() + Duration::from_secs(30);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() == count && text.ends_with('\n') {
            return text.lines().map(|line| line.parse().unwrap()).collect();
        }
        assert!(Instant::now() < give_up_at, "the command did not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A command with a child, which both write their numbers to a file and sleep.
fn sleepers(path: &Path) -> Spec {
    let path = path.display();
    spec(&format!("sh -c 'sh -c \"echo \\$\\$ >> {path}; sleep 300; true\" & echo $$ >> {path}; wait'"))
}

#[test]
fn a_query_is_one_argument_and_no_shell_reads_it() {
    for query in ["a b", "it's", "\"q\"", "$(touch pwned)", "; rm -rf x", "`id`", "a\nb", "*", "é", "-"] {
        let printed = run(spec("printf %s:%s {query} {partition}/{total}"), &json!({ "query": query }));
        if query == "-" {
            assert!(matches!(cause(&printed.unwrap_err()), RunError::QueryIsAnOption));
            continue;
        }
        assert_eq!(printed.unwrap(), format!("{query}:0/1\n"));
    }
    let shell = "sh -c 'printf \"%s\" \"$1\"' -- {query}";
    for query in ["$(id); \"x\"", "-x"] {
        assert_eq!(run(spec(shell), &json!(query)).unwrap(), format!("{query}\n"));
    }
}

#[test]
fn parameters_come_on_standard_input_if_no_word_names_them() {
    assert_eq!(run(spec("cat"), &json!("a\nb")).unwrap(), "a\nb\n");
    assert_eq!(run(spec("cat"), &json!({"k": 3})).unwrap(), "{\"k\":3}\n");
    assert_eq!(run(spec("cat"), &json!(null)).unwrap(), "");
    let long = "x".repeat(500_000);
    assert_eq!(run(spec("true"), &json!(long)).unwrap(), "", "a command need not read its input");
    assert_eq!(run(spec("cat"), &json!(long)).unwrap().len(), long.len() + 1);
}

#[test]
fn exit_codes_are_failures_with_the_last_lines_of_standard_error() {
    let failed = failure(spec("sh -c 'seq 100000 >&2; echo the reason >&2; exit 3'"));
    assert!(matches!(cause(&failed), RunError::Exit { code: 3, .. }), "{failed}");
    assert_eq!(failed.to_string(), "sh exited with code 3: 99998; 99999; 100000; the reason");
    let killed = failure(spec("sh -c 'kill -TERM $$'"));
    assert_eq!(killed.to_string(), "sh was ended by signal 15");
    let grep = || spec("grep -- {query} /dev/null");
    assert_eq!(run(grep(), &json!("x")).unwrap_err().to_string(), "grep exited with code 1");
    assert_eq!(run(Spec { empty: vec![1], ..grep() }, &json!("x")).unwrap(), "");
    let missing = failure(spec("/no/such/program"));
    assert!(missing.to_string().starts_with("can't start /no/such/program: "), "{missing}");
}

#[test]
fn output_and_memory_are_bounded() {
    let limits = Limits { output_bytes_max: 100_000, ..Limits::default() };
    let endless = failure(Spec { limits, ..spec("yes") });
    assert_eq!(endless.to_string(), "yes printed more than 100000 bytes (output) and was killed");
    let exact = run(Spec { limits, ..spec("head -c 100000 /dev/zero") }, &json!(null));
    assert_eq!(exact.unwrap().trim_end_matches('\n').len(), 100_000);
    let limits = Limits { memory_bytes_max: Some(64 << 20), ..Limits::default() };
    let greedy = failure(Spec { limits, ..spec("awk 'BEGIN { s = \"x\"; while (1) s = s s }'") });
    assert!(matches!(cause(&greedy), RunError::Exit { .. } | RunError::Signal { .. }), "{greedy}");
    let limit = run(Spec { limits, ..spec("sh -c 'ulimit -v'") }, &json!(null)).unwrap();
    assert_eq!(limit.trim(), "65536");
}

#[test]
fn dropped_future_kills_the_whole_group() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let operator = operator(sleepers(&file));
    let pids = on_a_runtime(async {
        let Outcome::Later(future) = operator.local(&partition(), &Bytes::new()) else { panic!("a future") };
        tokio::pin!(future);
        tokio::select! {
            _ = &mut future => panic!("it sleeps"),
            pids = pids_in(&file, 2) => pids,
        }
    });
    wait_for_ends(&pids);
}

#[test]
fn dropped_service_kills_its_processes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let operator = operator(sleepers(&file));
    let pids = on_a_runtime(async {
        let Outcome::Later(future) = operator.local(&partition(), &Bytes::new()) else { panic!("a future") };
        // The future has its own share of the operator, and ends with its runtime.
        tokio::spawn(future);
        pids_in(&file, 2).await
    });
    drop(operator);
    wait_for_ends(&pids);
}

#[test]
fn processes_in_the_background_end_with_the_command() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let background = format!("sh -c 'sleep 300 & echo $! > {}; echo done'", file.display());
    assert_eq!(run(spec(&background), &json!(null)).unwrap(), "done\n");
    wait_for_ends(&on_a_runtime(pids_in(&file, 1)));
}

#[test]
fn a_process_that_left_the_group_does_not_hold_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let script =
        "setsid sh -c \"echo \\$\\$ > F; exec sleep 20\" & while ! test -s F; do sleep 0.01; done; echo done";
    let script = script.replace('F', &file.display().to_string());
    let held = failure(spec(&format!("sh -c '{script}'")));
    assert!(matches!(cause(&held), RunError::Held { .. }), "{held}");
}

#[test]
fn the_clusters_token_is_not_in_the_environment() {
    let variables = run(spec("env"), &json!(null)).unwrap();
    assert!(variables.contains("PATH=") && !variables.contains("TREEFOLD_"), "{variables}");
}

#[test]
fn a_command_folds_two_partials_from_files_or_from_standard_input() {
    let fold = |line: &str, params: Value| {
        let reduce = Reduce::Command(Template::reduce(line).unwrap());
        let operator = operator(Spec { reduce, ..spec("true") });
        let text = |text: &str| text.to_owned().encode().unwrap();
        let outcome = operator.reduce(text("1\n3\n"), text("2\n"), &params.encode().unwrap());
        on_a_runtime(finished(outcome))
    };
    assert_eq!(fold("sort -m {a} {b}", json!(null)).unwrap(), "1\n2\n3\n");
    assert_eq!(fold("awk '{ s += $1 } END { print s }'", json!(null)).unwrap(), "6\n");
    assert_eq!(fold("grep -v -- {query}", json!({"query": "3"})).unwrap(), "1\n2\n");
    let failed = fold("sort --no-such-option {a} {b}", json!(null)).unwrap_err();
    assert!(failed.to_string().starts_with("sort exited with code 2: "), "{failed}");
}
