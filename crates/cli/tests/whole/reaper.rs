//! Processes that commands leave behind, where the node's process inherits them: as a subreaper, and as process 1.

use crate::real::{NodeProcess, run_args, treefold, wait_until};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Each call of a partition leaves a process, which becomes an orphan when its group is killed.
const LEAVES_ONE: &str = "exec=b:command=sh -c \"sleep 9 & echo 5\":reduce=sum-lines:partitions=0-3/4";

/// The program under test, as a process that inherits orphans.
fn subreaper() -> Command {
    let mut command = treefold();
    // SAFETY: prctl with these arguments touches no memory and may be called between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    command
}

/// The children of a process, each with its state as the system writes it: `Z` for one whose status nobody has collected.
fn children(of: u32) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let Some(id) = entry.unwrap().file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        let (_, after_name) = stat.rsplit_once(')').unwrap();
        let mut fields = after_name.split_whitespace();
        let (state, parent) = (fields.next().unwrap(), fields.next().unwrap());
        if parent == of.to_string() {
            found.push((id, state.to_owned()));
        }
    }
    found
}

/// Calls, and looks for defunct processes. `inherits` is the process that gets the orphans.
fn no_orphan_stays(node: &NodeProcess, inherits: u32) {
    for _ in 0..3 {
        let called = run_args(&["call", "b/run", "--at", &node.addr, "--deadline", "20s", "-o", "json"]);
        // The exit statuses of the node's own commands reach the node.
        assert_eq!(called.json()["value"], "20\n", "{}{}", called.stdout, called.stderr);
    }
    wait_until("every orphan's status is collected", || {
        let states: Vec<String> = children(inherits).into_iter().map(|(_, state)| state).collect();
        !states.is_empty() && !states.contains(&"Z".to_owned())
    });
}

#[test]
fn a_subreaper_collects_what_commands_leave_behind() {
    let mut node = NodeProcess::of(subreaper(), &["--serve", LEAVES_ONE]);
    no_orphan_stays(&node, node.id());
    node.signal(libc::SIGTERM);
    assert_eq!(node.wait(), Some(0), "the signal reaches the node, and its exit code comes back");
}

#[test]
fn process_1_collects_what_commands_leave_behind() {
    let apart = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let is_permitted = Command::new("unshare").args(apart).arg("true").output();
    if !is_permitted.is_ok_and(|ended| ended.status.success()) {
        eprintln!("skipped: this user may not make a namespace of processes");
        return;
    }
    let plain = treefold();
    let mut command = Command::new("unshare");
    command.args(apart).arg(plain.get_program()).env("NO_COLOR", "1").env_remove("TREEFOLD_LOG");
    let mut node = NodeProcess::of(command, &["--serve", LEAVES_ONE]);
    let first = children(node.id())[0].0;
    no_orphan_stays(&node, first);
    let first = libc::pid_t::try_from(first).unwrap();
    // SAFETY: kill touches no memory; the process runs, because nothing else has ended it.
    assert_eq!(unsafe { libc::kill(first, libc::SIGTERM) }, 0);
    assert_eq!(node.wait(), Some(0), "the signal reaches the node, and its exit code comes back");
}

#[test]
fn exit_codes_of_a_subreaper_are_those_of_the_command() {
    for (line, code) in [(&["--version"][..], 0), (&["call", "--nonsense"][..], 2)] {
        assert_eq!(subreaper().args(line).output().unwrap().status.code(), Some(code));
    }
}
