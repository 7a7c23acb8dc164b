//! A testbed is gone when its process is, and where it can't be set up it says so.
//!
//! It takes root's rights, and a `treefold` that was built beside this program. Where either is missing the test says that
//! it was skipped, and why.
#![allow(clippy::unwrap_used, reason = "a test stops at what goes wrong")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TESTBED: &str = env!("CARGO_BIN_EXE_treefold-testbed");

/// The exit code for a machine that a testbed can't be set up on.
const CANT_RUN_HERE: i32 = 77;

/// How long the kernel, and the guard, may take to clear up.
const GONE_TIMEOUT: Duration = Duration::from_secs(20);

/// The programs cargo has built, side by side.
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

/// A testbed that stands, and what it said of itself.
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

/// A process that nobody has waited for yet is dead all the same.
fn is_alive(process: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// The names of this process's own interfaces.
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
fn whatever_ends_a_testbed_nothing_of_it_is_left() {
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
        assert_eq!(interfaces(), own, "nothing is put beside what was there");

        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
        child.wait().unwrap();
        assert_soon("processes were left", || !processes.iter().any(|&process| is_alive(process)));
        assert_soon("the directory was left", || !directory.exists());
        assert_eq!(interfaces(), own);
    }
}

#[test]
fn without_the_rights_it_says_so_and_ends_with_a_code_of_its_own() {
    let id = fs::read_to_string("/proc/self/status").unwrap();
    let is_root = id.lines().any(|line| line.starts_with("Uid:\t0\t"));
    let mut command = command();
    command.args(["--treefold", "/bin/true", "clients"]).stdout(Stdio::null()).stderr(Stdio::piped());
    if is_root {
        // nobody, who may not even be let into the directory this was built in
        command.uid(65_534).gid(65_534);
    }
    let Ok(child) = command.spawn() else { return skip("nobody may run what root has built") };
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(CANT_RUN_HERE), "{said}");
    assert!(said.contains("no testbed can be set up here") && said.contains("CAP_NET_ADMIN"), "{said}");
}
