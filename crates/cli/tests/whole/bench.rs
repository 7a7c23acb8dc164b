//! Benchmarks run, check their sums, print all figures, and leave no process behind.

use crate::real::{run, treefold, wait_until};
use std::process::Stdio;

#[test]
fn calls_are_measured_over_real_processes() {
    for way in ["", " --front"] {
        let line = format!(
            "bench call --nodes 3 --shape kary:2 --rounds 20 --in-flight 4 --seconds 0.2 -o json{way}"
        );
        let ended = run(&line);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let figures = ended.json();
        assert_eq!((&figures["nodes"], &figures["shape"]), (&3.into(), &"kary:2".into()));
        for name in [
            "roundtrip_us_p50",
            "roundtrip_us_p99",
            "roundtrip_cpu_us",
            "client_roundtrip_cpu_us",
            "waves_per_s",
            "cpu_us_per_wave",
            "client_cpu_us_per_wave",
            "cpu_us_per_wave_and_node",
            "instantiate_ms",
        ] {
            assert!(figures[name].as_f64().is_some_and(|figure| figure > 0.0), "{name} in {figures}");
        }
    }
}

#[test]
fn streams_are_measured_over_real_processes() {
    let ended =
        run("bench stream --backends 3 --shape kary:2 --rounds 20 --in-flight 4 --seconds 0.2 -o json");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let figures = ended.json();
    assert_eq!((&figures["backends"], &figures["shape"]), (&3.into(), &"kary:2".into()));
    let all = figures.as_object().expect("an object");
    let is_given = |(name, figure): (&String, &serde_json::Value)| {
        name == "incomplete_waves" || figure.is_string() || figure.as_f64() > Some(0.0)
    };
    assert!(all.len() > 10 && all.iter().all(is_given), "{figures}");
}

#[test]
fn idle_nodes_are_measured() {
    let figures = run("bench idle --nodes 2 --seconds 0.2 -o json").json();
    assert!(figures["resident_kib"].as_u64() >= figures["private_kib"].as_u64());
    assert!(figures["cpu_percent"].is_number() && figures["threads"].as_u64() >= Some(1));
}

/// Returns the child processes of `parent`.
///
/// The parent's id is the fourth field of `stat`.
fn children_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("procfs is mounted").filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    ids.filter(is_child).collect()
}

#[test]
fn a_killed_benchmark_leaves_no_node_behind() {
    let mut command = treefold();
    command.args("bench idle --nodes 3 --seconds 600".split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bench = command.spawn().unwrap();
    let parent = bench.id();
    wait_until("three nodes run", || children_of(parent).len() == 3);
    let nodes = children_of(parent);
    bench.kill().unwrap();
    bench.wait().unwrap();
    let ended =
        |node: &u32| !std::fs::read(format!("/proc/{node}/cmdline")).is_ok_and(|line| !line.is_empty());
    wait_until("all nodes have ended", || nodes.iter().all(ended));
}
