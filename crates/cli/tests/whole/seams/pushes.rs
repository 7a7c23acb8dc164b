//! Push waves: a master at the front, and workers, which attach to the victim first, and elsewhere if that has faults.

use super::bed::Bed;
use super::streams::Program;
use super::ways::{Way, block_on};
use serde_json::{Value, json};
use std::io::Write;
use std::ops::Range;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use treefold::push::{PushError, Worker};

/// Each request has a number of its own.
static REQUESTS: AtomicU64 = AtomicU64::new(1);
/// The results of a way's workers.
const RESULTS: [&str; 2] = ["a\t2\nc\t1\n", "a\t1\nb\t5\n"];
const DEADLINE: Duration = Duration::from_secs(20);

/// Workers that attach before the first fault. None in a network, whose processes take in no workers.
pub(crate) struct Attached(Option<(Runtime, Vec<Worker>)>);

/// The numbers of a way's workers.
fn numbers(way: Way) -> Range<u32> {
    if way == Way::Command { 0..2 } else { 2..4 }
}

impl Attached {
    pub(crate) fn attach(bed: &Bed) -> Self {
        if bed.doors.is_empty() {
            return Self(None);
        }
        let runtime = Runtime::new().expect("a runtime");
        let attach = async |number| bed.worker(number).attach().await.expect("it attaches");
        let workers = (4..6).map(|number| runtime.block_on(attach(number))).collect();
        Self(Some((runtime, workers)))
    }

    /// Completes a request over each way, and one with these workers.
    pub(crate) fn push(&self, bed: &Bed, under: &str) {
        let Some((runtime, workers)) = &self.0 else { return };
        let at = |request: u64| format!("{} {under}, request {request}", bed.name);
        thread::scope(|scope| {
            for way in [Way::Command, Way::Rust] {
                scope.spawn(move || push(bed, way, Expect::Both, &at));
            }
            scope.spawn(move || {
                let request = next_request();
                let work = workers.iter().zip(RESULTS).map(async |(worker, result)| {
                    worker.push_last(request, result).await?;
                    worker.idle().await
                });
                runtime.block_on(rust(bed, request, 4..6, work, Expect::Both, &at(request)));
            });
        });
    }

    /// Nobody takes in a worker.
    pub(crate) fn push_without_nodes(&self, bed: &Bed, under: &str) {
        if self.0.is_none() {
            return;
        }
        let at = |request: u64| format!("{} {under}, request {request}", bed.name);
        thread::scope(|scope| {
            for way in [Way::Command, Way::Rust] {
                scope.spawn(move || push(bed, way, Expect::Nobody, &at));
            }
        });
    }
}

/// How a request ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Both,
    Nobody,
}

impl Expect {
    /// How long the master waits for workers that are attached nowhere.
    fn patience(self) -> Duration {
        Duration::from_secs(if self == Self::Both { 10 } else { 1 })
    }
}

fn next_request() -> u64 {
    REQUESTS.fetch_add(1, Ordering::Relaxed)
}

fn push(bed: &Bed, way: Way, expect: Expect, at: &impl Fn(u64) -> String) {
    let (request, numbers) = (next_request(), numbers(way));
    if way == Way::Command {
        return by_command(bed, request, numbers, expect, &at(request));
    }
    let work = numbers.clone().zip(RESULTS).map(async |(number, result)| {
        let worker = bed.worker(number).timeout(DEADLINE).attach().await?;
        worker.push_last(request, result).await?;
        worker.idle().await
    });
    block_on(rust(bed, request, numbers, work, expect, &at(request)));
}

fn by_command(bed: &Bed, request: u64, numbers: Range<u32>, expect: Expect, at: &str) {
    let (request, deadline) = (request.to_string(), format!("{}s", DEADLINE.as_secs()));
    let mut words = vec!["push", "master", "words/sum-lines", "--at", &bed.front, "--request", &request];
    let expected = format!("{}-{}", numbers.start, numbers.end - 1);
    let patience = format!("{}s", expect.patience().as_secs());
    words.extend(["--expect", &expected, "--deadline", &deadline, "--patience", &patience, "-o", "json"]);
    let master = bed.command(&words).spawn().expect("it can be started");
    let pushed = RESULTS.iter().zip(numbers).map(|(result, number)| {
        let (doors, number) = (bed.doors.join(","), number.to_string());
        let words = ["push", "worker", "words", "--at", &doors, "--worker", &number, "--request", &request];
        let mut worker =
            bed.command(&words).args(["--timeout", "20s"]).stdin(Stdio::piped()).spawn().expect("it starts");
        // It may have ended without reading.
        let _ = worker.stdin.take().expect("a pipe").write_all(result.as_bytes());
        Program(worker)
    });
    let pushed: Vec<Program> = pushed.collect();
    let ended = master.wait_with_output().expect("it ends");
    let answer: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let codes = pushed.into_iter().map(|mut worker| worker.0.wait().expect("it ends").code());
    let codes: Vec<Option<i32>> = codes.collect();
    match expect {
        Expect::Both => {
            let text = json!({"kind": "text", "text": "a\t3\nb\t5\nc\t1\n"});
            assert_eq!((&answer["status"], &answer["value"]), (&json!("full"), &text), "{at}: {answer}");
            assert_eq!(codes, [Some(0), Some(0)], "{at}");
        }
        Expect::Nobody => {
            assert_eq!(ended.status.code(), Some(4), "{at}: {answer}");
            assert_eq!(codes, [Some(5), Some(5)], "{at}");
        }
    }
}

/// Announces a request while its workers do their work.
async fn rust<W: Future<Output = Result<(), PushError>>>(
    bed: &Bed,
    request: u64,
    numbers: Range<u32>,
    mut work: impl Iterator<Item = W>,
    expect: Expect,
    at: &str,
) {
    let client = bed.client_of_front().await;
    let announced = client.announce("words/sum-lines", "", request, numbers.collect());
    let announced = announced.deadline(DEADLINE).patience(expect.patience());
    let mut next = || work.next().expect("two workers");
    let (reply, first, second) = tokio::join!(announced.min_coverage(0.0).into_future(), next(), next());
    let ended = [first, second];
    let reply = reply.unwrap_or_else(|error| panic!("{at}: {error}"));
    match expect {
        Expect::Both => {
            assert!(ended.iter().all(Result::is_ok), "{at}: {ended:?}");
            assert_eq!(reply.value.expect("a value").0, "a\t3\nb\t5\nc\t1\n", "{at}: {:?}", reply.missing);
        }
        Expect::Nobody => {
            let is_told = |ended: &Result<(), PushError>| matches!(ended, Err(PushError::Unreachable { .. }));
            assert!(ended.iter().all(is_told), "{at}: {ended:?}");
            assert!(reply.contributed.is_empty() && !reply.missing.is_empty(), "{at}: {:?}", reply.missing);
        }
    }
}
