//! A tool's workloads run over real processes, are checked, and print their figures.

use crate::real::run;
use serde_json::Value;

fn entries(line: &str) -> Vec<Value> {
    let ended = run(line);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.json().as_array().expect("an array").clone()
}

fn figure(entry: &Value, name: &str) -> f64 {
    entry[name].as_f64().unwrap_or_else(|| panic!("{name} in {entry}"))
}

#[test]
fn startup_has_all_phases_with_and_without_filters() {
    let starts =
        entries("tool startup --backends 40 --per-process 8 --shape flat,kary:2 --rounds 2 --runs 1 -o json");
    assert_eq!(starts.len(), 2);
    for (start, shape) in starts.iter().zip(["flat", "kary:2"]) {
        assert_eq!((&start["shape"], &start["processes"]), (&shape.into(), &5.into()));
        assert!(figure(start, "classes") > 1.0, "classes are more than one in {start}");
        let phases = start["phases"].as_array().expect("phases");
        let names: Vec<&str> = phases.iter().filter_map(|phase| phase["phase"].as_str()).collect();
        assert_eq!(names.first(), Some(&"open_streams"));
        assert_eq!((names.len(), names.last()), (11, Some(&"report_done")));
        assert!(figure(start, "total_ms") > 0.0 && figure(start, "cpu_ms") > figure(start, "front_cpu_ms"));
    }
}

#[test]
fn samples_are_processed_and_every_sum_is_right() {
    let all = entries(
        "tool metrics --backends 6 --per-process 2 --shape flat,kary:2 --rate 5,20 --warm-up 0.4 --seconds 1 \
         --patience 30s -o json",
    );
    let rates: Vec<f64> = all.iter().map(|entry| figure(entry, "rate_per_s")).collect();
    assert_eq!(rates, [5.0, 5.0, 20.0, 20.0]);
    for entry in &all {
        assert_eq!(figure(entry, "processed_share"), 1.0, "{entry}");
        assert_eq!(figure(entry, "offered_per_s"), figure(entry, "rate_per_s") * 6.0 * 32.0);
        assert!(figure(entry, "lag_ms_p50") <= figure(entry, "lag_ms_p99"));
    }
}

#[test]
fn measured_clocks_are_within_their_bounds() {
    let all = entries(
        "tool skew --backends 6 --per-process 2 --shape kary:2 --drift 0 --delay 1ms --rounds 4 -o json",
    );
    let methods: Vec<&str> = all.iter().filter_map(|entry| entry["method"].as_str()).collect();
    assert_eq!(methods, ["filter, kary:2", "direct, least delay", "direct, least skew"]);
    for entry in &all {
        assert_eq!(figure(entry, "within_bound"), 1.0, "{entry}");
        assert!(figure(entry, "error_us_mean") <= figure(entry, "error_us_max"));
    }
}

#[test]
fn invalid_arguments_are_refused_before_the_start() {
    for (line, said) in [
        ("tool metrics --rate 0", "allowed: above 0"),
        ("tool startup --backends 65536 --per-process 1", "--per-process"),
        ("tool skew --skew 2h", "allowed: at most 4294 s"),
        ("tool startup --shape cube", "kary:K"),
    ] {
        let ended = run(line);
        assert_eq!(ended.code, 2, "{line}");
        assert!(ended.stderr.contains(said), "{line}: {}", ended.stderr);
    }
}
