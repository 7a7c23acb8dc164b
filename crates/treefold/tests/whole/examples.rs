//! The examples run as their comments say.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The program of an example, which cargo builds beside the tests.
pub(crate) fn example(name: &str) -> Command {
    let tests = std::env::current_exe().expect("the test has a path");
    let built: PathBuf = tests.ancestors().nth(2).expect("it is in the target directory").join("examples");
    Command::new(built.join(name))
}

fn printed(mut command: Command) -> String {
    let output = command.output().expect("the example is built");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// A node of the example, ended when dropped.
struct Host(Child);

impl Host {
    /// Starts a node and returns its address.
    fn start(args: &[&str]) -> (Self, String) {
        let mut command = example("logs");
        command.args(["node", "--listen", "127.0.0.1:0"]).args(args).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example is built");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it prints its address");
        let addr = line.trim().strip_prefix("listening on ").expect("it prints its address").to_owned();
        (Self(child), addr)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn aborted_local_costs_one_partition() {
    let printed = printed(example("isolated"));
    assert!(
        printed.contains("partition 1 is missing: local_panicked: the process of the local was"),
        "{printed}"
    );
    assert!(printed.ends_with("2 of 2 partitions\n"), "{printed}");
}

#[test]
fn best_of_all_partitions_is_found() {
    let printed = printed(example("top_k"));
    assert!(printed.starts_with("8 of 8 partitions"), "{printed}");
    assert_eq!(printed.lines().count(), 1 + 10, "{printed}");
}

#[test]
fn stream_gives_the_warmest_of_four() {
    let printed = printed(example("streaming"));
    let warmest: Vec<&str> = printed.lines().filter_map(|line| Some(line.split_once("shows ")?.1)).collect();
    assert_eq!(warmest, ["23.5°", "24°", "24.5°", "25°", "25.5°"], "{printed}");
}

#[test]
fn quorum_of_endpoints_is_enough_for_a_wave() {
    let printed = printed(example("quorum"));
    let counts: Vec<u32> = printed.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    assert_eq!(counts.len(), 3, "{printed}");
    assert!(counts.iter().all(|count| (3..=4).contains(count)), "{printed}");
}

#[test]
fn own_service_answers_and_says_what_is_missing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path of text").to_owned()
    };
    let (first, second) = (file("a", "error: disk\nready\n"), file("b", "error: net\nerror: disk\n"));
    let (_first, addr) = Host::start(&[&first, "--partition", "0/2"]);
    let ask = || {
        let mut command = example("logs");
        command.args(["ask", "error", "--at", &addr]);
        printed(command)
    };
    assert_eq!(ask(), "coverage 0.50\n1 lines\n", "the second partition has not been started");
    let (_second, _) = Host::start(&[&second, "--partition", "1/2", "--join", &addr]);
    assert_eq!(ask(), "coverage 1.00\n3 lines\n");
}
