//! Memory and processors, as the control group of this process has them.

use super::finding::Finding;
use std::fs;
use std::path::{Path, PathBuf};
use treefold::Limits;

const MEMORY: &str = "memory";
const PROCESSORS: &str = "processors";

const CGROUPS: &str = "/sys/fs/cgroup";
/// Memory of a node's program and tables, besides the bytes that its limits bound.
const PROGRAM_BYTES: u64 = 256 << 20;

pub(super) fn check(limits: &Limits, announced: Option<u32>) -> Vec<Finding> {
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = groups_of(Path::new(CGROUPS), &group);
    let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory_total(&text));
    let bound = groups.iter().filter_map(|dir| number(&dir.join("memory.max"))).min();
    let quota = groups
        .iter()
        .filter_map(|dir| quota(&fs::read_to_string(dir.join("cpu.max")).ok()?))
        .reduce(f64::min);
    let online = std::thread::available_parallelism().map_or(1, usize::from);
    vec![memory(total, bound, needed(limits)), processors(online, quota, announced)]
}

/// The folders of the control group that `/proc/self/cgroup` names, and of all above it.
fn groups_of(root: &Path, group: &str) -> Vec<PathBuf> {
    let own = group.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let own = root.join(own);
    own.ancestors().take_while(|dir| dir.starts_with(root)).map(Path::to_owned).collect()
}

fn number(path: &Path) -> Option<u64> {
    // The word `max` is no number, and no bound.
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Processors that a quota as in `cpu.max` allows.
fn quota(text: &str) -> Option<f64> {
    let (allowed, period) = text.trim().split_once(' ')?;
    Some(allowed.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Bytes that a node may hold under full load.
fn needed(limits: &Limits) -> u64 {
    let parts = [
        limits.held_bytes_max,
        limits.kept_bytes_max,
        limits.unfinished_bytes_max,
        limits.clients_outbox_bytes_max,
        limits.operators_bytes_max,
        limits.early_bytes_max,
    ];
    parts.iter().fold(PROGRAM_BYTES, |sum, &part| sum.saturating_add(part as u64))
}

fn memory(total: Option<u64>, bound: Option<u64>, needed: u64) -> Finding {
    let Some(has) = total.into_iter().chain(bound).min() else {
        return Finding::ok(MEMORY, "this system does not say how much there is");
    };
    let from = if bound == Some(has) { "the control group allows" } else { "this machine has" };
    let found =
        format!("{from} {}, and a node under full load may hold {}", mebibytes(has), mebibytes(needed));
    let advice = "give it more memory (MemoryMax= of the unit, the limit of the container), or lower limits.held_bytes_max and \
         limits.clients_outbox_bytes_max";
    if has < needed { Finding::warn(MEMORY, found, advice) } else { Finding::ok(MEMORY, found) }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn processors(online: usize, quota: Option<f64>, announced: Option<u32>) -> Finding {
    let usable = quota.map_or(online as f64, |quota| quota.min(online as f64));
    let announces = announced.map_or(online as f64, f64::from);
    let how = if usable < online as f64 { "the control group allows" } else { "this machine has" };
    let found = format!("{how} {}, and a node announces {announces}", round(usable));
    if announces > usable {
        let advice = format!(
            "set processors = {}: nodes that announce more than they have get more than their share of the work",
            usable.floor().max(1.0)
        );
        return Finding::warn(PROCESSORS, found, advice);
    }
    Finding::ok(PROCESSORS, found)
}

fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn the_smaller_bound_of_memory_counts() {
        let low = memory(Some(64 << 30), Some(512 << 20), 1 << 30);
        assert_eq!(low.level, Level::Warn);
        assert!(low.found.starts_with("the control group allows 512 MiB"), "{low:?}");
        assert_eq!(memory(Some(64 << 30), None, 1 << 30).level, Level::Ok);
        assert_eq!(memory_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
    }

    #[test]
    fn a_quota_below_the_announced_processors_is_a_problem() {
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(processors(8, Some(1.5), None).level, Level::Warn);
        assert_eq!(processors(8, Some(1.5), Some(1)).level, Level::Ok);
        assert_eq!(processors(2, None, Some(4)).level, Level::Warn);
        assert_eq!(processors(2, None, None).level, Level::Ok);
    }

    #[test]
    fn limits_of_the_groups_above_count_too() {
        let groups = groups_of(Path::new("/g"), "0::/a/b\n");
        assert_eq!(groups, [Path::new("/g/a/b"), Path::new("/g/a"), Path::new("/g")]);
    }
}
