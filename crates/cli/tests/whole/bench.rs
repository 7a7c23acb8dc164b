//! Benchmarks run, check their sums, print all figures, and leave no process behind.

use crate::real::{run, treefold, wait_until};
use serde_json::Value;
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
        ["incomplete_waves", "inner_processes"].contains(&name.as_str())
            || figure.is_string()
            || figure.as_f64() > Some(0.0)
    };
    assert!(all.len() > 10 && all.iter().all(is_given), "{figures}");
}

#[test]
fn streams_are_measured_over_a_topology_with_inner_processes() {
    for (topology, inner_processes, front_children) in [("kary:3", 3, 3), ("kary:2", 6, 2), ("flat", 0, 8)] {
        let words = format!(
            "bench stream --backends 8 --topology {topology} --rounds 20 --in-flight 4 --seconds 0.2 -o json"
        );
        let ended = run(&words);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let figures = ended.json();
        assert_eq!(
            (&figures["topology"], &figures["shape"]),
            (&topology.into(), &"topology".into()),
            "{figures}"
        );
        let tree = (&figures["inner_processes"], &figures["front_children"]);
        assert_eq!(tree, (&inner_processes.into(), &front_children.into()), "{figures}");
    }
    let refused = run("bench stream --topology kary:2 --shape flat");
    assert_eq!(refused.code, 2);
    let refused = run("bench stream --topology star");
    assert!(refused.code == 2 && refused.stderr.contains("topology is star"), "{}", refused.stderr);
}

#[test]
fn inner_processes_of_a_measured_topology_fold_and_end_with_the_benchmark() {
    let mut command = treefold();
    let line = "bench stream --backends 4 --topology kary:2 --plain --rounds 10000000";
    command.args(line.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bench = command.spawn().unwrap();
    let all = |parents: &[u32]| parents.iter().copied().flat_map(children_of).collect::<Vec<u32>>();
    wait_until("four back-ends run", || all(&children_of(bench.id())).len() == 4);
    let inner = children_of(bench.id());
    assert_eq!(inner.len(), 2);
    for &process in &inner {
        // The address of an inner process is on the command lines of its children.
        let addr = word_after("--attach", children_of(process)[0]);
        let stream = || {
            let status = run(&format!("status -o json --at {addr}"));
            let all = if status.code == 0 { status.json()["streams"].clone() } else { Value::Null };
            // A stream may just have been closed for the next one.
            all.as_array().and_then(|all| all.last().cloned()).unwrap_or_default()
        };
        let figure = |stream: &Value, name: &str| stream["traffic"][name].as_u64().unwrap_or(0);
        wait_until("waves have passed", || figure(&stream(), "waves") > 10);
        let stream = stream();
        assert_eq!((&stream["children"], &stream["endpoints"]), (&2.into(), &2.into()), "{stream}");
        let (came, went) = (figure(&stream, "packets_in"), figure(&stream, "packets_up"));
        assert!(
            went == figure(&stream, "waves") && came >= 2 * went,
            "it folds two packets to one: {stream}"
        );
    }
    let back_ends = all(&inner);
    bench.kill().unwrap();
    bench.wait().unwrap();
    wait_until("all processes have ended", || inner.iter().chain(&back_ends).all(has_ended));
}

/// Returns the word after another one on a process's command line.
fn word_after(word: &str, process: u32) -> String {
    let line = std::fs::read_to_string(format!("/proc/{process}/cmdline")).expect("it runs");
    let mut words = line.split('\0').skip_while(|found| *found != word);
    words.nth(1).expect("the word has a value").to_owned()
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
    wait_until("all nodes have ended", || nodes.iter().all(has_ended));
}

/// True if a process has ended, although nobody may have waited for it.
fn has_ended(process: &u32) -> bool {
    !std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}
