//! Slow processors for servers that really spin: each server process is in a control group of its own, with a quota.
//!
//! The paper has a machine for each server. Here many servers share the processors of one machine, and each has a
//! fixed share of one of them, whether or not the others are busy. The kernel stops all threads of a server that has
//! used up its quota until the next period, so polls and requests wait for the same processor, as on the paper's
//! machines.
//!
//! Each server stays on one processor, because the kernel gives a quota to processors in slices: a thread on another
//! processor could wait for a slice that nobody uses. Fronts, the load index manager and the caller stand for machines
//! of their own, so they run before servers (`chrt`). Servers have a hundred times the weight of other programs, so that
//! they get their quotas on a machine that is busy otherwise.
//!
//! The groups are removed at the end. A benchmark that was killed leaves empty groups behind, and the next one removes
//! them.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use treefold_cli::exit::Failure;

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// How the names of groups begin; the id of the benchmark's process and the number of the server follow.
const PREFIX: &str = "bench-polling-";
/// The shortest period. A server without quota waits for up to a period.
const PERIOD_MIN_US: f64 = 5_000.0;
/// The least quota that the kernel accepts.
const QUOTA_MIN_US: f64 = 1_000.0;
/// Attempts to remove a group whose last process may not be gone yet, and the pause between them.
const REMOVALS: u32 = 50;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// The control groups of the servers. Dropping them removes them; the servers must have ended.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<PathBuf>);

impl Groups {
    /// Puts each server into a group with this share of one processor, and has the others run before them.
    ///
    /// # Errors
    /// If no controller is there, or the system refuses something. Some servers may be in groups then.
    pub(super) fn slow_down(&mut self, servers: &[u32], others: &[u32], share: f64) -> Result<(), Failure> {
        let controller = Controller::find(Path::new(MOUNT))?;
        controller.remove_leftovers();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for (number, &server) in servers.iter().enumerate() {
            let path = controller.root.join(format!("{PREFIX}{}-{number}", std::process::id()));
            fs::create_dir(&path).map_err(|error| refused(&path, &error))?;
            self.0.push(path.clone());
            controller.limit(&path, share)?;
            // Started by a process that runs before others, a server would inherit that.
            tool("chrt", &["--all-tasks", "--other", "--pid", "0"], server)?;
            tool(
                "taskset",
                &["--all-tasks", "--pid", "--cpu-list", &(number % processors).to_string()],
                server,
            )?;
            write(&path.join("cgroup.procs"), server)?;
        }
        for &other in others {
            tool("chrt", &["--all-tasks", "--rr", "--pid", "1"], other)?;
        }
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for path in &self.0 {
            for _ in 0..REMOVALS {
                match fs::remove_dir(path) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(REMOVAL_PAUSE);
                    }
                    // If it can't be removed, the next run tries again.
                    _ => break,
                }
            }
        }
    }
}

/// The controller of processor time.
#[derive(Debug, PartialEq, Eq)]
struct Controller {
    root: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Controller {
    /// Finds the controller of version 1 or 2, whichever is mounted.
    fn find(mount: &Path) -> Result<Self, Failure> {
        let first = ["cpu", "cpu,cpuacct"].map(|name| mount.join(name));
        if let Some(root) = first.into_iter().find(|root| root.join("cpu.cfs_quota_us").exists()) {
            return Ok(Self { root, version: Version::V1 });
        }
        let has_cpu = |root: &PathBuf| {
            let controllers = fs::read_to_string(root.join("cgroup.controllers"));
            controllers.is_ok_and(|names| names.split_whitespace().any(|name| name == "cpu"))
        };
        let second = [mount.join("unified"), mount.to_owned()].into_iter().find(has_cpu);
        let root = second.ok_or_else(|| {
            let mount = mount.display();
            Failure::failed(format!(
                "--spin needs the cpu controller of control groups: expected {mount}/cpu/cpu.cfs_quota_us (version 1), or cpu \
                 in {mount}/cgroup.controllers (version 2), and found neither; mount one"
            ))
        })?;
        Ok(Self { root, version: Version::V2 })
    }

    /// Gives a group a share of one processor.
    fn limit(&self, group: &Path, share: f64) -> Result<(), Failure> {
        let (quota_us, period_us) = quota(share);
        match self.version {
            Version::V1 => {
                write(&group.join("cpu.cfs_period_us"), period_us)?;
                write(&group.join("cpu.cfs_quota_us"), quota_us)?;
                write(&group.join("cpu.shares"), 100 * 1_024)
            }
            Version::V2 => {
                write(&self.root.join("cgroup.subtree_control"), "+cpu")?;
                write(&group.join("cpu.max"), format_args!("{quota_us} {period_us}"))?;
                write(&group.join("cpu.weight"), 100 * 100)
            }
        }
    }

    /// Removes the groups of benchmarks that were killed. A group with processes stays.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
            if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
                // Another run may remove it at the same time.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Returns the quota and the period of a share of one processor, in microseconds.
fn quota(share: f64) -> (u64, u64) {
    let period_us = PERIOD_MIN_US.max(QUOTA_MIN_US / share).ceil();
    ((period_us * share).round().max(QUOTA_MIN_US) as u64, period_us as u64)
}

fn write(path: &Path, text: impl Display) -> Result<(), Failure> {
    fs::write(path, text.to_string()).map_err(|error| refused(path, &error))
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::failed(format!(
        "can't write {path}: {error}; --spin needs root's rights and writable control groups"
    ))
}

/// Runs a tool of util-linux on a process.
fn tool(name: &str, words: &[&str], process: u32) -> Result<(), Failure> {
    let command = Command::new(name).args(words).arg(process.to_string()).stdout(Stdio::null()).output();
    let problem = match command {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::failed(format!("can't run {name} {} {process}: {problem}", words.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_the_share_of_a_short_period_that_the_kernel_accepts() {
        assert_eq!(quota(0.5), (2_500, 5_000));
        assert_eq!(quota(0.1), (1_000, 10_000));
        assert_eq!(quota(0.08), (1_000, 12_500));
    }

    #[test]
    fn either_version_of_the_controller_is_found_and_neither_is_an_error() {
        let mount = tempfile::tempdir().unwrap();
        let at = mount.path();
        let refused = Controller::find(at).unwrap_err().to_string();
        assert!(refused.contains("found neither"), "{refused}");
        fs::write(at.join("cgroup.controllers"), "cpuset memory").unwrap();
        assert!(Controller::find(at).is_err(), "version 2 without cpu");
        fs::write(at.join("cgroup.controllers"), "cpuset cpu memory").unwrap();
        let second = Controller { root: at.to_owned(), version: Version::V2 };
        assert_eq!(Controller::find(at).unwrap(), second);
        fs::create_dir(at.join("cpu")).unwrap();
        fs::write(at.join("cpu/cpu.cfs_quota_us"), "-1").unwrap();
        assert_eq!(Controller::find(at).unwrap().version, Version::V1);
    }

    #[test]
    fn groups_of_ended_benchmarks_are_removed_and_others_stay() {
        let mount = tempfile::tempdir().unwrap();
        let own = format!("{PREFIX}{}-0", std::process::id());
        // No process has the id 0.
        for name in [&own, "bench-polling-0-3", "other"] {
            fs::create_dir(mount.path().join(name)).unwrap();
        }
        Controller { root: mount.path().to_owned(), version: Version::V1 }.remove_leftovers();
        let left = |name: &str| mount.path().join(name).exists();
        assert_eq!([left(&own), left("bench-polling-0-3"), left("other")], [true, false, true]);
    }
}
