//! Tests with real processes: trees start, sums are right (the root checks every one), and no process
//! outlives its tree.

#![allow(clippy::unwrap_used, reason = "a test cannot continue without it")]

use std::process::{Command, Output, Stdio};

fn floor(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treefold-floor"));
    command.args(arguments.split_whitespace());
    command
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn every_shape_gives_its_figures() {
    let output = floor("--nodes 2,9,20 --fanout 1,2,flat --rounds 50 --depth 8 -o json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(lines.len(), 9, "three sizes, three shapes");
    assert!(lines[0].starts_with(r#"{"nodes":2,"shape":"kary:1","#), "{}", lines[0]);
    assert!(lines[8].starts_with(r#"{"nodes":20,"shape":"flat","#), "{}", lines[8]);
    for figure in ["startup_ms", "roundtrip_us_p50", "roundtrip_us_p99", "waves_per_s", "cpu_us_per_wave"] {
        assert!(lines.iter().all(|line| line.contains(figure)), "{figure} is missing");
    }
}

#[test]
fn an_invalid_command_line_is_a_usage_error() {
    let output = floor("--nodes 0").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--nodes: 0 is not within"));
}

/// These tests need the kernel's list of a process's children, so they run on Linux only.
#[cfg(target_os = "linux")]
mod lost_processes {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn children(process: u32) -> Vec<u32> {
        let listed = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        listed.unwrap_or_default().split_whitespace().map(|child| child.parse().unwrap()).collect()
    }

    /// Polls until `look` finds something. Gives up after a number of polls, so that a defect fails instead
    /// of hanging.
    fn look_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..30_000 {
            if let Some(seen) = look() {
                return seen;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("expected to see {what}, but gave up");
    }

    /// Waits for both processes below the launcher.
    fn wait_for_chain(launcher: u32) -> [u32; 2] {
        look_for("the chain", || {
            let [inner] = children(launcher)[..] else { return None };
            let [leaf] = children(inner)[..] else { return None };
            Some([inner, leaf])
        })
    }

    fn wait_for_end(process: u32) {
        look_for("a process's end", || match std::fs::read_to_string(format!("/proc/{process}/stat")) {
            // A zombie has ended; its new parent has not reaped it yet.
            Ok(status) if !status.contains(") Z ") => None,
            _ => Some(()),
        });
    }

    fn kill(process: u32) {
        let status = Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();
        assert!(status.success());
    }

    fn endless_chain() -> std::process::Child {
        floor("--nodes 3 --fanout 1 --rounds 1000000")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_killed_launcher_leaves_no_process() {
        let mut launcher = endless_chain();
        let below = wait_for_chain(launcher.id());
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        below.into_iter().for_each(wait_for_end);
    }

    #[test]
    fn a_killed_node_ends_the_tree_with_a_failure() {
        let launcher = endless_chain();
        let below = wait_for_chain(launcher.id());
        kill(below[1]);
        let output = launcher.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr).lines().count(),
            1,
            "only the root must report it"
        );
        below.into_iter().for_each(wait_for_end);
    }
}
