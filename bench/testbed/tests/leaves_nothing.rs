//! Tests that a testbed is removed when its process ends, and that an impossible testbed is reported.
//!
//! The tests need root's rights, and a `treefold` built beside this program. If either is missing, a test
//! reports that it was skipped, and why.
#![allow(clippy::unwrap_used, reason = "a test stops at the first error")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TESTBED: &str = env!("CARGO_BIN_EXE_treefold-testbed");

/// The exit code on a machine where no testbed can be set up.
const CANT_RUN_HERE: i32 = 77;

/// Most time for the kernel and the guard to clean up.
const GONE_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the treefold that cargo has built beside this program.
fn treefold() -> Option<PathBuf> {
    let beside = Path::new(TESTBED).with_file_name("treefold");
    beside.is_file().then_some(beside)
}

fn skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}

fn command() -> Command {
    let mut command = Command::new(TESTBED);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    command.args(["--quick", "--folder"]).arg(folder);
    command
}

/// Starts a testbed. Returns its process and its description.
fn up(treefold: &Path) -> Result<(Child, serde_json::Value), i32> {
    let mut child =
        command().arg("--treefold").arg(treefold).arg("up").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    match serde_json::from_str(&line) {
        Ok(shown) => Ok((child, shown)),
        Err(_) => Err(child.wait().unwrap().code().unwrap_or(-1)),
    }
}

/// Returns whether a process runs. A zombie counts as dead.
fn is_alive(process: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Returns the names of this process's network interfaces.
fn interfaces() -> Vec<String> {
    let table = fs::read_to_string("/proc/net/dev").unwrap();
    table.lines().skip(2).map(|line| line.split(':').next().unwrap().trim().to_owned()).collect()
}

#[track_caller]
fn assert_soon(what: &str, holds: impl Fn() -> bool) {
    let give_up_at = Instant::now() + GONE_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < give_up_at, "{what} after {GONE_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_testbed_leaves_nothing_behind() {
    let Some(treefold) = treefold() else {
        return skip("there is no treefold beside treefold-testbed: cargo build -p treefold-cli");
    };
    let own = interfaces();
    for signal in ["KILL", "TERM"] {
        let (mut child, shown) = match up(&treefold) {
            Ok(up) => up,
            Err(CANT_RUN_HERE) => return skip("this machine, or this user, can't make network namespaces"),
            Err(code) => panic!("treefold-testbed ended with {code}"),
        };
        let processes: Vec<u64> =
            shown["processes"].as_array().unwrap().iter().map(|process| process.as_u64().unwrap()).collect();
        let directory = PathBuf::from(shown["directory"].as_str().unwrap());
        assert!(processes.len() > 4 && processes.iter().all(|&process| is_alive(process)));
        assert!(directory.is_dir());
        assert_eq!(interfaces(), own, "no interface may be added here");

        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        child.wait().unwrap();
        assert_soon("processes were left", || !processes.iter().any(|&process| is_alive(process)));
        assert_soon("the directory was left", || !directory.exists());
        assert_eq!(interfaces(), own);
    }
}

#[test]
fn missing_rights_are_reported_with_exit_code_77() {
    let id = fs::read_to_string("/proc/self/status").unwrap();
    let is_root = id.lines().any(|line| line.starts_with("Uid:\t0\t"));
    let mut command = command();
    command.args(["--treefold", "/bin/true", "clients"]).stdout(Stdio::null()).stderr(Stdio::piped());
    if is_root {
        // The user nobody, who may have no access to the build directory.
        command.uid(65_534).gid(65_534);
    }
    let Ok(child) = command.spawn() else { return skip("the user nobody can't run a program built by root") };
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(CANT_RUN_HERE), "{said}");
    assert!(said.contains("no testbed can be set up here") && said.contains("CAP_NET_ADMIN"), "{said}");
}
