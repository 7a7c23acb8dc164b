//! Slow nodes, as real processes: calls choose by time, so a slow replica gets hardly any partitions.

use crate::real::{NodeProcess, run_args, wait_for_members};
use std::path::Path;

/// Starts a node with two of the four partitions of a tool whose locals leave a line in `log`, and take `seconds`.
fn serving(partitions: &str, seconds: &str, log: &Path, seed: Option<&NodeProcess>) -> NodeProcess {
    let script = format!("echo run >> {}; sleep {seconds}; echo 1", log.display());
    let serve = format!("exec=tool:command=sh -c '{script}':reduce=sum-lines:partitions={partitions}/4");
    let mut args = vec!["--serve", &serve, "--processors", "2"];
    args.extend(seed.iter().flat_map(|seed| ["--join", &seed.addr]));
    NodeProcess::start(&args)
}

fn runs(log: &Path) -> usize {
    std::fs::read_to_string(log).map_or(0, |text| text.lines().count())
}

#[test]
fn idle_slow_replica_is_avoided_by_every_policy_that_learns() {
    const CALLS: usize = 20;
    for policy in ["polled:3", "prequal", "prequal_inline", "announced"] {
        let directory = tempfile::tempdir().expect("a directory");
        let log = |name: &str| directory.path().join(name);
        let first = serving("0-1", "0", &log("a"), None);
        let others = [
            serving("0-1", "0", &log("b"), Some(&first)),
            serving("2-3", "0", &log("c"), Some(&first)),
            serving("2-3", "0.3", &log("d"), Some(&first)),
        ];
        wait_for_members(&first.addr, 1 + others.len());
        for _ in 0..CALLS {
            let args = [
                "call",
                "tool/run",
                "--at",
                &first.addr,
                "--params",
                "null",
                "--policy",
                policy,
                "--deadline",
                "20s",
            ];
            let ended = run_args(&args);
            assert_eq!(ended.stdout.lines().next(), Some("4"), "{policy}: {} {}", ended.stdout, ended.stderr);
        }
        let (c, d) = (runs(&log("c")), runs(&log("d")));
        assert_eq!(c + d, 2 * CALLS, "{policy}: no partition ran twice");
        assert!(d <= 6, "{policy}: the slow replica ran {d} of {} locals", 2 * CALLS);
    }
}
