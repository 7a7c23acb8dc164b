//! Figures of the process, under the names that Prometheus' own libraries give them.
//!
//! The kernel has them in /proc. On a system without it, and where a file cannot be read, families are left out.

use super::page::Page;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Shows what the process uses, and what it may use.
pub(super) fn show(page: &mut Page) {
    let ticks = clock_ticks_per_second() as f64;
    if let Some(times) = fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Times::parse(&stat)) {
        let help = "Processor time of the process, of user and system.";
        page.single("process_cpu_seconds_total", "counter", help, times.used as f64 / ticks);
        // Read once: the time of the boot changes when somebody sets the clock, but the start of a process does not.
        static BOOTED: OnceLock<Option<u64>> = OnceLock::new();
        if let Some(booted) = *BOOTED.get_or_init(|| figure_of("/proc/stat", "btime ")) {
            let help = "Start of the process, in seconds since 1970.";
            let started = booted as f64 + times.started as f64 / ticks;
            page.single("process_start_time_seconds", "gauge", help, started);
        }
    }
    let mut bytes = |name: &str, help: &str, kib: Option<u64>| {
        if let Some(kib) = kib {
            page.single(name, "gauge", help, kib.saturating_mul(1024));
        }
    };
    bytes(
        "process_resident_memory_bytes",
        "Memory of the process.",
        figure_of("/proc/self/status", "VmRSS:"),
    );
    bytes(
        "process_virtual_memory_bytes",
        "Address space of the process.",
        figure_of("/proc/self/status", "VmSize:"),
    );
    if let Some(limit) = memory_limit() {
        let help = "Memory that the process may use: the least limit of its control groups, or the machine's memory.";
        page.single("treefold_memory_limit_bytes", "gauge", help, limit);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The directory that is being read is open too.
        let open = open.count().saturating_sub(1);
        page.single("process_open_fds", "gauge", "Open file descriptors.", open);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        page.single("process_max_fds", "gauge", "Most open file descriptors.", limit);
    }
}

/// Times of a process, in clock ticks.
#[derive(Debug, PartialEq)]
struct Times {
    used: u64,
    /// Since the machine's start.
    started: u64,
}

impl Times {
    /// Parses `/proc/self/stat`. The second field is the program's name in parentheses, which may contain spaces and
    /// parentheses, so fields are counted from the last one.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { used: field(14)?.checked_add(field(15)?)?, started: field(22)? })
    }
}

/// The number after a key at the beginning of a line.
fn figure_of(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

/// The least limit of the control groups (version 2) that the process is in, or the machine's memory.
fn memory_limit() -> Option<u64> {
    let machine = figure_of("/proc/meminfo", "MemTotal:").map(|kib| kib.saturating_mul(1024));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    least_limit(Path::new("/sys/fs/cgroup"), group).into_iter().chain(machine).min()
}

/// The least limit of a group and the groups around it. A limit that is not a number is none (`max`).
fn least_limit(root: &Path, group: &str) -> Option<u64> {
    let limit = |folder: &Path| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok();
    let folder = root.join(group);
    folder.ancestors().take_while(|folder| folder.starts_with(root)).filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_with_parentheses() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 120 34 0 0 20 0 9 0 5678 99 1";
        let times = Times::parse(&format!("41 (tree) (fold) {rest}")).unwrap();
        assert_eq!(times, Times { used: 154, started: 5678 });
        assert_eq!(Times::parse("41 (treefold) S 1 2"), None);
        assert_eq!(Times::parse(""), None);
    }

    #[test]
    fn memory_limit_is_the_least_of_the_groups_around_the_process() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("system.slice/treefold.service");
        fs::create_dir_all(&group).unwrap();
        assert_eq!(least_limit(root.path(), "system.slice/treefold.service"), None);
        fs::write(group.join("memory.max"), "max\n").unwrap();
        fs::write(root.path().join("system.slice/memory.max"), "4096\n").unwrap();
        fs::write(root.path().join("memory.max"), "8192\n").unwrap();
        assert_eq!(least_limit(root.path(), "system.slice/treefold.service"), Some(4096));
        fs::write(group.join("memory.max"), "1024\n").unwrap();
        assert_eq!(least_limit(root.path(), "system.slice/treefold.service"), Some(1024));
        assert_eq!(least_limit(root.path(), ""), Some(8192));
    }
}
